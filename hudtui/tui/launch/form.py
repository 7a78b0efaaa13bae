"""The form of Launch: which fields there are, when each is shown, and the controls that hold them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.reactive import reactive
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.errors import InputError, Location
from hudtui.core.knobs import Knob, knobs_of, out_of_bounds
from hudtui.core.runs.art_request import SCENARIOS, VAL_SCENARIOS, ArtRequest
from hudtui.core.runs.request import AS_IS, REMOTE, RunRequest
from hudtui.core.text import clean_line
from hudtui.core.training.engines import features_of
from hudtui.core.training.options import PLAYER
from hudtui.core.training.recipe import ALSO_ART, ONLY_ART, Recipe, settings_taken
from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.pane import Pane
from hudtui.tui.widgets.pick import Pick
from hudtui.tui.widgets.tick import Tick

if TYPE_CHECKING:
    from hudtui.tui.screen import HudtuiScreen

ALWAYS, PLAYS, TRAINS, RENTS, AWAY, MORE = "always", "plays", "trains", "rents", "away", "more"
"""When a field is shown: always, for rollouts, for a training, for a rented machine, for any machine but this one, on demand."""
SEARCHES = "searches"
"""For a machine that hudtui chooses among the offers of a provider."""
ART, NOT_ART, OTHER_TRAINERS, MORE_OF_ART, MORE_OF_OTHERS = "art", "not art", "other trainers", "more of art", "more of others"
"""With an engine that starts from an environment, as art does; with any other one; for a training with any other one; on demand,
with art, and with any other one."""
ON_DEMAND = (MORE, MORE_OF_ART, MORE_OF_OTHERS)
OTHER = "?"
"""The choice that asks for a text."""
OFFER = "offer"
"""The choice of the machine that was picked on Compute."""
GROUPS: Mapping[str, Mapping[str, str]] = {
    "What": {
        **dict.fromkeys(("tasks", "config"), NOT_ART),
        "engine": ALWAYS,
        **dict.fromkeys(("environment", "art_config", "dataset", "reward"), ART),
        "model": TRAINS,
        **dict.fromkeys(("policy", "base_url", "group", "limit"), PLAYS),
        **dict.fromkeys(("max_turns", "name"), ALWAYS),
    },
    "Where": {"machine": ALWAYS, "gpus": RENTS, "spot": SEARCHES, "environments": AWAY, "python": AWAY},
    "Limits": {"budget": RENTS, "max_hours": ALWAYS, "idle_minutes": RENTS, "keep_on_failure": RENTS},
    "Training": {
        **dict.fromkeys(("scenarios", "val_scenarios", "epochs", "groups_per_step"), ART),
        **dict.fromkeys(("steps", "learning_rate", "num_generations"), TRAINS),
        **dict.fromkeys(("batch_size", "lora"), OTHER_TRAINERS),
        "max_tokens": TRAINS,
        "training": OTHER_TRAINERS,
        **dict.fromkeys(("ruler", "project", "model_name"), ART),
        "more": TRAINS,
    },
}


def _on_demand(name: str) -> str:
    if name in ONLY_ART:
        return MORE_OF_ART
    return MORE if name in ALSO_ART and name != "held_out" else MORE_OF_OTHERS  # with art: `val_scenarios`


_LEFT_OUT = ("warm_start", "lora_targets")
"""Settings of the trainer that a line of text does not hold, or that only a rehearsal uses."""
AS_ART = {"num_generations": "rollouts_per_group", "max_seq_len": "max_seq_length"}
"""Settings of the trainer that have another name among the options of a training with ART."""
_SHOWN = {name for group in GROUPS.values() for name in group}
FORM: Mapping[str, str] = {
    **{name: when for group in GROUPS.values() for name, when in group.items()},
    **{name: _on_demand(name) for name in knobs_of(Recipe) if name not in _SHOWN and name not in _LEFT_OUT},
}
"""All fields in their order, and when each is shown."""
OPTIONS_OF_ART = knobs_of(ArtRequest)
KNOBS: Mapping[str, Knob] = {
    **OPTIONS_OF_ART,
    **knobs_of(Recipe),
    **knobs_of(RunRequest),
    "machine": Knob("The machine that it runs on: this machine, one of yours behind SSH, or a rented machine."),
    "more": Knob("Shows all other settings of the trainer.", label="all settings"),
}
SETTINGS = tuple(name for name in FORM if name in knobs_of(Recipe) and name not in knobs_of(RunRequest))
"""Fields that are settings of the trainer."""
OF_ART = tuple(name for name, when in FORM.items() if when in (ART, TRAINS, MORE, MORE_OF_ART) and name != "more")
"""Fields of a training with ART, apart from those of its machine."""
ONLY_OF_ART = tuple(name for name, when in FORM.items() if when in (ART, MORE_OF_ART))
USUAL = {"machine": "local", "engine": PLAYER, "policy": "greedy", "environments": "as-is", "environment": "2048"}
"""What the form begins with."""
REQUIRED = ("tasks", "config", "environment", "machine")
_NUMBERS = (int, float)
_TYPES = {field.name: str(field.type) for field in fields(ArtRequest)}
_POLICIES = ("greedy", "random", "replay:", "openai:")


def label_of(name: str) -> str:
    """Return the label of a field."""
    return (OPTIONS_OF_ART if name in ONLY_OF_ART and name in OPTIONS_OF_ART else KNOBS)[name].label or name.replace("_", " ")


def is_taken(name: str, engine: str) -> bool:
    """Return whether an engine takes what a field says. Fields that are no settings of a trainer are taken by all."""
    return name not in SETTINGS or name in settings_taken(features_of(engine))


def knob_of(name: str, *, art: bool = False) -> Knob:
    """Return the declaration of a field: with `art`, the option of a training with ART."""
    found = OPTIONS_OF_ART.get(AS_ART.get(name, name)) if art else None
    return found or KNOBS[name]


def is_option_of_art(name: str) -> bool:
    """Return whether a field is an option of `hudtui art train`, and not a single setting of the trainer."""
    return AS_ART.get(name, name) in OPTIONS_OF_ART


def flag_of(name: str, *, art: bool) -> str:
    """Return the option of the command that a field stands for."""
    about = knob_of(name, art=art)
    option = AS_ART.get(name, name) if art else name
    return next((flag for flag in about.flags if flag.startswith("--")), f"--{option.replace('_', '-')}")


def in_form(advice: str) -> str:
    """Return advice that names options of the command with the fields of the form instead. Other commands stay as they are."""
    return _OPTION.sub(_field, advice)


_OPTION = re.compile(
    r"hudtui (?:rl|art train) (?P<does>--rehearse|TASKS)\b|hudtui [^,;]*"
    r"|(?P<flag>--[a-z-]+)(?: (?:(?P<value>rollouts|trl|art)|[A-Z]+|user@host)\b)?"
)


def _field(found: re.Match[str]) -> str:
    flag = found["flag"] or found["does"]
    if flag == "--rehearse":
        return "{key:launch.rehearse}"
    if flag in ("--host", "--provider"):
        return "the field machine"
    if flag == "TASKS":
        return "the field tasks"
    labels = {flag_of(name, art=art): label_of(name) for name in reversed(tuple(FORM)) for art in (True, False)}
    value = f": {found['value']}" if found["value"] else ""
    return f"the field {labels[flag]}{value}" if flag in labels else found[0]


def help_of(name: str, engine: str = "") -> str:
    """Return what a field means, with the value that counts while it is empty."""
    art = features_of(engine).from_environment
    about, required = knob_of(name, art=art), " Required." if name in REQUIRED else ""
    default = ""
    if not art or about is KNOBS[name]:
        usual = Recipe()
        told = {field.name: as_typed(getattr(usual, field.name)) for field in fields(usual)} | {"rate": f"{usual.rate:g}"}
        default = f" {told[name]} when empty." if name in SETTINGS and told.get(name) not in (None, "None") else ""
        if name == "learning_rate":
            default = f" {told['rate']} when empty, for the usual model."
    return f"{about.help}{default}{required}"


@cache
def usual_of(name: str, engine: str = "") -> str:
    """Return what an empty field shows: the value that counts then, or words for it."""
    usual = {"model": Recipe().model, "learning_rate": f"{Recipe().rate:g}", "group": "1", "name": "made from the files"}
    usual |= {"gpus": "by fit, then price", "python": "made there", "limit": "all tasks", "max_turns": "as in the configuration"}
    features = features_of(engine)
    if features.from_environment:
        usual |= {"model": "small", "learning_rate": "by the model's size", "max_turns": "the environment's"}
        usual |= {
            "scenarios": str(SCENARIOS),
            "val_scenarios": str(VAL_SCENARIOS),
            "epochs": "1",
            "groups_per_step": "by the steps",
        }
        usual |= {"ruler": "no judge", "project": "hud-art", "model_name": "ENV-MODEL", "reward": "the environment's"}
    usual |= {name: as_typed(value) for name, value in features.defaults.items() if name not in usual}
    default = getattr(Recipe(), name) if name in (*SETTINGS, "steps") else None
    return usual.get(name, "" if default is None else as_typed(default))


def options_of_art(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a training with ART that fields hold, by the names of `ArtRequest`.

    Raises:
        InputError: A text is not of the option's kind, or beyond its bounds.
    """
    found: dict[str, Any] = {}
    for name, text in texts.items():
        option = AS_ART.get(name, name)
        kind = next((one for one in _NUMBERS if one.__name__ in _TYPES[option]), Path if "Path" in _TYPES[option] else str)
        try:
            found[option] = kind(text)
        except ValueError:
            raise InputError(f"{text!r} is not a number", where=Location(label_of(name))) from None
    if problem := out_of_bounds(ArtRequest(**found)):
        raise InputError(problem)
    return found


