"""Policies by name.

    random                  2048: any direction; elsewhere: any action that needs no argument
    greedy                  2048: the move with the most points at once
    solution                the calls of each task's `solution`
    replay:<trace file>     the replies of recorded episodes, word for word
    openai:<model>          a model behind an OpenAI-compatible endpoint

The scripted players of 2048 find the call for a direction by trying: `left()` serves them as well
as `move("left")`.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hudtui.core.errors import InputError, Location
from hudtui.core.gym.interpreter import Interpreter, reply_in, text_interpreter
from hudtui.core.gym.values import GymConfig
from hudtui.core.paths import typed_path
from hudtui.core.rollouts.chat import ChatEndpoint, ChatOptions, ChatPolicy, PolicyError
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.rollouts.values import Complete, Message
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.tasks.solution import solution_of
from hudtui.core.tasks.task import Task
from hudtui.envs.text_2048.game import Board, possible
from hudtui.envs.text_2048.players import PREFERENCE, greedy_move, read_board

_MOVING = frozenset(("dir", "direction", "move", "slide", "push", "swipe", "shift"))
"""Words in names of actions, tools and parameters that move tiles; a directory is none."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SHOWN = re.compile(r"<tool>([^<>\n]{1,500})</tool>")
"""A call in a system prompt."""

POLICY_NAMES = ("random", "greedy", SOLUTION, "replay:<trace file>", "openai:<model>")


def policy_names(config: GymConfig | None) -> tuple[str, ...]:
    """Return the policies without a file or a model that a configuration can be played with.

    The first is the default: the player of 2048 where the actions are those of 2048. All of them
    where the configuration is None: it is not known.
    """
    if config is None or len(direction_calls(config)) == len(PREFERENCE):
        return ("greedy", "random", SOLUTION)
    return ("random", SOLUTION)


def default_policy(config: GymConfig) -> str:
    """Return the policy that plays a configuration where none is named."""
    return policy_names(config)[0]


async def _nothing_to_close() -> None:
    return None


@dataclass(frozen=True)
class PolicySource:
    """Policies for the episodes of an evaluation.

    One `Complete` each, so that no two share a state.
    """

    name: str
    """As the user wrote it; kept in the traces."""
    for_episode: Callable[[Task, int], Complete]
    """Returns the policy of one episode: of a task, the rollout of that number, from 0."""
    aclose: Callable[[], Awaitable[None]] = _nothing_to_close
    """Closes what the policies share."""
    name_of: Callable[[Task, int], str] | None = None
    """Returns the name of one episode's policy, where they differ."""


def policy_source(
    name: str,
    config: GymConfig,
    *,
    seed: int = 0,
    endpoint: ChatOptions | None = None,
    send_seed: bool = False,
) -> PolicySource:
    """The policies that `name` stands for.

    The scripted policies choose from the actions of `config`. Each episode has a seed of its own,
    drawn from `seed`, the task's id and the rollout's number; with `send_seed` a model is sent it,
    too.

    Raises:
        InputError: There is no such policy, its trace cannot be read, or the configuration has no
            action for it.
    """
    kind, _, rest = name.partition(":")
    if kind == "random" and not rest:
        RandomPolicy(config)  # a wrong configuration fails before the first episode
        return PolicySource(
            name, lambda task, rollout: RandomPolicy(config, seed=_seed(seed, task, rollout))
        )
    if kind == "greedy" and not rest:
        GreedyPolicy(config)
        return PolicySource(name, lambda task, rollout: GreedyPolicy(config))
    if name == SOLUTION:
        return PolicySource(name, lambda task, rollout: SolutionPolicy(task))
    if kind == "replay" and rest:
        return PolicySource(name, _recorded(typed_path(rest)))
    if kind == "openai" and rest:
        chat = ChatEndpoint(rest, endpoint or ChatOptions())

        def model(task: Task, rollout: int) -> Complete:
            return ChatPolicy(
                chat,
                seed=random.Random(_seed(seed, task, rollout)).getrandbits(31)
                if send_seed
                else None,
            )

        return PolicySource(name, model, chat.aclose)
    raise InputError(
        f"there is no policy {name!r}", fix=f"Choose one of: {', '.join(POLICY_NAMES)}."
    )


def _seed(seed: int, task: Task, rollout: int) -> str:
    return f"{seed}/{task.id}/{rollout}"


