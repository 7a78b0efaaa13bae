"""The mapping screen and the live environment: sending one call, and playing an episode by hand."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from textual.content import Content

from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.events import Progress
from hudtui.core.text import clean_line
from hudtui.core.trust import require
from hudtui.core.workspace import STATE_FOLDER
from hudtui.tui.mapping.files import MappingFiles
from hudtui.tui.widgets.pick import Pick
from hudtui.tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from hudtui.core.environment.client import EnvironmentSession
    from hudtui.core.rollouts.episode import EpisodePlayer
    from hudtui.core.rollouts.values import Scores
    from hudtui.core.tasks.task import Task

BOTH_PANES = 120
"""Columns from which both panes are shown."""
_MOST_TASKS = 1_000


class MappingPlay(MappingFiles):
    """Sending calls, and playing a scenario."""

    def __init__(self) -> None:
        super().__init__()
        self._session: EnvironmentSession | None = None
        self._stack: AsyncExitStack | None = None
        self.player: EpisodePlayer | None = None
        self._player_stack: AsyncExitStack | None = None
        self._scores: Scores | None = None
        self._judged = False
        self._ended: EpisodePlayer | None = None
        """The scenario before, which can still be read, copied and saved."""

    @property
    def played(self) -> EpisodePlayer | None:
        """The scenario that is played, or the last one."""
        return self.player or self._ended

    # -- one call ----------------------------------------------------------------------------------------------------

    def connection_words(self) -> tuple[str, str]:
        """The state of the connection, and its style."""
        if self.player is not None:
            return (f"● scenario {clean_line(self.player.task.id, 30)}", "bold $success")
        if self._session is not None:
            return ("● connected", "bold $success")
        if self.analysis is None:
            return ("○ no environment was looked at", "$foreground-muted")
        if self.foreign is not None:
            source = clean_line(self.analysis.source, 40)
            return (f"○ not checked: for {clean_line(self.foreign, 30)}; last analysed: {source}", "$foreground-muted")
        return (f"○ not connected ({clean_line(self.analysis.source, 40)})", "$foreground-muted")

    def show_sample_name(self) -> None:
        """Which reply is tried, and whether there is a connection to send it over."""
        words, style = self.connection_words()
        self._update(
            "#map-sample-name",
            Content.assemble(
                ("sample reply ", "bold $primary"), (clean_line(self.sample.label, 40), "$foreground-muted"), "  ", (words, style)
            ),
        )

    def action_send(self) -> None:
        """Send the call, or the reply to the scenario."""
        if self.player is not None and self.player.stop is None:
            self.start(self._step, group="send")
        else:
            self.start(self._send, group="send")

    async def _send(self) -> None:
        from hudtui.tui.mapping.view import answer_lines

        meaning = self.meaning
        assert meaning is not None and meaning.call is not None
        call = meaning.call
        session = await self._connected()
        tool = session.tools.get(call.tool)
        self.busy(f"Waiting for {call.tool} ({{key:mapping.cancel}} cancels)")
        began = time.monotonic()
        try:
            result = await session.call_tool(call.tool, call.arguments)
        except HudtuiError:
            await self._disconnect()
            raise
        self.clear_message()
        self.answer = answer_lines(result, self.took(began))
        if tool is None:
            self.answer.insert(1, Content.styled("  ! the environment does not list this tool", "$warning"))
        self.show_meaning()
        self.tabs.active = "preview"
        if self.size.width < BOTH_PANES:
            self.tab("preview")
        sheet = self.query_one("#map-meaning", Sheet)
        self.call_after_refresh(sheet.reveal, "sent ")

    def took(self, began: float) -> float:
        return time.monotonic() - began

    async def _connected(self) -> EnvironmentSession:
        from hudtui.core.environment.client import connect
        from hudtui.core.environment.source import parse_source
        from hudtui.core.settings import load_settings

        if self._session is not None:
            return self._session
        assert self.analysis is not None
        folder, platform, text = self.app.folder, self.app.platform, self.analysis.source
        self.busy(f"Connecting to {text}")
        file = folder / STATE_FOLDER / "analyses"
        source = await asyncio.to_thread(
            lambda: parse_source(text, folder=folder, lookup=load_settings(folder, platform).lookup, file=file)
        )
        stack = AsyncExitStack()
        self._session = await stack.enter_async_context(connect(source, on_event=self._progress))
        self._stack = stack
        self.show_sample_name()
        self.refresh_bindings()
        return self._session

    def _progress(self, event: Progress) -> None:
        self.busy(event.message or event.stage)

    def action_disconnect(self) -> None:
        self.start(self._end(), group="send", busy="Disconnecting")

    async def _end(self) -> None:
        await self._drop_player()
        await self._disconnect()
        self.say("Disconnected.")

    async def _disconnect(self) -> None:
        stack, self._stack, self._session = self._stack, None, None
        if stack is not None:
            await stack.aclose()
            if self.is_running:
                self.show_sample_name()
                self.refresh_bindings()

    def action_cancel(self) -> None:
        """Cancel the running action."""
        going = self.going("send", "raise")
        for worker in going:
            worker.cancel()
        self.say("Cancelled." if going else "Nothing is going on.")

    async def on_unmount(self) -> None:
        """Close the connection, so that no server stays behind."""
        await self._drop_player()
        await self._disconnect()

    # -- an episode --------------------------------------------------------------------------------------------------

    def action_raise(self) -> None:
        self.start(self._raise, group="raise")

    async def _raise(self) -> None:
        from hudtui.core.environment.bundled import with_python_variable
        from hudtui.core.environment.client import connect
        from hudtui.core.environment.powers import task_powers
        from hudtui.core.rollouts.episode import EpisodePlayer
        from hudtui.core.settings import load_settings

        task = await self._pick_task()
        if task is None or self.config is None:
            return
        folder, platform = self.app.folder, self.app.platform
        await asyncio.to_thread(require, folder, task_powers([task.mcp_config], folder / "tasks"))
        await self._drop_player()
        self.busy(f"Setting the scenario {clean_line(task.id, 60)} up")
        settings = await asyncio.to_thread(load_settings, folder, platform)
        stack = AsyncExitStack()
        try:
            session = await stack.enter_async_context(connect(task.mcp_config, lookup=with_python_variable(settings.lookup)))
            player = EpisodePlayer(session, self.config, task)
            await player.start()
        except BaseException:
            await stack.aclose()
            raise
        self._player_stack, self.player, self._ended = stack, player, None
        self._scores, self._judged = None, False
        self.clear_message()
        self.tab("scenario")
        self.show_episode()
        if player.stop is not None:
            self.say(player.error or "The set-up failed.", "error")

    async def _pick_task(self) -> Task | None:
        from hudtui.core.tasks.read import read_tasks

        workspace = await asyncio.to_thread(lambda: self.app.workspace)
        files = list(workspace.task_files)
        if not files:
            raise InputError("there are no task files in this folder", fix="A scenario is a task: write one, or see Dataset (3).")
        index: int | None = 0
        if len(files) > 1:
            index = await self.app.push_screen_wait(Pick("Tasks of which file?", [workspace.relative(path) for path in files]))
        if index is None:
            return None
        image = await asyncio.to_thread(self._lock_image)
        read = await asyncio.to_thread(
            read_tasks, files[index], platform=workspace.platform, folder=workspace.folder, lock_image=image
        )
        tasks = read.tasks[:_MOST_TASKS]
        if not tasks:
            why = str(read.problems[0]) if read.problems else None
            raise InputError(f"no task of {files[index].name} can be played", why=why)
        lines = [f"{clean_line(task.id, 40)}  {clean_line(task.prompt, 200)}" for task in tasks]
        chosen = await self.app.push_screen_wait(Pick("Which scenario?", lines)) if len(tasks) > 1 else 0
        return None if chosen is None else tasks[chosen]

    def _lock_image(self) -> str | None:
        from hudtui.core.lockfile import find_lock, read_lock

        try:
            lock = find_lock(self.app.folder, self.app.platform)
            return None if lock is None else read_lock(lock).image
        except InputError:
            return None

    async def _step(self) -> None:
        player = self.player
        assert player is not None
        self.busy("Waiting for the environment")
        before = player.scores
        await player.step(self.reply.text)
        self._scores = before
        self.clear_message()
        self.show_episode()
        self.tab("scenario")
        if player.stop is not None:
            await self._judge()

    def action_judge(self) -> None:
        self.start(self._judge(), group="send")

    async def _judge(self) -> None:
        player = self.player
        assert player is not None
        self.busy("Evaluating")
        before = player.scores
        await player.judge()
        self._scores, self._judged = before, True
        self.clear_message()
        self.show_episode()
        if player.failure is not None:
            self.say(player.error or str(player.failure), "error")

    def action_end(self) -> None:
        self.start(self._end_scenario(), group="send")

    async def _end_scenario(self) -> None:
        await self._drop_player()
        self.show_episode()
        self.say(
            "The scenario is over. {key:mapping.copy} copies what was played, {key:mapping.transcript} writes it into a file."
        )

    def action_copy(self) -> None:
        from hudtui.core.rollouts.trace import transcript

        assert self.played is not None
        self.app.copy(transcript(self.played.record(), over=self.played.stop is not None))

    def action_transcript(self) -> None:
        self.start(self._write_transcript(), group="transcript")

    async def _write_transcript(self) -> None:
        from hudtui.core.files import write_atomic
        from hudtui.core.flows.person import may_replace
        from hudtui.core.gym.environment_name import environment_name
        from hudtui.core.rollouts.trace import transcript

        assert self.played is not None
        text = transcript(self.played.record(), over=self.played.stop is not None)
        given = await self.app.ask("Save the transcript as", value=f"scenario-{environment_name(self.played.task.id)}.txt")
        if given is None:
            return
        if not given.strip():
            self.say("Nothing is written: the transcript needs a file name.", "warning")
            return
        path = self.app.folder / given.strip()
        if not await may_replace(self.app, path, given.strip()):
            return
        await asyncio.to_thread(write_atomic, path, text)
        self.say(f"Wrote {given.strip()}.", "success")

    async def _drop_player(self) -> None:
        self._ended = self.player or self._ended
        stack, self._player_stack, self.player = self._player_stack, None, None
        if stack is not None:
            await stack.aclose()
            if self.is_running:
                self.show_sample_name()
                self.refresh_bindings()

    def show_episode(self) -> None:
        from hudtui.tui.mapping.view import episode_lines, score_lines

        player = self.played
        scores, sheet = self.query_one("#map-scores", Sheet), self.query_one("#map-episode", Sheet)
        if player is None:
            scores.show([])
            sheet.show([Content.styled("p begins a scenario: a task of this project, played by you.", "$foreground-muted")])
        else:
            scores.show(score_lines(player.scores, player.config, self._scores, judged=self._judged))
            sheet.show(episode_lines(player, judged=self._judged))
            self.call_after_refresh(sheet.scroll_end, animate=False)
        self.show_sample_name()
        self.refresh_bindings()