def as_typed(value: object) -> str:
    """Return a value of the trainer as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Dropdown(Acting, Widget, can_focus=True):
    """One of several texts, in one row. A text that is no option yet becomes one.

    Args:
        title: What is chosen.
        prompt: What stands here without a choice.
        optional: Whether the user can go back to none.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("launch.choose", "Choose", "Open the list of choices.", "enter,space", palette=False),
    )

    DEFAULT_CSS = """
    Dropdown { height: 1; padding: 0 1; background: $panel; }
    Dropdown:focus { background-tint: $foreground 15%; text-style: bold; }
    """

    value = reactive("", init=False)
    """The chosen text; empty without a choice."""

    @dataclass
    class Changed(Message):
        """Another text is chosen."""

        dropdown: Dropdown

        @property
        def control(self) -> Dropdown:
            """The dropdown."""
            return self.dropdown

    class OtherChosen(Changed):
        """The user wants a text that is not in the list; the choice stays."""

    def __init__(self, *, id: str, title: str, prompt: str = "choose", optional: bool = False) -> None:  # noqa: A002
        super().__init__(id=id)
        self._title = title
        self._none, self._optional = (prompt, ""), optional
        self.entries: tuple[tuple[str, str], ...] = (self._none,)
        """The options: what is shown, and the text."""

    def render(self) -> Content:
        """The choice, and a sign that there are others."""
        shown = next((shown for shown, text in self.entries if text == self.value), "")
        return Content.assemble(
            (pad(shown, max(self.content_size.width - 2, 0)), "" if self.value else "$foreground-muted"), (" ▼", "")
        )

    def watch_value(self) -> None:
        """Tell the form."""
        self.post_message(self.Changed(self))

    def on_click(self) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        cast("HudtuiScreen", self.screen).start(self._choose, group="choose")

    async def _choose(self) -> None:
        entries = self.entries
        shown = [Content.styled(shown, "" if text else "$foreground-muted") for shown, text in entries]
        at = next((at for at, (_, text) in enumerate(entries) if text == self.value), 0)
        index = await cast("HudtuiScreen", self.screen).app.push_screen_wait(Pick(self._title, shown, at=at))
        if index is None:
            return
        if entries[index][1] == OTHER:
            self.post_message(self.OtherChosen(self))
        else:
            self.put(entries[index][1])

    def offer(self, entries: Iterable[tuple[str, str]]) -> None:
        """Offer other options (shown, text). The choice stays, also if it is not among them."""
        now, found = self.value, list(entries)
        if now and now not in [text for _, text in found]:
            found.insert(0, next((one for one in self.entries if one[1] == now), (clean_line(now, 80), now)))
        if self._optional or not now:
            found.insert(0, self._none)
        self._show_entries(found)

    def put(self, text: str) -> None:
        """Choose a text; an empty one is no choice."""
        entries = list(self.entries)
        if text not in [one for _, one in entries]:
            entries.insert(0, (clean_line(text, 80), text) if text else self._none)
        if text and not self._optional and self._none in entries:
            entries.remove(self._none)
        self.value = text
        self._show_entries(entries)

    def _show_entries(self, entries: Iterable[tuple[str, str]]) -> None:
        self.entries = tuple(entries)
        self.refresh()


