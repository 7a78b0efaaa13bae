from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core import trust
from hudtui.core.diagnosis.alarms import USUAL, find_alarms, read_thresholds
from hudtui.core.diagnosis.facts import Alarm, LogSymptom, RunFacts, StageFacts, reward_spread
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.symptoms import find_symptom, find_symptoms
from hudtui.core.platform import HUD
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.logs import TailReader
from hudtui.core.runs.status import read_gpus, time_left
from hudtui.core.settings import ALARM_SETTINGS, folder_powers, save_user_setting
from hudtui.core.training.engines import features_of
from hudtui.core.training.metrics import MetricsReader, NotFiniteStreak, Point

TRAIN = StageFacts("train", "running", quiet=1.0)
SERVE = StageFacts("serve", "ready", service=True, quiet=1.0)


def told(**facts: Any) -> list[tuple[str, str]]:
    return [
        (alarm.kind, alarm.level)
        for alarm in find_alarms(RunFacts(active=facts.pop("active", True), **facts))
    ]


def points(*values: float) -> Sequence[Point]:
    return [Point(float(place), value) for place, value in enumerate(values)]


def test_nothing_is_wrong() -> None:
    assert (
        told(silent=2.0, stages=(SERVE, TRAIN), disk_free=10**12, spread=points(0, 0, 0, 0, 0.1))
        == []
    )
    assert find_alarms(RunFacts(active=False)) == ()


@pytest.mark.parametrize(
    ("facts", "alarm"),
    [
        ({"silent": 16.0}, ("heartbeat", "error")),
        ({"stages": (StageFacts("train", "running", quiet=301.0),)}, ("quiet", "warning")),
        (
            {"stages": (TRAIN,), "signs": (LogSymptom("memory", "train", "CUDA out of memory"),)},
            ("memory", "error"),
        ),
        ({"stages": (StageFacts("train", "ended", exit=-9),)}, ("memory", "error")),
        ({"wrong": (NotFiniteStreak("loss", 3.0, 2),)}, ("not-a-number", "error")),
        ({"spread": points(0.1, 0, 0, 0, 0, 0)}, ("constant-reward", "warning")),
        ({"stages": (StageFacts("serve", "ended", True, 1), TRAIN)}, ("server", "warning")),
        (
            {
                "stages": (
                    StageFacts("serve", "ended", True, 1),
                    StageFacts("train", "running", quiet=61.0),
                )
            },
            ("server", "error"),
        ),
        (
            {"signs": (LogSymptom("no-spread", "train", "nothing was learned"),)},
            ("no-spread", "warning"),
        ),
        ({"broken": points(0, 0.5)}, ("episodes-break", "warning")),
        ({"disk_free": 2 * 1024**3}, ("disk", "warning")),
        ({"disk_free": 1024**2}, ("disk", "error")),
        ({"memory_used": 95.0 * 2**30, "memory_total": 100.0 * 2**30}, ("memory", "warning")),
    ],
)
def test_each_trouble_is_told(facts: dict[str, Any], alarm: tuple[str, str]) -> None:
    assert told(**facts) == [alarm]


@pytest.mark.parametrize(
    ("name", "value", "facts"),
    [
        ("heartbeat", 30, {"silent": 29.0}),
        ("quiet", 10, {"stages": (StageFacts("train", "running", quiet=599.0),)}),
        ("flat", 8, {"spread": points(0.1, 0, 0, 0, 0, 0, 0, 0)}),
        ("nan", 3, {"wrong": (NotFiniteStreak("loss", 3.0, 2),)}),
        ("broken", 60, {"broken": points(0, 0.5)}),
        ("server", 40, {"stages": (StageFacts("serve", "ready", True, unanswered=39.0), TRAIN)}),
        ("disk", 1, {"disk_free": 2 * 1024**3}),
        ("memory", 99, {"memory_used": 97.0 * 2**30, "memory_total": 100.0 * 2**30}),
    ],
)
def test_the_user_says_from_when_on_there_is_an_alarm(
    name: str, value: float, facts: dict[str, Any], own_world: Path
) -> None:
    found = RunFacts(active=True, **facts)
    setting = ALARM_SETTINGS[name].name
    assert len(find_alarms(found)) == 1 and read_thresholds(own_world) == USUAL
    for text in (str(value), "none"):
        save_user_setting(setting, text)
        assert find_alarms(found, read_thresholds(own_world)) == ()
    save_user_setting(setting, "soon")
    assert find_alarms(found, read_thresholds(own_world)) == find_alarms(found), (
        "what cannot be read silences nothing"
    )


