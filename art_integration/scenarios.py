"""Tasks for a training.

Converted from a dataset's rows, or thought up by a model that is shown an environment's tools.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.tasks.task import Task, ToolCall

_ASKED = """\
These are the tools of an environment, as JSON:

{tools}

Write {count} different tasks for an agent that has these tools, from easy to hard. \
Answer with a JSON array only. Each item is
an object with "prompt" (what the agent is asked to do, complete in itself){judged}.
"""
_JUDGED = (
    ', and "evaluate_tool": {{"name": one of {names}, "arguments": what it needs to judge '
    "this task}}"
)
_ARRAY = re.compile(r"\[.*\]", re.DOTALL)


def to_taskconfigs(dataset: Iterable[Mapping[str, Any]]) -> list[Task]:
    """Return the rows of a dataset as tasks: HUD's records, or rows whose columns are JSON texts.

    Raises:
        InputError: A row is not a task; the error names it.
    """
    from hudtui.core.tasks.read import read_tasks

    lines = [_line(row, index) for index, row in enumerate(dataset)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dataset.jsonl"
        path.write_text("".join(lines), encoding="utf-8")
        found = read_tasks(path, lock_image="none")
    errors = [problem for problem in found.problems if problem.severity == "error"]
    if errors:
        raise InputError(
            f"{len(errors)} of {found.total} rows are not tasks",
            why=f"row {errors[0].index}: {errors[0].message}",
        )
    return list(found.tasks)


def _line(row: Any, index: int) -> str:
    if not isinstance(row, Mapping):
        raise InputError(
            f"row {index} is not a mapping of columns to values, but {type(row).__name__}"
        )
    for column, value in row.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"row {index}: the column {column} cannot be written as JSON", why=str(error)
            ) from None
    return json.dumps({str(column): value for column, value in row.items()}) + "\n"


async def generate_scenarios_from_hud(
    mcp_client: Any,
    num_scenarios: int,
    *,
    mcp_config: Mapping[str, Any] | None = None,
    model: str = "gpt-4.1-mini",
    base_url: str | None = None,
    api_key: str | None = None,
) -> list[Task]:
    """Have a model think up tasks for an environment.

    Args:
        mcp_client: An open environment: what `hudtui.core.environment.client.connect` returns, or a
            client with `list_tools()`.
        num_scenarios: Number of tasks; the model may write fewer.
        mcp_config: Servers of the tasks, as they will be played.
        model: Model that writes them.
        base_url: Its endpoint; OPENAI_BASE_URL, or OpenAI's own, when None.
        api_key: Its key; OPENAI_API_KEY when None.

    Returns:
        The tasks. Those of an environment with evaluate tools are judged by one of them; the others
        have none, and need a reward of your own or RULER.

    Raises:
        InputError: The environment has no tools for an agent, or the model wrote no task.
        PolicyError: The endpoint refused, or did not answer.
    """
    from hudtui.core.rollouts.chat import ChatEndpoint, ChatOptions
    from hudtui.core.settings import DEFAULT_BASE_URL

    tools = await _tools(mcp_client)
    judges = {name: tool for name, tool in tools.items() if tool["kind"] == "evaluate"}
    open_to_agent = [tool for tool in tools.values() if tool["kind"] == "tool"]
    if not open_to_agent:
        raise InputError("this environment has no tools for an agent")
    shown = json.dumps([*open_to_agent, *judges.values()], ensure_ascii=False)
    judged = _JUDGED.format(names=", ".join(judges)) if judges else ""
    question = _ASKED.format(tools=shown, count=num_scenarios, judged=judged)
    options = ChatOptions(
        base_url=base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL,
        key=api_key or os.environ.get("OPENAI_API_KEY"),
    )
    async with ChatEndpoint(model, options) as endpoint:
        reply = await endpoint.complete([{"role": "user", "content": question}])
    found = [
        task
        for index, one in enumerate(_array(reply.text))
        if (task := _task(one, index, judges, mcp_config or {})) is not None
    ]
    if not found:
        fix = (
            "Its list was cut off at a limit of tokens: ask for fewer tasks." if reply.cut else None
        )
        raise InputError(f"{model} wrote no task that can be used", why=reply.text[:200], fix=fix)
    return found[:num_scenarios]


async def _tools(client: Any) -> dict[str, dict[str, Any]]:
    """Name, description, schema and kind (tool, setup or evaluate) of each tool."""
    known = getattr(client, "tools", None)
    if isinstance(known, Mapping):
        return {
            tool.name: _entry(tool.name, tool.description, tool.input_schema, str(tool.kind))
            for tool in known.values()
        }
    listed = await client.list_tools()
    entries: Sequence[Any] = getattr(listed, "tools", listed)
    return {
        tool.name: _entry(tool.name, tool.description, getattr(tool, "inputSchema", None), "")
        for tool in entries
    }


def _entry(name: str, description: str | None, schema: Any, kind: str) -> dict[str, Any]:
    part = kind or name.rpartition("_")[2]
    kinds = {"setup": "setup", "evaluate": "evaluate", "hidden": "hidden"}
    return {
        "name": name,
        "description": description or "",
        "parameters": schema or {},
        "kind": kinds.get(part, "tool"),
    }


def _array(text: str) -> list[Any]:
    match = _ARRAY.search(text)
    try:
        found = json.loads(match.group()) if match else None
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _task(
    one: Any, index: int, judges: Mapping[str, Any], servers: Mapping[str, Any]
) -> Task | None:
    if (
        not isinstance(one, Mapping)
        or not isinstance(one.get("prompt"), str)
        or not one["prompt"].strip()
    ):
        return None
    evaluate: tuple[ToolCall, ...] = ()
    call = one.get("evaluate_tool")
    if isinstance(call, Mapping) and (name := str(call.get("name"))) in judges:
        arguments = call.get("arguments")
        evaluate = (ToolCall(name, dict(arguments) if isinstance(arguments, Mapping) else {}),)
    return Task(
        f"generated-{index:04d}", one["prompt"].strip(), mcp_config=dict(servers), evaluate=evaluate
    )
