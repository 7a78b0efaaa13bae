"""A part of `tests/faults/environments.py`: no fault of an environment is a score, and no odd but
healthy episode is left out."""

from __future__ import annotations

import random

import pytest
from support import faulty_server as wire
from support import faulty_world as world

FAULTS = {
    "stdio": ("rpc gone", "code text", "half and exit", "wrong id", "evaluation words"),
    "http": ("404 json", "500 json", "new session", "half body", "evaluation error"),
    "sse": ("404 text", "502", "close", "no id", "evaluation empty"),
    "openenv": ("words", "error SESSION_ERROR", "cut", "observation text"),
}


@pytest.mark.parametrize("transport", world.TRANSPORTS)
async def test_no_fault_is_a_score_and_no_oddity_is_a_fault(transport, tmp_path):
    faults = {
        **world.FAULTS[transport],
        **{name: words for name, (_, words) in wire.EVALUATIONS.items()},
    }
    cases = [world.Case(0, transport, "plain")]
    for name in FAULTS[transport]:
        for stage in ("evaluate",) if name in wire.EVALUATIONS else wire.STAGES:
            cases.append(world.Case(len(cases), transport, name, stage, faults[name]))
    for name in world.HEALTHY[transport]:
        cases.append(world.Case(len(cases), transport, name))
    report = await world.play(cases, tmp_path, at_once=4)
    assert report.wrong == [] and report.causes() == [], "\n".join(world.summary(report))


def test_the_campaign_has_25_faults_of_each_transport_at_each_stage():
    cases = world.faulted(2_000, random.Random(1))
    for transport in world.TRANSPORTS:
        for stage in wire.STAGES:
            assert (
                len(
                    {
                        case.name
                        for case in cases
                        if (case.transport, case.stage) == (transport, stage)
                    }
                )
                >= 25
            )
    assert cases == world.faulted(2_000, random.Random(1))
