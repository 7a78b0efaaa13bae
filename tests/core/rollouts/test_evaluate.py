import asyncio
import json
import os
import re
import sys
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from statistics import stdev

import pytest
from support.played import metrics_of

from hudtui.core.environment.client import connect as connect_environment
from hudtui.core.environment.login_file import KeptLogin, write_login
from hudtui.core.environment.values import ContentBlock, ToolResult
from hudtui.core.errors import ConnectError, HudtuiError, InputError
from hudtui.core.events import Notice, Progress
from hudtui.core.rollouts.chat import ChatOptions, PolicyError
from hudtui.core.rollouts.evaluate import EpisodeDone, evaluate, secrets_of
from hudtui.core.rollouts.outcome import outcome_of, read_outcomes, summarise
from hudtui.core.rollouts.policy import PolicySource, policy_source
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.tasks.task import ToolCall


@pytest.fixture
def tasks(task):
    def seeded(number):
        return replace(
            task,
            id=f"t{number}",
            setup=(
                ToolCall(
                    "setup", {"name": "board", "arguments": {"board_size": 4, "seed": number}}
                ),
            ),
        )

    return [seeded(number) for number in range(4)]


@pytest.fixture
def world(new_session):
    """Connections to the environment without the wire; counts them, and lets a test spoil
    sessions."""

    class World:
        def __init__(self):
            self.opened = self.closed = self.open_now = self.most = 0
            self.configs = []
            self.spoil = lambda session: None

        @asynccontextmanager
        async def connect(self, mcp_config):
            self.configs.append(mcp_config)
            self.opened += 1
            self.open_now += 1
            self.most = max(self.most, self.open_now)
            try:
                session = new_session()
                self.spoil(session)
                await asyncio.sleep(0)
                yield session
            finally:
                try:
                    await asyncio.sleep(0.01)  # an environment takes its time to end
                finally:
                    self.open_now -= 1
                    self.closed += 1

    return World()


@pytest.fixture
def run(config, world, tmp_path):
    async def run(tasks, name="greedy", **options):
        events = evaluate(
            tasks,
            config,
            policy=policy_source(name, config, seed=options.get("seed", 0)),
            **{"connect": world.connect, "out_dir": tmp_path / "out", **options},
        )
        async with aclosing(events):
            return [event async for event in events]

    return run


def done(events):
    return [event for event in events if isinstance(event, EpisodeDone)]


async def test_every_task_is_played_and_recorded(run, tasks, world, tmp_path):
    events = await run(tasks)
    assert [event.number for event in done(events)] == [1, 2, 3, 4]
    assert {event.total for event in done(events)} == {4}
    traces = list(read_trace(tmp_path / "out" / "traces.jsonl"))
    assert traces == [
        replace(event.episode, info=dict(event.episode.info)) for event in done(events)
    ]
    assert {episode.task_id for episode in traces} == {"t0", "t1", "t2", "t3"}
    assert all(
        episode.info["policy"] == "greedy" and episode.info["rollout"] == 0 for episode in traces
    )
    assert (world.opened, world.closed, world.open_now) == (4, 4, 0)
    assert next(event for event in events if isinstance(event, Progress)).total == 4
    for line in (event.line() for event in done(events)):
        assert re.fullmatch(r"episode \d/4 task=t\d reward=\d\.\d{3} turns=12 stop=max_turns", line)


async def test_metrics_have_a_trainers_names(run, tasks, tmp_path):
    judge = (ToolCall("evaluate", {"name": "efficiency", "arguments": {"min_ratio": 50}}),)
    await run([replace(task, evaluate=judge) for task in tasks], "random", group=3, seed=5)
    lines = metrics_of(tmp_path / "out")
    assert [(line["step"], line["total_steps"]) for line in lines] == [
        (1, 4),
        (2, 4),
        (3, 4),
        (4, 4),
    ]
    outcomes = read_outcomes(tmp_path / "out")
    for line in lines:
        rewards = [outcome.reward for outcome in outcomes if outcome.task == line["task"]]
        assert len(rewards) == line["episodes"] == 3
        assert line["reward"] == pytest.approx(sum(rewards) / 3)
        assert line["reward_std"] == pytest.approx(stdev(rewards))
        assert {
            "task_completion",
            "tool_execution",
            "format_compliance",
            "turns",
            "errors",
            "seconds",
            "time",
        } <= set(line)
    assert any(line["reward_std"] > 0 for line in lines)


