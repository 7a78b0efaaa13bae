"""Options that users set, declared once as fields of a dataclass.

Default, help, bounds, choices, and when they count. Commands, forms, copied commands and checks
read the declaration. A class of options looks like this::

    @dataclass(frozen=True)
    class Play:
        group: int = knob(1, "Episodes for each task.", "--group", "-r", minimum=1)

A class that derives from one with options may name those that it does not take in `fixed`. A text
is the value of an option as a user types it; an empty one is no value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

from hudtui.core.errors import InputError, Location
from hudtui.core.text import clean_line

_KEY = "knob"
_LARGEST = 1e300
YES = ("true", "yes", "1")
"""Texts of an option of yes or no that is on."""
_EXPONENT = re.compile(r"e([+-])0*")

Texts = Mapping[str, str]
"""Texts of options by name. A missing one is empty."""


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
    """Its name in a form; empty for its own."""
    group: str = ""
    """Title of the group of options that it belongs to, in a command's help and in a form."""
    place: int = 0
    """Its place in the group: before 0 for the first ones, above 0 for the last; among equals as
    they are declared."""
    when: Callable[[Texts], bool] | None = None
    """The condition on the texts of the other options under which it counts; None for always."""
    choices: tuple[tuple[str, str], ...] | Callable[[], Iterable[tuple[str, str]]] = ()
    """All that it may be: words for each choice, and its text."""
    lists: str = ""
    """What of the project it may name: a form lists these, beside any other text."""
    suggestions: tuple[str, ...] = ()
    """Texts that a form suggests while one is typed."""
    unset: str = ""
    """What counts without a value, where the default does not say it."""
    required: bool = False
    """Nothing can be done without a value."""
    in_form: bool = True
    """A form has a field for it."""
    joined: str = ""
    """What joins the values of an option that may be typed several times; empty: it is typed
    once."""

    def flag(self, name: str) -> str:
        """Return the long option that it is on a command line."""
        return next(
            (flag for flag in self.flags if flag.startswith("--")), f"--{name.replace('_', '-')}"
        )

    def title(self, name: str) -> str:
        """Return its name in a form, and in errors about its text."""
        return self.label or name.replace("_", " ")

    def entries(self) -> tuple[tuple[str, str], ...]:
        """Return its choices: words for each, and its text."""
        return tuple(self.choices() if callable(self.choices) else self.choices)

    def counts(self, texts: Texts) -> bool:
        """Return whether it counts beside these texts."""
        return self.when is None or self.when(texts)


def knob(default: Any, help: str, *flags: str, **about: Any) -> Any:  # noqa: A002 - as in argparse
    """A field of a dataclass that is an option of the user's. See `Knob` for the arguments."""
    return field(default=default, metadata={_KEY: Knob(help, flags, **about)})


def knobs_of(kind: type) -> Mapping[str, Knob]:
    """Return the options that a dataclass takes, by the names of its fields.

    They come in the order of their places.
    """
    declared = {one.name: one.metadata[_KEY] for one in fields(kind) if _KEY in one.metadata}
    fixed = getattr(kind, "fixed", ())
    names = sorted(
        (name for name in declared if name not in fixed), key=lambda name: declared[name].place
    )
    return {name: declared[name] for name in names}


def kinds_of(kind: type) -> Mapping[str, Any]:
    """The types of the options that a dataclass takes, by name."""
    names, kinds = knobs_of(kind), dict[str, Any]()
    for base in reversed(kind.__mro__):
        written = vars(base).get("__annotations__", {})
        options = {name: text for name, text in written.items() if name in names}
        # Other fields may have types that are imported for the type checker alone.
        kinds |= get_type_hints(
            SimpleNamespace(__annotations__=options), vars(sys.modules[base.__module__])
        )
    return kinds


def values_from(kind: type, texts: Texts) -> dict[str, Any]:
    """Return the values that texts stand for, by the names of a dataclass's options.

    Other texts are left out.

    Raises:
        InputError: A text is not of the option's type, or beyond its bounds; the error names the
            option as a form does.
    """
    knobs, kinds, values = knobs_of(kind), kinds_of(kind), dict[str, Any]()
    for name, text in texts.items():
        if text and name in knobs:
            values[name] = _value(kinds[name], text, Location(knobs[name].title(name)))
    if problem := _first_beyond(values, knobs):
        raise InputError(problem)
    return values


def _value(kind: Any, text: str, where: Location) -> Any:
    types = (kind, *get_args(kind))
    if bool in types:
        return text.lower() in YES
    if tuple in (getattr(one, "__origin__", None) for one in types):
        return tuple(text.split())
    convert = next((one for one in (int, float, Path) if one in types), str)
    try:
        return convert(text)
    except ValueError:
        whole = "whole " if convert is int and is_number(text) else ""
        raise InputError(f"{clean_line(text, 40)!r} is not a {whole}number", where=where) from None


def is_number(text: str) -> bool:
    """True if a text is a number as Python writes it, such as 12 or 1e-5."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def text_of(value: Any) -> str:
    """Return the text of a value; empty for none."""
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _EXPONENT.sub(lambda sign: f"e{sign[1].strip('+')}", repr(value))
    return " ".join(value) if isinstance(value, tuple) else str(value)


def out_of_bounds(options: Any) -> str | None:
    """The first value of a dataclass with options that is beyond its bounds, in words.

    None where there is none.
    """
    return _first_beyond(vars(options), knobs_of(type(options)))


def _first_beyond(values: Mapping[str, Any], knobs: Mapping[str, Knob]) -> str | None:
    for name, about in knobs.items():
        value = values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not -_LARGEST <= value <= _LARGEST:  # nor infinite, nor no number
            return f"{name} must be a number that can be computed with"
        if about.minimum is not None and value < about.minimum:
            return f"{name} must be at least {about.minimum:g}, not {value:g}"
        if about.maximum is not None and value > about.maximum:
            return f"{name} must be at most {about.maximum:g}, not {value:g}"
    return None
