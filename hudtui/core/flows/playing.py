"""Play one task turn by turn: a policy, a person, or both in turns.

`prepare_playing` reads what is played, and `Playing.play` plays it: it connects to a fresh
environment, sets the task up, and yields an event for each turn, until the episode is over and
evaluated. Whoever consumes the events steers the episode with the other methods of `Playing`: they
pause the policy, reply in its place, give the episode back to the policy, and end it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hudtui.core.environment.bundled import with_python_variable
from hudtui.core.errors import HudtuiError
from hudtui.core.events import Notice, Progress
from hudtui.core.files import edit_text, write_atomic
from hudtui.core.flows.person import Person, may_replace
from hudtui.core.gym.config import load_config
from hudtui.core.gym.environment_name import environment_name
from hudtui.core.gym.interpreter import reply_in
from hudtui.core.gym.reply import Call, parse_call
from hudtui.core.gym.values import ExampleRound, GymConfig
from hudtui.core.plain import to_plain
from hudtui.core.project import Project
from hudtui.core.results.find import results_at
from hudtui.core.results.foreign import name as short_name
from hudtui.core.results.index import ResultIndex
from hudtui.core.rollouts.episode import EpisodePlayer, give_tools, was_cut
from hudtui.core.rollouts.evaluate import (
    config_digest,
    connector,
    open_policy,
    playable_tasks,
    secrets_of,
)
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.options import PlayTaskOptions
from hudtui.core.rollouts.outcome import TRACES
from hudtui.core.rollouts.policy import PolicySource, ReplayPolicy, message_text
from hudtui.core.rollouts.reward import load_playable_config
from hudtui.core.rollouts.telemetry import Telemetry, open_telemetry
from hudtui.core.rollouts.trace import (
    episode_from_json,
    episode_to_json,
    opening_of,
    redact,
    transcript,
    turn_to_json,
    write_episode,
)
from hudtui.core.rollouts.values import ENDED_BY_HAND, Complete, Episode, KeptImage, Scores, Turn
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line
from hudtui.core.yaml_doc import append_items

if TYPE_CHECKING:
    from hudtui.core.environment.values import Session, Tool
    from hudtui.core.rollouts.evaluate import Connect
    from hudtui.core.variables import Lookup

T = TypeVar("T")

BY_HAND = "by hand"
"""Stands in a record for a person where the name of a policy could stand."""
PLAYED = Path("outputs") / "played" / TRACES
"""The trace that episodes are kept in."""


@dataclass(frozen=True)
class PlayRequest(PlayTaskOptions):
    """An episode as a user asks for it. Relative paths start in the project's folder."""

    tasks: str
    """A file or folder of tasks, or a dataset on the Hub."""
    config: Path
    keep: Path | None = PLAYED
    """The trace that the episode is appended to; None: it is not kept."""


@dataclass(frozen=True)
class PlayStarted:
    """The task is set up, and the first reply can be played."""

    task: Task
    opening: str
    """First message to the agent: prompt and answers of the setup."""
    actions: tuple[Tool, ...]
    """Tools that the agent can call."""
    max_turns: int
    images: tuple[KeptImage, ...] = ()
    """Images that the setup answered with."""