async def test_no_spread_of_a_single_episode_is_claimed(run, tasks, tmp_path):
    await run(tasks)
    assert all("reward_std" not in line for line in metrics_of(tmp_path / "out"))


@pytest.mark.parametrize("limit", [1, 3])
async def test_no_more_episodes_at_once_than_allowed(run, tasks, world, limit):
    await run(tasks, group=3, concurrency=limit)
    assert (world.opened, world.most) == (12, limit)


async def test_a_connection_can_be_used_again(run, tasks, world):
    other = replace(tasks[3], mcp_config={"other": {"command": "x"}})
    await run([*tasks[:3], other], concurrency=1, reuse=True)
    assert world.configs == [tasks[0].mcp_config, other.mcp_config]


async def test_a_connection_that_broke_is_not_used_again(run, tasks, world):
    def spoil(session):
        def die(name, arguments):
            if world.opened == 1 and len(session.calls) == 4:
                raise ConnectError("gone")

        session.before = die

    world.spoil = spoil
    events = await run(tasks, concurrency=1, reuse=True)
    assert [event.episode.stop for event in done(events)] == [
        "error",
        "max_turns",
        "max_turns",
        "max_turns",
    ]
    assert world.opened == 2


async def test_an_environment_that_cannot_be_reached(run, tasks, world, tmp_path):
    @asynccontextmanager
    async def connect(mcp_config):
        if len(world.configs) == 1:
            world.configs.append(mcp_config)
            raise ConnectError("no such image", fix="Build it.")
        async with world.connect(mcp_config) as session:
            yield session

    events = await run(tasks, connect=connect, concurrency=1)
    stops = {event.episode.task_id: event.episode.stop for event in done(events)}
    assert stops == {"t0": "max_turns", "t1": "error", "t2": "max_turns", "t3": "max_turns"}
    (failed,) = [event for event in done(events) if event.episode.stop == "error"]
    assert (
        failed.line()
        == 'episode 2/4 task=t1 reward=none turns=0 stop=error error="no such image; Build it."'
    )
    assert len(list(read_trace(tmp_path / "out" / "traces.jsonl"))) == 4


async def test_a_connection_that_tears_down_its_own_task(run, tasks, world):
    async def tear(name, arguments):
        raise asyncio.CancelledError

    world.spoil = lambda session: setattr(session, "before", tear) if world.opened == 2 else None
    events = await run(tasks, concurrency=1)
    assert sorted(event.episode.stop for event in done(events)) == [
        "error",
        "max_turns",
        "max_turns",
        "max_turns",
    ]


async def test_a_connection_that_closes_badly_spoils_no_episode(run, tasks, world):
    @asynccontextmanager
    async def connect(mcp_config):
        async with world.connect(mcp_config) as session:
            yield session
        raise ConnectError("it did not end")

    events = await run(tasks, connect=connect)
    assert [event.episode.stop for event in done(events)] == ["max_turns"] * 4
    notices = [event for event in events if isinstance(event, Notice)]
    assert len(notices) == 4 and "it did not end" in notices[0].message


async def test_a_failed_evaluation_shows_in_the_log(run, tasks):
    broken = replace(
        tasks[0], evaluate=(ToolCall("evaluate", {"name": "max_number", "target": "\x1b[2Jhigh"}),)
    )
    (event,) = done(await run([broken]))
    assert re.search(
        r'reward=none turns=12 stop=error error="the evaluation failed: .*max_number.target must '
        r"be .*high",
        event.line(),
    )
    assert "\x1b" not in event.line()


def judged(structured):
    def spoil(session):
        session.before = lambda name, arguments: (
            ToolResult((), structured) if name == "evaluate" else None
        )

    return spoil


