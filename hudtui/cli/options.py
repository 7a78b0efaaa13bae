"""Options of a command from the options that a dataclass declares; see `hudtui.core.knobs`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from hudtui.core.knobs import Knob, kinds_of, knob, knobs_of
from hudtui.core.runs.request import RunRequest
from hudtui.core.training.options import WHAT

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what would be asked, with its price; change nothing."),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most N.")]
Split = Annotated[str | None, typer.Option("--split", help="Split of a dataset that has several.")]
TokenBudget = Annotated[
    int | None,
    typer.Option(
        "--token-budget", min=1, help="Warn about prompts with more tokens than this (estimated)."
    ),
]
CheckedAgainst = Annotated[
    str | None,
    typer.Option("--env", metavar="SOURCE", help="Check the calls against this environment."),
]
TrainerSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="One of the trainer's settings; may be repeated."
    ),
]


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Which lines of a log are printed."""

    lines: int | None = knob(
        None,
        "Start this many lines before the end; by default 200, or all with a filter.",
        "--lines",
        "-n",
        minimum=0,
    )
    grep: str | None = knob(
        None, "Only lines in which this regular expression occurs.", metavar="PATTERN"
    )


C = TypeVar("C", bound=Callable[..., None])


def takes_request(
    *names: str, kind: type[Any] = RunRequest, to: str = "request", **defaults: Any
) -> Callable[[C], C]:
    """Give a command an option for each of these fields of a request.

    The options take the place of the parameter that gets the request.

    The tasks are an argument, which may also be typed as the option `--dataset`.

    Args:
        names: Fields, in the order of the command's help; all that are options by default.
        kind: The request.
        to: The parameter that gets it.
        defaults: Defaults of this command where they are not those of the request.
    """
    declared = knobs_of(kind)
    names = names or tuple(declared)
    types = kinds_of(kind)
    standard = {**vars(kind()), **defaults}

    def decorate(command: C) -> C:
        own = inspect.signature(command, eval_str=True)
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if standard[name] == () else standard[name],
                annotation=_annotation(name, types[name], declared[name]),
            )
            for name in names
        ]
        dataset = inspect.Parameter(
            "dataset", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Dataset
        )

        @functools.wraps(command)
        def run(**given: Any) -> None:
            values = {name: given.pop(name) for name in names}
            dataset = given.pop("dataset", None) if "tasks" in names else None
            if dataset is not None:
                if values["tasks"] is not None:
                    raise typer.BadParameter(
                        "these options exclude each other", param_hint="TASKS, --dataset"
                    )
                values["tasks"] = dataset
            lists = {
                name: tuple(value or ())
                for name, value in values.items()
                if types[name] == tuple[str, ...]
            }
            texts = {
                name: declared[name].joined.join(values[name])
                for name in names
                if declared[name].joined and values[name]
            }
            command(**{to: kind(**{**values, **lists, **texts})}, **given)

        rest = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in own.parameters.values()
        ]
        at = list(own.parameters).index(to)
        tasks = [dataset] if "tasks" in names else []
        parameters = [*rest[:at], *options, *tasks, *rest[at + 1 :]]
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run  # type: ignore[return-value]

    return decorate


_Dataset = Annotated[
    str | None, typer.Option("--dataset", "-d", help="The same as TASKS.", rich_help_panel=WHAT)
]


def _annotation(name: str, kind: Any, about: Knob) -> Any:
    kind = list[str] | None if kind == tuple[str, ...] or about.joined else kind
    shown: dict[str, Any] = {
        "help": about.help,
        "metavar": about.metavar,
        "min": about.minimum,
        "max": about.maximum,
    }
    shown["rich_help_panel"] = about.group or None
    if name == "tasks":
        return Annotated[kind, typer.Argument(**shown)]
    return Annotated[
        kind, typer.Option(*(about.flags or (f"--{name.replace('_', '-')}",)), **shown)
    ]
