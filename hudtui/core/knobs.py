"""Options that users set, declared once as fields of a dataclass: default, help, bounds, and how a form shows them.

Commands, forms and checks read the declaration. A class of options looks like this::

    @dataclass(frozen=True)
    class Play:
        group: int = knob(1, "Episodes for each task.", "--group", "-r", minimum=1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

_KEY = "knob"
_LARGEST = 1e300


@dataclass(frozen=True)
class Knob:
    """An option, apart from its name, type and default, which the field of the dataclass has."""

    help: str
    """What it does, in one sentence."""
    flags: tuple[str, ...] = ()
    """How it is typed on a command line; empty for `--its-name`."""
    metavar: str | None = None
    """What the command line's help shows for its value."""
    minimum: float | None = None
    maximum: float | None = None
    label: str = ""
    """Its name in a form."""
    group: str = ""
    """Title of the group of options that it belongs to, in a command's help and in a form."""


def knob(
    default: Any,
    help: str,  # noqa: A002 - as in argparse
    *flags: str,
    metavar: str | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    label: str = "",
    group: str = "",
) -> Any:
    """A field of a dataclass that is an option of the user's. See `Knob` for the arguments."""
    return field(default=default, metadata={_KEY: Knob(help, flags, metavar, minimum, maximum, label, group)})


def knobs_of(kind: type) -> Mapping[str, Knob]:
    """The options that a dataclass declares, by the names of its fields, in their order."""
    return {one.name: one.metadata[_KEY] for one in fields(kind) if _KEY in one.metadata}


def out_of_bounds(options: Any) -> str | None:
    """The first value of a dataclass with options that is beyond its bounds, in words; None where there is none."""
    for name, about in knobs_of(type(options)).items():
        value = getattr(options, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not -_LARGEST <= value <= _LARGEST:  # nor infinite, nor no number
            return f"{name} must be a number that can be computed with"
        if about.minimum is not None and value < about.minimum:
            return f"{name} must be at least {about.minimum:g}, not {value:g}"
        if about.maximum is not None and value > about.maximum:
            return f"{name} must be at most {about.maximum:g}, not {value:g}"
    return None