@dataclass(frozen=True)
class PlayedTurn:
    """A turn is over."""

    number: int
    """From 1."""
    turn: Turn
    by: str
    """Name of the policy, or `BY_HAND`."""
    scores: Scores
    """As they stand after this turn."""

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui rollouts play --json`."""
        return {
            "event": "turn",
            "turn": self.number,
            "by": self.by,
            **turn_to_json(self.turn),
            "scores": dict(vars(self.scores)),
        }


@dataclass(frozen=True)
class ReplyWanted:
    """A person is to reply, or to give the episode to the policy."""

    number: int
    """Number of the turn, from 1."""
    error: HudtuiError | None = None
    """Reason why the policy could not reply, where it failed. The episode continues once the person
    or the policy replies."""


@dataclass(frozen=True)
class PlayScored:
    """The task was evaluated before its end."""

    scores: Scores
    evaluation: Any
    """Answer of the evaluate tool."""
    error: str | None = None
    """Reason why the evaluation failed, where it did."""


@dataclass(frozen=True)
class PlayEnded:
    """The episode is over and evaluated, and its environment has ended."""

    episode: Episode
    file: Path | None
    """The trace that the episode was appended to."""


PlayEvent = Progress | Notice | PlayStarted | PlayedTurn | ReplyWanted | PlayScored | PlayEnded
_Command = tuple[Literal["reply", "pause", "resume", "step", "evaluate", "end"], str]


def in_tags(text: str, config: GymConfig) -> str:
    """Return a reply as it is played.

    A call alone, such as `left()`, is put in the tags that the configuration asks for.
    Any other text is played as it is, so that a reply without a call can be tried, too.
    """
    call = parse_call(text.strip())
    whole = (
        isinstance(call, Call)
        and "\n" not in text.strip()
        and text.strip().endswith(")")
        and text.strip()[0] != "<"
    )
    return reply_in(config, text.strip()) if whole else text


async def prepare_playing(project: Project, request: PlayRequest) -> Playing:
    """Read the configuration, the task and the policy.

    Raises:
        InputError: A file, the policy or an option cannot be used.
        Untrusted: The task names a server that the user has not agreed to.
    """
    settings = await asyncio.to_thread(project.settings)
    settings.require_trust()
    lookup = with_python_variable(settings.lookup)
    timeout = settings.client_timeout if request.timeout is None else request.timeout
    request = replace(request, timeout=timeout)
    config = await asyncio.to_thread(
        load_playable_config,
        project.folder / request.config,
        project.folder,
        dialect=request.dialect,
    )
    read, warning = await playable_tasks(
        request.tasks,
        config,
        settings,
        split=request.split,
        limit=None if request.task is not None else 1,
        source=request.source,
        task=request.task,
    )
    connect = await asyncio.to_thread(
        connector, request.source, project.folder, lookup, timeout=timeout
    )
    playing = Playing(project, request, config, read.tasks[0], connect, lookup)
    if warning is not None:
        playing.notices.append(warning)
    if request.policy is not None:
        await playing.choose_policy(request.policy)
    return playing


class Playing:
    """One episode of a task, played by a policy, by a person, or by both in turns.

    `play` carries it out, once. The other methods steer it from the same event loop while it runs:
    they return at once, and the events of `play` tell what came of them.
    """

    def __init__(
        self,
        project: Project,
        request: PlayRequest,
        config: GymConfig,
        task: Task,
        connect: Connect,
        lookup: Lookup,
    ) -> None:
        self.request = request
        self.config = config
        self.task = task
        self.player: EpisodePlayer | None = None
        """The episode; None until the environment is connected."""
        self.running = False
        """The policy plays: it is not paused, and the turn is not a person's."""
        self.by: list[str] = []
        """Who played each turn: the name of a policy, or `BY_HAND`."""
        self.notices: list[Notice] = []
        self._project = project
        self._connect = connect
        self._lookup = lookup
        self._judges = Judges(lookup)
        self._secrets = secrets_of(task.mcp_config, lookup)
        self.policy: str | None = None
        """Name of the policy; None where a person alone plays."""
        self._sources: list[PolicySource] = []
        self._telemetry: Telemetry | None = None
        self._closed = False
        self._complete: Complete | None = None
        self._commands: deque[_Command] = deque()
        self._told = asyncio.Event()
        self._interrupted = asyncio.Event()
        self._left: int | None = None
        """Turns that the policy plays before it pauses; None: it does not pause by itself."""
        self._kept = False
        self.number = 0
        """Number of the episode in the trace that it is kept in, from 0, as `hudtui rollouts`
        counts."""

    # -- steering
    # ----------------------------------------------------------------------------------------------

    async def choose_policy(self, name: str) -> None:
        """Take another policy for the turns to come.

        Raises:
            InputError: There is no such policy, or it cannot play with this configuration.
        """
        settings = await asyncio.to_thread(self._project.settings)
        source = await asyncio.to_thread(open_policy, name, self.config, settings, self.request)
        if self._closed:
            await source.aclose()
            return
        self._sources.append(source)
        self.policy, self._complete = source.name, source.for_episode(self.task, 0)

    def reply(self, text: str) -> None:
        """Play this reply as the next turn. A policy that is thinking is interrupted and pauses."""
        self._tell("reply", text)

    def pause(self) -> None:
        """Let the policy pause before the next reply.

        A reply that it is working on is cancelled.
        """
        self._tell("pause")

    def resume(self) -> None:
        """Give the episode to the policy. Without a policy nothing changes."""
        self._tell("resume")

    def step(self) -> None:
        """Let the policy play one turn, and pause again. Without a policy nothing changes."""
        self._tell("step")

    def evaluate(self) -> None:
        """Call the task's evaluate tools before the next reply."""
        self._tell("evaluate")

    def end(self, error: HudtuiError | None = None) -> None:
        """End the episode; it is evaluated.

        Args:
            error: What the policy failed with, where that is why the episode ends.
        """
        if error is not None and self.player is not None:
            self.player.fail(error)
        self._tell("end")

    def _tell(
        self, what: Literal["reply", "pause", "resume", "step", "evaluate", "end"], text: str = ""
    ) -> None:
        self._commands.append((what, text))
        self._told.set()
        if what in ("reply", "pause", "end"):
            self._interrupted.set()

    def record(self) -> Episode:
        """Return the episode so far.

        Raises:
            RuntimeError: There is none yet.
        """
        if self.player is None:
            raise RuntimeError("this episode has not begun")
        usage = getattr(self._complete, "usage", None)
        info = {**self.player.info, "played_by": list(self.by)}
        return replace(
            self.player.record(), info=info if usage is None else {**info, "usage": to_plain(usage)}
        )

    def redacted(self) -> Episode:
        """Return the episode as a trace holds it: without secrets.

        Raises:
            RuntimeError: There is none yet.
        """
        return episode_from_json(redact(episode_to_json(self.record()), self._secrets))

    # -- playing
    # ----------------------------------------------------------------------------------------------

    async def play(self) -> AsyncGenerator[PlayEvent, None]:
        """Play the episode; consume it inside `contextlib.aclosing`.

        Closing the iterator, or cancelling its consumer, ends the environment at once. The episode
        is kept as `cancelled`, without an evaluation, if a turn was played.

        Yields:
            `PlayStarted`, then a `PlayedTurn` for each turn, `ReplyWanted` when a person is to
            reply, and `PlayEnded`.

        Raises:
            ConnectError: There is no connection to the environment.
            InputError: The episode cannot be kept.
        """
        for notice in self.notices:
            yield notice
        try:
            settings = await asyncio.to_thread(self._project.settings)
            about = {"policy": self.policy or BY_HAND, "tasks": 1, "group": 1, "tool": "hudtui"}
            opened = await asyncio.to_thread(
                open_telemetry, self.config, settings, None, about=about
            )
            if isinstance(opened, str):
                yield Notice("warning", opened)
            else:
                self._telemetry = opened
            yield Progress("connect", f"starting the environment of {clean_line(self.task.id, 80)}")
            async with self._connect(self.task.mcp_config) as session:
                for warning in getattr(session, "warnings", ()):
                    yield Notice("warning", warning)
                player = self.player = await asyncio.to_thread(self._make, session)
                yield Progress("setup", "setting the task up")
                await player.start()
                async for event in self._turns(player):
                    yield event
                self.running = False
                if player.stop != "error":
                    yield Progress("evaluate", "evaluating")
                await player.finish(ENDED_BY_HAND)
            file = await asyncio.to_thread(self._keep)
            if (telemetry := self._telemetry) is not None:
                yield Progress("telemetry", "sending the trace")
                self._end_trace()
                await asyncio.to_thread(telemetry.close)
                self._telemetry = None
                for text in telemetry.warnings():
                    yield Notice("warning", text)
            yield PlayEnded(self.record(), file)
        finally:
            self.running = False
            if self.player is not None and self.by and not self._kept:
                with contextlib.suppress(
                    HudtuiError
                ):  # it is on its way out, and has an error of its own or none to tell
                    self._keep()
            await self.aclose()

    async def aclose(self) -> None:
        """Close the policies' endpoints, and end the job.

        `play` does so at its end; an episode that is not played needs this.
        """
        self._closed = True
        sources, self._sources = self._sources, []
        try:
            if (telemetry := self._telemetry) is not None:
                self._end_trace()
                self._telemetry = None
                await asyncio.to_thread(telemetry.close, "failed", within=1.0)
        finally:
            for source in sources:
                await source.aclose()

    def _end_trace(self) -> None:
        if self._telemetry is not None and self.player is not None:
            self._telemetry.end(self.player.info["trace"], self.record(), self._secrets)

    def _make(self, session: Session) -> EpisodePlayer:
        request = self.request
        wanted = (
            bool(getattr(self._complete, "wants_images", False))
            if request.images is None
            else request.images
        )
        info: dict[str, Any] = {
            "policy": self.policy or BY_HAND,
            "config": config_digest(self.config),
        }
        if self._telemetry is not None:
            info |= {
                "job": self._telemetry.job.id,
                "trace": self._telemetry.begin(self.task.id, info["policy"]),
            }
        if request.seed is not None:
            info["seed"] = request.seed
        if request.keep is not None:
            total, own = _recorded(self._project.folder / request.keep, self.task.id)
            self.number, info["rollout"] = total, own
        return EpisodePlayer(
            session,
            self.config,
            self.task,
            max_turns=request.max_turns,
            info=info,
            images=wanted,
            timeout=request.timeout,
            judges=self._judges,
        )

    async def _turns(self, player: EpisodePlayer) -> AsyncGenerator[PlayEvent, None]:
        """From the opening to the end of the episode, which is then to be finished."""
        opening, images = _opening(self.redacted()), player.record().images
        yield PlayStarted(self.task, opening, player.actions, player.max_turns, images)
        left = None if self.request.take_over is None else self.request.take_over - 1
        self._hand_over(left)
        if self.request.by_hand:
            self.running = False
        asked, began, error = 0, perf_counter(), None
        while player.stop is None:
            number = len(player.turns) + 1
            if self._commands:
                what, text = self._commands.popleft()
                if what == "end":
                    return
                if what == "reply":
                    self.running = False
                    turn = await player.step(
                        text, seconds=perf_counter() - began if asked == number else 0.0
                    )
                    yield self._over(player, turn, BY_HAND)
                    continue
                if what == "evaluate":
                    yield Progress("evaluate", "evaluating")
                    await player.judge()
                    yield PlayScored(
                        player.scores,
                        player.evaluation,
                        player.error or player.info.get("evaluation_error"),
                    )
                elif what == "pause":
                    self.running = False
                else:
                    self._hand_over(1 if what == "step" else None)
                asked = 0
                continue
            self._told.clear()
            self._interrupted.clear()
            if self.running:
                yield Progress(
                    "reply", f"waiting for {clean_line(self.policy or '', 80)}, turn {number}"
                )
                if self._commands:
                    continue
                began = perf_counter()
                solution = getattr(self._complete, "solution", None)
                if solution is not None:
                    turn = await player.follow(solution)
                    yield self._by_policy(player, turn)
                    continue
                try:
                    said = await self._unless_interrupted(self._ask(player))
                except HudtuiError as failure:
                    self.running, error, asked = False, failure, 0
                    continue
                if said is not None:
                    turn = await player.step(
                        said, seconds=perf_counter() - began, cut=was_cut(self._complete)
                    )
                    yield self._by_policy(player, turn)
            elif asked != number:
                asked, began = number, perf_counter()
                yield ReplyWanted(number, error)
                error = None
            else:
                await self._told.wait()

    def _hand_over(self, turns: int | None) -> None:
        """Let the policy play, for at most `turns` turns."""
        self._left = turns
        self.running = self._complete is not None and (turns is None or turns > 0)

    def _by_policy(self, player: EpisodePlayer, turn: Turn) -> PlayedTurn:
        """A turn of the policy, which counts in those that it plays before it pauses."""
        self._left = None if self._left is None else self._left - 1
        self.running = self.running and self._left != 0
        return self._over(player, turn, self.policy or "")

    def _over(self, player: EpisodePlayer, turn: Turn, by: str) -> PlayedTurn:
        self.by.append(by)
        return PlayedTurn(len(player.turns), turn, by, player.scores)

    async def _ask(self, player: EpisodePlayer) -> str:
        assert self._complete is not None
        if isinstance(self._complete, ReplayPolicy):
            self._complete.go_to(len(player.turns))
        give_tools(self._complete, player)
        return await self._complete(player.messages)

    async def _unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of the work; None if a person interrupted it, which cancels it."""
        task, interrupted = (
            asyncio.ensure_future(work),
            asyncio.ensure_future(self._interrupted.wait()),
        )
        try:
            await asyncio.wait({task, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            interrupted.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    # -- the record
    # ----------------------------------------------------------------------------------------------

    def _keep(self) -> Path | None:
        self._kept = True
        if self.request.keep is None or not self.by:
            return None
        file = self._project.folder / self.request.keep
        write_episode(file, self.record(), secrets=self._secrets)
        return file


def _opening(episode: Episode) -> str:
    """Return the first message to the agent, as text."""
    return message_text({"content": opening_of(episode)})


def _recorded(file: Path, task: str) -> tuple[int, int]:
    """How many episodes a trace holds, and how many of them are of a task.

    As `hudtui rollouts` counts them.
    """
    if not file.exists():
        return 0, 0
    entries = ResultIndex(results_at(file)).finish()
    return len(entries), sum(entry.task == short_name(task) for entry in entries)


# -- what becomes of an episode
# ------------------------------------------------------------------------------------------


async def save_transcript(
    project: Project, person: Person, episode: Episode, *, over: bool
) -> str | None:
    """Write an episode as text into a file that the person names.

    Args:
        project: Relative names start in its folder.
        person: Names the file, and agrees to the replacement of an existing one.
        episode: The episode.
        over: Whether it has ended.

    Returns:
        The name of the file; None when the person cancels or names none.

    Raises:
        InputError: The file cannot be written.
    """
    suggested = f"transcript-{environment_name(episode.task_id)}.txt"
    given = (await person.ask("Save the transcript as", value=suggested) or "").strip()
    if not given or not await may_replace(person, project.folder / given, given):
        return None
    await asyncio.to_thread(write_atomic, project.folder / given, transcript(episode, over=over))
    return given


def keep_examples(
    project: Project, config: Path, episode: Episode, turns: Sequence[int] | None = None
) -> int:
    """Add turns of an episode to the `examples:` of a configuration.

    What the agent was shown, and its reply. Turns whose reply was refused, or was answered with an
    error, are left out, and so are rounds that are examples already.

    Args:
        project: The project.
        config: The configuration's file; a relative path starts in the project's folder.
        episode: The episode, without secrets (`Playing.redacted`).
        turns: Numbers of the turns, from 1; None: all.

    Returns:
        How many examples were added.

    Raises:
        InputError: The file cannot be read or written, or holds something else under `examples`.
    """
    path = project.folder / config
    known = load_config(path).examples
    shown = [_opening(episode), *(turn.observation for turn in episode.turns)]
    rounds = [
        ExampleRound(user, turn.reply)
        for number, (user, turn) in enumerate(zip(shown, episode.turns, strict=False), 1)
        if (turns is None or number in turns)
        and not turn.is_error
        and user.strip()
        and turn.reply.strip()
    ]
    new = [one for one in dict.fromkeys(rounds) if one not in known]
    if new:
        items = [vars(one) for one in new]
        edit_text(path, lambda text: append_items(text, "examples", items, name=str(config)))
    return len(new)
