"""Charts: axes with round values, one cursor for all of them, and curves that are told apart with
and without colours."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from rich.color import Color, ColorSystem
from support.waiting import until
from textual.app import App, ComposeResult
from textual.theme import BUILTIN_THEMES

from hudtui.core.training.axes import figure, thin, value_axis
from hudtui.core.training.metrics import MetricsReader
from hudtui.tui.theme import DEFAULT, MONOCHROME, OWN
from hudtui.tui.widgets.charts import (
    ChartLine,
    SeriesStyle,
    curves,
    series_styles,
    smooth,
    span_text,
    within,
    x_labels,
)
from hudtui.tui.widgets.metrics_pane import MetricsPane, Numbers

START = 1_700_000_000.0


def training(seed: int, steps: int = 60) -> MetricsReader:
    """The numbers of a training, as TRL writes them: a step every 30 seconds."""
    reader, draw = MetricsReader(), random.Random(seed)
    for step in range(1, steps + 1):
        row = {
            "step": step,
            "time": START + 30 * step,
            "reward": 1 - math.exp(-step / (15 * seed)),
            "kl": 0.0005 * step,
        }
        row |= {
            "loss": draw.gauss(0, 0.02),
            "entropy": 2 - step / 60,
            "learning_rate": 1e-5 * min(step / 10, 1),
        }
        reader.add(row | {"clip_ratio": draw.random()})
    return reader


class Host(App[None]):
    """An app that shows charts and nothing else."""

    def __init__(self, runs: Sequence[Numbers], *, theme: str = DEFAULT, **options: Any) -> None:
        super().__init__()
        for own in OWN:
            self.register_theme(own)
        self.theme = theme
        self.runs, self.options = runs, options
        self.chosen: list[tuple[float, str]] = []

    def compose(self) -> ComposeResult:
        yield MetricsPane(**self.options)

    def on_mount(self) -> None:
        pane = self.query_one(MetricsPane)
        pane.show(self.runs)
        pane.focus()

    def on_metrics_pane_step_chosen(self, event: MetricsPane.StepChosen) -> None:
        self.chosen.append((event.step, event.run))


def values_line(text: str) -> str:
    """The line below the charts that tells the values."""
    return text.rstrip().splitlines()[-2].strip()


def cursor_columns(text: str) -> list[int]:
    """The columns of the cursor in a line between two charts' axes."""
    return [place for place, sign in enumerate(text) if sign == "│"]


# -- functions
# --------------------------------------------------------------------------------------------------


def test_charts_are_the_same_for_the_same_numbers() -> None:
    line = tuple((float(x), float(x)) for x in range(100))
    drawn = curves([ChartLine(line)], 30, 6).plain.split("\n")
    assert [len(row) for row in drawn] == [30] * 6
    assert (
        drawn[0].startswith("100 ┤")
        and drawn[-2].startswith("  0 ┤")
        and drawn[0].endswith("⢀⣠⠤⠖⠊")
    )
    assert drawn[-1].split() == ["0", "50", "99"]
    assert curves([ChartLine(())], 24, 4).plain == "\n".join([" " * 24] * 4)
    assert [
        len(row)
        for row in curves([ChartLine(((1.0, 1e300), (1.0, -1e300)))], 24, 5).plain.split("\n")
    ] == [24] * 5
    assert smooth([(0.0, 1.0), (1.0, 0.0)], 0.0) == ((0.0, 1.0), (1.0, 0.0))
    assert smooth([(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)], 0.9)[-1][1] == pytest.approx(1.0)
    many = [(float(x), math.sin(x / 50)) for x in range(10_000)]
    few = thin(many, 200)
    assert (
        len(few) <= 202
        and max(y for _, y in few) > 0.999
        and few[0] == many[0]
        and few[-1] == many[-1]
    )
    assert [
        figure(value) for value in (-0.004375, 0.0, 1234567.0, 12345.0, 0.00001, 0.4375, -3e12)
    ] == [
        "-0.00438",
        "0",
        "1.235M",
        "12.35k",
        "1e-05",
        "0.4375",
        "-3e+12",
    ]


