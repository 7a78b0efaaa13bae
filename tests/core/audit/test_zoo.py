"""The audit finds the defect of each environment, and accuses no sound one."""

import asyncio
import dataclasses
import re
from pathlib import Path

import pytest
from support import zoo

from hudtui.core.audit.audit import AuditFinished, audit
from hudtui.core.audit.checks import CHECKS
from hudtui.core.audit.play import Ring
from hudtui.core.audit.values import Proof
from hudtui.core.rollouts.trace import read_trace


def look(out_dir, kind, more=None, config=None, **changes):
    """The audit of a room."""

    async def run():
        ring = Ring(
            zoo.tasks(**(more or {})),
            config or zoo.config(),
            zoo.connector(kind),
            out_dir,
            group=6,
            crowd=16,
            most_random=12,
            lookup={"ROOM_KEY": "s3cret-s3cret"}.get,
        )
        ring = dataclasses.replace(ring, **changes)
        return [event async for event in audit(ring)][-1]

    ended = asyncio.run(run())
    assert isinstance(ended, AuditFinished)
    return ended.audit


@pytest.fixture
def rooms_left():
    yield
    for process in zoo.LEFT:
        process.kill()
        process.wait()
    zoo.LEFT.clear()


@pytest.mark.parametrize("name", zoo.DEFECTS)
def test_a_planted_defect_is_named(name, tmp_path, rooms_left):
    expected, kind, *rest = zoo.DEFECTS[name]
    seen = look(tmp_path, kind, *rest)
    names = [finding.signature for finding in seen.findings]
    assert expected in names, (seen.verdict, names)


@pytest.mark.parametrize(
    "name",
    [
        "percent",
        "long notes break the evaluation",
        "the evaluation ends the server",
        "notes may be left out, and break the evaluation",
    ],
)
def test_no_environment_is_sound_whose_rewards_cannot_be_trained_on(name, tmp_path):
    _, kind, *rest = zoo.DEFECTS[name]
    assert look(tmp_path, kind, *rest).verdict == "unsound"


def failing(times):
    """An evaluation that fails so many times, whoever plays, and then never again."""

    def evaluate(self):
        self.world["failed"] = self.world.get("failed", 0) + 1
        return zoo.fail("busy") if self.world["failed"] <= times else zoo.Room.evaluate(self)

    return zoo.evaluation(evaluate)


def test_an_evaluation_that_fails_once_by_chance_is_no_reason_against_a_training(tmp_path):
    seen = look(tmp_path, failing(1))
    (finding,) = seen.findings
    assert (seen.verdict, finding.signature, finding.severity) == (
        "sound",
        "evaluation-breaks",
        "medium",
    )
    assert re.fullmatch(
        r"1 of \d+ evaluations failed, and none when the same was played again", finding.title
    )


def test_evaluations_that_fail_often_are_a_reason_against_a_training(tmp_path):
    seen = look(tmp_path, failing(4))
    finding = next(one for one in seen.findings if one.signature == "evaluation-breaks")
    assert (seen.verdict, finding.severity) == ("unsound", "high")


@pytest.mark.parametrize("name", zoo.SOUND)
def test_a_sound_environment_is_not_accused(name, tmp_path):
    kind, *rest = zoo.SOUND[name]
    seen = look(tmp_path, kind, *rest)
    assert [(finding.signature, finding.title) for finding in seen.findings] == []
    assert seen.verdict == "sound", seen.why


def test_where_nobody_earns_anything_there_is_no_evidence(tmp_path):
    seen = look(tmp_path, zoo.graded(zoo.password), {"solution": None})
    assert (seen.verdict, seen.findings) == ("not enough evidence", ())
    assert "-m" in seen.why


def test_a_finding_names_the_episode_that_shows_it(tmp_path):
    seen = look(tmp_path, zoo.graded(lambda self: 1.0 if self.note else 0.0))
    finding = next(one for one in seen.findings if one.signature == "blind-wins")
    proof = finding.evidence[0]
    episode = list(read_trace(proof.file))[proof.number]
    assert (episode.task_id, episode.info["policy"]) == (proof.task, f"audit:{proof.player}")
    assert episode.scores.task_completion == 1


def test_nothing_is_left_behind_where_episodes_were_given_up(tmp_path):
    _, kind, *rest = zoo.DEFECTS["the evaluation ends the server"]
    assert "left-behind" in look(tmp_path, kind, *rest).unseen


def test_a_proof_names_its_file_as_a_shell_reads_it():
    proof = Proof(Path("out of mine/traces.jsonl"), 3, "done", "t1", "earns 1")
    assert "rollouts show 'out of mine/traces.jsonl' 3" in proof.line()


def test_the_same_seed_plays_the_same(tmp_path):
    said = []
    for name in ("one", "two"):
        look(tmp_path / name, zoo.Room, seed=3)
        episodes = read_trace(tmp_path / name / "weak" / "traces.jsonl")
        replies = {
            (one.task_id, one.info["rollout"]): [turn.reply for turn in one.turns]
            for one in episodes
        }
        said.append(replies)
    assert said[0] == said[1]


def test_signal_is_the_share_of_groups_that_differ(tmp_path):
    spread = look(tmp_path / "dense", zoo.Room)
    flat = look(tmp_path / "password", zoo.graded(zoo.password), {"solution": zoo.wrote})
    assert spread.signal.low <= spread.signal.value <= spread.signal.high
    assert spread.signal.value > 0.5
    assert set(spread.signal_by_task) == {f"task {number}" for number in range(4)}
    assert flat.group == 6


def test_a_signal_of_the_form_of_calls_alone_is_said(tmp_path):
    own = look(tmp_path / "dense", zoo.Room)
    form = look(
        tmp_path / "form",
        zoo.room(add=zoo.refuse_beyond, grade=zoo.password),
        {"solution": zoo.wrote},
    )
    assert own.task_signal == pytest.approx(own.signal.value, abs=0.2)
    assert form.signal.value > 0.3 and form.task_signal == 0
    assert form.signal_line().endswith("; 0% by more than the form of calls")


def test_a_broken_tool_is_named_whole(tmp_path):
    def named(calls):
        return [{**one, "name": one["name"].replace("paint", "room:paint")} for one in calls]

    def solution(*goal):
        return named(zoo.steps(*goal))

    dry = {"room:paint": lambda self, colour: zoo.fail("the paint is dry")}
    config = zoo.config(zoo.CONFIG.replace("_tool: paint", '_tool: "room:paint"'))
    kind = zoo.room(listed=named(zoo.TOOLS), **dry)
    found = look(tmp_path, kind, {"solution": solution}, config).findings
    (finding,) = [one for one in found if one.signature == "tool-broken"]
    assert finding.title == "Every call of room:paint fails, whoever makes it"
    assert finding.evidence[0].words == "room:paint: error: the paint is dry"


def test_every_check_has_an_environment_that_it_finds():
    assert {expected for expected, *_ in zoo.DEFECTS.values()} == set(CHECKS)
