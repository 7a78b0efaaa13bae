"""Episodes for a trainer, with their tokens.

The conversations of a step are played at the same time. Each conversation runs as an asyncio task
of its own, with a connection of its own, through the rollout core (`EpisodePlayer`), and requests
its replies from a `ReplySource`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from hudtui.core.environment.values import Session
from hudtui.core.errors import RunError
from hudtui.core.gym.prompt_size import MANY_TOKENS, PromptSize, size_warning
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.episode import NO_SESSION, EpisodePlayer
from hudtui.core.rollouts.evaluate import Connect
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.outcome import EpisodeRemarks
from hudtui.core.rollouts.values import Episode, Message
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line
from hudtui.core.training.chat_tokens import ChatTokens, TokenTranscript
from hudtui.trainers.refill import has_spread
from hudtui.trainers.replies import RankSync, ReplySource, SingleRank
from hudtui.trainers.steps import PAUSES, play_step

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingEpisode:
    """An episode with its tokens."""

    episode: Episode
    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float | None] | None
    reward: float | None
    """None if the environment failed or the reward is not a number: the episode then says nothing
    about the model."""


@dataclass
class EpisodeRunner:
    """Plays tasks for a trainer.

    Longest reply and conversation are counted in tokens. `warn` is called once with each warning.
    """

    config: GymConfig
    scribe: ChatTokens
    connect: Connect
    max_tokens: int
    max_seq_len: int
    max_turns: int | None = None
    timeout: float | None = None
    judges: Judges | None = None
    """Asks the models that judge."""
    warn: Callable[[str], None] = _log.warning
    pauses: Sequence[float] = PAUSES
    """See `steps.play_step`."""
    _said: set[str] = field(default_factory=set)
    _remarks: EpisodeRemarks = field(init=False)
    _measured: bool = False

    def __post_init__(self) -> None:
        self._remarks = EpisodeRemarks(self.config)

    @property
    def most_turns(self) -> int:
        """Most replies of an episode."""
        return self.config.max_turns if self.max_turns is None else self.max_turns

    async def play(
        self,
        tasks: Sequence[Task],
        replies: ReplySource,
        *,
        peers: RankSync | None = None,
        info: dict[str, Any] | None = None,
        compares: bool = True,
    ) -> list[TrainingEpisode]:
        """Play one episode of each task, all at the same time.

        All of them again where every one breaks off. A task may come several times. `peers` are the
        other processes that play episodes of the step, None if there are none. `info` is kept in
        the records of the episodes. Without `compares` nothing is said of rewards that are all
        equal.

        Raises:
            RunError: No episode could be played because of the environment, the model cannot be
                asked, or a prompt is longer than the context.
        """
        played = await play_step(
            lambda: self._play(tasks, replies, info),
            lambda made: [one.episode for one in made],
            self.warn,
            pauses=self.pauses,
            any_of_all=(peers or SingleRank()).any,
        )
        self._complain(played)
        if compares and peers is None:  # of several processes none knows the others' rewards
            self.compare(played)
        return _without_unjudged(tasks, played)

    async def _play(
        self, tasks: Sequence[Task], replies: ReplySource, info: dict[str, Any] | None
    ) -> list[TrainingEpisode]:
        try:
            async with replies.serving(len(tasks)), asyncio.TaskGroup() as group:
                conversations = [
                    group.create_task(
                        self._converse(task, replies, {**(info or {}), "rollout": number})
                    )
                    for task, number in zip(tasks, rollout_numbers(tasks), strict=True)
                ]
        except ExceptionGroup as errors:  # the first is why; the others were broken off by it
            raise _first(errors) from None
        return [conversation.result() for conversation in conversations]

    async def _converse(
        self, task: Task, replies: ReplySource, info: dict[str, Any]
    ) -> TrainingEpisode:
        """Play one episode, from the connection to the evaluation.

        A failure of the environment is not raised.
        """
        player: EpisodePlayer | None = None
        episode: Episode | None = None
        transcript: TokenTranscript | None = None
        try:
            async with AsyncExitStack() as talk:
                await talk.enter_async_context(replies.seat())
                async with self.connect(task.mcp_config) as session:
                    player = self._player(session, task, info)
                    messages = await player.start()
                    self._look_for_images(task, messages)
                    tools = player.functions
                    transcript = self.scribe.open(messages, tools)
                    self._look_at_size(player, messages, len(transcript.ids))
                    if len(transcript.ids) > self.max_seq_len - self.max_tokens:
                        raise RunError(
                            f"the prompt of task {clean_line(task.id, 80)} has "
                            f"{len(transcript.ids)} tokens; with replies of {self.max_tokens} it "
                            f"does not fit into {self.max_seq_len}",
                            fix=(
                                "Raise max_seq_len, lower max_tokens, or shorten the system prompt."
                            ),
                        )
                    await self._talk(player, transcript, replies)
                    await talk.aclose()  # no other conversation waits for the evaluation
                    episode = await player.finish("context")
        except (asyncio.CancelledError, RunError):
            raise
        except Exception as error:
            if episode is None:
                player = player or self._player(NO_SESSION, task, info)
                player.fail(error)
                episode = player.record()
        assert episode is not None
        return self._result(episode, transcript)

    async def _talk(
        self, player: EpisodePlayer, transcript: TokenTranscript, replies: ReplySource
    ) -> None:
        while player.stop is None and len(transcript.ids) <= self.max_seq_len - self.max_tokens:
            prompt, began = transcript.ids, perf_counter()
            reply, logprobs = await replies.reply(prompt)
            transcript.say(reply, logprobs)
            tokens = {"prompt": len(prompt), "completion": len(reply)}
            ended = bool(reply) and reply[-1] == self.scribe.end
            turn = await player.step(
                self.scribe.text(reply),
                seconds=perf_counter() - began,
                tokens=tokens,
                cut=not ended and len(reply) >= self.max_tokens,
            )
            self._look_for_images(player.task, turn.observation)
            if player.stop is None:
                transcript.hear(self.scribe.answers(player.answers_to(()), ended=ended))

    def _player(self, session: Session, task: Task, info: dict[str, Any]) -> EpisodePlayer:
        return EpisodePlayer(
            session,
            self.config,
            task,
            max_turns=self.max_turns,
            info=info,
            keep_images=False,
            timeout=self.timeout,
            judges=self.judges,
        )

    def _result(self, episode: Episode, transcript: TokenTranscript | None) -> TrainingEpisode:
        used = {
            f"{name}_tokens": sum(turn.tokens[name] for turn in episode.turns)
            for name in ("prompt", "completion")
        }
        episode = replace(episode, info={**episode.info, "usage": used})
        transcript = transcript or TokenTranscript([self.scribe.end])
        if (
            not transcript.completion
        ):  # a trainer cannot do without a token; this one is not the model's and teaches nothing
            transcript.hear([self.scribe.end])
        reward: float | None = episode.scores.reward if episode.ok else None
        if reward is not None and not math.isfinite(reward):
            self._say(
                f"the reward of task {clean_line(episode.task_id, 80)} is not a number: its "
                "episodes are left out"
            )
            reward = None
        return TrainingEpisode(
            episode,
            transcript.prompt,
            transcript.completion,
            transcript.mask,
            transcript.logprobs,
            reward,
        )

    def compare(self, played: Sequence[TrainingEpisode]) -> None:
        """Warn if there is nothing to learn from the episodes of a step."""
        if text := _nothing_to_learn(played):
            self.warn(text)

    def _complain(self, played: Sequence[TrainingEpisode]) -> None:
        broken = [one.episode for one in played if not one.episode.ok]
        for episode in broken:
            why = clean_line(episode.error or "", 300)
            self._say(
                f"an episode of {clean_line(episode.task_id, 80)} broke off and is left out: {why}"
            )
        missing = [
            one.episode for one in played if one.episode.ok and not one.episode.scores.reward_found
        ]
        for episode in missing:
            self._say(
                f"the evaluation of {clean_line(episode.task_id, 80)} gave no reward: its own "
                "parts alone count"
            )
        for one in played:
            for text in self._remarks.about(one.episode):
                self.warn(text)

    def _look_at_size(self, player: EpisodePlayer, messages: Sequence[Message], whole: int) -> None:
        """Warn of a prompt of many tokens, once; a `whole` one has the task's text, too."""
        if self._measured or whole < MANY_TOKENS:
            return
        self._measured = True
        bare = len(self.scribe.open(messages).ids) if player.functions else whole
        size = PromptSize(bare, whole - bare, len(player.actions), exact=True)
        if (text := size_warning(size)) is not None:
            self._say(text)

    def _look_for_images(self, task: Task, shown: object) -> None:
        text = (
            shown
            if isinstance(shown, str)
            else "".join(str(message.get("content")) for message in _messages(shown))
        )
        if "[image/" in text and "not shown]" in text:
            self._say(
                f"the environment of {clean_line(task.id, 80)} sends images: the model gets a "
                "description in words instead"
            )

    def _say(self, text: str) -> None:
        if text not in self._said and len(self._said) < 200:
            self._said.add(text)
            self.warn(text)


