"""Settings: every value, masked where it is secret, where it comes from, and a way to change or test it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import DataTable, Input, Static

from hudtui.core.text import clean_line, home_short
from hudtui.tui.actions import AppAction
from hudtui.tui.facts import Facts
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.widgets.fields import FilterField
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.tables import Grid

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

    @property
    def state(self) -> tuple[str, str, str]:
        """Glyph, word and theme colour."""
        if self.problem:
            return "!", "problem", "warning"
        if self.origin is None:
            return "○", "not set", "foreground-muted"
        if self.origin == "default":
            return "·", "default", "foreground-muted"
        return "✓", "set", "success"


class SettingsScreen(HudtuiScreen):
    """A table of settings beside what is to be known about the chosen one."""

    NAME = "settings"
    TITLE = "settings"
    CSS_PATH = "settings.tcss"
    HELP = (
        "Every key and address that hudtui knows, and where its value comes from: the environment wins over .env of this folder, "
        "that over your own file for all projects. Secrets are masked, and written nowhere but into the file you choose."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("settings.edit", "Set in .env", "Give the setting a value in .env of this folder.", "enter,e"),
        AppAction("settings.edit-user", "Set for me", "Give the setting a value in your own file, for all projects.", "E"),
        AppAction(
            "settings.unset", "Remove", "Take the setting out of the file that its value comes from.", "u,delete", danger=True
        ),
        AppAction(
            "settings.test", "Test key", "Ask the service whether it knows the key. Only now, only this one.", "t", decides=True
        ),
        AppAction("settings.filter", "Filter", "Show only settings whose name or purpose holds a text.", "slash"),
        AppAction("settings.copy", "Copy name", "Copy the name of the setting.", "y", show=False),
        AppAction("settings.back", "Home", "Show all settings again; from there, home.", "escape", show=False, palette=False),
    )

    def __init__(self) -> None:
        super().__init__()
        self._settings: Settings | None = None
        self._rows: list[_Row] = []
        self._tests: dict[str, KeyCheck] = {}
        self._chosen: str | None = None

    def content(self) -> Iterable[Widget]:
        """Filter, table, details."""
        yield FilterField(placeholder="/ to filter", id="settings-filter")
        with Container(id="settings-panes"):
            yield Grid(id="settings-table")
            with VerticalScroll(id="settings-detail", can_focus=False):
                yield Static(id="settings-about")

    def on_mount(self) -> None:
        """The table has the focus."""
        self._table.focus()

    @property
    def _table(self) -> Grid:
        return self.query_one("#settings-table", Grid)

    # -- reading -----------------------------------------------------------------------------------------------------

    def facts_changed(self, facts: Facts) -> None:
        """The project was read again: so are the settings."""
        self.start(self._load(), group="load")

    async def _load(self) -> None:
        from hudtui.core.settings import check_settings, load_settings

        folder, platform = self.app.folder, self.app.platform
        settings = await asyncio.to_thread(load_settings, folder, platform)
        problems = (await asyncio.to_thread(check_settings, settings)).problems
        self._settings = settings
        self._rows = [_row(settings, key, problems.get(name)) for name, key in settings.keys.items()]
        if self._row is None and self._rows:
            self._chosen = self._rows[0].name
        self._fill()
        if settings.notices:
            more = f" (and {len(settings.notices) - 1} more)" if len(settings.notices) > 1 else ""
            self.say(settings.notices[0].replace(f"{folder}/", "") + more, "warning")

    def theme_changed(self) -> None:
        """The states have colours of the theme."""
        self._fill()

    def on_resize(self) -> None:
        """Columns are cut to the width."""
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        table = self._table
        if not self._rows or not table.size.width:
            return
        wanted = self.query_one("#settings-filter", FilterField).value.lower().split()
        rows = [row for row in self._rows if all(word in f"{row.name} {row.about}".lower() for word in wanted)]
        width = table.outer_size.width - 1  # with room for the scroll bar, whether it is there by now or not
        name_width = min(max((len(row.name) for row in rows), default=10), max(width // 2 - 6, 16))
        origin_width = 14 if width >= 72 else 0
        value_width = max(min(width - name_width - origin_width - 17, 60), 8)
        table.clear(columns=True)
        table.add_column("state", width=9, key="state")
        table.add_column("setting", width=name_width, key="name")
        table.add_column("value", width=value_width, key="value")
        if origin_width:
            table.add_column("from", width=origin_width - 2, key="from")
        for row in rows:
            glyph, word, colour = row.state
            cells: list[object] = [
                table.coloured(f"{glyph} {word}", colour),
                cut(row.name, name_width),
                cut(row.shown.removeprefix("https://"), value_width) if row.shown else "",
            ]
            if origin_width:
                cells.append(cut(row.origin or "", origin_width - 2))
            table.add_row(*cells, key=row.name)
        if rows:
            names = [row.name for row in rows]
            if self._chosen not in names:
                self._chosen = names[0]
            table.move_cursor(row=names.index(self._chosen))
        self._describe(rows[table.cursor_row] if rows else None)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Another setting was chosen."""
        if event.row_key is not None and event.row_key.value is not None:
            self._chosen = event.row_key.value
            self._describe(self._row)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter, or a click."""
        self.start(self._edit(user=False), group="edit")

    @property
    def _row(self) -> _Row | None:
        return next((row for row in self._rows if row.name == self._chosen), None)

    def _describe(self, row: _Row | None) -> None:
        about = self.query_one("#settings-about", Static)
        self.refresh_bindings()
        if row is None:
            about.update(Content.styled("No setting fits the filter.", "$foreground-muted"))
            return
        glyph, word, colour = row.state
        lines = [
            Content.styled(row.name, "bold $primary"),
            Content(clean_line(row.about)),
            Content(""),
            Content.assemble((f"{glyph} {word}", f"bold ${colour}"), f": {row.shown}" if row.shown else ""),
        ]
        if row.origin:
            lines.append(Content.assemble(("from  ", "$foreground-muted"), clean_line(row.location or row.origin)))
        if row.hidden:
            lines.append(Content.assemble(("also in, without effect  ", "$foreground-muted"), ", ".join(row.hidden)))
        if row.problem:
            lines.append(Content.styled(f"! {clean_line(row.problem)}", "$warning"))
        test = self._tests.get(row.name)
        if test is not None:
            sign, style = ("✓", "$success") if test.ok else ("✗", "$error")
            took = f" ({test.seconds:.1f} s)" if test.seconds is not None else ""
            lines.append(Content.styled(f"{sign} tested: {clean_line(test.message)}{took}", style))
        if row.get_it:
            lines.append(Content.assemble(("get one at  ", "$foreground-muted"), row.get_it))
        about.update(Content("\n").join(lines))

    # -- actions -----------------------------------------------------------------------------------------------------

    def why_not(self, action_id: str) -> str | None:
        """Why an action is not to be had for the chosen setting."""
        row = self._row
        if action_id == "settings.filter":
            return None
        if row is None:
            return "no setting is chosen"
        if action_id == "settings.test":
            from hudtui.core.credentials import can_check

            if not row.secret:
                return "this is no key"
            if row.origin is None:
                return f"{row.name} is not set"
            if self._settings is None or not can_check(row.name, self._settings):
                return "there is no service to ask"
        if action_id == "settings.unset" and row.origin not in (".env", "user file"):
            return "its value comes from no file of hudtui" if row.origin else f"{row.name} is not set"
        return None

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(FilterField).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The filter changes."""
        event.stop()
        self._fill()

    def on_filter_field_left(self, event: FilterField.Left) -> None:
        """Back to the table."""
        event.stop()
        self._table.focus()

    action_back = HudtuiScreen.leave

    def action_copy(self) -> None:
        """Copy the name, never the value."""
        if self._row is not None:
            self.app.copy(self._row.name)

    def action_edit(self) -> None:
        """Set in `.env`."""
        self.start(self._edit(user=False), group="edit")

    def action_edit_user(self) -> None:
        """Set in the user's file."""
        self.start(self._edit(user=True), group="edit")

    async def _edit(self, *, user: bool) -> None:
        from hudtui.core.settings import check_setting_value, mask, save_project_setting, save_user_setting, user_file

        row = self._row
        if row is None:
            return
        path = user_file() if user else self.app.folder / ".env"
        assert self._settings is not None
        key = self._settings.keys[row.name]
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
                self.say("An empty value changes nothing; u removes a setting.", "warning")
                return
            complaint = await asyncio.to_thread(check_setting_value, key, value)
            if complaint is None:
                break
        shown = mask(value) if row.secret else value
        lines = [f"{row.name} = {clean_line(shown, 60)}", f"into {home_short(path)}"]
        lines.append("Only you will be able to read the file (mode 0600); everything else in it stays as it is.")
        if row.origin == "environment" or (user and row.origin == ".env"):
            lines.append(f"! The value from {row.origin} still comes first.")
        if not await self.app.confirm("Write this setting?", tuple(lines), yes="Write"):
            return
        await asyncio.to_thread(save_user_setting, row.name, value) if user else await asyncio.to_thread(
            save_project_setting, self.app.folder, row.name, value
        )
        self._tests.pop(row.name, None)
        await self._load()
        self.say(f"{row.name} is set in {home_short(path)}.", "success")
        self.app.reload()

    def action_unset(self) -> None:
        """Remove."""
        self.start(self._unset(), group="edit")

    async def _unset(self) -> None:
        from hudtui.core.settings import remove_setting, user_file

        row = self._row
        if row is None:
            return
        user = row.origin == "user file"
        path = user_file() if user else self.app.folder / ".env"
        if not await self.app.confirm(f"Remove {row.name}?", (f"from {home_short(path)}",), yes="Remove", danger=True):
            return
        await asyncio.to_thread(remove_setting, self.app.folder, row.name, user=user)
        self._tests.pop(row.name, None)
        await self._load()
        self.say(f"{row.name} is removed from {home_short(path)}.", "success")
        self.app.reload()

    def action_test(self) -> None:
        """Ask the service."""
        row = self._row
        if row is not None:
            self.start(self._test(row.name), group="test", busy=f"Asking about {row.name}")

    async def _test(self, name: str) -> None:
        from hudtui.core.credentials import check_key

        if self._settings is None:
            return
        check = await check_key(name, self._settings)
        self._tests[name] = check
        self.say(check.message, "success" if check.ok else "warning")
        if self._chosen == name:
            self._describe(self._row)


def _row(settings: Settings, key: Setting, problem: str | None) -> _Row:
    place = settings.location(key.name)
    shown = settings.shown(key.name)
    return _Row(
        name=key.name,
        about=key.about,
        shown=clean_line(shown, 200) if shown is not None else None,
        origin=settings.origin(key.name),
        location=home_short(Path(place.file)) + (f":{place.line}" if place.line else "") if place is not None else "",
        hidden=settings.hidden(key.name),
        problem=problem,
        secret=settings.is_secret(key.name),
        get_it=key.get_it,
    )