def test_each_threshold_belongs_to_one_signature_or_to_all_that_are_concluded() -> None:
    own = [known.threshold for known in SIGNATURES.values() if known.threshold is not None]
    assert sorted(own) == sorted(set(ALARM_SETTINGS) - {"learning"})
    assert all(known.watch is not None or known.test is not None for known in SIGNATURES.values())


def test_memory_that_is_nearly_full_is_told_with_its_share(own_world: Path) -> None:
    full = RunFacts(active=True, memory_used=31.0 * 2**30, memory_total=32.0 * 2**30)
    [alarm] = find_alarms(full)
    assert alarm.text == "97% of the machine's memory of 32.0 GiB is in use"
    assert told(memory_used=30.0 * 2**30, memory_total=32.0 * 2**30) == []
    assert told(memory_used=1.0, memory_total=0.0) == told(memory_used=1.0) == []
    assert told(memory_used=32.0, memory_total=32.0, active=False) == []
    save_user_setting(ALARM_SETTINGS["memory"].name, "none")
    killed = LogSymptom("memory", "train", "Out of memory: Killed process 7")
    [alarm] = find_alarms(replace(full, signs=(killed,)), read_thresholds(own_world))
    assert alarm.level == "error", "memory that has run out is told whatever the threshold"


def test_a_folder_silences_no_alarm_before_it_is_trusted(
    own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUDTUI_TRUST", raising=False)
    (own_world / ".env").write_text("HUDTUI_ALARM_FLAT_STEPS=none\n")
    assert read_thresholds(own_world)["flat"] == 5
    trust.agree(own_world, folder_powers(own_world, HUD))
    assert read_thresholds(own_world)["flat"] == math.inf
    (own_world / ".env").write_text("HUDTUI_ALARM_FLAT_STEPS=90\n")
    assert read_thresholds(own_world)["flat"] == 5, "the user has not agreed to this one"


def test_an_alarm_that_is_acknowledged_comes_last_until_it_comes_anew() -> None:
    def found(spread: Sequence[Point], *known: str) -> list[tuple[str, bool]]:
        facts = RunFacts(active=True, spread=spread, disk_free=2 * 1024**3)
        return [
            (alarm.kind, alarm.acknowledged) for alarm in find_alarms(facts, acknowledged=known)
        ]

    flat = points(0.1, 0, 0, 0, 0, 0)
    [_, alarm] = find_alarms(RunFacts(active=True, spread=flat, disk_free=2 * 1024**3))
    assert found(flat) == [("disk", False), ("constant-reward", False)]
    assert found(points(0.1, 0, 0, 0, 0, 0, 0, 0), alarm.key) == [
        ("disk", False),
        ("constant-reward", True),
    ], "it goes on"
    again = points(0.1, 0, 0, 0, 0, 0, 0.2, 0, 0, 0, 0, 0)
    assert found(again, alarm.key) == [("disk", False), ("constant-reward", False)], (
        "another one of its kind"
    )
    assert "mark" not in alarm.to_json() and alarm.to_json()["acknowledged"] is False


def test_alarms_of_a_kind_are_told_from_earlier_ones() -> None:
    def keys(**facts: Any) -> set[str]:
        return {alarm.key for alarm in find_alarms(RunFacts(active=True, **facts))}

    def quiet(grew: float) -> tuple[StageFacts, ...]:
        return (StageFacts("train", "running", quiet=400.0, grew=grew),)

    assert keys(stages=quiet(7.0)) == keys(stages=quiet(7.0)) != keys(stages=quiet(900.0))
    assert (
        keys(silent=20.0, beat=7.0) == keys(silent=90.0, beat=7.0) != keys(silent=90.0, beat=50.0)
    )
    assert (
        keys(broken=points(0, 0.5, 0.5))
        == keys(broken=points(0, 0.5, 0.6, 0.7))
        != keys(broken=points(0, 0.5, 0, 0.5))
    )
    first, later = NotFiniteStreak("loss", 3.0, 2), NotFiniteStreak("loss", 9.0, 2)
    assert keys(wrong=(first,)) != keys(wrong=(later,))


def test_a_dead_server_behind_a_trainer_that_waits() -> None:
    dead = LogSymptom("server", "serve", "EngineDeadError: EngineCore encountered an issue")
    quiet = StageFacts("train", "running", quiet=200.0)
    [alarm] = find_alarms(RunFacts(active=True, stages=(SERVE, quiet), signs=(dead,)))
    assert (alarm.kind, alarm.level, alarm.stage) == ("server", "error", "serve")
    assert "EngineDeadError" in alarm.text and "train has said nothing for 3 min" in alarm.text


def test_long_steps_are_no_silence() -> None:
    slow = StageFacts("train", "running", quiet=1000.0)
    assert told(stages=(slow,), step_times=points(400, 420)) == []
    assert told(stages=(slow,), step_times=points(100, 120)) == [("quiet", "warning")]


def test_the_worst_comes_first_and_what_has_ended_worries_nobody() -> None:
    facts = {"silent": 100.0, "disk_free": 2 * 1024**3, "wrong": (NotFiniteStreak("kl", 1.0, 1),)}
    assert told(**facts) == [("heartbeat", "error"), ("not-a-number", "error"), ("disk", "warning")]
    assert told(active=False, **facts) == [("not-a-number", "error")]


def test_alarms_say_what_to_do() -> None:
    [alarm] = find_alarms(
        RunFacts(active=True, stages=(TRAIN,), signs=(find_symptom("train", OOM),))
    )  # type: ignore[arg-type]
    assert (
        alarm.fix is not None
        and "batch_size" in alarm.fix
        and "train ran out of memory" in alarm.text
    )
    assert alarm.to_json()["kind"] == "memory" and isinstance(alarm, Alarm)


OOM_LINES = ("CUDA out of memory", "No available memory for the cache blocks")


@pytest.mark.parametrize("line", OOM_LINES)
@pytest.mark.parametrize(
    ("engine", "named", "other"),
    [
        ("art", "max_seq_length", "max_seq_len "),
        ("trl", "max_seq_len", "max_seq_length"),
        ("", "max_seq_len", "ART_ONLY"),
    ],
)
def test_the_fix_of_full_gpus_names_the_settings_of_the_engine(line, engine, named, other):
    sign = find_symptom("train", line)
    (alarm,) = find_alarms(
        RunFacts(True, advice=features_of(engine).advice if engine else None, signs=(sign,))
    )
    assert named in alarm.fix and other not in alarm.fix
    assert re.search(r"max_seq_len\b.*max_seq_length", sign.fix or ""), (
        "a line alone tells no engine"
    )
    assert engine or "max_seq_length" in alarm.fix, "whether a foreign log is of ART is not known"


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.1 GiB"
)


