"""Settings.

Every value, masked where it is secret, where it comes from, and a way to change or test it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.text import clean_line, home_short, seen_from
from hudtui.tui.actions import AppAction, by_key, needing, unless
from hudtui.tui.facts import Facts
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.pane import Pane, Panes
from hudtui.tui.widgets.scrolling import Page
from hudtui.tui.widgets.table_pane import TablePane
from hudtui.tui.widgets.virtual_table import Cell, Column

if TYPE_CHECKING:
    from hudtui.core.credentials import KeyCheck
    from hudtui.core.settings import Setting, Settings


@dataclass(frozen=True)
class _Row:
    """One setting as the table shows it. Holds no secret."""

    name: str
    about: str
    shown: str | None
    origin: str | None
    location: str
    hidden: tuple[str, ...]
    problem: str | None
    secret: bool
    get_it: str | None
    waits: str | None
    """Where a value stands that the user has not agreed to, as the end of a sentence."""

    @property
    def state(self) -> tuple[str, str, str]:
        """Sign, word, and the name of the table's style."""
        if self.problem:
            return "!", "problem", "warning"
        if self.waits and self.origin in (None, "default"):
            return "!", "waits", "warning"
        if self.origin is None:
            return "○", "not set", "muted"
        if self.origin == "default":
            return "·", "default", "muted"
        return "✓", "set", "ok"


_COLOURS = {"warning": "$warning", "muted": "$foreground-muted", "ok": "$success"}
_COLUMNS = (
    Column("state", "state", 9),
    Column("setting", "setting", 16, most=34),
    Column("value", "value", 8, flexible=1),
    Column("from", "from", 12, from_width=72),
)


def _cells(row: _Row) -> Sequence[Cell]:
    sign, word, style = row.state
    value = row.shown.removeprefix("https://") if row.shown else row.waits and "not trusted"
    return (
        (f"{sign} {word}", f"table--{style}"),
        row.name,
        value or "",
        row.origin or (".env" if row.waits else ""),
    )


class _SettingList(TablePane[_Row]):
    """All settings."""

    BORDER_TITLE, NOUN = "Settings", "setting"


class SettingPane(Pane):
    """Everything about one setting, but for its secret."""

    BORDER_TITLE = "Setting"
    DEFAULT_CSS = "SettingPane Static { height: auto; padding: 0 1; }"

    def compose(self) -> ComposeResult:
        with Page():
            yield CalmStatic(Content.styled("No setting is chosen.", "$foreground-muted"))

    def show(self, row: _Row | None, test: KeyCheck | None) -> None:
        """Show a setting, and what its service answered when its key was tested."""
        body = self.query_one(Static)
        if row is None:
            body.update(Content.styled("No setting is chosen.", "$foreground-muted"))
            return
        sign, word, style = row.state
        lines = [
            Content.styled(row.name, "bold $primary"),
            Content(clean_line(row.about)),
            Content(""),
            Content.assemble(
                (f"{sign} {word}", f"bold {_COLOURS[style]}"), f": {row.shown}" if row.shown else ""
            ),
        ]
        if row.origin:
            lines.append(
                Content.assemble(
                    ("from  ", "$foreground-muted"), clean_line(row.location or row.origin)
                )
            )
        if row.waits:
            lines.append(
                Content.styled(
                    f"! {row.waits}: {self.app.keys_in('{key:app.trust} asks about it')}",
                    "$warning",
                )
            )
        if row.hidden:
            lines.append(
                Content.assemble(
                    ("also in, without effect  ", "$foreground-muted"), ", ".join(row.hidden)
                )
            )
        if row.problem:
            lines.append(Content.styled(f"! {clean_line(row.problem)}", "$warning"))
        if test is not None:
            sign, colour = ("✓", "$success") if test.ok else ("✗", "$error")
            took = f" ({test.seconds:.1f} s)" if test.seconds is not None else ""
            lines.append(Content.styled(f"{sign} tested: {clean_line(test.message)}{took}", colour))
        if row.get_it and not row.waits:
            lines.append(Content.assemble(("get one at  ", "$foreground-muted"), row.get_it))
        body.update(Content("\n").join(lines))