class RandomPolicy:
    """Any of the calls that a configuration allows, each as likely.

    With a board of 2048 in view it moves, and replies `done` when no move is left; elsewhere it
    takes the calls that the system prompt shows and any action that needs no argument, until the
    limit of turns.

    Raises:
        InputError: No action of the configuration can be called without knowing the environment.
    """

    wants_images = False

    def __init__(self, config: GymConfig, *, seed: int | str = 0) -> None:
        moves = direction_calls(config)
        self._moves = [moves[name] for name in PREFERENCE] if len(moves) == len(PREFERENCE) else []
        self._calls = plain_calls(config) or self._moves
        if not self._calls:
            raise _nothing_to_say(
                "random",
                config,
                "has no action for left, right, up and down, and none without arguments",
            )
        self._say = _speaker(config)
        self._random = random.Random(str(seed))
        self._examples = len(config.rounds)

    async def __call__(self, messages: Sequence[Message]) -> str:
        """The next reply."""
        board = last_board(messages, after=self._examples) if self._moves else None
        if board is not None and not possible(board):
            return self._say("No move is possible any more.", "done()")
        return self._say(
            "Any move will do.", self._random.choice(self._calls if board is None else self._moves)
        )


class GreedyPolicy:
    """2048, one move ahead: most points first, then most room.

    Raises:
        InputError: The configuration has no action for one of the directions.
    """

    wants_images = False

    def __init__(self, config: GymConfig) -> None:
        self._calls = direction_calls(config)
        missing = [name for name in PREFERENCE if name not in self._calls]
        if missing:
            raise _nothing_to_say("greedy", config, f"has no action for {', '.join(missing)}")
        self._say = _speaker(config)
        self._examples = len(config.rounds)

    async def __call__(self, messages: Sequence[Message]) -> str:
        """The next reply.

        Raises:
            PolicyError: No observation holds a board.
        """
        board = last_board(messages, after=self._examples)
        if board is None:
            raise PolicyError(
                "the greedy policy sees no 2048 board",
                fix="Use it with an environment that shows one as text.",
            )
        move = greedy_move(board)
        if move is None:
            return self._say("No move is possible any more.", "done()")
        return self._say(f"{move.capitalize()} gains most now.", self._calls[move])


class SolutionPolicy:
    """The solution that a task has: its calls are played (`EpisodePlayer.follow`), and no reply.

    Attributes:
        solution: The calls.
    """

    wants_images = False

    def __init__(self, task: Task) -> None:
        """Take the solution of a task.

        Raises:
            InputError: The task has none.
        """
        solution = solution_of(task)
        if solution is None:
            raise InputError(
                f"task {task.id} has no solution", fix="Write its calls into the field `solution`."
            )
        self.solution = solution

    async def __call__(self, messages: Sequence[Message]) -> str:
        """Refuse: a solution says nothing by itself.

        Raises:
            PolicyError: Always.
        """
        raise PolicyError("a solution has calls, and no replies")


class ReplayPolicy:
    """The replies of a recorded episode, one after the other.

    `end` says what is wrong where they end.
    """

    wants_images = False

    def __init__(
        self, replies: Sequence[str], *, cut: Sequence[bool] = (), end: str | None = None
    ) -> None:
        self._replies = replies
        self._cut = cut or [False] * len(replies)
        self.cut = False
        """True if the last reply was cut off at its limit of tokens."""
        self._end = end or f"the recorded episode ends after {len(replies)} replies"
        self._next = 0

    def go_to(self, turn: int) -> None:
        """Go on with the reply of a turn, from 0: some turns were played by others."""
        self._next = turn

    async def __call__(self, messages: Sequence[Message]) -> str:
        """The next reply.

        Raises:
            PolicyError: The recording ends here.
        """
        if self._next >= len(self._replies):
            raise PolicyError(self._end)
        self.cut = self._cut[self._next]
        self._next += 1
        return self._replies[self._next - 1]


def _recorded(path: Path) -> Callable[[Task, int], Complete]:
    """Policies that replay the episodes of a trace file."""
    replies: dict[str, dict[int, tuple[tuple[str, ...], tuple[bool, ...]]]] = {}
    for episode in read_trace(path):
        of_task = replies.setdefault(episode.task_id, {})
        rollout = episode.info.get("rollout")
        turns = episode.turns
        of_task[rollout if isinstance(rollout, int) else len(of_task)] = (
            tuple(turn.reply for turn in turns),
            tuple(turn.cut for turn in turns),
        )
    if not replies:
        raise InputError("this trace holds no episode", where=Location(os.fspath(path)))

    def replay(task: Task, rollout: int) -> Complete:
        recorded = replies.get(task.id, {})
        if rollout in recorded:
            said, cut = recorded[rollout]
            return ReplayPolicy(said, cut=cut)
        what = (
            f"no rollout {rollout} of the task {task.id}"
            if recorded
            else f"no episode of the task {task.id}"
        )
        return ReplayPolicy((), end=f"{path} holds {what}")

    return replay


