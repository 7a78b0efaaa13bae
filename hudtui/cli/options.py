"""Options of a command from the options that a dataclass declares; see `hudtui.core.knobs`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from hudtui.core.knobs import Knob, knobs_of
from hudtui.core.runs.request import RunRequest

C = TypeVar("C", bound=Callable[..., None])


def takes_request(
    *names: str, argument: str | None = None, tasks_flags: tuple[str, ...] = (), **defaults: Any
) -> Callable[[C], C]:
    """Give a command an option for each of these fields of `RunRequest`. The command gets them as its parameter `request`.

    Args:
        names: Fields, in the order of the command's help.
        argument: The field that is typed without a flag.
        tasks_flags: Flags of `tasks`, where it is typed with one.
        defaults: Defaults of this command where they are not those of `RunRequest`.
    """
    declared = dict(knobs_of(RunRequest))
    declared["tasks"] = replace(declared["tasks"], flags=tasks_flags)
    types = get_type_hints(RunRequest, localns={"Offer": object})
    standard = {**vars(RunRequest()), **defaults}

    def decorate(command: C) -> C:
        own = inspect.signature(command, eval_str=True)
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_typed(standard[name]),
                annotation=_annotation(name, types[name], declared[name], standard[name], argument=name == argument),
            )
            for name in names
        ]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            values = {name: given.pop(name) for name in names}
            lists = {name: tuple(value or ()) for name, value in values.items() if types[name] == tuple[str, ...]}
            command(request=RunRequest(**{**values, **lists}), **given)

        rest = [parameter for parameter in own.parameters.values() if parameter.name != "request"]
        parameters = [*options, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in rest)]
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run  # type: ignore[return-value]

    return decorate


def _typed(value: Any) -> Any:
    """A default as the command line has it: an empty list of values is none."""
    return None if value == () else value


def _annotation(name: str, kind: Any, about: Knob, default: Any, *, argument: bool) -> Any:
    kind = list[str] | None if kind == tuple[str, ...] else kind
    bounds = {} if about.minimum is None and about.maximum is None else {"min": about.minimum, "max": about.maximum}
    shown: dict[str, Any] = {"help": about.help, "metavar": about.metavar, "show_default": default not in (None, ()), **bounds}
    shown["rich_help_panel"] = about.group or None
    if argument:
        return Annotated[kind, typer.Argument(**shown)]
    return Annotated[kind, typer.Option(*(about.flags or (f"--{name.replace('_', '-')}",)), **shown)]
