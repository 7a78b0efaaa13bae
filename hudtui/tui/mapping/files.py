"""The mapping screen and its file: opening, saving, changes from outside, and the copy of unsaved work."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.css.query import NoMatches
from textual.timer import Timer

from hudtui.core.errors import HudtuiError
from hudtui.tui.facts import Facts
from hudtui.tui.mapping.core import MappingCore
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.pick import Pick

if TYPE_CHECKING:
    from hudtui.core.gym.editing.samples import SampleReply

LOOK_EVERY = 3.0
"""Seconds between two checks of the file on disk."""
COPY_EVERY = 1.0
"""Seconds of typing after which unsaved work is copied at the latest."""


class MappingFiles(MappingCore):
    """Opening and saving."""

    def __init__(self) -> None:
        super().__init__()
        self._copied: str | None = None
        self._copied_at = 0.0
        self._copy_fails = False
        self._kept_last: str | None = None
        self._watch_timer: Timer | None = None

    def on_mount(self) -> None:
        """Start to check the file periodically."""
        self._watch_timer = self.set_interval(LOOK_EVERY, self._watch, name="watch file")

    # -- which file --------------------------------------------------------------------------------------------------

    def opened(self, **given: Any) -> None:
        """Open the given file; else keep the open one; else open the project's only configuration, or offer a choice."""
        path = given.get("path")
        if path is not None:
            self.start(self.open_file(Path(path)), group="open")
        elif self.path is None:
            self.start(self._choose(), group="open")
        else:
            self.start(self._look_at_environment(), group="look")
            self._watch()
            if self.focused is None:
                self.editor.focus()

    def facts_changed(self, facts: Facts) -> None:
        """A configuration may have appeared; the environment may have been analysed again."""
        workspace = facts.workspace
        if self.path is None and workspace is not None and not workspace.configs:
            self.query_one(EmptyState).tell(
                "There is no configuration here yet.",
                "{key:app.open-environment}, then {key:environment.generate}, generates one for the environment",
            )
        if self.path is not None:
            self.start(self._look_at_environment(), group="look")

    async def _choose(self) -> None:
        workspace = await asyncio.to_thread(lambda: self.app.workspace)
        configs = workspace.configs
        if not configs:
            self.query_one(EmptyState).tell(
                "There is no configuration here yet.",
                "{key:app.open-environment}, then {key:environment.generate}, generates one for the environment",
            )
            return
        last = dict(self.app.preferences.configs).get(str(self.app.folder))
        remembered = next((path for path in configs if workspace.relative(path) == last), None)
        if len(configs) == 1 or remembered is not None:
            path = remembered or configs[0]
            try:
                await self.open_file(path)
            except HudtuiError:
                name = workspace.relative(path)
                self.query_one(EmptyState).tell(f"{name} cannot be opened.", "{key:mapping.config} chooses a configuration")
                raise
            return
        self.query_one(EmptyState).tell("Which configuration?", "{key:mapping.config} chooses one")
        await self._pick_config()

    def action_config(self) -> None:
        self.start(self._pick_config(), group="open")

    async def _pick_config(self) -> None:
        workspace = await asyncio.to_thread(lambda: self.app.workspace)
        configs = list(workspace.configs)
        if not configs:
            self.say("There is no configuration in this folder.", "warning")
            return
        at = configs.index(self.path) if self.path in configs else 0
        index = await self.app.push_screen_wait(Pick("Configuration", [workspace.relative(path) for path in configs], at=at))
        if index is not None:
            await self.open_file(configs[index])

    # -- opening -----------------------------------------------------------------------------------------------------

    async def open_file(self, path: Path) -> None:
        """Show a file. The user is asked about unsaved work in the file before.

        Raises:
            InputError: It cannot be read.
        """
        from hudtui.core.flows.file_buffer import open_buffer
        from hudtui.core.gym.editing.incremental import IncrementalReader
        from hudtui.core.gym.editing.samples import SampleReply, load_samples
        from hudtui.core.rollouts.replies import rollout_replies

        path = path if path.is_absolute() else self.app.folder / path
        if path == self.path:
            self._watch()
            self.editor.focus()
            return
        if self.modified:
            assert self.path is not None
            complaint = await self.keep_unsaved()
            told = (complaint or "A copy is kept, and offered when it is opened here again.",)
            title = f"{self.path.name} is not saved"
            if not await self.app.settle_unsaved([self], title, told, leave="Leave it", lost=complaint is not None):
                return
        buffer = await open_buffer(path)
        live, lines = IncrementalReader(path.name), buffer.saved.split("\n")
        config = await asyncio.to_thread(live.read, lines)
        samples = await asyncio.to_thread(load_samples, self.app.folder, path)
        samples.rollouts = await asyncio.to_thread(rollout_replies, self.app.folder)
        await self._look_at_environment()
        # From here to the end of the block nothing else runs: the text and what is known of it change together.
        self.buffer = buffer
        self._aim = None
        self.config, self.stale, self.findings, self.rows, self.answer = config, None, (), (), []
        self._live, self._lines, self._copied = live, lines, None
        self.choose_tools()
        self.samples, self._kept_last = samples, samples.last
        self.show_panes(True)
        self.editor.notes = {}
        self.editor.load_text(buffer.saved)
        offered = samples.all(self.config, self.tools)
        self.try_sample(offered[0] if offered else SampleReply("", ""))
        self.show_file()
        self.editor.focus()
        self.call_after_refresh(self._scroll_top)
        await asyncio.to_thread(self.app.remember_config, path)
        await self._offer_copy()

    def _scroll_top(self) -> None:
        self.editor.scroll_to(0, 0, animate=False)

    def try_sample(self, sample: SampleReply) -> None:
        self.sample = sample
        self.answer = []
        if self.reply.text != sample.text:
            self.reply.load_text(sample.text)
        self.show_sample_name()
        self.show_meaning()

    async def _look_at_environment(self) -> None:
        from hudtui.core.environment.cache import latest_analysis
        from hudtui.core.environment.matching import identity_of

        before, folder = self.tools, self.app.folder

        def look() -> tuple[Any, Any]:
            analysis = latest_analysis(folder)
            return analysis, None if analysis is None else identity_of(analysis, folder)

        self.take_analysis(*await asyncio.to_thread(look))
        if self.tools is not before and self.path is not None:
            self.show_meaning()
            self._later()

    # -- the copy of unsaved work ------------------------------------------------------------------------------------

    async def _offer_copy(self) -> None:
        from hudtui.core.gym.editing.autosave import delete_copy, find_copy

        buffer = self.buffer
        assert buffer is not None
        found = await asyncio.to_thread(find_copy, self.app.folder, buffer.path, buffer.saved)
        if found is None:
            return
        name = buffer.path.name
        while True:
            options = ("Take the unsaved work up again", "Show what it changes", "Forget it, and keep the file as it is")
            index = await self.app.push_screen_wait(
                Pick(f"Unsaved work on {name} from {found.saved_at[:16].replace('T', ' ')}", options)
            )
            if index == 1:
                await self._read_difference(buffer.saved, found.text, name, "unsaved work")
                continue
            if index == 0:
                self.editor.replace_all(found.text)
                self.say("The unsaved work is back; {key:mapping.save} saves it.", "success")
            elif index == 2:
                await asyncio.to_thread(delete_copy, self.app.folder, buffer.path)
            return

    async def _read_difference(self, before: str, after: str, before_name: str, after_name: str) -> None:
        from hudtui.core.gym.editing.autosave import unified_diff
        from hudtui.tui.widgets.dialog import TextDialog

        text = unified_diff(before, after, before_name, after_name) or "They say the same."
        await self.app.push_screen_wait(TextDialog(f"{before_name} → {after_name}", text))

    async def while_typing(self) -> None:
        """Copy unsaved work now and then."""
        if time.monotonic() - self._copied_at >= COPY_EVERY:
            await self._copy()

    async def at_rest(self) -> None:
        """Copy unsaved work, and keep the reply."""
        await self._copy()
        if self.path is not None and self.sample.label == "your own" and self.reply.text != self._kept_last:
            from hudtui.core.gym.editing.samples import save_samples

            self._kept_last = self.samples.last = self.reply.text
            try:
                await asyncio.to_thread(save_samples, self.app.folder, self.path, self.samples)
            except HudtuiError as error:
                self.say(f"The reply is not kept: {error.what}", "warning")

    async def on_unmount(self) -> None:
        """The app ends: copy also what was typed last."""
        from hudtui.core.gym.editing.autosave import save_copy

        text = "\n".join(self._lines)
        if self.buffer is not None and text not in (self.buffer.saved, self._copied):
            with contextlib.suppress(HudtuiError):
                save_copy(self.app.folder, self.buffer.path, text, self.app.services.now().isoformat(timespec="seconds"))

    async def keep_unsaved(self) -> str | None:
        try:
            await self._keep()
        except HudtuiError as error:
            return f"No copy of it can be kept: {' '.join(error.lines())}"
        return None

    async def _copy(self) -> None:
        try:
            await self._keep()
            self._copy_fails = False
        except HudtuiError as error:
            if not self._copy_fails:
                self.say(f"Unsaved work is not copied: {error.what}", "warning")
            self._copy_fails = True

    async def _keep(self) -> None:
        from hudtui.core.gym.editing.autosave import delete_copy, save_copy

        buffer = self.buffer
        if buffer is None:
            return
        self._copied_at = time.monotonic()
        text = self.editor.text
        if text == buffer.saved:
            if self._copied is not None:
                self._copied = None
                await asyncio.to_thread(delete_copy, self.app.folder, buffer.path)
        elif text != self._copied:
            now = self.app.services.now().isoformat(timespec="seconds")
            await asyncio.to_thread(save_copy, self.app.folder, buffer.path, text, now)
            self._copied = text

    # -- saving ------------------------------------------------------------------------------------------------------

    def action_save(self) -> None:
        self.start(self._save(), group="save")

    async def save_unsaved(self) -> bool:
        await self._save()
        return not self.modified

    async def _save(self) -> None:
        from hudtui.core.flows.file_buffer import save_buffer
        from hudtui.core.gym.editing.autosave import delete_copy

        await self.look_outside()
        if self.conflict and not await self._settle_outside(saving=True):
            return
        assert self.buffer is not None
        saved = await save_buffer(self.buffer, self.editor.text)
        if self.path == saved.path:  # else another file was opened meanwhile
            self.buffer, self._copied = saved, None
        await asyncio.to_thread(delete_copy, self.app.folder, saved.path)
        self.show_file()
        errors = sum(finding.severity == "error" for finding in self.findings)
        note = f" It has {errors} error{'s' if errors > 1 else ''}." if errors else ""
        self.say(f"Saved {self.app.workspace.relative(saved.path)}.{note}", "warning" if errors else "success")
        self.app.reload()

    # -- changes from outside ----------------------------------------------------------------------------------------

    @property
    def conflict(self) -> bool:
        """Another program changed the file beside unsaved work."""
        return self.buffer is not None and self.buffer.theirs is not None

    def outside_words(self) -> str:
        """A note about changes of the file on disk; empty without one."""
        return "✗ changed on disk" if self.conflict else ""

    def _watch(self) -> None:
        """Check the file in the background, one check at a time: a folder may hang."""
        if not self.going("watch", "save"):
            self.start(self.look_outside(), group="watch")

    async def look_outside(self) -> None:
        """Notice that another program changed the file. Untouched text follows it; unsaved work is never overwritten."""
        from hudtui.core.flows.file_buffer import look

        buffer = self.buffer
        change = None if buffer is None else await look(buffer)
        if buffer is None or change is None or self.buffer is not buffer:
            return  # nothing has changed, or the file was saved or left meanwhile
        self.buffer, outcome = buffer.changed(change, self.editor.text)
        name = buffer.path.name
        if outcome == "gone" and buffer.theirs != "":
            self.say(f"{name} is gone or cannot be read. {{key:mapping.save}} writes it again.", "warning")
        elif outcome == "followed":
            self.editor.replace_all(self.buffer.saved)
            self.say(f"{name} was changed by another program and read again.", "information")
        elif outcome == "conflict":
            self.say(
                f"{name} was changed by another program. {{key:mapping.outside}}: see the difference, read it, or keep yours.",
                "warning",
            )
        self._say_outside()

    def _say_outside(self) -> None:
        try:
            self.show_file()
        except NoMatches:
            return
        self.refresh_bindings()

    def action_outside(self) -> None:
        """Ask what to do about a change by another program."""
        self.start(self._settle_outside(saving=False), group="outside")

    async def _settle_outside(self, *, saving: bool) -> bool:
        """Ask whether the text may replace the file; True when it may."""
        while (buffer := self.buffer) is not None:
            keep = "Write mine over it" if saving else "Keep mine; the next save writes over it"
            options = ("Show the difference", "Read the file again; what is not saved here can be undone back", keep)
            index: int | None = await self.app.push_screen_wait(
                Pick(f"{buffer.path.name} was changed by another program", options)
            )
            if index == 0:
                await self._read_difference(buffer.theirs or "", self.editor.text, "on disk", "here")
                continue
            if index is None or self.buffer is None:
                return False
            self.buffer = self.buffer.settled()
            if index == 1:
                self.editor.replace_all(self.buffer.saved)
                self.say("Read again. ^z in the text brings yours back.")
            self._say_outside()
            return index == 2
        return False
