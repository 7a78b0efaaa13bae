from __future__ import annotations

import json
import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.training.log_metrics import LogMetricsReader, parse_log_line
from hudtui.core.training.metrics import MetricsReader, best_series, quantity_named

TRL = (
    "{'loss': '-0.08111', 'grad_norm': '0.07575', 'learning_rate': '0.001', 'num_tokens': '211', "
    "'completions/mean_length': '29.75', 'rewards/env_reward/mean': '0.2827', 'reward': '0.2827', "
    "'reward_std': '0.3484', 'kl': '3.938e-06', 'entropy': '5.691', 'step_time': '2.491', 'epoch': "
    "'0.5'}"
)
LINES = {
    TRL: {
        "reward": 0.2827,
        "reward_std": 0.3484,
        "loss": -0.08111,
        "kl": 3.938e-06,
        "entropy": 5.691,
        "learning_rate": 0.001,
    },
    "  3%|▎ | 1/30 [00:02<01:10] {'loss': 0.5, 'epoch': 0.1}": {
        "loss": 0.5,
        "step": 1,
        "max_steps": 30,
    },
    "{'eval_loss': nan, 'loss': inf, 'reward': 1}": {"reward": 1},
    "Step 12 |  8.31s | Loss 0.0123 | Entropy 0.4567 | Mismatch KL 0.0008 | Grad. Norm 0.1234 | LR "
    "1.00e-05 | Throughput 10321 tokens/s | MFU 31.2% | Peak Mem. 42.1 GiB": {
        "step": 12,
        "step_time": 8.31,
        "loss": 0.0123,
        "entropy": 0.4567,
        "kl": 0.0008,
        "learning_rate": 1e-5,
        "tokens_per_s": 10321,
    },
    "16:01:12    INFO Step 12 |  9.02s | Reward 0.4321 | Trainable 96/128 (75.0%) | Turns 5.2 | "
    "Error 0.0%": {
        "step": 12,
        "reward": 0.4321,
        "step_time": 9.02,
    },
    "Step: 3 | Time: 1.50s | Reward: 0.5 | Seq. Length: 400.5 tokens/sample": {
        "step": 3,
        "step_time": 1.5,
        "reward": 0.5,
        "completion_length": 400.5,
    },
    '{"training_step": 4, "step": 9, "train/reward": 0.25, "train/reward_std_dev": 0.1, '
    '"loss/train": 2}': {
        "step": 9,
        "reward": 0.25,
        "reward_std": 0.1,
        "loss": 2,
    },
    '{"level": "INFO", "message": "Step 2 | 1.0s | Reward 0.75"}': {"step": 2, "reward": 0.75},
    '{"reward": {"mean": 0.5, "std": 0.25}, "step": 7}': {
        "step": 7,
        "reward": 0.5,
        "reward_std": 0.25,
    },
    "step 3/50 reward=0.25 reward_std=0.1 loss=1.5e-3 step_time=2.5s": {
        "step": 3,
        "max_steps": 50,
        "reward": 0.25,
        "loss": 0.0015,
    },
    "21:16:35    INFO rollout done: id=15039d... task=0 reward=0.167 turns=3 stop=done_tool": {
        "reward": 0.167
    },
    "gather step 1: 50%|█████     | 8/16 [00:10<00:10, reward=0.5, completion_tokens=23]": {
        "reward": 0.5,
        "step": 1,
        "completion_length": 23,
    },
    "Engine 000: Avg prompt throughput: 1,234.5 tokens/s, Avg generation throughput: 567.8 "
    "tokens/s, Running: 12 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.4%, Prefix cache hit rate: "
    "61.2%": {
        "tokens_per_s": 567.8,
        "GPU KV cache usage": 3.4,
    },
    "Engine 000: Avg generation throughput: 21.0 tokens/s, Running: 2 reqs, CPU KV cache usage: "
    "8.3%": {"CPU KV cache usage": 8.3},
}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:40])
def test_the_forms_of_trainers_are_known(line: str) -> None:
    row = parse_log_line(line)
    assert row is not None
    told = {quantity_named(name) or name: value for name, value in row.items()}
    for name, value in LINES[line].items():
        assert told[name] == pytest.approx(value), (name, row)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Uvicorn running on http://127.0.0.1:8000 (port=8000)",
        "2026-11-20 12:00:00,123 INFO retry=3 attempt=2",
        "rewarded: the prize",
        "loss of connection: 3 retries | port 80 | x",
        "{'name': 'x', 'port': 80}",
        "{" * 30_000,
        "=" * 30_000,
        "| a | b | c |",
    ],
)
def test_what_tells_no_quantity_is_no_metric(line: str) -> None:
    assert parse_log_line(line) is None


