"""`hudtui hf`: the flags of old, the answers in JSON, the questions on a terminal, the Hub."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from support import hub_stub as stub
from support.command import hudtui
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.lockfile import read_lock
from hudtui.core.tasks.read import read_tasks

LOCK = (
    '# keep\nversion: "1.1"\nimages:\n  local: env\n  full: my-org/my-env:1.0  # here\nother: 1\n'
)
HERE_ALONE = (
    "image: env:1\n",
    "image: local/env\n",
    "images: {local: env:1, full: 'env:1@sha256:11', pushed: null}\n",
    "images: {full: 'env@sha256:11', pushed: null}\n",
)
LOCAL = {"local": {"command": "docker", "args": ["run", "--rm", "-i", "env"]}}


def task(number: int, **changes: Any) -> dict[str, Any]:
    base = {
        "id": f"t{number}",
        "prompt": f"Reach {2**number}.",
        "mcp_config": LOCAL,
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number"}},
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not ...}


@pytest.fixture(autouse=True)
def project(own_world: Path) -> Path:
    Path("tasks.json").write_text(json.dumps([task(n) for n in range(1, 6)], indent=2))
    return own_world


def hf(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["hf", *arguments])


def answer(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = hf(*arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


def names(folder: Path = Path()) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_local_only_as_in_the_seeds() -> None:
    result = hf("tasks.json", "--name", "local-dataset", "--no-push")
    assert (result.exit_code, result.stdout) == (0, "local-dataset.parquet\n"), result.output
    assert "5 tasks read, 5 usable" in result.stderr
    assert names() == [".hudtui", "local-dataset.parquet", "tasks.json"]
    assert len(read_tasks("local-dataset.parquet").tasks) == 5


def test_one_task_is_no_tasks() -> None:
    Path("one.json").write_text(json.dumps(json.loads(Path("tasks.json").read_text())[:1]))
    told = hf("one.json", "--name", "one", "--no-push").stderr
    assert (
        "\n1 task read, 1 usable" in told and "info: 1 task runs on servers of this machine" in told
    )


def test_the_json_answer() -> None:
    Path("hud.lock.yaml").write_text(LOCK)
    rows = [
        task(1),
        task(2, mcp_config=...),
        task(3, prompt=...),
        task(4, mcp_config={"hud": {"url": 3}}),
        task(5, id="t1"),
    ]
    Path("tasks.json").write_text(json.dumps(rows))
    code, found = answer("tasks.json", "--no-push", "--min-tasks", "4")
    assert code == 0
    expected = {
        "source": "tasks.json", "tasks": 5, "valid": 2, "duplicated": 2, "remote": False,
        "output": "tasks.parquet", "pushed": None, "lock": str(Path.cwd() / "hud.lock.yaml"),
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert [(entry["index"], entry["id"], entry["field"]) for entry in found["skipped"]] == [
        (2, "t3", "prompt"), (3, "t4", "mcp_config.hud.url"), (4, "t1", "id"),
    ]  # fmt: skip
    assert all(entry["message"] and entry["line"] == 1 for entry in found["skipped"])
    assert [entry["code"] for entry in found["warnings"]] == ["variable"]
    assert list(found["warnings"][0]) == [
        "file",
        "index",
        "id",
        "line",
        "field",
        "severity",
        "code",
        "message",
    ]
    assert found["inferred"] == 1 and found["written"] == {"train": 4}


def test_the_lock_file_learns_of_the_dataset_and_keeps_the_rest() -> None:
    Path("hud.lock.yaml").write_text(LOCK)
    assert hf("tasks.json", "--name", "my-org/my-tasks", "--no-push").exit_code == 0
    text = Path("hud.lock.yaml").read_text()
    assert text.startswith(LOCK)
    dataset = read_lock(Path("hud.lock.yaml")).primary_dataset
    assert dataset is not None and (dataset.name, dataset.task_count) == ("my-tasks.parquet", 5)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", dataset.updated_at or "")


def test_the_lock_file_does_not_learn_of_tasks_from_elsewhere(tmp_path: Path) -> None:
    Path("hud.lock.yaml").write_text(LOCK)
    theirs = tmp_path / "theirs.json"
    theirs.write_text(Path("tasks.json").read_text())
    done = hf(str(theirs), "--no-push")
    assert (
        done.exit_code == 0
        and "stays as it is" in done.stderr
        and Path("hud.lock.yaml").read_text() == LOCK
    )
    assert hf(str(theirs), "--no-push", "--lock").exit_code == 0
    assert read_lock(Path("hud.lock.yaml")).primary_dataset is not None
    Path("hud.lock.yaml").write_text(LOCK)
    assert (
        hf("tasks.json", "--no-push", "--no-lock").exit_code == 0
        and Path("hud.lock.yaml").read_text() == LOCK
    )


def test_a_lock_file_that_is_broken_is_left_alone() -> None:
    Path("hud.lock.yaml").write_text("image: [\n")
    result = hf("tasks.json", "--no-push")
    assert result.exit_code == 0 and "warning: the lock file is ignored" in result.stderr
    assert Path("hud.lock.yaml").read_text() == "image: [\n"


def test_remote_by_the_lock_s_image() -> None:
    Path("hud.lock.yaml").write_text(LOCK)
    before = Path("tasks.json").read_bytes()
    code, found = answer("tasks.json", "--no-push", "--remote", "-o", "out.jsonl")
    assert (code, found["remote"], found["output"]) == (0, True, "out.jsonl")
    for one in read_tasks("out.jsonl").tasks:
        assert one.mcp_config["hud"]["headers"]["Mcp-Image"] == "my-org/my-env:1.0"
    assert Path("tasks.json").read_bytes() == before
    code, found = answer("tasks.json", "--no-push", "--remote", "--image", "o/e:2", "--in-place")
    assert code == 0
    changed = json.loads(Path("tasks.json").read_text())
    assert (
        changed[0]["mcp_config"]["hud"]["headers"]["Mcp-Image"] == "o/e:2"
        and changed[0]["prompt"] == "Reach 2."
    )


def test_remote_without_an_image() -> None:
    code, found = answer("tasks.json", "--no-push", "--remote")
    assert code == 2 and "image is known" in found["error"]["what"]


def test_in_place_never_loses_a_task() -> None:
    Path("tasks.json").write_text(json.dumps([task(1), task(2, prompt=...)]))
    before = Path("tasks.json").read_bytes()
    for more in (("--image", "o/e:1", "--remote"), ("--min-tasks", "4"), ("--sample", "1")):
        result = hf("tasks.json", "--no-push", "--in-place", *more)
        assert result.exit_code == 2 and "lost" in result.stderr
        assert Path("tasks.json").read_bytes() == before


def test_strict() -> None:
    Path("tasks.json").write_text(json.dumps([task(1), task(2, id=7)]))
    code, found = answer("tasks.json", "--no-push", "--strict")
    assert code == 2 and found["error"]["type"] == "TaskErrors" and found["output"] is None
    assert [(entry["index"], entry["severity"]) for entry in found["skipped"]] == [(1, "error")]
    assert names() == ["tasks.json"]
    result = hf("tasks.json", "--no-push", "--strict")
    assert result.exit_code == 2 and "tasks.json:1: task 1 (7): id:" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tasks.json",), "Give --name, e.g. --name "),
        (("tasks.json", "--name", "a--b/c"), "cannot be the name"),
        (("gone.json", "--no-push"), "no such file"),
        (("tasks.json", "--no-push", "--format", "xml"), "none of parquet"),
        (("tasks.json", "--no-push", "-o", "tasks.json"), "stays as it is"),
        (("tasks.json", "--no-push", "-o", "t.jsonl.gz"), "not written"),
        (("tasks.json", "--no-push", "--filter", "metadata.n:<x"), "not a number"),
        (("tasks.json", "--no-push", "--local", "--image", "x"), "for --remote"),
    ],
)
def test_what_cannot_be(arguments: tuple[str, ...], words: str) -> None:
    result = hf(*arguments)
    assert result.exit_code == 2 and words in " ".join(result.stderr.split())
    assert names() == ["tasks.json"]


def test_selection_and_forms() -> None:
    code, found = answer(
        "tasks.json", "--no-push", "--shuffle", "--test", "0.4", "--name", "o/split"
    )
    assert (code, found["written"], found["output"]) == (0, {"train": 3, "test": 2}, "split")
    assert names(Path("split")) == ["test-00000-of-00001.parquet", "train-00000-of-00001.parquet"]
    code, found = answer("tasks.json", "--no-push", "--filter", "-id:=t1", "-o", "folder")
    assert code == 0 and "dataset_info.json" in names(Path("folder"))
    code, found = answer("folder", "--no-push", "-o", "again.json", "--sample", "2")
    assert found["written"] == {"train": 2} and len(json.loads(Path("again.json").read_text())) == 2


def test_a_dry_run_checks_and_writes_nothing() -> None:
    before = names(Path())
    for words in (("tasks.json", "--name", "o/n"), ("tasks.json", "--no-push", "-o", "new")):
        code, found = answer(*words, "--dry-run", "--yes")
        assert code == 0 and found["dry_run"] is True and found["valid"] == 5
    shown = hf("tasks.json", "--name", "o/n", "--dry-run")
    assert "5 tasks of 5 can be used" in shown.stdout and names(Path()) == before


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"prompt": ""}, ("--name", "o/n")),
        ({"evaluate_tool": ...}, ("--name", "o/n", "--strict")),
        ({}, ("--name", "no/good/name")),
        ({}, ("--name", "o/n", "--remote")),
        ({}, ()),
        ({}, ("--no-push", "-o", "tasks.json")),
        ({"prompt": ""}, ("--no-push", "-o", "new", "--in-place")),
        (
            {"mcp_config": {"a": {"url": "https://h/?api_key=sk-1234567890abcdef"}}},
            ("--name", "o/n"),
        ),
    ],
)
def test_a_dry_run_refuses_what_the_command_refuses(
    broken: dict[str, Any], words: tuple[str, ...]
) -> None:
    Path("tasks.json").write_text(json.dumps([task(1, **broken)]))
    before = Path("tasks.json").read_text()
    dry = hf("tasks.json", *words, "--dry-run")
    assert (names(), Path("tasks.json").read_text()) == (["tasks.json"], before)
    real = hf("tasks.json", *words)
    said = [line for line in real.stderr.splitlines() if line.startswith("error: ")]
    assert said and dry.exit_code == real.exit_code != 0 and said[-1] in dry.stderr


def test_yes_takes_every_offer() -> None:
    Path("hud.lock.yaml").write_text(LOCK)
    config = {
        "hud": {
            "url": "https://mcp.hud.ai/v3/mcp",
            "headers": {"Authorization": "Bearer sk-" + "a1" * 12},
        }
    }
    Path("tasks.json").write_text(json.dumps([task(1), task(2, mcp_config=config)]))
    code, found = answer("tasks.json", "--no-push", "--yes")
    assert (code, found["duplicated"], found["remote"]) == (0, 2, True)
    assert all("secret" not in entry["code"] for entry in found["warnings"])
    assert "sk-a1" not in str(read_tasks("tasks.parquet").tasks)


def on_terminal(
    arguments: list[str], answers: list[tuple[str, str]], **environment: str
) -> tuple[int, str]:
    """Run the command on a terminal; wait for each question and type its answer. Exit code and what
    was shown."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hudtui", *arguments],
        stdin=follower, stdout=follower, stderr=follower, env={**os.environ, **environment},
        start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    shown = b""
    end = time.monotonic() + 90
    try:
        while time.monotonic() < end:
            if select.select([leader], [], [], 0.2)[0]:
                try:
                    data = os.read(leader, 65536)
                except OSError:  # the other side is closed
                    data = b""
                if not data:
                    break
                shown += data
            if answers and answers[0][0].encode() in shown.replace(b"\r\n", b"\n"):
                os.write(leader, answers.pop(0)[1].encode() + b"\n")
        return process.wait(10), shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def test_questions_on_a_terminal() -> None:
    Path("hud.lock.yaml").write_text(LOCK)
    config = {
        "hud": {
            "url": "https://mcp.hud.ai/v3/mcp",
            "headers": {"Authorization": "Bearer sk-" + "a1" * 12},
        }
    }
    Path("tasks.json").write_text(json.dumps([task(1), task(2, mcp_config=config)]))
    answers = [
        ("instead? [y/N]", "maybe"),
        ("Error: answer y or n", "YES"),
        ("in its place? [Y/n]", ""),
        ("Repeat them? [Y/n]", ""),
    ]
    code, shown = on_terminal(["hf", "tasks.json", "--no-push"], answers)
    assert code == 0, shown
    assert (
        answers == []
        and "1 task runs on servers of this machine" in shown
        and "tasks.parquet" in shown
    )
    tasks = read_tasks("tasks.parquet").tasks
    assert [one.id for one in tasks] == ["t1", "t2", "t1-2", "t2-2"]
    assert all("hud" in one.mcp_config for one in tasks) and "sk-a1" not in str(tasks)


