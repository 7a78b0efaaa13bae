"""The file of the mapping screen.

Saving, changes by other programs, and the copy of unsaved work.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.errors import HudtuiError
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.widgets.pick import Pick

if TYPE_CHECKING:
    from hudtui.core.flows.file_buffer import FileBuffer
    from hudtui.tui.editor.yaml_editor import YamlEditor

COPY_EVERY = 1.0
"""Seconds of typing after which unsaved work is copied at the latest."""


class OpenFile:
    """A file in an editor.

    Args:
        screen: The screen for questions and messages.
        editor: Returns the editor.
        changed: Called when the state of the file has changed.
    """

    def __init__(
        self, screen: HudtuiScreen, editor: Callable[[], YamlEditor], changed: Callable[[], None]
    ) -> None:
        self._screen, self._editor, self._changed = screen, editor, changed
        self.buffer: FileBuffer | None = None
        """The file as it was read last; None while none is open."""
        self._copied: str | None = None
        self._copied_at = 0.0
        self._copy_fails = False

    @property
    def path(self) -> Path | None:
        """Its path; None while no file is open."""
        return self.buffer.path if self.buffer is not None else None

    @property
    def modified(self) -> bool:
        """The text is not what the file holds."""
        return self.buffer is not None and self._editor().text != self.buffer.saved

    @property
    def conflict(self) -> bool:
        """Another program changed the file, and there is unsaved work."""
        return self.buffer is not None and self.buffer.theirs is not None

    def take(self, buffer: FileBuffer) -> None:
        """Another file is in the editor."""
        self.buffer, self._copied = buffer, None

    # -- the copy of unsaved work
    # ------------------------------------------------------------------------------------

    async def offer_copy(self) -> None:
        """Offer a kept copy of unsaved work."""
        from hudtui.core.gym.editing.autosave import delete_copy, find_copy

        buffer, screen = self.buffer, self._screen
        assert buffer is not None
        found = await asyncio.to_thread(find_copy, screen.app.folder, buffer.path, buffer.saved)
        if found is None:
            return
        name = buffer.path.name
        while True:
            options = (
                "Restore the unsaved work",
                "Show what it changes",
                "Discard it, and keep the file as it is",
            )
            title = f"Unsaved work on {name} from {found.saved_at[:16].replace('T', ' ')}"
            index = await screen.app.push_screen_wait(Pick(title, options))
            if index == 1:
                await self._read_difference(buffer.saved, found.text, name, "unsaved work")
                continue
            if index == 0:
                self._editor().replace_all(found.text)
                screen.say("The unsaved work is back; {key:mapping.save} saves it.", "success")
            elif index == 2:
                await asyncio.to_thread(delete_copy, screen.app.folder, buffer.path)
            return

    async def _read_difference(
        self, before: str, after: str, before_name: str, after_name: str
    ) -> None:
        from hudtui.core.gym.editing.autosave import unified_diff
        from hudtui.tui.widgets.dialog import TextDialog

        text = unified_diff(before, after, before_name, after_name) or "They are the same."
        await self._screen.app.push_screen_wait(TextDialog(f"{before_name} → {after_name}", text))

    async def copy(self, *, now_and_then: bool = False) -> None:
        """Keep a copy of unsaved work; a failure is reported once.

        `now_and_then` copies only after a while.
        """
        if now_and_then and time.monotonic() - self._copied_at < COPY_EVERY:
            return
        try:
            await self._keep()
            self._copy_fails = False
        except HudtuiError as error:
            if not self._copy_fails:
                self._screen.say(f"Unsaved work is not copied: {error.what}", "warning")
            self._copy_fails = True

    async def keep(self) -> str | None:
        """Keep a copy of unsaved work; return why it cannot be kept."""
        try:
            await self._keep()
        except HudtuiError as error:
            return f"No copy of it can be kept: {' '.join(error.lines())}"
        return None

    async def _keep(self) -> None:
        from hudtui.core.gym.editing.autosave import delete_copy, save_copy

        buffer, app = self.buffer, self._screen.app
        if buffer is None:
            return
        self._copied_at = time.monotonic()
        text = self._editor().text
        if text == buffer.saved:
            if self._copied is not None:
                self._copied = None
                await asyncio.to_thread(delete_copy, app.folder, buffer.path)
        elif text != self._copied:
            await asyncio.to_thread(
                save_copy,
                app.folder,
                buffer.path,
                text,
                app.services.now().isoformat(timespec="seconds"),
            )
            self._copied = text

    def copy_at_the_end(self, text: str) -> None:
        """Copy the last text when the app ends."""
        from hudtui.core.gym.editing.autosave import save_copy

        app = self._screen.app
        if self.buffer is not None and text not in (self.buffer.saved, self._copied):
            with contextlib.suppress(HudtuiError):
                save_copy(
                    app.folder,
                    self.buffer.path,
                    text,
                    app.services.now().isoformat(timespec="seconds"),
                )

    # -- saving
    # ----------------------------------------------------------------------------------------------

    async def save(self) -> Path | None:
        """Write the text.

        Return its path, or None if the user does not want to overwrite another program's text.

        Raises:
            HudtuiError: It cannot be written.
        """
        from hudtui.core.flows.file_buffer import save_buffer
        from hudtui.core.gym.editing.autosave import delete_copy

        await self.look()
        if self.conflict and not await self.settle(saving=True):
            return None
        assert self.buffer is not None
        saved = await save_buffer(self.buffer, self._editor().text)
        if self.path == saved.path:  # else another file was opened meanwhile
            self.take(saved)
        await asyncio.to_thread(delete_copy, self._screen.app.folder, saved.path)
        self._changed()
        return saved.path

    # -- changes by other programs
    # -----------------------------------------------------------------------------------

    async def look(self) -> None:
        """Notice that another program changed the file.

        Untouched text follows it; unsaved work is never overwritten.
        """
        from hudtui.core.flows.file_buffer import look

        buffer, screen = self.buffer, self._screen
        change = None if buffer is None else await look(buffer)
        if buffer is None or change is None or self.buffer is not buffer:
            return  # nothing has changed, or the file was saved or left meanwhile
        self.buffer, outcome = buffer.changed(change, self._editor().text)
        name = buffer.path.name
        if outcome == "gone" and buffer.theirs != "":
            screen.say(
                f"{name} is gone or cannot be read. {{key:mapping.save}} writes it again.",
                "warning",
            )
        elif outcome == "followed":
            self._editor().replace_all(self.buffer.saved)
            screen.say(f"{name} was changed by another program and read again.", "information")
        elif outcome == "conflict":
            screen.say(
                f"{name} was changed by another program. {{key:mapping.outside}}: see the "
                "difference, read it, or keep yours.",
                "warning",
            )
        self._changed()

    async def settle(self, *, saving: bool) -> bool:
        """Ask whether the text may replace the file; True when it may."""
        screen = self._screen
        while (buffer := self.buffer) is not None:
            keep = (
                "Overwrite it with mine"
                if saving
                else "Keep mine; the next save overwrites the file"
            )
            options = (
                "Show the difference",
                "Read the file again; undo restores the unsaved text",
                keep,
            )
            title = f"{buffer.path.name} was changed by another program"
            index: int | None = await screen.app.push_screen_wait(Pick(title, options))
            if index == 0:
                await self._read_difference(
                    buffer.theirs or "", self._editor().text, "on disk", "here"
                )
                continue
            if index is None or self.buffer is None:
                return False
            self.buffer = self.buffer.settled()
            if index == 1:
                self._editor().replace_all(self.buffer.saved)
                screen.say("Read again. {key:editor.undo} in the text brings yours back.")
            self._changed()
            return index == 2
        return False