@pytest.mark.parametrize(
    ("line", "kind", "fix"),
    [
        (OOM, "memory", "batch_size"),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate",
            "memory",
            "batch_size",
        ),
        (
            "ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization`",
            "memory",
            "gpu_memory",
        ),
        (
            "ValueError: Free memory on device (3.1/79.1 GiB) on startup is less than desired",
            "memory",
            "gpu_memory",
        ),
        ("Out of memory: Killed process 312 (python3)", "memory", "own memory"),
        (
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
            "server",
            None,
        ),
        ("ERROR EngineCore encountered a fatal error.", "server", None),
        (
            "Skipping tuning as there is no suitable data. This can happen when all trajectories",
            "no-spread",
            "higher temperature",
        ),
        (
            "warning: step 2: the rewards of each group are equal, so that there is nothing to "
            "learn",
            "no-spread",
            "--ruler",
        ),
        (
            "resuming after step 3; the state of the optimizer is not kept, the adapter is",
            "optimizer-lost",
            "worse",
        ),
        (
            "Error code: 400 - This model's maximum context length is 8192 tokens. However,",
            "context-full",
            "max_seq_len",
        ),
        (
            "step 4: 8 episodes are being played; the model's server does NOT answer",
            "server-silent",
            "gpu_memory_utilization",
        ),
        ("step 3 loss=0.1 memory=3", None, None),
        ("out of memory is what this log never says", None, None),
    ],
)
def test_signs_in_logs(line: str, kind: str | None, fix: str | None) -> None:
    sign = find_symptom("train", line)
    assert (sign.kind if sign else None) == kind
    if sign and fix:
        assert sign.fix is not None and fix in sign.fix
    escaped = find_symptom("train", f"\x1b]52;c;AAAA\x07{line}\x1b[2J")
    assert escaped is None or "\x1b" not in escaped.line