@pytest.mark.filterwarnings("ignore:Use .content=:DeprecationWarning")  # of the Hub's own client
class TestHub:
    @pytest.fixture
    def hub(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        from huggingface_hub import constants

        with stub.HubStub() as hub:
            for name, value in hub.environment().items():
                monkeypatch.setenv(name, value)
            monkeypatch.setattr(
                constants, "HF_HUB_DISABLE_XET", True
            )  # read when it was imported, as is the next
            monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
            yield hub

    def process(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hudtui", *arguments],
            env={**os.environ, **environment},
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    def test_push_and_read_again(self, hub: Any) -> None:
        Path("hud.lock.yaml").write_text(LOCK)
        Path(".env").write_text(f"HF_TOKEN={stub.TOKEN}\n")
        done = self.process(
            *("hf", "tasks.json", "--name", "my-org/my-tasks", "--private", "--test", "1", "--yes"),
            HF_TOKEN="",
        )
        assert (done.returncode, done.stdout) == (0, f"{hub.url}/datasets/my-org/my-tasks\n"), (
            done.stderr
        )
        repo = hub.repos["my-org/my-tasks"]
        assert repo.private and len(repo.commits) == 1
        assert set(repo.files) == {
            "README.md",
            "data/train-00000-of-00001.parquet",
            "data/test-00000-of-00001.parquet",
        }
        assert "4 in `train`, 1 in `test`" in repo.files["README.md"].decode()
        dataset = read_lock(Path("hud.lock.yaml")).primary_dataset
        assert dataset is not None and (dataset.name, dataset.task_count) == ("my-org/my-tasks", 5)
        assert names() == [".env", "hud.lock.yaml", "tasks.json"]

        done = self.process("tasks", "list", "my-org/my-tasks:test", "--json")
        assert done.returncode == 0, done.stderr
        assert len(json.loads(done.stdout)) == 1
        done = self.process("tasks", "check", "my-org/my-tasks@0123abc", "--json")
        assert json.loads(done.stdout)["tasks"] == 4, done.stderr
        done = self.process(
            "hf", "tasks.json", "--name", "my-org/my-tasks", "--test", "1", "--json", "--yes"
        )
        assert json.loads(done.stdout)["pushed"] == f"{hub.url}/datasets/my-org/my-tasks"
        assert len(repo.commits) == 1

    @pytest.mark.parametrize(
        ("lock", "inferred"), zip(HERE_ALONE, (True, False, True, False), strict=True)
    )
    def test_nothing_is_published_on_an_image_that_only_this_computer_has(
        self, hub: Any, lock: str, inferred: bool
    ) -> None:
        Path("hud.lock.yaml").write_text(lock)
        changes = {"mcp_config": ...} if inferred else {}
        Path("tasks.json").write_text(json.dumps([task(n, **changes) for n in range(1, 6)]))
        words = ("hf", "tasks.json", "--name", "me/boards", *(() if inferred else ("--remote",)))
        done = hudtui(*words, code=2)
        assert "on this computer alone; nothing is published" in done.stderr, done.stderr
        assert "--push-image" in done.stderr and "me/boards" not in hub.repos
        assert Path("hud.lock.yaml").read_text() == lock
        done = hudtui(*words, "--image", "ghcr.io/me/env:1", "--yes")
        assert "me/boards" in hub.repos, done.stderr

    def test_a_dataset_is_public_only_when_that_is_said(self, hub: Any) -> None:
        done = hudtui("hf", "tasks.json", "--name", "boards", "--yes")
        assert "only you and your organisation see it" in done.stderr
        assert hub.repos[f"{hub.user}/boards"].private
        done = hudtui("hf", "tasks.json", "--name", "my-org/open", "--public", "--yes")
        assert "everyone can read it" in done.stderr and not hub.repos["my-org/open"].private
        words = ("hf", "tasks.json", "--name", "my-org/open", "--min-tasks", "6", "--yes")
        done = hudtui(*words)
        assert not hub.repos["my-org/open"].private  # it stays as it is
        done = hudtui("hf", "tasks.json", "--name", "my-org/open", "--private", "--yes", code=7)
        assert "public already" in done.stderr and len(hub.repos["my-org/open"].commits) == 2

    def test_a_terminal_asks_before_a_push(self, hub: Any) -> None:
        hub.repos["my-org/open"] = stub.Repo(False)
        words = ["hf", "tasks.json", "--name", "my-org/open", "--local"]
        answers = [("Publish my-org/open? [y/N]", "")]
        code, shown = on_terminal(words, answers, **hub.environment())
        assert code == 1 and answers == [], shown
        assert (
            f"{hub.url}/datasets/my-org/open" in shown and "PUBLIC: everyone can read it" in shown
        )
        assert not hub.repos["my-org/open"].commits
        code, shown = on_terminal(words, [("Publish my-org/open? [y/N]", "y")], **hub.environment())
        assert code == 0 and len(hub.repos["my-org/open"].commits) == 1, shown
        code, shown = on_terminal([*words, "--yes"], [], **hub.environment())
        assert code == 0 and "Publish my-org/open? yes" in shown, shown

    @pytest.mark.parametrize("words", [(), ("--json",)])
    def test_nothing_leaves_the_machine_where_nobody_can_be_asked(
        self, words: tuple[str, ...], hub: Any
    ) -> None:
        done = hudtui("hf", "tasks.json", "--name", "my-org/mine", *words, code=2)
        assert f"{hub.url}/datasets/my-org/mine" in done.stderr and "add --yes" in done.stderr
        assert hub.repos == {} and names() == ["tasks.json"]
        assert not words or "--yes" in json.loads(done.stdout)["error"]["fix"]

    def test_datasets_that_are_not_there_and_odd_ones(self, hub: Any) -> None:
        done = hudtui("tasks", "check", "my-org/gone", "--json", code=2)
        assert "no such dataset" in json.loads(done.stdout)["error"]["what"]
        rows = [json.dumps(task(n)).encode() for n in range(3)]
        hub.repos["my-org/lines"] = stub.Repo(
            False, {"notes.txt": b"", "train.jsonl": b"\n".join(rows), "test.jsonl": rows[0]}
        )
        hub.repos["my-org/empty"] = stub.Repo(False, {"README.md": b"# Nothing"})
        done = hudtui("tasks", "check", "my-org/lines", "--json")
        assert json.loads(done.stdout)["tasks"] == 3, done.stderr
        done = hudtui("tasks", "check", "my-org/lines", "--split", "dev", code=2)
        assert "no split 'dev'" in done.stderr
        done = hudtui("tasks", "check", "my-org/empty", code=2)
        assert "no Parquet, JSONL or JSON files" in done.stderr

    def test_secrets_are_not_given_away(self, hub: Any) -> None:
        secret = "sk-" + "a1" * 12
        config = {
            "hud": {
                "url": "https://mcp.hud.ai/v3/mcp",
                "headers": {"Authorization": f"Bearer {secret}"},
            }
        }
        Path("tasks.json").write_text(json.dumps([task(n, mcp_config=config) for n in range(5)]))
        done = hudtui("hf", "tasks.json", "--name", "my-org/x", code=2)
        assert "--replace-secrets" in done.stderr and hub.repos == {}
        done = hudtui("hf", "tasks.json", "--name", "my-org/x", "--replace-secrets", "--yes")
        assert secret not in done.stderr + done.stdout
        assert secret.encode() not in b"".join(hub.objects.values())

    def test_without_a_token(self, hub: Any) -> None:
        done = self.process("hf", "tasks.json", "--name", "my-org/x", HF_TOKEN="")
        assert (
            done.returncode == 7
            and "there is none" in done.stderr
            and "Traceback" not in done.stderr
        )


def test_taking_every_offer_leaves_servers_local_where_no_platform_has_the_image() -> None:
    Path("hud.lock.yaml").write_text(HERE_ALONE[0])
    result = hf("tasks.json", "--no-push", "--yes")
    assert result.exit_code == 0, result.output
    assert {json.dumps(one.mcp_config) for one in read_tasks("tasks.parquet").tasks} == {
        json.dumps(LOCAL)
    }


def test_a_local_dataset_on_such_an_image_is_warned_of() -> None:
    Path("hud.lock.yaml").write_text(HERE_ALONE[0])
    result = hf("tasks.json", "--remote", "--no-push")
    assert result.exit_code == 0 and "env:1, which is on this computer alone" in result.stderr


def test_a_project_without_a_lock_file_remembers_its_dataset() -> None:
    Path("play.yaml").write_text("action_mappings:\n  left: {_tool: move}\n")

    def tasks_of_a_run() -> dict[str, str]:
        """What is said of the tasks, by the state of the check."""
        words = [
            "rl",
            "--engine",
            "rollouts",
            "--policy",
            "random",
            "--host",
            "local",
            "--dry-run",
            "--json",
        ]
        checks = json.loads(CliRunner().invoke(build(), words).stdout)["checks"]
        return {check["state"]: check["text"] for check in checks if check["name"] == "tasks"}

    result = hf("tasks.json", "--name", "boards", "--no-push")
    assert result.exit_code == 0 and ".hudtui/dataset.json names it" in result.stderr
    told = tasks_of_a_run()
    assert list(told) == ["fine"] and "boards.parquet" in told["fine"]
    note = json.loads(Path(".hudtui/dataset.json").read_text())
    assert (note["name"], note["task_count"]) == ("boards.parquet", 5)
    Path("boards.parquet").unlink()
    told = tasks_of_a_run()
    assert "tasks.json" in told.pop("fine") and "boards.parquet" in str(told), (
        "the one that is gone is named"
    )
    for text in ("[" * 100_000, "[]", '{"name": 5}', ""):
        Path(".hudtui/dataset.json").write_text(text)
        assert "tasks.json" in tasks_of_a_run()["fine"]
    Path("hud.lock.yaml").write_text(LOCK)
    Path(".hudtui/dataset.json").unlink()
    assert hf("tasks.json", "--name", "boards", "--no-push").exit_code == 0
    assert (
        not Path(".hudtui/dataset.json").exists() and "boards.parquet" in tasks_of_a_run()["fine"]
    )
