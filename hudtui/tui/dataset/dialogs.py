"""The dialogs of the dataset screen: which tasks to open, and what to make of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widgets import Button, OptionList, Static

from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.events import Progress
from hudtui.core.knobs import Texts, kinds_of, knobs_of, text_of, values_from
from hudtui.core.tasks.masking import masked_json, masked_text
from hudtui.core.tasks.options import DatasetOptions, TaskSelection
from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction, by_key
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.dialog import Dialog, DialogButton, dialog_title, error_content
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.knob_pane import KnobRow
from hudtui.tui.widgets.lists import Choices
from hudtui.tui.widgets.tick import Tick

if TYPE_CHECKING:
    from hudtui.core.flows.publish import DatasetChoice, DatasetChoices
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.dataset import DatasetPreview, DatasetRequest
    from hudtui.core.tasks.read import OpenedSource
    from hudtui.core.tasks.table import TaskIndex

_NO_TOKEN = "✗ no token for the Hub: set HF_TOKEN in the settings; what you entered here is kept"
_PAUSE = 0.3
"""Seconds without a key after which the preview is updated."""


class OpenDialog(Dialog["str | None"]):
    """Choose one of the task files of the project, or name another source."""

    def __init__(self, files: Sequence[tuple[str, str]], chosen: str | None) -> None:
        """Make it.

        Args:
            files: Each name, and a word about it.
            chosen: Name of the open file.
        """
        super().__init__()
        self._files, self._chosen = files, chosen

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide", id="open-box"):
            yield dialog_title("Which tasks?")
            options = []
            for name, word in self._files:
                mark = "● " if name == self._chosen else "  "
                options.append(
                    Choices.option(
                        Content.assemble(
                            mark, clean_line(name), (f"  {word}", "$foreground-muted")
                        ),
                        name,
                    )
                )
            if options:
                yield Choices(*options, id="open-files")
            else:
                yield Static(
                    Content.styled("No task file was found in this project.", "$foreground-muted"),
                    classes="dialog-title",
                )
            yield Field(
                placeholder="a path, or ORG/NAME[@REVISION][:SPLIT] on the Hub", id="open-name"
            )
            yield self.key_line(
                f"Enter opens   {'↑↓ choose   ' if options else ''}{{key:dialog.cancel}} cancel"
            )

    def on_mount(self) -> None:
        """Focus the field, with the list's cursor on the open file.

        Arrows choose, letters name another source.
        """
        self.query_one(Field).focus()
        names = [name for name, _ in self._files]
        for rows in self.query(Choices):
            rows.highlighted = names.index(self._chosen) if self._chosen in names else 0

    def on_key(self, event: events.Key) -> None:
        """Up and down move in the list while the field has the keys."""
        if event.key in ("up", "down") and isinstance(self.focused, Field):
            event.stop()
            for rows in self.query(Choices):
                (rows.action_cursor_up if event.key == "up" else rows.action_cursor_down)()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option.id)

    def on_input_submitted(self, event: Field.Submitted) -> None:
        """Open the source that was typed, or the file under the cursor of the list."""
        event.stop()
        name = event.value.strip()
        rows = self.query(Choices)
        if not name and rows and (at := rows.first(Choices).highlighted) is not None:
            name = self._files[at][0]
        if name:
            self.dismiss(name)


def _switch(offer: DatasetChoice) -> Tick:
    return Tick(offer.label, value=offer.default, reason=offer.why_not)


@dataclass(frozen=True)
class ConvertContext:
    """What is known of the tasks before the dialog opens."""

    opened: OpenedSource
    settings: Settings
    tasks: str
    """The source, as the user named it."""
    output: str
    """Where a conversion would write."""
    offers: DatasetChoices
    """What these tasks need, and what the project offers."""
    analysis: Any = field(default=None, repr=False)
    known: TaskIndex | None = field(default=None, repr=False)
    """The tasks as they were read, where all of them were."""


class MakeDialog(Dialog["DatasetRequest | None"]):
    """Convert or publish tasks: a form, and below it a preview of the result."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "make.start",
            "Start",
            "Write the dataset.",
            "ctrl+g",
            palette=False,
            priority=True,
            decides=True,
        ),
        by_key("make.up", "Row above", "Go to the row above.", "up", priority=True),
        by_key("make.down", "Row below", "Go to the row below.", "down,enter", priority=True),
    )

    def __init__(
        self,
        context: ConvertContext,
        *,
        publish: bool,
        entries: Texts | None = None,
    ) -> None:
        super().__init__()
        self.context, self.publish = context, publish
        self.entries: dict[str, str] = dict(entries or {})
        """Entries by option. They outlive the dialog, so that nothing has to be entered twice."""
        self.request: DatasetRequest | None = None
        """The request that the form makes; None while an entry is invalid."""
        self.knobs: dict[str, KnobRow] = {}
        """The rows of the form by option."""
        self.rows: int | None = None
        """Number of rows of the result; None until they are counted."""
        self._timer: Any = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide", id="make-box"):
            title = "Publish on the Hugging Face Hub" if self.publish else "Convert to a dataset"
            yield dialog_title(f"{title}: {clean_line(self.context.tasks, 60)}")
            with VerticalScroll(id="make-rows", can_focus=False):
                self.knobs = {row.option: row for row in self._rows()}
                yield from self.knobs.values()
            with VerticalScroll(id="make-preview-scroll", can_focus=False):
                yield CalmStatic(
                    Content.styled("Looking at the tasks …", "$foreground-muted"), id="make-preview"
                )
            with Horizontal(classes="dialog-buttons"):
                yield DialogButton(
                    self.words(f"{'Publish' if self.publish else 'Write'} ({{key:make.start}})"),
                    "yes",
                    "primary",
                )
                yield DialogButton(self.words("Cancel ({key:dialog.cancel})"), "no")

    def _rows(self) -> Iterator[KnobRow]:
        kinds = {**kinds_of(DatasetOptions), **kinds_of(TaskSelection)}
        knobs = {**knobs_of(DatasetOptions), **knobs_of(TaskSelection)}
        for name in sorted(knobs, key=lambda name: knobs[name].place):
            about = knobs[name]
            if about.in_form and self._is_asked(name):
                tick = self._tick(name, about.help)
                yield KnobRow(name, about, kinds[name], prefix="make", usual=about.help, tick=tick)

    def _is_asked(self, name: str) -> bool:
        if name == "keep_secrets":
            return self.publish and bool(self.context.offers.secrets.tasks)
        return self.publish or name not in ("name", "private")

    def _tick(self, name: str, words: str) -> Tick:
        offers, path = self.context.offers, self.context.opened.source.path
        if name == "remote":
            return _switch(offers.remote)
        if name == "replace_secrets":
            return _switch(offers.secrets)
        if name == "private":
            return Tick("Only you and your organisation see it.", value=True)
        if name == "in_place":
            plain = path is not None and path.suffix in (".json", ".jsonl", ".ndjson")
            reason = None if plain else "only .json and .jsonl files are changed in place"
            return Tick(words, reason=reason)
        if name == "name_in_lock":
            reason = None if offers.lock is not None else "no lock file here"
            words = f"Name it in {offers.lock} as the project's dataset."
            return Tick(words, value=offers.own, reason=reason)
        return Tick(words)

    def _begin(self) -> Iterator[tuple[str, str]]:
        names = self.context.offers.names
        yield "output", "" if self.publish else self.context.output
        yield "seed", text_of(TaskSelection().seed)
        if self.publish and names:
            yield "name", names[0]

    def on_mount(self) -> None:
        for name, text in {**dict(self._begin()), **self.entries}.items():
            self.knobs[name].put(text)
        for control in self.query("#make-name").results(Field):
            control.suggester = SuggestFromList(self.context.offers.names)
        self.query(Field).first().focus()
        self._soon()

    # -- moving
    # ----------------------------------------------------------------------------------------------

    def action_up(self) -> None:
        self.focus_previous()

    def action_down(self) -> None:
        """The row below; Enter on a button presses it, on a box flips it."""
        focused = self.focused
        if isinstance(focused, Button):
            focused.press()
        else:
            self.focus_next()

    # -- the preview
    # ----------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Field.Changed) -> None:
        event.stop()
        self._soon()

    def on_checkbox_changed(self, event: Tick.Changed) -> None:
        event.stop()
        self._soon()

    def _soon(self) -> None:
        self.request = self.rows = None
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_PAUSE, self._preview, name="preview")

    @work(group="preview", exclusive=True)
    async def _preview(self) -> None:
        from hudtui.core.events import iterate_in_thread
        from hudtui.core.tasks.dataset import DatasetPreview, preview

        self._timer = None
        shown = self.query_one("#make-preview", Static)
        try:
            self.request = request = self._read()
            self.refresh_bindings()
            last: DatasetPreview | None = None
            told = 0.0
            looking = preview(
                request, self.context.settings, self.context.opened.source, known=self.context.known
            )
            async with aclosing(iterate_in_thread(looking)) as steps:  # type: ignore[type-var]
                async for step in steps:
                    if isinstance(step, DatasetPreview):
                        last = step
                        shown.update(self._told(last))
                    elif isinstance(step, Progress) and step.total and last is not None:
                        now = asyncio.get_running_loop().time()
                        if now - told > 0.2:
                            told = now
                            shown.update(
                                self._told(
                                    last, f"counting … {100 * (step.done or 0) // step.total} %"
                                )
                            )
        except Exception as error:
            shown.update(
                error_content(error if isinstance(error, HudtuiError) else self.app.defect(error))
            )

    def _told(self, found: DatasetPreview, progress: str = "") -> Content:
        lines: list[Content] = []
        if not found.exact:
            lines.append(Content.styled(progress or "counting …", "$accent"))
        else:
            rows = self.rows = sum(found.splits.values())
            told = ", ".join(f"{count:,} in {split}" for split, count in found.splits.items())
            good = rows > 0
            mark = ("✓ ", "bold $success") if good else ("✗ ", "bold $error")
            out = found.total - found.valid
            notes = [f"{out:,} unusable left out"] if out else []
            if found.valid > found.passed:
                notes.append(f"{found.valid - found.passed:,} filtered out")
            if found.duplicated:
                notes.append(f"{found.duplicated:,} copies")
            lines.append(
                Content.assemble(
                    mark,
                    (f"{rows:,} rows", "bold"),
                    f": {told}" + (f"; {', '.join(notes)}" if notes else ""),
                )
            )
            if self._text("strict") and found.problems:
                lines.append(
                    Content.styled(
                        f"✗ strict: {found.problems:,} problems, so nothing would be written",
                        "bold $error",
                    )
                )
            elif self._text("token_budget"):
                lines.append(
                    Content.styled(
                        f"{found.problems:,} problems with this budget", "$foreground-muted"
                    )
                )
            if self._text("in_place"):
                lines.append(
                    Content.styled("! the task file itself is changed as well", "$warning")
                )
            if 0 < found.splits["train"] < 4:
                lines.append(
                    Content.styled(
                        "! training wants at least 4 tasks: “at least” repeats them", "$warning"
                    )
                )
            if found.duplicated:
                copies = (
                    "1 row is a copy"
                    if found.duplicated == 1
                    else f"{found.duplicated:,} rows are copies"
                )
                lines.append(
                    Content.styled(f"! {copies} of other tasks, under new ids", "$warning")
                )
            if self.publish and not self.context.offers.token:
                lines.append(Content.styled(_NO_TOKEN, "bold $error"))
            if self.publish and not self._text("private"):
                lines.append(Content.styled("! public: everyone can read it", "$warning"))
            if (
                self.publish
                and self.context.offers.secrets.tasks
                and not (self._text("replace_secrets") or self._text("keep_secrets"))
            ):
                lines.append(
                    Content.styled(
                        "✗ secrets would be published: switch “secrets” on, or keep them",
                        "bold $error",
                    )
                )
        lines.append(
            Content.assemble(
                ("columns  ", "bold $primary"), clean_line(", ".join(found.columns), 500)
            )
        )
        for number, row in enumerate(found.rows):
            lines.append(Content.styled(f"row {number}", "bold $primary"))
            for name, text in zip(found.columns, row, strict=True):
                if text is not None and text != "{}":
                    shown = (
                        masked_text(text)
                        if name != "mcp_config"
                        else masked_json(text, self.context.settings.platform)
                    )
                    lines.append(
                        Content.assemble(
                            (f"  {pad(clean_line(name), 14)}", "$foreground-muted"),
                            clean_line(shown, 400),
                        )
                    )
        return Content("\n").join(lines)

    # -- the request
    # ----------------------------------------------------------------------------------------------

    def _text(self, name: str) -> str:
        row = self.knobs.get(name)
        return row.text if row is not None else ""

    def _texts(self) -> dict[str, str]:
        texts = {name: row.text for name, row in self.knobs.items()}
        ticks = (name for name, row in self.knobs.items() if isinstance(row.control, Tick))
        return texts | {name: texts[name] or "false" for name in ticks}

    def _read(self) -> DatasetRequest:
        from hudtui.core.tasks.dataset import DatasetRequest
        from hudtui.core.tasks.select import task_filter
        from hudtui.core.tasks.task import check_name

        texts = self._texts()
        if self.publish:
            check_name(texts["name"])
        elif not texts["output"]:
            raise InputError("say where to write it", where=self._where("output"))
        words = texts.pop("filters")  # one filter, whose words may be in quotes
        task_filter(words)
        selection = TaskSelection(**values_from(TaskSelection, texts))
        request = DatasetRequest(
            self.context.tasks, **values_from(DatasetRequest, texts), push=self.publish
        )
        return replace(
            request,
            split=self.context.opened.source.split,
            replace_secrets=request.replace_secrets and not request.keep_secrets,
            selection=replace(selection, filters=(words,) if words else ()),
            analysis=self.context.analysis,
            same_servers=True,
        )

    def _where(self, name: str) -> Location:
        return Location(self.knobs[name].about.title(name))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id != "yes":
            self.action_cancel()
        elif self.decides("Enter"):
            self.action_start()

    def action_cancel(self) -> None:
        """Close, and keep the entries for the next time."""
        self._keep()
        super().action_cancel()

    def _keep(self) -> None:
        self.entries = self._texts()

    def action_start(self) -> None:
        """Start, if all entries are valid and publishing is possible."""
        try:
            request = self._read()
            if self.publish and not self.context.offers.token:
                self.query_one("#make-preview", Static).update(
                    Content.styled(_NO_TOKEN, "bold $error")
                )
                return
            self._keep()
            self.dismiss(request)
        except HudtuiError as error:
            self.query_one("#make-preview", Static).update(error_content(error))
