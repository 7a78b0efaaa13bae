"""The events of a run as text, for the command line and the screens."""

from __future__ import annotations

from hudtui.core.runs.values import RunEvent
from hudtui.core.text import clean_line, duration

_EVENTS = {
    "planned": "the run is planned",
    "resumed": "the supervisor is started again",
    "stop_requested": "a stop is requested",
    "stopping": "the run is being stopped",
    "finished": "the run has finished",
    "failed": "the run has failed",
    "stopped": "the run was stopped",
    "lost": "the run is lost",
    "removed": "the run is removed from the list",
    "unreadable": "a record of the machine cannot be read",
}
_STEPS = {
    "folder": "the run's folder is created",
    "files": "the run's files are written",
    "plan": "the plan is written",
    "supervisor": "the supervisor is started",
    "ready": "the machine is ready",
    "guard": "the guard is started on the machine",
    "collect": "the results are fetched",
    "terminate": "the machine is ended",
}
_MACHINE = {"never": "the machine was never created", "released": "the machine is ended"}
_ENDED_BY = {
    "limit": ": its time is over",
    "stop": ": it was stopped",
}


def event_text(event: RunEvent) -> str:
    """Return an event as one cleaned line of at most 400 characters.

    The event's data is untrusted and may have any type.
    """
    return clean_line(_text(event), 400)


def _text(event: RunEvent) -> str:
    data, kind = event.data, event.type
    name, why = (
        str(data.get("name") or data.get("stage") or ""),
        str(data.get("why") or data.get("error") or ""),
    )
    after = data.get("seconds")
    took = f" after {duration(after)}" if isinstance(after, int | float) and after >= 1 else ""
    attempt = data.get("attempt")
    again = f", attempt {attempt}" if attempt not in (None, 1) else ""
    match kind:
        case "note":
            return str(data.get("message") or "")
        case "machine":
            return str(
                data.get("text") or _MACHINE.get(str(data.get("kind"))) or data.get("kind") or kind
            )
        case "step":
            return _STEPS.get(name, name) + took
        case "started":
            return "the run is started" + {
                "tmux": " in tmux",
                "processes": " as detached processes",
            }.get(str(data.get("mode")), "")
        case "stage_started":
            return f"stage {name} starts{again}"
        case "stage_ready":
            return f"stage {name} is ready{took}"
        case "stage_ended":
            code = data.get("exit")
            how = f" with exit code {code}" if code else ""
            return f"stage {name} ends{how}" + (
                f": {why}" if why else _ENDED_BY.get(str(data.get("by")), "")
            )
        case "renamed":
            return f"the run is renamed: {name}"
        case "notified":
            return f"the notify command is started for {data.get('about')}"
        case "commented":
            return f"the comment is changed: {data.get('text') or 'none'}"
        case "tagged":
            changes = [
                f"{sign}{tag}"
                for sign, key in (("+", "add"), ("-", "remove"))
                for tag in _list(data.get(key))
            ]
            return f"the tags are changed: {' '.join(changes)}"
        case "acknowledged":
            kinds = ", ".join(
                sorted({str(key).partition(":")[0] for key in _list(data.get("alarms"))})
            )
            undone = data.get("undone") is True
            state = "not acknowledged any more" if undone else "acknowledged"
            return f"alarms are {state}: {kinds}"
        case "archived":
            return (
                "the run is restored from the archive"
                if data.get("undone") is True
                else "the run is archived"
            )
    return _EVENTS.get(kind, kind.replace("_", " ")) + (f": {why}" if why else "")


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