@pytest.mark.parametrize("reward", [12, -0.5])
async def test_a_reward_outside_its_range_counts_and_is_told_once(run, tasks, world, reward):
    world.spoil = judged({"result": reward})
    events = await run(tasks, group=2)
    assert all(event.episode.scores.task_completion == reward for event in done(events))
    (told,) = [event.message for event in events if isinstance(event, Notice)]
    assert f"the reward {reward:g}, outside 0 to 1" in told


async def test_a_reward_that_is_not_finite_is_none_and_named(run, tasks, world):
    world.spoil = judged({"reward": float("nan"), "score": 1.0})
    (event,) = done(await run(tasks[:1]))
    assert not event.episode.scores.reward_found and event.episode.scores.task_completion == 0
    assert "the evaluator returned the reward nan" in event.line()


async def test_hopeless_work_is_given_up(run, tasks, world):
    broken = [
        replace(task, setup=(ToolCall("setup", {"name": f"no such board {task.id}"}),))
        for task in tasks
    ]
    with pytest.raises(HudtuiError, match="the first 8 episodes all broke off"):
        await run(broken, group=20, concurrency=1)
    assert world.opened == 8


@pytest.mark.parametrize(("at_once", "in_a_row"), [(1, 3), (4, 5)])
async def test_an_environment_that_no_longer_starts_ends_it_and_resuming_plays_the_rest(
    run, tasks, world, tmp_path, at_once, in_a_row
):
    down = True
    tried = []

    @asynccontextmanager
    async def connect(mcp_config):
        tried.append(mcp_config)
        if down and len(tried) > 4:
            raise ConnectError("docker is not running")
        async with world.connect(mcp_config) as session:
            yield session

    words = (
        f"{in_a_row} episodes in a row broke off for the same reason, and {36 - in_a_row} are not "
        "played"
    )
    with pytest.raises(HudtuiError, match=words) as caught:
        await run(tasks, connect=connect, group=10, concurrency=at_once)
    assert caught.value.why == "docker is not running" and "--resume" in caught.value.fix
    assert len(tried) <= 4 + in_a_row + at_once, "episodes that begin before it is over are stopped"
    outcomes = read_outcomes(tmp_path / "out")
    assert [one.failed for one in outcomes] == [False] * 4 + [True] * in_a_row
    down = False
    events = await run(tasks, connect=connect, group=10, concurrency=at_once, resume=True)
    assert len(done(events)) == 36 and all(event.episode.ok for event in done(events))
    assert len(read_outcomes(tmp_path / "out")) == 40


async def test_one_environment_of_two_that_does_not_start_ends_nothing(run, tasks, world):
    other = {"gone": {"command": "gone"}}
    mixed = [replace(task, mcp_config=other) if task.id in ("t0", "t2") else task for task in tasks]

    @asynccontextmanager
    async def connect(mcp_config):
        if mcp_config == other:
            raise ConnectError("gone cannot be started")
        async with world.connect(mcp_config) as session:
            yield session

    events = await run(
        [replace(task, id=f"{task.id}-{n}") for n in range(4) for task in mixed],
        connect=connect,
        concurrency=1,
    )
    assert [event.episode.ok for event in done(events)] == [False, True] * 8


async def test_an_endpoint_that_is_gone_ends_it_and_resuming_plays_the_rest(
    stub, config, tasks, world, tmp_path
):
    async def play(base_url, seen, **options):
        source = policy_source(
            "openai:tiny", config, endpoint=ChatOptions(base_url=base_url, retries=0)
        )
        try:
            events = evaluate(
                tasks,
                config,
                policy=source,
                connect=world.connect,
                out_dir=tmp_path / "out",
                group=5,
                concurrency=1,
                **options,
            )
            async with aclosing(events):
                async for event in events:
                    seen.append(event)
                    if len(done(seen)) == 6 and not options:
                        stub.answers = [
                            None
                        ]  # the connection that is kept open ends with its next request
                        stub.close()
        finally:
            await source.aclose()

    seen = []
    with pytest.raises(
        HudtuiError,
        match="3 episodes in a row broke off for the same reason, and 11 are not played",
    ) as caught:
        await play(stub.url, seen)
    assert re.match(
        r"no answer from http://127\.0\.0\.1:\d+/v1; nothing answers there", caught.value.why
    )
    assert [event.episode.ok for event in done(seen)] == [True] * 6 + [False] * 3
    back, again = type(stub)(), []
    try:
        await play(back.url, again, resume=True)
    finally:
        back.close()
    assert len(done(again)) == 14 and all(
        outcome.failed is False for outcome in read_outcomes(tmp_path / "out")
    )


