"""The records of a file that is followed, written into a file of lines here."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tracker_files import WANDB_RUN, history, wandb_file

from hudtui.core.errors import InputError
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs import records
from hudtui.core.runs.records import write_records


class Elsewhere(LocalHost):
    """A machine that is not this computer."""

    name = "box"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run 1.wandb"
    path.write_bytes(wandb_file([WANDB_RUN, history({"_step": 1, "loss": 0.5})]))
    return path


async def test_a_disk_that_is_full_is_an_error_that_says_so(tmp_path: Path, file: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        await write_records(LocalHost(), (str(file),), tmp_path / "missing" / "records.txt")


@pytest.mark.parametrize(
    ("host", "named"), [(LocalHost(), "{}"), (Elsewhere(), "box:{}")], ids=["here", "elsewhere"]
)
async def test_too_many_records_name_the_command_that_prints_all(
    host: LocalHost, named: str, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_MOST", 1)
    here = tmp_path / "records.txt"
    await write_records(host, (str(file),), here)
    *_, last = here.read_text().splitlines()
    assert last == f"0 more All: hudtui runs records '{named.format(file)}'"
