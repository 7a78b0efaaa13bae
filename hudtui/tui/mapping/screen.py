"""Mapping: what may the agent say, and what does it become?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.content import Content
from textual.css.query import NoMatches

from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction, cancel_action, needing, unless
from hudtui.tui.editor.find_bar import FindBar
from hudtui.tui.editor.yaml_editor import YamlEditor
from hudtui.tui.environment.connection import Connection
from hudtui.tui.facts import Facts
from hudtui.tui.mapping.configuration_pane import ConfigurationPane
from hudtui.tui.mapping.draft import LiveConfig
from hudtui.tui.mapping.open_file import OpenFile
from hudtui.tui.mapping.preview_pane import PreviewPane
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.pick import Pick, pick_file

if TYPE_CHECKING:
    from textual.widget import Widget

    from hudtui.core.gym.editing.samples import SampleReply

MOMENT = 0.02
"""Seconds from a key until the text is read."""
QUIET = 0.15
"""Seconds without a key after which the whole text is checked."""
LOOK_EVERY = 3.0
"""Seconds between two checks of the file on disk."""
BOTH_PANES = 120
"""Columns from which both panes are shown."""


_OPENED = unless(lambda screen: screen.path is not None, "no configuration is open")


def _no_call(screen: MappingScreen) -> str | None:
    if screen.preview.meaning is None or screen.preview.meaning.call is None:
        return "this reply becomes no call"
    if screen.draft.analysis is None:
        return "open an environment first ({key:app.open-environment})"
    return None


class MappingScreen(HudtuiScreen):
    """An editor for gym configurations that shows what replies become.

    The text on the left, its meaning on the right.
    """

    NAME = "mapping"
    TITLE = "mapping"
    AUTO_FOCUS = ""
    CSS_PATH = "mapping.tcss"
    HELP = (
        "Write the configuration on the left. At every keystroke, the right pane shows what a "
        "reply of the agent becomes: tags, action, each parameter and where its value comes from, "
        "the call, the schema's verdict, the score. {key:mapping.pane} goes to the other pane, Esc "
        "leaves the text. {key:mapping.send} sends the call to the environment that was analyzed "
        "last. {key:mapping.outline} jumps to an action."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = needing(
        _OPENED,
        (
            AppAction(
                "mapping.save", "Save", "Write the file, in one step.", "f9,ctrl+s", decides=True
            ),
            AppAction(
                "mapping.pane",
                "Other pane",
                "Go to the other pane, or show it where only one has room.",
                "f6",
            ),
            AppAction(
                "mapping.send",
                "Send",
                "Send the call to the live environment.",
                "f8",
                decides=True,
                when=(_no_call,),
            ),
            AppAction(
                "mapping.problem",
                "Next finding",
                "Go to the next finding.",
                "f4",
                when=(unless(lambda screen: screen.draft.findings, "there is no finding"),),
            ),
            AppAction("mapping.outline", "Outline", "Jump to an action or a section.", "ctrl+o"),
            AppAction("mapping.find", "Find", "Search in the text, and replace.", "ctrl+f,slash"),
            AppAction(
                "mapping.new",
                "New action",
                "Add an action for a tool to the text and to the prompt.",
                "f7",
                when=(
                    unless(
                        lambda screen: screen.snippet_tools(),
                        "open the environment first ({key:app.open-environment}): actions are made "
                        "from its tools",
                    ),
                ),
            ),
            AppAction("mapping.sample", "Samples", "Choose the reply to try.", "f12,o"),
            AppAction(
                "mapping.play",
                "Play",
                "Play a task with this configuration: by hand, or by a policy.",
                "p",
            ),
            AppAction(
                "mapping.fix",
                "Fix",
                "Apply the fix of the finding at the cursor.",
                "ctrl+l,f",
                show=False,
            ),
            AppAction(
                "mapping.fix-all",
                "Fix all",
                "Apply all safe fixes.",
                "F",
                show=False,
                when=(
                    unless(
                        lambda screen: any(one.fix for one in screen.draft.findings),
                        "there is no safe fix",
                    ),
                ),
            ),
            AppAction(
                "mapping.outside",
                "Difference",
                "The file was changed by another program: see it, read it, or keep yours.",
                "d",
            ),
            AppAction(
                "mapping.line", "Go to line", "Go to a line by its number.", "ctrl+g", show=False
            ),
            AppAction("mapping.find-next", "Find next", "Go to the next match.", "f3", show=False),
            AppAction(
                "mapping.find-previous",
                "Find previous",
                "Go to the previous match.",
                "shift+f3",
                show=False,
            ),
            AppAction(
                "mapping.problem-before",
                "Previous finding",
                "Go to the previous finding.",
                "shift+f4",
                show=False,
                when=(unless(lambda screen: screen.draft.findings, "there is no finding"),),
            ),
            AppAction("mapping.sample-next", "Next sample", "Try the next reply.", "n", show=False),
            AppAction(
                "mapping.sample-previous",
                "Previous sample",
                "Try the previous reply.",
                "N",
                show=False,
            ),
            AppAction(
                "mapping.write", "Write reply", "Write into the sample reply.", "w", show=False
            ),
            AppAction("mapping.preview", "Preview", "Show what the reply means.", "v", show=False),
            AppAction(
                "mapping.actions",
                "All actions",
                "Show every action with an example.",
                "a",
                show=False,
            ),
            AppAction(
                "mapping.findings", "Findings", "Show the list of findings.", "l", show=False
            ),
            AppAction(
                "mapping.config",
                "Other config",
                "Choose another configuration of this project.",
                "c",
                show=False,
                asks=True,
            ),
            AppAction(
                "mapping.disconnect",
                "Disconnect",
                "End the connections to the environment.",
                "x",
                show=False,
                when=(
                    unless(
                        lambda screen: screen.connection.session is not None,
                        "there is no connection",
                    ),
                ),
            ),
            cancel_action("mapping", "Cancel the call in progress."),
        ),
        but=(
            "mapping.config",
            "mapping.cancel",
        ),
    )

    def __init__(self) -> None:
        from hudtui.core.gym.editing.samples import Samples

        super().__init__()
        self.draft = LiveConfig()
        self.text = ConfigurationPane(self.draft, self.text_changed)
        self.preview = PreviewPane(self.draft)
        self.file = OpenFile(self, lambda: self.editor, self._file_changed)
        self.connection = Connection(self, self._connection_changed)
        self.samples = Samples()
        self.quiet = QUIET
        self._typed_at = 0.0

    def content(self) -> Iterable[Widget]:
        yield EmptyState("Reading the configuration …", id="map-empty")
        with Panes(id="map-panes"):
            yield self.text
            yield self.preview

    def on_mount(self) -> None:
        self._show_panes(False)
        self.set_interval(LOOK_EVERY, self._watch, name="watch file")

    def on_resize(self) -> None:
        """The row above the text is fitted to its width."""
        self.call_after_refresh(self.show_file)

    @property
    def editor(self) -> YamlEditor:
        return self.text.editor

    @property
    def path(self) -> Path | None:
        """The configuration's file; None while there is none."""
        return self.file.path

    @property
    def unsaved(self) -> str | None:
        """The configuration's name while the text is not what the file holds."""
        return self.file.path.name if self.file.path is not None and self.file.modified else None

    def _show_panes(self, shown: bool) -> None:
        """Show either the panes, or the words that say why there are none."""
        self.query_one(Panes).display = shown
        self.query_one(EmptyState).display = not shown
        if shown:
            self.preview.underline_tab()

    # -- keystrokes
    # ----------------------------------------------------------------------------------------------

    def text_changed(self) -> None:
        """Everything that a keystroke in the text changes at once."""
        if self.path is None:
            return
        lines = list(self.editor.lines)
        self.text.shift_notes(self.draft.lines, lines)
        self.draft.edited(lines)
        self.show_file()
        # the message that the cursor moved comes too late for the same paint
        self.text.show_cursor_line()
        self._read_soon()
        self._later()

    @on(PreviewPane.Edited)
    def _reply_edited(self, event: PreviewPane.Edited) -> None:
        event.stop()
        self.show_meaning()
        self._later()

    def show_meaning(self) -> None:
        """Show what the reply becomes, in full and on one line, and whose reply it is."""
        from hudtui.tui.mapping.view import brief

        meaning = self.preview.show_meaning()
        words = Content("") if meaning is None else brief(meaning)
        old = "! last good meaning: " if meaning is not None and self.draft.stale else ""
        self.text.show_brief(Content.assemble((old, "bold $warning"), words))
        self.preview.show_sample(connected=self.connection.session is not None)

    def _read_soon(self) -> None:
        """Read the text a moment after the key, which is painted first."""
        if not self.going("read"):
            self.start(self._reading, group="read")

    async def _reading(self) -> None:
        while self.path is not None and not self.draft.is_read:
            await asyncio.sleep(MOMENT)
            await self._read()

    async def _read(self) -> None:
        """Show what the newest text means."""
        if self.path is None or self.draft.is_read:
            return
        await self.draft.read(self.path.name)
        try:
            self.show_meaning()
        except NoMatches:
            if self.app.is_running:
                raise  # else the app is closing, and takes the widgets away one by one

    def _later(self) -> None:
        """Check the whole text when typing pauses; only the newest text counts."""
        self._typed_at = time.monotonic()
        if not self.going("check"):
            self.start(self._checking, group="check")

    async def _checking(self) -> None:
        while True:
            wait = self._typed_at + self.quiet - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
                await self.file.copy(now_and_then=True)
                continue
            try:
                if not self.draft.is_checked and self.path is not None:
                    await self._check(self.path.name)
                await self.file.copy()
            except NoMatches:
                if self.app.is_running:
                    raise
                return  # the app is closing, and takes the widgets away one by one
            if (
                self.path is None or self.draft.is_checked
            ) and time.monotonic() >= self._typed_at + self.quiet:
                return

    async def _check(self, name: str) -> None:
        async for part in self.draft.check(name):
            if part == "meaning":
                self.show_meaning()
            elif part == "findings":
                self.text.show_findings()
                if self.preview.show_findings():
                    self.refresh_bindings()
                self.show_file()
                self.text.show_cursor_line()
            else:
                self.preview.show_table()

    # -- which file
    # ----------------------------------------------------------------------------------------------

    def opened(self, **given: Any) -> None:
        """Open the given file.

        Else keep the open one; else open the project's only configuration, or offer a choice.
        """
        path = given.get("path")
        if path is not None:
            self.start(partial(self.open_file, Path(path)), group="open")
        elif self.path is None:
            self.start(self._choose, group="open")
        else:
            self.start(self._look_at_environment, group="look")
            self._watch()
            if self.focused is None:
                self.editor.focus()

    def facts_changed(self, facts: Facts) -> None:
        """A configuration may have appeared; the environment may have been analyzed again."""
        workspace = facts.workspace
        if self.path is None and workspace is not None and not workspace.configs:
            self._tell_of_none()
        if self.path is not None:
            self.start(self._look_at_environment, group="look")

    def _tell_of_none(self) -> None:
        self.query_one(EmptyState).tell(
            "There is no configuration here yet.",
            "{key:app.open-environment}, then {key:environment.generate}, generates one for the "
            "environment",
        )

    async def _choose(self) -> None:
        workspace = await asyncio.to_thread(lambda: self.app.workspace)
        configs = workspace.configs
        if not configs:
            self._tell_of_none()
            return
        last = self.app.last_config()
        remembered = next((path for path in configs if workspace.relative(path) == last), None)
        if len(configs) == 1 or remembered is not None:
            path = remembered or configs[0]
            try:
                await self.open_file(path)
            except Exception:
                name = workspace.relative(path)
                self.query_one(EmptyState).tell(
                    f"{name} cannot be opened.",
                    "{key:mapping.config} opens it again, or another one",
                )
                raise
            return
        self.query_one(EmptyState).tell("Which configuration?", "{key:mapping.config} chooses one")
        await self._pick_config()

    def action_config(self) -> None:
        self.start(self._pick_config, group="open")

    async def _pick_config(self) -> None:
        now = None if self.path is None else self.app.relative(self.path)
        if (chosen := await pick_file(self.app, "configs", now)) is not None:
            await self.open_file(Path(chosen))

    async def open_file(self, path: Path) -> None:
        """Show a file. The user is asked about unsaved work in the file before.

        Raises:
            InputError: It cannot be read.
        """
        from hudtui.core.flows.file_buffer import open_buffer
        from hudtui.core.gym.config import parse_config
        from hudtui.core.gym.editing.samples import SampleReply, Samples
        from hudtui.core.rollouts.replies import rollout_replies

        path = path if path.is_absolute() else self.app.folder / path
        if path == self.path:
            self._watch()
            self.editor.focus()
            return
        if self.file.modified:
            assert self.path is not None
            complaint = await self.keep_unsaved()
            told = (complaint or "A copy is kept, and offered when it is opened here again.",)
            title = f"{self.path.name} is not saved"
            if not await self.app.settle_unsaved(
                [self], title, told, leave="Leave it", lost=complaint is not None
            ):
                return
        buffer = await open_buffer(path)
        lines = buffer.saved.split("\n")
        config, findings = await asyncio.to_thread(parse_config, buffer.saved, name=path.name)
        samples = Samples(rollouts=await asyncio.to_thread(rollout_replies, self.app.folder))
        await self._look_at_environment()
        # Nothing else runs from here to the next await: the text and its meaning change together.
        self.file.take(buffer)
        self.draft.begin(lines, config, findings)
        self.samples = samples
        self._show_panes(True)
        self.editor.notes = {}
        self.editor.load_text(buffer.saved)
        offered = samples.all(self.draft.config, self.draft.tools)
        self._try_sample(offered[0] if offered else SampleReply("", ""))
        self.show_file()
        self.editor.focus()
        self.call_after_refresh(self.editor.scroll_to, 0, 0, animate=False)
        await asyncio.to_thread(self.app.remember_config, path)
        await self.file.offer_copy()

    async def _look_at_environment(self) -> None:
        from hudtui.core.environment.cache import latest_analysis
        from hudtui.core.environment.matching import identity_of

        before, folder = self.draft.tools, self.app.folder

        def look() -> tuple[Any, Any]:
            analysis = latest_analysis(folder)
            return analysis, None if analysis is None else identity_of(analysis, folder)

        self.draft.take_analysis(*await asyncio.to_thread(look))
        if self.draft.tools is not before and self.path is not None:
            self.show_meaning()
            self._later()

    # -- the file
    # ----------------------------------------------------------------------------------------------

    def show_file(self) -> None:
        """Show the name of the file, and its state."""
        if self.path is not None:
            outside = "✗ changed on disk" if self.file.conflict else ""
            if self.text.show_file(
                self.app.workspace.relative(self.path), self.file.modified, outside
            ):
                self.refresh_bindings()

    def _file_changed(self) -> None:
        try:
            self.show_file()
        except NoMatches:
            return
        self.refresh_bindings()

    def _watch(self) -> None:
        """Check the file in the background, one check at a time: a folder may hang."""
        if not self.going("watch", "save"):
            self.start(self.file.look, group="watch")

    def action_save(self) -> None:
        self.start(self._save, group="save")

    async def save_unsaved(self) -> bool:
        await self._save()
        return not self.file.modified

    async def keep_unsaved(self) -> str | None:
        return await self.file.keep()

    async def _save(self) -> None:
        saved = await self.file.save()
        if saved is None:
            return
        errors = sum(finding.severity == "error" for finding in self.draft.findings)
        note = f" It has {errors} error{'s' if errors > 1 else ''}." if errors else ""
        self.say(
            f"Saved {self.app.workspace.relative(saved)}.{note}", "warning" if errors else "success"
        )
        self.app.reload()

    def action_outside(self) -> None:
        self.start(partial(self.file.settle, saving=False), group="outside")

    async def on_unmount(self) -> None:
        """Keep the last text, and end the connection."""
        self.file.copy_at_the_end(self.draft.text)
        await self.connection.close()

    def offers(self, action_id: str) -> bool:
        """Only a choice of file while none is open; the difference only if there is one."""
        if self.path is None and action_id.startswith("mapping."):
            return action_id == "mapping.config"
        return action_id != "mapping.outside" or self.file.conflict

    # -- panes
    # ----------------------------------------------------------------------------------------------

    def action_pane(self) -> None:
        focused = self.focused
        if isinstance(focused, YamlEditor) or (
            focused is not None and isinstance(focused.parent, FindBar)
        ):
            self.preview.turn_to(self.preview.tabs.active)
        else:
            self.text.come()

    @on(ConfigurationPane.Left)
    def _left(self, event: ConfigurationPane.Left) -> None:
        event.stop()
        self.action_pane()

    def focus_next(self, selector: Any = "*") -> Widget | None:
        """Tab goes from field to field, also through the text, which it does not change."""
        return self._walked(super().focus_next(selector))

    def focus_previous(self, selector: Any = "*") -> Widget | None:
        return self._walked(super().focus_previous(selector))

    def _walked(self, to: Widget | None) -> Widget | None:
        self.editor.walked = to is self.editor
        return to

    def action_preview(self) -> None:
        self.preview.turn_to("preview")

    def action_actions(self) -> None:
        self.preview.turn_to("actions")

    def action_findings(self) -> None:
        self.preview.turn_to("findings")

    def action_write(self) -> None:
        self.preview.turn_to("preview")
        self.preview.reply.focus()

    @on(PreviewPane.FindingOpened)
    def _go_to_finding(self, event: PreviewPane.FindingOpened) -> None:
        event.stop()
        self.text.jump(event.finding.line - 1, event.finding.column - 1)

    @on(PreviewPane.ActionOpened)
    def _go_to_action(self, event: PreviewPane.ActionOpened) -> None:
        """Try the example of the action, and go to its entry."""
        from hudtui.core.gym.editing.outline import outline
        from hudtui.core.gym.editing.samples import SampleReply
        from hudtui.core.gym.interpreter import reply_in
        from hudtui.core.gym.values import GymConfig

        event.stop()
        row, config = event.row, self.draft.config
        reply = reply_in(config or GymConfig(), row.example)
        self._try_sample(SampleReply(f"example of {row.action}", reply))
        entry = next(
            (
                entry
                for entry in outline(self.editor.lines)
                if entry.action and entry.name == row.action
            ),
            None,
        )
        self.preview.tabs.active = "preview"
        if entry is not None:
            self.text.jump(entry.line)

    # -- findings
    # ----------------------------------------------------------------------------------------------

    def action_problem(self) -> None:
        self.text.next_finding(1)

    def action_problem_before(self) -> None:
        self.text.next_finding(-1)

    def action_fix(self) -> None:
        from hudtui.core.gym.lint.fixes import apply_fixes

        finding = self.preview.finding or self.text.finding_to_fix()
        fix = None if finding is None else finding.fix or finding.guess
        if finding is None or fix is None:
            self.say("Fix: there is no fix for this that hudtui knows.", "warning")
            return
        if not self.draft.is_checked:
            self.say("Fix: the text has changed; it is being checked again.", "warning")
            return
        self.editor.replace_all(apply_fixes(self.editor.text, (replace(finding, fix=fix),)))
        self.say(f"{fix.title}. {{key:editor.undo}} takes it back.", "success")

    @started("fix", busy="Fixing")
    async def action_fix_all(self) -> None:
        from hudtui.core.gym.lint.fixes import fix_text

        assert self.path is not None
        text = self.editor.text
        fixed = await asyncio.to_thread(
            fix_text, text, name=self.path.name, tools=self.draft.all_tools
        )
        if self.editor.text != text:
            self.say("The text has changed meanwhile: nothing was fixed.", "warning")
            return
        self.editor.replace_all(fixed.text)
        count = len(fixed.applied)
        found = f"{count} {'finding' if count == 1 else 'findings'}"
        self.say(f"{found} fixed. {{key:editor.undo}} in the text takes that back.", "success")

    # -- moving about
    # ----------------------------------------------------------------------------------------------

    @started("outline")
    async def action_outline(self) -> None:
        from hudtui.core.gym.editing.outline import outline

        entries = outline(self.editor.lines)
        if not entries:
            self.say("There is nothing to jump to.", "warning")
            return
        row = self.editor.cursor_location[0]
        at = max((index for index, entry in enumerate(entries) if entry.line <= row), default=0)
        verdicts = {entry.action: entry.verdict for entry in self.draft.rows}
        bad = Content.styled("  ✗", "bold $error")
        lines = [
            Content.assemble(
                ("    " if entry.action else "", ""),
                (clean_line(entry.name, 60), "" if entry.action else "bold $primary"),
                (f"  {entry.line + 1}", "$foreground-muted"),
            )
            + (
                bad
                if entry.action and verdicts.get(entry.name) in ("error", "broken")
                else Content("")
            )
            for entry in entries
        ]
        index = await self.app.push_screen_wait(Pick("Outline", lines, at=at))
        if index is not None:
            self.text.jump(entries[index].line)

    @started("line")
    async def action_line(self) -> None:
        given = await self.app.ask("Go to line", placeholder=f"1 to {len(self.editor.lines)}")
        if given is None:
            return
        try:
            self.text.jump(int(given.strip()) - 1)
        except ValueError:
            self.say(f"Go to line: {clean_line(given, 40)!r} is not a number.", "warning")

    # -- search
    # ----------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        self.text.find()

    def action_find_next(self) -> None:
        self.text.seek(1)

    def action_find_previous(self) -> None:
        self.text.seek(-1)

    # -- new actions
    # ----------------------------------------------------------------------------------------------

    def snippet_tools(self) -> list[Any]:
        return [
            tool
            for tool in (self.draft.analysis.agent_tools if self.draft.analysis is not None else ())
            if tool.hub is None
        ]

    @started("new")
    async def action_new(self) -> None:
        from hudtui.core.gym.editing.completion import new_action
        from hudtui.core.gym.lint.findings import Finding, Fix
        from hudtui.core.gym.lint.fixes import apply_fixes

        tools = self.snippet_tools()
        lines = [
            Content.assemble(
                (clean_line(tool.name, 60), "bold"),
                (f"  {clean_line(tool.description, 120)}", "$foreground-muted"),
            )
            for tool in tools
        ]
        index = await self.app.push_screen_wait(Pick("A new action for which tool?", lines))
        if index is None:
            return
        made = await asyncio.to_thread(new_action, list(self.editor.lines), tools[index])
        if isinstance(made, str):
            self.say(f"New action: {made}", "warning")
            return
        fix = Fix("put the action in", made.edits)
        text = apply_fixes(self.editor.text, (Finding("new", "info", "", fix=fix),))
        self.editor.replace_all(text)
        self.text.jump(made.line)
        note = "" if made.described else " The prompt does not mention it yet."
        self.say(f"An action for {clean_line(tools[index].name, 60)} was added.{note}", "success")

    # -- samples
    # ----------------------------------------------------------------------------------------------

    def _try_sample(self, sample: SampleReply) -> None:
        if self.preview.sample.label == "your own":
            self.samples.last = self.preview.reply.text
        self.preview.try_sample(sample)
        self.show_meaning()

    @started("sample")
    async def action_sample(self) -> None:
        offered = await asyncio.to_thread(self.samples.all, self.draft.config, self.draft.tools)
        lines = [
            Content.assemble(
                (f"{clean_line(one.label, 40)}  ", "$primary"), clean_line(one.text, 300)
            )
            for one in offered
        ]
        at = next(
            (number for number, one in enumerate(offered) if one.text == self.preview.reply.text), 0
        )
        index = await self.app.push_screen_wait(Pick("Which reply?", lines, at=at))
        if index is not None:
            self._try_sample(offered[index])

    def _turn(self, step: int) -> None:
        offered = self.samples.all(self.draft.config, self.draft.tools)
        at = next(
            (number for number, one in enumerate(offered) if one.text == self.preview.reply.text),
            -1 if step > 0 else 0,
        )
        if offered:
            self._try_sample(offered[(at + step) % len(offered)])

    action_sample_next = partialmethod(_turn, 1)
    action_sample_previous = partialmethod(_turn, -1)

    # -- the environment
    # ---------------------------------------------------------------------------------------------

    def _connection_changed(self) -> None:
        self.preview.show_sample(connected=self.connection.session is not None)
        self.refresh_bindings()

    @started("send")
    async def action_send(self) -> None:
        from hudtui.core.flows.generate import typed_source
        from hudtui.tui.mapping.view import answer_lines

        await self._read()  # what is sent is what the text means now, also right after a key
        meaning, analysis = self.preview.meaning, self.draft.analysis
        if (reason := _no_call(self)) is not None:
            self.say(f"Send: {reason}.", "warning")
            return
        assert meaning is not None and meaning.call is not None and analysis is not None
        file, call = self.app.project.state_dir / "analyses", meaning.call
        source = await asyncio.to_thread(typed_source, self.app.project, analysis.source, file=file)
        result, seconds = await self.connection.call(
            source, call.tool, call.arguments, title=call.tool
        )
        self.preview.answer = answer_lines(result, seconds)
        if self.connection.session is not None and call.tool not in self.connection.session.tools:
            self.preview.answer.insert(
                1, Content.styled("  ! the environment does not list this tool", "$warning")
            )
        self.show_meaning()
        self.preview.tabs.active = "preview"
        if self.size.width < BOTH_PANES:
            self.preview.turn_to("preview")
        self.call_after_refresh(self.preview.sheet.reveal, "sent ")

    @started("send", busy="Disconnecting")
    async def action_disconnect(self) -> None:
        await self.connection.close()
        self.say("Disconnected.")

    def action_cancel(self) -> None:
        self.cancel("send")

    def action_play(self) -> None:
        assert self.path is not None
        config = self.app.workspace.relative(self.path)
        note = (
            f"{config} has changes that are not saved: they are not played."
            if self.file.modified
            else None
        )
        self.app.open_screen("playing", back="mapping", config=config, note=note)

    def on_screen_resume(self) -> None:
        """Offer the replies that were played meanwhile."""
        if self.path is not None:
            self.start(partial(self._read_samples, self.path), group="samples")

    async def _read_samples(self, path: Path) -> None:
        from hudtui.core.rollouts.replies import rollout_replies

        rollouts = await asyncio.to_thread(rollout_replies, self.app.folder)
        if path == self.path:
            self.samples.rollouts = rollouts
