"""The diagnosis on trainings that are made up here: recall, onset, false alarms, calibration.

    python tests/real/calibration.py [--seeds 20] [--first 5000]

The seeds are none that the thresholds were chosen on. Three tables: each trouble, mild and strong,
with the share of runs in which it is found and how far the median onset is off, as a share of the
run; the healthy runs that are accused at their end, and those of which any step would have been an
alarm or an end of the run; and, of troubles whose strength is drawn from less than mild (-0.5) to
strong (1), the probability that is stated beside the share of findings that are right: of the
trouble that was planted, at no less than half the way to a mild one (-0.25).
"""

from __future__ import annotations

import argparse
import collections
import random
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.training_runs import HEALTHY, ONSET, SICK, STEPS, healthy, sick

from hudtui.core.diagnosis.alarms import find_alarms
from hudtui.core.diagnosis.diagnose import diagnose
from hudtui.core.diagnosis.facts import RunFacts
from hudtui.core.diagnosis.stop import CRITICAL, stopping
from hudtui.core.diagnosis.values import Diagnosis
from hudtui.core.training.metrics import MetricsReader

EVERY = 10
"""Steps between two looks at a run that goes on."""
BEGINS = -0.25
"""The strength from which a planted trouble counts as one."""
_ALIKE = {
    "no-spread": "no-spread",
    "no-spread-failed": "no-spread",
    "no-spread-solved": "no-spread",
}
"""Signatures that name one trouble by its level."""


def seen(lines: Iterable[dict[str, Any]]) -> Diagnosis:
    """Return the diagnosis of a run at its end."""
    metrics = MetricsReader()
    for line in lines:
        metrics.add(line)
    return diagnose(metrics)


def recall(seeds: range) -> tuple[int, int, list[float]]:
    """Print what is found of each trouble; return found, all, and how far the onsets are off."""
    found, count, off = 0, 0, []
    for signature in SICK:
        for strength in ("mild", "strong"):
            hits, onsets = 0, []
            for seed in seeds:
                for one in seen(sick(signature, strength, seed)).findings:
                    if one.signature == signature:
                        hits += 1
                        onsets.append(one.onset / STEPS)
            began = 0.0 if signature == "no-learning" else ONSET
            away = abs(statistics.median(onsets) - began) if onsets else float("nan")
            off += [abs(one - began) for one in onsets]
            print(f"{signature:20} {strength:6} {hits:3} of {len(seeds)}  onset off by {away:.2f}")
            found, count = found + hits, count + len(seeds)
    return found, count, off


def accused(seeds: range) -> tuple[int, int, int, int]:
    """Return healthy runs, those accused at the end, with an alarm at any step, and stopped."""
    count = wrong = alarmed = stopped = 0
    for kind in HEALTHY:
        for seed in seeds:
            metrics, alarms, ends = MetricsReader(), False, False
            lines = healthy(kind, seed)
            for number, line in enumerate(lines, 1):
                metrics.add(line)
                if number % EVERY:
                    continue
                now = diagnose(metrics)
                facts = RunFacts(active=True).with_metrics(metrics)
                alarms = alarms or bool(find_alarms(facts, findings=now.findings))
                ends = ends or stopping(now, (CRITICAL, *SICK)) is not None
            count, alarmed, stopped = count + 1, alarmed + alarms, stopped + ends
            findings = diagnose(metrics).findings
            wrong += bool(findings)
            if findings:
                print(f"healthy {kind} {seed}: {[one.signature for one in findings]}")
    return count, wrong, alarmed, stopped


def calibration(seeds: range) -> float:
    """Print what is stated and what is right, in tenths; return the largest difference."""
    stated: dict[int, list[float]] = collections.defaultdict(list)
    right: collections.Counter[int] = collections.Counter()
    draw = random.Random(seeds.start)
    for signature in SICK:
        if signature == "constant-reward":  # it is there, or it is not
            continue
        for seed in seeds:
            strength = draw.uniform(-0.5, 1)
            for one in seen(sick(signature, strength, seed)).findings:
                fallen = one.signature == "reward-collapse" and signature == "no-spread-failed"
                same = fallen or _ALIKE.get(one.signature, one.signature) == _ALIKE.get(
                    signature, signature
                )
                tenth = int(one.probability * 10)
                stated[tenth].append(one.probability)
                right[tenth] += same and strength >= BEGINS
    worst = 0.0
    for tenth in sorted(stated):
        share, mean = right[tenth] / len(stated[tenth]), statistics.fmean(stated[tenth])
        print(f"stated {mean:.2f}  right {share:.2f}  of {len(stated[tenth])}")
        if len(stated[tenth]) >= 20:
            worst = max(worst, abs(share - mean))
    return worst


def main() -> int:
    """Print the tables; 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=5000)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    found, wanted, off = recall(seeds)
    worst = calibration(seeds)
    count, wrong, alarmed, stopped = accused(seeds)
    print(f"found {found} of {wanted}, median onset off by {statistics.median(off):.3f}")
    print(f"stated probabilities off by {worst:.2f} at most")
    print(f"of {count} healthy runs {wrong} accused, {alarmed} with an alarm, {stopped} stopped")
    misses = found < 0.95 * wanted or statistics.median(off) > 0.1 or worst > 0.1
    return int(misses or wrong > count / 100 or stopped > 0)


if __name__ == "__main__":
    raise SystemExit(main())
