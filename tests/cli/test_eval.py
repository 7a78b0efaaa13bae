import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support import judged
from support.scripted_chat import scripted_chat
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.rollouts.trace import read_trace

CONFIG = "action_mappings:\n" + "".join(
    f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n"
    for name in ("left", "right", "up", "down")
)


def record(number, **changes):
    return {
        "id": f"t{number}",
        "prompt": "Reach 64.",
        "mcp_config": {
            "env": {
                "command": "${HUDTUI_PYTHON:-/nowhere/python}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "board_size": 3, "seed": number},
        },
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 64}},
        **changes,
    }


@pytest.fixture(autouse=True)
def project(own_world):
    Path("c.yaml").write_text(CONFIG)
    Path("tasks.json").write_text(json.dumps([record(1), record(2)]))
    return own_world


def invoke(*arguments):
    return CliRunner().invoke(build(), ["eval", *map(str, arguments)])


def test_a_table_of_rewards_and_a_line_an_episode():
    result = invoke("tasks.json", "--config", "c.yaml", "--max-turns", 5, "--output", "out")
    assert result.exit_code == 0, result.output
    head, first, second = result.stdout.splitlines()
    assert head.split() == [
        "task",
        "episodes",
        "reward",
        "completion",
        "tools",
        "format",
        "turns",
        "stop",
    ]
    assert re.fullmatch(r"t1 +1 +0\.\d{3} +0\.\d{3} +1\.000 +1\.000 +5 +max_turns", first)
    assert second.startswith("t2")
    log = result.stderr.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d start episodes=2 tasks=2 policy=greedy out=out", log[0])
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d episode 1/2 task=t\d reward=0\.\d{3} turns=5 stop=max_turns", log[1]
    )
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d end episodes=2/2 failed=0 reward=0\.\d{3} reward_std=0\.\d{3}", log[3]
    )
    assert {episode.task_id for episode in read_trace(Path("out/traces.jsonl"))} == {"t1", "t2"}


def test_the_job_is_told_and_stands_in_the_report(project, monkeypatch):
    Path("c.yaml").write_text("job: {name: Night run}\n" + CONFIG)
    monkeypatch.setenv("HUD_TELEMETRY_LOCAL_DIR", "spans")
    result = invoke(
        "tasks.json", "--config", "c.yaml", "--max-turns", 1, "--output", "out", "--json"
    )
    assert result.exit_code == 0, result.output
    job = json.loads(result.stdout)["job"]
    assert job == json.loads(Path("out/job.json").read_text()) and (job["name"], job["url"]) == (
        "Night run",
        None,
    )
    assert f" job Night run id={job['id']}" in result.stderr
    monkeypatch.delenv("HUD_TELEMETRY_LOCAL_DIR")
    assert (
        json.loads(invoke("tasks.json", "--config", "c.yaml", "--max-turns", 1, "--json").stdout)[
            "job"
        ]
        is None
    )


def test_json_is_one_document():
    result = invoke(
        "tasks.json",
        "-c",
        "c.yaml",
        "--max-turns",
        2,
        "--json",
        "--limit",
        1,
        "--group",
        2,
        "--policy",
        "random",
        "--seed",
        4,
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["episodes"], told["expected"], told["failed"], told["policy"]) == (
        2,
        2,
        0,
        "random",
    )
    assert [row["task"] for row in told["tasks"]] == ["t1"]
    out = Path(told["out"])
    assert out.parent == Path.cwd() / "outputs" and out.name.startswith("c-random-")
    assert len(list(read_trace(out / "traces.jsonl"))) == 2


def test_another_environment_than_the_tasks_name():
    broken = {"env": {"command": "/nowhere/at-all"}}
    Path("tasks.json").write_text(json.dumps([record(1, mcp_config=broken)]))
    result = invoke("tasks.json", "-c", "c.yaml", "--max-turns", 2)
    assert result.exit_code == 1
    assert "/nowhere/at-all" in result.stderr and "error: every episode broke off" in result.stderr
    result = invoke(
        "tasks.json", "-c", "c.yaml", "--max-turns", 2, "--source", "text-2048", "--json"
    )
    assert (result.exit_code, json.loads(result.stdout)["failed"]) == (0, 0)


