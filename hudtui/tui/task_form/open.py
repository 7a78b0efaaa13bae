"""The page of tasks for an environment, for a task that is changed, and for one that is copied."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.environment.sharing import with_own_folder
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.flows.new_task import free_name, source_config, write_drafted
from hudtui.core.gym.environment_name import environment_name
from hudtui.core.project import Project
from hudtui.core.tasks.draft import DraftedTasks, escaped
from hudtui.core.tasks.draft_form import DraftForm
from hudtui.core.tasks.task_file import replace_task
from hudtui.tui.task_form.page import FormContext

if TYPE_CHECKING:
    from hudtui.core.environment.source import Source


def for_environment(
    project: Project,
    source: Source,
    analysis: Analysis,
    chosen: Tool | None,
    typed: Mapping[str, str],
) -> FormContext:
    """Return the page of new tasks for an environment.

    Args:
        project: The project.
        source: The environment.
        analysis: Its tools.
        chosen: The tool under the cursor, which the page begins with.
        typed: Arguments that were typed for it; an agent's tool without any is left out.

    Raises:
        InputError: The environment has no MCP servers.
    """
    name = environment_name(analysis.image or analysis.source)
    config = source_config(source, project)
    form = DraftForm({"id": name, "mcp_config": config}, analysis)
    form.texts["file"] = str(free_name(project, analysis))
    _begin(form, chosen, {key: text for key, text in typed.items() if text})
    own = with_own_folder(config, project.folder)
    return FormContext(f"New tasks for {name}", form, _writer(project, source), own_folder=own)


def _begin(form: DraftForm, tool: Tool | None, typed: dict[str, str]) -> None:
    if tool is None:
        return
    if "setup" in (tool.kind, tool.hub):
        form.add_setup(tool)
        form.setup[-1].texts |= typed
    elif "evaluate" in (tool.kind, tool.hub):
        form.add_evaluator(tool)
        form.evaluators[-1].texts |= typed
    elif tool.kind == "agent" and typed:
        form.add_part("call", tool)
        if (call := form.parts[-1].call) is not None:
            call.texts |= typed


def for_copy(
    project: Project, record: Mapping[str, Any], analysis: Analysis, file: str, *, empty: bool
) -> FormContext:
    """Return the page of new tasks that begins with a task of a file.

    Args:
        project: The project.
        record: The task, as it is in the file.
        analysis: Its environment, without tools where it is not known.
        file: The file, which the new tasks are added to.
        empty: Only the servers of the task are taken.
    """
    begun = {"id": "new", "mcp_config": record.get("mcp_config")}
    if not empty:
        begun = {**escaped(dict(record)), "id": f"{record.get('id')}-copy"}
        begun["mcp_config"] = record.get("mcp_config")
    form = DraftForm({key: value for key, value in begun.items() if value is not None}, analysis)
    form.texts["file"] = file
    title = "New tasks" if empty else f"Tasks like {record.get('id')}"
    return FormContext(title, form, _writer(project), tasks=file)


def for_change(
    project: Project, record: Mapping[str, Any], analysis: Analysis, file: str, index: int
) -> FormContext:
    """Return the page that changes a task of a file, at its position there."""
    before = str(record.get("id"))

    def save(made: DraftedTasks, _: str) -> str:
        replace_task(project.folder / file, index, made.train[0], file, before=before)
        return f"Changed {made.train[0]['id']} in {file}."

    form = DraftForm(record, analysis, single=True)
    return FormContext(f"Change {before}", form, save, tasks=file)


def _writer(project: Project, named: Source | None = None) -> Any:
    def save(made: DraftedTasks, file: str) -> str:
        return f"{write_drafted(project, made, Path(file), named=named).report}."

    return save
