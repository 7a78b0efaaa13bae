from __future__ import annotations

from collections.abc import Callable

from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.launch import launch
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.package_data import NAME, wheel_bytes
from hudtui.core.training.plan import PlanFile


async def test_a_plan_that_wants_hudtui_itself_gets_its_wheel_and_its_scripts(
    store: RunStore, make: Callable[..., RunRecord]
) -> None:
    record = make(
        "true", wheel=True, files=(PlanFile("bootstrap.py", resource="pod/bootstrap.py"),)
    )
    async for _ in launch(record, LocalHost(), store):
        pass
    folder = store.folder / record.id
    assert (folder / "files" / "wheel" / NAME).read_bytes() == wheel_bytes()
    assert "Makes a Python environment" in (folder / "bootstrap.py").read_text()
