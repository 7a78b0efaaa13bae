"""What a training is said to cost: only measured times count, and each sentence about money is
true."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute.limits import Limits
from hudtui.core.compute.values import Offer, Price
from hudtui.core.runs.forecast import Forecast, expected_cost, forecast, highest_cost
from hudtui.core.runs.spec import Rental, RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunSummary
from hudtui.core.training.plan import Continuation

Make = Callable[..., RunRecord]
START = 1_800_000_000.0


def rental(
    price: Price | None = None, *, gpu: str = "A100_80GB", count: int = 2, **more: Any
) -> Rental:
    price = price or Price(3.6)
    return Rental(
        "prime",
        "m",
        Offer("prime", "o", gpu, count, price, gpu_memory=80.0),
        price.hourly,
        price.currency,
        **more,
    )


def spec(rent: Rental | None = None, **more: Any) -> RunSpec:
    given: dict[str, Any] = {"steps": 200, "limits": Limits(25.0, 100.0, 24.0, 30.0)} | more
    return RunSpec(engine="trl", name="t", workspace="/w", rent=rent, **given)


def _ended(
    store: RunStore,
    make: Make,
    planned: RunSpec,
    *,
    run: str,
    steps: int = 11,
    each: float = 60.0,
    **more: Any,
) -> None:
    """Keep a run that has ended, with metrics of a line a step; `besides` seconds of its machine
    were no steps."""
    record = replace(make(run=run, **more), spec=planned, engine="trl")
    store.add(record)
    out = store.folder / run / "out"
    out.mkdir(parents=True)
    rows = [
        {
            "step": n + 1,
            "max_steps": steps,
            "time": START + n * each,
            "reward": 0.5,
            "step_time": 1.0,
        }
        for n in range(steps)
    ]
    (out / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _told(store: RunStore, planned: RunSpec, **more: Any) -> Forecast:
    found = forecast(planned, store, **{"ends": True, **more})
    assert found is not None
    return found


def test_a_time_that_was_not_measured_is_not_guessed(store: RunStore) -> None:
    found = _told(store, spec(rental()))
    assert (found.step, found.seconds, found.expected) == (None, None, None)
    assert found.text == (
        "The time of a step is not known yet: no run here has trained Qwen2.5-3B-Instruct on 2 x "
        "A100_80GB with these settings; at most about $25.90 by its limits."
    )
    assert "$" not in _told(store, spec(), gpu="1 x NVIDIA A100").text


def test_the_newest_run_of_the_same_work_gives_time_and_cost(store: RunStore, make: Make) -> None:
    _ended(store, make, spec(rental()), run="first", each=30.0)
    _ended(
        store, make, spec(rental(Price(9.0))), run="second", each=60.0
    )  # the price is no part of the work
    found = _told(store, spec(rental()))
    assert found.step is not None and (found.step.run, found.step.seconds, found.step.steps) == (
        "second",
        60.0,
        10,
    )
    assert found.seconds == 200 * 60.0 and found.expected == pytest.approx(
        12.0
    )  # 3 h 20 min at $3.60
    assert found.text == (
        "About $12.00 in all: 200 steps of 60 s as in run second, without the time of setup; at "
        "most about $25.90 by its limits."
    )
    assert not found.exceeds


@pytest.mark.parametrize(
    "other",
    [
        spec(rental(gpu="H100_80GB")),
        spec(rental(count=4)),
        spec(rental(), model="Qwen/Qwen2.5-7B-Instruct"),
        spec(rental(), training={"batch_size": 4}),
        spec(rental(), training={"lora": False}),
        spec(rental(), max_turns=3),
        spec(),
        spec(rental(), rehearse=True),
    ],
)
def test_other_work_says_nothing_about_this_one(
    store: RunStore, make: Make, other: RunSpec
) -> None:
    _ended(store, make, other, run="other")
    assert _told(store, spec(rental())).step is None


def test_settings_that_do_not_change_a_step_may_differ(store: RunStore, make: Make) -> None:
    _ended(
        store,
        make,
        spec(rental(), steps=10, learning_rate=1e-4, training={"temperature": 0.7}),
        run="other",
    )
    assert _told(store, spec(rental())).step is not None


def test_a_pause_between_two_attempts_is_no_time_of_a_step(store: RunStore, make: Make) -> None:
    _ended(store, make, spec(rental()), run="broken")
    file = store.folder / "broken" / "out" / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows[6:]:
        row["time"] += 100_000
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = _told(store, spec(rental()))
    assert found.step is not None and found.step.seconds == 60.0


@pytest.mark.parametrize(
    "text", ["", "{", '{"step": 1, "reward": 0.1, "time": 1800000000}\n', '{"step": "x"}\n' * 5]
)
def test_metrics_that_measure_nothing_give_nothing(store: RunStore, make: Make, text: str) -> None:
    _ended(store, make, spec(rental()), run="broken")
    (store.folder / "broken" / "out" / "metrics.jsonl").write_text(text)
    assert _told(store, spec(rental())).step is None


def test_a_continued_training_has_fewer_steps(store: RunStore, make: Make) -> None:
    _ended(store, make, spec(rental()), run="first")
    found = _told(store, spec(rental(), continues=Continuation("first", 150)))
    assert found.steps == 50 and found.expected == pytest.approx(3.0)


def test_limits_that_end_it_before_its_last_step_are_told(store: RunStore, make: Make) -> None:
    _ended(store, make, spec(rental()), run="first", each=600.0)
    found = _told(store, spec(rental()))
    assert found.exceeds and found.text.endswith("; its limits end it before the last step.")
    assert not _told(store, spec(rental(), limits=Limits(None, None, None, None))).exceeds


def test_on_a_machine_of_ones_own_it_is_a_time(store: RunStore, make: Make) -> None:
    _ended(store, make, spec(gpus=1, gpu_memory=40.0), run="first", host="me@box")
    found = _told(store, spec(gpus=1, gpu_memory=40.0), host="me@box")
    assert (
        found.text == "About 3 h 20 min: 200 steps of 60 s as in run first."
        and found.expected is None
    )
    assert _told(store, spec(gpus=1, gpu_memory=40.0), host="me@other").step is None


def test_prepaid_hours_are_in_the_expected_cost(store: RunStore, make: Make) -> None:
    _ended(store, make, spec(rental()), run="first")
    assert _told(store, spec(rental(Price(3.6, prepaid_hours=5)))).expected == pytest.approx(18.0)


@pytest.mark.parametrize(
    ("rent", "limits", "ends", "highest"),
    [
        (
            rental(),
            Limits(25.0, None, 24.0),
            True,
            25.9,
        ),  # and a quarter of an hour for the results
        (rental(), Limits(None, None, 2.0), True, 8.1),
        (rental(), Limits(1000.0, None, 2.0), True, 8.1),
        (rental(Price(3.6, prepaid_hours=10)), Limits(None, None, 2.0), True, 36.0),
        (rental(), Limits(None, None, None), True, None),
        (rental(), Limits(), False, None),  # with hudtui closed, nothing may end it
        (rental(keep_on_failure=True), Limits(), True, None),
        (rental(Price(3.6, variable=True)), Limits(), True, None),
        (rental(Price(0.0, stated=False)), Limits(), True, None),
    ],
)
def test_a_highest_cost_is_only_said_where_it_is_certain(
    rent: Rental, limits: Limits, ends: bool, highest: float | None
) -> None:
    found = highest_cost(rent, limits, ends=ends)
    assert found == (None if highest is None else pytest.approx(highest))


def test_without_a_certain_end_the_limits_are_no_promise(store: RunStore) -> None:
    text = _told(store, spec(rental()), ends=False).text
    assert "at most" not in text and text.endswith("; its limits stop the work at about $25.00.")


def test_rollouts_and_rehearsals_have_no_forecast(store: RunStore) -> None:
    assert forecast(replace(spec(), engine="rollouts"), store, ends=True) is None
    assert forecast(spec(rehearse=True), store, ends=True) is None


def test_the_whole_cost_of_a_run_that_is_at_work() -> None:
    summary = RunSummary(
        "r", "r", "trl", "pod", "/f", "running", machine="held", hourly=3.6, held_since=1000.0
    )
    assert expected_cost(spec(rental()), summary, 1800.0, 2800.0) == pytest.approx(
        3.6
    )  # half an hour so far, as much ahead
    assert expected_cost(
        spec(rental(Price(3.6, prepaid_hours=2))), summary, 1800.0, 2800.0
    ) == pytest.approx(7.2)
    for other in (
        replace(summary, machine="released"),
        replace(summary, hourly=None),
        replace(summary, held_since=None),
    ):
        assert expected_cost(spec(rental()), other, 1800.0, 2800.0) is None
    assert expected_cost(spec(rental()), summary, None, 2800.0) is None, "the pace is not known"
    assert expected_cost(spec(), summary, 1800.0, 2800.0) is None


def test_set_up_that_was_measured_is_in_the_expected_cost(
    store: RunStore, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ended(store, make, spec(rental()), run="first")
    summary = replace(
        store.summary("first"), state="finished", held_since=START - 600, released=START + 11 * 60.0
    )
    monkeypatch.setattr(store, "runs", lambda: (summary,))
    found = _told(store, spec(rental()))
    assert found.step is not None and found.step.besides == pytest.approx(600.0)
    assert found.expected == pytest.approx(3.6 * (200 * 60 + 600) / 3600)
    assert "and 10 min for setup and results" in found.text
    assert Path(store.folder / "first").is_dir()


def test_a_run_says_what_it_will_have_cost(capsys: pytest.CaptureFixture[str]) -> None:
    from hudtui.cli.runlog import print_view
    from hudtui.core.runs.status import RunView

    summary = RunSummary(
        "r", "r", "trl", "pod", "/f", "running", machine="held", hourly=3.6, held_since=time.time()
    )
    print_view(RunView(summary, left=1800.0, expected_cost=1.8))
    said = capsys.readouterr().out
    assert (
        ", at $3.60 an hour, about $1.80 until the last step" in said
        and "about 30m00s; the last step at about " in said
    )
    print_view(RunView(summary))
    assert "about" not in capsys.readouterr().out, "without a pace there is no forecast"
