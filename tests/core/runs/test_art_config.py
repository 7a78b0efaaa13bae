"""The `config.yaml` of a training with ART: every key is read, every wrong one is named with its
place."""

import json
from pathlib import Path

import pytest

from hudtui.core.errors import InputError
from hudtui.core.runs.art_config import ArtConfig, parse_art_config, read_art_config

ROOT = Path(__file__).parents[3]
SEED = """\
environments:
  my_env:
    mcp_config:
      local:
        command: "docker"
        args: ["run", "my-mcp-server"]
    max_turns: 15
  remote_env:
    mcp_config:
      ssh: {command: ssh, args: ["user@host", "docker", "run", "mcp-server"]}
    dataset: tasks.json
training:
  default:
    learning_rate: 1e-5
    rollouts_per_group: 4
  2048: {num_training_scenarios: 20}
"""


SERVER = "environments:\n  a:\n    mcp_config:\n      local:"


def test_the_file_of_the_integration():
    found = parse_art_config(SEED, name="config.yaml")
    own = found.environment("my_env")
    assert own.mcp_config == {"local": {"command": "docker", "args": ["run", "my-mcp-server"]}}
    assert own.max_turns == 15
    assert found.environment("remote_env").dataset == "tasks.json"
    assert found.setting("my_env", "learning_rate") == 1e-5  # which YAML 1.1 takes for a text
    assert found.setting("2048", "scenarios") == 20  # a key that looks like a number
    assert found.setting("2048", "num_generations") == 4
    assert found.setting("my_env", "scenarios") is None


def test_the_file_that_ships_has_every_key_and_no_unknown_one():
    found = read_art_config(ROOT / "configs" / "art.yaml")
    assert set(found.environments) == {"2048", "browser", "gmail"}
    assert (
        found.setting("browser", "num_generations") == 3
        and found.setting("browser", "scenarios") == 20
    )
    assert found.targets["2048"] == (128, 256, 512, 1024, 2048)
    assert (found.gpu_memory_utilization, found.enforce_eager, found.backend) == (
        0.8,
        True,
        "local",
    )
    assert (found.wandb, found.wandb_project, found.log_level) == (False, "hud-art", "INFO")
    assert (found.save_every, found.eval_every) == (5, 5)
    assert found.base_models["large"] == "Qwen/Qwen2.5-14B-Instruct"