@given(st.text(alphabet="{}'\"=:|,. 0123456789eE-+naif%[]stepSTEPrewardloss\\\n\t", max_size=300))
def test_any_line_can_be_read(line: str) -> None:
    row = parse_log_line(line)
    assert row is None or all(isinstance(value, float) for value in row.values())


def test_lines_without_steps_are_counted_each_kind_by_itself() -> None:
    reader = LogMetricsReader()
    for number in range(4):
        reader.see(f"{{'loss': {number}, 'reward': 0.5}}")
        if number % 2:
            reader.see("{'eval_loss': 1.0, 'eval_reward': 0.25}")
    assert [point.x for point in reader.series("loss")] == [1, 2, 3, 4]
    assert [point.x for point in reader.series("eval_reward")] == [2, 4], (
        "an evaluation is of the step that was reached"
    )
    assert reader.named("reward") == "reward"


def test_a_log_is_read_in_any_pieces() -> None:
    data = "".join(f"{line}\n" for line in LINES).encode()
    whole, pieces, seed = LogMetricsReader(), LogMetricsReader(), random.Random(3)
    whole.feed(data)
    start = 0
    while start < len(data):
        end = start + seed.randrange(1, 40)
        pieces.feed(data[start:end])
        start = end
    assert {name: whole.series(name) for name in whole.names} == {
        name: pieces.series(name) for name in pieces.names
    }
    assert whole.named("kl") == "kl" and whole.max_step == 50


def test_a_number_that_is_none_is_told_until_it_is_one_again() -> None:
    reader = LogMetricsReader()
    reader.see("step 1 loss=0.5")
    reader.see("step 2 loss=nan")
    reader.see("step 3 loss=nan")
    assert [(wrong.name, wrong.x, wrong.count) for wrong in reader.wrong] == [("loss", 2, 2)]
    assert reader.not_finite == 2
    reader.see("step 4 loss=0.25")
    assert reader.wrong == () and [point.y for point in reader.series("loss")] == [0.5, 0.25]


def test_long_series_stay_small_and_true() -> None:
    reader = MetricsReader()
    for start in range(0, 100_000, 1000):
        lines = [
            f'{{"step": {step}, "reward": {math.sin(step / 5000):.6f}, "time": {1.7e9 + step}}}'
            for step in range(start, start + 1000)
        ]
        reader.feed(("\n".join(lines) + "\n").encode())
    points = reader.series("reward")
    assert 2000 <= len(points) <= 4096 and len(reader.rows) <= 10_000 and reader.count == 100_000
    assert all(before.x < after.x for before, after in pairwise(points))
    assert max(abs(point.y - math.sin(point.x / 5000)) for point in points) < 0.01
    last = reader.last("reward")
    assert last is not None and last.x == 99_999 and last.at == pytest.approx(1.7e9 + 99_999)


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    reader = MetricsReader()
    for _ in range(5):
        reader.feed(b"x" * 1_000_000)
    assert len(reader._rest) <= 1024 * 1024
    reader.feed(b'\n{"reward": 1}\n')
    assert reader.series("reward")[0].y == 1 and reader.bad == 1


def test_steps_that_were_done_again_are_shown_once() -> None:
    reader = MetricsReader()
    for step, reward in ((1, 0.1), (2, 0.2), (3, 0.3), (2, 0.25), (3, 0.35)):
        reader.feed(f'{{"step": {step}, "reward": {reward}}}\n'.encode())
    assert [(point.x, point.y) for point in reader.series("reward")] == [
        (1, 0.1),
        (2, 0.25),
        (3, 0.35),
    ]


def test_the_name_that_tells_most_is_taken() -> None:
    names = ("rewards/env_reward/mean", "eval_reward", "reward", "Mismatch KL", "LR")
    assert best_series("reward", names) == "reward"
    assert best_series("kl", names) == "Mismatch KL"
    assert best_series("learning_rate", names) == "LR"
    assert best_series("loss", names) is None


def test_every_number_of_a_wide_object_is_read() -> None:
    row = {"step": 3, **{f"part_{number}/value": float(number) for number in range(600)}}
    found = parse_log_line(json.dumps(row))
    assert found == row
