from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import hub_stub

from hudtui.core.errors import InputError
from hudtui.core.training.engines import find_engine
from hudtui.core.training.export import (
    checkpoints,
    copy_model,
    find_trained_model,
    merge_command,
    run_checkpoints,
)
from hudtui.core.training.plan import FileRef, JobSpec, Plan, PlanFile, Readiness, Site, Stage
from hudtui.core.training.script import plan_script


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run as a training leaves it."""
    folder = tmp_path / "run"
    for name in ("out/model", "out/checkpoints/checkpoint-2", "out/checkpoints/checkpoint-10"):
        place = folder / name
        place.mkdir(parents=True)
        (place / "adapter_model.safetensors").write_bytes(b"weights of " + name.encode())
        (place / "adapter_config.json").write_text(
            json.dumps({"r": 24, "base_model_name_or_path": None})
        )
        (place / "tokenizer.json").write_text("{}")
        (place / "optimizer.pt").write_bytes(b"large")
        (place / "trainer_state.json").write_text("{}")
    (folder / "files").mkdir()
    (folder / "files" / "recipe.json").write_text(json.dumps({"model": "Qwen/Qwen2.5-3B-Instruct"}))
    return folder


def test_the_end_of_the_training_is_what_is_wanted(run: Path, tmp_path: Path) -> None:
    trained = find_trained_model(run)
    assert (trained.step, trained.kind, trained.base, trained.rank) == (
        None,
        "adapter",
        "Qwen/Qwen2.5-3B-Instruct",
        24,
    )
    names = copy_model(trained, tmp_path / "exports" / "mine")
    assert "optimizer.pt" not in names
    copied = tmp_path / "exports" / "mine"
    assert (copied / "adapter_model.safetensors").read_bytes() == b"weights of out/model"
    assert (
        json.loads((copied / "adapter_config.json").read_text())["base_model_name_or_path"]
        == "Qwen/Qwen2.5-3B-Instruct"
    )
    card = (copied / "README.md").read_text()
    assert "base_model: Qwen/Qwen2.5-3B-Instruct" in card and "vllm serve" in card
    assert [path.name for path in copied.parent.iterdir()] == ["mine"]  # nothing half made is left


def test_the_server_takes_the_adapter_and_a_rank_that_it_knows(run: Path, tmp_path: Path) -> None:
    command = find_trained_model(run).serve_command(tmp_path / "m", "mine")
    assert command[:3] == ("vllm", "serve", "Qwen/Qwen2.5-3B-Instruct")
    assert command[command.index("--max-lora-rank") + 1] == "32"
    assert command[-1] == f"mine={tmp_path / 'm'}" and "127.0.0.1" in command
    whole = replace(find_trained_model(run), kind="weights").serve_command(tmp_path / "m", "mine")
    assert whole[2] == str(tmp_path / "m") and "--enable-lora" not in whole
    assert replace(find_trained_model(run), base="tiny").serve_command(tmp_path, "x") == ()


def test_without_its_recipe_no_command_is_made_up(run: Path, tmp_path: Path) -> None:
    (run / "files" / "recipe.json").unlink()
    trained = find_trained_model(run, 2)
    assert (
        trained.base == ""
        and trained.serve_command(tmp_path, "x") == ()
        and "recipe is missing" in trained.why_not_served
    )
    copy_model(trained, tmp_path / "mine")
    assert "vllm serve" not in (tmp_path / "mine" / "README.md").read_text()
    config = run / "out" / "checkpoints" / "checkpoint-2" / "adapter_config.json"
    config.write_text(json.dumps({"r": 8, "base_model_name_or_path": "org/base"}))
    assert find_trained_model(run, 2).serve_command(tmp_path, "x")[2] == "org/base"


def test_a_checkpoint_is_taken_by_its_step(run: Path) -> None:
    (
        run / "out" / "checkpoints" / "checkpoint-12"
    ).mkdir()  # the training was broken off before it was written
    assert tuple(run_checkpoints(run)) == (2, 10)
    assert find_trained_model(run, 2).folder.name == "checkpoint-2"
    with pytest.raises(InputError, match="no checkpoint of step 7") as caught:
        find_trained_model(run, 7)
    assert "2, 10" in str(caught.value)
    shutil.rmtree(run / "out" / "model")
    assert find_trained_model(run).step == 10  # broken off: the last one


def test_a_training_with_art_leaves_adapters_in_its_own_folders(tmp_path: Path) -> None:
    for step in (0, 4, 12):
        place = (
            tmp_path
            / "out"
            / ".art"
            / "hud-art"
            / "models"
            / "mine"
            / "checkpoints"
            / f"{step:04d}"
        )
        place.mkdir(parents=True)
        (place / "adapter_config.json").write_text(json.dumps({"r": 8}))
        (place / "adapter_model.safetensors").write_bytes(b"step %d" % step)
    (place.parent / "0013").mkdir()  # half written
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "recipe.json").write_text(
        json.dumps({"model": "Qwen/Qwen2.5-3B-Instruct"})
    )
    assert tuple(run_checkpoints(tmp_path)) == (0, 4, 12)
    trained = find_trained_model(tmp_path)
    assert (trained.step, trained.kind, trained.base, trained.rank) == (
        12,
        "adapter",
        "Qwen/Qwen2.5-3B-Instruct",
        8,
    )
    copy_model(find_trained_model(tmp_path, 4), tmp_path / "mine")
    assert (tmp_path / "mine" / "adapter_model.safetensors").read_bytes() == b"step 4"


def test_what_is_missing_or_half_written_is_said(run: Path, tmp_path: Path) -> None:
    (run / "out" / "model" / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match="incomplete"):
        find_trained_model(run)
    shutil.rmtree(run / "out")
    with pytest.raises(InputError, match="has not saved a model"):
        find_trained_model(run)
    with pytest.raises(InputError, match="no checkpoint of step 1"):
        find_trained_model(run, 1)


def test_nothing_is_overwritten(run: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for act in (
        lambda: copy_model(find_trained_model(run), tmp_path / "there"),
        lambda: merge_command("py", run, find_trained_model(run), tmp_path / "there"),
    ):
        with pytest.raises(InputError, match="left as it is"):
            act()


def test_only_an_adapter_can_be_merged(run: Path, tmp_path: Path) -> None:
    command = merge_command("/env/bin/python", run, find_trained_model(run), tmp_path / "new")
    assert command[0] == "/env/bin/python" and "hudtui.trainers.merge" in command
    with pytest.raises(InputError, match="no adapter"):
        merge_command("py", run, replace(find_trained_model(run), kind="weights"), tmp_path / "new")


def bash(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "run.sh").write_text(text)
    path = (
        folder / "bin"
    )  # what a bare Debian has of what the script calls, and what the stages of these tests call
    path.mkdir(exist_ok=True)
    for program in ("bash", "cat", "dirname", "env", "mkdir", "python3", "sleep", "tee", "touch"):
        if not (path / program).exists():
            found = sys.executable if program == "python3" else str(shutil.which(program))
            (path / program).symlink_to(found)
    return subprocess.run(
        ["bash", "run.sh"],
        cwd=folder,
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_plan_as_a_script_does_what_the_plan_says(tmp_path: Path) -> None:
    nasty = "it's $HOME `x`\n'quoted'"
    service = (
        "import http.server as h\n"
        "class Yes(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(200); self.end_headers()\n"
        "h.ThreadingHTTPServer(('127.0.0.1', %d), Yes).serve_forever()"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    plan = Plan(
        "other",
        (
            Stage(
                "serve",
                ("python3", "-c", service % port),
                service=True,
                ready=Readiness(port=port, timeout=30),
            ),
            Stage(
                "first",
                ("bash", "-c", 'printf "%s" "$WORDS" >out/words; cat files/a/text >out/text'),
                env={"WORDS": nasty},
            ),
            Stage("second", ("bash", "-c", "pwd"), cwd="out", secrets=("A_KEY",)),
        ),
        files=(
            PlanFile("files/a/text", content=nasty + "\n"),
            PlanFile("files/mine", source=FileRef("/x/mine", 1, "s")),
        ),
    )
    text = plan_script(plan, name="mine")
    refused = bash(tmp_path, text)
    assert refused.returncode == 2 and "put files/mine here first" in refused.stdout
    (tmp_path / "files").mkdir(exist_ok=True)
    (tmp_path / "files" / "mine").touch()
    done = bash(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "words").read_text() == nasty and (
        tmp_path / "out" / "text"
    ).read_text() == nasty + "\n"
    assert done.stdout.strip().endswith("/out") and "A_KEY" in text
    with socket.socket() as gone:  # the service ends with the script
        assert gone.connect_ex(("127.0.0.1", port)) != 0


def test_a_script_goes_on_only_when_its_service_is_well(tmp_path: Path) -> None:
    service = (
        "import http.server as h\n"
        "class No(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(503); self.end_headers()\n"
        "server = h.HTTPServer(('127.0.0.1', %d), No); server.handle_request(); "
        "server.handle_request()"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = Stage(
        "serve",
        ("python3", "-c", service % port),
        service=True,
        ready=Readiness(port=port, timeout=30),
    )
    done = bash(
        tmp_path, plan_script(Plan("other", (serve, Stage("after", ("touch", "never")))), name="x")
    )
    assert done.returncode == 5 and "serve has ended: logs/serve.log" in done.stdout
    assert not (tmp_path / "never").exists()


def test_a_stage_that_fails_ends_the_script(tmp_path: Path) -> None:
    plan = Plan("other", (Stage("one", ("bash", "-c", "exit 3")), Stage("two", ("touch", "never"))))
    assert bash(tmp_path, plan_script(plan, name="x")).returncode == 3
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    "changes",
    [{}, {"gpus": 1}, {"gpus": 8, "training": {"num_generations": 8}}, {"rehearse": True}],
)
def test_every_training_can_be_written_as_a_script(changes: dict[str, Any], tmp_path: Path) -> None:
    spec = JobSpec(
        "trl", "t", "/w", tasks=FileRef("/w/t.json", 2, "x"), config=FileRef("/w/c.yaml", 3, "y")
    )
    text = plan_script(
        find_engine("trl").plan(replace(spec, **changes), Site("run", ("python3",))), name="t"
    )
    (tmp_path / "s.sh").write_text(text)
    assert subprocess.run(["bash", "-n", str(tmp_path / "s.sh")], check=False).returncode == 0
    assert "hudtui/requirements" in text and len(text.splitlines()) < 150


@pytest.mark.parametrize("public", [False, True])
def test_a_model_is_pushed_whole_and_private_unless_it_is_asked_for(
    public: bool, run: Path, tmp_path: Path
) -> None:
    copy_model(find_trained_model(run), tmp_path / "mine")
    code = (
        "import sys; from pathlib import Path; from hudtui.core.training.export import push\n"
        "print(push(Path(sys.argv[1]), 'me/mine', token=sys.argv[2], public=sys.argv[3] == 'True'))"
    )

    def pushed(
        token: str,
    ) -> subprocess.CompletedProcess[
        str
    ]:  # in a process of its own: the client reads its settings once
        env = {**os.environ, **hub.environment(), "HF_HOME": str(tmp_path / "hf")}
        words = [sys.executable, "-c", code, str(tmp_path / "mine"), token, str(public)]
        return subprocess.run(
            words, env=env, capture_output=True, text=True, check=False, timeout=90
        )

    with hub_stub.HubStub() as hub:
        done = pushed(hub_stub.TOKEN)
        assert done.stdout.strip() == f"{hub.url}/me/mine", done.stderr
        repo = hub.repos["me/mine"]
        assert repo.private is not public
        assert repo.files["adapter_model.safetensors"] == b"weights of out/model"
        assert {"README.md", "adapter_config.json", "tokenizer.json"} <= set(repo.files)
        refused = pushed("hf_" + "wrong" * 7)
        assert (
            refused.returncode != 0
            and "HubError" in refused.stderr
            and "wrongwrong" not in refused.stderr
        )


@pytest.mark.parametrize("torn", ["", '{"epoch": 1'])
def test_a_checkpoint_whose_writing_was_interrupted_does_not_count(run: Path, torn: str) -> None:
    (run / "out" / "checkpoints" / "checkpoint-10" / "trainer_state.json").write_text(torn)
    assert list(checkpoints(run / "out" / "checkpoints")) == [2]
