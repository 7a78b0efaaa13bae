"""Home: its picture, the words of its other states, the demo, and what its keys do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until
from tui.test_run import make_run, make_training

from hudtui.core.errors import InputError, Location
from hudtui.core.events import Progress
from hudtui.tui.app import HudtuiApp
from hudtui.tui.facts import Facts, Money, RunFact, StepFact, WalletFact
from hudtui.tui.home.panes import RewardPane
from hudtui.tui.home.reads import RunRead
from hudtui.tui.services import Services
from hudtui.tui.widgets.charts import ChartLine, curves, series_styles
from hudtui.tui.widgets.virtual_table import VirtualTable
from hudtui.tui.workspace_facts import load_facts

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SIZES = [(160, 45), (120, 35), (80, 24), (60, 20)]

STEPS = {
    "environment": StepFact(
        "done", "text-2048: 1 tool", "Look at its tools, or analyze another one."
    ),
    "mapping": StepFact("done", "1 config", "Edit and check it."),
    "dataset": StepFact("next", "no task file", "Add a tasks file."),
    "compute": StepFact("done", "this machine", "Runs start on this machine."),
    "run": StepFact("missing", "no run yet", "Complete the steps before this one."),
}
RUNS = (
    RunFact("a", "2048 greedy, all tasks", "running", True, "●", NOON.timestamp() - 75),
    RunFact("b", "2048 random", "finished", False, "✓", NOON.timestamp() - 7300, 184.0),
    RunFact(
        "c",
        "[bold]odd[/bold] 名前 " + "long " * 20,
        "failed",
        False,
        "✗",
        NOON.timestamp() - 90000,
        3.4,
    ),
    *(
        RunFact(f"r{n}", f"run {n}", "stopped", False, "■", NOON.timestamp() - 200000, 61.0)
        for n in range(6)
    ),
)


def app(folder: Path, **changes: Any) -> HudtuiApp:
    known = Facts(folder, "HUD", account=WalletFact("HUD_API_KEY", None), steps=STEPS)
    return HudtuiApp(
        folder,
        services=Services(
            now=lambda: NOON, load_facts=lambda _: replace(known, **changes), sync_runs=_quiet
        ),
    )


async def _quiet(folder: Path, first: bool) -> tuple[str, ...]:
    return ()


def full(folder: Path) -> dict[str, Any]:
    return {
        "account": WalletFact("HUD_API_KEY", ".env"),
        "steps": {
            **STEPS,
            "run": StepFact("running", "2048 greedy, all tasks running", "Watch it."),
        },
        "configs": (Path("configs/2048.yaml"), Path("configs/other.yaml")),
        "task_files": (Path("tasks.json"),),
        "lock": Path("hud.lock.yaml"),
        "image": "registry.example.com:5000/organisation/a-very-long-environment-name:1.2.3@sha256:"
        + "0a1b" * 16,
        "dataset": "my-org/my-tasks",
        "runs": RUNS,
        "warnings": ("hud.lock.yaml and buckeye.lock.yaml are both here; HUD is taken.", "x" * 200),
    }


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 20)])
def test_picture_full(snap: Callable[..., bool], project: Path, size: tuple[int, int]) -> None:
    assert snap(app(project, **full(project)), size=size)


@pytest.mark.parametrize("theme", ["hudtui-light", "monochrome"])
def test_picture_themes(
    snap: Callable[..., bool], project: Path, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDTUI_THEME", theme)
    assert snap(app(project, **full(project)), size=(120, 35))


def test_picture_help(snap: Callable[..., bool], project: Path) -> None:
    assert snap(app(project, **full(project)), size=(80, 24), press=["question_mark"])


def nothing(folder: Path) -> HudtuiApp:
    empty = {name: StepFact("missing", "nothing yet") for name in STEPS} | {
        "environment": StepFact("next", "none analyzed yet")
    }
    return app(folder, steps=empty)


def everything(folder: Path) -> HudtuiApp:
    return app(folder, **full(folder))


def not_readable(folder: Path) -> HudtuiApp:
    def fail(folder: Path) -> Facts:
        raise InputError(
            "this folder cannot be opened",
            why="Permission denied",
            fix="Start hudtui elsewhere.",
            where=Location("/srv/[red]x"),
        )

    return HudtuiApp(folder, services=Services(now=lambda: NOON, load_facts=fail))


EMPTY = (
    "hudtui takes you from an MCP environment to a monitored training run.",
    "There is no project in this folder yet. Begin with:",
    "d Demo workspace a working example, the game 2",
    "1 Connect an environment see and call its tools, write",
    "3 Open a task file check its tasks, and convert",
    ", Keys and addresses what you use may need one; lo",
    "1 ► env 2 ○ map 3 ○ data 4 ○ gpu 5 ○ run",
)
BROKEN = (
    "The project could not be read. F5 reads it again.",
    "✗ error: /srv/[red]x: this folder cannot be opened Permission denied Start hudtui elsewhere.",
)
QUESTION = (
    "Quit hudtui? 1 run is active",
    "● 2048 greedy, all tasks",
    "It continues without hudtui. Open it here again to watch,",
    "or type: hudtui runs list",
    "Quit (y) Stay (n)",
)


@pytest.mark.parametrize(
    ("made", "press", "words"),
    [
        pytest.param(nothing, (), EMPTY, id="empty"),
        pytest.param(not_readable, (), BROKEN, id="not readable"),
        pytest.param(everything, ("q",), QUESTION, id="question"),
    ],
)
async def test_the_words_of_a_state(
    says: Any, project: Path, made: Any, press: tuple[str, ...], words: tuple[str, ...]
) -> None:
    await says(made(project), *words, press=press)


async def test_reading_is_said(says: Any, project: Path, reading_app: Any) -> None:
    await says(reading_app(project), "Reading the project…", "1 · env 2 · map", wait=False)


@pytest.mark.parametrize("size", [(59, 24), (80, 19)])
async def test_a_terminal_that_is_too_small(
    says: Any, project: Path, size: tuple[int, int]
) -> None:
    text = await says(app(project), size=size)
    assert text.strip() == "Make the terminal at least 60x20."


async def test_growing_and_shrinking_re_flows(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], project: Path
) -> None:
    one = app(project, **full(project))
    async with open_app(project, size=(160, 45), services=one.services) as (running, pilot):
        wide = screen_text(running)
        assert "Next" in wide and "Recent runs" in wide and "Project" in wide
        await pilot.resize_terminal(59, 19)
        await until(
            pilot,
            lambda: (
                "at least 60x20" in screen_text(running) and "Recent" not in screen_text(running)
            ),
        )
        await pilot.resize_terminal(60, 20)
        await until(
            pilot,
            lambda: all(part in screen_text(running) for part in ("Next", "Running", "1 ✓ env")),
        )
        assert all(len(line) <= 60 for line in screen_text(running).splitlines())
        await pilot.resize_terminal(160, 45)
        await until(pilot, lambda: screen_text(running) == wide)


async def test_archived_runs_are_not_listed(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], project: Path
) -> None:
    runs = (RUNS[0], replace(RUNS[1], hidden=True), *RUNS[2:])
    one = app(project, **full(project) | {"runs": runs})
    async with open_app(project, size=(120, 45), services=one.services) as (running, _):
        assert "run 0" in screen_text(running) and "2048 random" not in screen_text(running)


async def test_enter_opens_the_next_station(
    open_app: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(HudtuiApp, "open_screen", lambda self, name, **given: opened.append(name))
    async with open_app(project, services=app(project).services) as (_, pilot):
        await pilot.press("enter")
        assert opened == ["dataset"]


async def test_enter_watches_the_run_in_progress(
    open_app: Callable[..., Any],
    screen_text: Callable[[Any], str],
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(
        HudtuiApp, "open_screen", lambda self, name, **given: opened.append((name, given))
    )
    done = full(project)["steps"] | {"dataset": StepFact("done", "1 task file")}
    one = app(project, **(full(project) | {"steps": done, "runs": (RUNS[1], RUNS[0])}))
    async with open_app(project, services=one.services) as (running, pilot):
        assert "1 run in progress." in screen_text(running)
        await pilot.press("enter")
        assert opened == [("run", {"run": "a"})]


async def test_demo_is_offered_for_an_empty_folder_only(
    open_app: Callable[..., Any], settle: Any, screen_text: Callable[[Any], str], project: Path
) -> None:
    made: list[Path] = []

    async def prepare(folder: Path) -> Any:
        yield Progress("discover", "starting the game")
        made.append(folder)

    def load(folder: Path) -> Facts:
        return Facts(
            folder, "HUD", steps=STEPS, configs=(Path("configs/2048.yaml"),) if made else ()
        )

    async with open_app(
        project, services=Services(load_facts=load, make_demo=prepare, sync_runs=_quiet)
    ) as (running, pilot):
        assert "d Demo workspace" in screen_text(running)
        await pilot.press("d")
        await _asked(pilot)
        text = screen_text(running)
        assert (
            "~/demo/hudtui-demo, a folder of its own (recommended)" in text
            and "tasks.json, hud.lock.yaml" in text
        )
        await pilot.press("escape")
        await settle(pilot)
        assert made == [], "nothing is written before it was asked"
        await _make_it_here(pilot, settle)
        assert made == [project]
        text = screen_text(running)
        assert "The demo workspace is ready." in text and "d Demo workspace" not in text
        await pilot.press("d")
        await settle(pilot)
        assert made == [project]


async def _asked(pilot: Any) -> None:
    while not pilot.app.screen.is_modal:
        await pilot.pause(0.02)
    await pilot.pause()


async def _make_it_here(pilot: Any, settle: Any) -> None:
    await pilot.press("d")
    await _asked(pilot)
    await pilot.press("down", "enter")
    await settle(pilot)


async def test_the_demo_in_a_folder_of_its_own_is_opened_next(
    open_app: Callable[..., Any], settle: Any, project: Path
) -> None:
    async with open_app(project) as (running, pilot):
        await pilot.press("d")
        await _asked(pilot)
        await pilot.press("enter")
        while running.is_running:
            await pilot.pause(0.02)
    assert (
        running.open_next == project / "hudtui-demo"
        and (project / "hudtui-demo" / "tasks.json").is_file()
    )
    assert list(project.iterdir()) == [project / "hudtui-demo"], "nothing else is written here"


async def test_a_demo_beside_keys_of_ones_own_is_asked_about(
    open_app: Callable[..., Any], settle: Any, screen_text: Callable[[Any], str], project: Path
) -> None:
    (project / ".env").write_text("HUD_API_KEY=mine\n")
    async with open_app(project) as (running, pilot):
        await _make_it_here(pilot, settle)
        await _asked(pilot)
        said = " ".join(screen_text(running).replace("│", " ").split())
        assert "would not be simulated" in said and "for real money" in said
        await pilot.press("n")
        await settle(pilot)
    assert (
        not (project / "tasks.json").exists()
        and (project / ".env").read_text() == "HUD_API_KEY=mine\n"
    )


async def test_a_failed_or_stopped_run_is_not_done(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], project: Path
) -> None:
    done = {name: StepFact("done") for name in STEPS}
    failed = {**done, "run": StepFact("failed", "grpo failed", "Read its log.")}
    async with open_app(
        project, services=app(project, **{**full(project), "steps": failed}).services
    ) as (running, _):
        assert "The last run failed: grpo failed" in screen_text(
            running
        ) and "Ready." not in screen_text(running)
    wrong = {**done, "mapping": StepFact("failed", "7 errors in configs/a.yaml", "Mend it.", 7)}
    async with open_app(
        project, services=app(project, **{**full(project), "steps": wrong}).services
    ) as (running, _):
        assert "2 ✗ 7 mapping" in screen_text(
            running
        ) and "Mapping: 7 errors in configs/a.yaml" in screen_text(running)


async def test_the_real_demo_workspace_is_read(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, project: Path
) -> None:
    async with open_app(project) as (running, pilot):
        assert "Welcome" in screen_text(running)
        await _make_it_here(pilot, settle)
        text = screen_text(running)
        assert "configs/2048.yaml" in text and "tasks.json" in text and "hud.lock.yaml" in text
        assert running.facts.step("mapping").state == "done" and running.facts.next_step == "run"


async def test_a_file_that_another_program_breaks_fails_its_step(
    open_app: Callable[..., Any], settle: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudtui.tui.app.EVERY", 0.05)
    async with open_app(project) as (running, pilot):
        await _make_it_here(pilot, settle)
        tasks = (project / "tasks.json").read_text()
        for text, state in (("[", "failed"), (tasks, "done")):
            (project / "tasks.json").write_text(text)
            for _ in range(400):
                if running.facts.step("dataset").state == state:
                    break
                await pilot.pause(0.05)
            assert running.facts.step("dataset").state == state


async def test_a_click_on_the_road_opens_a_station(
    open_app: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(HudtuiApp, "open_screen", lambda self, name, **given: opened.append(name))
    async with open_app(project, size=(120, 35), services=app(project).services) as (_, pilot):
        await pilot.click("StepBar", offset=(30, 0))
        await pilot.click("StepBar", offset=(45, 0))
        assert opened == ["mapping", "dataset"]


async def test_a_click_on_a_key_does_the_same(open_app: Callable[..., Any], project: Path) -> None:
    async with open_app(project, size=(120, 35), services=app(project).services) as (
        running,
        pilot,
    ):
        bar = running.screen.query_one("KeyBar")
        start = next(start for start, _, key in bar._spans if key.action.id == "app.help")
        await pilot.click("KeyBar", offset=(start + 2, 0))
        await pilot.pause()
        assert type(running.screen).__name__ == "HelpScreen"


# -- with runs in the store
# ----------------------------------------------------------------------------------------------


@pytest.fixture
def measured(project: Path) -> Path:
    """A project with two trainings and a run of tasks, all of which have ended."""
    make_training(project, "a-train", "grpo lora 16", seed=2)
    make_training(project, "b-train", "grpo lora 8", seed=1)
    make_run(project, "c-tasks", "finished", name="greedy on all")
    return project


async def shown(pilot: Any, screen_text: Callable[[Any], str], *words: str) -> str:
    """Wait until home shows all of the words: runs are read after the first paint."""
    for _ in range(500):
        await pilot.pause(0.02)
        text = screen_text(pilot.app)
        if all(word in text for word in words):
            return text
    raise AssertionError(f"{words} not in\n{text}")


def test_picture_with_numbers(
    snap: Callable[..., bool], measured: Path, screen_text: Any, size: tuple[int, int]
) -> None:
    async def read(pilot: Any) -> None:
        await shown(pilot, screen_text, "Reward: grpo lora 16", "┤")
        pane = pilot.app.screen.query_one(RewardPane)
        drawn = 0  # the curve is drawn again whenever the pane has another height
        for _ in range(500):
            drawn = drawn + 1 if pane.body.size.height == pane.content_size.height else 0
            if drawn == 5:
                break
            await pilot.pause(0.02)

    assert snap(
        HudtuiApp(measured, services=Services(now=lambda: NOON, sync_runs=_quiet)),
        size=size,
        run_before=read,
    )


@pytest.mark.parametrize("size", SIZES)
async def test_home_shows_what_runs_have_measured(
    open_app: Callable[..., Any],
    screen_text: Callable[[Any], str],
    measured: Path,
    size: tuple[int, int],
) -> None:
    async with open_app(
        measured, size=size, services=Services(now=lambda: NOON, sync_runs=_quiet)
    ) as (_, pilot):
        text = await shown(pilot, screen_text, "Reward: grpo lora 16", "┤")
        assert all(len(line) <= size[0] for line in text.splitlines())
        if size[0] >= 100:
            assert "0.869" in text and "greedy on all" in text and "0.438" in text


async def test_enter_in_the_list_of_runs_opens_the_run(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], measured: Path, settle: Any
) -> None:
    async with open_app(measured, services=Services(now=lambda: NOON, sync_runs=_quiet)) as (
        running,
        pilot,
    ):
        await shown(pilot, screen_text, "Reward: grpo lora 16")
        while not isinstance(running.focused, VirtualTable):
            await pilot.press("tab")
        row = [run.title for run in running.facts.runs].index("greedy on all")
        await pilot.press(*["down"] * row, "enter")
        await settle(pilot)
        for _ in range(500):
            if running.screen.NAME == "run" and running.screen.chosen == "c-tasks":
                break
            await pilot.pause(0.02)
        assert running.screen.chosen == "c-tasks"
        assert running.last_place() is None
        running.exit()
    async with open_app(measured, services=Services(now=lambda: NOON, sync_runs=_quiet)) as (
        again,
        pilot,
    ):
        assert again.screen.NAME == "home" and again.last_place() == ("run", {"run": "c-tasks"})
        await pilot.press("backspace")  # where it was left
        await settle(pilot)
        assert again.screen.NAME == "run" and again.screen.chosen == "c-tasks"


def test_runs_of_one_name_are_told_apart(project: Path) -> None:
    for run in ("rehearsal-aaaa", "rehearsal-bbbb"):
        make_run(project, run, "finished", name="rehearsal")
    make_run(project, "demo-cccc", "finished", name="demo")
    titles = {run.title for run in load_facts(project).runs}
    assert titles == {"rehearsal aaaa", "rehearsal bbbb", "demo"}


async def test_a_run_of_tasks_is_shown_by_task(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], project: Path
) -> None:
    make_run(project, "tasks-b", "finished", name="greedy on all")
    async with open_app(
        project, size=(120, 35), services=Services(now=lambda: NOON, sync_runs=_quiet)
    ) as (_, pilot):
        text = await shown(pilot, screen_text, "Reward: greedy on all", "mean 0.438 of 6 tasks")
        bars = [line for line in text.splitlines() if "board-" in line]
        assert len(bars) == 6 and "▆" in bars[-1] and "0.750" in bars[-1]
        await pilot.press("d")
        await shown(pilot, screen_text, "Demo workspace: this folder has a project already")
    assert (
        RunRead("one task", reward="0.886", tasks=(("board", 0.886),)).note
        == "mean 0.886 of 1 task"
    )


async def test_money_is_told_with_the_budget_of_the_day(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], project: Path
) -> None:
    async with open_app(
        project, size=(120, 35), services=app(project, **full(project)).services
    ) as (running, pilot):
        assert "Money" not in screen_text(running)
        running.spending.money = Money(2, "$4.90", "$1.13", budget="$20.00", orphans=1, warn=True)
        running.show_money()
        text = await shown(pilot, screen_text, "2 machines   $4.90/h   today $1.13 of $20.00")
        assert "2 machines $4.90/h · $1.13 today ! 1 unclaimed" in text.splitlines()[0]
        running.spending.money = None
        running.show_money()
        await pilot.pause()
        assert "Money" not in screen_text(running)


async def test_alarms_of_runs_in_progress_are_counted_in_the_header(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], project: Path
) -> None:
    async with open_app(
        project, size=(120, 35), services=app(project, **full(project)).services
    ) as (running, pilot):
        running.progress.found["a"] = RunRead(
            "2048 greedy", reward="0.5", step="3/9", alarms=("loss is NaN since step 3",)
        )
        running.show_progress()
        await pilot.pause()
        text = screen_text(running)
        assert (
            "! 1 alarm" in text.splitlines()[0]
            and "! loss is NaN since step 3" in text
            and "step 3/9" in text
        )
        assert "5 ● 1 run" in text.splitlines()[1]


async def test_a_warning_is_shown_in_full_with_the_path_in_the_project(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    (project / "hud.lock.yaml").write_text("version: 1\nimages: {\n")
    async with open_app(project, size=(80, 24)) as (app, _):
        text = " ".join(screen_text(app).replace("│", " ").split())
        assert "! hud.lock.yaml:3:1: the text ends in the middle of a list or mapping" in text, text


async def test_home_leads_on_after_the_first_environment(
    open_app: Any, project: Path, settle: Any, screen_text: Any
) -> None:
    async with open_app(project, size=(120, 35)) as (app, pilot):
        assert "There is no project in this folder yet" in screen_text(app)
        await pilot.press("1")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        app.open_screen("home")
        await settle(pilot)
        text = screen_text(app)
        assert "no project" not in text and "Generate a config from the environment" in text
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.is_modal)  # the config is asked for at once
        await shown(pilot, screen_text, "text-2048.yaml")
        await pilot.press("escape")


async def test_the_name_of_a_screen_that_is_no_step_is_shown_where_it_is_narrow(
    open_app: Any, project: Path, settle: Any, screen_text: Any
) -> None:
    for size in ((80, 24), (60, 20)):
        async with open_app(project, size=size) as (app, pilot):
            for name in ("settings", "playing", "results", "launch"):
                app.open_screen(name)
                await settle(pilot)
                assert (app.screen.TITLE or "-") in screen_text(app).splitlines()[0]


async def test_what_was_copied_is_told_below_the_screen(
    open_app: Any, project: Path, settle: Any
) -> None:
    async with open_app(project) as (app, pilot):
        app.copy("some words")
        await settle(pilot)
        assert "10 characters" in app.screen.message and not app._notifications


async def test_the_curve_of_many_steps_is_smoothed_and_no_taller_than_it_can_be_read(
    open_app: Any, project: Path
) -> None:
    async with open_app(project, size=(160, 45)) as (app, _):
        pane, style = RewardPane(), series_styles(app.current_theme)[0]
        await app.screen.query_one("#home-left").mount(pane)
        for steps, smoothed in ((30, False), (150, True)):
            curve = tuple((float(step), float(step % 2)) for step in range(steps))
            pane.show(RunRead("a", curve=curve), RUNS[1])
            assert (pane.text(80, 20) != curves([ChartLine(curve, style)], 80, 20)) is smoothed
        assert pane.styles.max_height is not None and pane.styles.max_height.value < 30


async def test_home_names_the_dialect_of_the_configuration(
    open_app: Callable[..., Any], settle: Any, project: Path, screen_text: Any
) -> None:
    (project / "configs").mkdir()
    (project / "configs" / "a.yaml").write_text(
        "parser: {dialect: native}\naction_mappings: {left: {_tool: move}}\n"
    )
    async with open_app(project) as (running, pilot):
        for _ in range(400):
            if "native" in running.facts.step("mapping").detail:
                break
            await pilot.pause(0.05)
        await settle(pilot)
        assert "1 config, native" in screen_text(running)