def test_a_part_of_a_curve_reaches_both_ends() -> None:
    line = ((0.0, 0.0), (10.0, 1.0), (20.0, 0.0))
    assert within(line, 5.0, 15.0) == ((5.0, 0.5), (10.0, 1.0), (15.0, 0.5))
    assert within(line, 12.0, 14.0) == ((12.0, pytest.approx(0.8)), (14.0, pytest.approx(0.6)))
    assert within(line, 10.0, 30.0) == line[1:] and within(line, -5.0, 0.0) == line[:1]
    assert within(line, 21.0, 30.0) == () == within((), 0.0, 1.0)


@pytest.mark.parametrize(
    ("values", "options", "ends"),
    [
        ((0.18, 0.63), {}, (0.1, 0.7)),
        ((1234.0, 1580.0), {}, (1200.0, 1600.0)),
        ((-3.0, 5.0), {}, (-3.0, 5.0)),
        ((0.001, 0.001 + 1e-17), {}, (0.001, 0.001)),
        ((43.0, 44.0), {"scale": (0.0, 100.0)}, (0.0, 100.0)),
        ((90.0, 120.0), {"scale": (0.0, 100.0)}, (0.0, 120.0)),
        ((0.0, 0.0), {"scale": (0.0, None)}, (0.0, 1.0)),
        ((3e-6, 4e-2), {"log": True}, (2e-6, 5e-2)),
        ((1e-3, 1e-3), {"log": True}, (1e-3, 1e-3)),
        ((0.0, 8.0), {"log": True}, (0.0, 8.0)),
    ],
)
def test_an_axis_ends_at_round_values_and_holds_all(
    values: tuple[float, float], options: dict[str, Any], ends: tuple[float, float]
) -> None:
    axis = value_axis(values, **options)
    assert (axis.low, axis.high) == pytest.approx(ends)
    assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value in values)
    assert axis.log == (bool(options.get("log")) and values[0] > 0)


def test_equal_factors_are_equal_heights_on_a_logarithmic_axis() -> None:
    axis = value_axis((1e-6, 1e-2), log=True)
    shares = [axis.share(10.0**power) for power in range(-6, -1)]
    assert shares == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert axis.labels(13) == {0: "0.01", 3: "0.001", 6: "0.0001", 9: "1e-05", 12: "1e-06"}


@pytest.mark.parametrize(
    ("low", "high", "columns", "by_time", "words"),
    [
        (1.0, 60.0, 40, False, ["1", "20", "40", "60"]),
        (0.0, 3.0, 60, False, ["0", "1", "2", "3"]),
        (0.0, 3600.0, 40, True, ["0", "15m", "30m", "45m", "1h"]),
        (0.0, 5400.0, 40, True, ["0", "30m", "1h", "1h", "30m"]),
        (7.0, 7.0, 20, False, ["7"]),
        (100_000.0, 2_000_000.0, 12, False, ["100k", "2M"]),
        (0.0, 1_000_200.0, 30, False, ["0", "500k", "1M"]),
        (1_000_001.0, 1_000_200.0, 30, False, ["1000001", "1000100", "1000200"]),
    ],
)
def test_the_x_axis_names_its_ends_and_round_values(
    low: float, high: float, columns: int, by_time: bool, words: list[str]
) -> None:
    line = x_labels(low, high, columns, by_time=by_time)
    assert len(line) == columns and line.split() == words


def test_durations_on_an_axis_are_short() -> None:
    assert [span_text(seconds) for seconds in (0, 5, 60, 5400, 86400)] == [
        "0",
        "5s",
        "1m",
        "1h 30m",
        "1d 0h",
    ]


THEMES = [*OWN, *BUILTIN_THEMES.values()]