def test_one_episode_a_task_has_no_spread() -> None:
    reader = MetricsReader()
    reader.feed(b'{"step": 1, "reward_std": 0.0}\n' * 9)
    assert (
        reward_spread(reader, 1) == ()
        and len(reward_spread(reader, 2)) == 1
        and reward_spread(reader, None)
    )


def test_the_time_that_is_left() -> None:
    reader = MetricsReader()
    reader.feed(
        b"".join(
            b'{"step": %d, "max_steps": 10, "reward": 1, "time": %d}\n'
            % (n, 1_700_000_000 + 30 * n)
            for n in (1, 2, 3)
        )
    )
    assert time_left(reader) == pytest.approx(210)
    reader.feed(b'{"step": 4, "max_steps": 10, "reward": 1, "step_time": 5}\n')
    assert time_left(reader) == pytest.approx(30)
    reader.feed(b'{"step": 10, "max_steps": 10, "reward": 1}\n')
    assert time_left(reader) is None and time_left(MetricsReader()) is None


def test_gpus() -> None:
    row = {
        "gpus": [
            {"index": 0, "used_mib": 10, "memory_mib": 80, "utilization": None},
            "x",
            {"index": 1, "total_mib": 90},
        ]
    }
    assert [
        (gpu.index, gpu.used_mib, gpu.total_mib, gpu.utilization) for gpu in read_gpus(row)
    ] == [
        (0, 10, 80, None),
        (1, None, 90, None),
    ]
    assert read_gpus({}) == () and read_gpus({"gpus": 3}) == ()


async def test_a_growing_file_is_fetched_once(tmp_path: Path) -> None:
    host, path = LocalHost(), tmp_path / "log"
    file = TailReader(str(path), most=10**6)
    assert (await file.read(host)).data == b"" and file.stat is None
    path.write_bytes(b"a" * 100)
    assert (await file.read(host)).data == b"a" * 100
    assert (await file.read(host)).data == b""
    path.write_bytes(b"a" * 100 + b"more")
    assert (await file.read(host)).data == b"more"
    path.write_bytes(b"other" * 50)  # longer than before, and not the same
    fresh = await file.read(host)
    assert (fresh.truncated, fresh.data) == (True, b"other" * 50)
    path.write_bytes(b"")
    assert (await file.read(host)).truncated
    short = TailReader(str(path), most=10)
    path.write_bytes(b"0123456789" * 3 + b"tail")
    fresh = await short.read(host)
    assert (fresh.data, fresh.skipped) == (b"456789tail", 24)


def test_signs_of_many_lines_are_those_of_each() -> None:
    lines = [
        "step 1 memory=3",
        OOM,
        "fine",
        "x" * 3000 + " CUDA out of memory",
        "EngineDeadError: EngineCore died",
    ]
    assert [sign.line for sign in find_symptoms("train", lines)] == [
        sign.line for line in lines if (sign := find_symptom("train", line[:2000])) is not None
    ]
    assert (
        len(find_symptoms("train", lines)) == 2
        and find_symptoms("train", ["fine"] * 5) == ()
        and find_symptoms("train", []) == ()
    )


def test_groups_without_spread_are_found_where_the_rewards_of_a_step_differ() -> None:
    """TRL's `reward_std` is that of all rewards of a step: groups that agree within themselves are
    told by another number."""
    metrics = MetricsReader()
    for step in range(1, 8):
        flat = 1.0 if step > 2 else 0.5
        metrics.feed(
            json.dumps(
                {"step": step, "reward": 0.5, "reward_std": 0.1, "frac_reward_zero_std": flat}
            ).encode()
            + b"\n"
        )
    assert [point.y for point in reward_spread(metrics)] == [0.5, 0.5, 0, 0, 0, 0, 0]
    assert told(spread=reward_spread(metrics)) == [("constant-reward", "warning")]
