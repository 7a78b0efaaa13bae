"""A model that is a folder of this computer: what is wrong with it is said before anything is
rented, and it travels whole."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.model_folder import model_folder, weights

from hudtui.core.compute import hardware as machines
from hudtui.core.compute.hardware import Gpu, Hardware
from hudtui.core.errors import InputError
from hudtui.core.remote.hosts import close_hosts, find_host
from hudtui.core.runs.launch import continue_launch, launch
from hudtui.core.runs.prepare import prepare_run
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.settings import load_settings
from hudtui.core.training.model_folder import read_model_folder
from hudtui.core.training.plan import PlanFile, file_ref
from hudtui.core.training.shape import shape_in_folder
from hudtui.core.workspace import open_workspace
from hudtui.sim import PrimeSimulator

CONFIG = (
    "parser: {use_thinking: false}\nsystem_prompt: Play.\naction_mappings:\n  left: {_parser: "
    "{positional: []}, _tool: move}\n"
)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
INDEX = json.dumps(
    {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
).encode()
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def template(text: str) -> bytes:
    return json.dumps({"chat_template": text}).encode()


FAULTS: list[tuple[dict[str, bytes | None], str, str]] = [
    ({"config.json": None}, "no config.json", "holds it"),
    ({"config.json": None, "adapter_config.json": b"{}"}, "no config.json", "--format merged"),
    ({"config.json": b'{"model_ty'}, "only a part of one", "whole"),
    ({"tokenizer.json": None}, "no tokenizer", "tokenizer's files"),
    ({"tokenizer_config.json": b"{}"}, "no chat template", "Instruct"),
    ({"chat_template.jinja": b"{% if %}"}, "cannot show a conversation", "another model"),
    (
        {"chat_template.jinja": b"{{ raise_exception('no system prompts') }}"},
        "no system prompts",
        "another model",
    ),
    (
        {
            "tokenizer_config.json": template(
                "{% if messages[0].role == 'system' %}{{ 1 / 0 }}{% endif %}{{ "
                "messages[-1].content }}"
            )
        },
        "cannot show a conversation",
        "system_prompt",
    ),
    ({"chat_template.jinja": b"always the same"}, "does not show replies", "another model"),
    ({"chat_template.jinja": ENDLESS.encode()}, "too much memory or time", "another model"),
    ({"model.safetensors": POINTER}, "pointer of git-lfs", "git lfs pull"),
    ({"tokenizer.json": POINTER}, "pointer of git-lfs", "git lfs pull"),
    ({"model.safetensors": weights()[:-3]}, "incomplete: it has", "whole"),
    ({"model.safetensors": b"<html>"}, "not a safetensors file", "whole"),
    ({"model.safetensors": None}, "no weights", "whole"),
    (
        {"model.safetensors": None, "model.safetensors.incomplete": b"x"},
        "has not finished",
        "whole",
    ),
    (
        {"model.safetensors": None, "pytorch_model.bin": b"x"},
        "pickled (pytorch_model.bin)",
        "safetensors",
    ),
    ({"model.safetensors": None, "model.Q4.gguf": b"GGUF"}, "GGUF", "safetensors"),
    (
        {
            "model.safetensors": None,
            "model-1-of-2.safetensors": weights(),
            "model.safetensors.index.json": INDEX,
        },
        "1 of 2 files with weights are missing: model-2-of-2.safetensors",
        "whole",
    ),
]


@pytest.fixture
def project(own_world: Path) -> Path:
    judge = {"name": "evaluate", "arguments": {}}
    server = {"game": {"url": "https://example.org/mcp"}}
    tasks = [
        {"id": f"t{n}", "prompt": "Go left.", "mcp_config": server, "evaluate_tool": judge}
        for n in range(4)
    ]
    (own_world / "tasks.json").write_text(json.dumps(tasks))
    (own_world / "play.yaml").write_text(CONFIG)
    return own_world


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What all machines have."""
    has: dict[str, Any] = {
        "disk_free_bytes": 500 << 30,
        "memory_bytes": 64 << 30,
        "memory_free_bytes": 60 << 30,
    }

    async def inspect(host: Any, *, python: str = "python3") -> Hardware:
        gpus = tuple(Gpu(number, "NVIDIA GPU", 81920, 0) for number in range(2))
        return Hardware(
            host.name,
            python="3.12",
            cpus=8,
            gpus=gpus,
            programs=(("tmux", "/usr/bin/tmux"),),
            **has,
        )

    monkeypatch.setattr(machines, "inspect", inspect)
    return has


@pytest.fixture(scope="module")
def sim() -> Any:
    with PrimeSimulator(step=5) as running:
        yield running


@pytest.mark.parametrize(
    ("files", "words", "remedy"), FAULTS, ids=[words for _, words, _ in FAULTS]
)
async def test_what_is_wrong_is_said_on_every_machine_before_anything_is_rented(
    project: Path,
    store: RunStore,
    sim: PrimeSimulator,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes | None],
    words: str,
    remedy: str,
) -> None:
    folder = model_folder(project / "mine")
    for name, data in files.items():
        (folder / name).unlink() if data is None else (folder / name).write_bytes(data)
    monkeypatch.setenv("HUDTUI_SIM", sim.url)
    monkeypatch.setenv("HUDTUI_SIM_KEY", sim.api_key)
    local = RunRequest(host="local", model="mine")
    for asked in (
        local,
        RunRequest(host="me@box", rehearse=True, rehearse_model="mine"),
        RunRequest(provider="prime", model="mine"),
    ):
        workspace = open_workspace(project)
        settings = load_settings(project, workspace.platform)
        prepared = await prepare_run(asked, workspace, settings, store, starts=False)
        found = [check for check in prepared.missing if check.name == "model"]
        assert found and words in found[0].text and remedy in (found[0].fix or ""), (asked, found)
        assert prepared.record is None
        if "time" in words:
            break  # once is enough of what takes long
    assert not any(request.method == "POST" for request in sim.requests)