@pytest.mark.parametrize(
    ("text", "line", "what", "fix"),
    [
        ("enviroments: {}", 1, "no key 'enviroments'", "environments"),
        ("environments:\n  a:\n    max_turn: 3", 3, "a has no key 'max_turn'", "max_turns"),
        (
            "environments:\n  a:\n    max_turns: many",
            3,
            "max_turns is a whole number of 1 or more, not 'many'",
            None,
        ),
        ("environments: 3", 1, "environments is a mapping", None),
        ("environments:\n  a: [x]", 2, "a is a mapping", None),
        ("environments:\n  a:\n    dataset: 3", 3, "dataset is text, not 3", None),
        ("environments:\n  a:\n    mcp_config: docker", 3, "mcp_config is a mapping", None),
        ("environments:\n  a:\n    mcp_config: {}", 3, "holds no MCP servers", "command"),
        (f"{SERVER} docker", 4, "a server must be an object", None),
        (f"{SERVER}\n        args: [x]", 4, "a server needs `command`", None),
        (f"{SERVER}\n        command: ''", 4, "a server needs `command`", None),
        (f"{SERVER}\n        command: 3", 4, "a server needs `command`", None),
        (
            f"{SERVER}\n        command: x\n        url: http://y",
            6,
            "is an address of another",
            "127.0.0.1",
        ),
        (
            f"{SERVER}\n        command: x\n        args: --fast",
            6,
            "this must be a list of texts",
            None,
        ),
        (
            f"{SERVER}\n        command: x\n        args: [a, [b]]",
            6,
            "this must be a list of texts",
            None,
        ),
        (f"{SERVER}\n        command: x\n        cwd: 3", 6, "this must be text", None),
        (
            f"{SERVER}\n        command: x\n        env: [A]",
            6,
            "this must be an object of texts",
            None,
        ),
        (
            f"{SERVER}\n        command: x\n        env:\n          A: [1]",
            7,
            "this must be text",
            None,
        ),
        (f"{SERVER}\n        command: x\n        arg: [y]", 6, "no key 'arg'", "args"),
        (f"{SERVER}\n        url: localhost/mcp", 5, "an address begins with http://", None),
        (f"{SERVER}\n        url: 3", 5, "this must be text", None),
        (
            f"{SERVER}\n        url: http://x\n        headers: [A]",
            6,
            "this must be an object of texts",
            None,
        ),
        (f"{SERVER}\n        url: http://x\n        args: [A]", 6, "no key 'args'", "headers"),
        (
            "training:\n  default:\n    learning_rate: fast",
            3,
            "learning_rate is a number above 0 and at most 1, not 'fast'",
            None,
        ),
        ("training:\n  default:\n    learning_rate: 5", 3, "at most 1, not 5", None),
        (
            "training:\n  default:\n    rollouts_per_group: 1",
            3,
            "a whole number of 2 or more, not 1",
            None,
        ),
        (
            "training:\n  default:\n    max_seq_length: 4",
            3,
            "a whole number of 16 or more, not 4",
            None,
        ),
        ("training:\n  default:\n    ruler: true", 3, "ruler is text, not True", None),
        ("training:\n  default:\n    base_model: ''", 3, "base_model is text, not ''", None),
        ("training:\n  base_models:\n    small: 3", 3, "small is text, not 3", None),
        (
            "training:\n  default:\n    learning_rate: .nan",
            3,
            "learning_rate is a number above 0",
            None,
        ),
        (
            "training:\n  default:\n    learning_rate: .inf",
            3,
            "learning_rate is a number above 0",
            None,
        ),
        (
            "training:\n  default:\n    learning_rate: -1",
            3,
            "learning_rate is a number above 0",
            None,
        ),
        (
            "training:\n  default:\n    rollout_per_group: 4",
            3,
            "no key 'rollout_per_group'",
            "rollouts_per_group",
        ),
        ("training:\n  2049: {}", 2, "training has no key '2049'", "2048"),
        ("training: []", 1, "training is a mapping", None),
        ("scenarios:\n  2048_target: [1]", 2, "no key '2048_target'", "2048_targets"),
        ("scenarios:\n  2048_targets: 128", 2, "a list of targets", None),
        ("resources:\n  gpu_memory_utilization: 7", 2, "above 0 and at most 1, not 7", None),
        ("resources:\n  gpu_memory_utilization: 0.01", 2, "too small a share", None),
        ("resources:\n  backend:\n    type: cloud", 3, "'cloud' is no backend", "skypilot"),
        ("resources:\n  backend:\n    in_process: maybe", 3, "in_process is true or false", None),
        ("monitoring:\n  wandb:\n    project: ../x", 3, "not a valid name of a project", "Letters"),
        ("resources:\n  skypilot:\n    gpu: 3", 3, "gpu is text, not 3", None),
        ("monitoring:\n  log_level: LOUD", 2, "'LOUD' is no level", "DEBUG"),
        ("monitoring:\n  wandb:\n    enabled: 1", 3, "enabled is true or false", None),
        (
            "monitoring:\n  validate_every: 0",
            2,
            "validate_every is a whole number of 1 or more",
            None,
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text, line, what, fix):
    with pytest.raises(InputError) as caught:
        parse_art_config(text, name="config.yaml")
    error = caught.value
    assert error.where is not None and (error.where.file, error.where.line) == ("config.yaml", line)
    assert what in error.what
    assert fix is None or (error.fix is not None and fix in error.fix)


def test_servers_are_kept_as_tasks_name_them():
    text = (
        f"{SERVER}\n        command: serve\n        args: [--port, 8080]\n        env: {{DEBUG: "
        "true}"
    )
    assert parse_art_config(text, name="c").environment("a").mcp_config == {
        "local": {"command": "serve", "args": ["--port", "8080"], "env": {"DEBUG": "true"}}
    }


def test_a_server_that_is_started_and_reached_at_its_address():
    server = {
        "command": "serve",
        "args": ["${EPISODE_PORT}"],
        "url": "http://127.0.0.1:${EPISODE_PORT}/mcp",
        "headers": {"X-Room": "1"},
    }
    text = f"{SERVER} {json.dumps(server)}"
    assert parse_art_config(text, name="c").environment("a").mcp_config == {"local": server}


def test_an_unknown_environment_names_those_that_there_are():
    with pytest.raises(InputError) as caught:
        parse_art_config(SEED, name="config.yaml").environment("my_emv")
    assert caught.value.what == "Unknown environment: my_emv"
    assert "2048, browser, gmail, my_env, remote_env" in (caught.value.why or "")
    assert caught.value.fix == "Did you mean my_env?"
    with pytest.raises(InputError, match="Unknown environment"):
        ArtConfig().environment("my_env")


def test_an_empty_file_is_a_training_with_the_built_in_values():
    assert parse_art_config("", name="c").environment("gmail").dataset is None
