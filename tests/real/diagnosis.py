"""The diagnosis beside what others make up: the runs of rlprobe 0.1.0 and rldoctor 0.2.0.

    python -m venv X && X/bin/pip install rlprobe==0.1.0 rldoctor==0.2.0
    python tests/real/diagnosis.py --python X/bin/python [--seeds 20] [--first 700]

Their generators fabricate healthy runs and runs with one trouble each. The table names, for each
kind, the signature that is meant, in how many runs it is found, by rlprobe and by rldoctor too, the
median onset as a share of the run, and what else is found. The last lines give the recall, and the
share of healthy runs that are accused, of all three. rlprobe's columns are renamed to those of TRL;
rldoctor's are TRL's own. rlprobe reads its own recordings alone. The first twenty seeds are those
that the thresholds were chosen on.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import subprocess
from collections.abc import Iterator
from typing import Any

from hudtui.core.diagnosis.diagnose import diagnose
from hudtui.core.training.metrics import MetricsReader

STEPS = 400
GENERATE = """
import json, pathlib, sys, tempfile
import pyarrow.parquet as pq
from rl_doctor.simulate import SCENARIOS, simulate
from rl_doctor import Severity, diagnose, run_from_records
from rlprobe.doctor.engine import diagnose as probe
from rlprobe.testing.synth import generate_run
steps, first, seeds = map(int, sys.argv[1:4])
PROBE, NAMES = sys.argv[4].split(), json.loads(sys.argv[5])
SEEDS = range(first, first + seeds)
def doctor(rows):
    found = diagnose(run_from_records(rows)).findings
    return [one.detector for one in found if one.severity >= Severity.WARNING]
def tell(kind, rows, of_probe):
    print(json.dumps([kind, rows, {"rldoctor": doctor(rows), "rlprobe": of_probe}]), flush=True)
for kind in SCENARIOS:
    for seed in SEEDS:
        tell("doctor." + kind, simulate(kind, n_steps=steps, seed=seed)[0], None)
for kind in PROBE:
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            pathology = None if kind == "healthy" else kind
            generate_run(folder, pathology=pathology, n_steps=steps, seed=seed)
            rows = pq.read_table(pathlib.Path(folder, "steps.parquet")).to_pylist()
            found = [one.signature_id for one in probe(folder)]
        keep = [
            {NAMES.get(k, k): v for k, v in row.items() if isinstance(v, (int, float))}
            for row in rows
        ]
        tell("probe." + kind, keep, found)