def test_the_template_is_tried_where_hudtui_itself_is_found_by_a_variable(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "site").mkdir()
    code = f"import os; open({str(project / 'seen')!r}, 'w').write(','.join(os.environ))"
    (project / "site" / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(project / "site"))
    monkeypatch.setenv("HF_TOKEN", "a-secret")
    assert read_model_folder(model_folder(project / "mine")).files
    seen = (project / "seen").read_text().split(",")
    assert "PYTHONPATH" in seen and "HF_TOKEN" not in seen


async def test_a_folder_travels_with_the_run_and_a_disk_without_room_is_said(
    project: Path, store: RunStore, machine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model_folder(project / "mine-1B")
    workspace = open_workspace(project)
    settings = load_settings(project, workspace.platform)

    async def absent(self: Any, path: Any) -> None:
        return None

    monkeypatch.setattr("hudtui.core.remote.ssh.SshHost.stat", absent)
    asked = RunRequest(host="me@box", model="mine-1B")
    prepared = await prepare_run(asked, workspace, settings, store)
    assert prepared.record is not None, prepared.missing
    (check,) = [check for check in prepared.checks if check.name == "model"]
    assert check.state == "fine" and "is sent to the machine" in check.text
    plan = prepared.record.plan
    sent = {file.path for file in plan.files if file.path.startswith("files/model/")}
    assert sent == {
        f"files/model/mine-1B/{name}"
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    }
    for stage in plan.stages[1:]:
        assert "files/model/mine-1B" in stage.argv, "fetch, serve and train read what was sent"
    (recipe,) = [
        json.loads(file.content or "") for file in plan.files if file.path == "files/recipe.json"
    ]
    assert recipe["model"] == str(project / "mine-1B"), (
        "the adapter at home belongs to the folder at home"
    )
    assert recipe["learning_rate"] == 1e-5

    machine["disk_free_bytes"] = 3 << 30
    for host in ("me@box", "local"):
        (missing,) = (
            await prepare_run(RunRequest(host=host, model="mine-1B"), workspace, settings, store)
        ).missing
        assert (
            missing.name == "disk"
            and "3.0 free" in missing.text
            and "Make room" in (missing.fix or "")
        )


async def test_a_large_file_is_sent_with_progress_and_goes_on_after_a_break(
    own_world: Path,
    store: RunStore,
    make: Callable[..., RunRecord],
    ssh_box: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = Path.home() / ".ssh" / "config"
    config.parent.mkdir(mode=0o700, exist_ok=True)
    lines = (
        "HostName 127.0.0.1",
        f"Port {ssh_box.port}",
        f"User {getpass.getuser()}",
        f"IdentityFile {ssh_box.server.key}",
    )
    config.write_text(
        "Host gpu-box\n"
        + "".join(f"  {line}\n" for line in lines)
        + "  StrictHostKeyChecking accept-new\n"
    )
    monkeypatch.setattr("hudtui.core.runs.launch._SAY_EVERY", 0.01)
    large = own_world / "model.safetensors"
    large.write_bytes(weights(6 << 20))
    name = "files/model/m/model.safetensors"
    host = find_host("gpu-box")
    try:
        record = make("true", host="gpu-box", files=(PlanFile(name, file_ref(large)),))
        record = replace(record, folder=f".hudtui/runs/{record.id}")
        said = []
        async with aclosing(launch(record, host, store)) as events:
            async for event in events:
                if event.type == "note":
                    said.append(str(event.data["message"]))
                    break  # as with Ctrl-C
        said += [
            str(event.data["message"])
            async for event in continue_launch(record.id, host, store)
            if event.type == "note"
        ]
        assert len(set(said)) == len(said) and said[-1] == "model.safetensors: 100 % of 24 MiB sent"
        assert await host.get(f"{record.folder}/{name}", limit=1 << 30) == large.read_bytes()
        assert not (await host.run(["find", record.folder, "-name", "*.part"])).stdout
    finally:
        await close_hosts()


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "chat_template.jinja",
        "generation_config.json",
    ],
)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = model_folder(tmp_path / "m")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    shape_in_folder(folder)
    with pytest.raises(InputError, match="not a regular file"):
        read_model_folder(folder, [{"role": "user", "content": "x"}])


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer_config.json", "config.json"])
def test_a_file_without_measure_is_not_read(tmp_path: Path, name: str) -> None:
    folder = model_folder(tmp_path / "m")
    with (folder / name).open("wb") as stream:
        stream.truncate(500_000_000)
    with pytest.raises(InputError, match=f"{name} has more than .* MiB"):
        read_model_folder(folder, [{"role": "user", "content": "x"}])


def test_a_chat_template_without_measure_is_not_tried(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "m")
    (folder / "tokenizer_config.json").write_bytes(template("x" * 5_000_000))
    with pytest.raises(InputError, match="its chat template has more than 4 MiB"):
        read_model_folder(folder, [{"role": "user", "content": "x"}])
