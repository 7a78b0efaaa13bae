"""The screen Results, over traces of episodes that were really played."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.pictures import claiming, png
from support.played import played, task, write
from support.recorded import own_episode, verifiers_conversation, write_own
from support.runs import make_run
from support.waiting import screen_text, told, until
from textual.screen import ModalScreen

from hudtui.core.results import index
from hudtui.core.results.find import find_results
from hudtui.core.rollouts.values import Episode, KeptImage
from hudtui.core.tasks.expectation import JudgedPart
from hudtui.tui.app import HudtuiApp
from hudtui.tui.results.episode_pane import EpisodePane
from hudtui.tui.results.reward_map import RewardMapDialog
from hudtui.tui.results.screen import ResultsScreen
from hudtui.tui.results.transcript import MOST_TURNS
from hudtui.tui.theme import MONOCHROME
from hudtui.tui.widgets import pictures
from hudtui.tui.widgets.dialog import Ask, Confirm
from hudtui.tui.widgets.pick import Pick

WRONG = (
    "I push the tiles \x1b]52;c;UFdORUQ=\x07to the left.",
    "<tool>left(1)</tool>",
    "<tool>left()</tool>",
)


@cache
def evaluated() -> tuple[Episode, ...]:
    """Two tasks with four rollouts each, one of them by an agent that makes mistakes; and a task
    that cannot be set up."""
    near, far = task("near", target=16), task("far-4x4", size=4, seed=7, target=64)
    episodes = [played(one, rollout=number) for one in (near, far) for number in range(4)]
    episodes[1] = played(near, rollout=1, replies=WRONG)
    episodes[5] = played(far, rollout=1, policy="greedy")
    return (
        *episodes,
        *(played(task("broken", setup="nope"), rollout=number) for number in range(2)),
    )


@cache
def trained() -> tuple[Episode, ...]:
    """Three steps of a training, each with two episodes of a task."""
    one = task("near")
    return tuple(
        played(
            one, rollout=number, policy="greedy" if step > 1 else "random", step=step, split="train"
        )
        for step in (1, 2, 3)
        for number in range(2)
    )


@pytest.fixture
def outputs(project: Path) -> Path:
    write(project / "outputs" / "mine" / "traces.jsonl", *evaluated())
    return project


async def opened(pilot: Any, **given: Any) -> ResultsScreen:
    """The screen with all episodes read, and the first one shown."""
    app = pilot.app
    app.open_screen("results", **given)
    await until(
        pilot,
        lambda: isinstance(app.screen, ResultsScreen) and app.screen.episode.transcript is not None,
    )
    screen: ResultsScreen = app.screen
    return screen


def text_of(pane: EpisodePane) -> str:
    """The text of the view; of a long episode beside a list, as far as it is drawn."""
    return "\n".join(line.plain for line in pane._page.lines)


# -- the pictures, and the words of other states
# --------------------------------------------------------------------------------------------------


def test_picture_full(snap: Any, outputs: Path, size: tuple[int, int]) -> None:
    async def show(pilot: Any) -> None:
        await opened(pilot)

    assert snap(HudtuiApp(outputs), size=size, run_before=show)


def test_picture_of_an_episode(snap: Any, outputs: Path, size: tuple[int, int]) -> None:
    async def show(pilot: Any) -> None:
        screen = await opened(pilot)
        await pilot.press("enter", "down", "enter")
        await until(
            pilot, lambda: screen.episode.entry is not None and screen.episode.entry.rollout == 1
        )
        await pilot.press("right")

    assert snap(HudtuiApp(outputs), size=size, run_before=show)


async def test_two_episodes_stand_beside_each_other(says: Any, outputs: Path) -> None:
    async def show(pilot: Any) -> None:
        screen = await opened(pilot)
        await pilot.press("enter", "c", "down", "down")
        await until(pilot, lambda: screen.episode.diff is not None)
        assert not screen.message

    words = (
        "near · #2 · 0.800",
        "◆ near · #0 · 0.600",
        "turn 1 ≠ reply, calls, observation ─ turn 1 ≠ reply, calls, observation",
        "<tool>right()</tool> <tool>down()</tool>",
        '→ move(direction="right") → move(direction="down")',
        "◆#0 0.600 max_turns 6 3.0s",
    )
    await says(HudtuiApp(outputs), *words, size=(160, 45), run_before=show)


async def test_two_groups_stand_beside_each_other(says: Any, outputs: Path) -> None:
    async def show(pilot: Any) -> None:
        await opened(pilot)
        await pilot.press("c", "down")

    words = (
        "◆ near 4 0.680 0.14",
        "run mine mine",
        "episodes 4 4",
        "reward 0.600 ± 0.000 0.680 ± 0.142",
        "lowest, highest 0.600, 0.600 0.520, 0.800",
        "solved 0 (own reward 1 or more) 0 (own reward 1 or more)",
        "pass@k 1: 0.00 2: 0.00 4: 0.00 1: 0.00 2: 0.00 4: 0.00",
        "task completion 0.500 0.625",
        "ended max_turns 4 max_turns 4",
        "#1 0.600 max_turns #3 0.800 max_turns",
    )
    await says(HudtuiApp(outputs), *words, size=(160, 45), run_before=show)


async def test_failures_are_listed_by_their_cause(says: Any, outputs: Path) -> None:
    async def show(pilot: Any) -> None:
        screen = await opened(pilot)
        await pilot.press("F")
        await until(pilot, lambda: screen.episode.entry is not None and screen.episode.entry.failed)

    words = (
        "broken · #0 · –",
        "cause n tasks reward – tool execution 0 format compliance 0",
        "the setup failed: setup answere… 2 1 error 0 turns 12 ms",
        "not solved, max_turns: some cal… 1 1",
        "replies without a call that c… 1 1",
        "calls that were refused 1 1",
        "5 causes",
        "0 8 episodes 1",
    )
    await says(HudtuiApp(outputs), *words, size=(120, 35), run_before=show)


async def test_a_range_of_rewards_narrows_the_lists(says: Any, outputs: Path) -> None:
    async def show(pilot: Any) -> None:
        await opened(pilot)
        await pilot.press("h", "right", "shift+right")

    words = (
        "near 4 0.680 0.14",
        "2 groups",
        "#1 0.520 max_turns 6 3.0s",
        "2 episodes",
        "0 0.5 to 0.7: 6 episodes 1",
        "→ Next rewards",
    )
    await says(HudtuiApp(outputs), *words, size=(120, 35), run_before=show)


async def test_without_an_episode_the_screen_says_what_records_one(
    says: Any, project: Path
) -> None:
    async def show(pilot: Any) -> None:
        pilot.app.open_screen("results")
        await until(pilot, lambda: "No episode is recorded" in screen_text(pilot.app))

    words = (
        "No episode is recorded in this project yet. A run, or hudtui eval, records every episode; "
        "o opens a file"
    )
    await says(HudtuiApp(project), words, run_before=show)


async def test_reading_is_said(says: Any, outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def follow(_: Any) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(index, "follow", follow)

    async def show(pilot: Any) -> None:
        await until(pilot, lambda: pilot.app.facts is not None)
        pilot.app.open_screen("results")
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, ResultsScreen) and bool(pilot.app.screen.sources),
        )
        await until(pilot, lambda: "Reading" in screen_text(pilot.app))

    await says(HudtuiApp(outputs), "Reading …", run_before=show, wait=False)


async def test_a_file_without_episodes_says_which_line_could_not_be_read(
    says: Any, project: Path
) -> None:
    (project / "outputs" / "mine").mkdir(parents=True)
    (project / "outputs" / "mine" / "traces.jsonl").write_text("no JSON\n[1]\n")

    async def show(pilot: Any) -> None:
        pilot.app.open_screen("results")
        await until(pilot, lambda: "2 lines could not be read" in screen_text(pilot.app))

    words = (
        "No line of this file is an episode. o opens another",
        "! warning: 2 lines could not be read; the first is line 1: Expecting value: line 1 column "
        "1 (char 0)",
    )
    await says(HudtuiApp(project), *words, run_before=show)


# -- reading
# --------------------------------------------------------------------------------------------------


async def test_groups_lead_to_episodes_and_turns(
    open_app: Any, outputs: Path, screen_text: Any
) -> None:
    async with open_app(outputs, size=(160, 45)) as (app, pilot):
        screen = await opened(pilot)
        assert [group.key.task for group in screen.groups.listed] == ["near", "far-4x4", "broken"]
        assert len(screen.episodes.listed) == 4
        await pilot.press("enter", "down")
        await until(
            pilot, lambda: "turn 6" in text_of(screen.episode) and screen.episode.entry.rollout == 1
        )
        shown = text_of(screen.episode)
        assert "I push the tiles to the left." in shown, "what a terminal would obey is taken out"
        assert '→ move(direction="left")' in shown and "✗ error: " in shown
        head = screen_text(app)
        assert "tool execution" in head and "max_turns" in head and "500 ms" in head
        await pilot.press("enter", "right", "right")
        assert screen.episode.turn == 2
        await pilot.press("K")
        await until(pilot, lambda: screen.episode.entry.rollout == 0)
        await pilot.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
        await until(
            pilot,
            lambda: '"interpretation": {' in screen_text(app) or '"entry": {' in screen_text(app),
        )
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.screen.NAME == "home")


async def test_a_failure_is_told_with_its_cause(
    open_app: Any, outputs: Path, screen_text: Any
) -> None:
    async with open_app(outputs, size=(160, 45)) as (app, pilot):
        screen = await opened(pilot)
        await pilot.press("F")
        await until(
            pilot, lambda: len(screen.failures.listed) >= 2 and len(screen.episodes.listed) == 2
        )
        assert [row.cause.startswith("not solved, ") for row in screen.failures.listed[:2]] == [
            False,
            True,
        ]
        assert "the setup failed" in screen_text(app)
        await pilot.press("enter", "enter")
        await until(
            pilot, lambda: screen.episode.transcript is not None and screen.episode.entry.failed
        )
        assert "the setup failed" in text_of(screen.episode)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: not screen.by_cause)
        assert app.screen is screen, "failures are a level below the groups"


async def test_rewards_filter_the_lists(open_app: Any, outputs: Path) -> None:
    async with open_app(outputs, size=(160, 45)) as (_, pilot):
        screen = await opened(pilot)
        everything = [entry for entry in screen.index.entries if entry.reward is not None]
        await pilot.press("h", "right")
        await until(pilot, lambda: screen._rewards is not None)
        low, high = screen._rewards or (0.0, 0.0)
        await until(
            pilot,
            lambda: all(low <= (entry.reward or 0.0) < high for entry in screen.episodes.listed),
        )
        wanted = {entry.task for entry in everything if low <= entry.reward < high}
        assert {group.key.task for group in screen.groups.listed} == wanted
        assert sum(one.count for one in screen.rewards.histogram.buckets) == len(everything), (
            "the bars stay those of all"
        )
        while screen.rewards.histogram.chosen[1] < 9:
            await pilot.press("shift+right")
        await until(
            pilot,
            lambda: len(screen.groups.listed) == 2 and screen.groups.listed[0].key.task == "near",
        )
        await pilot.press("escape")
        await until(pilot, lambda: screen._rewards is None)
        await pilot.press("shift+tab", "shift+tab", "home")
        await until(pilot, lambda: len(screen.episodes.listed) == 4)


async def test_lists_are_filtered_and_sorted(open_app: Any, outputs: Path) -> None:
    async with open_app(outputs, size=(160, 45)) as (_, pilot):
        screen = await opened(pilot)
        await pilot.press("slash", *"failed:>0", "enter")
        await until(pilot, lambda: [group.key.task for group in screen.groups.listed] == ["broken"])
        await pilot.press("escape")
        await until(pilot, lambda: len(screen.groups.listed) == 3)
        await pilot.press("s", "s", "s")
        await until(pilot, lambda: screen.groups.sort == "reward")
        rewards = [group.reward for group in screen.groups.listed if group.reward is not None]
        assert rewards == sorted(rewards) and len(rewards) == 2


async def test_a_text_is_found_in_all_episodes(
    open_app: Any, outputs: Path, screen_text: Any
) -> None:
    async with open_app(outputs, size=(160, 45)) as (app, pilot):
        screen = await opened(pilot)
        await pilot.press("down", "f")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"push the tiles", "enter")
        await until(
            pilot,
            lambda: app.screen is screen and len(screen.hits.listed) > 0 and not screen.is_busy,
        )
        hit = screen.hits.listed[0]
        assert screen.index.entries[hit.number].rollout == 1 and hit.turn == 1
        await pilot.press("enter")
        await until(
            pilot, lambda: screen.episode.entry.number == hit.number and screen.episode._page.found
        )
        assert "push the tiles" in screen_text(app)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: not screen.searching)


async def test_a_text_that_stands_nowhere_is_told(open_app: Any, outputs: Path) -> None:
    async with open_app(outputs, size=(120, 35)) as (app, pilot):
        await opened(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"xyzzy", "enter")
        await until(pilot, lambda: told(app, "No episode contains xyzzy"))


async def test_two_episodes_are_shown_beside_each_other(
    open_app: Any, outputs: Path, screen_text: Any
) -> None:
    async with open_app(outputs, size=(160, 45)) as (app, pilot):
        screen = await opened(pilot)
        await pilot.press("d")
        await until(pilot, lambda: told(app, "marks an episode first"))
        await pilot.press("enter", "c")
        await until(
            pilot, lambda: "The episode is marked." in screen.message and screen.marked.is_attached
        )
        assert "Marked episode" not in screen_text(app)  # there is no other one beside it yet
        await pilot.press("down")
        await until(pilot, lambda: not screen.marked.disabled and screen.episode.diff is not None)
        assert screen.marked.entry.rollout == 0 and screen.episode.entry.rollout == 1
        assert "≠ reply" in text_of(screen.episode) and "≠ reply" in text_of(screen.marked)
        assert "◆#0" in screen_text(app)
        await until(pilot, lambda: screen.episode.turn == screen.marked.turn == 1)
        await pilot.press("d")
        await until(pilot, lambda: screen.episode.turn == screen.marked.turn == 2)
        await pilot.press("c")  # the second of two: both are shown, and the mark stays
        await until(pilot, lambda: screen.episode.has_focus_within)
        assert screen.marked.entry.rollout == 0 and not screen.marked.disabled
        screen.panes.open(screen.episodes)
        await pilot.press("up", "c")
        await until(pilot, lambda: screen.marked.disabled)


async def test_a_long_episode_is_drawn_whole_once_it_is_scrolled_with_the_mouse(
    open_app: Any, project: Path
) -> None:
    said = [{"role": "assistant", "content": f"move {number}"} for number in range(500)]
    record = verifiers_conversation({"role": "user", "content": "Go"}, *said, reward=0.5)
    (project / "outputs" / "evals").mkdir(parents=True)
    (project / "outputs" / "evals" / "traces.jsonl").write_text(json.dumps(record) + "\n")
    async with open_app(project, size=(120, 35)) as (_, pilot):
        screen = await opened(pilot)
        sheet = screen.query_one("#results-episode Sheet")
        assert "move 499" not in text_of(screen.episode)
        sheet.scroll_down(animate=False)
        await until(pilot, lambda: "move 499" in text_of(screen.episode))
        assert not screen.episode.has_focus_within and sheet.scroll_offset.y == 1


async def test_groups_are_compared_with_a_marked_one(open_app: Any, outputs: Path) -> None:
    async with open_app(outputs, size=(160, 45)) as (_, pilot):
        screen = await opened(pilot)
        await pilot.press("c", "down")
        await until(
            pilot,
            lambda: "far-4x4" in text_of(screen.episode) and "near" in text_of(screen.episode),
        )
        lines = {line.split("  ")[0]: line for line in text_of(screen.episode).splitlines() if line}
        near, far = screen.index.groups()[:2]
        assert f"{near.reward:.3f}" in lines["reward"] and f"{far.reward:.3f}" in lines["reward"]
        assert lines["pass@k"].count("1: ") == 2 and not screen.message


async def test_two_episodes_are_shown_in_the_same_view_after_groups_were_compared(
    open_app: Any, outputs: Path
) -> None:
    async with open_app(outputs, size=(160, 45)) as (_, pilot):
        screen = await opened(pilot)
        await pilot.press("c")
        await until(pilot, lambda: screen.episode.view == "group")
        await pilot.press("enter", "c")
        await until(pilot, lambda: screen.marked_episode is not None)
        await pilot.press("j", "c")
        await until(pilot, lambda: screen.episode.diff is not None and not screen.marked.disabled)
        assert screen.episode.view == screen.marked.view == "turns"
        assert "move" in text_of(screen.episode) or "turn" in text_of(screen.episode)


async def test_what_was_marked_and_how_it_was_looked_at_ends_with_the_run(
    open_app: Any, outputs: Path
) -> None:
    other = outputs / "outputs" / "other" / "traces.jsonl"
    write(other, played(task("elsewhere")), played(task("elsewhere"), rollout=1))
    async with open_app(outputs, size=(160, 45)) as (app, pilot):
        screen = await opened(pilot, path="outputs/mine")
        await pilot.press("slash", *"broken", "enter")
        await until(pilot, lambda: [group.key.task for group in screen.groups.listed] == ["broken"])
        await pilot.press("enter", "c")
        await until(pilot, lambda: screen.marked_episode is not None)
        await pilot.press("F")
        await until(pilot, lambda: screen.by_cause)
        app.open_screen("home")
        await pilot.pause()
        app.open_screen("results", path="outputs/other")
        await until(
            pilot,
            lambda: screen.episode.entry is not None and screen.episode.entry.task == "elsewhere",
        )
        assert not screen.by_cause and screen.marked.disabled
        assert [group.key.task for group in screen.groups.listed] == ["elsewhere"]


async def test_what_is_marked_stays_when_another_run_is_chosen_here(
    open_app: Any, outputs: Path
) -> None:
    other = outputs / "outputs" / "other" / "traces.jsonl"
    write(other, played(task("elsewhere")))
    async with open_app(outputs, size=(160, 45)) as (app, pilot):
        screen = await opened(pilot, path="outputs/mine")
        found = find_results(outputs)
        await pilot.press("enter", "c")
        await until(pilot, lambda: screen.marked_episode is not None)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        app.screen.dismiss(next(place for place, one in enumerate(found) if one.name == "other"))
        await until(
            pilot,
            lambda: screen.episode.entry is not None and screen.episode.entry.task == "elsewhere",
        )
        assert not screen.marked.disabled and screen.marked.entry.task != "elsewhere"


async def test_the_bars_count_the_listed_groups(open_app: Any, outputs: Path) -> None:
    async with open_app(outputs, size=(160, 45)) as (_, pilot):
        screen = await opened(pilot)

        def counted() -> int:
            return sum(one.count for one in screen.rewards.histogram.buckets)

        everything = counted()
        await pilot.press("slash", *"task:near")
        await until(pilot, lambda: counted() == 4)
        await pilot.press("escape")
        await until(pilot, lambda: counted() == everything)


async def test_tasks_are_told_apart_by_the_ends_of_their_names(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    names = [f"board-of-a-game-with-a-long-name-and-seed-{seed}" for seed in (1, 7, 42)]
    write(project / "outputs" / "mine" / "traces.jsonl", *(played(task(name)) for name in names))
    async with open_app(project, size=(160, 45)) as (_, pilot):
        await opened(pilot)
        shown = screen_text(pilot.app)
        assert (
            "seed-1 " in shown
            and "seed-7 " in shown
            and "seed-42 " in shown
            and "board-of" in shown
        )


async def test_two_groups_are_compared_where_one_pane_is_shown(
    open_app: Any, outputs: Path, screen_text: Any
) -> None:
    async with open_app(outputs, size=(80, 24)) as (app, pilot):
        screen = await opened(pilot)
        await pilot.press("c", "down")
        assert "The group is marked." in screen.message
        await pilot.press("c")
        await until(
            pilot,
            lambda: (
                "pass@k" in screen_text(app)
                and "far-4x4" in screen_text(app)
                and "near" in screen_text(app)
            ),
        )


async def test_a_file_that_grows_is_followed(open_app: Any, outputs: Path) -> None:
    file = outputs / "outputs" / "mine" / "traces.jsonl"
    async with open_app(outputs, size=(120, 35)) as (_, pilot):
        screen = await opened(pilot)
        await pilot.press("down")
        chosen = screen.groups.row.key
        write(file, played(task("later")))
        await until(pilot, lambda: len(screen.groups.listed) == 4)
        assert screen.groups.row.key == chosen, "the cursor stays where it is"
        write(file, played(task("far-4x4", size=4, seed=7, target=64), rollout=4))
        await until(pilot, lambda: len(screen.episodes.listed) == 5)
        file.unlink()
        write(file, played(task("anew")))
        await until(pilot, lambda: [group.key.task for group in screen.groups.listed] == ["anew"])
        await until(
            pilot, lambda: screen.episode.entry is not None and screen.episode.entry.task == "anew"
        )


async def test_lines_that_are_no_episodes_are_told_and_the_others_shown(
    open_app: Any, outputs: Path
) -> None:
    with (outputs / "outputs" / "mine" / "traces.jsonl").open("a") as stream:
        stream.write('{"half": 1}\n')
    async with open_app(outputs, size=(120, 35)) as (_, pilot):
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: "1 line could not be read" in screen.message and "line 11" in screen.message,
        )
        assert len(screen.index.entries) == 10


async def test_another_run_or_a_file_is_opened(open_app: Any, outputs: Path) -> None:
    elsewhere = played(task("elsewhere"))
    write(outputs / "elsewhere.jsonl", elsewhere)
    async with open_app(outputs, size=(120, 35)) as (app, pilot):
        screen = await opened(pilot)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, ModalScreen))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"elsewhere.jsonl", "enter")
        await until(pilot, lambda: [one.path.name for one in screen.sources] == ["elsewhere.jsonl"])
        await until(
            pilot,
            lambda: screen.episode.entry is not None and screen.episode.entry.task == "elsewhere",
        )
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, ModalScreen))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"nowhere.jsonl", "enter")
        await until(pilot, lambda: told(app, "nowhere.jsonl"))
        assert [one.path.name for one in screen.sources] == ["elsewhere.jsonl"], (
            "what is open stays"
        )


async def test_a_folder_with_several_results_is_opened_at_once(
    project: Path, screen_text: Any
) -> None:
    for name in ("first", "second"):
        write(project / "results" / name / "traces.jsonl", played(task(f"of-{name}")))
    app = HudtuiApp(project, opens=("results", {"path": project / "results"}))
    async with app.run_test(size=(160, 45)) as pilot:
        await until(
            pilot,
            lambda: isinstance(app.screen, ResultsScreen) and len(app.screen.groups.listed) == 2,
        )
        assert {group.key.run for group in app.screen.groups.listed} == {"first", "second"}
        await until(
            pilot,
            lambda: "Groups · 2 results" in screen_text(app) and "of-first" in screen_text(app),
        )


async def test_a_narrow_terminal_shows_one_pane_at_a_time(
    open_app: Any, outputs: Path, screen_text: Any
) -> None:
    async with open_app(outputs, size=(60, 20)) as (app, pilot):
        screen = await opened(pilot)
        assert screen.groups.display and not screen.episode.display
        await pilot.press("enter")
        assert screen.episodes.display and not screen.groups.display
        await pilot.press("enter")
        await until(pilot, lambda: screen.episode.display and "Play 2048." in screen_text(app))
        await pilot.press("escape")
        assert screen.episodes.display, "the list that the episode was opened from"
        await pilot.press("escape")
        assert screen.groups.display
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"push the tiles", "enter")
        await until(
            pilot,
            lambda: app.screen is screen and len(screen.hits.listed) > 0 and not screen.is_busy,
        )
        await pilot.press("enter")
        assert screen.episode.display
        await pilot.press("escape")
        assert screen.hits.display and screen.hits.has_focus_within, "the next hit can be opened"
        await pilot.press("escape")
        assert not screen.searching and screen.episodes.display, "the search is left"


async def test_a_long_text_of_an_answer_is_cut_and_the_record_has_all(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    long = "<tool>left()</tool>" + "x" * 20_000 + "the end"
    episode = played(task(), replies=(long,))
    write(project / "outputs" / "mine" / "traces.jsonl", episode)
    async with open_app(project, size=(120, 35)) as (_, pilot):
        screen = await opened(pilot)
        assert "more characters; the record shows all" in text_of(screen.episode)
        screen.episode.turn_to("record")
        await pilot.pause()
        assert "the end" in screen.episode.query_one("JsonView").text


async def test_episodes_are_exported(open_app: Any, outputs: Path) -> None:
    async with open_app(outputs, size=(120, 35)) as (app, pilot):
        await opened(pilot)
        for down, form, name in (
            ((), ("down",), "one.md"),
            (("down",), (), "group.jsonl"),
            (("down", "down"), (), "all.jsonl"),
        ):
            await pilot.press("E")
            await until(
                pilot,
                lambda: isinstance(app.screen, Pick) and "Which episodes?" in screen_text(app),
            )
            await pilot.press(*down, "enter")
            await until(pilot, lambda: isinstance(app.screen, Pick) and " as" in screen_text(app))
            await pilot.press(*form, "enter")
            await until(pilot, lambda: isinstance(app.screen, Ask))
            await pilot.press("end", "ctrl+u", *name, "enter")
            await until(pilot, lambda name=name: told(app, f"written to {name}"))
        assert "Reach 16." in (outputs / "one.md").read_text()
        assert len((outputs / "group.jsonl").read_text().splitlines()) == 4
        assert (outputs / "all.jsonl").read_text() == (
            outputs / "outputs" / "mine" / "traces.jsonl"
        ).read_text()


async def test_a_file_is_not_replaced_without_a_question(open_app: Any, outputs: Path) -> None:
    (outputs / "kept.md").write_text("mine")
    async with open_app(outputs, size=(120, 35)) as (app, pilot):
        await opened(pilot)
        await pilot.press("E")
        await until(
            pilot, lambda: isinstance(app.screen, Pick) and "Which episodes?" in screen_text(app)
        )
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Pick) and " as" in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press("end", "ctrl+u", *"kept.md", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, ResultsScreen))
        assert (outputs / "kept.md").read_text() == "mine"


async def test_an_episode_is_copied_without_control_sequences(
    open_app: Any, outputs: Path, monkeypatch: Any
) -> None:
    copied: list[str] = []
    async with open_app(outputs, size=(120, 35)) as (app, pilot):
        screen = await opened(pilot)
        monkeypatch.setattr(app, "copy", copied.append)
        await pilot.press("enter", "down")
        await until(
            pilot, lambda: screen.episode.entry is not None and screen.episode.entry.rollout == 1
        )
        await pilot.press("y")
        await until(pilot, lambda: bool(copied))
        assert "I push the tiles" in copied[0] and "\x1b" not in copied[0]


async def test_an_image_is_named_by_its_type_and_size(open_app: Any, project: Path) -> None:
    """In a trace of verifiers, which holds its data."""
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 4000}"}}
    prompt = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
    said = [{"role": "assistant", "content": "A board."}]
    record = verifiers_conversation(*prompt, *said, task="look", reward=0.5)
    (project / "outputs" / "evals").mkdir(parents=True)
    (project / "outputs" / "evals" / "traces.jsonl").write_text(json.dumps(record) + "\n")
    async with open_app(project, size=(120, 35)) as (_, pilot):
        screen = await opened(pilot)
        for view in ("turns", "messages"):
            screen.episode.turn_to(view)
            assert "What is this?" in text_of(screen.episode) and "A board." in text_of(
                screen.episode
            )
            assert "image/png, of no known format, 3.0 kB" in text_of(screen.episode)


@pytest.fixture
def seen(project: Path) -> Path:
    """An episode whose tools have answered with images: a good one, one that claims to be huge, and
    one that was not kept."""
    episode = played(task("near"), policy="greedy")
    images = (
        KeptImage("image/png", 1, png()),
        KeptImage("image/png", 1, claiming(8_000, 8_000)),
        KeptImage("image/gif", 9_000_000),
    )
    turns = (replace(episode.turns[0], images=images), *episode.turns[1:])
    write(
        project / "outputs" / "mine" / "traces.jsonl",
        replace(episode, turns=turns, images=images[:1]),
    )
    return project


def test_picture_of_images(snap: Any, seen: Path) -> None:
    pytest.importorskip("PIL")

    async def show(pilot: Any) -> None:
        screen = await opened(pilot)
        await pilot.press("enter", "enter")
        await until(
            pilot,
            lambda: screen.episode.transcript is not None and bool(screen.episode._page.turns),
        )

    assert snap(HudtuiApp(seen), size=(120, 45), run_before=show)


async def test_images_are_lines_of_the_episode(open_app: Any, seen: Path) -> None:
    pytest.importorskip("PIL")
    async with open_app(seen, size=(120, 45)) as (app, pilot):
        screen = await opened(pilot)
        text = text_of(screen.episode)
        assert text.count("▀" * 24) == 16, "two images of 24x16 pixels, one in the opening"
        assert (
            "8000x8000 pixels are too many" in text
            and "[image 4: image/gif, 9000.0 kB, not kept]" in text
        )
        app.theme = MONOCHROME
        screen.episode.show_view()
        assert "▀" not in text_of(screen.episode) and "images need colours" in text_of(
            screen.episode
        )


async def test_without_the_extra_a_line_says_how_to_see_an_image(
    open_app: Any, seen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "installed", lambda: False)
    async with open_app(seen, size=(120, 45)) as (_, pilot):
        screen = await opened(pilot)
        text = text_of(screen.episode)
        assert (
            "[image 1: image/png, 24x16, 0.7 kB; I opens it; pip install 'hudtui[images]' shows "
            "images here]" in text
        )
        await pilot.press("enter", "enter", "right", "I")
        await until(pilot, lambda: isinstance(pilot.app.screen, Pick))
        await pilot.press("enter")
        await until(pilot, lambda: told(pilot.app, "it is in"))
        (saved,) = (seen / ".hudtui" / "images").iterdir()
        assert saved.suffix == ".png" and saved.read_bytes() == base64.b64decode(png())


async def test_an_episode_of_very_many_turns_is_drawn_when_it_is_read_and_cut(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    said = [{"role": "assistant", "content": f"move {number}"} for number in range(MOST_TURNS + 7)]
    record = verifiers_conversation({"role": "user", "content": "Go"}, *said, reward=0.5)
    (project / "outputs" / "evals").mkdir(parents=True)
    (project / "outputs" / "evals" / "traces.jsonl").write_text(json.dumps(record) + "\n")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        screen = await opened(pilot)
        assert "turn 20\n" in text_of(screen.episode) and f"move {MOST_TURNS - 1}\n" not in text_of(
            screen.episode
        )
        assert (
            screen.query_one("#results-episode Sheet").max_scroll_y > 2 * MOST_TURNS
        )  # the scroll bar tells that there is more
        await pilot.press("enter", "enter", "G")
        await until(pilot, lambda: "more turns; the record shows all" in screen_text(app))
        text = text_of(screen.episode)
        assert (
            f"move {MOST_TURNS - 1}\n" in text
            and f"move {MOST_TURNS}\n" not in text
            and "… 7 more turns" in text
        )


# -- from Runs
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def training(project: Path) -> Path:
    """A training of three steps with its episodes."""
    rows = [
        {"step": step, "max_steps": 3, "reward": step / 4, "reward_std": 0.1} for step in (1, 2, 3)
    ]
    make_run(project, "grpo-aaaa", "finished", name="grpo", rows=rows)
    write(project / ".hudtui" / "runs" / "grpo-aaaa" / "out" / "traces.jsonl", *trained())
    return project


async def test_a_point_of_a_curve_leads_to_its_episodes_in_two_keys(
    open_app: Any, training: Path, screen_text: Any
) -> None:
    async with open_app(training, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(
            pilot,
            lambda: getattr(app.screen, "view", None) is not None and app.screen.view.step == "3/3",
        )
        await pilot.press("m")
        await until(pilot, lambda: app.screen.pane.tab == "metrics" and app.focused is not None)
        await until(pilot, lambda: "by step" in screen_text(app))
        await pilot.press("left")
        await until(pilot, lambda: "Enter: its episodes" in screen_text(app))
        await pilot.press("enter")
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, ResultsScreen) and app.screen.episode.transcript is not None
            ),
        )
        screen = app.screen
        assert {group.key.step for group in screen.groups.listed} == {
            2
        } and screen.episode.entry.step == 2
        await pilot.press("escape")
        await until(pilot, lambda: len(screen.groups.listed) == 3)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.NAME == "run")


@pytest.fixture
def long_training(project: Path) -> Path:
    """Forty steps of a training with twelve tasks, of which each step plays some."""
    episodes = [
        own_episode(
            f"board-{task:02}",
            min(step * (task + 1) / 300, 1.0),
            rollout=number,
            step=step,
            split="train",
        )
        for step in range(1, 41)
        for task in range(12)
        for number in range(2)
        if (step + task) % 5
    ]
    write_own(project / "outputs" / "grpo" / "traces.jsonl", *episodes)
    return project


def test_picture_of_the_map(snap: Any, long_training: Path, size: tuple[int, int]) -> None:
    async def show(pilot: Any) -> None:
        screen = await opened(pilot)
        await until(pilot, lambda: len(screen.groups.listed) == 384)
        await pilot.press("M")
        await until(pilot, lambda: isinstance(pilot.app.screen, RewardMapDialog))
        await pilot.press("end", "left", "down", "down")
        await until(
            pilot,
            lambda: "step 39 · board-02: mean reward 0.390, 2 episodes" in screen_text(pilot.app),
        )

    assert snap(HudtuiApp(long_training), size=size, run_before=show)


async def test_the_map_leads_to_a_group(
    open_app: Any, long_training: Path, screen_text: Any
) -> None:
    async with open_app(long_training, size=(120, 35)) as (app, pilot):
        screen = await opened(pilot)
        await until(pilot, lambda: len(screen.groups.listed) == 384)
        await pilot.press("M", "home")
        await until(
            pilot, lambda: "step 1 · board-00: mean reward 0.003, 2 episodes" in screen_text(app)
        )
        assert "0 is 0.00333, 9 is 1" in screen_text(app)
        await pilot.press("G", "right", "right")
        await until(
            pilot, lambda: "step 3 · board-11: mean reward 0.120, 2 episodes" in screen_text(app)
        )
        await pilot.press("right", "enter")
        await until(pilot, lambda: "step 4 · board-11: no episode is recorded" in screen_text(app))
        await pilot.press("left", "enter")
        await until(
            pilot, lambda: app.screen is screen and screen.groups.row.key.task == "board-11"
        )
        assert screen.groups.row.key.step == 3 and screen.panes.current is screen.episodes
        await pilot.press("M")
        await until(pilot, lambda: "step 3 · board-11" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)


async def test_the_map_follows_a_training_that_goes_on(
    open_app: Any, long_training: Path, screen_text: Any
) -> None:
    file = long_training / "outputs" / "grpo" / "traces.jsonl"

    def add(task: str, reward: float, step: int) -> None:
        write_own(file, own_episode(task, reward, rollout=2, step=step, split="train"))

    async with open_app(long_training, size=(120, 35)) as (app, pilot):
        screen = await opened(pilot)
        await until(pilot, lambda: len(screen.groups.listed) == 384)
        await pilot.press("M", "end", "left", "down", "down")
        await until(
            pilot, lambda: "step 39 · board-02: mean reward 0.390, 2 episodes" in screen_text(app)
        )
        add("board-02", 0.99, 39)
        await until(
            pilot, lambda: "step 39 · board-02: mean reward 0.590, 3 episodes" in screen_text(app)
        )
        add("a-board", 0.5, 41)  # a task above the cursor, and a step behind it
        await until(pilot, lambda: "a-board" in screen_text(app))
        assert "step 39 · board-02: mean reward 0.590, 3 episodes" in screen_text(app), (
            "the cursor stays where it is"
        )
        await pilot.press("end", "home", "end", "g", "enter")
        await until(pilot, lambda: app.screen is screen and screen.panes.current is screen.episodes)
        assert (screen.groups.row.key.task, screen.groups.row.key.step) == ("a-board", 41)
        add("board-00", 0.5, 42)
        await until(pilot, lambda: len(screen.groups.listed) == 386)


@pytest.mark.parametrize("theme", ["monochrome", "ansi-dark", "ansi-light"])
async def test_the_map_is_read_without_shades(
    open_app: Any,
    long_training: Path,
    screen_text: Any,
    monkeypatch: pytest.MonkeyPatch,
    theme: str,
) -> None:
    monkeypatch.setenv("HUDTUI_THEME", theme)
    monkeypatch.setenv("HUDTUI_ASCII", "1")
    async with open_app(long_training, size=(80, 24)) as (app, pilot):
        screen = await opened(pilot)
        await until(pilot, lambda: len(screen.groups.listed) == 384)
        await pilot.press("M")
        await until(
            pilot, lambda: "board-11 001 1223 3445 5667 7889 9999 9999 9999 9" in screen_text(app)
        )


async def test_without_steps_there_is_no_map(
    open_app: Any, outputs: Path, screen_text: Any
) -> None:
    async with open_app(outputs, size=(120, 35)) as (app, pilot):
        await opened(pilot)
        await pilot.press("M")
        await until(
            pilot,
            lambda: "Map: no listed group belongs to a step of a training" in screen_text(app),
        )


async def test_a_task_of_an_evaluation_leads_to_its_group(open_app: Any, project: Path) -> None:
    rows = [
        {"step": number, "task": name, "episodes": 4, "reward": 0.5}
        for number, name in ((1, "near"), (2, "far-4x4"))
    ]
    make_run(project, "eval-aaaa", "finished", name="eval", rows=rows)
    write(project / ".hudtui" / "runs" / "eval-aaaa" / "out" / "traces.jsonl", *evaluated())
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(
            pilot,
            lambda: (
                getattr(app.screen, "view", None) is not None
                and len(app.screen.view.result.rows) == 2
            ),
        )
        await pilot.press("m")
        await until(pilot, lambda: app.screen.pane.tab == "metrics" and app.focused is not None)
        await pilot.press("enter", "enter")  # one chart large, then the episodes
        await until(
            pilot,
            lambda: isinstance(app.screen, ResultsScreen) and app.screen.groups.row is not None,
        )
        screen = app.screen
        await until(
            pilot,
            lambda: screen.groups.row.key.task == "far-4x4" and len(screen.groups.listed) == 3,
        )
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.NAME == "run")
        app.screen.pane.turn_to("result")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "run-result")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen and screen.groups.row.key.task == "near")


async def test_a_run_without_episodes_says_how_to_get_them(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    make_run(project, "grpo-aaaa", "finished", name="grpo")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: getattr(app.screen, "view", None) is not None)
        await pilot.press("R")
        await until(
            pilot,
            lambda: (
                "has no episode on this computer" in screen_text(app)
                and "p in Runs" in screen_text(app)
            ),
        )


async def test_a_step_without_episodes_is_told(open_app: Any, training: Path) -> None:
    async with open_app(training, size=(120, 35)) as (_, pilot):
        screen = await opened(pilot, run="grpo-aaaa", step=17.0)
        await until(pilot, lambda: told(pilot.app, "No episode of step 17"))
        assert len(screen.groups.listed) == 3


async def test_the_palette_opens_the_screen(open_app: Any, outputs: Path) -> None:
    async with open_app(outputs, size=(120, 35)) as (app, pilot):
        await app.action_act("app.open-results")
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, ResultsScreen) and app.screen.episode.transcript is not None
            ),
        )


@pytest.mark.parametrize("width", [80, 160])
async def test_parts_of_ones_own_are_columns_of_the_groups(project: Path, width: int) -> None:
    scored = own_episode("near", 0.5)
    own = {"brevity": 0.25, "said": 1.0}
    part = JudgedPart("said", 1.0, 1.0, "the reply contains delta", "delta")
    others = [
        replace(scored, scores=replace(scored.scores, own={**own, "brevity": value}, parts=(part,)))
        for value in (0.25, 0.75)
    ]
    write(project / "outputs" / "mine" / "traces.jsonl", *others, own_episode("far", 0.5))
    app = HudtuiApp(project)
    async with app.run_test(size=(width, 40)) as pilot:
        screen = await opened(pilot)
        await until(pilot, lambda: "brevity" in screen_text(app))
        heads = next(line for line in screen_text(app).splitlines() if " mean " in line)
        # Where there is room for one alone, that of one's own is shown.
        assert heads.index("brevity") > heads.index("mean") and ("said" in heads) is (width == 80)
        near = next(line for line in screen_text(app).splitlines() if " near " in line)
        assert "0.500" in near[heads.index("brevity") - 2 :]
        await pilot.press("F")
        await until(pilot, lambda: "not solved, done too early" in screen_text(app))
        assert screen.failures.listed[0].numbers == (0, 1, 2)


async def test_enter_shows_a_folded_native_reply_whole_and_folds_it_again(
    open_app: Any, project: Path
) -> None:
    call = '<tool_call>\n{"name": "left", "arguments": {}}\n</tool_call>'
    episode = own_episode(dialect="native")
    turns = tuple(replace(turn, reply=f"<think>So.</think>\n{call}") for turn in episode.turns)
    folder = project / "outputs" / "mine"
    folder.mkdir(parents=True)
    write_own(folder / "traces.jsonl", replace(episode, turns=turns))
    async with open_app(project, size=(160, 45)) as (_, pilot):
        pane = (await opened(pilot)).episode
        await until(pilot, lambda: "… thought: So." in text_of(pane))
        assert "<tool_call>" not in text_of(pane) and "→ move(" in text_of(pane)
        pane.first_focus().focus()
        await pilot.press("enter")
        await until(pilot, lambda: "<tool_call>" in text_of(pane))
        await pilot.press("enter")
        await until(pilot, lambda: "<tool_call>" not in text_of(pane))
