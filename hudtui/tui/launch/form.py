"""The form of Launch.

A field for each option of a run and each setting of a trainer, from their declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from hudtui.core.knobs import Knob, Texts, kinds_of, knobs_of
from hudtui.core.runs.art_request import ArtRequest
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.request_texts import counts, default_text, first_texts, kind_of
from hudtui.core.training.options import (
    LIMITS,
    PLAYER,
    ROLLOUTS,
    TRAINER,
    TRAINING,
    WHAT,
    WHERE,
    trains,
)
from hudtui.core.training.recipe import Recipe
from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.knob_pane import KnobPane, KnobRow

OFFER = "offer"
"""The choice of the machine that was picked on Compute."""
MACHINE, MORE = "machine", "more"
"""Fields that are no options: `machine` stands for the options that name one, `more` shows what
stands below it."""
_PANES = {WHAT: "What", ROLLOUTS: "What", WHERE: "Where", LIMITS: "Limits", TRAINING: "Training"}
"""The pane of each group of options. Settings of a trainer without a group are shown on demand."""
_OWN = {
    MACHINE: Knob(
        "The machine that it runs on: this machine, one of yours behind SSH, or a rented machine.",
        choices=lambda: (),
        required=True,
        group=WHERE,
        place=-1,
    ),
    MORE: Knob(
        "Shows all other settings of the trainer.",
        label="all settings",
        when=trains,
        group=TRAINING,
        place=2,
    ),
}


def _declared() -> Iterator[tuple[str, Knob]]:
    """Yield all options and settings; the first declaration of a name decides about its field."""
    settings = knobs_of(Recipe).items()
    yield from _OWN.items()
    yield from knobs_of(RunRequest).items()
    yield from ((name, about) for name, about in settings if about.group)
    yield from knobs_of(ArtRequest).items()
    yield from settings


def _fields() -> dict[str, Knob]:
    fields: dict[str, Knob] = {}
    for name, about in _declared():
        if about.in_form:
            fields.setdefault(name, about)
    panes = list(_PANES.values())
    order = {
        name: (panes.index(pane_of(about)), not about.group, about.place)
        for name, about in fields.items()
    }
    return {name: fields[name] for name in sorted(fields, key=order.__getitem__)}


def pane_of(about: Knob) -> str:
    """Return the title of the pane that a field is in."""
    return _PANES.get(about.group or TRAINING, "What")


FORM: Mapping[str, Knob] = _fields()
"""All fields in their order, with their declarations."""
FIRST: Mapping[str, str] = {
    **first_texts(ArtRequest),
    **first_texts(RunRequest),
    "engine": PLAYER,
    MACHINE: "local",
}
"""Texts that the form begins with; the engine until the machine is looked at."""
_KINDS = kinds_of(RunRequest)


def label_of(name: str) -> str:
    """Return the label of a field."""
    return FORM[name].title(name)


def is_shown(name: str, texts: Texts) -> bool:
    """Return whether a field is shown beside these texts."""
    about = FORM[name]
    if name in _OWN:
        return about.counts(texts)
    return name == "engine" or (
        counts(name, texts) and (bool(about.group) or bool(texts.get(MORE)))
    )


def help_of(name: str, texts: Texts) -> str:
    """Return what a field means, with the value that counts while it is empty."""
    option = knobs_of(kind_of(texts)).get(name)
    usual = default_text(name, texts) if option is None and name not in _OWN else ""
    default = f" {usual} when empty." if usual else ""
    return f"{(option or FORM[name]).help}{default}{' Required.' if FORM[name].required else ''}"


_OPTION = re.compile(
    r"hudtui (?:rl|art train) (?P<does>--rehearse|TASKS)\b|hudtui [^,;]*"
    r"|(?P<flag>--[a-z-]+)(?: (?:(?P<value>rollouts|trl|art)|[A-Z]+|user@host)\b)?"
)


def in_form(advice: str) -> str:
    """Return advice that names options of the command with the fields of the form instead.

    Other commands stay as they are.
    """
    return _OPTION.sub(_field, advice)


def _field(option: re.Match[str]) -> str:
    flag = option["flag"] or option["does"]
    if flag == "--rehearse":
        return "{key:launch.rehearse}"
    if flag in ("--host", "--provider"):
        return "the field machine"
    if flag == "TASKS":
        return "the field tasks"
    declared = [*knobs_of(ArtRequest).items(), *knobs_of(RunRequest).items()]
    labels = {about.flag(name): label_of(name) for name, about in declared if name in FORM}
    value = f": {option['value']}" if option["value"] else ""
    return f"the field {labels[flag]}{value}" if flag in labels else option[0]


class LaunchField(Acting, Field):
    """A text of the form."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("launch.submit", "Next field", "Go to the next field.", "enter", palette=False),
    )


def row_of(name: str) -> KnobRow:
    """Return the row of a field."""
    about = FORM[name]
    optional = not about.required and name not in FIRST
    usual = (about.unset or default_text(name, {"engine": TRAINER})) if optional else "choose"
    return KnobRow(
        name,
        about,
        bool if name == MORE else _KINDS.get(name, str),
        prefix="launch",
        usual=usual if about.choices or about.lists else default_text(name, FIRST),
        optional=optional,
        field=LaunchField,
    )


def usual_text(name: str, texts: Texts) -> str | None:
    """Return what an empty field shows beside these texts; None where that does not change.

    The limits of a run are never the settings' own: those count beside them.
    """
    return None if FORM[name].group == LIMITS else default_text(name, texts)


def pane(title: str, rows: Mapping[str, KnobRow], *, id: str) -> KnobPane:  # noqa: A002
    """Return the pane of a group of fields."""
    return KnobPane(title, rows, FIRST, shown=is_shown, usual=usual_text, id=id)
