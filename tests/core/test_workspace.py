from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from hudtui.core.errors import InputError
from hudtui.core.platform import BUCKEYE
from hudtui.core.workspace import MAX_ENTRIES, make_state_dir, open_workspace

TASK = '{"prompt": "p", "mcp_config": {}, "evaluate_tool": {}}'
CONFIG = "job:\n  name: x\naction_mappings:\n  left: {}\n"


def make(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def names(folder: Path, paths: tuple[Path, ...]) -> list[str]:
    return [str(path.relative_to(folder)) for path in paths]


def test_an_empty_folder(own_world: Path) -> None:
    workspace = open_workspace(own_world)
    assert workspace.folder == own_world
    assert (workspace.configs, workspace.task_files, workspace.lock) == ((), (), None)
    assert workspace.notices == ()
    assert list(own_world.iterdir()) == []


def test_configs(own_world: Path) -> None:
    make(
        own_world,
        {
            "configs/2048.yaml": CONFIG,
            "configs/new.yaml": "",
            "configs/broken.yml": "job: [",
            "configs/comments.yaml": "# to be written\n",
            "configs/art.yaml": "environments:\n  a: 1\n",
            "top.yaml": "system_prompt: |\n" + "  text\n" * 20_000 + "action_mappings:\n",
            "quoted.yaml": '"action_mappings": {}\n',
            "utf16.yaml": CONFIG.encode("utf-16"),
            "marked.yaml": b"\xef\xbb\xbf" + b"action_mappings: {}\n",
            "crlf.yaml": CONFIG.replace("\n", "\r\n"),
            "other.yaml": "services: {}\n",
            "text.yaml": "note: |\n  action_mappings: x\n",
            "sub/deep/x.yaml": CONFIG,
            "hud.lock.yaml": CONFIG,
            "a/b/c/d/too-deep.yaml": CONFIG,
        },
    )
    workspace = open_workspace(own_world)
    assert names(own_world, workspace.configs) == [
        "configs/2048.yaml",
        "configs/broken.yml",
        "configs/comments.yaml",
        "configs/new.yaml",
        "crlf.yaml",
        "marked.yaml",
        "quoted.yaml",
        "top.yaml",
        "utf16.yaml",
        "sub/deep/x.yaml",
    ]
    assert workspace.lock == own_world / "hud.lock.yaml"


def test_task_files(own_world: Path) -> None:
    make(
        own_world,
        {
            "tasks.json": "[broken",
            "remote_tasks.json": "[]",
            "2048_taskconfigs.json": "[]",
            "test_my_task.json": "{}",
            "tasks.json.gz": b"\x1f\x8b",
            "tasks.jsonl.zst": b"(\xb5/\xfd",
            "rows.jsonl": TASK + "\n",
            "v5.jsonl": '{"prompt": "", "env": {"name": "x"}, "scenario": "x:y"}\n',
            "utf16.jsonl": TASK.encode("utf-16"),
            "anything.json": TASK,
            "a5.json": '[{"env": {"name": "shop"}, "scenario": "checkout", "args": {}}]',
            "a6.json": '[{"env": "shop", "id": "checkout", "args": {}}]',
            "data/train-00000-of-00001.parquet": b"PAR1....prompt....PAR1",
            "saved/dataset_info.json": "{}",
            "saved/data.arrow": b"",
            # and what is none
            "chat.jsonl": '{"messages": []}\n',
            "traces.jsonl": TASK,
            "x/metrics.jsonl": TASK,
            "package.json": '{"name": "x"}',
            "servers.json": (
                '{"mcpServers": {"x": {"command": "x", "env": {"KEY": "args"}, "args": []}}}'
            ),
            "numbers.parquet": b"PAR1....x....PAR1",
            "tasks.txt": TASK,
        },
    )
    assert names(own_world, open_workspace(own_world).task_files) == [
        "2048_taskconfigs.json",
        "anything.json",
        "remote_tasks.json",
        "rows.jsonl",
        "saved",
        "tasks.json",
        "tasks.json.gz",
        "tasks.jsonl.zst",
        "test_my_task.json",
        "utf16.jsonl",
        "v5.jsonl",
        "data/train-00000-of-00001.parquet",
        "a5.json",
        "a6.json",
    ]


def test_what_is_not_looked_into(own_world: Path) -> None:
    make(
        own_world,
        {
            f"{folder}/tasks.json": "[]"
            for folder in (
                ".git",
                ".hudtui",
                ".vscode",
                "node_modules",
                "venv",
                "__pycache__",
                "outputs",
                "wandb",
                "my-env",
            )
        },
    )
    (own_world / "my-env" / "pyvenv.cfg").write_text("")
    os.symlink(own_world, own_world / "loop")
    (own_world / "elsewhere").symlink_to("/usr")
    os.mkfifo(own_world / "tasks.json")
    (own_world / "gone_tasks.json").symlink_to("nowhere")
    assert open_workspace(own_world).task_files == ()


def test_changes_are_noticed(own_world: Path) -> None:
    path = own_world / "x.yaml"
    path.write_text("other: 1\n")
    assert open_workspace(own_world).configs == ()
    path.write_text(CONFIG)
    assert open_workspace(own_world).configs == (path,)
    path.unlink()
    assert open_workspace(own_world).configs == ()


def test_platform_and_lock(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(own_world, {"buckeye.lock.yaml": "", "hud.lock.yaml": "", ".env": ""})
    workspace = open_workspace(own_world)
    assert workspace.lock == own_world / "hud.lock.yaml"
    assert "both here" in workspace.notices[0]
    assert open_workspace(own_world, BUCKEYE).lock == own_world / "buckeye.lock.yaml"
    assert open_workspace(own_world, BUCKEYE).platform is BUCKEYE
    monkeypatch.setenv("HUDTUI_PLATFORM", "nope")
    with pytest.raises(InputError, match="nope"):
        open_workspace(own_world)


def test_relative_paths(own_world: Path) -> None:
    workspace = open_workspace(Path("."))
    assert workspace.folder == own_world
    assert workspace.relative(own_world / "a" / "b") == "a/b"
    assert workspace.relative(Path("/etc/hosts")) == "/etc/hosts"


def test_folders_that_are_none(own_world: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        open_workspace(own_world / "missing")
    (own_world / "file").write_text("")
    with pytest.raises(InputError, match="cannot be opened"):
        open_workspace(own_world / "file")


def test_the_number_of_files_is_bounded(own_world: Path) -> None:
    for number in range(MAX_ENTRIES + 5):
        (own_world / f"f{number:05}.txt").touch()
    (own_world / "a_tasks.json").write_text("[]")
    start = time.monotonic()
    workspace = open_workspace(own_world)
    assert time.monotonic() - start < 10
    assert names(own_world, workspace.task_files) == ["a_tasks.json"]
    assert "20,000" in workspace.notices[0]


def test_state_dir(own_world: Path) -> None:
    workspace = open_workspace(own_world)
    assert workspace.state_dir == own_world / ".hudtui"
    assert not workspace.state_dir.exists()
    assert make_state_dir(own_world) == workspace.state_dir
    ignore = workspace.state_dir / ".gitignore"
    ignore.write_text("mine")
    make_state_dir(own_world)
    assert ignore.read_text() == "mine"


def test_git_ignores_all_but_platforms(own_world: Path) -> None:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=own_world, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    make_state_dir(own_world)
    make(
        own_world,
        {".hudtui/runs.db": "", ".hudtui/cache/x.json": "", ".hudtui/platforms/acme.yaml": ""},
    )
    assert git("ls-files", "--others", "--exclude-standard").split() == [
        ".hudtui/platforms/acme.yaml"
    ]


def test_state_dir_that_cannot_be(own_world: Path) -> None:
    (own_world / ".hudtui").write_text("a file")
    with pytest.raises(InputError, match="in the way"):
        make_state_dir(own_world)
    with pytest.raises(InputError, match="cannot be made"):
        make_state_dir(Path("/proc"))


def test_a_read_only_folder(own_world: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, {"tasks.json": "[]", "configs/a.yaml": CONFIG})
        for path in (folder / "tasks.json", folder / "configs/a.yaml"):
            path.chmod(0o644)
        (folder / "configs").chmod(0o755)
        folder.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            workspace = open_workspace(folder)
            with pytest.raises(InputError) as caught:
                make_state_dir(folder)
        finally:
            if root:
                os.seteuid(0)
            folder.chmod(0o755)
        assert len(workspace.configs) == len(workspace.task_files) == 1
        assert "hudtui -C" in str(caught.value)


def test_two_programs_open_one_workspace(own_world: Path) -> None:
    code = (
        "from pathlib import Path; from hudtui.core.workspace import make_state_dir; "
        "make_state_dir(Path.cwd())"
    )
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    assert sorted(path.name for path in (own_world / ".hudtui").iterdir()) == [".gitignore"]
    assert "platforms" in (own_world / ".hudtui" / ".gitignore").read_text()


def test_others_may_not_write_where_runs_are_kept(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        state = make_state_dir(tmp_path)
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        state.chmod(0o777)
        make_state_dir(tmp_path)
        assert not state.stat().st_mode & 0o022
    finally:
        os.umask(before)


def test_tasks_that_are_held_out_are_never_the_first(own_world: Path) -> None:
    for name in ("mine-held-out.json", "mine.json", "tasks/other.json"):
        path = own_world / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps([{"id": "a", "prompt": "p", "mcp_config": {"a": {"url": "x"}}}]))
    found = names(own_world, open_workspace(own_world).task_files)
    assert found[0] == "mine.json" and found[-1] == "mine-held-out.json"
