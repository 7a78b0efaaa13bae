"""What a request becomes, with machines and offers that are made up: nothing is reached, nothing is
rented."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from support.compute_world import simulated_prime
from support.model_folder import model_folder

from hudtui.core.compute import hardware as machines
from hudtui.core.compute.hardware import Gpu, Hardware
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.values import Offer, Order, Price
from hudtui.core.environment.cache import save_analysis
from hudtui.core.environment.episode_place import find_template
from hudtui.core.environment.source import parse_source
from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.core.errors import MachineError
from hudtui.core.plain import to_plain
from hudtui.core.runs.plan_text import plan_lines, readiness_text
from hudtui.core.runs.prepare import Preparation, prepare_run
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.site import default_engine
from hudtui.core.runs.store import RunStore
from hudtui.core.settings import load_settings
from hudtui.core.workspace import open_workspace, save_dataset_name
from hudtui.sim import PrimeSimulator


async def _prepare(project: Path, store: RunStore, asked: RunRequest, **more: Any) -> Preparation:
    workspace = open_workspace(project)
    return await prepare_run(
        asked, workspace, load_settings(workspace.folder, workspace.platform), store, **more
    )


def _machine_with(monkeypatch: pytest.MonkeyPatch, *memory_mib: int) -> None:
    async def inspect(host: Any, *, python: str = "python3") -> Hardware:
        gpus = tuple(Gpu(number, "NVIDIA GPU", mib, 0) for number, mib in enumerate(memory_mib))
        return Hardware(
            host.name, python="3.12", cpus=8, gpus=gpus, programs=(("tmux", "/usr/bin/tmux"),)
        )

    monkeypatch.setattr(machines, "inspect", inspect)


@pytest.mark.parametrize("host", ["local", "me@box"])
async def test_the_plan_goes_by_the_memory_of_the_machine_that_is_named(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    asked = RunRequest(host=host, model="Qwen/Qwen2.5-7B-Instruct")
    _machine_with(monkeypatch, 24576, 49152)
    prepared = await _prepare(project, store, asked)
    record = prepared.record
    assert record is not None, prepared.missing
    assert (record.spec.gpus, record.spec.gpu_memory) == (2, 24.0), "the smallest counts"
    _machine_with(monkeypatch, 8192, 8192)
    (missing,) = (await _prepare(project, store, asked)).missing
    assert missing.name == "plan" and "it has 8" in missing.text


@pytest.mark.parametrize("player", [{"policy": "random"}, {"model": "tiny", "rehearse": True}])
async def test_the_dialect_is_said_and_checked_with_the_plan(
    project: Path, store: RunStore, player: dict[str, Any]
) -> None:
    asked = RunRequest(host="local", **player)
    for dialect, words in (("native", "calls in the dialect native"), (None, "")):
        prepared = await _prepare(project, store, replace(asked, dialect=dialect))
        (config,) = [check for check in prepared.checks if check.name == "config"]
        assert config.state == "fine" and ("dialect" in config.text) is bool(words)
        assert words in config.text
    missing = (await _prepare(project, store, replace(asked, dialect="hermess"))).missing
    assert all("did you mean hermes" in check.text for check in missing), missing
    assert "config" in [check.name for check in missing]


async def test_a_prompt_that_teaches_another_form_of_calls_is_told(
    project: Path, store: RunStore
) -> None:
    file = project / "play.yaml"
    file.write_text("system_prompt: Say <tool>left()</tool> or so.\n" + file.read_text())
    asked = RunRequest(host="local", policy="random")
    for dialect in ("native", None):
        prepared = await _prepare(project, store, replace(asked, dialect=dialect))
        warned = [check.text for check in prepared.checks if check.state == "warning"]
        assert any("teaches calls" in text for text in warned) is (dialect is not None)


async def test_many_tokens_of_tools_are_said_with_the_plan(project: Path, store: RunStore) -> None:
    tools = (
        Tool("move", "Push the tiles. " * 2_000, {"type": "object"}),
        Tool("look", "Look.", {"type": "object"}),
    )
    source = parse_source("text-2048", folder=project, lookup={}.get)
    save_analysis(source, Analysis("text-2048", Server("t", "1"), tools=tools))
    rehearsed = RunRequest(host="local", model="tiny", rehearse=True)
    for asked, words in (
        (
            RunRequest(host="local", engine="rollouts", policy="random", dialect="native"),
            "as estimated at 4 characters",
        ),
        (replace(rehearsed, dialect="hermes"), "there is room for"),
    ):
        checks = (await _prepare(project, store, asked)).checks
        (found,) = [one for one in checks if one.name == "config" and one.state == "warning"]
        assert words in found.text, found
    checks = (await _prepare(project, store, rehearsed)).checks
    assert [one.state for one in checks if one.name == "config"] == ["fine"], (
        "text sends no schemas"
    )


async def test_groups_are_refilled_on_one_training_gpu_alone(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = RunRequest(host="me@box", model="Qwen/Qwen2.5-3B-Instruct")
    asked = replace(asked, settings={"refill_groups": 2})
    _machine_with(monkeypatch, 49152, 49152)
    prepared = await _prepare(project, store, asked)
    assert prepared.record is not None, "one of two GPUs serves"
    texts = [line.text for line in plan_lines(prepared.record, store, prepared)]
    assert any("groups without a spread refilled up to 2 times" in text for text in texts)
    _machine_with(monkeypatch, *(4 * [49152]))
    (missing,) = (await _prepare(project, store, asked)).missing
    assert missing.text.startswith("groups are refilled on one training GPU, and this run trains")
    assert missing.fix is not None and missing.fix.startswith("Leave out refill_groups")


def _machine_without_gpu(monkeypatch: pytest.MonkeyPatch, *, gib: float, free: float) -> None:
    async def inspect(host: Any, *, python: str = "python3") -> Hardware:
        programs = (("tmux", "/usr/bin/tmux"),)
        memory = {"memory_bytes": int(gib * 2**30), "memory_free_bytes": int(free * 2**30)}
        return Hardware(host.name, python="3.12", cpus=2, programs=programs, **memory)

    monkeypatch.setattr(machines, "inspect", inspect)


async def test_a_named_model_is_trained_on_a_cpu_where_it_fits(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine_without_gpu(monkeypatch, gib=24, free=20)
    small = {
        "batch_size": 8,
        "max_seq_len": 512,
        "max_tokens": 16,
        "num_generations": 4,
        "max_turns": 2,
    }
    prepared = await _prepare(
        project, store, RunRequest(host="local", model="org/tiny-135M", settings=small, steps=10)
    )
    record = prepared.record
    assert record is not None, prepared.missing
    (memory,) = [check for check in prepared.checks if check.name == "memory"]
    assert (
        memory.state == "warning"
        and "trained on the CPU of this machine; roughly" in memory.text
        and "per step" in memory.text
    )
    assert record.spec.gpus == 0
    names = [stage.name for stage in record.plan.stages]
    train = record.plan.stages[-1]
    assert names == ["bootstrap", "model", "train"] and train.env["CUDA_VISIBLE_DEVICES"] == ""
    assert "rehearse.txt" in " ".join(record.plan.stages[0].argv) and not record.plan.ports
    assert any("without a server" in note for note in record.plan.notes)

    (missing,) = (
        await _prepare(project, store, RunRequest(host="local", model="org/huge-32B"))
    ).missing
    assert (
        missing.name == "memory"
        and "and this machine has 24" in missing.text
        and missing.remedy == "choose-machine"
    )
    (missing,) = (await _prepare(project, store, RunRequest(host="local"))).missing
    assert "has no visible GPU" in missing.text, "the usual model is not meant for a CPU"


async def test_tools_that_take_many_tokens_count_in_the_memory_of_a_cpu(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (project / "play.yaml").open("a") as config:
        config.write("  done: {_parser: {positional: []}}\n")
    _machine_without_gpu(monkeypatch, gib=64, free=60)
    small = {"batch_size": 16, "max_seq_len": 2048, "max_tokens": 16, "max_turns": 2}
    asked = RunRequest(host="local", model="org/tiny-135M", settings=small, dialect="hermes")

    async def said() -> str:
        checks = (await _prepare(project, store, asked)).checks
        (memory,) = [check for check in checks if check.name == "memory"]
        return memory.text

    def gib(text: str) -> int:
        return int(text.partition(" GiB of memory")[0].rpartition(" ")[2])

    source = parse_source("text-2048", folder=project, lookup={}.get)
    texts = []
    for words in (1, 400):
        tool = Tool("move", "Push the tiles. " * words, {"type": "object"})
        save_analysis(source, Analysis("text-2048", Server("t", "1"), tools=(tool,)))
        texts.append(await said())
    few, many = texts
    assert gib(many) > 2 * gib(few), texts


async def test_a_machine_that_was_rented_with_gpus_trains_nothing_on_its_processors(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine_without_gpu(monkeypatch, gib=24, free=20)
    Ledger().reserve(
        Order("mine", Offer("prime", "a", "H100_80GB", 2, Price(3.0))), provider="prime"
    )
    (missing,) = (
        await _prepare(project, store, RunRequest(host="pod:mine", model="org/tiny-135M"))
    ).missing
    assert missing.name == "machine" and "has no visible GPU" in missing.text


async def test_a_rehearsal_may_take_a_model_of_the_user_s(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine_without_gpu(monkeypatch, gib=24, free=20)
    big = RunRequest(host="me@box", rehearse=True, rehearse_model="org/big-70B")
    assert [check.name for check in (await _prepare(project, store, big)).missing] == ["memory"]
    asked = RunRequest(
        host="me@box", model="org/big-70B", rehearse=True, rehearse_model="org/tiny-135M"
    )
    record = (await _prepare(project, store, asked)).record
    assert record is not None
    (recipe,) = [
        json.loads(file.content or "")
        for file in record.plan.files
        if file.path == "files/recipe.json"
    ]
    assert (recipe["model"], recipe["steps"], recipe["warm_start"]) == ("org/tiny-135M", 3, 0)
    assert [stage.name for stage in record.plan.stages] == ["bootstrap", "model", "train"]
    served = replace(asked, gpus="2xA100")
    (missing,) = (await _prepare(project, store, served)).missing
    assert "vLLM for CPUs, which is in no lock file" in missing.text and "--python" in (
        missing.fix or ""
    )
    monkeypatch.setattr(
        "hudtui.core.runs.site.require_python", AsyncMock()
    )  # no machine is reached
    record = (await _prepare(project, store, replace(served, python="/env/bin/python"))).record
    assert record is not None
    fetch, serve, train = record.plan.stages
    assert (
        fetch.name == "model"
        and serve.argv[:3] == ("/env/bin/vllm", "serve", "org/tiny-135M")
        and serve.service
    )
    assert (
        "--enable-lora" in serve.argv
        and "--weight-transfer-config" not in serve.argv
        and serve.env["CUDA_VISIBLE_DEVICES"] == ""
    )
    assert train.env["HUDTUI_VLLM_URL"] == f"http://127.0.0.1:{record.plan.ports[0].number}"


async def test_a_plan_that_is_only_read_needs_no_key_and_leaves_no_connection(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[PrimeProvider] = []
    close = PrimeProvider.close

    async def closing(self: PrimeProvider) -> None:
        closed.append(self)
        await close(self)

    monkeypatch.setattr(PrimeProvider, "close", closing)
    with simulated_prime(monkeypatch) as sim:
        asked = RunRequest(engine="rollouts", policy="random", provider="prime", gpus="H100")
        missing = (await _prepare(project, store, asked)).missing
        assert [check.remedy for check in missing] == ["make-key"], missing
        prepared = await _prepare(project, store, asked, starts=False)
        assert (
            prepared.record is not None
            and not prepared.missing
            and prepared.record.spec.rent is not None
        )
        assert len(closed) == 2 and not sim.alive


def _needing(project: Path, **server: Any) -> None:
    tasks = json.loads((project / "tasks.json").read_text())
    for task in tasks:
        task["mcp_config"] = {"game": server}
    (project / "tasks.json").write_text(json.dumps(tasks))


async def test_a_run_starts_only_if_something_judges_its_tasks(
    project: Path, store: RunStore
) -> None:
    tasks = json.loads((project / "tasks.json").read_text())
    del tasks[2]["evaluate_tool"]
    (project / "tasks.json").write_text(json.dumps(tasks))
    asked = RunRequest(engine="rollouts", policy="random")
    (missing,) = (await _prepare(project, store, asked)).missing
    assert "t2 has no evaluate_tool, and play.yaml no rubric.reward" in missing.text
    (project / "rewards.py").write_text("def kept(episode, task):\n    return 1.0\n")
    with (project / "play.yaml").open("a") as config:
        config.write("rubric: {reward: 'rewards.py:kept'}\n")
    assert not (await _prepare(project, store, asked)).missing


def _judged_by(project: Path, **judge: Any) -> None:
    asked = {"rubric": "Is it polite?", "model": "m", **judge}
    tasks = json.loads((project / "tasks.json").read_text())
    for task in tasks:
        task.pop("evaluate_tool", None)
        task["evaluate"] = [{"judge": asked}]
    (project / "tasks.json").write_text(json.dumps(tasks))


@pytest.mark.parametrize("engine", ["rollouts", "trl"])
async def test_the_judges_of_tasks_are_in_the_checks_and_their_keys_travel_as_others_do(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    _judged_by(project, endpoint="https://judge.test/v1", key="JUDGE_API_KEY")
    _machine_with(monkeypatch, 81920, 81920)
    asked = RunRequest(host="me@box", engine=engine, policy="random")
    prepared = await _prepare(project, store, asked)
    assert prepared.record is None
    [lacking] = prepared.missing
    assert lacking.name == "judge" and lacking.options == ("JUDGE_API_KEY",)
    assert "the judge m at https://judge.test/v1 needs it" in lacking.text
    monkeypatch.setenv("JUDGE_API_KEY", "sk-judge-0123456789")
    prepared = await _prepare(project, store, asked)
    assert prepared.record is not None, prepared.missing
    assert prepared.record.spec.secrets == ("JUDGE_API_KEY",)
    [check] = [one for one in prepared.checks if one.name == "judge"]
    assert check.state == "warning"
    assert check.text.startswith("m at https://judge.test/v1 with JUDGE_API_KEY judges 4 tasks")
    plan = json.dumps(to_plain(prepared.record.plan), default=str)
    assert "sk-judge-0123456789" not in plan


async def test_a_judge_of_the_settings_takes_its_address_along(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _judged_by(project)
    _machine_with(monkeypatch, 81920, 81920)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.test/v1")
    asked = RunRequest(host="me@box", engine="trl")
    record = (await _prepare(project, store, asked)).record
    assert record is not None
    assert record.spec.secrets == ("OPENAI_API_KEY",)
    assert record.spec.variables == {"OPENAI_BASE_URL": "https://models.test/v1"}


async def test_a_judge_of_this_computer_is_no_judge_of_a_run_elsewhere(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _judged_by(project, endpoint="http://127.0.0.1:8000/v1")
    here = RunRequest(host="local", engine="rollouts", policy="random")
    assert not (await _prepare(project, store, here)).missing
    _machine_with(monkeypatch, 81920, 81920)
    there = RunRequest(host="me@box", engine="rollouts", policy="random")
    [refused] = (await _prepare(project, store, there)).missing
    assert refused.name == "judge" and "listens on this computer alone" in refused.text


@pytest.mark.parametrize("engine", ["rollouts", "trl"])
async def test_a_variable_of_the_tasks_without_a_value_keeps_the_run_from_starting(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    url = "https://example.org/mcp?team=${TEAM}&size=${SIZE:-4}"
    _needing(
        project, url=url, headers={"Authorization": "Bearer $HUD_API_KEY", "X": "$HUD_API_KEY"}
    )
    _machine_with(monkeypatch, 81920, 81920)
    asked = RunRequest(host="me@box", engine=engine, policy="random")
    prepared = await _prepare(project, store, asked)
    assert prepared.record is None
    assert {(check.remedy, check.options) for check in prepared.missing} == {
        ("set-key", ("HUD_API_KEY",)),
        ("set-key", ("TEAM",)),
    }
    assert {check.fix for check in prepared.missing} == {
        "hudtui settings set HUD_API_KEY",
        "hudtui settings set TEAM",
    }
    (project / ".env").write_text("HUD_API_KEY=\nTEAM=red\n")
    (missing,) = (await _prepare(project, store, asked)).missing
    assert missing.options == ("HUD_API_KEY",), "an empty value is none"
    (project / ".env").write_text("HUD_API_KEY=your-hud-api-key\nTEAM=red\n")
    (missing,) = (await _prepare(project, store, asked)).missing
    assert "placeholder" in missing.text and missing.remedy == "set-key"
    (project / ".env").write_text("HUD_API_KEY=sk-hud-0123456789\nTEAM=red\n")
    prepared = await _prepare(project, store, asked)
    assert prepared.record is not None, prepared.missing
    assert prepared.record.spec.secrets == ("HUD_API_KEY",) and prepared.record.spec.variables == {
        "TEAM": "red"
    }


async def test_a_machine_gets_what_the_telemetry_of_its_job_needs(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = (
        "HUD_API_KEY=sk-hud-0123456789\nHUD_TELEMETRY_URL=https://traces.example/api\n"
        "HUD_CLIENT_TIMEOUT=90\n"
    )
    (project / ".env").write_text(values)
    asked = RunRequest(host="me@box", engine="rollouts", policy="random")
    (config,) = project.glob("*.yaml")
    without = config.read_text()
    config.write_text("job: {name: Night run}\n" + without)
    _machine_with(monkeypatch, 81920)
    spec = (await _prepare(project, store, asked)).record.spec
    assert spec.secrets == ("HUD_API_KEY",)
    assert spec.variables == {
        "HUD_TELEMETRY_URL": "https://traces.example/api",
        "HUD_CLIENT_TIMEOUT": "90",
    }
    (project / ".env").write_text(values + "HUD_TELEMETRY_ENABLED=false\n")
    off = (await _prepare(project, store, asked)).record.spec
    assert off.secrets == () and off.variables == {"HUD_CLIENT_TIMEOUT": "90"}
    (project / ".env").write_text(values)
    config.write_text(without)
    assert (await _prepare(project, store, asked)).record.spec.secrets == ()


async def test_a_variable_in_other_letters_is_the_one_that_is_set(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _needing(
        project, url="https://example.org/mcp", headers={"Authorization": "Bearer $hud_API_KEY"}
    )
    (project / ".env").write_text("HUD_API_KEY=sk-hud-0123456789\n")
    _machine_with(monkeypatch, 81920, 81920)
    assert not (await _prepare(project, store, RunRequest(host="me@box"))).missing


async def test_how_a_server_is_reached_is_judged_by_the_server_and_not_by_its_name(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = json.loads((project / "tasks.json").read_text())
    for task in tasks:
        task["mcp_config"] = {
            "has to be a tunnel": {"url": "https://example.org/mcp"},
            "far": {"command": "uvx"},
            "listens there": {
                "command": "uvx",
                "args": ["server", "${EPISODE_PORT}"],
                "url": "http://127.0.0.1:${EPISODE_PORT}/mcp",
            },
        }
    (project / "tasks.json").write_text(json.dumps(tasks))
    _machine_with(monkeypatch, 81920, 81920)
    checks = (await _prepare(project, store, RunRequest(host="me@box"))).checks
    routes = [check for check in checks if check.name == "environment"]
    assert [check.state for check in routes] == ["fine", "warning", "warning"]
    assert "listens there: started on the machine by `uvx`" in routes[2].text


async def test_templates_of_episodes_travel_and_what_episodes_share_is_said(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "data" / "sub").mkdir(parents=True)
    (project / "data" / "sub" / "a.txt").write_text("alpha\n")
    here = RunRequest(host="local", engine="rollouts", policy="random")
    _needing(project, command="server", args=["data"])
    shared = [
        one for one in (await _prepare(project, store, here)).checks if one.name == "isolation"
    ]
    assert [one.state for one in shared] == ["warning"] and "all episodes use data" in shared[
        0
    ].text

    _needing(project, command="server", args=["${EPISODE_DIR:data}", "${EPISODE_PORT}"])
    monkeypatch.setenv("EPISODE_PORT", "9")
    _machine_with(monkeypatch, 81920, 81920)
    prepared = await _prepare(project, store, RunRequest(host="me@box"))
    assert "isolation" not in {one.name for one in prepared.checks} and not prepared.missing
    assert prepared.record is not None
    carried = [one.path for one in prepared.record.plan.files if "templates" in one.path]
    (place,) = (Path(path) for path in carried)
    run = project / "run"
    (run / place).parent.mkdir(parents=True)
    (run / place).write_text("")
    assert (find_template("data", run) / "sub" / "a.txt").is_file()
    assert "EPISODE_PORT" not in prepared.record.spec.variables
    assert not [
        file
        for file in (await _prepare(project, store, here)).record.plan.files  # type: ignore[union-attr]
        if "templates" in file.path
    ]

    _needing(project, command="server", args=["${EPISODE_DIR:nowhere}"])
    (refusal,) = (await _prepare(project, store, here)).missing
    assert "nowhere, is no folder" in refusal.text


async def test_a_login_does_not_travel_to_another_machine(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hudtui.core.environment.login_file import KeptLogin, write_login

    url = "https://example.org/mcp"
    _needing(project, url=url)
    _machine_with(monkeypatch, 81920, 81920)
    assert not (await _prepare(project, store, RunRequest(host="me@box"))).missing
    write_login(KeptLogin(url, {"access_token": "the-token-1"}))
    (missing,) = (await _prepare(project, store, RunRequest(host="me@box"))).missing
    assert "your login is not sent" in missing.text and missing.name == "environment"
    assert not (
        await _prepare(project, store, RunRequest(host="local", engine="rollouts", policy="random"))
    ).missing
    monkeypatch.setenv("MY_KEY", "sk-0123456789")
    _needing(project, url=url, headers={"Authorization": "Bearer $MY_KEY"})
    prepared = await _prepare(project, store, RunRequest(host="me@box"))
    assert not prepared.missing and prepared.record is not None
    assert "the-token-1" not in repr(prepared.record.spec)


@pytest.mark.parametrize(
    ("policy", "says"),
    [("replay:none.jsonl", "none.jsonl"), ("replay:", "replay"), ("best", "best")],
)
async def test_a_policy_that_cannot_play_is_said_before_anything_starts(
    project: Path, store: RunStore, policy: str, says: str
) -> None:
    prepared = await _prepare(
        project, store, RunRequest(host="local", engine="rollouts", policy=policy)
    )
    (missing,) = prepared.missing
    assert missing.name == "policy" and says in missing.text and prepared.record is None


async def test_a_provider_without_a_key_asks_for_it(project: Path, store: RunStore) -> None:
    prepared = await _prepare(
        project, store, RunRequest(engine="rollouts", policy="random", provider="prime")
    )
    (missing,) = prepared.missing
    assert (missing.remedy, missing.options) == ("set-key", ("PRIME_API_KEY",))
    (missing,) = (await _prepare(project, store, RunRequest())).missing
    assert missing.remedy == "choose-machine", "whoever named no provider may have another machine"


HOSTED = {"url": "https://mcp.hud.ai/v3/mcp", "headers": {"Mcp-Image": "my-env:latest"}}


@pytest.mark.parametrize(
    "lock",
    [
        "image: my-env:latest\n",
        "images: {local: my-env:latest, full: 'my-env:latest@sha256:1122', pushed: null}\n",
        "images: {full: 'my-env@sha256:1122', pushed: null}\n",
        "images: {local: local/my-env}\n",
    ],
)
@pytest.mark.parametrize("host", ["me@box", "local"])
async def test_an_image_of_this_computer_is_pushed_before_the_platform_is_to_run_it(
    project: Path,
    store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    lock: str,
    host: str,
) -> None:
    engine = tmp_path / "docker"
    engine.write_text("#!/bin/sh\n")
    engine.chmod(0o755)
    monkeypatch.setenv("HUDTUI_ENGINE", str(engine))
    tasks = json.loads((project / "tasks.json").read_text())
    for task in tasks:
        del task["mcp_config"]
    (project / "tasks.json").write_text(json.dumps(tasks))
    (project / ".env").write_text("HUD_API_KEY=sk-hud-0123456789\n")
    (project / "hud.lock.yaml").write_text(lock)
    _machine_with(monkeypatch, 81920, 81920)
    asked = RunRequest(host=host, engine="rollouts", policy="random")
    (missing,) = (await _prepare(project, store, asked)).missing
    assert (missing.name, missing.remedy) == ("image", "push-image") and "my-env" in missing.text
    (project / "hud.lock.yaml").write_text(
        "images: {local: my-env:latest, pushed: 'org/my-env@sha256:33'}\n"
    )
    assert not (await _prepare(project, store, asked)).missing


@pytest.mark.parametrize(
    ("built", "state"), [("[]", "missing"), ('["docker.io/library/node@sha256:1"]', "warning")]
)
async def test_images_that_tasks_name_themselves(
    project: Path,
    store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    built: str,
    state: str,
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho '{built}'\n")
    docker.chmod(0o755)
    monkeypatch.setenv("HUDTUI_ENGINE", str(docker))
    _machine_with(monkeypatch, 81920, 81920)
    asked = RunRequest(host="me@box", engine="rollouts", policy="random")
    _needing(project, command="docker", args=["run", "--rm", "-i", "node:20", "npx", "game"])
    checks = {check.name: check.state for check in (await _prepare(project, store, asked)).checks}
    assert checks["image"] == state
    _needing(project, **HOSTED)
    (missing,) = (await _prepare(project, store, asked)).missing
    assert missing.name == "image" and "my-env:latest" in missing.text
    _needing(project, url="http://localhost:8765/mcp", headers={"Mcp-Image": "org/my-env:1"})
    assert not (await _prepare(project, store, asked)).missing


@pytest.mark.parametrize(
    "url", ["http://localhost:99999/mcp", "http://[::1/mcp", "http://localhost:${PORT:-x}/mcp"]
)
async def test_an_address_that_is_none_is_told_and_ends_nothing(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    _needing(project, url=url)
    _machine_with(monkeypatch, 81920, 81920)
    assert (
        await _prepare(
            project, store, RunRequest(host="me@box", engine="rollouts", policy="random")
        )
    ).checks


@pytest.mark.parametrize(
    ("model", "state", "words"),
    [
        ("Qwen/Qwen2.5-3B-Instruct", "fine", "Qwen/"),
        ("gpt-4o-mini", "missing", "served by its maker alone"),
        ("openai/gpt-4.1-mini", "missing", "served by its maker alone"),
        ("claude-sonnet-4-5", "missing", "cannot be trained"),
        ("o3-mini", "missing", "cannot be trained"),
        ("bert-base", "missing", "has no owner"),
        ("a/b/c", "missing", "OWNER/NAME"),
        ("me/it--", "missing", "OWNER/NAME"),
        ("openai/gpt-oss-20b", "warning", "not known here"),
        ("someone/gpt-4-distilled", "warning", "not known here"),
        ("./mine", "missing", "no config.json"),
        ("mine", "missing", "no config.json"),
        ("/data/model", "warning", "if it is there"),
    ],
)
async def test_a_model_that_cannot_be_trained_is_told_before_the_machine(
    project: Path,
    store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
    model: str | None,
    state: str,
    words: str,
) -> None:
    (project / "mine").mkdir()
    _machine_with(monkeypatch, 81920, 81920)
    prepared = await _prepare(project, store, RunRequest(host="me@box", model=model))
    (check,) = [check for check in prepared.checks if check.name == "model"]
    assert check.state == state and words in check.text
    assert (prepared.record is None) == (state == "missing")


async def test_a_folder_with_a_model_is_trained_here_and_the_model_of_a_file_counts(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine_with(monkeypatch, 81920, 81920)
    model_folder(project / "mine")
    assert not (await _prepare(project, store, RunRequest(host="local", model="mine"))).missing
    training = project / "training.yaml"
    training.write_text("model: gpt-4o\n")
    (missing,) = (
        await _prepare(project, store, RunRequest(host="local", training=training))
    ).missing
    assert (
        missing.name == "model"
        and "gpt-4o" in missing.text
        and "openai:gpt-4o" in (missing.fix or "")
    )


async def test_a_model_that_was_fetched_before_is_known(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    kept = tmp_path / "models--me--model"
    (kept / "snapshots" / "abc").mkdir(parents=True)
    (kept / "snapshots" / "abc" / "config.json").write_text("{}")
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("abc")
    _machine_with(monkeypatch, 81920, 81920)
    checks = (await _prepare(project, store, RunRequest(host="me@box", model="me/model"))).checks
    assert [check.state for check in checks if check.name == "model"] == ["fine"]


@pytest.fixture
def prime(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrimeSimulator]:
    with simulated_prime(monkeypatch) as sim:
        yield sim


@pytest.mark.parametrize(
    ("asked", "gpu"),
    [
        (RunRequest(provider="prime", gpus="1xA100"), "A100_80GB"),
        (RunRequest(provider="prime"), "A100_80GB"),
        (RunRequest(provider="prime", settings={"lora": False}), "B200_180GB"),
        (RunRequest(provider="prime", regions=("united_states",)), "H100_80GB"),
        (RunRequest(engine="rollouts", policy="random", provider="prime"), "CPU_NODE"),
        (RunRequest(provider="prime", rehearse=True), "CPU_NODE"),
        (RunRequest(provider="prime", gpus="1xH100", spot=True), "H100_80GB"),
        (
            RunRequest(engine="rollouts", policy="random", provider="prime", gpus="1x4090"),
            "RTX4090_24GB",
        ),
    ],
)
async def test_the_cheapest_machine_that_the_work_fits(
    project: Path, store: RunStore, prime: PrimeSimulator, asked: RunRequest, gpu: str
) -> None:
    prepared = await _prepare(project, store, asked, starts=False)
    assert prepared.record is not None, prepared.missing
    assert prepared.choice is not None and prepared.choice.offer.gpu_type == gpu
    assert prepared.choice.offer.spot is bool(asked.spot)


async def test_without_gpus_the_cheapest_that_holds_the_model_is_taken(
    project: Path, store: RunStore, prime: PrimeSimulator
) -> None:
    prepared = await _prepare(project, store, RunRequest(provider="prime"), starts=False)
    assert prepared.choice is not None
    assert (prepared.choice.offer.gpu_count, prepared.choice.offer.gpu_type) == (2, "A100_80GB"), (
        "one serves, the other trains"
    )
    assert "GPU 1 (train) needs about 32 GiB of 75." in prepared.choice.reasons
    large = await _prepare(
        project, store, RunRequest(provider="prime", model="x/y-32B"), starts=False
    )
    assert large.choice is not None and large.choice.offer.gpu_count == 8, "two do not hold it"
    unknown = await _prepare(
        project, store, RunRequest(provider="prime", model="me/mine"), starts=False
    )
    assert unknown.choice is not None and unknown.choice.offer.gpu_type == "A100_80GB"
    assert (
        "Whether it fits is not known: the size of the model is not known here."
        in unknown.choice.reasons
    )


async def test_what_certainly_does_not_fit_is_refused_before_it_is_rented(
    project: Path, store: RunStore, prime: PrimeSimulator
) -> None:
    prepared = await _prepare(
        project, store, RunRequest(provider="prime", model="x/y-671B"), starts=False
    )
    assert prepared.record is None and prepared.missing
    assert any("GiB" in check.text for check in prepared.missing)


@pytest.mark.parametrize(
    ("asked", "state"),
    [
        (RunRequest(provider="prime", gpus="1x4090"), "missing"),
        (RunRequest(provider="prime", gpus="2xA100", model="Qwen/Qwen2.5-32B-Instruct"), "missing"),
        (RunRequest(provider="prime", gpus="1xA100"), "fine"),
    ],
)
async def test_a_model_that_does_not_fit_is_said_before_anything_is_rented(
    project: Path, store: RunStore, prime: PrimeSimulator, asked: RunRequest, state: str
) -> None:
    prepared = await _prepare(project, store, asked, starts=False)
    (memory,) = (check for check in prepared.checks if check.name == "memory")
    assert memory.state == state and "GiB" in memory.text, prepared.checks
    assert (prepared.record is None) == (state == "missing")


async def test_settings_that_cannot_be_used_are_said_and_no_machine_is_called_fine(
    project: Path, store: RunStore, prime: PrimeSimulator
) -> None:
    (project / "t.yaml").write_text("model_name_or_path: a/b\n")
    prepared = await _prepare(
        project, store, RunRequest(provider="prime", training=Path("t.yaml")), starts=False
    )
    assert [check.name for check in prepared.missing] == ["training"]
    assert "model_name_or_path is model" in (prepared.missing[0].fix or "")
    assert "machine" not in {check.name for check in prepared.checks} and prepared.choice is None


@pytest.mark.parametrize("size", ["3B", "7B", "14B", "32B"])
@pytest.mark.parametrize("group", [4, 5, 6])
async def test_art_takes_the_cheapest_machine_that_holds_the_model(
    project: Path, store: RunStore, prime: PrimeSimulator, size: str, group: int
) -> None:
    settings = {"num_generations": group, "groups_per_step": 1, "max_seq_len": 8192}
    asked = RunRequest(provider="prime", engine="art", model=f"x/y-{size}", settings=settings)
    prepared = await _prepare(project, store, asked, starts=False)
    (memory,) = (check for check in prepared.checks if check.name == "memory")
    assert memory.state == "fine" and "GPU 0 (serve) needs about" in memory.text, prepared.checks
    assert prepared.record is not None and prepared.choice is not None
    assert prepared.choice.offer.gpu_count == 1, "the server and the trainer take turns"
    assert not any("None of the" in reason for reason in prepared.choice.reasons)


async def test_art_on_gpus_that_do_not_hold_the_model_is_refused_and_larger_ones_are_named(
    project: Path, store: RunStore, prime: PrimeSimulator
) -> None:
    asked = RunRequest(provider="prime", engine="art", gpus="1xA100", model="x/y-72B")
    prepared = await _prepare(project, store, asked, starts=False)
    (memory,) = (check for check in prepared.missing if check.name == "memory")
    assert "The model does not fit." in memory.text and "--max-seq-length" in (memory.fix or "")
    eight = await _prepare(project, store, replace(asked, gpus="8xH100"), starts=False)
    assert "ART trains on 1 or 2 GPUs" in " ".join(check.text for check in eight.missing)


async def test_on_a_machine_of_ones_own_it_is_a_warning(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine_with(monkeypatch, 24576)
    prepared = await _prepare(project, store, RunRequest(host="me@box"))
    assert [check.state for check in prepared.checks if check.name == "memory"] == ["warning"]
    assert prepared.record is not None


async def test_the_line_of_readiness_says_what_is_paid(
    project: Path, store: RunStore, prime: PrimeSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = RunRequest(
        engine="rollouts", policy="random", provider="prime", gpus="1xH100", budget="9"
    )
    found = readiness_text(await _prepare(project, store, played, starts=False))
    assert found == (
        "Ready (simulated): $2.10/h; limits: $9.00 for this run, $100.00 a day for all, 24 h, 30 "
        "idle minutes."
    )
    trained = await _prepare(project, store, RunRequest(provider="prime"), starts=False)
    assert (
        trained.forecast is not None
        and readiness_text(trained) == f"Ready (simulated). {trained.forecast.text}"
    )
    assert (
        readiness_text(await _prepare(project, store, played))
        == "Not ready: there is no SSH key to log in with."
    )
    _machine_with(monkeypatch)
    here = RunRequest(engine="rollouts", policy="random", host="me@box")
    assert readiness_text(await _prepare(project, store, here)) == "Ready: no machine is rented."


async def test_the_engine_of_a_run_that_names_none(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await default_engine(None)).name == "trl", "a machine is rented for a training"
    _machine_with(monkeypatch, 24576)
    assert (await default_engine("local")).name == "trl"
    _machine_with(monkeypatch)
    assert (await default_engine("me@box")).name == "rollouts"

    async def silent(*_: Any, **__: Any) -> Hardware:
        raise MachineError("it does not answer")

    monkeypatch.setattr(machines, "inspect", silent)
    assert (await default_engine("me@box")).name == "rollouts"


@pytest.mark.parametrize(("sold", "driver"), [(80.0, 81920), (48.0, 46068)])
async def test_a_card_is_judged_alike_wherever_its_memory_is_told(
    project: Path,
    store: RunStore,
    prime: PrimeSimulator,
    monkeypatch: pytest.MonkeyPatch,
    sold: float,
    driver: int,
) -> None:
    offer = Offer("prime", "o", "X", 1, Price(1.0), gpu_memory=sold)
    rented = (
        await _prepare(
            project,
            store,
            RunRequest(offer=offer, model="Qwen/Qwen2.5-0.5B-Instruct"),
            starts=False,
        )
    ).record
    _machine_with(monkeypatch, driver)
    own = (
        await _prepare(
            project, store, RunRequest(host="me@box", model="Qwen/Qwen2.5-0.5B-Instruct")
        )
    ).record
    assert rented is not None and own is not None
    assert (
        rented.spec.gpu_memory == pytest.approx(own.spec.gpu_memory, rel=0.08)
        and rented.spec.gpu_memory < sold
    )


async def test_a_days_budget_without_room_is_said_before_anybody_is_asked(
    project: Path, store: RunStore, prime: PrimeSimulator
) -> None:
    order = Order("hudtui-large", Offer("prime", "o", "H100_80GB", 8, Price(20.0)))
    Ledger().reserve(
        order, provider="prime", endpoint=prime.url, grant=lambda entries: time.time() + 10 * 3600
    )
    asked = RunRequest(engine="rollouts", policy="random", provider="prime")
    (missing,) = (await _prepare(project, store, asked, starts=False)).missing
    assert (
        "day's budget" in missing.text
        and "hudtui-large may cost" in missing.text
        and "HUDTUI_BUDGET_DAY" in str(missing.fix)
    )


async def test_all_that_is_missing_is_said_at_once(
    project: Path, store: RunStore, prime: PrimeSimulator
) -> None:
    order = Order("hudtui-large", Offer("prime", "o", "H100_80GB", 8, Price(20.0)))
    Ledger().reserve(
        order, provider="prime", endpoint=prime.url, grant=lambda entries: time.time() + 10 * 3600
    )
    (project / "play.yaml").unlink()
    (project / "t.yaml").write_text("batch_size: many\n")
    _needing(project, url="https://example.org/mcp?team=${TEAM}", headers={"X": "${TEAM}"})
    asked = RunRequest(provider="prime", training=Path("t.yaml"), rehearse=True)
    missing = (await _prepare(project, store, asked)).missing
    assert [check.name for check in missing] == ["config", "training", "keys", "cost", "keys"]
    assert [check.options for check in missing if check.remedy == "set-key"] == [("TEAM",)], (
        "asked for once"
    )


@pytest.mark.parametrize("engine", ["trl", "art"])
async def test_the_training_file_is_that_of_the_project(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _machine_with(monkeypatch, 81920)
    (project / "t.yaml").write_text("num_generations: 4\n")
    prepared = await _prepare(
        project, store, RunRequest(host="me@box", engine=engine, training=Path("t.yaml"))
    )
    assert prepared.require().spec.training == {"num_generations": 4}


@pytest.mark.parametrize(
    ("asked", "gpus", "fits"),
    [
        ("2xH100", ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"], True),
        ("H100", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"], True),
        ("2xH100-SXM", ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"], True),
        ("A100_80GB:2", ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"], True),
        ("2xH100", ["A thing", "A thing"], True),
        ("2xH100", ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"], False),
        ("2xH100", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"], False),
        ("3xH100", ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"], False),
        ("2xH200", ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"], False),
        (
            "2xH100",
            ["NVIDIA H100 80GB HBM3 MIG 3g.40gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb"],
            False,
        ),
        ("2xA100_40GB", ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"], False),
        ("2xA100-PCIe", ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"], False),
        ("2xH100", [], False),
    ],
)
async def test_the_gpus_that_are_asked_for_are_those_of_the_users_machine(
    project: Path,
    store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    gpus: list[str],
    fits: bool,
) -> None:
    async def inspect(host: Any, *, python: str = "python3") -> Hardware:
        found = tuple(Gpu(number, name, 81559) for number, name in enumerate(gpus))
        return Hardware(
            host.name, python="3.12", cpus=8, gpus=found, programs=(("tmux", "/usr/bin/tmux"),)
        )

    monkeypatch.setattr(machines, "inspect", inspect)
    prepared = await _prepare(
        project, store, RunRequest(host="me@box", model="Qwen/Qwen2.5-0.5B-Instruct", gpus=asked)
    )
    if fits:
        assert prepared.record is not None, prepared.missing
    else:
        (missing,) = prepared.missing
        assert missing.name == "machine" and "asked for, and the machine has" in missing.text
        assert missing.remedy == "choose-machine"


@pytest.mark.parametrize("others", [0, 1, 2])
async def test_a_remembered_dataset_that_is_gone_is_named(
    project: Path, store: RunStore, others: int
) -> None:
    save_dataset_name(project, "mine.parquet", 4, datetime.now(UTC))
    tasks = (project / "tasks.json").read_text()
    for number in range(others - 1):
        (project / f"more{number}.json").write_text(tasks)
    if not others:
        (project / "tasks.json").unlink()
    found = [
        check
        for check in (
            await _prepare(project, store, RunRequest(host="local", engine="rollouts"))
        ).checks
    ]
    (told,) = [
        check
        for check in found
        if check.name == "tasks"
        and "the dataset made here last, mine.parquet, is gone" in check.text
    ]
    assert told.state == ("warning" if others == 1 else "missing")
    named = await _prepare(
        project, store, RunRequest(host="local", engine="rollouts", tasks="tasks.json")
    )
    assert not any("is gone" in check.text for check in named.checks)


@pytest.mark.parametrize(
    ("asked", "travels"),
    [
        (RunRequest(host="me@box"), False),
        (RunRequest(engine="rollouts", policy="random"), False),
        (RunRequest(engine="rollouts", policy="solution"), True),
    ],
    ids=["training", "playing", "solving"],
)
async def test_a_solution_travels_only_to_where_it_is_played(
    project: Path,
    store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
    asked: RunRequest,
    travels: bool,
) -> None:
    _machine_with(monkeypatch, 81920)
    tasks = json.loads((project / "tasks.json").read_text())
    tasks[1]["solution"] = [{"name": "move", "arguments": {"direction": "left"}}]
    (project / "tasks.json").write_text(json.dumps(tasks))
    prepared = await _prepare(project, store, asked)
    ref = prepared.require().spec.tasks
    carried = Path(ref.path).read_text()
    assert ("solution" in carried) is travels
    assert [task["id"] for task in json.loads(carried)] == [task["id"] for task in tasks]
