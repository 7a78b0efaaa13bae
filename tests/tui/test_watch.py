from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from support import tmux_world, vllm_server
from support.tracker_files import WANDB_RUN, history, stats, wandb_file
from support.waiting import eventually, until
from textual.widgets import TabPane
from tui import test_run as runs

from hudtui.core.diagnosis.alarms import USUAL
from hudtui.core.runs.external import ExternalPlace, find_external
from hudtui.tui import preferences
from hudtui.tui.app import HudtuiApp
from hudtui.tui.log.reading import OPENING_LINES
from hudtui.tui.widgets.metrics_pane import MetricsPane

own_tmux = tmux_world.own_tmux


def tmux(*arguments: str) -> None:
    subprocess.run(["tmux", *arguments], check=True, capture_output=True)


def session(name: str, text: str, window: str = "work") -> None:
    """A tmux session that shows a text and stays."""
    tmux(
        "new-session",
        "-d",
        "-x",
        "100",
        "-y",
        "30",
        "-s",
        name,
        "-n",
        window,
        f"printf '%s\\n' '{text}'; read end",
    )


async def answer(pilot: Any, text: str) -> None:
    """Answer a question at once: each key that is typed waits for the screen."""
    await until(pilot, lambda: pilot.app.screen.query("#answer") and pilot.app.screen.is_mounted)
    pilot.app.screen.query_one("#answer").value = text
    await pilot.press("enter")


def log_text(screen: Any) -> str:
    return str(screen.logs.main.buffer.everything()) if screen.NAME == "run" else ""


FILE, PORT, MACHINE = -3, -2, -1
"""Places in the list of what can be followed; sessions stand before them."""


async def choose(pilot: Any, place: int) -> None:
    """Choose in the list of what can be followed."""
    app = pilot.app
    await until(pilot, lambda: app.screen.query("#pick-rows") and app.screen.is_mounted)
    rows = app.screen.query_one("#pick-rows")
    app.screen.dismiss(place % rows.option_count)


async def others(app: Any, pilot: Any) -> None:
    """Ask for an external run on the screen Runs."""
    app.open_screen("run")
    await until(
        pilot,
        lambda: app.screen.NAME == "run" and app.facts is not None,
    )
    await pilot.press("o")


