from pathlib import Path

import pytest

from hudtui.core.platform import BUCKEYE, HUD
from hudtui.core.project import open_project


def test_a_project_reads_the_folder_each_time(tmp_path: Path) -> None:
    project = open_project(tmp_path)
    assert project.platform == HUD
    assert project.lock is None and project.workspace().configs == ()
    assert project.runs.runs() == () and not project.state_dir.exists()
    (tmp_path / "hud.lock.yaml").write_text("image: example/env:1\n")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a.yaml").write_text("action_mappings:\n  up:\n    _tool: move\n")
    assert project.lock == tmp_path / "hud.lock.yaml"
    assert project.workspace().configs == (tmp_path / "configs" / "a.yaml",)


def test_the_lock_file_chooses_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "buckeye.lock.yaml").write_text("image: example/env:1\n")
    assert open_project(tmp_path).platform == BUCKEYE
    monkeypatch.chdir(tmp_path)
    assert open_project().folder == tmp_path