async def test_a_policy_that_never_will_ends_it_at_once(stub, config, tasks, world, tmp_path):
    stub.answers = [(401, {"error": {"message": "bad key"}})]
    source = policy_source("openai:tiny", config, endpoint=ChatOptions(base_url=stub.url))
    seen = []
    with pytest.raises(PolicyError, match="wants a valid key"):
        async with aclosing(
            evaluate(
                tasks,
                config,
                policy=source,
                connect=world.connect,
                out_dir=tmp_path / "out",
                concurrency=1,
            )
        ) as events:
            async for event in events:
                seen.append(event)
    await source.aclose()
    assert len(done(seen)) == 1 and world.open_now == 0
    assert [episode.stop for episode in read_trace(tmp_path / "out" / "traces.jsonl")] == ["error"]


async def test_tokens_are_counted(stub, config, tasks, world, tmp_path):
    stub.answers = ["<tool>done()</tool>"]
    source = policy_source("openai:tiny", config, endpoint=ChatOptions(base_url=stub.url))
    async for _ in evaluate(
        tasks[:1], config, policy=source, connect=world.connect, out_dir=tmp_path, group=2
    ):
        pass
    await source.aclose()
    (line,) = metrics_of(tmp_path)
    assert (line["prompt_tokens"], line["completion_tokens"]) == (20, 6)


async def test_a_folder_that_holds_an_evaluation_is_not_mixed_up(run, tasks, tmp_path):
    await run(tasks[:2])
    before = (tmp_path / "out" / "traces.jsonl").read_bytes()
    with pytest.raises(InputError, match="holds an evaluation already"):
        await run(tasks)
    for options, what in (
        ({"seed": 9}, "seed is 0, not 9"),
        ({"max_turns": 5}, "max_turns is 12, not 5"),
    ):
        with pytest.raises(InputError, match=what):
            await run(tasks, resume=True, **options)
    with pytest.raises(InputError, match="policy is 'greedy', not 'random'"):
        await run(tasks, "random", resume=True)
    assert (tmp_path / "out" / "traces.jsonl").read_bytes() == before


async def test_going_on_plays_what_is_missing_and_what_broke(run, tasks, world, tmp_path):
    def spoil(session):
        if world.opened == 3:
            session.before = lambda name, arguments: (_ for _ in ()).throw(ConnectError("gone"))

    world.spoil = spoil
    await run(tasks[:3], concurrency=1, group=2)
    world.spoil = lambda session: None
    path = tmp_path / "out" / "traces.jsonl"
    with path.open("ab") as stream:
        stream.write(b'{"task": "t3", "half')  # what a killed process leaves
    events = await run(tasks, concurrency=1, group=2, resume=True)
    assert [(event.episode.task_id, event.rollout) for event in done(events)] == [
        ("t1", 0),
        ("t3", 0),
        ("t3", 1),
    ]
    assert [event.number for event in done(events)] == [6, 7, 8]
    assert "5 of 8 episodes are recorded already" in next(
        event.message for event in events if isinstance(event, Notice)
    )
    outcomes = read_outcomes(tmp_path / "out")
    assert len(outcomes) == 8 and not any(outcome.failed for outcome in outcomes)
    assert [(line["step"], line["episodes"]) for line in metrics_of(tmp_path / "out")] == [
        (1, 2),
        (2, 2),
        (3, 2),
        (4, 2),
    ]
    assert done(await run(tasks, group=2, resume=True)) == []


