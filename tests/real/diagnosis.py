"""The diagnosis beside what others make up: the runs of rlprobe 0.1.0 and rldoctor 0.2.0.

    python -m venv X && X/bin/pip install rlprobe==0.1.0 rldoctor==0.2.0
    python tests/real/diagnosis.py --python X/bin/python [--seeds 20]

Their generators fabricate healthy runs and runs with one trouble each. The table names, for each
kind, the signature that is meant, in how many runs it is found, the median onset as a share of the
run, and what else is found. The last lines give the recall, and the share of healthy runs that are
accused. rlprobe's columns are renamed to those of TRL; rldoctor's are TRL's own.
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
from rlprobe.testing.synth import generate_run
steps, seeds = int(sys.argv[1]), int(sys.argv[2])
PROBE = sys.argv[3].split()
def tell(kind, seed, rows):
    print(json.dumps([kind, seed, rows]), flush=True)
for kind in SCENARIOS:
    for seed in range(seeds):
        tell("doctor." + kind, seed, simulate(kind, n_steps=steps, seed=seed)[0])
for kind in PROBE:
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            pathology = None if kind == "healthy" else kind
            generate_run(folder, pathology=pathology, n_steps=steps, seed=seed)
            rows = pq.read_table(pathlib.Path(folder, "steps.parquet")).to_pylist()
        keep = [{k: v for k, v in row.items() if isinstance(v, (int, float))} for row in rows]
        tell("probe." + kind, seed, keep)
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
PROBE = ("healthy", *(kind.partition(".")[2] for kind in MEANT if kind.startswith("probe.")))


def runs(python: str, seeds: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the kind and the lines of each run."""
    words = [python, "-c", GENERATE, str(STEPS), str(seeds), " ".join(PROBE)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        for line in made.stdout:
            kind, _, rows = json.loads(line)
            yield kind, [{NAMES.get(name, name): row[name] for name in row} for row in rows]


def main() -> int:
    """Print the table; 1 if the recall is below 95 %, or a healthy run is accused."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", required=True, help="Python with rlprobe and rldoctor")
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    hits: collections.Counter[str] = collections.Counter()
    onsets: dict[str, list[float]] = collections.defaultdict(list)
    others: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for kind, rows in runs(given.python, given.seeds):
        metrics = MetricsReader()
        for row in rows:
            metrics.add(row)
        counts[kind] += 1
        meant = MEANT.get(kind)
        for finding in diagnose(metrics).findings:
            if finding.signature == meant:
                hits[kind] += 1
                onsets[kind].append(finding.onset / STEPS)
            else:
                others[kind][finding.signature] += 1
    for kind, count in counts.items():
        onset = f"{statistics.median(onsets[kind]):.2f}" if onsets[kind] else "-"
        beside = ", ".join(f"{name} {number}" for name, number in others[kind].items())
        print(f"{kind:26} {MEANT.get(kind, '-'):18} {hits[kind]:3} of {count}  {onset:5} {beside}")
    wanted = sum(counts[kind] for kind in MEANT)
    accused = sum(sum(others[kind].values()) for kind in counts if kind.endswith(".healthy"))
    healthy = sum(count for kind, count in counts.items() if kind.endswith(".healthy"))
    print(f"found {sum(hits.values())} of {wanted}; accused {accused} of {healthy} healthy runs")
    return int(sum(hits.values()) < 0.95 * wanted or accused > healthy / 100)


if __name__ == "__main__":
    raise SystemExit(main())
