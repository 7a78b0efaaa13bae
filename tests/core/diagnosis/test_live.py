"""The diagnosis of runs that go on: alarms of severe findings, at a bounded cost."""

from __future__ import annotations

import asyncio
import math

import pytest
from support.training_runs import HEALTHY, healthy, sick

from hudtui.core.diagnosis.alarms import USUAL, find_alarms, with_alarms
from hudtui.core.diagnosis.facts import Alarm, RunFacts
from hudtui.core.diagnosis.live import LiveDiagnosis
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.values import NOTHING
from hudtui.core.training.metrics import MetricsReader


def metrics_of(lines: list[dict[str, float]]) -> MetricsReader:
    metrics = MetricsReader()
    for line in lines:
        metrics.add(line)
    return metrics


async def alarms_of(metrics: MetricsReader, **thresholds: float) -> dict[str, Alarm]:
    live = LiveDiagnosis(lambda: {"learning_rate": 3e-5})
    await live.renew(metrics)
    facts = RunFacts(active=True).with_metrics(metrics)
    alarms = find_alarms(facts, {**USUAL, **thresholds}, findings=live.findings)
    return {one.kind: one for one in alarms}


async def test_a_severe_finding_is_an_alarm_with_its_onset_and_what_to_change() -> None:
    metrics = metrics_of(sick("kl-blow-up", "strong", 1))
    alarm = (await alarms_of(metrics))["kl-blow-up"]
    assert alarm.level == "error" and ", since step 1" in alarm.text, alarm
    assert alarm.fix == "Raise beta, the weight of the distance from the model."
    assert await alarms_of(metrics, learning=math.inf) == {}


async def test_a_mild_or_unlikely_finding_is_no_alarm() -> None:
    assert await alarms_of(metrics_of(sick("slower", "strong", 1))) == {}
    live = LiveDiagnosis()
    await live.renew(metrics_of(sick("tools-fail", "mild", 1)))
    (finding,) = live.findings
    facts = RunFacts(active=True)
    percent = 100 * finding.probability
    assert find_alarms(facts, {**USUAL, "learning": percent - 1}, findings=live.findings)
    assert not find_alarms(facts, {**USUAL, "learning": percent + 1}, findings=live.findings)


async def test_a_run_that_has_ended_has_findings_and_no_such_alarm() -> None:
    live = LiveDiagnosis()
    await live.renew(metrics_of(sick("kl-blow-up", "strong", 1)), last=True)
    assert live.findings and not find_alarms(RunFacts(active=False), findings=live.findings)


async def test_a_trouble_that_is_seen_at_once_is_told_once() -> None:
    lines = sick("constant-reward", "strong", 1)
    for line in lines[150:]:
        line["frac_reward_zero_std"] = 1.0
    alarms = await alarms_of(metrics_of(lines))
    assert list(alarms) == ["constant-reward"] and "steps" in alarms["constant-reward"].text


@pytest.mark.parametrize("kind", HEALTHY)
async def test_no_step_of_a_healthy_run_raises_an_alarm(kind: str) -> None:
    lines = healthy(kind, 7)
    metrics = MetricsReader()
    for number, line in enumerate(lines):
        metrics.add(line)
        if number % 20 == 0:
            assert await alarms_of(metrics) == {}, (kind, number)


def test_what_is_known_of_the_machine_is_a_finding_too() -> None:
    silent = find_alarms(RunFacts(active=True, silent=100.0, disk_free=2 * 2**30))
    diagnosis = with_alarms(NOTHING, silent, {})
    told = [(one.signature, one.severity) for one in diagnosis.findings]
    assert diagnosis.verdict == "sick"
    assert told == [("heartbeat", "critical"), ("disk", "high")]
    assert all(one.remedies for one in diagnosis.findings)


async def test_looks_cost_less_than_a_hundredth_of_a_core() -> None:
    metrics = metrics_of(sick("entropy-collapse", "strong", 1))
    live = LiveDiagnosis(share=1e-9)
    await live.renew(metrics)
    first = live.newest
    assert first is not None
    metrics.add({"step": 1000, "entropy": 0.9})
    await live.renew(metrics)
    assert live.newest is first, "the next look is far away"
    await live.renew(metrics, last=True)
    assert live.newest is not first, "the last numbers are looked at whatever it costs"


async def test_what_has_not_changed_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = metrics_of(healthy("rising", 1))
    live = LiveDiagnosis(share=math.inf)
    await live.renew(metrics)
    monkeypatch.setattr("hudtui.core.diagnosis.live._OFTEN", 0.0)
    monkeypatch.setitem(SIGNATURES, "broken-test", SIGNATURES["kl-blow-up"])
    monkeypatch.setattr("hudtui.core.diagnosis.observed.Observed", None)  # nothing can look
    first = live.newest
    await live.renew(metrics, last=True)
    assert first is not None and live.newest is first


async def test_a_look_that_is_broken_off_is_repeated() -> None:
    """Whoever leaves a run that has ended while it is examined sees its findings later, too."""
    metrics = metrics_of(healthy("rising", 1))
    for turns in range(1, 8):
        live = LiveDiagnosis()
        look = asyncio.create_task(live.renew(metrics, last=True))
        for _ in range(turns):
            await asyncio.sleep(0)
        look.cancel()
        await asyncio.wait([look])
        await live.renew(metrics, last=True)
        assert live.newest is not None