def direction_calls(config: GymConfig) -> dict[str, str]:
    """The call for each direction of 2048.

    Direction -> tool text, without directions that no action leads to. An action stands for a
    direction when its call carries that word, fixed (`l()` with a static value) or as its argument
    (`move("left")`, where the names of action, tool or parameter speak of moving); else when the
    action is called so.
    """
    interpreter = text_interpreter(config)
    fixed: dict[str, str] = {}
    given: dict[str, str] = {}
    named: dict[str, str] = {}
    for name, mapping in config.mappings.items():
        for direction in PREFERENCE:
            bare = _arguments(interpreter, f"{name}()")
            if bare is not None and _carriers(bare, direction):
                fixed.setdefault(direction, f"{name}()")
            elif bare is not None and name.lower() == direction:
                named.setdefault(direction, f"{name}()")
            arguments = _arguments(interpreter, f'{name}("{direction}")') or {}
            if len(arguments) < len(mapping.parameters):
                continue  # it takes more than a direction, as moving a file does
            carriers = _carriers(arguments, direction)
            if carriers and any(map(_speaks_of_moving, (name, mapping.tool, *carriers))):
                given.setdefault(direction, f'{name}("{direction}")')
    calls = {**named, **given, **fixed}
    return {direction: calls[direction] for direction in PREFERENCE if direction in calls}


def _speaks_of_moving(name: str) -> bool:
    words = (word.lower() for word in _WORD.findall(name))
    return any(word.removesuffix("s") in _MOVING for word in words)


def _carriers(arguments: Mapping[str, object], direction: str) -> list[str]:
    """The parameters that carry a direction, where no other one is carried beside it."""
    words = {
        name: value.lower()
        for name, value in arguments.items()
        if isinstance(value, str) and value.lower() in PREFERENCE
    }
    return list(words) if set(words.values()) == {direction} else []


def plain_calls(config: GymConfig) -> list[str]:
    """Calls that need no knowledge of the environment, as tool texts.

    They are the examples of the system prompt; an action that has none there is called without
    arguments, where that is possible.
    """
    interpreter = text_interpreter(config)
    shown: dict[str, list[str]] = {}
    for text in dict.fromkeys(_SHOWN.findall(config.system_prompt)):
        action = interpreter.interpret(f"<tool>{text}</tool>").action
        if action is not None and _arguments(interpreter, text) is not None:
            shown.setdefault(action.name, []).append(text)
    texts = [text for name in config.mappings for text in shown.get(name, [f"{name}()"])]
    return [text for text in texts if _arguments(interpreter, text) is not None]


def _arguments(interpreter: Interpreter, text: str) -> Mapping[str, object] | None:
    meaning = interpreter.interpret(f"<tool>{text}</tool>")
    return (
        None
        if meaning.call is None or meaning.error is not None or meaning.done
        else meaning.call.arguments
    )


def last_board(messages: Sequence[Message], *, after: int = 0) -> Board | None:
    """The board that the agent saw last, or None.

    Answers without a board, such as a refused call, are skipped.

    `after` is the number of messages to the agent at the beginning that are not of the episode: the
    configuration's examples.
    """
    prompts = [message for message in messages if message.get("role") in ("user", "tool")][after:]
    boards = (read_board(message_text(message)) for message in reversed(prompts))
    return next((board for board in boards if board is not None), None)


def message_text(message: Message) -> str:
    """The text of a message, without its images."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(
            str(part.get("text", "")) for part in content if part.get("type") == "text"
        )
    return content if isinstance(content, str) else ""


def _speaker(config: GymConfig) -> Callable[[str, str], str]:
    """Formats a thought and a call as the configuration asks."""
    return lambda thought, call: reply_in(config, call, thought)


def _nothing_to_say(policy: str, config: GymConfig, why: str) -> InputError:
    place = config.path or "the configuration"
    return InputError(
        f"the policy {policy} cannot play with this configuration", why=f"{place} {why}."
    )
