"""HUD's task formats: which generation a task belongs to, and conversion to v6.

v3 (`gym`), v4 (`prompt` + `mcp_config`, what hudtui trains on), v5 (`env` object + `scenario`) and
v6 (`env` name + `id`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from hudtui.core.tasks.task import FieldProblem, json_kind

Generation = Literal["v3", "v4", "v5", "v6"]


def generation_of(record: Mapping[str, Any]) -> Generation:
    """Return the generation of a task.

    A record without the fields of any generation counts as an incomplete v4 task.
    """
    if "prompt" in record and "mcp_config" in record:
        return "v4"
    env = record.get("env")
    if isinstance(env, Mapping) and "scenario" in record:
        return "v5"
    if isinstance(env, str) and ("id" in record or ("scenario" in record and "name" in record)):
        return "v6"
    if "scenario" in record and "prompt" not in record:
        return "v5"
    if "gym" in record and "evaluate_tool" not in record:
        return "v3"
    return "v4"


def not_for_training(record: Mapping[str, Any]) -> FieldProblem | None:
    """Return why a task cannot be trained on and what to do; None for a v4 task."""
    generation = generation_of(record)
    if generation == "v4":
        return None
    if generation == "v3":
        what = (
            "this is a HUD v3 task (`gym`): its setup and evaluation are calls of a gym that no "
            "longer exists; write it as v4 with `mcp_config`, `setup_tool` and `evaluate_tool` of "
            "an MCP environment"
        )
    elif generation == "v5":
        what = (
            f"this is a HUD v5 task (scenario {record.get('scenario')!r}): its prompt and its "
            "evaluation live inside the environment; convert it with `hudtui tasks convert --to "
            "v6`, or write `prompt`, `mcp_config` and `evaluate_tool`"
        )
    else:
        what = (
            f"this is a HUD v6 task (environment {record.get('env')!r}): v6 environments are not "
            "MCP servers, and prompt and evaluation live inside them; write `prompt`, "
            "`mcp_config` and `evaluate_tool` of an MCP environment"
        )
    return FieldProblem(None, what, "generation")


def to_v6(record: Any) -> tuple[dict[str, Any] | None, list[FieldProblem]]:
    """Return a task in the v6 format, or None and the reasons why it cannot be converted.

    A v5 task keeps everything: the environment's name, the scenario (which becomes the id), the
    arguments, the metadata (as columns). A v6 task stays as it is; an export record of the platform
    gets its fields in the places of a task file.
    """
    if not isinstance(record, Mapping):
        return None, [
            FieldProblem(None, f"this is {json_kind(record)}, and a task is an object", "type")
        ]
    generation = generation_of(record)
    if generation == "v6":
        return _v6(record)
    if generation == "v5":
        return _from_v5(record)
    if generation == "v4":
        reason = (
            "a v4 task cannot become a v6 task as data: v6 keeps prompt and evaluation inside the "
            "environment. Move them into a scenario of the environment, or stay with v4, which is "
            "what hudtui trains on"
        )
    else:
        reason = (
            "a v3 task names calls of a gym that no longer exists; nothing in v6 stands for them"
        )
    return None, [FieldProblem(None, reason, "generation")]


def _v6(record: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldProblem]]:
    if "scenario" in record and "name" in record and "id" not in record:
        rest = {
            key: value for key, value in record.items() if key not in ("scenario", "name", "env")
        }
        return {
            "env": record["env"],
            "id": _short(record["scenario"]),
            "slug": record["name"],
            **rest,
        }, []
    return dict(record), []


def _from_v5(record: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[FieldProblem]]:
    remarks = []
    env, scenario = record.get("env"), record.get("scenario")
    if not isinstance(scenario, str) or not scenario.strip():
        remarks.append(
            FieldProblem(
                "scenario",
                f"this is {json_kind(scenario)}, and the name of a scenario is needed",
                "type",
            )
        )
        return None, remarks
    prefix, _, _ = scenario.rpartition(":")
    name = env.get("name") if isinstance(env, Mapping) else env if isinstance(env, str) else None
    if not isinstance(name, str) or not name.strip():
        name = prefix
    if not name:
        remarks.append(
            FieldProblem(
                "env.name", "required, because the scenario names no environment", "missing"
            )
        )
        return None, remarks
    if prefix and prefix != name:
        message = f"the scenario says {prefix!r} and env.name says {name!r}; the latter is kept"
        remarks.append(FieldProblem("scenario", message, "conflict", "warning"))
    if isinstance(env, Mapping):
        remarks += [
            FieldProblem(
                f"env.{key}",
                "v6 has no place for this; it is kept under `columns`",
                "kept",
                "warning",
            )
            for key in env
            if key != "name"
        ]
    args = record.get("args")
    if args is not None and not isinstance(args, Mapping):
        return None, [
            FieldProblem("args", f"this is {json_kind(args)}, and an object is needed", "type")
        ]
    made: dict[str, Any] = {"env": name, "id": _short(scenario), "args": dict(args or {})}
    slug = record.get("slug") or record.get("id")
    if slug:
        made["slug"] = str(slug)
    columns: dict[str, Any] = (
        dict(record["columns"]) if isinstance(record.get("columns"), Mapping) else {}
    )
    if isinstance(record.get("metadata"), Mapping):
        columns |= record["metadata"]
    if isinstance(env, Mapping):
        columns |= {f"env_{key}": value for key, value in env.items() if key != "name"}
    if columns:
        made["columns"] = columns
    taken = {"env", "scenario", "args", "slug", "id", "metadata", "columns"}
    made |= {key: value for key, value in record.items() if key not in taken and value is not None}
    return made, remarks


def _short(scenario: Any) -> str:
    """Return the name of a scenario without its environment."""
    return str(scenario).rpartition(":")[2]
