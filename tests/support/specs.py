"""The spec of a request for a machine that nobody has looked at."""

from __future__ import annotations

from hudtui.core.remote.host import LOCAL
from hudtui.core.runs.inputs import read_inputs
from hudtui.core.runs.preflight import check
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.resolve import resolve
from hudtui.core.runs.site import RunSite
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.work import read_work
from hudtui.core.settings import load_settings
from hudtui.core.tasks.read import TaskReader
from hudtui.core.workspace import Workspace


def spec_of(request: RunRequest, workspace: Workspace) -> RunSpec:
    """The spec of a request, on two GPUs of its machine; here where it names none."""
    settings = load_settings(workspace.folder, workspace.platform)
    work = read_work(request, workspace.folder, settings)
    site = RunSite(request.host or LOCAL, gpus=2)
    inputs = read_inputs(work, workspace, settings, TaskReader())
    checks = check(work, site, inputs, workspace, settings)
    assert checks.inputs.task_file is not None and checks.inputs.config is not None, checks.results
    return resolve(work, site, checks, workspace)