@pytest.mark.parametrize("theme", THEMES, ids=[theme.name for theme in THEMES])
def test_the_series_of_every_theme_are_told_apart(theme: Any) -> None:
    styles = series_styles(theme)
    assert len(set(styles)) == len(styles) >= 6
    colours = [Color.parse(style.colour.replace("ansi_", "")) for style in styles if style.colour]
    if theme.name == MONOCHROME:
        assert not colours and len({style.sign for style in styles[:4]}) == 4
        return
    seen = {colour.downgrade(ColorSystem.EIGHT_BIT).number for colour in colours}
    assert len(seen) == len(colours), "in a terminal of 256 colours"
    if theme in OWN:
        keys = {
            str(value).lower()
            for value in (theme.accent, theme.success, theme.error, theme.warning, theme.primary)
        }
        assert not keys & {style.colour for style in styles}, (
            "keys, places and verdicts have their own colours"
        )


def test_curves_without_colours_differ_by_their_dashes() -> None:
    flat = tuple((float(x), 0.5) for x in range(50))

    def row(style: SeriesStyle) -> str:
        return curves([ChartLine(flat, style)], 60, 5).plain.split("\n")[2][8:]

    styles = series_styles(next(theme for theme in OWN if theme.name == MONOCHROME))
    rows = [row(style) for style in styles]
    assert (
        len(set(rows)) == len(rows)
        and " " not in rows[0]
        and all(" " in other for other in rows[1:])
    )


# -- the pane
# --------------------------------------------------------------------------------------------------


async def test_one_cursor_shows_the_values_of_all_charts(screen_text: Any) -> None:
    app = Host([Numbers("one", training(1)), Numbers("two", training(2))])
    async with app.run_test(size=(130, 30)) as pilot:
        await pilot.pause()
        assert values_line(screen_text(app)).startswith("step 60  reward 0.9817 · 0.8647  loss ")
        await pilot.press("left", "left")
        text = values_line(screen_text(app))
        assert (
            text.startswith("step 58  reward 0.9791 · 0.8553  loss ")
            and "entropy 1.033 · 1.033" in text
        )
        await pilot.press(*["shift+left"] * 3)
        shown = screen_text(app)
        assert values_line(shown).startswith("step 28  ")
        top = shown.splitlines()[0]
        assert "reward" in top and "0.8454  0.6068" in top, "the titles tell the values as well"
        blank = shown.splitlines()[1]
        places = cursor_columns(blank)
        charts = [place for place, sign in enumerate(blank) if sign == "┤"]
        assert len(charts) == 3 and {
            at - axis for axis, at in zip(charts, places, strict=True)
        } == {places[0] - charts[0]}
        await pilot.press("home")
        assert values_line(screen_text(app)).startswith("step 1  ")
        await pilot.press("left")
        assert values_line(screen_text(app)).startswith("step 1  ")
        await pilot.press("end")
        assert values_line(screen_text(app)).startswith("step 60  ") and not cursor_columns(
            screen_text(app).splitlines()[1]
        )


async def test_the_cursor_at_the_end_follows_what_is_new(screen_text: Any) -> None:
    reader = training(1)
    app = Host([Numbers("one", reader)])
    async with app.run_test(size=(100, 30)) as pilot:
        pane = app.query_one(MetricsPane)
        await pilot.press("left")
        for step, shown in ((61, "step 59"), (62, "step 62")):
            reader.add({"step": step, "reward": 0.25, "kl": 1.0})
            pane.show(app.runs)
            if step == 62:
                await pilot.press("escape")
            await pilot.pause()
            assert values_line(screen_text(app)).startswith(shown)
        assert "reward 0.25" in values_line(screen_text(app))