"""
NAMES = {
    "reward_mean": "reward",
    "kl_mean": "kl",
    "entropy_mean": "entropy",
    "lr": "learning_rate",
    "completion_len_mean": "completions/mean_length",
    "step_time_s": "step_time",
    "reward_component.correctness": "rewards/correctness/mean",
    "reward_component.format": "rewards/format/mean",
}
MEANT = {
    "doctor.entropy_collapse": "entropy-collapse",
    "doctor.saturated_groups": "no-spread-solved",
    "doctor.too_hard": "no-spread-failed",
    "doctor.reward_hacking": "reward-hacking",
    "doctor.length_hacking": "length-hacking",
    "doctor.truncation": "truncation",
    "doctor.kl_blowup": "kl-blow-up",
    "doctor.clip_saturation": "clip-saturation",
    "doctor.grad_spikes": "gradient-spikes",
    "doctor.format_domination": "form-alone",
    "probe.kl_blowup": "kl-blow-up",
    "probe.entropy_collapse": "entropy-collapse",
    "probe.reward_hack_length": "length-hacking",
    "probe.format_gaming": "form-alone",
    "probe.clip_saturation": "clip-saturation",
    "probe.degenerate_groups": "no-spread",
    "probe.adv_collapse": "no-spread",
    "probe.grad_pathology": "gradient-spikes",
    "probe.truncation_starve": "truncation",
    "probe.repetition_spiral": "repetition",
    "probe.reward_std_death": "constant-reward",
    "probe.throughput_rot": "slower",
}
"""Kinds of runs, and the signature that stands for each. The others have none: a plateau, a value
function that diverges, a distance that grows at some positions alone."""
THEIRS = {
    "entropy-collapse": {"entropy_collapse", "ENTROPY_COLLAPSE"},
    "no-spread-solved": {"advantage_collapse"},
    "no-spread-failed": {"advantage_collapse"},
    "no-spread": {"advantage_collapse", "DEGENERATE_GROUPS", "ADV_COLLAPSE"},
    "constant-reward": {"advantage_collapse", "REWARD_STD_DEATH"},
    "reward-hacking": {"reward_hacking"},
    "length-hacking": {"length_pathology", "REWARD_HACK_LENGTH"},
    "truncation": {"length_pathology", "TRUNCATION_STARVE"},
    "kl-blow-up": {"kl_drift", "KL_BLOWUP"},
    "clip-saturation": {"clip_saturation", "CLIP_SATURATION"},
    "gradient-spikes": {"gradient_pathology", "GRAD_PATHOLOGY"},
    "form-alone": {"reward_composition", "FORMAT_GAMING"},
    "repetition": {"REPETITION_SPIRAL"},
    "slower": {"THROUGHPUT_ROT"},
}
"""What the two call a signature; what is missing they do not look for."""
PROBE = ("healthy", *(kind.partition(".")[2] for kind in MEANT if kind.startswith("probe.")))


Verdicts = dict[str, list[str] | None]


def runs(
    python: str, first: int, seeds: int
) -> Iterator[tuple[str, list[dict[str, Any]], Verdicts]]:
    """Yield the kind and the lines of each run, and what the others say of it."""
    numbers = map(str, (STEPS, first, seeds))
    words = [python, "-c", GENERATE, *numbers, " ".join(PROBE), json.dumps(NAMES)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        for line in made.stdout:
            kind, rows, verdicts = json.loads(line)
            yield kind, rows, verdicts


def _share(found: collections.Counter[str], kind: str, count: int) -> str:
    return f"{found[kind]:3} of {count}" if kind in found else "  -"


def made_up() -> Iterator[tuple[str, list[dict[str, Any]], Verdicts]]:
    """Yield a healthy run, and one whose distance from the model before training blows up."""
    for kind in ("smoke.healthy", "probe.kl_blowup"):
        rows = []
        for step in range(1, STEPS + 1):
            noise = step * 7919 % 101 / 101 - 0.5
            kl = 0.02 + 0.004 * noise
            if kind != "smoke.healthy" and step > STEPS / 2:
                kl *= 1.06 ** (step - STEPS / 2)
            reward = 0.2 + 0.5 * step / STEPS + 0.05 * noise
            rows.append({"step": step, "reward": reward, "kl": min(kl, 20.0)})
        yield kind, rows, {}


def main() -> int:
    """Print the table; 1 if the recall is below 95 %, or a healthy run is accused."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", help="Python with rlprobe and rldoctor")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=700)
    parser.add_argument("--smoke", action="store_true", help="two runs of our own instead")
    parser.add_argument("--out", help="not used: nothing is written")
    given = parser.parse_args()
    if given.python is None and not given.smoke:
        parser.error("name the Python with rlprobe and rldoctor, or --smoke")
    made = made_up() if given.smoke else runs(given.python, given.first, given.seeds)
    counts: collections.Counter[str] = collections.Counter()
    hits: collections.Counter[str] = collections.Counter()
    onsets: dict[str, list[float]] = collections.defaultdict(list)
    others: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    theirs: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for kind, rows, verdicts in made:
        metrics = MetricsReader()
        for row in rows:
            metrics.add(row)
        counts[kind] += 1
        meant = MEANT.get(kind)
        for name, said in verdicts.items():
            wanted = kind.endswith(".healthy")
            right = THEIRS.get(meant or "", set())
            if said is not None:
                theirs[name][kind] += bool(said) if wanted else bool(right.intersection(said))
        for finding in diagnose(metrics).findings:
            if finding.signature == meant:
                hits[kind] += 1
                onsets[kind].append(finding.onset / STEPS)
            else:
                others[kind][finding.signature] += 1
    for kind, count in counts.items():
        onset = f"{statistics.median(onsets[kind]):.2f}" if onsets[kind] else "-"
        beside = ", ".join(f"{name} {number}" for name, number in others[kind].items())
        both = "  ".join(_share(theirs[name], kind, count) for name in ("rlprobe", "rldoctor"))
        head = f"{kind:26} {MEANT.get(kind, '-'):18} {hits[kind]:3} of {count}  {both}"
        print(f"{head}  {onset:5} {beside}")
    wanted = sum(counts[kind] for kind in MEANT)
    assert counts, "no run was made"
    accused = sum(sum(others[kind].values()) for kind in counts if kind.endswith(".healthy"))
    healthy = sum(count for kind, count in counts.items() if kind.endswith(".healthy"))
    print(f"found {sum(hits.values())} of {wanted}; accused {accused} of {healthy} healthy runs")
    for name, found in theirs.items():
        sick = sum(number for kind, number in found.items() if kind in MEANT)
        blamed = sum(number for kind, number in found.items() if kind.endswith(".healthy"))
        asked = sum(counts[kind] for kind in found if kind in MEANT)
        well = sum(counts[kind] for kind in found if kind.endswith(".healthy"))
        print(f"{name}: found {sick} of {asked}; accused {blamed} of {well} healthy runs")
    return int(sum(hits.values()) < 0.95 * wanted or accused > healthy / 100)


if __name__ == "__main__":
    raise SystemExit(main())