async def test_leaving_the_iterator_closes_everything(config, tasks, world, tmp_path):
    events = evaluate(
        tasks,
        config,
        policy=policy_source("greedy", config),
        connect=world.connect,
        out_dir=tmp_path,
        group=5,
        concurrency=3,
    )
    async with aclosing(events):
        async for event in events:
            if isinstance(event, EpisodeDone):
                break
    assert world.open_now == 0 and world.opened < 20
    assert len(asyncio.all_tasks()) == 1
    assert len(list(read_trace(tmp_path / "traces.jsonl"))) >= 1


async def test_cancelling_the_consumer_closes_everything(run, tasks, world):
    playing = asyncio.Semaphore(0)

    async def hang(name, arguments):
        if name == "move":
            playing.release()
            await asyncio.sleep(60)

    world.spoil = lambda session: setattr(session, "before", hang)
    work = asyncio.create_task(run(tasks, concurrency=4))
    for _ in range(4):
        await asyncio.wait_for(playing.acquire(), 10)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (world.opened, world.closed, world.open_now) == (4, 4, 0)


async def test_records_that_cannot_be_written_end_it(run, tasks, tmp_path, world):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "metrics.jsonl").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        await run(tasks, concurrency=1)
    assert world.open_now == 0


async def test_two_tasks_of_one_id(run, tasks):
    with pytest.raises(InputError, match="two tasks have the id 't0'"):
        await run([tasks[0], tasks[1], tasks[0]])


async def test_no_tasks_no_episodes(run):
    assert await run([]) == []


def test_tokens_of_logins_are_secret_before_and_after_they_are_renewed(own_world, monkeypatch):
    login = KeptLogin(
        "https://one.example/mcp", {"access_token": "first-token", "refresh_token": "renewal"}
    )
    write_login(login)
    write_login(
        replace(login, server="https://two.example/mcp", tokens={"access_token": "other-token"})
    )
    assert set(secrets_of({}, None)) == {"first-token", "renewal", "other-token"}
    write_login(replace(login, tokens={"access_token": "second-token", "refresh_token": "renewal"}))
    assert set(secrets_of({}, None)) == {"first-token", "second-token", "renewal", "other-token"}
    monkeypatch.setattr(
        "hudtui.core.environment.login_file.read_json",
        lambda path: pytest.fail("a file is read once"),
    )
    assert set(secrets_of({}, None)) == {"first-token", "second-token", "renewal", "other-token"}


async def test_secrets_of_the_servers_stay_out_of_the_traces(config, task, world, tmp_path):
    secret, literal = "sk-from-the-environment", "written-out-0123456789"
    task = replace(
        task,
        mcp_config={
            "hud": {
                "url": "https://x/mcp",
                "headers": {
                    "Authorization": "Bearer ${MY_KEY}",
                    "X-Token": literal,
                    "Mcp-Image": "org/env:1",
                },
            }
        },
    )

    def spoil(session):
        told = f"env: MY_KEY={secret} X-Token={literal} image=org/env:1"
        session.before = lambda name, arguments: (
            ToolResult((ContentBlock("text", text=told),)) if name == "move" else None
        )

    world.spoil = spoil
    lookup = {"MY_KEY": secret}.get
    policy = policy_source("random", config)
    async for _ in evaluate(
        [task], config, policy=policy, connect=world.connect, out_dir=tmp_path, lookup=lookup
    ):
        pass
    text = (tmp_path / "traces.jsonl").read_text()
    assert secret not in text and literal not in text and "org/env:1" in text


def test_what_counts_as_a_secret():
    lookup = {"A": "value-of-a", "HOST_DIR": "/some/where", "API_KEY": "value-of-key"}.get
    config = {
        "one": {
            "command": "${HOST_DIR}/x",
            "args": ["--key", "$API_KEY"],
            "env": {"X": "$A", "MODE": "development"},
        },
        "two": {
            "url": "u",
            "headers": {"Authorization": "Bearer literal-key", "Accept": "application/json"},
        },
        "odd": "text",
    }
    assert set(secrets_of(config, lookup)) == {
        "value-of-a",
        "value-of-key",
        "Bearer literal-key",
        "literal-key",
    }