def test_episodes_that_broke_off_count_in_no_mean_and_the_exit_code_and_the_summary_say_so():
    broken = record(3, mcp_config={"env": {"command": "/nowhere/at-all"}})
    Path("tasks.json").write_text(json.dumps([record(1), broken]))
    result = invoke("tasks.json", "-c", "c.yaml", "--max-turns", 2, "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["failed"], told["stops"]) == (1, 1, {"max_turns": 1, "error": 1})
    (whole,) = [
        one for row in told["tasks"] for one in row["episodes"] if one["stop"] == "max_turns"
    ]
    assert told["reward"] == whole["reward"] > 0 and told["reward_std"] is None
    assert [row["reward"] for row in told["tasks"]] == [whole["reward"], None]
    assert told["scores"]["format_compliance"] == whole["format_compliance"]
    ((cause, count),) = told["causes"].items()
    assert "/nowhere/at-all" in cause and count == 1
    assert (
        "error: 1 of 2 episodes broke off, and counts in no mean" in result.stderr
        and f"1 x {cause}" in result.stderr
    )
    rows = [
        json.loads(line) for line in Path(told["out"], "metrics.jsonl").read_text().splitlines()
    ]
    assert {row["task"]: (row.get("reward"), row["errors"]) for row in rows} == {
        "t1": (whole["reward"], 0),
        "t3": (None, 1),
    }
    again = invoke("tasks.json", "-c", "c.yaml", "--max-turns", 2)
    assert [line.split()[2] for line in again.stdout.splitlines()[1:]] == [
        f"{whole['reward']:.3f}",
        "-",
    ]


def test_unusable_tasks_are_left_out_and_named():
    Path("tasks.json").write_text(json.dumps([record(1), {"id": "odd"}, record(1)]))
    result = invoke("tasks.json", "-c", "c.yaml", "--max-turns", 1, "--json")
    assert result.exit_code == 0
    assert "2 tasks are left out" in result.stderr and "odd" in result.stderr
    told = json.loads(result.stdout)
    assert told["episodes"] == 1
    assert {problem["id"] for problem in told["problems"]} >= {"odd", "t1"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.json", "-c", "c.yaml"], "no such file"),
        (["tasks.json", "-c", "none.yaml"], "no such file"),
        (["tasks.json", "-c", "c.yaml", "--policy", "wise"], "no policy 'wise'"),
        (["tasks.json", "-c", "c.yaml", "--policy", "replay:none"], "no such file"),
        (
            ["tasks.json", "-c", "c.yaml", "--source", "no such thing"],
            "not an environment that hudtui can find",
        ),
        (
            ["tasks.json", "-c", "c.yaml", "--policy", "openai:x", "--base-url", "nonsense"],
            "not the address of an endpoint",
        ),
        (["empty.json", "-c", "c.yaml"], "there are no tasks here"),
        (["bad.json", "-c", "c.yaml"], "no task can be played"),
        (["tasks.json", "-c", "bad.yaml"], "_tool"),
        (["tasks.json"], "--config"),
        (["tasks.json", "-c", "c.yaml", "--group", "0"], "--group"),
    ],
)
def test_what_cannot_be_used_is_said(arguments, words):
    Path("empty.json").write_text("[]")
    Path("bad.json").write_text('[{"id": 1}]')
    Path("bad.yaml").write_text("action_mappings: {x: {}}\n")
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "Traceback" not in result.output
    assert not Path("outputs").exists()


def test_an_error_as_json():
    result = invoke("none.json", "-c", "c.yaml", "--json")
    assert json.loads(result.stdout)["error"]["what"].startswith("there is no such file")