async def test_a_session_of_somebody_else_is_followed(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    session("theirs", "step 7/9 reward=0.5 loss=0.25\n\x1b]52;c;UFdORUQ=\x07after")
    tmux("new-window", "-d", "-t", "=theirs:", "-n", "server", "echo serving; read end")
    session("hudtui-other-1", "nothing")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        await others(app, pilot)
        await until(pilot, lambda: "other-1" in screen_text(app))
        assert "tmux session, work, server" in screen_text(app)
        names = screen_text(app)
        await choose(pilot, 0 if names.index("theirs") < names.index("other-1") else 1)
        await until(
            pilot,
            lambda: (
                "after" in log_text(app.screen)
                and "0.500" in screen_text(app).partition("Curves")[0]
            ),
        )
        screen = app.screen
        assert "step 7/9" in screen_text(app) and "\x1b" not in log_text(screen)
        await pilot.press("full_stop")
        await until(pilot, lambda: "serving" in log_text(screen))
        await pilot.press("m")
        await until(
            pilot, lambda: len(screen.query_one("#run-metrics", MetricsPane).charts.titles()) == 2
        )
        assert "◇ followed  read-only" in screen_text(app)
        await pilot.press("right_square_bracket", "full_stop")
        await until(pilot, lambda: "after" in log_text(screen))
        tmux("kill-session", "-t", "=theirs")
        await until(pilot, lambda: "□ ended" in screen_text(app))
        await until(pilot, lambda: "the window was closed" in screen_text(app))
        assert "after" in log_text(screen)


async def test_an_external_run_is_a_row_that_can_be_read_and_taken_away(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    """It stands beside the runs of the project, and no action of theirs touches it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests have folders in the usual
    runs.make_training(project, "train-cccc", "grpo lora 8", seed=1)
    path = project / "their.log"
    path.write_text("{'loss': '0.5', 'reward': '0.75', 'step': 3}\n")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run", file=str(path))
        await until(pilot, lambda: "0.750" in screen_text(app) and "train-cccc" in app.screen.rows)
        screen = app.screen
        assert [row.summary.external for row in screen.runs.listed] == [True, False]
        assert screen.pane.names == ("metrics", "log")
        await pilot.press("escape")
        await until(pilot, lambda: "Metrics" in screen_text(app))
        assert "Start again" not in screen_text(app), "the footer has what can be done"
        for action in ("e", "a", "C", "t", "R", "b", "p", "E", "number_sign", "Z", "i", "h", "d"):
            before = len(app.messages)
            await pilot.press(action)
            await until(pilot, lambda before=before: len(app.messages) > before)
            assert "hudtui did not start this run" in app.messages[-1][2], action
        screen.runs.choose("train-cccc")
        await until(
            pilot, lambda: screen.chosen == "train-cccc" and "step 60/100" in screen_text(app)
        )
        assert len(screen.pane.names) == 7
        await until(pilot, lambda: "Start again" in screen_text(app))
        app.open_screen("run", file=str(path))
        await until(pilot, lambda: screen.chosen != "train-cccc" and len(screen.pane.names) == 2)
        assert len(screen.runs.listed) == 2, "it is followed once"
        with path.open("a") as stream:
            stream.write("one more\n")
        await until(pilot, lambda: "one more" in log_text(screen))
        await pilot.press("escape", "x")
        await until(pilot, lambda: len(screen.runs.listed) == 1)
        assert "nothing was ended" in screen.message and screen.chosen == "train-cccc"
        assert path.exists() and not list(tmp_path.glob("*hudtui-watch*"))


async def test_marked_runs_of_others_leave_the_list_before_the_question(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    runs.make_training(project, "train-cccc", "grpo lora 8", seed=1)
    (project / "a.log").write_text("one\n")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run", file=str(project / "a.log"))
        await until(pilot, lambda: len(getattr(app.screen, "rows", ())) == 2)
        await pilot.press("escape", "asterisk", "x")
        await until(pilot, lambda: app.screen.is_modal)
        assert "train" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.is_modal)
        assert [row.summary.id for row in app.screen.runs.listed] == ["train-cccc"]


async def test_a_folder_of_a_tracker_is_followed_by_its_path(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    path = project / "wandb" / "offline-run-1" / "run-1.wandb"
    path.parent.mkdir(parents=True)
    whole, part = (
        wandb_file(
            history({"_step": n, "train/reward": n / 4, "loss": 1.0, "text": "hi"})
            for n in range(steps)
        )
        for steps in (5, 4)
    )
    path.write_bytes(part)
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run", file=str(project / "wandb"))
        await until(
            pilot,
            lambda: "0.750" in screen_text(app) and '"train/reward": 0.75' in log_text(app.screen),
        )
        assert "W&B: offline-run-1/run-1.wandb" in log_text(app.screen)
        assert "step 3" in screen_text(app) and "read-only" in screen_text(app)
        with path.open("ab") as file:
            file.write(whole[len(part) :])
        await until(pilot, lambda: "step 4" in screen_text(app) and "1.000" in screen_text(app))
        assert app.screen.view.metrics.told == {"reward": "train/reward", "loss": "loss"}


@pytest.mark.parametrize("size", [(160, 45), (80, 24)])
async def test_the_records_of_a_tracker_stand_in_a_tab_and_open_as_a_tree(
    open_app: Any, project: Path, screen_text: Any, size: tuple[int, int]
) -> None:
    path = project / "run-1.wandb"
    steps = [history({"_step": n, "reward": n / 4, "evil": "\x1b[2J"}) for n in range(5)]
    path.write_bytes(wandb_file([WANDB_RUN, *steps]))
    async with open_app(project, size=size) as (app, pilot):
        app.open_screen("run", file=str(path))
        await until(pilot, lambda: "step 4" in screen_text(app))
        await until(pilot, lambda: "Records" in screen_text(app).splitlines()[-1])
        await pilot.press("I")
        await until(pilot, lambda: '6 history {"item": {"' in screen_text(app))
        assert "1 run {" in screen_text(app)
        more = wandb_file([WANDB_RUN, *steps, history({"_step": 5, "reward": 2.0})])
        with path.open("ab") as file:
            file.write(more[path.stat().st_size :])
        await until(pilot, lambda: "7 history {" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: '"reward": 2.0' in screen_text(app))
        assert "Line 7 of 7: 7 history" in screen_text(app)
        await pilot.press("escape", "I")
        await until(pilot, lambda: app.screen.NAME == "run" and app.screen.pane.tab == "log")


def cluster(project: Path) -> Path:
    """A run of W&B on two machines with four GPUs each."""
    path, records = project / "run-1.wandb", []
    for step in range(40):
        load = {
            f"gpu.{gpu}.{what}/l:{box}": base + 10.0 * gpu + step / 2
            for gpu in range(4)
            for box in ("b", "a")
            for what, base in (("temp", 30), ("gpu", 10 if box == "a" else 40))
        }
        records += [
            history({"_step": step, "_timestamp": 1700000000 + 15 * step, "reward": step / 40}),
            stats(1700000000 + 15 * step, load),
        ]
    path.write_bytes(wandb_file(records))
    return path


async def show_maps(app: Any, pilot: Any, screen_text: Any, path: Path) -> None:
    app.open_screen("run", file=str(path))
    await until(pilot, lambda: "step 39" in screen_text(app))
    await until(pilot, lambda: app.screen.pane.tab == "metrics")
    await pilot.press("H")
    await until(pilot, lambda: "a GPU 0" in screen_text(app))


@pytest.mark.parametrize("size", [(160, 45), (80, 24)])
async def test_the_load_of_many_gpus_is_a_map(
    open_app: Any, project: Path, screen_text: Any, size: tuple[int, int]
) -> None:
    async with open_app(project, size=size) as (app, pilot):
        await show_maps(app, pilot, screen_text, cluster(project))
        lines = [line.strip("│ ▇▄") for line in screen_text(app).splitlines()]
        first = next(place for place, line in enumerate(lines) if "GPU utilization %" in line)
        rows = [line.partition("▕")[2] or line for line in lines[first + 1 : first + 9]]
        names = [f"{box} GPU {gpu}" for box in "ab" for gpu in range(4)]
        assert [row[:7] for row in rows] == names
        assert rows[0].split()[3][0] == "1" and rows[0].endswith(" 29.5")
        assert rows[7].split()[3][0] == "7" and rows[7].endswith(" 89.5")
        await pilot.press("pagedown")
        await until(pilot, lambda: "GPU temperature °C" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "by step" in screen_text(app))
        assert "a GPU 0" not in screen_text(app)


@pytest.mark.parametrize("size", [(160, 45), (80, 24)])
async def test_the_app_opens_on_the_run_that_is_named(
    project: Path, screen_text: Any, size: tuple[int, int]
) -> None:
    """Home is made when it is asked for. Coming back from there, the run is shown as before."""
    path = project / "wandb" / "offline-run-1" / "run-1.wandb"
    path.parent.mkdir(parents=True)
    path.write_bytes(wandb_file(history({"_step": n, "reward": n / 4}) for n in range(5)))
    external = await find_external(ExternalPlace(file=str(path.parent)), thresholds=lambda: USUAL)
    app = HudtuiApp(project, opens=("run", {"external": external}))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "┤" in screen_text(app) and "1.000" in screen_text(app))
        assert [screen.NAME for screen in app.screen_stack] == ["run"]
        assert app.screen.panes.alone and app.screen.pane.has_focus_within
        await pilot.press("escape")
        assert app.screen.runs.display, "the list is where Esc leads"
        app.open_screen("home")
        await until(pilot, lambda: app.screen.NAME == "home" and app.screen.is_mounted)
        await pilot.press("5")
        await until(pilot, lambda: "1.000" in screen_text(app))
        assert [row.summary.id for row in app.screen.runs.listed] == [external.place.id]
        app.open_screen("settings")
        await until(pilot, lambda: app.screen.NAME == "settings")
        app.open_screen("home")
        await until(pilot, lambda: app.screen.NAME == "home")
        app.open_screen("run")
        await until(pilot, lambda: "1.000" in screen_text(app))


async def test_the_command_opens_the_app_on_curves(project: Path, own_tmux: str) -> None:
    """In a terminal, by the path alone; what cannot be opened is said in the shell."""
    (project / "metrics.jsonl").write_text('{"step": 1, "loss": 3.0}\n{"step": 2, "loss": 2.5}\n')
    (project / "empty").mkdir()
    command = f"{shlex.quote(sys.executable)} -m hudtui watch"
    words = f"cd {shlex.quote(str(project))}; {command} empty; echo [$?]; read next; exec {command}"
    tmux("new-session", "-d", "-x", "120", "-y", "35", "-s", "it", f"{words} metrics.jsonl")

    def shown() -> str:
        told = ["tmux", "capture-pane", "-p", "-t", "=it:"]
        return subprocess.run(told, check=True, capture_output=True, text=True).stdout

    await eventually(lambda: "[2]" in shown())
    assert "a folder without files of W&B" in shown().replace("\n", "")
    tmux("send-keys", "-t", "=it:", "Enter")
    await eventually(lambda: "┤" in shown() and "step 2" in shown())
    assert "metrics.jsonl" in shown() and "read-only" in shown()


async def test_a_log_is_followed_by_its_path(
    open_app: Any, project: Path, screen_text: Any, settle: Any
) -> None:
    path = project / "their.log"
    path.write_text("{'loss': '0.5', 'reward': '0.75'}\nRuntimeError: CUDA out of memory.\n")
    async with open_app(project, size=(80, 24)) as (app, pilot):
        await others(app, pilot)
        await choose(pilot, FILE)
        await answer(pilot, str(path))
        await until(pilot, lambda: "out of memory" in log_text(app.screen))
        await until(pilot, lambda: "0.750" in screen_text(app) and "batch_size" in screen_text(app))
        with path.open("a") as stream:
            stream.write("one more\n")
        await until(pilot, lambda: "one more" in log_text(app.screen))
        await pilot.press("escape")
        for name, words in (("not-yet.log", "waiting for"), ("their.log", "◇ followed")):
            await pilot.press("o")
            await choose(pilot, FILE)
            await answer(pilot, str(project / name))
            await until(pilot, lambda words=words: words in screen_text(app))
        assert len(app.screen.runs.listed) == 2


async def test_a_model_server_is_followed_by_its_port(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    state = project / "state.json"
    state.write_text(json.dumps({"running": 7, "waiting": 2, "kv": 0.5}))
    with vllm_server.make_server(state) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            async with open_app(project, size=(120, 35)) as (app, pilot):
                await others(app, pilot)
                await choose(pilot, PORT)
                await answer(pilot, "many")
                await until(pilot, lambda: "is no port" in screen_text(app))
                await answer(pilot, str(server.server_address[1]))
                await until(pilot, lambda: "7 running 2 waiting KV 50 %" in screen_text(app))
                assert "Qwen/Qwen2.5-3B-Instruct" in screen_text(app)
                await until(
                    pilot,
                    lambda: len(app.screen.query_one(MetricsPane).charts.titles()) >= 3,
                )
                state.write_text(json.dumps({"status": 500}))
                await until(pilot, lambda: "answers 500" in screen_text(app))
        finally:
            server.shutdown()
            thread.join()


async def test_the_whole_of_a_log_is_searched(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    """Lines that were never fetched are found, and read when they are scrolled to."""
    count = 3 * OPENING_LINES
    texts = {7: "the seed is 3", count - 5: "the seed is 4"}
    (project / "their.log").write_text(
        "".join(f"line {n} {texts.get(n, 'INFO step')}\n" for n in range(count))
    )
    async with open_app(project, size=(100, 30)) as (app, pilot):
        app.open_screen("run", file=str(project / "their.log"))
        await until(
            pilot,
            lambda: (
                getattr(app.screen, "NAME", "") == "run"
                and f"line {count - 1}" in log_text(app.screen)
            ),
        )
        log = app.screen.logs.main
        assert len(log.buffer) == OPENING_LINES and log.before
        app.screen.logs.front.focus()
        await pilot.press("slash", *"seed", "enter")
        await until(pilot, lambda: "“seed”: 2 of 2" in screen_text(app))
        await pilot.press("N")
        await until(
            pilot,
            lambda: "line 7 the seed" in screen_text(app) and "“seed”: 1 of 2" in screen_text(app),
        )


async def test_a_machine_that_is_none_is_told(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    async with open_app(project, size=(80, 24)) as (app, pilot):
        app.open_screen("run", machine="nobody@127.0.0.1:1")
        await until(
            pilot, lambda: "127.0.0.1" in app.screen.message and "Asking" not in app.screen.message
        )


async def test_a_machine_that_cannot_be_reached_leaves_the_one_before(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    async with open_app(project, size=(80, 24)) as (app, pilot):
        await others(app, pilot)
        await choose(pilot, MACHINE)
        await answer(pilot, "nobody@127.0.0.1:1")
        await until(pilot, lambda: "127.0.0.1" in getattr(app.screen, "message", ""))
        await until(pilot, lambda: "Asking" not in app.screen.message)
        await pilot.press("o")
        await until(pilot, lambda: "External run on this machine" in screen_text(app))


async def test_a_followed_run_is_listed_again_until_it_is_taken_away(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    runs.make_training(project, "train-cccc", "grpo lora 8", seed=1)
    path = project / "their.log"
    path.write_text("{'loss': '0.5', 'reward': '0.75', 'step': 3}\n")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run", file=str(path))
        await until(pilot, lambda: "0.750" in screen_text(app))
        await until(pilot, lambda: app.screen.pane.tab == "metrics")
        await until(pilot, lambda: app.followed())
    path.write_text("{'loss': '0.5', 'reward': '0.25', 'step': 4}\n")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run")
        await until(pilot, lambda: len(getattr(app.screen, "rows", ())) == 2)
        screen = app.screen
        assert screen.chosen == "train-cccc" and "□ their.log" in screen_text(app)
        screen.runs.choose(next(run for run in screen.rows if run != "train-cccc"))
        await until(pilot, lambda: "0.250" in screen_text(app) and "◇ followed" in screen_text(app))
        await pilot.press("x")
        await until(pilot, lambda: len(screen.rows) == 1)
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run")
        await until(pilot, lambda: getattr(app.screen, "rows", ()))
        assert list(app.screen.rows) == ["train-cccc"] and not app.followed()


async def test_runs_that_another_hudtui_follows_stay_in_the_list(
    open_app: Any, project: Path
) -> None:
    first, second = project / "first.log", project / "second.log"
    for path in (first, second):
        path.write_text("{'loss': '0.5', 'step': 3}\n")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        await until(pilot, lambda: app.facts is not None)
        other = (str(project), {"machine": "local", "file": str(first)})
        preferences.change(app.places.state / preferences.FILE, followed=(other,))
        app.open_screen("run", file=str(second))
        await until(pilot, app.followed)
        assert [row["file"] for row in app.followed()] == [str(first), str(second)]


async def test_a_remembered_run_that_is_gone_can_be_taken_away(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    folder = project / "gone"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run", file=str(folder))
        await until(pilot, lambda: app.followed() and "0.500" in screen_text(app))
    (folder / "metrics.jsonl").unlink()
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run")
        await until(pilot, lambda: "without files of W&B" in getattr(app.screen, "message", ""))
        await pilot.press("x")
        await until(pilot, lambda: not app.screen.rows)
        assert not app.followed()


async def test_a_pinned_chart_stays_first_and_curves_become_files(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    path = project / "their.log"
    path.write_text("{'loss': '0.5', 'reward': '0.75', 'odd': 2, 'step': 3}\n")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run", file=str(path))
        await until(pilot, lambda: getattr(app.screen, "pane", None) is not None)
        await until(
            pilot, lambda: app.screen.pane.tab == "metrics" and app.screen.query("#plot-bar")
        )
        charts = app.screen.query_one("#run-metrics", MetricsPane).charts
        await until(pilot, lambda: len(charts.titles()) == 3 and charts.focused)
        await pilot.press("down", "asterisk")
        assert [title for _, title in charts.titles()] == ["odd", "reward", "loss"]
        await until(pilot, lambda: "◆ odd" in screen_text(app))
        assert app.preferences.pinned == ("=odd",)
        await pilot.press("W")
        await answer(pilot, "curves.png")
        await until(pilot, lambda: "ends neither in .csv nor in .svg" in screen_text(app))
        await answer(pilot, "curves.csv")
        await until(pilot, lambda: (project / "curves.csv").exists())
        assert (project / "curves.csv").read_text().splitlines()[
            0
        ] == "run,step,time,odd,reward,loss"
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.open_screen("run", file=str(path))
        await until(pilot, lambda: app.screen.query("#run-metrics"))
        charts = app.screen.query_one("#run-metrics", MetricsPane).charts
        await until(pilot, lambda: len(charts.titles()) == 3)
        assert charts.titles()[0][1] == "odd"
        app.screen.query_one("#run-metrics", MetricsPane).focus()
        await pilot.press("asterisk")
        assert [title for _, title in charts.titles()] == ["reward", "loss", "odd"]


async def pane_of_one_step(app: Any, pilot: Any, screen_text: Any, project: Path) -> Any:
    """The pane of a run of W&B with one step, whose curves are shown."""
    path = project / "run-1.wandb"
    path.write_bytes(wandb_file([WANDB_RUN, history({"_step": 1, "reward": 0.25, "loss": 2.0})]))
    app.open_screen("run", file=str(path))
    await until(pilot, lambda: "0.250" in screen_text(app))
    await until(pilot, lambda: app.screen.pane.tab == "metrics")
    return app.screen.pane


async def test_a_tab_that_is_left_has_the_focus_no_more(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    """What stands beside the hidden widget would get it, and show its tab again."""
    async with open_app(project, size=(160, 45)) as (app, pilot):
        pane = await pane_of_one_step(app, pilot, screen_text, project)
        pane.turn_to("metrics")
        await until(pilot, lambda: pane.query_one("#metrics").has_focus_within)
        pane.turn_to("records")
        assert not pane.query_one("#metrics").has_focus_within
        await until(pilot, lambda: pane.query_one("#records").has_focus_within)
        pane.turn_to("metrics")
        assert pane.query_one("#metrics").has_focus_within, "the next key goes to the tab"


async def test_a_late_word_of_the_focus_of_a_tab_turns_nothing_back(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    """Keys in bursts show the next tab before the one that had the focus has told of it."""
    async with open_app(project, size=(160, 45)) as (app, pilot):
        pane = await pane_of_one_step(app, pilot, screen_text, project)
        pane.turn_to("records")
        await until(pilot, lambda: pane.query_one("#records").has_focus_within)
        left = pane.query_one("#metrics", TabPane)
        left.post_message(TabPane.Focused(left))
        await pilot.pause()
        await pilot.pause()
        assert pane.tab == "records" and pane.query_one("#records").has_focus_within


@pytest.mark.parametrize("words", ["", "reward"])
async def test_the_filter_of_the_curves_takes_no_focus_when_its_tab_is_shown_again(
    open_app: Any, project: Path, screen_text: Any, words: str
) -> None:
    async with open_app(project, size=(80, 24)) as (app, pilot):
        await pane_of_one_step(app, pilot, screen_text, project)
        await pilot.press("slash", *words, "enter", "I")
        await until(pilot, lambda: "1 run {" in screen_text(app))
        await pilot.press("m", "u")
        await until(pilot, lambda: "· smoothed" in screen_text(app))


async def test_charts_fill_their_room_also_where_no_resize_told_of_it(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    """Textual tells of none where a line below was freed while a dialog opened."""
    async with open_app(project, size=(80, 24)) as (app, pilot):
        await pane_of_one_step(app, pilot, screen_text, project)
        charts = app.screen.query_one("#run-metrics", MetricsPane).charts
        await until(pilot, lambda: charts.room > 5)
        whole, charts.room = charts.room, charts.room - 1
        app.screen.refresh(layout=True)
        await until(pilot, lambda: charts.room == whole)
