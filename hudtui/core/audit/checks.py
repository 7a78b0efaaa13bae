"""Checks of an environment: what each needs, its test, and what to do.

A new check is a function of `Facts` here. It says nothing where it cannot know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import Any, NamedTuple

from hudtui.core.audit.facts import SAME, SOLVES, Facts, conversation, is_one
from hudtui.core.audit.play import Played
from hudtui.core.audit.players import BLIND, WEAK
from hudtui.core.diagnosis.values import Severity
from hudtui.core.environment.values import EVALUATE_TOOLS
from hudtui.core.gym.rubric import REWARD_KEYS, reward_warning
from hudtui.core.rollouts.trace import opening_of
from hudtui.core.rollouts.values import Turn
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.text import plural

_SLOW = 1.0
"""Seconds of an ordinary call from which a training waits for its tools."""
_LETTERS = 4
"""Characters of a token, about."""
_FEWEST = 6
"""Episodes of a task from which the rewards of weak players say something."""


class Sign(NamedTuple):
    """The outcome of a check."""

    title: str
    proofs: Sequence[tuple[Played, str]] = ()
    """Episodes, and what is to be seen in each."""
    severity: Severity | None = None
    """None: the severity of the check."""


Test = Callable[[Facts], Sign | None]


@dataclass(frozen=True)
class Check:
    """A known defect of environments."""

    name: str
    meaning: str
    """Why it matters, in one or two sentences."""
    severity: Severity
    needs: str
    """What must have been played: `weak`, `good`, `alone`, `crowd`, `others` or `leftovers`."""
    test: Test
    remedies: tuple[str, ...]
    explains: tuple[str, ...] = ()
    """Checks whose findings follow from it, and are left out beside it."""


CHECKS: dict[str, Check] = {}
"""All checks by name. Commands, screens and documents follow from this table."""
_COMPARISONS = ("blind-wins", "errors-pay", "injection", "no-spread", "same-answer", "too-easy")


def check(
    name: str,
    meaning: str,
    *remedies: str,
    severity: Severity,
    needs: str = "weak",
    explains: tuple[str, ...] = (),
) -> Callable[[Test], Test]:
    """Return a decorator that declares a test as a check."""

    def declare(test: Test) -> Test:
        CHECKS[name] = Check(name, meaning, severity, needs, test, remedies, explains)
        return test

    return declare


Proofs = list[tuple[Played, str]]


def _sign(title: str, proofs: Proofs, severity: Severity | None = None) -> Sign | None:
    """Return a sign that episodes prove; None without one."""
    return Sign(title, proofs, severity) if proofs else None


def _earned(facts: Facts, episodes: Iterable[Played]) -> Proofs:
    """Return episodes with what each earned."""
    return [(one, f"earns {facts.grade(one):.3g}") for one in episodes]


def _players(episodes: Iterable[Played]) -> str:
    """Return the names of those who played, each once."""
    return ", ".join(dict.fromkeys(one.player for one in episodes))


def _calls(episodes: Iterable[Played]) -> Iterator[tuple[Played, Turn, str]]:
    """Yield the calls of episodes, each with the name of its tool."""
    for one in episodes:
        for turn in one.episode.turns:
            if turn.call is not None:
                yield one, turn, turn.call["tool"]


def _per_task(episodes: Iterable[Played]) -> dict[str, list[Played]]:
    tasks: dict[str, list[Played]] = {}
    for one in episodes:
        tasks.setdefault(one.task, []).append(one)
    return tasks


def _of(count: int, total: int) -> str:
    return f"{count} of {plural(total, 'task')}"


# -- what breaks
# --------------------------------------------------------------------------------------------------


def _broken(facts: Facts, why: Callable[[Played], str]) -> tuple[Proofs, Proofs]:
    """Return a proof of each task that breaks at times, and of each that does mostly."""
    at_times, mostly = [], []
    for episodes in _per_task(facts.open).values():
        broken = [(one, reason) for one in episodes if (reason := why(one))]
        at_times += broken[:1]
        mostly += broken[:1] if len(broken) * 2 > len(episodes) else []
    return at_times, mostly


def _not_set_up(one: Played) -> str:
    """Return why an episode has no beginning; empty where it has one."""
    error = one.episode.error or ""
    failed = error.startswith(("the setup failed", "setup,"))
    return error if one.episode.stop == "error" and failed else ""


@check(
    "setup-fails",
    "A task that cannot be set up costs time in each step and teaches nothing.",
    "Try the task with `hudtui tasks test`, and mend its setup call or leave the task out.",
    severity="high",
    needs="any",
)
def _setup_fails(facts: Facts) -> Sign | None:
    at_times, mostly = _broken(facts, _not_set_up)
    title = f"The setup of {_of(len(mostly or at_times), len(facts.tasks))} fails"
    if mostly:
        return Sign(title, mostly)
    return _sign(f"{title} at times", at_times, "medium")


@check(
    "evaluation-fails",
    "Episodes without a judgement are no episodes: a training drops them.",
    "Try the task with `hudtui tasks test`, and mend its evaluation.",
    severity="high",
    needs="any",
    explains=("evaluation-breaks",),
)
def _evaluation_fails(facts: Facts) -> Sign | None:
    _, mostly = _broken(facts, lambda one: one.unjudged)
    return _sign(f"The evaluation of {_of(len(mostly), len(facts.tasks))} fails", mostly)


@check(
    "evaluation-breaks",
    "An agent can make its evaluation fail, and an episode that is not judged is dropped: the "
    "worst behaviour is never punished.",
    "Let the evaluation answer with the reward 0 where it cannot read what the agent left.",
    severity="high",
    needs="any",
)
def _evaluation_breaks(facts: Facts) -> Sign | None:
    first = [one for one in facts.open if not one.again]
    broken = [one for one in facts.open if one.unjudged]
    failed = [one for one in broken if not one.again]
    proofs = [(one, one.unjudged) for one in broken]
    rare = len(failed) == 1 or len(failed) <= _RARELY * len(first)
    if failed and rare and failed == broken and len(first) < len(facts.open):
        count = f"{len(failed)} of {plural(len(first), 'evaluation')}"
        title = f"{count} failed, and none when the same was played again"
        return Sign(title, proofs, "medium")
    return _sign(f"What an agent does can break the evaluation: {_players(broken)}", proofs)


_RARELY = 0.01
"""Share of evaluations that may fail by chance before a training loses too many episodes."""


@check(
    "calls-break",
    "A call of the agent ends the server or the connection: the episode is lost, and others with "
    "it where they share the server.",
    "Let the tool answer with an error instead.",
    severity="medium",
    needs="any",
)
def _calls_break(facts: Facts) -> Sign | None:
    lost = [
        one
        for one in facts.played
        if one.episode.stop == "error"
        and one.episode.turns
        and not one.unjudged
        and one.player not in facts.strong
    ]
    proofs = [(one, one.episode.error or "") for one in lost]
    usual = sum(one.player not in _ODD for one in lost)
    severity: Severity = "high" if usual > 1 else "medium"
    return _sign(f"Calls of the agent break the environment: {_players(lost)}", proofs, severity)


_ODD = ("oversized", "injected", "malformed")
"""Players whose calls no model makes by itself."""


# -- what the grader pays for
# --------------------------------------------------------------------------------------------------


@check(
    "constant",
    "A reward that is always the same holds no lesson: every group of episodes is equal.",
    "Let the evaluation look at what the agent did, or at the state that it left.",
    severity="high",
    explains=(*_COMPARISONS, "unreachable", "form-pays"),
)
def _constant(facts: Facts) -> Sign | None:
    graded = [one for one in facts.open if facts.grade(one) is not None]
    grades = [facts.points(one) for one in graded]
    full = bool(grades) and grades[0] >= 1 - SAME
    if len(grades) < _FEWEST or not is_one(grades) or not (facts.has_good or full):
        return None
    different = list({one.player: one for one in graded}.values())
    title = f"Every episode of every task earns {grades[0]:.3g}, whatever is done"
    return Sign(title, _earned(facts, different))


@check(
    "actions-ignored",
    "The reward follows from the task alone: nothing that an agent does changes it.",
    "Let the evaluation look at what the agent did, or at the state that it left.",
    severity="high",
    needs="good",
    explains=(*_COMPARISONS, "unreachable"),
)
def _actions_ignored(facts: Facts) -> Sign | None:
    tasks = _per_task(facts.of((*WEAK, *facts.good)))
    levels = []
    for episodes in tasks.values():
        grades = [facts.points(one) for one in episodes]
        has_good = any(one.player in facts.good for one in episodes)
        if not is_one(grades) or not has_good:
            return None
        levels.append(grades[0])
    if is_one(levels):
        return None
    proofs = [episode for episodes in tasks.values() for episode in episodes[:1]]
    title = "All players earn the same on each task: the reward does not depend on the actions"
    return Sign(title, _earned(facts, proofs))


@check(
    "blind-wins",
    "A player that never looks at the task earns what a good one earns. A model finds this "
    "shortcut within a few steps, and then learns nothing else.",
    "Open the episode, see what was paid for, and let the evaluation ask for the task's own goal.",
    severity="high",
)
def _blind_wins(facts: Facts) -> Sign | None:
    wins = {name: _wins(facts, name) for name in BLIND}
    name, best = max(wins.items(), key=lambda item: len(item[1]))
    if not best:
        return None
    total = len(facts.graded)
    also = [other for other, won in wins.items() if won and other != name]
    beside = f"; so does {', '.join(also)} on some" if also else ""
    title = f"`{name}` earns as much as a good player on {_of(len(best), total)}{beside}"
    return Sign(title, _earned(facts, best), "high" if len(best) * 2 >= total else "medium")


def _wins(facts: Facts, name: str) -> list[Played]:
    """Return one episode of each task on which a blind player always earns all."""
    tasks = _per_task(facts.blind[name])
    return [ones[0] for ones in tasks.values() if all(map(facts.earns_all, ones))]


@check(
    "errors-pay",
    "An episode in which nothing but errors happens earns more than doing nothing: a model learns "
    "to fail.",
    "Let the evaluation start from the state of the environment, not from the number of calls.",
    severity="high",
)
def _errors_pay(facts: Facts) -> Sign | None:
    paid = []
    for one in facts.of(WEAK):
        idle, turns = facts.idle(one.task), one.episode.turns
        failed = [turn.is_error for turn in turns if not turn.interpretation.get("done")]
        if idle is not None and failed and all(failed) and facts.points(one) > idle + SAME:
            paid.append(one)
    return _sign("Episodes of errors alone earn more than doing nothing", _earned(facts, paid))


@check(
    "reward-of-failure",
    "The evaluation says that it failed, and gives a reward all the same.",
    "Let a failed evaluation answer with an error: its episode is dropped then.",
    severity="high",
)
def _reward_of_failure(facts: Facts) -> Sign | None:
    paid = [
        one
        for one in facts.open
        if facts.points(one) > SAME and _says_failed(one.episode.evaluation)
    ]
    return _sign("Evaluations that failed give a reward", _earned(facts, paid))


_FAILED = re.compile(r"(?i)traceback \(most recent|^\s*(?:error|exception)\b|\bexception:")


def _says_failed(answer: Any) -> bool:
    if isinstance(answer, Mapping):
        marks = [answer.get(name) for name in ("error", "exception", "traceback", "is_error")]
        words = [text for text in answer.values() if isinstance(text, str)]
        return any(map(bool, marks)) or any(map(_FAILED.search, words))
    return isinstance(answer, str) and _FAILED.search(answer) is not None


@check(
    "reward-range",
    "A reward outside 0 to 1 outweighs the other parts of the reward, and tasks with another "
    "scale outweigh the others.",
    "Scale the reward of the evaluation to 0 to 1.",
    severity="high",
)
def _reward_range(facts: Facts) -> Sign | None:
    outside = [one for one in facts.open if reward_warning(facts.points(one)) is not None]
    outside.sort(key=lambda one: -abs(facts.points(one)))
    return _sign("Rewards lie outside 0 to 1", _earned(facts, outside))


@check(
    "injection",
    "Text that looks like a reward, or like the end of a call, is paid for.",
    "Never search the agent's own text for a reward; compare values, not patterns in a log.",
    severity="high",
)
def _injection(facts: Facts) -> Sign | None:
    paid = []
    for one in facts.blind["injected"]:
        idle, plain = facts.idle(one.task), facts.grades(("plain",), one.task)
        if idle is not None and plain and facts.points(one) > max(*plain, idle) + SAME:
            paid.append(one)
    title = "Injected text earns more than a plain word in its place"
    return _sign(title, _earned(facts, paid))


@check(
    "form-pays",
    "The form of a reply alone earns half of what the best episode earns: a model polishes its "
    "form and leaves the task.",
    "Lower `rubric.weights.format_compliance`.",
    severity="medium",
    needs="good",
)
def _form_pays(facts: Facts) -> Sign | None:
    best = max((one.reward or 0.0 for one in facts.open), default=0.0)
    paid = []
    for one in facts.blind["done"]:
        form = one.episode.scores.format_compliance
        part = facts.config.weights["format_compliance"] * form
        if best > SAME and part >= best / 2:
            paid.append(one)
    proofs = [(one, f"reward {one.reward:.3g}") for one in paid]
    return _sign(f"The form alone earns half of the best reward ({best:.3g})", proofs)


@check(
    "unreachable",
    "The most that a task promises cannot be had: its own solution earns less.",
    "Play the solution with `hudtui tasks test`, and mend the solution or the evaluation.",
    severity="high",
    needs="solution",
)
def _unreachable(facts: Facts) -> Sign | None:
    solutions = facts.of((SOLUTION,))
    short = [one for one in solutions if facts.points(one) < 1 - SAME]
    tasks, total = _per_task(short), len(_per_task(solutions))
    proofs = _earned(facts, [episodes[0] for episodes in tasks.values()])
    return _sign(f"The solution of {_of(len(tasks), total)} earns less than 1", proofs)


@check(
    "same-answer",
    "What solves one task solves the others: a model learns one answer by heart.",
    "Let tasks differ in what solves them.",
    severity="medium",
    needs="others",
)
def _same_answer(facts: Facts) -> Sign | None:
    repeated = _per_task(facts.of(("other-task",)))
    won = [
        episodes[0]
        for task, episodes in repeated.items()
        if all(facts.points(one) >= SOLVES for one in episodes)
        and (facts.idle(task) or 0.0) < SOLVES
    ]
    if len(repeated) < 2 or len(won) * 2 <= len(repeated):
        return None
    title = f"The best episode of another task solves {_of(len(won), len(repeated))}"
    return Sign(title, _earned(facts, won))


# -- what a training would learn from
# --------------------------------------------------------------------------------------------------


@check(
    "no-spread",
    "Weak players all earn the same: in the first groups of a weak model no episode is better than "
    "another, and there is nothing to learn from.",
    "Give a part of the reward for steps on the way, or begin with easier tasks.",
    severity="medium",
    needs="good",
)
def _no_spread(facts: Facts) -> Sign | None:
    tasks = {task: facts.grades(WEAK, task) for task in facts.graded}
    tasks = {task: grades for task, grades in tasks.items() if len(grades) >= _FEWEST}
    flat = [task for task, grades in tasks.items() if is_one(grades)]
    above = [task for task in flat if facts.ceilings.get(task, 0.0) > tasks[task][0] + SAME]
    if not above or len(flat) < 0.8 * len(tasks):
        return None
    proofs = _earned(facts, [facts.of(("random",), task)[0] for task in above])
    return Sign(f"Weak players all earn the same on {_of(len(flat), len(tasks))}", proofs)


@check(
    "too-easy",
    "Random calls earn what a good player earns: most groups are all right, and teach nothing.",
    "Choose harder tasks.",
    severity="medium",
)
def _too_easy(facts: Facts) -> Sign | None:
    tasks = [task for task in facts.graded if facts.grades(("random",), task)]
    if not tasks:
        return None
    drawn = fmean(fmean(facts.grades(("random",), task)) for task in tasks)
    ceiling = fmean(facts.ceilings.get(task, 1.0) for task in tasks)
    if drawn < 0.9 * ceiling:
        return None
    proofs = _earned(facts, [facts.of(("random",), task)[0] for task in tasks])
    return Sign(f"Random calls earn {drawn:.2f}, a good player {ceiling:.2f}", proofs)


# -- what changes between episodes
# --------------------------------------------------------------------------------------------------


@check(
    "by-chance",
    "The same replies earn next to nothing or full marks: the reward is a matter of chance, which "
    "a group takes for a difference between the replies.",
    "Seed what is random in the setup call, and let the evaluation be exact.",
    severity="high",
    needs="alone",
    explains=(*_COMPARISONS, "unreachable", "not-repeatable", "crowd"),
)
def _by_chance(facts: Facts) -> Sign | None:
    return _varying(facts, 0.5)


@check(
    "not-repeatable",
    "The same replies give different rewards. In a group this difference is taken for one between "
    "the replies.",
    "Seed what is random in the setup call, and let the evaluation be exact.",
    severity="medium",
    needs="alone",
    explains=("errors-pay", "injection", "unreachable"),
)
def _not_repeatable(facts: Facts) -> Sign | None:
    return _varying(facts, SAME)


def _varying(facts: Facts, least: float) -> Sign | None:
    """Return a sign where the same replies earn rewards that differ by more than this."""
    for player in ("done", "each-once"):
        for ones in _per_task(one for one in facts.alone if one.player == player).values():
            graded = sorted(_graded(facts, ones), key=facts.points)
            if not graded:
                continue
            low, high = facts.points(graded[0]), facts.points(graded[-1])
            if high - low > least:
                title = f"The same replies (`{player}`) earn {low:.3g} to {high:.3g}"
                return Sign(title, _earned(facts, (graded[0], graded[-1])))
    return None


@check(
    "leak",
    "What one episode does is there in the next: rewards depend on what was played before.",
    "Reset everything in the setup call, or give each episode a place of its own with "
    "`${EPISODE_DIR}`.",
    severity="high",
    needs="alone",
    explains=("by-chance", "not-repeatable", "crowd", "unreachable", *_COMPARISONS),
)
def _leak(facts: Facts) -> Sign | None:
    for ones in _per_task(facts.alone).values():
        busy = [place for place, one in enumerate(ones) if one.player != "done"]
        if not busy:
            continue
        before, after = ones[: busy[0]], ones[busy[-1] + 1 :]
        for seen, words in ((facts.grade, "rewards"), (_opening, "beginnings")):
            first, last = {repr(seen(one)) for one in before}, {repr(seen(one)) for one in after}
            if before and after and len(first) == len(last) == 1 and first != last:
                title = f"`done` has other {words} after other episodes than before them"
                return Sign(title, _earned(facts, _graded(facts, (before[0], after[-1]))))
    return None


def _graded(facts: Facts, episodes: Iterable[Played]) -> list[Played]:
    return [one for one in episodes if facts.grade(one) is not None]


_CLOCK = re.compile(
    r"(?i)\d{4}-\d\d-\d\d|\d{1,2}:\d\d(?::\d\d)?|\d{5,}|\d+\.\d{3,}|[0-9a-f]{8,}|/tmp/\S+"
)
"""Times, identifiers and paths of episodes, which differ in any case."""


def _plain(text: str) -> str:
    return _CLOCK.sub("#", text)


def _opening(one: Played) -> str:
    return _plain(str(opening_of(one.episode)))


def _seen(one: Played) -> str:
    """Return what an episode saw, without what differs in any case."""
    turns = (_plain(turn.observation) for turn in one.episode.turns)
    return "\n".join((_opening(one), *turns))


@check(
    "crowd",
    "An episode beside others differs from the same one alone: the episodes of a training, which "
    "are played side by side, disturb one another.",
    "Keep the state of a session in the session, and files in `${EPISODE_DIR}`.",
    severity="high",
    needs="crowd",
    explains=("not-repeatable", "unreachable", *_COMPARISONS),
)
def _crowd(facts: Facts) -> Sign | None:
    for seen, words, severity in _SIGHTS:
        for player in ("each-once", "done"):
            beside = _per_task(one for one in facts.crowd if one.player == player)
            alone = _per_task(one for one in facts.alone if one.player == player)
            for task, ones in alone.items():
                usual = {repr(seen(facts, one)) for one in ones}
                other = [one for one in beside.get(task, ()) if repr(seen(facts, one)) not in usual]
                if len(usual) != 1 or not other:
                    continue
                count = f"{len(other)} of {len(beside[task])}"
                title = f"{count} episodes of `{player}` beside others have other {words}"
                proofs = [(ones[0], "alone"), *((one, "beside others") for one in other)]
                return Sign(title, proofs, severity)
    return None


_SIGHTS: tuple[tuple[Callable[[Facts, Played], Any], str, Severity], ...] = (
    (lambda facts, one: facts.grade(one), "rewards", "high"),
    (lambda facts, one: _seen(one), "observations", "medium"),
)


# -- tools
# --------------------------------------------------------------------------------------------------

_REFUSED = re.compile(
    r"(?i)validation error|invalid (?:argument|param|input|type|enum)|-32602|unexpected keyword"
    r"|missing \d* ?(?:required|positional)|(?:required|missing) (?:argument|param|property|field)"
    r"|(?:argument|param\w*|property|field)\b.{0,40}\b(?:is )?(?:required|missing)|is not of type"
)


@check(
    "schema-refuses",
    "The schema of a tool allows calls that its server refuses: the model does as it is told, and "
    "is punished.",
    "Correct the tool's input schema.",
    severity="medium",
    explains=("tool-broken",),
)
def _schema_refuses(facts: Facts) -> Sign | None:
    calls: dict[str, list[tuple[Played, bool]]] = {}
    for one, turn, tool in _calls(facts.of(("each-once", "random", "one-call", "plain"))):
        refused = turn.is_error and _REFUSED.search(turn.observation) is not None
        calls.setdefault(tool, []).append((one, refused))
    refusing = {tool: tries for tool, tries in calls.items() if all(bad for _, bad in tries)}
    proofs = [(tries[0][0], f"{tool} refuses its arguments") for tool, tries in refusing.items()]
    return _sign(f"Calls that the schema allows are refused: {', '.join(refusing)}", proofs)


@check(
    "tool-broken",
    "A tool answers every call with an error, also those of a good player: a task that needs it is "
    "solved without it, or not at all.",
    "Read what the tool says, and start the server with what it needs.",
    severity="medium",
    needs="good",
)
def _tool_broken(facts: Facts) -> Sign | None:
    calls: dict[str, list[tuple[Played, Turn]]] = {}
    for one, turn, tool in _calls(one for one in facts.open if one.player != "malformed"):
        calls.setdefault(tool, []).append((one, turn))
    broken: dict[str, tuple[Played, str]] = {}
    for tool, tries in calls.items():
        good = [(one, turn.observation) for one, turn in tries if one.player in facts.good]
        if good and len(tries) >= _FEWEST and all(turn.is_error for _, turn in tries):
            broken[tool] = good[0]
    proofs = [(one, f"{tool}: {said}") for tool, (one, said) in broken.items()]
    return _sign(f"Every call of {', '.join(broken)} fails, whoever makes it", proofs)


@check(
    "schema-accepts",
    "A server takes calls that its schema forbids. hudtui refuses them before they are sent, so "
    "that a model is punished for what would work.",
    "Correct the tool's input schema: what has a default is not required.",
    severity="low",
)
def _schema_accepts(facts: Facts) -> Sign | None:
    taken: dict[str, Played] = {}
    for one, turn, tool in _calls(one for one in facts.open if one.player == "malformed"):
        refused = turn.is_error or _REFUSED.search(turn.observation)
        if not refused and not turn.observation.startswith("Error"):
            taken.setdefault(tool, one)
    proofs = [(one, f"{tool} without what it requires") for tool, one in taken.items()]
    return _sign(f"Calls that the schema forbids are answered: {', '.join(taken)}", proofs)


@check(
    "slow-calls",
    "A training waits for its tools, and its GPUs with it.",
    "Make the tool faster, or play more episodes at once.",
    severity="medium",
)
def _slow_calls(facts: Facts) -> Sign | None:
    took = [(turn.seconds.get("call", 0.0), one) for one, turn, _ in _calls(facts.open)]
    if len(took) < _FEWEST:
        return None
    seconds = [second for second, _ in took]
    middle, late = median(seconds), quantiles(seconds, n=20)[-1]
    if middle < _SLOW:
        return None
    thought = [
        (turn.seconds.get("call", 0.0), turn.seconds.get("complete", 0.0))
        for one in facts.of(facts.strong)
        for turn in one.episode.turns
    ]
    whole = sum(map(sum, thought))
    share = f"; {sum(call for call, _ in thought) / whole:.0%} of a reply's time" if whole else ""
    slowest = max(took, key=lambda item: item[0])
    title = f"A call takes {middle:.1f} s (p95 {late:.1f} s){share}"
    return Sign(title, [(slowest[1], f"a call of {slowest[0]:.1f} s")])


@check(
    "context",
    "A conversation that does not fit into the model's context ends before the task is done.",
    "Answer with less: pages, summaries, the part that was asked for; or raise max_seq_len.",
    severity="medium",
)
def _context(facts: Facts) -> Sign | None:
    sizes = [
        (len(text) // _LETTERS, one)
        for one in facts.open
        if one.player not in ("oversized", "injected", "echo")
        for text in conversation(one)
    ]
    largest, one = max(sizes, key=lambda item: item[0], default=(0, None))
    if one is None or largest * 2 < facts.context:
        return None
    title = f"One message takes about {largest:,} tokens of a context of {facts.context:,}"
    return Sign(title, [(one, f"{largest:,} tokens at once")])


_KEYS = re.compile(
    r"\bsk-[\w-]{20,}|\bghp_\w{30,}|\bhf_[A-Za-z]{30,}|\bAKIA[0-9A-Z]{16}\b"
    r"|-----BEGIN (?:\w+ )*PRIVATE KEY-----"
)


@check(
    "secrets",
    "The agent sees a secret: it can be repeated, trained on, and published with the episodes.",
    "Keep the secret out of what the tools answer, and change it.",
    severity="high",
)
def _secrets(facts: Facts) -> Sign | None:
    shown = []
    for one in facts.played:
        texts = conversation(one)
        values = any(secret in text for text in texts for secret in facts.secrets)
        if values or any(map(_KEYS.search, texts)):
            shown.append((one, "a secret among its observations"))
    return _sign("Observations hold a secret", shown)


@check(
    "evaluator-callable",
    "The agent can ask for its grade: it tries until the grade is good, or learns to call the "
    "evaluation alone.",
    "Leave the tool out of the actions, or name it in the task's evaluate_tool only.",
    severity="high",
)
def _evaluator_callable(facts: Facts) -> Sign | None:
    asked: dict[str, Played] = {}
    for one, turn, tool in _calls(one for one in facts.open if one.player != "malformed"):
        judges = {call.name for call in facts.tasks[one.task].evaluate} | EVALUATE_TOOLS
        graded = tool in judges or _tells_grade(facts, turn, one.episode.evaluation)
        if graded and not turn.is_error:
            asked.setdefault(tool, one)
    proofs = [(one, f"{tool} answers") for tool, one in asked.items()]
    return _sign(f"The agent can call what judges it: {', '.join(asked)}", proofs)


def _tells_grade(facts: Facts, turn: Turn, evaluation: Any) -> bool:
    """Return whether a call that takes nothing answers what the evaluation does."""
    tool = facts.tools.get((turn.call or {}).get("tool", ""))
    if tool is None or (tool.input_schema or {}).get("properties"):
        return False
    return _is_graded(evaluation) and _answer(turn.result, turn.observation) == evaluation


def _is_graded(answer: Any) -> bool:
    return isinstance(answer, Mapping) and any(name in answer for name in REWARD_KEYS)


def _answer(structured: Any, text: str) -> Any:
    if structured is not None:
        return structured
    try:
        return json.loads(text)
    except ValueError:
        return None


@check(
    "left-behind",
    "Servers leave something behind with every episode; a training plays thousands.",
    "End what the server has started, and remove its files, when its input closes.",
    severity="medium",
    needs="leftovers",
)
def _left_behind(facts: Facts) -> Sign | None:
    if not facts.leftovers:
        return None
    return Sign(f"After the audit there remain: {'; '.join(facts.leftovers)}")
