"""Playing one episode.

Setup, then reply and call in turn, then evaluation, whatever happened in between.

`EpisodePlayer` is the episode as an object that is stepped from outside: by `drive` with a policy,
by a person who types the replies, by a trainer that advances many episodes together. None of its
methods raises on account of the environment or of a reply; a failure ends the episode and stands in
`stop` and `error`.

Scores (spec in `hudtui.core.gym.rubric`):

- An *attempt* of tool execution is a reply whose tool text is a call other than `done`; it is a
  *success* when the call reached the environment and was not answered with an error. A reply
  without a readable call costs format compliance alone.
- A task with several evaluate calls makes them all; the first answer that holds a reward counts.
- A task with `evaluate` instead makes the calls of its parts, in order, on the same session; task
  completion is the mean of the parts (`tasks.expectation`). They are the task's own: no turn, and
  not shown to the agent, which may use their tools as any other. Models that judge are asked last.
- A fault of the environment is no score. An evaluation that answers with an error before a reward
  is found, and one without a reward where the configuration has no reward code of its own, end the
  episode with `error`; so does a call that the connection cannot carry out.
  `info["evaluation_error"]` says what is wrong with an evaluation.
- The user's own parts of the reward (`rubric.reward`) are asked once, when all else is known.
- An episode whose setup failed, or whose connection broke, is not evaluated.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from hudtui.core.environment.episode_place import EpisodePlace
from hudtui.core.environment.values import Session, Tool, ToolResult
from hudtui.core.errors import ConnectError, HudtuiError
from hudtui.core.gym import rubric as gym_scores
from hudtui.core.gym.action_tools import action_tools
from hudtui.core.gym.dialects.known import DEFAULT, other_dialect
from hudtui.core.gym.interpreter import DONE, Interpretation, Interpreter
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.judging import JudgeError, Judges, JudgeUsage, shown_messages
from hudtui.core.rollouts.observation import (
    KEPT_IMAGES,
    OBSERVATION_LIMIT,
    Observation,
    evaluation_value,
    images_of,
    join,
    json_size,
    observe,
    recorded,
    shorten,
    unshown,
)
from hudtui.core.rollouts.reward import own_scores
from hudtui.core.rollouts.values import (
    Complete,
    ContextFull,
    Episode,
    KeptImage,
    Message,
    Scores,
    Turn,
    plain_number,
)
from hudtui.core.tasks.agent import agent_settings
from hudtui.core.tasks.expectation import (
    JudgedPart,
    ModelJudge,
    Part,
    Seen,
    judge,
    reward_of,
    seen_answer,
)
from hudtui.core.tasks.expectation_form import parts_of
from hudtui.core.tasks.solution import Solution
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.core.text import clean_line

OnTurn = Callable[["EpisodePlayer", Turn], Awaitable[None] | None]
"""Told of each turn when it is over; `EpisodePlayer.scores` has the running scores."""

_KEPT_FROM_AGENT = ("setup", "evaluate", "hidden")
_ERROR_LIMIT = 2_000
_NOT_PLAYED = "error: this call was not played"
_MOST_NAMED = 10
_NO_LIMIT = 1 << 40
"""For texts that were shortened one by one."""
_log = logging.getLogger(__name__)


class _NoSession:
    """An environment that was not reached."""

    tools: Mapping[str, Tool] = {}

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        raise ConnectError("there is no connection")


@dataclass(frozen=True)
class _Outcome:
    """What came of one call of a reply."""

    call: Mapping[str, Any] | None
    """As sent to the server; None when nothing was sent."""
    result: ToolResult | None
    shown: Observation
    is_error: bool
    seconds: float
    read: bool
    """True if there was a call to be read."""


NO_SESSION: Session = _NoSession()
"""For the record of an episode whose environment was not reached."""


class EpisodePlayer:
    """An episode in the making.

    `start` once, `step` for each reply while `stop` is None, `finish` once.
    Not for concurrent use: each call is awaited before the next.

    Args:
        session: An open connection; the player makes calls on it and leaves it open.
        config: What replies mean.
        task: What is played.
        max_turns: Replies at most; None for the configuration's own limit.
        info: Kept in the episode's record.
        images: Show images to the policy.
        keep_images: Keep the images of answers in the record, for people who read it.
        limit: Characters of one observation.
        timeout: Seconds for one call; None for the session's own limit.
        judged_later: Something else gives the reward afterwards: an evaluation without one is no
            failure.
        judges: Asks the models that judge; without it a task with one cannot be evaluated.
    """

    def __init__(
        self,
        session: Session,
        config: GymConfig,
        task: Task,
        *,
        max_turns: int | None = None,
        info: Mapping[str, Any] | None = None,
        images: bool = False,
        keep_images: bool = True,
        limit: int = OBSERVATION_LIMIT,
        timeout: float | None = None,
        judged_later: bool = False,
        judges: Judges | None = None,
    ) -> None:
        self.session = session
        self.config = config
        self.task = task
        self.max_turns = config.max_turns if max_turns is None else max_turns
        self.info: dict[str, Any] = dict(info or {})
        self._place: EpisodePlace | None = getattr(session, "place", None)
        if self._place is not None:
            self.info["episode"] = self._place.id
        if not task.judged:
            self.info["judged"] = False
        if config.rounds:
            self.info["examples"] = len(config.rounds)
        self.stop: str | None = None
        """Reason for the end, as in `Episode.stop`; None while the episode is being played."""
        self.error: str | None = None
        self.failure: Exception | None = None
        """The exception that `error` describes; None if there was none."""
        self._images = images
        self._image_room = KEPT_IMAGES if keep_images else None
        self._opening_images: list[KeptImage] = []
        self._limit = limit
        self._timeout = timeout
        self._needs_reward = not (judged_later or config.reward)
        self._agent = agent_settings(task)
        self._parts = parts_of(task)
        self._judged: tuple[JudgedPart, ...] = ()
        self._judges = judges
        self._judge_usage = JudgeUsage()
        self._unjudged: JudgeError | None = None
        own = {
            name: "is not allowed in this task"
            for name in session.tools
            if not self._agent.allows(name)
        }
        own |= dict.fromkeys((call.name for call in task.evaluate), "judges this task")
        # Servers for general purposes are set up by the tools that agents use: a mapping says that
        # this is such a tool.
        mapped = {mapping.tool for mapping in config.mappings.values()} - own.keys()
        if not self._agent.shares_setup:
            own = dict.fromkeys((call.name for call in task.setup), "sets this task up") | own
        self._tools = {
            name: tool
            for name, tool in session.tools.items()
            if (name not in own or name in mapped) and tool.kind not in _KEPT_FROM_AGENT
        }
        self._reserved = frozenset(own)
        self._interpreter = Interpreter(config, self._tools, reserved=own)
        self.dialect = self._interpreter.dialect
        """The form in which replies make calls."""
        if config.parser.dialect != DEFAULT:
            self.info["dialect"] = config.parser.dialect
        self._format = gym_scores.FormatCount()
        self._messages: list[Message] = []
        self._opening = 0
        self._turns: list[Turn] = []
        self._last_reply = ""
        self._successes = 0
        self._attempts = 0
        self._completion, self._found = 0.0, False
        self._own: dict[str, float] = {}
        self._evaluation: Any = None
        self._evaluable = False
        self._seconds = {"setup": 0.0, "play": 0.0, "evaluate": 0.0}
        self._began = perf_counter()
        self._started_at: str | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return tuple(self._messages)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns so far."""
        return tuple(self._turns)

    @property
    def actions(self) -> tuple[Tool, ...]:
        """Return the calls that the agent can make in this task, as tools; see `action_tools`."""
        return action_tools(self.config, self._tools, reserved=self._reserved)

    @property
    def functions(self) -> list[dict[str, Any]]:
        """Return `actions` as the model is given them apart from the prompt; see `Dialect`."""
        return self.dialect.functions(self.actions)

    @property
    def scores(self) -> Scores:
        """The scores as they stand; task completion is that of the last evaluation."""
        tool = gym_scores.tool_execution(self._successes, self._attempts)
        form = self._format.score(self.config)
        total = gym_scores.total_reward(self._completion, tool, form, self.config)
        if self.config.own_parts is not None:
            for name, value in self._own.items():
                total += self.config.own_parts.weight(name) * value
        further = {**{part.name: plain_number(part.score) for part in self._judged}, **self._own}
        reward = plain_number(total)
        return Scores(self._completion, tool, form, reward, self._found, further, self._judged)

    @property
    def evaluation(self) -> Any:
        """Last answer of the evaluate tool; None before."""
        return self._evaluation

    async def start(self) -> tuple[Message, ...]:
        """Make the task's setup calls. Returns the conversation that the first reply answers."""
        self._began = perf_counter()
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        taught = self.dialect.teach(self.actions, self.config.parser.use_thinking)
        added = "\n\n".join(text for text in (self._agent.system_prompt, taught) if text)
        self._messages += self.config.opening(added)
        shown: list[Observation] = []
        for call in self.task.setup:
            result = await self._call(call, "setup")
            if result is None:
                break
            shown.append(self._observed(result))
            self._opening_images += self._kept_images(result)
            if result.is_error:
                self._end("error", f"the setup failed: {call.name} answered with {shown[-1].text}")
                break
        opening = join(
            shown if self._agent.shows_setup else (), lead=self.task.prompt, limit=self._limit
        )
        self._messages.append({"role": "user", "content": opening.content()})
        self._opening = len(self._messages)
        self._seconds["setup"] = perf_counter() - self._began
        self._evaluable = self.stop is None
        return self.messages

    async def step(
        self,
        reply: str,
        *,
        seconds: float = 0.0,
        tokens: Mapping[str, int] | None = None,
        cut: bool = False,
    ) -> Turn:
        """Play one reply, which may be `cut` off at its limit of tokens.

        `seconds`, what it took to say it, and `tokens` are for the record.

        Raises:
            RuntimeError: The episode has not begun, or it is over.
            TypeError: The reply is no text.
        """
        self._require_open()
        if not isinstance(reply, str):
            raise TypeError(f"a policy answers with text, not with {type(reply).__name__}")
        began = perf_counter()
        meaning = self._interpreter.interpret(reply, cut=cut)
        return await self._play(reply, meaning, seconds, began, tokens, cut=cut)

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, said: str = "", seconds: float = 0.0
    ) -> Turn:
        """Play one call that a model made by its own tool calling.

        It counts as the reply that says it in the configuration's form.

        The arguments are JSON values by name. What the model `said` beside the call, and how many
        `seconds` it took, are for the record.

        Raises:
            RuntimeError: The episode has not begun, or it is over.
        """
        self._require_open()
        began = perf_counter()
        meaning = self._interpreter.interpret_call(name, arguments)
        return await self._play(self._written(name, arguments, said), meaning, seconds, began)

    def _written(self, name: str, arguments: Mapping[str, Any], thought: str) -> str:
        """A call as a reply in the configuration's dialect."""
        dialect, call = self.dialect, self.dialect.write(name, arguments)
        if not thought and (not self.config.parser.use_thinking or dialect.schemas == "apart"):
            return call
        return f"{dialect.think(thought)}\n{call}"

    async def follow(self, solution: Solution) -> Turn:
        """Play the next step of the task's solution: a call, or the reply that ends it.

        Its calls may be of any tool, and no limit of turns ends them. A call that is answered with
        an error does not end them either: the task's judgement says what they reach.

        Raises:
            RuntimeError: The episode has not begun, or it is over.
        """
        self._require_open()
        began, number = perf_counter(), len(self._turns)
        said = ""
        if number < len(solution.calls):
            call = solution.calls[number]
            meaning = self._interpreter.direct_call(call.name, call.arguments)
            written = self.dialect.write(call.name, call.arguments)
        else:
            said = f"{solution.reply} " if solution.reply else ""
            meaning = self._interpreter.interpret_call(DONE, {})
            written = self.dialect.write(DONE, {})
        thought = f"{self.dialect.think('')}\n" if self.config.parser.use_thinking else ""
        return await self._play(f"{thought}{said}{written}", meaning, 0.0, began, own=True)

    def answers_to(self, calls: Sequence[str]) -> list[dict[str, Any]]:
        """Return the messages that answer the last reply, for the calls of a model by their ids.

        An endpoint wants an answer for each call that it has made, also for one that was not
        played.
        """
        last = max(n for n, one in enumerate(self._messages) if one["role"] == "assistant")
        shown = [dict(message) for message in self._messages[last + 1 :]]
        if not calls:
            return shown
        texts = [message["content"] for message in shown if message["role"] == "tool"]
        if not texts:
            texts = [self._turns[-1].observation or _NOT_PLAYED]
        texts += [_NOT_PLAYED] * (len(calls) - len(texts))
        answers: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": name, "content": text}
            for name, text in zip(calls, texts, strict=False)
        ]
        images = [message for message in shown if isinstance(message["content"], list)]
        return [*answers, *images]

    def say(self, reply: str) -> None:
        """Record a reply without a call, of a model that calls tools by itself.

        Nothing is played. Such a model ends an episode so: it counts as the reply that says it and
        calls `done` in the configuration's form.
        """
        self._require_open()
        self._last_reply = reply
        self._format.add(self._interpreter.interpret_call(DONE, {}))
        self._messages.append({"role": "assistant", "content": reply})

    def interpret(self, reply: str, *, cut: bool = False) -> Interpretation:
        """Interpret a reply without playing it."""
        return self._interpreter.interpret(reply, cut=cut)

    def _require_open(self) -> None:
        if self.stop is not None or not self._messages:
            raise RuntimeError(
                "this episode is over" if self.stop else "this episode has not begun"
            )

    async def _play(
        self,
        reply: str,
        meaning: Interpretation,
        seconds: float,
        began: float,
        tokens: Mapping[str, int] | None = None,
        *,
        own: bool = False,
        cut: bool = False,
    ) -> Turn:
        """Play a reply; with `own`, of the task's solution."""
        self._format.add(meaning)
        self._last_reply = reply
        if meaning.action is None:
            self._count_other(reply)
        calls = self._tool_calls(meaning)
        self._messages.append(self._assistant(reply, meaning, calls))
        turn = await self._act(reply, meaning, calls, seconds, tokens or {}, own=own)
        turn = replace(turn, cut=True) if cut else turn
        self._turns.append(turn)
        self._seconds["play"] += seconds + perf_counter() - began
        if self.stop is None and not own and len(self._turns) >= self.max_turns:
            self._end("max_turns")
        return turn

    async def judge(self) -> Scores:
        """Call what judges the task now, and take the reward of it as task completion.

        `info["evaluation_error"]` says afterwards what is wrong with their answers, if something
        is.

        `finish` does this by itself. A person who plays may look earlier; what an early look does
        to the environment is the environment's affair.
        """
        began = perf_counter()
        self.info.pop("evaluation_error", None)
        wrong = await (self._judge_parts() if self._parts else self._judge_by_tools())
        if wrong is not None:
            self.info["evaluation_error"] = shorten(self._placeless(wrong), _ERROR_LIMIT)
        self._seconds["evaluate"] += perf_counter() - began
        return self.scores

    def _placeless(self, text: str) -> str:
        """Return a text in which the episode's folder has its variable's name.

        So the same fault of several episodes is one fault.
        """
        folder = self._place.folder if self._place is not None else None
        return text if folder is None else text.replace(str(folder), "${EPISODE_DIR}")

    async def _judge_parts(self) -> str | None:
        """Make the calls of the parts, and judge the answers. Returns why there is no score."""
        self._completion, self._found, self._judged = 0.0, False, ()
        self._unjudged = None
        seen: list[Seen] = []
        for part in self._parts:
            if part.call is None:
                seen.append(self._seen(part))
                continue
            result = await self._call(part.call, "evaluation")
            if result is None:
                return None
            seen.append(seen_answer(result))
            if result.malformed:
                return f"{part.call.name} gave an answer without content, which every answer has"
            said = result.text or "no reason given"
            if result.is_error and not self._has(part.call.name):
                return f"the environment has no tool {part.call.name}; it answered: {said}"
            if result.internal:
                return f"the server failed at {part.call.name}; it answered: {said}"
            if result.is_error and not part.condition.judges_errors:
                return (
                    f"{part.call.name} answered with an error: {said}; where an error says that "
                    "the agent failed, expect `error: false` as well"
                )
        for number, part in enumerate(self._parts):
            if part.judge is None:
                continue
            try:
                seen[number] = await self._verdict(part.judge, seen[number])
            except JudgeError as error:
                self._unjudged = error
                return "; ".join(error.lines())
            finally:
                self.info["judge"] = self._judge_usage.to_json()
        self._judged = judge(self._parts, seen)
        self._completion, self._found = plain_number(reward_of(self._judged)), True
        return None

    def _has(self, name: str) -> bool:
        """True for a listed tool, also where its server's name stands before its own."""
        return any(name == tool or name.endswith(f"_{tool}") for tool in self.session.tools)

    def _seen(self, part: Part) -> Seen:
        """Return the last reply, or the number of turns: of all replies, also without a call."""
        if part.subject == "turns":
            played = self._messages[self._opening :]
            return Seen(str(sum(message["role"] == "assistant" for message in played)))
        if part.judge is not None and part.judge.of == "transcript":
            return Seen(shown_messages(self._messages[max(self._opening - 1, 0) :]))
        return Seen(self.dialect.spoken(self._last_reply))

    async def _verdict(self, asked: ModelJudge, seen: Seen) -> Seen:
        """Ask a model that judges."""
        if self._judges is None:
            raise JudgeError("no model that judges can be asked here", fatal=True)
        text = f"The tool answered with an error: {seen.text}" if seen.is_error else seen.text
        prompt, usage = self.task.prompt, self._judge_usage
        verdict = await self._judges.verdict(asked, prompt, text, usage)
        return Seen(verdict.reason, value=verdict.score, chosen=True)

    async def _judge_by_tools(self) -> str | None:
        """Call the task's evaluate tools. Returns what is wrong with their answers, if anything."""
        completion, found, evaluation = 0.0, False, None
        wrong: str | None = None
        no_reward = ""
        for call in self.task.evaluate:
            result = await self._call(call, "evaluation")
            if result is None:
                break
            if found:
                continue
            if result.is_error:
                wrong = (
                    wrong
                    or f"{call.name} answered with an error: {result.text or 'no reason given'}"
                )
            elif wrong is None:
                completion, found = gym_scores.find_reward(result)
                if not found:
                    no_reward = gym_scores.why_no_reward(result)
            evaluation = evaluation_value(result)
        if no_reward and not found and wrong is None and self._needs_reward:
            wrong = (
                f"{no_reward}; it answered "
                f"{json.dumps(evaluation, ensure_ascii=False, default=str)}"
            )
        self._completion, self._found, self._evaluation = (
            plain_number(completion),
            found,
            evaluation,
        )
        return wrong

    def fail(self, error: Exception) -> None:
        """End the episode on account of `error`: of the policy, or of the connection around it."""
        self.failure = error
        if isinstance(error, HudtuiError):
            self._end("error", "; ".join(error.lines()))
        else:
            _log.debug("an episode of %s broke off", self.task.id, exc_info=error)
            self._end(
                "error", f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            )
        if isinstance(error, ConnectError):
            self._evaluable = False

    async def finish(self, stop: str = "cancelled") -> Episode:
        """Evaluate, unless there is nothing to evaluate, and give the finished episode.

        `stop` is why it ends, where it has not ended by itself.
        """
        if self.stop is None:
            self._end(stop)
        if self._evaluable:
            await self.judge()
        if self._evaluable and (wrong := self.info.get("evaluation_error")) is not None:
            self._evaluable = False
            self.failure = self.failure or self._unjudged
            self._end("error", f"the evaluation failed: {wrong}")
        if self._evaluable and self.config.reward:
            try:
                own = await own_scores(self.config, self.record(), self.task, self.session)
                self._own = {name: plain_number(value) for name, value in own.items()}
                self._found = self._found or not self.task.judged
            except HudtuiError as error:
                self.fail(error)
        episode = self.record()
        if self._place is not None:
            self._place.keep = not episode.solved
        return episode

    def record(self) -> Episode:
        """The episode as it stands, without a call to the environment."""
        seconds = {**self._seconds, "total": perf_counter() - self._began}
        return Episode(
            task_id=self.task.id,
            messages=self.messages,
            turns=self.turns,
            scores=self.scores,
            stop=self.stop or "cancelled",
            error=self.error,
            evaluation=self._evaluation,
            seconds={name: round(value, 6) for name, value in seconds.items()},
            info=self.info,
            started_at=self._started_at,
            images=tuple(self._opening_images),
        )

    def _end(self, stop: str, error: str | None = None) -> None:
        # The first reason is the true one, but an error at the end makes what was played before it
        # unscored.
        if self.stop is None or (stop == "error" and self.stop != "error"):
            self.stop, self.error = stop, None if error is None else shorten(error, _ERROR_LIMIT)

    async def _call(self, call: ToolCall, stage: str) -> ToolResult | None:
        """A call of the task's own. None when the environment is lost; the episode is over then."""
        try:
            return await self.session.call_tool(call.name, call.arguments, timeout=self._timeout)
        except HudtuiError as error:
            self.failure = error
            self._evaluable = False
            self._end("error", f"{stage}, {call.name}: " + "; ".join(error.lines()))
        except Exception as error:
            self.fail(error)
        return None

    def _count_other(self, reply: str) -> None:
        """Count a reply without a call in its own dialect that makes one in another."""
        other = other_dialect(reply, self.dialect.name)
        if other is not None:
            counts = self.info.setdefault("other_dialects", {})
            counts[other] = counts.get(other, 0) + 1

    def _tool_calls(self, meaning: Interpretation) -> list[dict[str, Any]]:
        """The calls of a reply in the form of an OpenAI message, where calls stand apart."""
        if self.dialect.schemas != "apart":
            return []
        calls = []
        for number, one in enumerate((meaning, *meaning.more)):
            if one.action is None or (one.done and one.reply is not None and not one.reply.tool):
                return []  # a reply without a call stays what it is: a text
            spelled = json.dumps(one.action.arguments, ensure_ascii=False, default=str)
            function = {"name": one.action.name, "arguments": spelled}
            # Mistral's templates want nine letters or digits.
            name = f"call{len(self._turns) % 1000:03}{number:02}"
            calls.append({"id": name, "type": "function", "function": function})
        return calls

    def _assistant(
        self, reply: str, meaning: Interpretation, calls: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """The message that keeps a reply in the conversation."""
        if not calls:
            return {"role": "assistant", "content": reply}
        said = self.dialect.spoken(reply)
        content = "" if said == meaning.tool else said
        thought = {"reasoning_content": meaning.think} if meaning.think else {}
        return {"role": "assistant", "content": content, **thought, "tool_calls": calls}

    async def _act(
        self,
        reply: str,
        meaning: Interpretation,
        calls: list[dict[str, Any]],
        seconds: float,
        tokens: Mapping[str, int],
        *,
        own: bool,
    ) -> Turn:
        """Carry out what a reply means, and show the agent what came of it."""
        outcomes: list[_Outcome] = []
        for one in (meaning, *meaning.more):
            outcomes.append(await self._carry_out(one, own=own))
            if self.stop is not None:
                break
        if meaning.note is not None:
            first = outcomes[0]
            noted = "\n\n".join(filter(None, (first.shown.text, meaning.note)))
            outcomes[0] = replace(first, shown=replace(first.shown, text=noted))
        if self.stop is None:
            self._messages += self._answers(calls, outcomes)
        first, *rest = outcomes
        shown = first.shown if not rest else join((one.shown for one in outcomes), limit=_NO_LIMIT)
        return Turn(
            reply=reply,
            interpretation=meaning.to_json(),
            call=first.call,
            observation=shown.text,
            is_error=any(one.is_error for one in outcomes),
            seconds={
                "complete": round(seconds, 6),
                "call": round(sum(one.seconds for one in outcomes), 6),
            },
            result=None if first.result is None else recorded(first.result.structured),
            tokens=tokens,
            images=tuple(image for one in outcomes for image in self._images_in(one.result)),
            more=tuple(
                {"call": one.call, "observation": one.shown.text, "is_error": one.is_error}
                for one in rest
            ),
        )

    def _answers(
        self, calls: list[dict[str, Any]], outcomes: Sequence[_Outcome]
    ) -> list[dict[str, Any]]:
        """The messages that show the agent what came of its calls."""
        if calls:
            named = zip(calls, outcomes, strict=True)
            messages: list[dict[str, Any]] = [
                {"role": "tool", "tool_call_id": call["id"], "content": one.shown.text}
                for call, one in named
            ]
            images = tuple(url for one in outcomes for url in one.shown.images)
            if images:  # a tool's message holds text alone
                messages.append({"role": "user", "content": Observation("", images).content()})
            return messages
        answered = [
            replace(one.shown, text=self.dialect.answer(one.shown.text)) if one.read else one.shown
            for one in outcomes
        ]
        shown = answered[0] if len(answered) == 1 else join(answered, limit=_NO_LIMIT)
        return [{"role": "user", "content": shown.content()}]

    async def _carry_out(self, meaning: Interpretation, *, own: bool) -> _Outcome:
        """Make one call of a reply, or say why it is not made."""
        call = meaning.call
        refusal = meaning.error.message if meaning.error is not None else None
        result: ToolResult | None = None
        took = 0.0
        if call is not None and refusal is None and not meaning.done and not own:
            refusal = self._forbidden(call.tool, call.arguments)
        if meaning.action is not None and not meaning.done:
            self._attempts += 1
        sent = call is not None and refusal is None and not meaning.done
        if sent:
            assert call is not None
            began = perf_counter()
            try:
                result = await self.session.call_tool(
                    call.tool, call.arguments, timeout=self._timeout
                )
            except ConnectError as error:
                self.fail(error)
            except (
                HudtuiError
            ) as error:  # refused by the protocol rather than by the tool: the agent may do better
                refusal = "; ".join(error.lines())
            took = perf_counter() - began
        if result is not None:
            assert call is not None
            self._look_for_unshown(call.tool, result)
            shown = self._observed(result)
            self._successes += not result.is_error
        else:
            shown = Observation(
                "" if refusal is None else shorten(f"error: {refusal}", self._limit)
            )
        if meaning.done or (result is not None and result.over):
            self._end("done")
        return _Outcome(
            {"tool": call.tool, "arguments": dict(call.arguments)}
            if sent and call is not None
            else None,
            result,
            shown,
            not meaning.done and (result is None or result.is_error),
            took,
            meaning.action is not None,
        )

    def _observed(self, result: ToolResult) -> Observation:
        """What the agent is shown of a tool's answer."""
        shows = self.config.observations
        return observe(result, images=self._images, limit=self._limit, shows=shows)

    def _look_for_unshown(self, tool: str, result: ToolResult) -> None:
        """Name a tool in `info` whose answer holds more than the agent is shown."""
        named: list[str] = self.info.get("unshown", [])
        if tool in named or len(named) == _MOST_NAMED:
            return
        if unshown(result, self.config.observations):
            self.info["unshown"] = [*named, tool]

    def _images_in(self, result: ToolResult | None) -> tuple[KeptImage, ...]:
        return () if result is None else self._kept_images(result)

    def _kept_images(self, result: ToolResult) -> tuple[KeptImage, ...]:
        if self._image_room is None:
            return ()
        images = images_of(result, self._image_room)
        self._image_room -= sum(len(image.data or "") for image in images)
        return images

    def _forbidden(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        if json_size(arguments) is None:
            return f"the arguments of {tool} are nested too deeply"
        if tool in self._tools:
            return None
        if not self._agent.allows(tool):
            return f"{tool} is not allowed in this task"
        if tool in self.session.tools:
            return f"{tool} belongs to the task and cannot be called"
        return f"the environment has no tool {tool}"


def judging_actions(config: GymConfig, tasks: Iterable[Task]) -> str | None:
    """Return a warning where a configuration offers actions that no episode of some task can play.

    Their tool judges it.
    """
    for task in tasks:
        judges = {call.name for call in task.evaluate}
        if names := [
            mapping.name for mapping in config.mappings.values() if mapping.tool in judges
        ]:
            return (
                f"{', '.join(clean_line(name, 60) for name in names[:5])} cannot be called: the "
                f"tool judges task {clean_line(task.id, 80)}, and the prompt may offer it"
            )
    return None


async def drive(
    player: EpisodePlayer, complete: Complete, *, on_turn: OnTurn | None = None
) -> Episode:
    """Play an episode to its end.

    A policy with a `solution` is not asked: that is played instead (`SolutionPolicy`). The player
    can still be used after a cancellation. `on_turn` is called with each turn; it may be
    async.

    Returns:
        The episode, also when the environment died or the policy failed: `stop` is `error` then.

    Raises:
        asyncio.CancelledError: The caller was cancelled. Nothing is evaluated then; the session can
            be used further.
    """
    solution: Solution | None = getattr(complete, "solution", None)
    try:
        await player.start()
        give_tools(complete, player)
        while player.stop is None:
            began, before = perf_counter(), _usage(complete)
            if solution is not None:
                turn = await player.follow(solution)
            else:
                reply = await complete(player.messages)
                now = _usage(complete).items()
                spent = {name: count - before.get(name, 0) for name, count in now}
                turn = await player.step(
                    reply,
                    seconds=perf_counter() - began,
                    tokens=spent if any(spent.values()) else None,
                    cut=was_cut(complete),
                )
            if on_turn is not None:
                answer = on_turn(player, turn)
                if inspect.isawaitable(answer):
                    await answer
    except ContextFull as error:
        if player.turns:
            return await player.finish("context")
        player.fail(error)  # the prompt alone is too long: nothing was played
    except Exception as error:
        player.fail(error)
    return await player.finish()


def give_tools(complete: Complete, player: EpisodePlayer) -> None:
    """Give a policy the tools of an episode, where it has to call them by itself."""
    take_tools = getattr(complete, "take_tools", None)
    if take_tools is not None:
        take_tools(player.functions)


def was_cut(complete: Complete | None) -> bool:
    """Return whether a policy's last reply was cut off, where the policy knows."""
    return bool(getattr(complete, "cut", False))


def _usage(complete: Complete) -> dict[str, int]:
    """Return the tokens that a policy has used so far, where it counts them."""
    usage = getattr(complete, "usage", None)
    return (
        {}
        if usage is None
        else {name: int(getattr(usage, f"{name}_tokens", 0)) for name in ("prompt", "completion")}
    )