def test_a_folder_that_is_in_use_and_going_on_there():
    assert (
        invoke(
            "tasks.json", "-c", "c.yaml", "--max-turns", 2, "--output", "out", "--limit", 1
        ).exit_code
        == 0
    )
    again = invoke("tasks.json", "-c", "c.yaml", "--max-turns", 2, "--output", "out")
    assert (again.exit_code, "--resume" in again.stderr) == (2, True)
    further = invoke(
        "tasks.json", "-c", "c.yaml", "--max-turns", 2, "--output", "out", "--resume", "--json"
    )
    assert further.exit_code == 0
    assert "1 of 2 episodes are recorded already" in further.stderr
    assert json.loads(further.stdout)["episodes"] == 2


def test_a_model_behind_an_endpoint_with_the_key_of_the_project(own_world):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers["Authorization"], body))
            reply = (
                "<think>x</think><tool>left()</tool>"
                if len(body["messages"]) < 3
                else "<tool>done()</tool>"
            )
            data = json.dumps(
                {
                    "choices": [{"message": {"content": reply}}],
                    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            Path(".env").write_text(
                "OPENAI_API_KEY=sk-of-the-project-0001\nOTHER_KEY=sk-other-0002\n"
            )
            base = f"http://127.0.0.1:{server.server_address[1]}/v1"
            common = [
                "tasks.json",
                "-c",
                "c.yaml",
                "--limit",
                1,
                "--policy",
                "openai:org/tiny",
                "--base-url",
                base,
                "--json",
            ]
            result = invoke(*common, "--temperature", 0.2, "--max-tokens", 99)
            other = invoke(*common, "--api-key-var", "OTHER_KEY", "--seed", 1)
        finally:
            server.shutdown()
            thread.join()
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["stops"] == {"done": 1}
    path, key, body = asked[0]
    assert (path, key) == ("/v1/chat/completions", "Bearer sk-of-the-project-0001")
    assert (body["model"], body["temperature"], body["max_tokens"], "seed" in body) == (
        "org/tiny",
        0.2,
        99,
        False,
    )
    assert other.exit_code == 0
    assert asked[-1][1] == "Bearer sk-other-0002" and "seed" in asked[-1][2]
    for trace in Path("outputs").rglob("*.jsonl"):
        assert "sk-o" not in trace.read_text()
    assert told["tasks"][0]["episodes"][0]["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "requests": 2,
    }
    assert "sk-o" not in result.output + other.output


def test_a_wrong_key_ends_it_with_words():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            base = f"http://127.0.0.1:{server.server_address[1]}/v1"
            result = invoke(
                "tasks.json", "-c", "c.yaml", "--policy", "openai:tiny", "--base-url", base
            )
        finally:
            server.shutdown()
            thread.join()
    assert result.exit_code == 1
    assert "wants a valid key" in result.stderr and "Set OPENAI_API_KEY" in result.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_environments_and_keep_what_is_recorded(number, status, own_world):
    shim = (
        "import os, time; open(f'pid-{os.getpid()}', 'w').close()\n"
        "from hudtui.envs.text_2048 import environment\n"
        "call = environment.GameTable.call\n"
        "def slow(self, tool, arguments):\n"
        "    time.sleep(60 if self.game.seed == 2 and tool == 'move' else 0)\n"
        "    return call(self, tool, arguments)\n"
        "environment.GameTable.call = slow\n"
        "from hudtui.envs.text_2048.__main__ import main; main()\n"
    )
    servers = {"env": {"command": sys.executable, "args": ["-c", shim], "cwd": str(own_world)}}
    Path("tasks.json").write_text(
        json.dumps([record(1, mcp_config=servers), record(2, mcp_config=servers)])
    )
    command = [
        sys.executable,
        "-m",
        "hudtui",
        "eval",
        "tasks.json",
        "-c",
        "c.yaml",
        "--max-turns",
        "3",
        "--output",
        "out",
    ]
    work = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for line in work.stderr:
            if "episode 1/2" in line:
                break
        deadline = time.monotonic() + 30
        while (
            len(pids := [int(path.name[4:]) for path in Path().glob("pid-*")]) < 2
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(work.pid, number)
        rest = work.stderr.read()
        assert work.wait(30) == status, rest
    finally:
        work.kill()
        work.stderr.close()
        work.wait()
    assert "stopped" in rest and "Traceback" not in rest
    assert [episode.task_id for episode in read_trace(Path("out/traces.jsonl"))] == ["t1"]
    deadline = time.monotonic() + 5
    while (
        left := [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    ) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def test_help_is_there_without_heavy_imports():
    code = (
        "import sys\nfrom hudtui.cli.app import build\nbuild()\n"
        "print([name for name in ('mcp', 'pydantic', 'httpx2', 'jsonschema', 'textual', 'yaml') if "
        "name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert "--policy" in invoke("--help").output


ARGS = {"taskset": "tasks.json", "config_path": "./c.yaml"}


class TestAsVfEval:
    """The flags of `vf-eval hud-vf-gym`, as the gym's own documentation has them."""

    @pytest.fixture
    def model(self, monkeypatch):
        """An endpoint whose model always goes left."""
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                message = {"role": "assistant", "content": "<think>a</think><tool>left()</tool>"}
                body = json.dumps(
                    {"choices": [{"message": message, "finish_reason": "stop"}]}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        yield asked
        server.shutdown()
        thread.join()
        server.server_close()

    @pytest.mark.parametrize("gym", ["hud-vf-gym", "buckeye-vf-gym", "hud_vf_gym"])
    def test_the_same_words_play_the_same_tasks(self, model, gym):
        words = [
            "--model",
            "gpt-4.1-mini",
            "--env-args",
            json.dumps(ARGS),
            "--num-examples",
            1,
            "--rollouts-per-example",
            2,
        ]
        result = invoke(gym, *words, "--max-turns", 2, "--json")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert (told["episodes"], told["failed"], told["source"], told["config"]) == (
            2,
            0,
            "tasks.json",
            "c.yaml",
        )
        assert {one["model"] for one in model} == {"gpt-4.1-mini"}

    def test_what_is_not_said_is_as_there(self, model):
        Path("tasks.json").write_text(json.dumps([record(number) for number in range(7)]))
        common = ["hud-vf-gym", "-m", "m", "-a", json.dumps(ARGS), "--max-turns", 1, "--json"]
        assert json.loads(invoke(*common).stdout)["expected"] == 15
        assert json.loads(invoke(*common, "-n", -1, "-r", 1).stdout)["expected"] == 7
        told = " ".join(invoke(*common).stderr.split())
        assert (
            "hud-vf-gym plays 5 tasks with 3 episodes each by default" in told
            and "-n -1 plays all" in told
        )
        assert "by default" not in invoke(*common, "-n", 1, "-r", 1).stderr
        common[4] = json.dumps({**ARGS, "num_tasks": 2, "split": "train"})
        assert json.loads(invoke(*common, "-r", 1).stdout)["expected"] == 2

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["hud-vf-gym"], "neither is named"),
            (["hud-vf-gym", "-a", "{"], "--env-args"),
            (["hud-vf-gym", "-a", "[1]"], "--env-args is a JSON object"),
            (["hud-vf-gym", "-a", '{"taskset": "tasks.json"}'], "lacks config_path"),
            (
                ["hud-vf-gym", "-a", '{"taskset": 5, "config_path": "c.yaml"}'],
                "taskset in --env-args is a text, not 5",
            ),
            (["hud-vf-gym", "-a", json.dumps({**ARGS, "tasksett": 1})], "Did you mean taskset?"),
            (
                ["hud-vf-gym", "-a", json.dumps({**ARGS, "colour": 1})],
                "There are: taskset, config_path, split, num_tasks, reward",
            ),
            (["hud-vf-gym", "-a", json.dumps({**ARGS, "num_tasks": 0})], "a whole number from 1"),
            (["hud-vf-gym", "-a", json.dumps(ARGS), "-c", "c.yaml"], "named twice"),
            (["tasks.json", "-c", "c.yaml", "-a", "{}"], "--env-args is for a gym"),
            (
                ["tasks.json", "-c", "c.yaml", "-m", "x", "-p", "random"],
                "these options exclude each other",
            ),
            (["tasks.json"], "--config"),
            (["tasks.json", "-c", "c.yaml", "-n", 0], "must be at least 1"),
            (["tasks.json", "-c", "c.yaml", "-m", "gpt-4.1-mini"], "OPENAI_API_KEY is not set"),
        ],
    )
    def test_slips_are_told(self, arguments, said):
        result = invoke(*arguments)
        assert result.exit_code == 2 and said in result.stderr.replace("\n", " "), result.output


def test_another_environment_has_a_player_of_its_own_by_default(own_world):
    judged.write_files(own_world)
    Path("look.yaml").write_text("action_mappings:\n  look: {_tool: look}\n")
    words = ["judged.json", "--config", "look.yaml", "--max-turns", 1, "--output", "other"]
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert " policy=random out=other" in result.stderr.splitlines()[0]


def _verdict(messages):
    asked = messages[-1]["content"]
    return json.dumps({"reason": "It is \x1b[31mfine\u202e.", "score": 0.5 * ("Reach" in asked)})


def test_what_judges_took_is_said_at_the_end(monkeypatch):
    with scripted_chat(_verdict) as chat:
        asked = {"rubric": "Is it short?", "model": "m", "endpoint": chat.url, "of": "transcript"}
        parts = [{"judge": {**asked, "price": {"input": 10, "output": 100}}}]
        Path("tasks.json").write_text(
            json.dumps([record(n, evaluate_tool={}, evaluate=parts) for n in (1, 2)])
        )
        options = ("--config", "c.yaml", "--max-turns", 1, "--group", 2)
        first = invoke("tasks.json", *options, "--output", "out")
        again = invoke("tasks.json", *options, "--output", "again", "--json")
    assert first.exit_code == again.exit_code == 0, first.output + again.output
    calls = len(chat.requests)
    assert 2 <= calls <= 4
    cost = calls * (5 * 10 + 7 * 100) / 1e6
    known = f"4 verdicts, {4 - calls} known, {calls} requests"
    assert f"judges: {known}, {5 * calls} + {7 * calls} tokens, ${cost:.4f}" in first.stderr
    told = json.loads(again.stdout)
    nothing = {"requests": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost": 0}
    assert told["judge"] == {"verdicts": 4, "cached": 4, **nothing}
    episode = told["tasks"][0]["episodes"][0]
    assert episode["judge"]["cached"] == 1 and episode["parts"][0]["judge"] == "m"
    assert told["scores"]["judge"] == 0.5
    [line] = {one.scores.parts[0].line() for one in read_trace(Path("out/traces.jsonl"))}
    assert line == "~ judge of the transcript: Is it short? (0.5 of 1): It is fine."


def test_a_judge_that_is_not_there_ends_the_evaluation():
    asked = {"rubric": "Is it short?", "model": "m", "endpoint": "http://127.0.0.1:9/v1"}
    tasks = [record(n, evaluate_tool={}, evaluate=[{"judge": asked}]) for n in range(1)]
    Path("tasks.json").write_text(json.dumps(tasks))
    result = invoke("tasks.json", "--config", "c.yaml", "--max-turns", 1, "--output", "out")
    assert result.exit_code != 0 and "Traceback" not in result.output
    assert "the judge m gave no verdict: no answer from http://127.0.0.1:9/v1" in result.stderr
    assert "1 verdict, 0 known, 0 requests" in result.stderr