def rollout_numbers(tasks: Sequence[Task]) -> list[int]:
    """Return which rollout of its task each is, from 0.

    A task may be played several times.
    """
    seen: Counter[str] = Counter()
    numbers = []
    for task in tasks:
        numbers.append(seen[task.id])
        seen[task.id] += 1
    return numbers


def _nothing_to_learn(played: Sequence[TrainingEpisode]) -> str | None:
    """Return a warning if no task has episodes with different rewards.

    None if a task has, or each was played once.
    """
    groups: dict[str, list[float]] = {}
    for one in played:
        if one.reward is not None:
            groups.setdefault(one.episode.task_id, []).append(round(one.reward, 9))
    compared = [rewards for rewards in groups.values() if len(rewards) > 1]
    if not compared or any(map(has_spread, compared)):
        return None
    values = {rewards[0] for rewards in compared}
    if len(values) == 1:
        return (
            f"all {len(played)} episodes of this step have the reward {values.pop():g}: there is "
            "nothing to learn from it"
        )
    return (
        f"each of the {len(compared)} tasks of this step gave all its episodes the same reward: "
        "there is nothing to learn from it"
    )


def _without_unjudged(
    tasks: Sequence[Task], played: list[TrainingEpisode]
) -> list[TrainingEpisode]:
    """Drop the reward of episodes that were not evaluated if others were.

    A reward of 0 would punish the model for it.
    """
    judged = [one.episode.scores.reward_found for one in played]
    if not any(judged):
        return played
    return [
        one if found or not task.judged else replace(one, reward=None)
        for task, one, found in zip(tasks, played, judged, strict=True)
    ]


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


def _messages(shown: object) -> Sequence[Message]:
    return shown if isinstance(shown, Sequence) else ()