async def test_summary(run, tasks):
    events = await run(tasks, "random", group=2)
    outcomes = [outcome_of(event.episode) for event in done(events)]
    summary = summarise(reversed(outcomes), tasks, 2)
    assert [(outcome.task, outcome.rollout) for outcome in summary.outcomes] == [
        (f"t{n}", m) for n in range(4) for m in range(2)
    ]
    told = json.loads(json.dumps(summary.to_json()))
    assert (told["episodes"], told["expected"], told["failed"], told["stops"]) == (
        8,
        8,
        0,
        {"max_turns": 8},
    )
    assert told["reward"] == pytest.approx(sum(outcome.reward for outcome in outcomes) / 8)
    assert [row["task"] for row in told["tasks"]] == ["t0", "t1", "t2", "t3"]
    assert summarise([], tasks).to_json()["reward"] is None


# -- the real environment
# --------------------------------------------------------------------------------------------------


async def test_over_the_wire_as_without_it(config, tasks, new_session, world, tmp_path):
    """The same episodes come out whether the environment is called in this process or as a server
    of its own."""
    source = policy_source("greedy", config)
    played = {}
    for name, connect in (
        ("wire", partial(connect_environment, timeout=30)),
        ("direct", world.connect),
    ):
        events = evaluate(
            tasks[:2],
            config,
            policy=source,
            connect=connect,
            out_dir=tmp_path / name,
            concurrency=2,
        )
        played[name] = {
            event.episode.task_id: event.episode
            async for event in events
            if isinstance(event, EpisodeDone)
        }
    for identity, episode in played["wire"].items():
        other = played["direct"][identity]
        assert (episode.stop, episode.messages, episode.scores) == (
            other.stop,
            other.messages,
            other.scores,
        )
        assert episode.evaluation == other.evaluation
        assert episode.scores.reward_found


async def test_a_server_that_is_killed_in_an_episode(config, task, tmp_path):
    marker = tmp_path / "pid"
    shim = (
        f"import os; open({str(marker)!r}, 'w').write(str(os.getpid())); from "
        "hudtui.envs.text_2048.__main__ import main; main()"
    )
    task = replace(task, mcp_config={"env": {"command": sys.executable, "args": ["-c", shim]}})

    def kill(player, turn):
        if len(player.turns) == 3:
            os.kill(int(marker.read_text()), 9)

    events = evaluate(
        [task],
        config,
        policy=policy_source("greedy", config),
        connect=partial(connect_environment, timeout=30),
        out_dir=tmp_path,
        on_turn=kill,
    )
    (event,) = [event async for event in events if isinstance(event, EpisodeDone)]
    assert event.episode.stop == "error" and 3 <= len(event.episode.turns) <= 4
    assert event.episode.error
    assert not event.episode.scores.reward_found


async def test_cancelling_leaves_no_server_behind(config, task, tmp_path):
    note = f"import os; open({str(tmp_path)!r} + f'/pid-{{os.getpid()}}', 'w')"
    shim = f"{note}; from hudtui.envs.text_2048.__main__ import main; main()"
    task = replace(task, mcp_config={"env": {"command": sys.executable, "args": ["-c", shim]}})
    thinking = asyncio.Semaphore(0)

    async def think(messages):
        thinking.release()
        await asyncio.sleep(60)

    async def consume():
        connect = partial(connect_environment, timeout=30)
        async with aclosing(
            evaluate(
                [task],
                config,
                policy=PolicySource("thinkers", lambda task, rollout: think),
                connect=connect,
                out_dir=tmp_path / "out",
                group=2,
            )
        ) as events:
            async for _ in events:
                pass

    work = asyncio.create_task(consume())
    for _ in range(2):
        await asyncio.wait_for(thinking.acquire(), 30)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    pids = [int(path.name[4:]) for path in tmp_path.glob("pid-*")]
    assert len(pids) == 2
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []
