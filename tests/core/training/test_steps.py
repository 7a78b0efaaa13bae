"""The steps of a foreign log: as its trainer counts them, however it prints, is resumed, or is run
by several processes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from hudtui.core.training.log_metrics import LogMetricsReader
from hudtui.core.training.metrics import MetricsReader, Point, best_series, quantity_named

STEPS, AN_EPOCH = 130, 30


def bar(step: int, of: int = STEPS, about: str = "") -> str:
    """A progress bar as tqdm draws it, over what stands there."""
    return (
        f"\r{about}{step * 100 // of:3}%|{'█' * (step * 10 // of):<10}| {step}/{of} [00:01<00:02, "
        "100.25it/s]"
    )


def trainer(
    *,
    every: int = 10,
    evaluated: int = 0,
    held_back: bool = False,
    begin: int = 0,
    end: int = STEPS,
    drawn: int = 7,
) -> bytes:
    """What a training of transformers writes: bars to one stream, lines to the other, which Python
    may hold back in bunches.

    The bar before a line may be some steps old, since tqdm draws it each tenth of a second, after
    so many steps (`drawn`); it is taken away for the line, and drawn again after it.
    """
    out, kept = [bar(begin)], list[str]()

    def told(line: str, step: int) -> None:
        out.append("\r" + " " * 50 + "\r")
        kept.append(line + "\n")
        if not held_back:
            let_go()
        elif len(whole := "".join(kept)) > 300:  # the buffer is full, in the middle of a line
            out.append(whole[:300])
            kept[:] = [whole[300:]]
        out.append(bar(step))

    def let_go() -> None:
        out.append("".join(kept))
        kept.clear()

    for step in range(begin + 1, end + 1):
        if step % drawn == 0:
            out.append(bar(step))
        if step % every == 0:
            told(
                f"{{'loss': '{1 / step:.4g}', 'reward': '{step / 1000:.4g}', 'epoch': "
                f"'{step / AN_EPOCH:.4g}'}}",
                step,
            )
        if evaluated and step % evaluated == 0:
            let_go()
            out.append("\n" + bar(0, 2) + "\x1b[A")
            told(f"{{'eval_reward': '{step / 500:.4g}', 'epoch': '{step / AN_EPOCH:.4g}'}}", step)
            out += ["\n", bar(2, 2), "\x1b[A\n\r", " " * 40, "\x1b[A"]
    out.append(bar(end) + "\n")
    let_go()
    if end == STEPS:
        out.append(
            f"{{'train_runtime': '12.5', 'train_loss': '0.3', 'epoch': '{end / AN_EPOCH:.4g}'}}\n"
        )
    return "".join(out).encode()


def steps(reader: MetricsReader, name: str) -> list[float]:
    return [point.x for point in reader.series(name)]


def read(data: bytes, piece: int = 1 << 20) -> LogMetricsReader:
    reader = LogMetricsReader()
    for start in range(0, len(data), piece):
        reader.feed(data[start : start + piece])
    reader.end()
    return reader


@pytest.mark.parametrize("held_back", [False, True])
@pytest.mark.parametrize("evaluated", [0, 20])
@pytest.mark.parametrize("every", [1, 10, 50])
@pytest.mark.parametrize("piece", [1 << 20, 97])
@pytest.mark.parametrize("drawn", [7, STEPS])
def test_steps_are_those_of_the_bar(
    every: int, evaluated: int, held_back: bool, piece: int, drawn: int
) -> None:
    log = trainer(every=every, evaluated=evaluated, held_back=held_back, drawn=drawn)
    reader = read(log, piece)
    logged = list(range(every, STEPS + 1, every))
    assert steps(reader, "reward") == logged
    assert [point.y for point in reader.series("reward")] == [
        float(f"{step / 1000:.4g}") for step in logged
    ]
    assert steps(reader, "eval_reward") == (
        list(range(evaluated, STEPS + 1, evaluated)) if evaluated else []
    )
    assert steps(reader, "train_loss") == [STEPS] and reader.max_step == STEPS
    assert reader.named("reward") == "reward" and reader.named("loss") == "loss"


def test_a_resumed_training_continues_in_the_same_log() -> None:
    reader = read(trainer(end=97) + trainer(begin=80))
    assert steps(reader, "reward") == list(range(10, STEPS + 1, 10))
    assert read(trainer(end=97) + trainer(end=40)).newest == (40, None), (
        "begun anew: what was above is of another training"
    )


def test_bars_of_other_work_are_not_the_trainings() -> None:
    before = (
        bar(1000, 1000, "Map: ")
        + "\n"
        + bar(3, 4, "Loading checkpoint shards: ")
        + "\n"
        + bar(77, 77)
        + "\n"
    )
    between = bar(3, 16, "Processed prompts: ").encode()
    whole = trainer(evaluated=20)
    for mark in (b"\r", b"\n"):
        data = before.encode() + whole.replace(bar(40).encode(), between + mark + bar(40).encode())
        assert steps(read(data), "reward") == list(range(10, STEPS + 1, 10))
        assert steps(read(data), "eval_reward") == list(range(20, STEPS + 1, 20))


def test_a_bar_with_a_name_counts_and_a_line_beside_it_has_the_step_before() -> None:
    lines = "".join(
        f"{bar(step, 9, 'Train: ')}\n{{'loss': {step}, 'epoch': 0.{step}}}\n" for step in (3, 6, 9)
    )
    assert steps(read(lines.encode()), "loss") == [3, 6, 9]
    printed = "".join(
        f"{bar(step, 9)}{{'loss': {step}, 'epoch': 0.{step}}}\n{bar(step + 1, 10)}"
        for step in (3, 6, 8)
    )
    assert steps(read(printed.encode()), "loss") == [3, 6, 8]


@pytest.mark.parametrize(
    "before", ["", "2026-11-20T10:00:00Z ", "pod-1 | ", "[rank0]: ", "(main pid=7) "]
)
def test_returns_that_became_line_ends(before: str) -> None:
    lines = trainer(evaluated=20).decode().replace("\r", "\n").split("\n")
    reader = read("".join(f"{before}{line}\n" for line in lines).encode())
    assert steps(reader, "reward") == list(range(10, STEPS + 1, 10))
    assert steps(reader, "eval_reward") == list(range(20, STEPS + 1, 20))


@pytest.mark.parametrize("room", [0, 500_000])
def test_a_long_time_between_two_lines(room: int) -> None:
    waits = bar(9) * (room // len(bar(9)))
    data = (
        trainer()
        .replace(bar(9).encode(), b"")
        .replace(bar(14).encode(), bar(14).encode() + waits.encode())
    )
    assert steps(read(data, 65_536), "reward") == list(range(10, STEPS + 1, 10))


def test_equal_epochs_are_one_step_where_nothing_else_tells_it() -> None:
    lines = [f"{{'loss': {n}, 'epoch': {n / 10}}}" for n in range(1, 6)]
    lines[3:3] = ["{'eval_reward': 0.05, 'epoch': 0.3}"]
    lines += ["{'train_runtime': 12.5, 'train_loss': 0.3, 'epoch': 0.5}"]
    reader = read("\n".join(lines).encode())
    assert steps(reader, "loss") == [1, 2, 3, 4, 5]
    assert steps(reader, "eval_reward") == [3] and steps(reader, "train_loss") == [5]
    twice = read("\n".join(line for line in lines for _ in range(2)).encode())
    assert steps(twice, "loss") == [1, 2, 3, 4, 5] and steps(twice, "eval_reward") == [3]
    again = read("\n".join(lines[:5] + lines[1:3] + ["{'loss': 9, 'epoch': 0.35}"]).encode())
    assert [(point.x, point.y) for point in again.series("loss")] == [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 9),
    ]
    assert steps(again, "eval_reward") == [], "it came after the step that was resumed from"


RANKS = (
    "[rank{rank}]: {row}",
    "rank {rank}: {row}",
    "[default{rank}]:{row}",
    "[1,{rank}]<stdout>:{row}",
    "{rank}: {row}",
    "2026-11-20 10:00:0{rank} INFO rank={rank} {row}",
)


@pytest.mark.parametrize("form", RANKS)
@pytest.mark.parametrize("named", [False, True])
def test_several_processes_count_once(form: str, named: bool) -> None:
    def line(rank: int, step: int) -> str:
        own = f"'step': {step}, " if named else ""
        return form.format(
            rank=rank, row=f"{{{own}'loss': {step + rank / 100}, 'epoch': {step / 10}}}"
        )

    in_turns = [line(rank, step) for step in (1, 2, 3) for rank in (0, 1)]
    behind = [line(0, 1), line(0, 2), line(1, 1), line(0, 3), line(1, 2), line(1, 3)]
    for lines in (in_turns, behind):
        reader = LogMetricsReader()
        shown = [row for text in lines if (row := reader.see(text)) is not None]
        assert [(point.x, point.y) for point in reader.series("loss")] == [(1, 1), (2, 2), (3, 3)]
        assert [row["step"] for row in shown] == [1, 2, 3]


def test_processes_that_tell_their_rank_in_json() -> None:
    lines = [
        f'{{"rank": {rank}, "step": {step}, "reward": {step + rank}}}'
        for step in (1, 2)
        for rank in (0, 1)
    ]
    assert [point.y for point in read("\n".join(lines).encode()).series("reward")] == [1, 2]


LINES = {
    '{"current_steps": 20, "total_steps": 50, "loss": 0.5, "lr": 1e-5, "epoch": 0.4, "percentage": '
    "40.0}": 20,
    '{"_step": 3, "train/global_step": 30, "train/loss": 0.5}': 30,
    '{"_step": 3, "trainer/global_step": 30, "policy/final_loss": 0.5}': 30,
    '{"step": 7, "data": {"critic/rewards/mean": 0.5, "training/global_step": 7}}': 7,
    '{"global_step/max_steps": "10/100", "loss": 0.5, "percentage": "10%"}': 10,
    "✨ Global step 10: {'policy_loss': 0.25, 'reward': 0.5, 'kl': 0.01}": 10,
    "Evaluation completed in 12 s, global_step 10, eval_metrics: {'eval_gsm8k_pass1': 0.5}": 10,
    "Step 4 | loss:1.25 lr:2e-05 tokens_per_second_per_gpu:800.5 ": 4,
    "(TaskRunner pid=4242) step:3 - actor/entropy:0.48 - critic/rewards/mean:np.float64(0.4) - "
    "grad_norm:mean:0.5": 3,
    "\x1b[36m(TaskRunner pid=4242)\x1b[0m step:3 - critic/score/mean:nan - "
    "val-core/gsm8k/reward/mean@1:0.55": 3,
    "Evaluated math (Step 3) | 12.00s | Avg@8 0.5 | Loss 0.25": 3,
    "{'loss': tensor(0.5, device='cuda:0'), 'global_step': np.int64(12)}": 12,
    "Step 12 | 8.31s | Loss 0.0123": 12,
}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:30])
def test_a_line_that_names_its_step(line: str) -> None:
    reader = LogMetricsReader()
    reader.see(line)
    assert reader.told or reader.wrong, line
    assert all(steps(reader, name) == [LINES[line]] for name in reader.names) and reader.count == 1


def test_results_below_the_heading_of_a_step() -> None:
    log = "".join(
        f"\n{'=' * 25} Step {step}/100 {'=' * 25}\n▶ Preparing batch...\n📊 Training Results:\n  • "
        f"Loss: {step / 10:.4f}\n"
        f"  • Generation KL Error: 0.0010\n  • Avg Reward: {step / 100:.4f}\n  • Mean Generation "
        "Length: 201.2197\n"
        "  • Total step time: 35.70s\n    - E2E (Samples/sec/gpu): 3.59\n"
        for step in (1, 2)
    )
    reader = read(log.encode())
    found = {name: reader.quantity(name) for name in reader.told}
    assert {name: [(point.x, point.y) for point in points] for name, points in found.items()} == {
        "reward": [(1, 0.01), (2, 0.02)],
        "loss": [(1, 0.1), (2, 0.2)],
        "kl": [(1, 0.001), (2, 0.001)],
        "completion_length": [(1, 201.2197), (2, 201.2197)],
        "step_time": [(1, 35.7), (2, 35.7)],
    }
    assert reader.max_step == 100
    assert LogMetricsReader().see("  • Loss: 0.5") is None, "without a heading it is some text"


NAMES = {
    "reward": (
        "critic/score/mean critic/rewards/mean data/critic/rewards/mean "
        "train/agg/effective/player/reward/mean train/reward env/all/reward/total "
        "reward/avg_raw_reward loss/avg_final_rewards objective/rlhf_reward rewards"
    ),
    "kl": (
        "actor/ppo_kl actor/kl_loss optim/kl_sample_train_v1 policy/policy_kl objective/kl "
        "train/gen_kl_error train/kl kl_loss"
    ),
    "entropy": (
        "actor/entropy optim/entropy policy/policy_entropy train/approx_entropy train/entropy_loss "
        "entropy/all/mean"
    ),
    "completion_length": (
        "response_length/mean train/response_length generate/avg_num_tokens "
        "env/all/ac_tokens_per_turn response_lengths train/completions/mean_length "
        "train/mean_gen_tokens_per_sample"
    ),
    "grad_norm": (
        "actor/grad_norm optim/grad_norm policy/raw_grad_norm train/grad_norm grad_norm:mean "
        "train/actor_grad_norm"
    ),
    "loss": "actor/pg_loss policy/final_loss train/policy_loss train/loss loss/mean policy_loss",
    "learning_rate": "actor/lr optim/lr policy/policy_lr train/learning_rate train/actor_lr lr",
    "eval_reward": (
        "eval_reward eval/reward val-core/openai/gsm8k/acc/mean@1 val-core/gsm8k/reward/mean@1 "
        "eval/all/avg_score test/env/all/reward/total eval/eval_gsm8k_pass1 validation/accuracy "
        "eval/math/effective/player/avg@8"
    ),
    "eval_loss": "eval_loss eval/loss val/loss validation/loss",
}


@pytest.mark.parametrize("quantity", NAMES)
def test_the_names_of_trainers(quantity: str) -> None:
    assert {name: quantity_named(name) for name in NAMES[quantity].split()} == dict.fromkeys(
        NAMES[quantity].split(), quantity
    )


def test_what_is_of_an_evaluation_or_a_sum_is_no_quantity_of_a_step() -> None:
    for name in (
        "eval/runtime",
        "eval_kl",
        "val-aux/x/reward/std@4",
        "test/env/all/turns_per_episode",
        "critic/vf_loss",
        "rewarded",
    ):
        assert quantity_named(name) is None, name
    assert best_series("reward", ("eval_reward", "train/reward")) == "train/reward"
    assert best_series("reward", ("eval_reward", "val-core/x/reward/mean@1")) is None
    reader = MetricsReader()
    reader.feed(b'{"step": 9, "train_loss": 0.5, "train_runtime": 12}\n')
    assert reader.named("loss") is None and reader.series("train_loss") == (Point(9, 0.5),)


def shuffled(seed: int) -> Iterator[tuple[int, float]]:
    """A run of 300 steps that is resumed at lower steps again and again, with several lines a
    step."""
    chance, step = random.Random(seed), 0
    while step < 300:
        step = max(step - chance.randrange(1, 60), 1) if chance.random() < 0.02 else step + 1
        for _ in range(chance.choice((1, 1, 3))):
            yield step, chance.random()


@pytest.mark.parametrize("seed", range(5))
def test_a_lower_step_cuts_what_was_above_it(seed: int) -> None:
    reader, wanted, before = MetricsReader(), dict[int, float](), 0
    for step, value in shuffled(seed):
        if step < before:
            wanted = {one: old for one, old in wanted.items() if one < step}
        wanted[step], before = value, step
        reader.add({"step": step, "reward": value, **({"custom": value} if step % 10 == 0 else {})})
        last = reader.last("reward")
        assert last is not None and (last.x, last.y) == (step, value)
    assert [(point.x, point.y) for point in reader.series("reward")] == sorted(wanted.items())
    assert [(point.x, point.y) for point in reader.series("custom")] == sorted(
        (step, value) for step, value in wanted.items() if step % 10 == 0
    ), "series that are seldom written are cut with the others"


def test_what_another_process_wrote_at_the_same_time_cuts_nothing() -> None:
    reader = MetricsReader()
    for step in (1, 2, 4):
        reader.add({"step": step, "loss": step, "time": 1.7e9 + step})
    for step in (1, 2, 3):
        reader.add({"step": step, "loss": -step, "time": 1.7e9 + step + 0.1})
    assert [(point.x, point.y) for point in reader.series("loss")] == [
        (1, 1),
        (2, 2),
        (3, -3),
        (4, 4),
    ]
    reader.add({"step": 2, "loss": 9, "time": 1.7e9 + 60})
    assert [(point.x, point.y) for point in reader.series("loss")] == [(1, 1), (2, 9)], (
        "later in time: resumed"
    )


@pytest.mark.parametrize("count", [3, 400])
def test_last_lowest_and_highest_are_of_the_same_values(count: int) -> None:
    reader, chance = MetricsReader(), random.Random(1)
    values = [(step, chance.random()) for step in range(500) for _ in range(count)]
    for step, value in values:
        reader.add({"step": step, "loss": value})
    raw = [value for _, value in values]
    assert reader.span("loss") == (min(raw), max(raw))
    points = reader.series("loss")
    assert points[-1].y == raw[-1] and [point.x for point in points] == list(range(500))


def test_the_newest_value_of_a_long_series_is_no_mean() -> None:
    reader = MetricsReader()
    for step in range(10_001):
        reader.add({"step": step, "loss": float(step % 2)})
        if step % 997 == 0:
            assert reader.series("loss")[-1] == Point(step, float(step % 2)) and reader.span(
                "loss"
            ) == (0, min(step, 1))
    assert len(reader.series("loss")) <= 4096


def test_a_terminal_shows_only_the_newest_bar() -> None:
    reader = LogMetricsReader()
    told = [f"{{'reward': {step / 100}, 'epoch': {step / 50}}}" for step in (10, 20, 30)]
    reader.see_screen(told[:2], bar(27, 50).strip("\r"))
    reader.see_screen([], bar(29, 50).strip("\r"))
    reader.see_screen(told[2:], bar(30, 50).strip("\r"))
    assert steps(reader, "reward") == [10, 20, 30] and reader.max_step == 50


def drawn(step: int, of: int, numbers: str, about: str = "") -> str:
    """A progress bar with numbers behind it, or before it."""
    return bar(step, of, about).replace("it/s]", f"it/s{', ' if numbers else ''}{numbers}]")


def shown(reader: MetricsReader, quantity: str) -> list[tuple[float, float]]:
    return [(point.x, point.y) for point in reader.quantity(quantity)]


@pytest.mark.parametrize("piece", [1 << 20, 61])
def test_a_log_of_progress_bars_alone_has_a_value_for_each_step(piece: int) -> None:
    bars = "".join(
        drawn(step, 3000, f"loss={1 / step:.4f}, reward={step / 10}") for step in range(1, 3001)
    )
    reader = read(bars.encode(), piece)
    assert (
        shown(reader, "loss") == [(step, float(f"{1 / step:.4f}")) for step in range(1, 3001)]
        and reader.max_step == 3000
    )
    redrawn = (
        drawn(4, 9, "loss=1")
        + drawn(5, 9, "loss=1")
        + drawn(5, 9, "loss=2")
        + "\n"
        + drawn(6, 9, "loss=3")
    )
    assert shown(read(redrawn.encode(), piece), "loss") == [(4, 1), (5, 2), (6, 3)]


def test_bars_that_begin_anew_with_each_epoch() -> None:
    for first, form in ((1, "Epoch {}/2: "), (0, "Epoch {}: "), (1, "Train epoch [{}/2]: ")):
        log = "".join(
            drawn(step, 4, f"train_loss={step}", form.format(epoch + first))
            for epoch in (0, 1)
            for step in (2, 4)
        )
        assert shown(read(log.encode()), "loss") == [(2, 2), (4, 4), (6, 2), (8, 4)], form
    torchtune = "".join(
        drawn(step - begin, 2, "", f"{begin // 2 + 1}|{step}|Loss: {step}.5: ")
        for begin in (0, 2)
        for step in (begin + 1, begin + 2)
    )
    assert shown(read(torchtune.encode()), "loss") == [(1, 1.5), (2, 2.5), (3, 3.5), (4, 4.5)]


def test_bars_within_a_step_give_way_to_the_trainers_own_lines() -> None:
    def line(step: int) -> str:
        within = "".join(
            f"(Actor pid=7) {drawn(n, 4, 'act_loss=9, reward=8', 'Train epoch [1/1]: ')}\n"
            for n in (2, 4)
        )
        return within + (
            f"(Trainer pid=8) Global step {step}: {{'policy_loss': 0.{step}, 'reward': "
            f"0.{step}5}}\n"
        )

    reader = read("".join(map(line, (1, 2, 3))).encode())
    assert shown(reader, "reward") == [(1, 0.15), (2, 0.25), (3, 0.35)] and shown(
        reader, "loss"
    ) == [
        (1, 0.1),
        (2, 0.2),
        (3, 0.3),
    ]
    assert set(reader.names) == {"policy_loss", "reward"} and reader.max_step is None
    beside = "".join(
        drawn(n, 6, f"loss={n}") + (f"\nstep {n}: val loss: 0.{n}\n" if n % 3 == 0 else "")
        for n in range(1, 7)
    )
    both = read(beside.encode())
    assert steps(both, "loss") == [1, 2, 3, 4, 5, 6] and shown(both, "eval_loss") == [
        (3, 0.3),
        (6, 0.6),
    ]


@pytest.mark.parametrize("piece", [1 << 20, 7])
def test_lines_that_overwrite_each_other(piece: int) -> None:
    reader = read(
        "\r".join(f"step={n} loss=0.{n}" for n in range(1, 6)).encode()
        + b"\r\nstep=6 loss=0.6\r\n",
        piece,
    )
    assert shown(reader, "loss") == [(n, n / 10) for n in range(1, 7)]


PRINTED = (
    "{'epoch': 0.1,\n 'reward': 0.5,\n 'loss': np.float64(0.25),\n 'step': 10}\n",
    '{\n  "step": 10,\n  "reward": 0.5,\n  "more": {\n    "x": 1\n  },\n  "loss": 0.25\n}\n',
    "(Runner pid=1) {'step': 10,\n(Runner pid=1)  'reward': 0.5,\n(Runner pid=1)  'loss':\n(Runner "
    "pid=1)  0.25}\n",
)


@pytest.mark.parametrize("text", PRINTED)
def test_a_dictionary_over_several_lines_is_one(text: str) -> None:
    reader = read(text.encode())
    assert shown(reader, "reward") == [(10, 0.5)] and shown(reader, "loss") == [(10, 0.25)]
    follows = read((text + "step=20 reward=1 loss=2\n").encode())
    assert shown(follows, "reward") == [(10, 0.5), (20, 1)]
    lost = read(
        (
            text.rpartition("\n")[0].rpartition("\n")[0] + "\nsomething else\nstep=20 reward=1\n"
        ).encode()
    )
    assert shown(lost, "reward") == [(20, 1)], "its end is missing"


def test_a_printed_configuration_is_no_metric() -> None:
    config = (
        "{'actor': {'optim': {'lr': 1e-06,\n                     'decay': 0.01}},\n 'steps': 15,\n "
        "'kl_coef': 0.1}\n"
    )
    said = "  Gradient Accumulation steps = 4\n  Total optimization steps = 93\n"
    reader = read((config + said + "step=1 reward=0.5\n").encode())
    assert reader.names == ("reward",) and reader.newest == (1, None)


def test_an_evaluation_without_a_step_is_of_the_step_that_was_reached() -> None:
    said = "'Final validation metrics: {'val-core/gsm8k/reward/mean@1': 0.75}'"
    prime = (
        "Evaluated math500 in 12.00s (Avg@4=0.75, Pass@1: 0.5, Completion Length: 500.00 (±10.00, "
        "∈[1.00, 3.00]))"
    )
    nemo = (
        "📊 Validation Results:\n    • Accuracy: 0.75\n    • Average response length: 100.0 tokens"
    )
    for text, log in (
        (said, "step=19 reward=1\n{}\nstep=20 reward=2\n"),
        (prime, "Step 19 | Reward: 1\n{}\nStep 20 | Reward: 2\n"),
    ):
        reader = read(log.format(text).encode())
        assert shown(reader, "eval_reward") == [(19, 0.75)] and shown(reader, "reward") == [
            (19, 1),
            (20, 2),
        ]
    log = (
        f"== Step 19/100 ==\n{nemo}\n📊 Training Results:\n  • Avg Reward: 1\n== Step 20/100 ==\n"
        "  • Avg Reward: 2\n"
    )
    listed = read(log.encode())
    assert shown(listed, "eval_reward") == [(19, 0.75)] and shown(listed, "reward") == [
        (19, 1),
        (20, 2),
    ]
    assert shown(read(nemo.encode()), "eval_reward") == [(0, 0.75)], "before the first step"


def test_the_time_of_the_training_so_far_sums_nothing_up() -> None:
    line = (
        "{{'loss': {0}, 'epoch': 0.{0}, 'train_runtime': {0}0.5, 'train_tokens_per_second': "
        "99.0}}\n"
    )
    last = (
        "{'train_runtime': 30.5, 'train_samples_per_second': 1.0, 'train_loss': 7, 'epoch': 0.3}\n"
    )
    reader = read(("".join(map(line.format, (1, 2, 3))) + last).encode())
    assert shown(reader, "loss") == [(1, 1), (2, 2), (3, 3)] and steps(reader, "train_loss") == [3]


FORMS = {
    "step=1,200 loss=0,25 reward=1.234,5": (1200, 0.25, 1234.5),
    "Step 1_200 | Loss: 0.25 | Reward: 1,234.5": (1200, 0.25, 1234.5),
    "step 1200: loss: 0.25, reward: 1'234.5": (1200, 0.25, 1234.5),
    "{'step': 1200, 'loss': '0,25', 'reward': '1\u202f234,5'}": (1200, 0.25, 1234.5),
    "12:00:01 | INFO     | \x1b[36mStep 1200\x1b[0m | Loss: \x1b[38;2;1;2;3m0.25\x1b[m | "
    "\x1b(BReward: 1234.5": (
        1200,
        0.25,
        1234.5,
    ),
    "\x1b]8;;http://x\x1b\\step=1200\x1b]8;;\x07 loss=\u22120.25 reward=1234.5": (
        1200,
        -0.25,
        1234.5,
    ),
    "Epoch 1 Step 1200 - loss: 0.25 - reward: 1234.5": (1200, 0.25, 1234.5),
    "[Iter 1200/5000] train loss: 2.5e-1, lr: 1e-5, mean reward: 1.2345e3": (1200, 0.25, 1234.5),
    '{"iteration": 1200, "loss": 0.25, "reward": 1234.5}': (1200, 0.25, 1234.5),
    '{"step": 1200, "text": "' + "x" * 50_000 + '", "loss": 0.25, "reward": 1234.5}': (
        1200,
        0.25,
        1234.5,
    ),
    "{"
    + "".join(f'"m/{n}": {n}, ' for n in range(3000))
    + '"step": 1200, "loss": 0.25, "reward": 1234.5}': (1200, 0.25, 1234.5),
}


@pytest.mark.parametrize("line", FORMS, ids=lambda line: line[:30])
def test_numbers_in_all_forms(line: str) -> None:
    reader = read(f"{line}\n".encode())
    step, loss, reward = FORMS[line]
    assert shown(reader, "loss") == [(step, loss)] and shown(reader, "reward") == [(step, reward)]


@pytest.mark.parametrize(
    "form",
    [
        "global_rank: {rank} | {row}",
        "[GPU {rank}] {row}",
        "[pod/worker-{rank}/train] {row}",
        "[RANK {rank}] {row}",
    ],
)
def test_other_processes_count_once_too(form: str) -> None:
    lines = [
        form.format(rank=rank, row=f"step={step} loss={step}.{rank}")
        for step in (1, 2)
        for rank in (0, 1)
    ]
    assert shown(read("\n".join(lines).encode()), "loss") == [(1, 1.0), (2, 2.0)]


def test_the_parts_of_a_reward_are_known_by_their_names() -> None:
    reader = MetricsReader()
    names = (
        "rewards/format/mean",
        "rewards/format/std",
        "train/rewards/Correct",
        "rewards/env_reward/mean",
        "rewards/chosen",
        "foo",
    )
    reader.add({"step": 1, "reward": 0.5, **dict.fromkeys(names, 0.25)})
    assert reader.parts == {
        "rewards/format": "rewards/format/mean",
        "rewards/Correct": "train/rewards/Correct",
        "rewards/chosen": "rewards/chosen",
    }


def test_a_known_quantity_is_kept_behind_any_number_of_others() -> None:
    reader = MetricsReader()
    for step in range(3):
        reader.add(
            {
                "step": step,
                **{f"invented/{step}/{number}": 1 for number in range(400)},
                "reward": step,
            }
        )
    assert shown(reader, "reward") == [(0, 0), (1, 1), (2, 2)]
    late = MetricsReader()
    late.add({"step": 0, **{f"invented/{number}": 1 for number in range(900)}})
    late.add({"step": 1, "reward": 0.5})
    assert shown(late, "reward") == [(1, 0.5)] and len(late.names) < 900
