"""Trainings as their metrics, made up: healthy ones of several kinds, and ones with one trouble.

`healthy(kind, seed)` and `sick(signature, strength, seed)` return the lines of a metrics file. A
trouble begins at `ONSET` of the run, and is "mild", "strong" or a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

STEPS = 300
ONSET = 0.4
HEALTHY = ("rising", "noisy", "flat", "short", "resumed", "longer", "sparse", "evaluated")
Lines = list[dict[str, float]]
Columns = dict[str, Any]


def _base(steps: int, random: Any, *, noise: float = 0.02, top: float = 0.7) -> Columns:
    at = np.linspace(0, 1, steps)
    rise = 1 - np.exp(-2.5 * at)

    def noisy(values: Any, share: float) -> Any:
        return values * (1 + share * random.standard_normal(steps))

    solved = 0.15 + (top - 0.15) * rise
    return {
        "rewards/correct/mean": np.clip(solved + noise * random.standard_normal(steps), 0, 1),
        "rewards/format/mean": np.clip(0.5 + 0.45 * rise, 0, 1),
        "reward": np.clip(0.1 + 0.9 * solved + noise * random.standard_normal(steps), 0, 1.1),
        "reward_std": noisy(np.full(steps, 0.3), 0.1),
        "frac_reward_zero_std": np.clip(0.15 + 0.06 * random.standard_normal(steps), 0, 1),
        "entropy": noisy(0.9 - 0.4 * rise, 0.05),
        "kl": np.abs(noisy(0.02 + 0.1 * at, 0.2)),
        "clip_ratio/region_mean": np.abs(noisy(np.full(steps, 0.08), 0.25)),
        "grad_norm": np.abs(noisy(0.5 - 0.1 * at, 0.2)),
        "completions/mean_length": noisy(300 + 40 * at, 0.06),
        "completions/clipped_ratio": np.clip(0.02 + 0.01 * random.standard_normal(steps), 0, 1),
        "tools/failure_frequency": np.clip(0.06 + 0.03 * random.standard_normal(steps), 0, 1),
        "sampling/sampling_logp_difference/mean": np.abs(noisy(np.full(steps, 0.012), 0.3)),
        "step_time": noisy(np.full(steps, 20.0), 0.08),
        "broken": np.clip(0.01 * random.random(steps), 0, 1),
        "repetition_rate": np.abs(noisy(np.full(steps, 0.02), 0.3)),
    }


def _lines(columns: Mapping[str, Any], every: Mapping[str, int] | None = None) -> Lines:
    steps = len(columns["reward"])
    lines: Lines = []
    for step in range(steps):
        line: dict[str, float] = {"step": step + 1}
        for name, values in columns.items():
            if (step + 1) % (every or {}).get(name, 1) == 0:
                line[name] = float(values[step])
        lines.append(line)
    return lines


def healthy(kind: str, seed: int) -> Lines:
    """Return the lines of a run without trouble."""
    random = np.random.default_rng([seed, HEALTHY.index(kind)])
    steps = {"short": 30, "sparse": 150}.get(kind, STEPS)
    columns = _base(steps, random, noise=0.09 if kind == "noisy" else 0.02)
    every: dict[str, int] = {}
    if kind == "flat":
        columns["reward"] = 0.45 + 0.05 * random.standard_normal(steps)
        columns["rewards/correct/mean"] = 0.4 + 0.05 * random.standard_normal(steps)
        columns["rewards/format/mean"] = 0.95 + 0.01 * random.standard_normal(steps)
    if kind == "noisy":
        for name in ("kl", "grad_norm", "completions/mean_length", "step_time", "entropy"):
            columns[name] = columns[name] * np.exp(0.35 * random.standard_normal(steps))
    if kind in ("longer", "evaluated"):
        solved = columns["rewards/correct/mean"]
        columns["eval_reward"] = np.clip(solved + 0.03 * random.standard_normal(steps) - 0.05, 0, 1)
        every["eval_reward"] = 20
    if kind == "longer":
        columns["completions/mean_length"] *= np.linspace(1, 2.2, steps)
        columns["step_time"] *= np.linspace(1, 1.25, steps)
    if kind == "sparse":
        columns = {name: columns[name] for name in ("reward", "kl", "grad_norm", "entropy")}
        every = dict.fromkeys(columns, 5)
    lines = _lines(columns, every)
    if kind == "resumed":
        again = _lines(_base(steps, random))
        return [*lines[:160], *again[150:]]
    return lines


def _ramp(values: Any, target: float, at: float = ONSET, over: float = 0.2) -> Any:
    """Return values that go to a target from a point of the run on."""
    steps = len(values)
    share = np.clip((np.linspace(0, 1, steps) - at) / over, 0, 1)
    noise = values / max(float(np.mean(values)), 1e-9)
    return values * (1 - share) + share * target * noise


def _two(mild: float, strong: float, strength: str | float) -> float:
    """Return a value for a strength: "mild" is 0, "strong" 1, and below 0 it is less than mild."""
    share = {"mild": 0.0, "strong": 1.0}.get(strength) if isinstance(strength, str) else strength
    assert share is not None
    if not strong:
        return mild if share < 1 else strong
    return float(mild * (strong / mild) ** share)


def _collapse(columns: Columns, strength: str | float, random: Any) -> None:
    columns["entropy"] = _ramp(columns["entropy"], _two(0.1, 0.01, strength))


def _distance(columns: Columns, strength: str | float, random: Any) -> None:
    columns["kl"] = _ramp(columns["kl"], _two(1.5, 12, strength), over=0.4)


def _clipped(columns: Columns, strength: str | float, random: Any) -> None:
    name = "clip_ratio/region_mean"
    columns[name] = _ramp(columns[name], _two(0.3, 0.5, strength))


def _spikes(columns: Columns, strength: str | float, random: Any) -> None:
    norm = columns["grad_norm"]
    start = int(ONSET * len(norm))
    count = int(_two(8, 20, strength))
    norm[random.choice(np.arange(start, len(norm)), count, replace=False)] *= _two(12, 40, strength)


def _longer(columns: Columns, strength: str | float, random: Any) -> None:
    name = "completions/mean_length"
    columns[name] = _ramp(columns[name], 300 * _two(1.9, 3.5, strength), over=0.4)
    start = int(ONSET * len(columns["reward"]))
    for flat in ("rewards/correct/mean", "reward"):
        level = float(np.mean(columns[flat][start - 10 : start]))
        noise = 0.02 * random.standard_normal(len(columns[flat]) - start)
        columns[flat][start:] = level + noise


def _truncated(columns: Columns, strength: str | float, random: Any) -> None:
    name = "completions/clipped_ratio"
    steps = len(columns[name])
    share = np.clip((np.linspace(0, 1, steps) - ONSET) / 0.15, 0, 1)
    level = _two(0.25, 0.6, strength) * (1 + 0.1 * random.standard_normal(steps))
    columns[name] = np.clip(columns[name] + share * level, 0, 1)


def _repeats(columns: Columns, strength: str | float, random: Any) -> None:
    columns["repetition_rate"] = _ramp(columns["repetition_rate"], _two(0.2, 0.5, strength))


def _groups(level: float) -> Callable[[Columns, str | float, Any], None]:
    def change(columns: Columns, strength: str | float, random: Any) -> None:
        steps = len(columns["reward"])
        share = np.clip((np.linspace(0, 1, steps) - ONSET) / 0.15, 0, 1)
        for name in ("reward", "rewards/correct/mean"):
            columns[name] = columns[name] * (1 - share) + level * share
        flat = _two(0.6, 0.9, strength) + 0.05 * random.standard_normal(steps)
        name = "frac_reward_zero_std"
        columns[name] = np.clip(columns[name] * (1 - share) + flat * share, 0, 1)

    return change


def _constant(columns: Columns, strength: str | float, random: Any) -> None:
    start = int(ONSET * len(columns["reward"]))
    columns["reward_std"][start:] = _two(1e-3, 0.0, strength)


def _form(columns: Columns, strength: str | float, random: Any) -> None:
    steps = len(columns["reward"])
    start = int(ONSET * steps)
    columns["rewards/format/mean"] = _ramp(
        0.2 + 0.02 * random.standard_normal(steps), _two(0.8, 1, strength)
    )
    level = float(np.mean(columns["rewards/correct/mean"][start - 10 : start]))
    columns["rewards/correct/mean"][start:] = level + 0.02 * random.standard_normal(steps - start)


def _hacked(columns: Columns, strength: str | float, random: Any) -> None:
    score = columns["rewards/correct/mean"] - 0.05
    columns["eval_reward"] = _ramp(score, _two(0.3, 0.12, strength), over=0.5)


def _lost(columns: Columns, strength: str | float, random: Any) -> None:
    columns["reward"] = _ramp(columns["reward"], _two(0.2, 0.05, strength), at=0.5)


def _tools(columns: Columns, strength: str | float, random: Any) -> None:
    name = "tools/failure_frequency"
    columns[name] = np.clip(_ramp(columns[name] * 0 + 0.06, _two(0.45, 0.8, strength)), 0, 1)


def _broken(columns: Columns, strength: str | float, random: Any) -> None:
    steps = len(columns["broken"])
    columns["broken"] = _ramp(np.full(steps, 0.01), _two(0.3, 0.7, strength))


def _stale(columns: Columns, strength: str | float, random: Any) -> None:
    name = "sampling/sampling_logp_difference/mean"
    columns[name] = _ramp(columns[name], _two(0.1, 0.5, strength))


def _slower(columns: Columns, strength: str | float, random: Any) -> None:
    columns["step_time"] = _ramp(columns["step_time"], _two(32, 70, strength), over=0.4)


def _idle(columns: Columns, strength: str | float, random: Any) -> None:
    steps = len(columns["reward"])
    columns["kl"] = np.abs(_two(2e-5, 1e-7, strength) * (1 + 0.2 * random.standard_normal(steps)))
    columns["entropy"] = 0.9 + 0.02 * random.standard_normal(steps)
    for name in ("reward", "rewards/correct/mean"):
        columns[name] = 0.3 + 0.02 * random.standard_normal(steps)


SICK: Mapping[str, Callable[[Columns, str | float, Any], None]] = {
    "entropy-collapse": _collapse,
    "kl-blow-up": _distance,
    "clip-saturation": _clipped,
    "gradient-spikes": _spikes,
    "length-hacking": _longer,
    "truncation": _truncated,
    "repetition": _repeats,
    "no-spread-solved": _groups(0.97),
    "no-spread-failed": _groups(0.05),
    "no-spread": _groups(0.5),
    "constant-reward": _constant,
    "form-alone": _form,
    "reward-hacking": _hacked,
    "reward-collapse": _lost,
    "tools-fail": _tools,
    "episodes-break": _broken,
    "stale-weights": _stale,
    "slower": _slower,
    "no-learning": _idle,
}
"""Signatures, and what each changes in a healthy run."""


def sick(signature: str, strength: str | float, seed: int) -> Lines:
    """Return the lines of a run with one trouble.

    `strength` is "mild", "strong" or a number: 0 is mild, 1 strong, and below 0 less than mild.
    """
    random = np.random.default_rng([seed, *signature.encode(), len(str(strength))])
    columns = _base(STEPS, random)
    SICK[signature](columns, strength, random)
    return _lines(columns, {"eval_reward": 15})
