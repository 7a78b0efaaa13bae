from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from hudtui.cli.app import build

CONFIGS = Path(__file__).parents[2] / "configs"

WRONG = """\
job: {name: "x"}
system_prompt: |
  - left(): Go left
    Usage: <tool>left()</tool>
  - done(): End
parser: {use_thinking: true}
action_mappings:
  left:
    _tool: mvoe   # a slip
    direction: left
defaults: {max_turns: 5}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["lint", *arguments])


@pytest.fixture
def wrong(own_world: Path) -> Path:
    path = own_world / "wrong.yaml"
    path.write_text(WRONG)
    return path


@pytest.fixture
def analysis(own_world: Path) -> str:
    result = CliRunner().invoke(build(), ["env", "analyze", "text-2048", "--json"])
    assert result.exit_code == 0, result.output
    (own_world / "analysis.json").write_text(result.stdout)
    return "analysis.json"


@pytest.mark.parametrize("name", ["2048.yaml", "default.yaml"])
def test_the_shipped_configurations_are_clean(name: str) -> None:
    result = run(str(CONFIGS / name))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "nothing to report\n", "")


def test_2048_fits_the_bundled_environment(analysis: str) -> None:
    for arguments in (("--analysis", analysis), ("--env", "text-2048")):
        result = run(str(CONFIGS / "2048.yaml"), *arguments, "--json")
        assert result.exit_code == 0
        assert json.loads(result.stdout) == {
            "file": str(CONFIGS / "2048.yaml"),
            "findings": [],
            "fixed": 0,
            "ok": True,
        }


def test_findings_read_like_a_compilers(wrong: Path, analysis: str) -> None:
    result = run("wrong.yaml", "--analysis", analysis)
    assert result.exit_code == 1
    finding = (
        "wrong.yaml:9:12: error unknown-tool left: the environment has no tool `mvoe`; did you "
        "mean `move`?\n"
    )
    assert result.stdout.startswith(finding)
    assert result.stderr == "" and result.stdout.endswith("1 error; --fix can repair 1\n"), (
        "findings and verdict on one stream"
    )
    assert wrong.read_text() == WRONG


def test_without_an_environment_it_is_checked_against_itself(wrong: Path) -> None:
    assert run("wrong.yaml").exit_code == 0


def test_json(wrong: Path, analysis: str) -> None:
    result = run("wrong.yaml", "--analysis", analysis, "--json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert (data["file"], data["fixed"], data["ok"]) == ("wrong.yaml", 0, False)
    (finding,) = data["findings"]
    assert finding["fix"] == {
        "title": "call `move`",
        "edits": [{"line": 9, "column": 12, "end_line": 9, "end_column": 16, "text": "move"}],
    }
    assert {
        key: finding[key]
        for key in ("code", "severity", "line", "column", "end_column", "mapping", "parameter")
    } == {
        "code": "unknown-tool",
        "severity": "error",
        "line": 9,
        "column": 12,
        "end_column": 16,
        "mapping": "left",
        "parameter": None,
    }


def test_fix(wrong: Path, analysis: str) -> None:
    result = run("wrong.yaml", "--analysis", analysis, "--fix")
    assert result.exit_code == 0
    assert (result.stderr, result.stdout) == (
        "fixed: unknown-tool left: call `move`\n",
        "nothing to report\n",
    )
    assert wrong.read_text() == WRONG.replace("mvoe", "move")
    again = run("wrong.yaml", "--analysis", analysis, "--fix", "--json")
    assert json.loads(again.stdout)["fixed"] == 0 and wrong.read_text() == WRONG.replace(
        "mvoe", "move"
    )


def test_warnings_alone_are_no_failure(wrong: Path) -> None:
    wrong.write_text(WRONG.replace('job: {name: "x"}\n', ""))
    result = run("wrong.yaml")
    assert result.exit_code == 0 and result.stdout.startswith(
        "wrong.yaml:1:1: warning no-job-name "
    )


def test_text_that_is_no_yaml(wrong: Path) -> None:
    wrong.write_text("a: [\n")
    result = run("wrong.yaml", "--json")
    assert result.exit_code == 1
    assert [finding["code"] for finding in json.loads(result.stdout)["findings"]] == ["yaml"]


def test_control_sequences_never_reach_the_terminal(wrong: Path) -> None:
    wrong.write_text(
        'action_mappings:\n  "a\\e[2Jb": {_tool: "\\e]0;x\\a", _parser: 3}\nsystem_prompt: '
        '"<tool>a\\e[2J(</tool> done()"\n'
    )
    result = run("wrong.yaml")
    assert result.exit_code == 1 and "\x1b" not in result.output and "\x07" not in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("missing.yaml",),
        (".",),
        ("wrong.yaml", "--analysis", "missing.json"),
        ("wrong.yaml", "--analysis", "wrong.yaml"),
        ("wrong.yaml", "--env", "no such thing!"),
        ("wrong.yaml", "--env", "text-2048", "--analysis", "x.json"),
        ("wrong.yaml", "--env", "text-2048", "--", "program"),
        (),
    ],
)
def test_what_cannot_be_used(wrong: Path, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output and wrong.read_text() == WRONG


@pytest.mark.parametrize("text", ["[]", '{"source": "x"}', '{"tools": 3}'])
def test_an_analysis_that_is_none(wrong: Path, own_world: Path, text: str) -> None:
    (own_world / "analysis.json").write_text(text)
    result = run("wrong.yaml", "--analysis", "analysis.json")
    assert result.exit_code == 2 and "this is not an analysis of an environment" in result.stderr


OTHERS = {
    "accelerate": (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n"
    ),
    "DeepSpeed": "zero_optimization: {stage: 3}\ntrain_micro_batch_size_per_gpu: 1\n",
    "ART": (
        "environments:\n  my_env: {max_turns: 15}\ntraining:\n  default: {learning_rate: 1e-5}\n"
    ),
}


@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_a_file_that_is_no_configuration_is_refused_by_every_command(
    own_world: Path, kind: str
) -> None:
    (own_world / "other.yaml").write_text(OTHERS[kind])
    task = {"id": "t", "prompt": "Go.", "mcp_config": {"a": {"url": "https://example.org/mcp"}}}
    (own_world / "tasks.json").write_text(json.dumps([task]))
    words = (
        f"this is not a gym configuration: it seems to be a{'n' if kind[0] in 'aA' else ''} {kind} "
        "configuration"
    )
    rl = [
        "rl",
        "-c",
        "other.yaml",
        "--engine",
        "rollouts",
        "--policy",
        "random",
        "--host",
        "local",
        "--dry-run",
    ]
    for command, code in (
        (["lint", "other.yaml"], 1),
        (["parse", "other.yaml"], 2),
        (["eval", "tasks.json", "-c", "other.yaml"], 2),
        (rl, 2),
    ):
        result = CliRunner().invoke(build(), command)
        assert result.exit_code == code and words in result.output, (command, result.output)


@pytest.mark.parametrize(
    "text",
    [
        "model_name_or_path: Qwen/Qwen2.5-3B\nstage: sft\ndo_train: true\nlearning_rate: 1.0e-4\n",
        "base_model: a/b\nadapter: lora\nmicro_batch_size: 2\n",
        "per_device_train_batch_size: 4\nmax_steps: 20\n",
    ],
)
def test_settings_of_another_trainer_get_advice_that_works(own_world: Path, text: str) -> None:
    Path("other.yaml").write_text(text)
    told = run("other.yaml").stdout
    assert "settings of another trainer" in told and "hudtui rl --training FILE" in told
    result = CliRunner().invoke(
        build(), ["rl", "--training", "other.yaml", "--dry-run", "--host", "local"]
    )
    assert (
        f"{text.partition(':')[0]} is model" in result.output or "is batch_size" in result.output
    ), result.output


@pytest.mark.parametrize(
    "name", ["configs/2048.yaml", "./configs/2048.yaml", "configs/default.yaml"]
)
def test_an_example_is_found_in_the_package_where_the_project_has_none(
    own_world: Path, name: str
) -> None:
    result = run(name)
    assert (
        result.exit_code == 0
        and "the example of that name that comes with hudtui is used" in result.stderr
    ), result.output
    for missing in (
        "configs/2049.yaml",
        "2048.yaml",
        "other/configs/2048.yaml",
        str(own_world / "configs/2048.yaml"),
    ):
        assert "there is no such file" in run(missing).stderr
    (own_world / "configs").mkdir()
    (own_world / name).write_text("action_mappings: {left: {_tool: move}}\nzzz: 1\n")
    own = run(name)
    assert "comes with hudtui" not in own.stderr and "zzz" in own.stdout


def test_a_fix_is_never_made_in_the_package(own_world: Path) -> None:
    assert "there is no such file" in run("configs/2048.yaml", "--fix").stderr