_ROW = unless(lambda screen: screen.row is not None, "no setting is chosen")


def _not_of_a_file(screen: SettingsScreen) -> str | None:
    row = screen.row
    if row is None or row.origin in (".env", "user file"):
        return None
    return (
        "its value does not come from a file of hudtui" if row.origin else f"{row.name} is not set"
    )


def _no_test(screen: SettingsScreen) -> str | None:
    from hudtui.core.credentials import can_check

    row = screen.row
    if row is None or not row.secret:
        return "this setting is not a key"
    if row.origin is None and not row.waits:
        return f"{row.name} is not set"
    can = screen.settings is not None and can_check(row.name, screen.settings)
    return None if can else "no service can test it"


class SettingsScreen(HudtuiScreen):
    """The settings, and the chosen one in full."""

    NAME = "settings"
    TITLE = "settings"
    AUTO_FOCUS = "VirtualTable"
    CSS_PATH = "settings.tcss"
    HELP = (
        "Every key and address that hudtui knows, and where its value comes from: the environment "
        "comes before .env of this folder, and .env before your own file for all projects. Secrets "
        "are masked, and written only into the file you choose."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = needing(
        _ROW,
        (
            AppAction(
                "settings.edit",
                "Set in .env",
                "Give the setting a value in .env of this folder.",
                "e",
            ),
            AppAction(
                "settings.edit-user",
                "Set (user)",
                "Give the setting a value in your own file, for all projects.",
                "E",
            ),
            AppAction(
                "settings.unset",
                "Remove",
                "Take the setting out of the file that its value comes from.",
                "x,u,delete",
                danger=True,
                when=(_not_of_a_file,),
            ),
            AppAction(
                "settings.test",
                "Test key",
                "Ask the service whether it accepts this key.",
                "T",
                decides=True,
                when=(_no_test,),
            ),
            AppAction(
                "settings.copy", "Copy name", "Copy the name of the setting.", "y", show=False
            ),
            by_key("settings.back", "Back", "Go to the table; from there, back.", "escape"),
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.settings: Settings | None = None
        self._tests: dict[str, KeyCheck] = {}
        self._list = _SettingList(
            _COLUMNS,
            {
                "setting": lambda row: row.name,
                "about": lambda row: row.about,
                "state": lambda row: row.state[1],
                "from": lambda row: row.origin,
            },
            key=lambda row: row.name,
            cells=_cells,
            empty="Reading the settings …",
            id="settings-list",
        )
        self._detail = SettingPane(id="settings-detail")

    def content(self) -> Iterable[Widget]:
        with Panes():
            yield self._list
            yield self._detail

    # -- reading
    # ----------------------------------------------------------------------------------------------

    def facts_changed(self, facts: Facts) -> None:
        self.start(self._load, group="load")

    async def _load(self) -> None:
        from hudtui.core.settings import check_settings, load_settings

        folder, platform = self.app.folder, self.app.platform
        settings = await asyncio.to_thread(load_settings, folder, platform)
        problems = (await asyncio.to_thread(check_settings, settings)).problems
        self.settings = settings
        self._list.show(
            _row(settings, key, problems.get(name)) for name, key in settings.keys.items()
        )
        self._describe()
        words = settings.waiting_words()
        notices = [
            *([f"{words} until you trust this folder: {{key:app.trust}}"] if words else []),
            *settings.notices,
        ]
        if notices:
            more = f" (and {len(notices) - 1} more)" if len(notices) > 1 else ""
            self.say(seen_from(folder, notices[0]) + more, "warning")

    @on(TablePane.Highlighted)
    def _describe(self) -> None:
        row = self.row
        self._detail.show(row, self._tests.get(row.name) if row is not None else None)
        self.refresh_bindings()

    @on(TablePane.Opened)
    def _opened(self) -> None:
        self.start(partial(self._edit, user=False), group="edit")

    @property
    def row(self) -> _Row | None:
        return self._list.row

    # -- actions
    # ----------------------------------------------------------------------------------------------

    def action_back(self) -> None:
        if not self.query_one(Panes).back():
            self.leave()

    def action_copy(self) -> None:
        if self.row is not None:
            self.app.copy(self.row.name)

    def action_edit(self) -> None:
        self.start(partial(self._edit, user=False), group="edit")

    def action_edit_user(self) -> None:
        self.start(partial(self._edit, user=True), group="edit")

    async def _edit(self, *, user: bool) -> None:
        from hudtui.core.settings import (
            check_setting_value,
            mask,
            save_project_setting,
            save_user_setting,
            user_file,
        )

        row = self.row
        if row is None:
            return
        path = user_file() if user else self.app.folder / ".env"
        assert self.settings is not None
        key = self.settings.keys[row.name]
        value = "" if row.secret or row.shown is None else row.shown
        complaint: str | None = None
        while True:
            given = await self.app.ask(
                f"{row.name} in {home_short(path)}",
                lines=(row.about, *([f"✗ {complaint}"] if complaint else ())),
                value=value,
                placeholder="paste the key; it is not shown" if row.secret else "",
                secret=row.secret,
                accept="Next",
            )
            if given is None:
                return
            value = given.strip()
            if not value:
                self.say(
                    "An empty value changes nothing; {key:settings.unset} removes a setting.",
                    "warning",
                )
                return
            complaint = await asyncio.to_thread(check_setting_value, key, value)
            if complaint is None:
                break
        shown = mask(value) if row.secret else value
        lines = [f"{row.name} = {clean_line(shown, 60)}", f"into {home_short(path)}"]
        lines.append(
            "Only you will be able to read the file (mode 0600); everything else in it stays as it "
            "is."
        )
        if row.origin == "environment" or (user and row.origin == ".env"):
            lines.append(f"! The value from {row.origin} still comes first.")
        if not await self.app.confirm("Write this setting?", tuple(lines), yes="Write"):
            return
        await asyncio.to_thread(
            save_user_setting, row.name, value
        ) if user else await asyncio.to_thread(
            save_project_setting, self.app.folder, row.name, value
        )
        self._tests.pop(row.name, None)
        await self._load()
        self.say(f"{row.name} is set in {home_short(path)}.", "success")
        self.app.reload()

    @started("edit")
    async def action_unset(self) -> None:
        from hudtui.core.settings import remove_setting, user_file

        row = self.row
        if row is None:
            return
        user = row.origin == "user file"
        path = user_file() if user else self.app.folder / ".env"
        if not await self.app.confirm(
            f"Remove {row.name}?", (f"from {home_short(path)}",), yes="Remove", danger=True
        ):
            return
        await asyncio.to_thread(remove_setting, self.app.folder, row.name, user=user)
        self._tests.pop(row.name, None)
        await self._load()
        self.say(f"{row.name} is removed from {home_short(path)}.", "success")
        self.app.reload()

    def action_test(self) -> None:
        row = self.row
        if row is not None:
            self.start(partial(self._test, row.name), group="test", busy=f"Asking about {row.name}")

    async def _test(self, name: str) -> None:
        from hudtui.core.credentials import check_key

        check = await check_key(name, await asyncio.to_thread(self.app.project.settings))
        self._tests[name] = check
        self.say(check.message, "success" if check.ok else "warning")
        self._describe()


def _row(settings: Settings, key: Setting, problem: str | None) -> _Row:
    place = settings.location(key.name)
    shown = settings.shown(key.name)
    return _Row(
        name=key.name,
        about=key.about,
        shown=clean_line(shown, 200) if shown is not None else None,
        origin=settings.origin(key.name),
        location=home_short(Path(place.file)) + (f":{place.line}" if place.line else "")
        if place is not None
        else "",
        hidden=settings.hidden(key.name),
        problem=problem,
        secret=settings.is_secret(key.name),
        get_it=key.get_it,
        waits=settings.lacking(key.name)[0] if settings.waits(key.name) is not None else None,
    )
