"""Choose one of many in a dialog, narrowed by typing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction
from hudtui.tui.widgets.dialog import Dialog, dialog_body, dialog_title
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.hanging import Hanging
from hudtui.tui.widgets.lists import Choices

if TYPE_CHECKING:
    from hudtui.tui.app import HudtuiApp


_NAME = 32
"""Most cells of a name in front of the words about it; a longer name moves the words of its line to
the right."""


class Pick(Dialog["int | None"]):
    """Gives the index of the choice, or None.

    Args:
        title: What is chosen.
        options: One line each, plain or styled; or a name and words about it, which stand in a
            second column.
        at: The choice that the cursor begins on.
        lines: What to know before choosing, above the list.
        hint: Below the list.
        careful: Something is made or written at once when one is chosen: a key in the middle of a
            burst chooses nothing.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "pick.take", "Choose", "Choose the option under the cursor.", "enter", palette=False
        ),
    )
    DEFAULT_CSS = """
    Pick .dialog { height: auto; max-height: 80%; width: 100; }
    Pick Choices { background: $surface; height: auto; max-height: 24; }
    Pick.-h20 Choices { max-height: 9; }
    Pick.-h24 Choices { max-height: 13; }
    """
    _most = 500
    body_share = 0.4

    def __init__(
        self,
        title: str,
        options: Iterable[str | Content | tuple[str, str]],
        *,
        at: int = 0,
        lines: Iterable[str] = (),
        hint: str = "",
        careful: bool = False,
    ) -> None:
        super().__init__()
        self._careful = careful
        self._title, self._at, self._lines, self._hint = title, at, tuple(lines), hint
        self._options = _in_columns(options)
        self._shown: list[int] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield dialog_title(self._title)
            if self._lines:
                yield dialog_body(self._lines)
            if len(self._options) > 4:
                yield Field(placeholder="type to narrow the list", id="pick-word")
            yield Choices(id="pick-rows")
            yield self.key_line(
                self._hint or "{key:pick.take} chooses   {key:dialog.cancel} closes"
            )

    def on_mount(self) -> None:
        self._fill("")
        if self._at in self._shown:
            self.query_one(Choices).highlighted = self._shown.index(self._at)
        (self.query_one(Field) if self.query(Field) else self.query_one(Choices)).focus()

    def _fill(self, word: str) -> None:
        words = word.casefold().split()
        ranks = {index: _rank(option, words) for index, option in enumerate(self._options)}
        fits = [index for index, rank in ranks.items() if rank is not None]
        self._shown = sorted(fits, key=lambda index: ranks[index] or 0)[: self._most]
        rows = self.query_one(Choices)
        rows.clear_options()
        rows.add_options(Choices.option(self._options[index]) for index in self._shown)
        if self._shown:
            rows.highlighted = 0
        else:
            rows.add_option(Option("no match", disabled=True))

    def on_input_changed(self, event: Field.Changed) -> None:
        event.stop()
        self._fill(event.value)

    def on_input_submitted(self, event: Field.Submitted) -> None:
        event.stop()
        self.action_take()

    def on_key(self, event: events.Key) -> None:
        """Up and down move in the list while the field is written into.

        In a list too short for a field, a letter goes to the next option that begins with it.
        """
        rows = self.query_one(Choices)
        if not self.query(Field) and event.is_printable and event.character is not None:
            if self._go_to(event.character.casefold()):
                event.stop()  # other keys keep what they mean elsewhere
            return
        if isinstance(self.focused, Field) and event.key in ("up", "down", "pageup", "pagedown"):
            event.stop()
            moves: dict[str, Callable[[], None]] = {
                "up": rows.action_cursor_up,
                "down": rows.action_cursor_down,
                "pageup": rows.action_page_up,
                "pagedown": rows.action_page_down,
            }
            moves[event.key]()

    def _go_to(self, letter: str) -> bool:
        """Go to the next option that begins with a letter; False without one."""
        rows, count = self.query_one(Choices), len(self._shown)
        at = rows.highlighted or 0
        for place in [(at + step) % count for step in range(1, count + 1)]:
            if _name_of(self._options[self._shown[place]]).startswith(letter):
                rows.highlighted = place
                return True
        return False

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take(event.option_index)

    def action_take(self) -> None:
        self._take(self.query_one(Choices).highlighted)

    def _take(self, at: int | None) -> None:
        if (
            at is not None
            and at < len(self._shown)
            and (not self._careful or self.decides("Enter"))
        ):
            self.dismiss(self._shown[at])


def _in_columns(options: Iterable[str | Content | tuple[str, str]]) -> list[Content | Hanging]:
    """Return what is shown of each option, with the words about the options below each other."""
    given = list(options)
    names = [cell_len(clean_line(one[0])) for one in given if isinstance(one, tuple) and one[1]]
    width = min(max(names, default=0), _NAME)

    def shown(option: str | Content | tuple[str, str]) -> Content | Hanging:
        if isinstance(option, Content):
            return option
        name, about = map(clean_line, option if isinstance(option, tuple) else (option, ""))
        if not about:
            return Content(name)
        lead = Content(pad(name, max(width, cell_len(name))) + "  ")
        return Hanging(lead, Content.styled(about, "$foreground-muted"))

    return [shown(option) for option in given]


def _name_of(option: Content | Hanging) -> str:
    return (option.plain if isinstance(option, Content) else option.lead.plain).casefold()


def _rank(option: Content | Hanging, words: Sequence[str]) -> int | None:
    """Return the place of an option.

    Its name begins with the typed words, has them, or the words about it; None: none does.
    """
    name, about = _name_of(option), "" if isinstance(option, Content) else option.body.plain
    if all(word in name for word in words):
        return 0 if name.startswith(" ".join(words)) else 1
    return 2 if all(word in f"{name}{about.casefold()}" for word in words) else None


async def pick_file(
    app: HudtuiApp, kind: Literal["configs", "task_files"], now: str | None
) -> str | None:
    """Ask, from a worker, for a configuration or a task file of the project.

    Args:
        app: The app.
        kind: Which files are offered; of tasks another source can be named as well.
        now: The current choice, which the cursor begins on.

    Returns:
        The file relative to the project, or the source; None if nothing is chosen.
    """
    workspace = await asyncio.to_thread(lambda: app.workspace)
    files = [workspace.relative(path) for path in getattr(workspace, kind)]
    tasks = kind == "task_files"
    options = [*files, *(["another file, or a dataset on the Hub …"] if tasks else [])]
    if not options:
        app.say("There is no configuration in this folder.", severity="warning")
        return None
    at = files.index(now) if now in files else len(files) if tasks and now else 0
    title = "Tasks of which file?" if tasks else "Which configuration?"
    index: int | None = await app.push_screen_wait(Pick(title, options, at=at))
    if index is None:
        return None
    if index < len(files):
        return files[index]
    return (await app.ask("Tasks of", placeholder="tasks.json, or org/name") or "").strip() or None