async def test_enter_tells_the_step_of_the_cursor(screen_text: Any) -> None:
    app = Host([Numbers("one", training(1)), Numbers("two", training(2))], opens="its episodes")
    async with app.run_test(size=(160, 30)) as pilot:
        await pilot.pause()
        assert "Enter" not in values_line(screen_text(app))
        await pilot.press("enter")
        await pilot.pause()
        assert app.chosen == [] and "loss" not in screen_text(app), "one chart is large"
        assert values_line(screen_text(app)).endswith("Enter: its episodes")
        await pilot.press("escape", "left", "enter", "A", "left", "left", "enter")
        await pilot.pause()
        assert app.chosen == [(59.0, "one"), (58.0, "one")]
    silent = Host([Numbers("one", training(1))])
    async with silent.run_test(size=(160, 30)) as pilot:
        await pilot.press("left", "enter")
        await pilot.pause()
        assert silent.chosen == [] and "Enter" not in screen_text(silent)
        assert "loss" not in screen_text(silent)
        await pilot.press("enter")
        await pilot.pause()
        assert "loss" in screen_text(silent)


async def test_a_click_puts_the_cursor_there(screen_text: Any) -> None:
    app = Host([Numbers("one", training(1))], opens="its episodes")
    async with app.run_test(size=(130, 30)) as pilot:
        await pilot.pause()
        second = screen_text(app).splitlines()[1].index("┤", 50)
        await pilot.click(MetricsPane, offset=(second + 1, 4))
        await pilot.pause()
        assert values_line(screen_text(app)).startswith("step 1  loss "), (
            "the chart under the mouse comes first"
        )
        columns = screen_text(app).splitlines()[1].index("┤", second + 1) - second
        await pilot.click(MetricsPane, offset=(second + columns // 2, 4))
        await pilot.pause()
        step = int(values_line(screen_text(app)).split()[1])
        assert 25 <= step <= 40


async def test_every_chart_is_reached_and_shown_alone(screen_text: Any) -> None:
    app = Host([Numbers("one", training(1))])
    async with app.run_test(size=(90, 40)) as pilot:
        await pilot.pause()
        titles = []
        for _ in range(6):
            titles.append(values_line(screen_text(app)).split("  ")[1].rpartition(" ")[0])
            await pilot.press("down")
        assert titles == ["reward", "KL", "learning rate", "loss", "entropy", "clip_ratio"], (
            "down the first column of two, then the second"
        )
        await pilot.press("up", "up", "v")
        await pilot.pause()
        assert "entropy" in screen_text(app) and "reward" not in screen_text(app)
        await pilot.press("escape", "O")
        await pilot.pause()
        assert "reward" in screen_text(app) and "clip_ratio" not in screen_text(app)


def shown_part(text: str) -> str:
    """What the line below the charts says of the x axis."""
    return text.rstrip().splitlines()[-1].strip().partition(" · ")[0].partition("by ")[2]


async def test_all_charts_show_a_part_of_the_x_axis(screen_text: Any) -> None:
    reader = training(1, steps=100)
    app = Host([Numbers("one", reader), Numbers("two", training(2))])
    async with app.run_test(size=(130, 30)) as pilot:
        pane = app.query_one(MetricsPane)
        await pilot.pause()
        assert pane.why_not("plots.pan-later") == "the whole x axis is shown"
        await pilot.press("plus")
        assert shown_part(screen_text(app)) == "step, 50 to 100", "without a cursor the newest half"
        reader.add({"step": 110, "reward": 0.5})
        pane.show(app.runs)
        await pilot.pause()
        assert shown_part(screen_text(app)) == "step, 60 to 110", "which follows what is new"
        ends = next(
            line.split() for line in screen_text(app).splitlines() if line.split()[:1] == ["60"]
        )
        assert ends.count("60") == ends.count("110") == 3, "all charts show the same part"
        assert any(line.startswith("   0.5 ┤") for line in screen_text(app).splitlines()), (
            "the y axis fits the part"
        )
        await pilot.press("left_parenthesis")
        assert shown_part(screen_text(app)) == "step, 35 to 85"
        await pilot.press("left")
        shown = screen_text(app)
        assert shown_part(shown) == "step, 35 to 85" and values_line(shown).startswith(
            "step 84  "
        ), "the cursor begins there"
        await pilot.press(*["shift+right"] * 2)
        shown = screen_text(app)
        assert shown_part(shown) == "step, 60 to 110" and values_line(shown).startswith(
            "step 110  "
        ), "and takes it along"
        await pilot.press("home")
        assert shown_part(screen_text(app)) == "step, 1 to 51" and cursor_columns(
            screen_text(app).splitlines()[1]
        )
        await pilot.press(*["shift+right"] * 2, "plus")
        assert shown_part(screen_text(app)) == "step, 11 to 36", "around the cursor"
        await pilot.press(*["plus"] * 3)
        assert pane.why_not("plots.zoom-in") == "the charts show single values already"
        await pilot.press("right_parenthesis", "underscore")
        assert shown_part(screen_text(app)) == "step"
        await pilot.press("plus", "minus")
        assert shown_part(screen_text(app)) == "step"
        await pilot.press("A", "plus")
        assert shown_part(screen_text(app)) == "time, 24m 45s to 49m 30s"
        await pilot.press("escape")
        assert shown_part(screen_text(app)) == "time"
        await pilot.press("plus")
        pane.show([Numbers("three", training(3))])
        await pilot.pause()
        assert shown_part(screen_text(app)) == "time", "another run is shown whole"


async def test_a_logarithmic_axis_is_for_values_above_0(screen_text: Any) -> None:
    app = Host([Numbers("one", training(1))])
    async with app.run_test(size=(130, 30)) as pilot:
        pane = app.query_one(MetricsPane)
        await pilot.press("V")
        assert "logarithmic: reward" in screen_text(app)
        await pilot.press("down", "down")
        assert values_line(screen_text(app)).startswith("step 60  loss ")
        assert pane.why_not("plots.log") == "loss has values that are not above 0"
        await pilot.press("up", "up", "V")
        assert "logarithmic" not in screen_text(app)


async def test_a_logarithmic_axis_is_not_taken_along_to_another_run(screen_text: Any) -> None:
    app = Host([Numbers("one", training(1))])
    async with app.run_test(size=(130, 30)) as pilot:
        pane = app.query_one(MetricsPane)
        await pilot.press("V")
        for runs in (
            [],
            [Numbers("one", training(1))],
            [Numbers("one", training(2)), Numbers("two", training(1))],
        ):
            pane.show(runs)
            await pilot.pause()
        assert "logarithmic: reward" in screen_text(app), "the same run, read again"
        pane.show([Numbers("two", training(2))])
        await pilot.pause()
        assert "logarithmic" not in screen_text(app)


async def test_the_onset_of_a_trouble_is_marked_on_its_curve_alone(screen_text: Any) -> None:
    numbers = Numbers("one", training(1), marks={"reward": (10.0,)})
    app = Host([numbers])
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        lines = screen_text(app).splitlines()
        marked = {line.index("┊") for line in lines if "┊" in line}
        assert len(marked) == 1, "one column, of the chart of the reward"
        assert sum(line.count("┊") for line in lines) >= 3
        app.query_one(MetricsPane).show([replace(numbers, marks={})])
        await pilot.pause()
        assert "┊" not in screen_text(app)


async def test_the_steps_that_are_not_read_are_told(screen_text: Any) -> None:
    app = Host([Numbers("one", training(1), window="steps before 251 are not read")])
    async with app.run_test(size=(80, 30)) as pilot:
        await pilot.pause()
        assert "by step · steps before 251 are not read" in screen_text(app)
        app.query_one(MetricsPane).show([Numbers("one", training(1))])
        await pilot.pause()
        assert "not read" not in screen_text(app)


async def test_series_that_belong_together_share_a_chart(screen_text: Any) -> None:
    load = MetricsReader()
    for second in range(0, 600, 10):
        load.add(
            {
                "time": START + second,
                "GPU 0 busy %": 50 + second / 20,
                "GPU 1 busy %": 20.0,
                "memory GiB": 12.0,
            }
        )
    groups = {"GPU utilization %": {"GPU 0 busy %": "GPU 0", "GPU 1 busy %": "GPU 1"}}
    app = Host([Numbers("one", load, groups=groups)], by_time=True)
    async with app.run_test(size=(120, 20)) as pilot:
        await pilot.press("left", "left")
        shown = screen_text(app)
        assert values_line(shown) == (
            "at 9m 30s  GPU utilization % GPU 0 78.5 · GPU 1 20  memory GiB 12"
        )
        rows = shown.splitlines()
        assert rows[1].startswith(" 100 ┤") and any(row.startswith("   0 ┤") for row in rows), (
            "per cent are drawn from 0 to 100"
        )
        await pilot.press("O")
        await pilot.pause()
        assert "memory GiB" not in screen_text(app)


async def test_runs_are_told_apart_without_colours(screen_text: Any) -> None:
    app = Host([Numbers("one", training(1)), Numbers("two", training(2))], theme=MONOCHROME)
    async with app.run_test(size=(130, 30)) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "━━ one  ╺╸ two" in text and "━━ 0.9817  ╺╸ 0.8647" in text.splitlines()[0]


async def test_another_theme_has_other_colours() -> None:
    app = Host([Numbers("one", training(1))])
    async with app.run_test(size=(100, 30)) as pilot:

        def colours() -> set[str]:
            lines = app.screen._compositor.render_strips()
            styles = [
                one.style
                for line in lines
                for one in line
                if one.style and any("⠀" < sign <= "⣿" for sign in one.text)
            ]
            return {style.color.get_truecolor().hex for style in styles if style.color is not None}

        await pilot.pause()
        assert colours() == {"#5fafff"}
        app.theme = "hudtui-light"
        await pilot.pause()
        assert colours() == {"#005faf"}


async def test_parts_of_a_reward_have_charts_and_other_numbers_are_counted(
    screen_text: Any,
) -> None:
    reader = MetricsReader()
    for step in range(9):
        reader.add(
            {"step": step, "reward": step / 9, "rewards/format/mean": step / 3, "foo": 1, "bar": 2}
        )
    app = Host([Numbers("one", reader)])
    async with app.run_test(size=(80, 40)) as pilot:
        await pilot.pause()
        shown = screen_text(app)
        assert "rewards/format" in shown and "foo" in shown and "more" not in shown
        await pilot.press("O")
        await pilot.pause()
        shown = screen_text(app)
        assert "rewards/format" in shown and "foo" not in shown and "O: 2 more" in shown


def many_numbers(count: int, steps: int = 9) -> MetricsReader:
    """A run with a reward and as many numbers without a common name as are asked for."""
    reader = MetricsReader()
    for step in range(steps):
        others = {f"layer/{number:03d}": number + step for number in range(count)}
        reader.add({"step": step, "reward": step / 9, **others})
    return reader


def titles_in(text: str) -> list[str]:
    """The titles of charts that a screen shows."""
    lines = text.rstrip().splitlines()[:-2]
    return [
        word for line in lines for word in line.split() if word.startswith(("layer/", "reward"))
    ]


async def test_all_numbers_are_on_pages(screen_text: Any) -> None:
    app = Host([Numbers("one", many_numbers(40))])
    async with app.run_test(size=(80, 34)) as pilot:
        await pilot.pause()
        shown = screen_text(app)
        assert titles_in(shown) == ["reward", *(f"layer/{number:03d}" for number in range(7))]
        assert "page 1 of 6" in shown
        await pilot.press("pagedown")
        await pilot.pause()
        shown = screen_text(app)
        assert titles_in(shown) == [f"layer/{number:03d}" for number in range(7, 15)]
        assert "page 2 of 6" in shown and values_line(shown).startswith("step 8  layer/007 15")
        await pilot.press("down", "down", "down", "enter")
        await pilot.pause()
        assert titles_in(screen_text(app)) == ["layer/013"], "down the first column of this page"
        await pilot.press("enter")
        await pilot.pause()
        assert "page 2 of 6" in screen_text(app)
        await pilot.press(*["pagedown"] * 20)
        await pilot.pause()
        shown = screen_text(app)
        assert titles_in(shown) == ["layer/039"] and "page 6 of 6" in shown
        await pilot.press(*["pageup"] * 5)
        await pilot.pause()
        assert "page 1 of 6" in screen_text(app) and titles_in(screen_text(app))[0] == "reward"


async def test_a_pattern_filters_the_charts(screen_text: Any) -> None:
    app = Host([Numbers("one", many_numbers(40))])
    kept = ["layer/003", "layer/004", "layer/005"]
    async with app.run_test(size=(80, 34)) as pilot:
        await pilot.press("slash", *"00[3-5]", "enter")
        await until(pilot, lambda: titles_in(screen_text(app)) == kept)
        assert "3 of 41 charts" in screen_text(app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: len(titles_in(screen_text(app))) == 1)
        await pilot.press("escape")  # leaves the large chart first
        await until(pilot, lambda: titles_in(screen_text(app)) == kept)
        await pilot.press("escape")
        await until(pilot, lambda: "page 1 of 6" in screen_text(app))
        for text, words in (("none", "No chart matches the filter."), ("no:x", "no")):
            await pilot.press("slash", *text, "enter")
            await until(pilot, lambda words=words: words in screen_text(app))
            await pilot.press("slash", "escape")
            await until(pilot, lambda: "page 1 of 6" in screen_text(app))


async def test_charts_that_are_not_in_sight_cost_nothing() -> None:
    reader = many_numbers(200)
    asked: list[str] = []
    series = reader.series
    reader.series = lambda name: asked.append(name) or series(name)  # type: ignore
    app = Host([Numbers("one", reader)])
    async with app.run_test(size=(80, 34)) as pilot:
        await pilot.press("left", "right", "plus")
        await pilot.pause()
        assert 8 <= len(set(asked)) <= 10


def test_the_values_of_an_axis_are_evenly_spaced() -> None:
    for values, shown in (
        ((0.0, 0.9), ["1", "0.75", "0.5", "0.25", "0"]),
        ((0.18, 0.63), ["0.7", "0.5", "0.3", "0.1"]),
        ((1234.0, 1580.0), ["1600", "1500", "1400", "1300", "1200"]),
        ((0.0, 5.0), ["5", "4", "3", "2", "1", "0"]),
        ((0.0, 7.0), ["7", "3.5", "0"]),
        ((0.0, 1e300), ["1e+300", "7.5e+299", "5e+299", "2.5e+299", "0"]),
    ):
        labels = value_axis(values).labels(13)
        assert [labels[row] for row in sorted(labels)] == shown
    for rows in range(5, 40):
        for axis in (value_axis([0, 40]), value_axis([0, 5]), value_axis([1, 7])):
            ticks = axis.ticks(rows)
            steps = [high - low for low, high in pairwise(ticks)]
            assert steps == pytest.approx([steps[0]] * len(steps)) and len(steps) >= 2
            assert len(axis.labels(rows)) == len(ticks), rows
            assert max(map(len, axis.labels(rows).values())) == axis.label_width(rows)
    assert value_axis([0.0, 40.0]).labels(5) == {0: "40", 1: "30", 2: "20", 3: "10", 4: "0"}
    assert value_axis([0.0, 1.0]).labels(3) == {0: "1", 2: "0"}


@pytest.mark.parametrize(
    ("ends", "rows", "shown"),
    [
        ((1e-6, 1e-2), 5, ["0.01", "0.001", "0.0001", "1e-05", "1e-06"]),
        ((3e-6, 4e-2), 13, ["0.05", "0.01", "0.001", "0.0001", "1e-05", "2e-06"]),
        ((1e-12, 1.0), 13, ["1", "0.001", "1e-06", "1e-09", "1e-12"]),
        ((1e-300, 1e300), 13, ["1e+300", "1e+150", "1", "1e-150", "1e-300"]),
        ((1.0, 20.0), 5, ["20", "10", "1"]),
        ((2.0, 5.0), 5, ["5", "4", "3", "2"]),
    ],
)
def test_a_logarithmic_axis_names_powers_of_ten(
    ends: tuple[float, float], rows: int, shown: list[str]
) -> None:
    labels = value_axis(ends, log=True).labels(rows)
    assert [labels[row] for row in sorted(labels)] == shown


def machine_load() -> MetricsReader:
    """Samples every ten seconds, from before the first step to after the last one of `training`."""
    load = MetricsReader()
    for second in range(0, 2000, 10):
        busy = {"GPU 0 busy %": second / 20, "GPU 1 busy %": 20.0}
        load.add({"time": START + second, "memory GiB": 12.0, **busy})
    return load


async def test_the_machine_is_drawn_on_the_same_x_axis(screen_text: Any) -> None:
    groups = {"GPU utilization %": {"GPU 0 busy %": "GPU 0", "GPU 1 busy %": "GPU 1"}}
    load = Numbers("one", machine_load(), groups=groups)
    app = Host([Numbers("one", training(1), load=load)])
    async with app.run_test(size=(90, 60)) as pilot:
        await pilot.pause()
        charts = app.query_one(MetricsPane).charts
        assert [title for _, title in charts.titles()][-2:] == ["GPU utilization %", "memory GiB"]
        assert charts.x_range() == (1.0, 60.0)
        key, title = next(one for one in charts.titles() if one[1] == "GPU utilization %")
        first = charts.plot(key, title).series[0]
        assert first.raw[0] == (1.0, 1.5), "step 1 was written 30 seconds after the start"
        assert all(1 <= x <= 60 and y == pytest.approx(x * 30 / 20) for x, y in first.raw)
        await pilot.press("escape", "A")
        await pilot.pause()
        first = charts.plot(key, title).series[0]
        assert first.raw[0] == (0.0, 0.0) and first.raw[-1][0] == 1990.0
        await pilot.press("slash", *"kind:machine", "enter")
        await pilot.pause()
        assert [title for _, title in charts.titles()] == ["GPU utilization %", "memory GiB"]


async def test_a_chart_of_the_machine_without_a_sample_between_two_steps_is_left_out() -> None:
    load = Numbers("one", machine_load(), groups={})
    app = Host([Numbers("one", training(1, steps=1), load=load)])
    async with app.run_test(size=(90, 40)) as pilot:
        await pilot.pause()
        charts = app.query_one(MetricsPane).charts
        assert "memory GiB" not in [title for _, title in charts.titles()]
        await pilot.press("A")
        await pilot.pause()
        assert "memory GiB" in [title for _, title in charts.titles()]


async def test_the_lines_below_the_charts_are_made_for_the_width_after_a_resize(
    screen_text: Any,
) -> None:
    app = Host([Numbers("one", training(1))])
    async with app.run_test(size=(50, 30)) as pilot:
        await pilot.pause()
        short = values_line(screen_text(app))
        await pilot.resize_terminal(140, 30)
        await pilot.pause()
        wide = values_line(screen_text(app))
        await pilot.resize_terminal(50, 30)
        await pilot.pause()
        again = values_line(screen_text(app))
    assert wide.startswith(short) and len(wide) > 60
    assert again == short


async def test_a_bar_tells_settings_machine_and_newest_numbers(screen_text: Any) -> None:
    about = (("settings", (("lr", "1e-05"), ("odd\x1b[31m", "red"))), ("machine", ()))
    app = Host([Numbers("one", training(1), about=about)])
    async with app.run_test(size=(130, 40)) as pilot:
        await pilot.pause()
        shown = screen_text(app)
        assert "lr  1e-05" in shown and "summary" in shown and "clip_ratio  0." in shown
        assert "\x1b" not in shown and "machine" not in shown
        await pilot.press("B")
        await pilot.pause()
        assert "lr  1e-05" not in screen_text(app)
        assert app.query_one(MetricsPane).has_focus_within
        await pilot.press("B")
        await pilot.pause()
        assert "lr  1e-05" in screen_text(app)
    narrow = Host([Numbers("one", training(1), about=about)])
    async with narrow.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "lr  1e-05" not in screen_text(narrow)
        await pilot.press("B")
        await pilot.pause()
        assert "lr  1e-05" in screen_text(narrow)