class LaunchField(Acting, Field):
    """A text of the form."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("launch.submit", "Next field", "Go to the next field.", "enter", palette=False),
    )


Control = Field | Dropdown | Tick
_CHOICES = ("tasks", "config", "engine", "environment", "art_config", "dataset", "machine", "spot", "environments", "lora")
_PROMPTS = {"lora": as_typed(Recipe().lora), "art_config": "none: built-in values", "dataset": "the environment's own"}
_PROMPTS |= {"spot": "usually on demand"}
_TICKS = ("keep_on_failure", "more")


def _control(name: str) -> Control:
    where = f"launch-{name}"
    if name in _CHOICES:
        title = label_of(name).capitalize()
        return Dropdown(id=where, title=title, prompt=_PROMPTS.get(name, "choose"), optional=name in _PROMPTS)
    if name in _TICKS:
        return Tick(id=where)
    field = LaunchField(placeholder=usual_of(name), id=where)
    if name == "policy":
        field.suggester = SuggestFromList(_POLICIES)
    return field


class Row(Horizontal):
    """A field with its label."""

    DEFAULT_CSS = """
    Row { height: 1; }
    Row > Static { width: 13; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    Row > Field, Row > Dropdown { width: 1fr; margin-right: 1; }
    """

    def __init__(self, name: str) -> None:
        mark = ("*", "bold $accent") if name in REQUIRED else " "
        self.when = FORM[name]
        self.control = _control(name)
        self.control.add_class("-control", update=False)  # no style asks for it
        super().__init__(Static(Content.assemble((label_of(name), "bold $primary"), mark)), self.control, id=f"launch-row-{name}")


class FieldsPane(Pane):
    """A group of fields. Those that are not shown at first are mounted when they are."""

    DEFAULT_CSS = """
    FieldsPane { height: auto; }
    FieldsPane > Container { height: auto; layout: vertical; padding: 0 1; }
    """

    @dataclass
    class Focused(Message):
        """A field of the pane has the focus."""

        name: str

    def __init__(self, title: str, rows: Mapping[str, Row], *, id: str) -> None:  # noqa: A002
        super().__init__(title=title, id=id)
        self._rows = rows

    def compose(self) -> ComposeResult:
        yield Container(*(row for row in self._rows.values() if row.when in (ALWAYS, PLAYS)))

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if event.widget.has_class("-control"):
            self.post_message(self.Focused(str(event.widget.id).removeprefix("launch-")))

    def show(self, shown: Mapping[str, bool], engine: str) -> None:
        """Show the fields that count now, and in those that are empty what counts with this engine."""
        before: Row | None = None
        for name, row in self._rows.items():
            if shown[row.when] and not row.is_attached:
                self.query_one(Container).mount(row, after=before) if before else self.query_one(Container).mount(row, before=0)
            before = row if row.is_attached else before
            row.display = shown[row.when] and is_taken(name, engine)
            if isinstance(row.control, Field) and name not in ("budget", "idle_minutes", "max_hours"):  # the settings' count
                row.control.placeholder = usual_of(name, engine)


def put(control: Widget, text: str) -> None:
    """Give a control another value, as it would be typed."""
    if isinstance(control, Dropdown):
        control.put(text)
    elif isinstance(control, Tick):
        control.value = text.lower() in ("true", "yes", "1")
    elif isinstance(control, Field):
        control.value = text
        control.cursor_position = len(text)


def text_of(control: Widget) -> str:
    """Return the value of a control as it would be typed; empty for none."""
    if isinstance(control, Dropdown):
        return control.value
    if isinstance(control, Tick):
        return "true" if control.value else ""
    return control.value.strip() if isinstance(control, Field) else ""


ENVIRONMENTS: tuple[tuple[str, str], ...] = (("where the tasks say", AS_IS), ("on the platform", REMOTE))
SPOT: tuple[tuple[str, str], ...] = (("spot only", "true"), ("never spot", "false"))
LORA: tuple[tuple[str, str], ...] = (("an adapter", "true"), ("all weights", "false"))
