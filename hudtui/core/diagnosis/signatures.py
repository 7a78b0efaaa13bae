"""Signatures of trouble: what each needs, its test, what it means, and what to change.

A new signature is a function here. Its test compares a series with its own beginning wherever that
says more than a fixed number, and with a fixed number where the field agrees on one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hudtui.core.diagnosis.likelihood import BOUNDS, FEWEST, between
from hudtui.core.diagnosis.machine import broken_episodes, flat_groups, logged, not_finite
from hudtui.core.diagnosis.table import (
    SIGNATURES,
    Sign,
    changed,
    scaled,
    signature,
    together,
    words,
)
from hudtui.core.diagnosis.values import Evidence, Severity
from hudtui.core.extensions import SIGNATURES as OTHERS
from hudtui.core.extensions import beside

if TYPE_CHECKING:  # numpy, which they need, is not loaded where only alarms are asked for
    from hudtui.core.diagnosis.observed import Observed
    from hudtui.core.diagnosis.series import Series

__all__ = ["SIGNATURES"]


def _usual(series: Series) -> float:
    """Return the level of the first third of a series."""
    return series.level(0, max(len(series) // 3, 3))


def _evidence(series: Series, place: int) -> Evidence:
    before = series.level(0, place) if place else series.start
    return Evidence(series.name, before, series.now)


_SLOWER = scaled("learning_rate", 1 / 3, "Lower learning_rate.")
_NEARER = scaled("beta", 10, "Raise beta, the weight of the distance from the model.", 0.001)
_WARMER = scaled("temperature", 1.2, "Raise temperature, so that episodes differ.", 1.0)
_LARGER = scaled("num_generations", 2, "Raise num_generations: a larger group differs sooner.")


# -- groups without spread
# --------------------------------------------------------------------------------------------------


class _Flat(NamedTuple):
    """Groups whose rewards are equal."""

    share: Series
    place: int
    probability: float

    def sign(self) -> Sign:
        evidence = (_evidence(self.share, self.place),)
        return Sign(self.probability, float(self.share.x[self.place]), evidence)


def _flat_groups(run: Observed) -> _Flat | None:
    """Return the share of groups without spread, where most are without."""
    shares = [run.series("no_spread"), run.series("no_advantage")]
    share = max((one for one in shares if one is not None), key=lambda one: one.now, default=None)
    if share is None:
        return None
    place = share.holds_since(share.smooth >= 0.45)
    probability = between(share.now, 0.45, BOUNDS.no_spread)
    if place is None or not probability:
        return None
    return _Flat(share, min(place, share.departs()), probability)


def _reward_level(run: Observed) -> float | None:
    """Return the newest level of the outcome, as a share of the most that the run has seen."""
    outcome = run.task or run.series("reward")
    if outcome is None:
        return None
    most = max(1.0, float(outcome.smooth.max()))
    return max(outcome.now, 0.0) / most


@signature(
    "no-spread-solved",
    "Most groups are all right: their episodes have equal rewards, and teach nothing",
    "The tasks have become too easy. The gradient of a group is zero where all its rewards are "
    "equal, so each step costs as before and learns from a few groups alone.",
    needs=("no_spread", "reward"),
    severity="medium",
    advice=together(
        words("Train on harder tasks: `rl --select difficulty:0.1-0.9` after an evaluation."),
        changed("refill_groups", 2, "Set refill_groups, so that other tasks take their places."),
    ),
)
def _solved(run: Observed) -> Sign | None:
    flat, level = _flat_groups(run), _reward_level(run)
    return None if flat is None or level is None or level < BOUNDS.solved else flat.sign()


@signature(
    "no-spread-failed",
    "Most groups fail as a whole: their episodes have equal rewards, and teach nothing",
    "The tasks are too hard for this model, or the reward cannot be reached: nothing that the "
    "model tries is better than the rest.",
    needs=("no_spread", "reward"),
    severity="high",
    advice=together(
        words(
            "Train on easier tasks: `rl --select difficulty:0.1-0.9` after an evaluation.",
            "Give a part of the reward for steps on the way.",
        ),
        _LARGER,
        _WARMER,
    ),
    explains=("form-alone",),
)
def _failed(run: Observed) -> Sign | None:
    flat, level = _flat_groups(run), _reward_level(run)
    return None if flat is None or level is None or level > BOUNDS.failed else flat.sign()


@signature(
    "no-spread",
    "Most groups have equal rewards, and teach nothing",
    "The model says the same in every episode of a task, or the reward is too coarse to tell "
    "episodes apart.",
    needs=("no_spread", "reward"),
    severity="high",
    advice=together(_WARMER, _LARGER, words("Give partial credit, so that rewards differ.")),
    watch=logged("no-spread"),
)
def _equal(run: Observed) -> Sign | None:
    flat, level = _flat_groups(run), _reward_level(run)
    if flat is None or level is None or not BOUNDS.failed < level < BOUNDS.solved:
        return None
    return flat.sign()


@signature(
    "constant-reward",
    "All rewards of a step are equal: there is no gradient",
    "A constant reward teaches nothing: the evaluation does not look at what was done, or every "
    "episode ends the same way.",
    needs=("reward_std",),
    severity="critical",
    advice=words(
        "Test the evaluation: `hudtui tasks test`, and the solution of a task.",
        "Play a few episodes with different policies: `hudtui eval -p random`.",
    ),
    explains=("no-spread", "no-spread-failed", "no-spread-solved"),
    watch=flat_groups,
    threshold="flat",
)
def _constant(run: Observed) -> Sign | None:
    spread, outcome = run.series("reward_std"), run.series("outcome")
    if outcome is not None and (same := _unchanged(outcome)) is not None:
        return same
    if spread is None:
        return None
    place = spread.holds_since(spread.y <= max(1e-6, 0.05 * spread.start))
    if place is None:
        return None
    reward = run.task or run.series("reward")
    solved = reward is not None and reward.now >= BOUNDS.full * max(1.0, float(reward.smooth.max()))
    steps = len(spread) - place
    return Sign(
        min(0.6 + steps / 50, 0.97),
        float(spread.x[min(place, spread.departs())]),
        (_evidence(spread, place),),
        severity="medium" if solved else "critical",
    )


def _unchanged(outcome: Series) -> Sign | None:
    """Return what an outcome says that is the same in all newest steps, and neither all nor none.

    The other parts of the reward may differ a little.
    """
    value = float(outcome.y[-1])
    others = (abs(outcome.y - value) > 1e-9).nonzero()[0]
    place = int(others[-1]) + 1 if len(others) else 0
    if len(outcome) - place < FEWEST or not 0.01 < value < 0.99:
        return None
    return Sign(0.97, float(outcome.x[place]), (_evidence(outcome, place),))


# -- the policy
# --------------------------------------------------------------------------------------------------


@signature(
    "entropy-collapse",
    "The entropy of the policy has collapsed: it says the same every time",
    "Without different episodes there is nothing to compare, and what the model does not try it "
    "cannot learn.",
    needs=("entropy",),
    severity="high",
    advice=together(_WARMER, _NEARER, _SLOWER),
)
def _entropy(run: Observed) -> Sign | None:
    entropy = run.series("entropy")
    if entropy is None:
        return None
    first = float(entropy.smooth[: max(3, len(entropy) // 50)].max())
    if first <= 1e-6:
        return None
    place = entropy.holds_since(entropy.smooth <= 0.2 * first)
    fall = first / max(entropy.now, 1e-9)
    probability = between(fall, 6.0, BOUNDS.entropy_fall, logarithm=True)
    if place is None or not probability:
        return None
    reward = run.task or run.series("reward")
    learns = reward is not None and reward.since(entropy.x[place]).trend()[0] > 3
    began = entropy.holds_since(entropy.smooth <= 0.6 * first)
    return Sign(
        probability,
        float(entropy.x[place if began is None else began]),
        (Evidence(entropy.name, first, entropy.now),),
        severity="medium" if learns else "high",
    )


@signature(
    "kl-blow-up",
    "The policy runs away from the model that it began with",
    "A distance that grows faster and faster mostly ends in text that is no language, whatever "
    "the reward says.",
    needs=("kl",),
    severity="high",
    advice=together(_NEARER, _SLOWER),
)
def _distance(run: Observed) -> Sign | None:
    kl = run.series("kl")
    if kl is None:
        return None
    usual = max(_usual(kl), 1e-3)
    place = kl.holds_since(kl.smooth >= max(0.8, 4 * usual))
    probability = min(
        between(kl.now, 0.8, BOUNDS.kl, logarithm=True),
        between(kl.now / usual, 4, BOUNDS.kl_rise, logarithm=True),
    )
    if place is None or not probability:
        return None
    severity: Severity = "critical" if kl.now >= BOUNDS.kl_lost else "high"
    return Sign(probability, float(kl.x[kl.departs(grows=True)]), (_evidence(kl, place),), severity)


@signature(
    "clip-saturation",
    "A large share of the updates is clipped",
    "The policy moves further in a step than the loss allows: most of the gradient is thrown "
    "away, or many updates use the same episodes.",
    needs=("clipped",),
    severity="medium",
    advice=together(
        _SLOWER, scaled("num_iterations", 0.5, "Lower num_iterations, the updates of a batch.")
    ),
)
def _clipping(run: Observed) -> Sign | None:
    clipped = run.series("clipped")
    if clipped is None:
        return None
    place = clipped.holds_since(clipped.smooth >= 0.22)
    probability = between(clipped.now, 0.22, 0.35)
    if place is None or not probability:
        return None
    return Sign(probability, float(clipped.x[clipped.departs()]), (_evidence(clipped, place),))


def _taught(run: Observed) -> Series | None:
    """Return the gradient without the steps whose rewards are all equal, where it is none."""
    norm, spread = run.series("grad_norm"), run.series("reward_std")
    if norm is None or spread is None or len(norm) != len(spread):
        return norm
    taught = abs(spread.y) > 1e-9
    if taught.sum() < FEWEST:
        return None
    return type(norm)(norm.name, norm.x[taught], norm.y[taught])


@signature(
    "gradient-spikes",
    "The gradient jumps",
    "Single steps with a gradient many times the usual one undo what was learned; a gradient that "
    "stays high ends in NaN.",
    needs=("grad_norm",),
    severity="medium",
    advice=together(_SLOWER, scaled("max_grad_norm", 0.5, "Lower max_grad_norm.")),
)
def _gradient(run: Observed) -> Sign | None:
    norm = _taught(run)
    if norm is None:
        return None
    usual = _usual(norm)
    if usual <= 0:
        return None
    lasting = between(norm.now / usual, 3.5, 6, logarithm=True)
    place = norm.holds_since(norm.smooth >= 3 * usual) if lasting else None
    if place is not None:
        return Sign(lasting, float(norm.x[place]), (_evidence(norm, place),), "high")
    spikes = (norm.y >= 6 * norm.smooth.clip(min=1e-12)).nonzero()[0]
    least = max(3, len(norm) // 100)
    if len(spikes) < least:
        return None
    peak = float(norm.y[spikes].max())
    evidence = Evidence(norm.name, usual, peak)
    probability = between(len(spikes) / least, 1, 2.5)
    return Sign(probability, float(norm.x[spikes[0]]), (evidence,))


@signature(
    "not-a-number",
    "Numbers of the training are NaN or infinite",
    "The weights are lost as soon as a step applies such a gradient.",
    needs=(),
    severity="critical",
    advice=together(
        words("Stop the run, and continue from a checkpoint before the onset."),
        _SLOWER,
        scaled("max_grad_norm", 0.5, "Lower max_grad_norm."),
    ),
    watch=not_finite,
    threshold="nan",
)
def _not_finite(run: Observed) -> Sign | None:
    lost = [one for one in run.wrong if one.count >= BOUNDS.not_finite]
    if lost:
        first = min(lost, key=lambda one: one.x)
        evidence = Evidence(first.name, 0.0, float("nan"))
        return Sign(0.97, first.x, (evidence,))
    counted = run.series("not_finite")
    if counted is None or not (counted.y > 0).any():
        return None
    place = int((counted.y > 0).nonzero()[0][0])
    seen = int((counted.y > 0).sum())
    evidence = Evidence(counted.name, 0.0, float(counted.y.max()))
    return Sign(between(seen, 1, 5), float(counted.x[place]), (evidence,), "high")


# -- what the model says
# --------------------------------------------------------------------------------------------------


def _gain(series: Series | None, step: float) -> float | None:
    """Return by how much a series has risen since a step; None if it says nothing about it."""
    if series is None:
        return None
    place = series.place(step)
    if len(series) - place < 2:
        return None
    before = series.level(max(0, place - max(3, len(series) // 10)), max(place, 1))
    return series.now - before


@signature(
    "length-hacking",
    "Replies grow, and the outcome does not",
    "The model has found that longer replies are rewarded, or not punished; tokens and money go "
    "into text that solves nothing.",
    needs=("completion_length", "reward"),
    severity="medium",
    advice=together(
        words("Judge the outcome alone, or give a part of the reward for short replies."),
        scaled("max_tokens", 0.5, "Lower max_tokens."),
    ),
)
def _length(run: Observed) -> Sign | None:
    length = run.series("completion_length")
    if length is None:
        return None
    probability = between(length.now / max(length.start, 1.0), 1.5, 2.2, logarithm=True)
    place = length.departs()
    onset = float(length.x[place])
    if not probability or length.trend()[0] < 3:
        return None
    outcome = run.evaluation or run.task or run.series("reward")
    gain = _gain(outcome, onset)
    if outcome is None or gain is None:
        return None
    wanted = max(0.15, 3 * outcome.noise / max(len(outcome) // 10, 1) ** 0.5)
    if gain >= wanted:
        return None
    return Sign(
        probability, onset, (_evidence(length, place), _evidence(outcome, outcome.place(onset)))
    )


@signature(
    "truncation",
    "Many replies are cut off at the limit of their length",
    "A reply that is cut off has no call or no answer, and its reward says nothing about the "
    "thought before.",
    needs=("truncated",),
    severity="high",
    advice=together(
        scaled("max_tokens", 2, "Raise max_tokens."),
        words("Say in the prompt how short a reply should be."),
    ),
)
def _truncation(run: Observed) -> Sign | None:
    return _high_share(run, "truncated", 0.15, 0.35)


@signature(
    "repetition",
    "Replies repeat themselves",
    "A model in a loop fills its tokens, and mostly comes from a learning rate that is too high.",
    needs=("repetition",),
    severity="high",
    advice=together(_SLOWER, _NEARER),
)
def _repetition(run: Observed) -> Sign | None:
    repeats = run.series("repetition")
    if repeats is None:
        return None
    place = repeats.holds_since(repeats.smooth >= max(0.12, 3 * _usual(repeats)))
    probability = between(repeats.now, 0.12, 0.3)
    if place is None or not probability:
        return None
    return Sign(probability, float(repeats.x[repeats.departs()]), (_evidence(repeats, place),))


@signature(
    "unreadable-replies",
    "Hardly any reply has a call that can be read",
    "Without a call nothing is done, all rewards of a group are equal, and nothing is learned. The "
    "chat template or the dialect is not that of the model, or its weights are spoiled.",
    needs=("well_formed",),
    severity="critical",
    advice=together(
        words(
            "Read a few replies in Results: do they begin and end as the model was trained to?",
            "Compare the chat template and the dialect with those of the model; give examples.",
        ),
        _SLOWER,
    ),
    explains=(
        *("constant-reward", "no-spread", "no-spread-failed", "tools-fail", "turn-limit"),
        "done-at-once",
    ),
)
def _unreadable(run: Observed) -> Sign | None:
    form = run.series("well_formed")
    if form is None:
        return None
    place = form.holds_since(form.smooth <= 0.3)
    probability = between(1 - form.now, 0.7, 0.95)
    if place is None or not probability or form.since(form.x[place]).trend()[0] > 2:
        return None
    return Sign(probability, float(form.x[place]), (_evidence(form, place),))


@signature(
    "wrong-tokens",
    "Other tokens are trained than the model has said",
    "The mask of the loss lets in what the environment answered, or leaves out what the model "
    "said: it learns to foretell the environment, and not to act.",
    needs=("said_tokens", "trained_tokens"),
    severity="critical",
    advice=words("Mend the mask of the loss: 1 for the tokens of the model, 0 for all others."),
    explains=(  # they are numbers of the tokens in the loss
        *("gradient-spikes", "kl-blow-up", "clip-saturation", "entropy-collapse", "stale-weights"),
    ),
)
def _wrong_tokens(run: Observed) -> Sign | None:
    said, trained = run.series("said_tokens"), run.series("trained_tokens")
    if said is None or trained is None:
        return None
    ratio, surely = trained.beside(said)
    if surely < 4:  # the episodes that are recorded are a sample
        return None
    probability = between(ratio, 1.2, 1.6, logarithm=True)
    broken = run.series("broken")
    if broken is None or broken.now < 0.1:  # those that break off are left out of the loss
        probability = max(probability, between(1 / max(ratio, 1e-3), 2, 3, logarithm=True))
    if not probability:
        return None
    return Sign(probability, float(trained.x[0]), (_evidence(said, 0), _evidence(trained, 0)))


# -- the reward
# --------------------------------------------------------------------------------------------------


@signature(
    "form-alone",
    "The form of the replies is rewarded, and the task is not done",
    "The part for the form is easier than the task, so the model learns it and stops there.",
    needs=("parts",),
    severity="high",
    advice=words(
        "Lower the weight of the form, or give it only together with the task.",
        "Train on tasks that the model sometimes solves.",
    ),
)
def _form(run: Observed) -> Sign | None:
    form, task = run.form, run.task
    if form is None or task is None:
        return None
    high, grown = form.now >= 0.6, form.now - form.start
    learned = task.trend()[1]
    gap = form.now - max(task.now, 0.0)
    place = form.departs()
    onset = float(form.x[place])
    half = form.holds_since(form.smooth >= (form.start + form.now) / 2)
    since = None if half is None else _gain(task, float(form.x[half]))
    if high and grown >= 0.4 and since is not None and since < 0.1 and place > len(form) // 5:
        probability = between(grown, 0.4, 0.7)
    elif form.now >= 0.85 and task.now < 0.15 and learned < 0.05 and gap > 0.7:
        probability, onset = between(0.15 - task.now, 0.0, 0.12), float(form.x[0])
    else:
        return None
    return Sign(probability, onset, (_evidence(form, place), _evidence(task, task.place(onset))))


@signature(
    "reward-hacking",
    "The reward rises, and the evaluation does not",
    "The model earns what the training rewards in a way that the evaluation does not count.",
    needs=("reward", "eval_reward"),
    severity="critical",
    advice=words(
        "Read the best episodes of the newest steps: what earned their reward?",
        "Mend the evaluation of the tasks before the next run.",
        "Continue from the checkpoint before the onset.",
    ),
)
def _hacking(run: Observed) -> Sign | None:
    reward, evaluation = run.series("reward"), run.evaluation
    if reward is None or evaluation is None or len(evaluation) < 5:
        return None
    smooth = evaluation.smooth
    peak = int(smooth.argmax())
    noise = max(evaluation.noise, 0.01)
    fall = float(smooth[peak]) - evaluation.level(-max(2, len(evaluation) // 6), len(evaluation))
    rise = _gain(reward, float(evaluation.x[peak])) or 0.0
    if fall > 0 and rise > 2 * reward.noise / max(len(reward) // 10, 1) ** 0.5 and rise > 0.03:
        probability = min(between(fall / noise, 2.5, 5), between(fall, 0.04, 0.08))
        if probability:
            evidence = Evidence(evaluation.name, float(smooth[peak]), evaluation.now)
            return Sign(probability, float(evaluation.x[peak]), (evidence, _evidence(reward, 0)))
    surely, risen = reward.trend()
    gained = evaluation.trend()[1]
    if surely > 4 and risen >= 0.3 and gained < 0.2 * risen:
        probability = between(risen - gained, 0.25, 0.45)
        evidence = Evidence(evaluation.name, evaluation.start, evaluation.now)
        return Sign(probability, float(reward.x[0]), (evidence, _evidence(reward, 0)), "high")
    return None


@signature(
    "reward-collapse",
    "The reward has fallen, and does not come back",
    "What was learned is lost: the run is worse than it was.",
    needs=("reward",),
    severity="critical",
    advice=together(words("Continue from the checkpoint before the onset."), _SLOWER, _NEARER),
)
def _collapse(run: Observed) -> Sign | None:
    reward = run.series("reward")
    if reward is None:
        return None
    peak = int(reward.smooth.argmax())
    best = float(reward.smooth[peak])
    gained = max(best - min(reward.start, reward.now), abs(best), 1e-9)
    fall = best - reward.now
    probability = min(
        between(fall / gained, 0.45, 0.7), between(fall / max(reward.noise, 1e-9), 4, 8)
    )
    after = reward.since(reward.x[peak])
    if not probability or len(after) < 10:
        return None
    place = reward.holds_since(reward.smooth <= best - 0.45 * gained)
    if place is None:
        return None
    return Sign(probability, float(reward.x[peak]), (Evidence(reward.name, best, reward.now),))


# -- the environment
# --------------------------------------------------------------------------------------------------


def _high_share(run: Observed, signal: str, doubtful: float, certain: float) -> Sign | None:
    share = run.series(signal)
    if share is None:
        return None
    place = share.holds_since(share.smooth >= doubtful)
    probability = between(min(share.now, share.lately), doubtful, certain)
    if place is None or not probability:
        return None
    onset = float(share.x[min(place, share.departs())])
    return Sign(probability, onset, (_evidence(share, place),))


@signature(
    "tools-fail",
    "Many tool calls fail",
    "The model is punished for faults of the environment, or calls tools in a way that the "
    "environment refuses.",
    needs=("tool_failures",),
    severity="high",
    advice=words(
        "Read the failures: Results, view Failures, or `hudtui rollouts stats`.",
        "Check the mapping against the environment: `hudtui config check`.",
    ),
)
def _tools(run: Observed) -> Sign | None:
    return _high_share(run, "tool_failures", 0.3, 0.5)


@signature(
    "episodes-break",
    "Many episodes break off",
    "An episode that breaks off has no reward, and its group learns from fewer.",
    needs=("broken",),
    severity="high",
    advice=words("Read the causes in the log and in Results; `hudtui env call` tries a tool."),
    watch=broken_episodes,
    threshold="broken",
)
def _broken(run: Observed) -> Sign | None:
    return _high_share(run, "broken", 0.15, BOUNDS.broken)


@signature(
    "context-full",
    "Conversations fill the model's context, and are cut off there",
    "Their episodes break off or end early, and the longest tasks are never learned.",
    needs=("context_full",),
    severity="high",
    advice=together(
        scaled("max_seq_len", 2, "Raise max_seq_len."),
        words("Lower max_turns, or shorten what a tool answers."),
    ),
    watch=logged("context-full"),
    shown_by="stop:context",
)
def _context(run: Observed) -> Sign | None:
    return _high_share(run, "context_full", 0.2, 0.5)


@signature(
    "turn-limit",
    "Most episodes end at the limit of their turns",
    "The model never finishes: it does not know when it is done, or has too few turns.",
    needs=("turn_limit", "reward"),
    severity="medium",
    advice=together(
        scaled("max_turns", 2, "Raise max_turns."),
        words("Say in the prompt how an episode is ended."),
    ),
    shown_by="stop:max_turns",
)
def _turns(run: Observed) -> Sign | None:
    level, share = _reward_level(run), run.series("turn_limit")
    if level is None or share is None or level >= 0.8:  # a game that is played to its last turn
        return None
    always = share.start >= 0.95
    if always and (level > 0.1 or run.settings.get("max_turns") == 1):
        return None  # all are as long, and earn something: so are these episodes
    return _high_share(run, "turn_limit", 0.6, 0.95)


@signature(
    "done-at-once",
    "Episodes end at once: the model gives up instead of trying",
    "A model that says that it is done before it has done anything has learned that trying is "
    "punished, or that giving up costs nothing.",
    needs=("done_at_once", "reward"),
    severity="high",
    advice=words(
        "Reward steps on the way, and nothing for an end without an attempt.",
        "Continue from the checkpoint before the onset.",
    ),
    shown_by="stop:done turns:<2",
)
def _gives_up(run: Observed) -> Sign | None:
    level, share = _reward_level(run), run.series("done_at_once")
    if level is None or share is None or level >= 0.5 or share.start >= 0.5:
        return None
    return _high_share(run, "done_at_once", 0.3, 0.7)


@signature(
    "stale-weights",
    "The server's log probabilities are not those of the trainer",
    "The model that plays is not the one that is trained: old weights, or another precision.",
    needs=("sampler_gap",),
    severity="high",
    advice=words(
        "Let the server load the weights after every step.",
        "Use the same precision in both, and the newest server.",
    ),
)
def _stale(run: Observed) -> Sign | None:
    gap = run.series("sampler_gap")
    if gap is None:
        return None
    usual = max(gap.start, 1e-4)
    place = gap.holds_since(gap.smooth >= max(0.05, 3 * usual))
    high = gap.holds_since(gap.smooth >= 0.2)
    place = high if place is None else place
    probability = max(
        min(between(gap.now, 0.05, 0.1), between(gap.now / usual, 3, 6)),
        between(gap.now, 0.2, 0.4),
    )
    if place is None or not probability:
        return None
    return Sign(probability, float(gap.x[place]), (_evidence(gap, place),))


@signature(
    "slower",
    "Steps take longer and longer",
    "The same money buys fewer steps: replies grow, tools slow down, or memory is swapped.",
    needs=("step_time",),
    severity="low",
    advice=words(
        "Look at the metrics of the machine beside the curve, and at the length of the replies.",
        "Measure the tools: `hudtui rollouts stats` has their times.",
    ),
)
def _slower(run: Observed) -> Sign | None:
    taken = run.series("step_time")
    if taken is None or len(taken) < 50:  # three slow steps in a row are no trend
        return None
    usual = taken.start
    probability = between(taken.now / max(usual, 1e-9), 1.4, 2, logarithm=True)
    place = taken.holds_since(taken.smooth >= 1.3 * usual)
    if not probability or place is None or taken.trend()[0] < 2:
        return None
    return Sign(probability, float(taken.x[taken.departs()]), (_evidence(taken, place),))


@signature(
    "waits-for-tools",
    "Most of a step is spent on tools",
    "The GPU waits while the environment works.",
    needs=("tool_seconds", "step_time"),
    severity="low",
    advice=words("Play more episodes at once, or give the environment more processors."),
)
def _waits(run: Observed) -> Sign | None:
    tools, taken = run.series("tool_seconds"), run.series("step_time")
    if tools is None or taken is None or taken.now <= 0:
        return None
    probability = between(tools.now / taken.now, 0.5, 0.8)
    evidence = (_evidence(tools, 0), _evidence(taken, 0))
    return Sign(probability, float(tools.x[0]), evidence) if probability else None


@signature(
    "no-learning",
    "The weights hardly change",
    "The policy is what it was: the learning rate is too small for this model, or the gradient is "
    "clipped to nothing.",
    needs=("kl", "reward"),
    severity="medium",
    advice=together(
        scaled("learning_rate", 10, "Raise learning_rate."),
        scaled("max_grad_norm", 10, "Raise max_grad_norm."),
    ),
)
def _idle(run: Observed) -> Sign | None:
    kl, reward, entropy = run.series("kl"), run.series("reward"), run.series("entropy")
    if kl is None or reward is None or len(kl) < 50 or abs(reward.trend()[0]) > 3:
        return None
    if entropy is not None and abs(entropy.trend()[0]) > 3:
        return None
    most = float(abs(kl.smooth).max())
    probability = between(1e-4 / max(most, 1e-12), 1, 10, logarithm=True)
    return Sign(probability, float(kl.x[0]), (_evidence(kl, 0),)) if probability else None


SIGNATURES.update(beside(SIGNATURES, OTHERS))
