"""What charts cost: nine of them at 126x45, when a number comes, and when the cursor moves by one
value.

    python tests/bench/charts.py [--steps 500] [--rounds 20]

Printed: milliseconds of a redraw after a new number and after a move of the cursor, the bytes that
the move sends, and each time beside that of drawing one plain text of the same size (Textual's
`Static`). Where `textual-plot` is installed, nine of its plots are drawn from the same numbers in
the same run, and compared.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import math
import random
import time
from collections.abc import Callable
from typing import Any

from textual.app import App, ComposeResult
from textual.containers import Grid
from textual.widgets import Static

from hudtui.core.training.metrics import MetricsReader
from hudtui.tui.theme import DEFAULT, OWN
from hudtui.tui.widgets.metrics_pane import MetricsPane, Numbers

SIZE = (126, 45)
NAMES = (
    "reward",
    "reward_std",
    "loss",
    "kl",
    "entropy",
    "learning_rate",
    "tokens_per_s",
    "step_time",
    "completions/mean_length",
)


def row(step: int, draw: random.Random) -> dict[str, float]:
    """The numbers of a step."""
    return {
        "step": step,
        **{
            name: math.sin(step / 50 + place) + draw.gauss(0, 0.1)
            for place, name in enumerate(NAMES)
        },
    }


class Base(App[None]):
    """An app under hudtui's theme."""

    def __init__(self) -> None:
        super().__init__()
        for theme in OWN:
            self.register_theme(theme)
        self.theme = DEFAULT


class Ours(Base):
    """The charts of hudtui."""

    def compose(self) -> ComposeResult:
        yield MetricsPane()

    def on_mount(self) -> None:
        self.query_one(MetricsPane).focus()


class Plain(Base):
    """As many characters, without any meaning."""

    def compose(self) -> ComposeResult:
        yield Static(id="text")


async def drawn(pilot: Any, change: Callable[[], object], rounds: int) -> float:
    """Milliseconds of processor time from a change to the finished picture, the median of all
    rounds."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        change()
        await pilot.pause(0)
        pilot.app.screen._compositor.render_strips()
        times.append(time.process_time() - begun)
    return 1000 * sorted(times)[len(times) // 2]


async def ours(steps: int, rounds: int) -> dict[str, float]:
    draw, reader = random.Random(1), MetricsReader()
    for step in range(1, steps + 1):
        reader.add(row(step, draw))
    app = Ours()
    async with app.run_test(size=SIZE) as pilot:
        pane = app.query_one(MetricsPane)
        numbers = [Numbers("run", reader)]
        pane.show(numbers)
        await pilot.pause()
        count = steps

        def tick() -> None:
            nonlocal count
            count += 1
            reader.add(row(count, draw))
            pane.show(numbers)

        found = {
            "new number": await drawn(pilot, tick, rounds),
            "cursor": await drawn(pilot, pane.action_earlier, rounds),
        }
        screen = app.screen
        before = screen._compositor.render_strips()
        pane.action_earlier()
        await pilot.pause()
        changed = [
            (old, new)
            for olds, news in zip(before, screen._compositor.render_strips(), strict=True)
            for old, new in zip(cells(olds), cells(news), strict=True)
            if old != new
        ]
        found["cells that change"] = len(changed)
    return found


def cells(strip: Any) -> list[tuple[str, Any]]:
    """A line of the screen, cell by cell."""
    return [(sign, segment.style) for segment in strip for sign in segment.text]


async def plain(rounds: int) -> float:
    app = Plain()
    async with app.run_test(size=SIZE) as pilot:
        text, turn = app.query_one(Static), 0

        def change() -> None:
            nonlocal turn
            turn += 1
            text.update(
                "\n".join(f"{turn + line} ".ljust(SIZE[0] - 1, "x") for line in range(SIZE[1] - 1))
            )

        return await drawn(pilot, change, rounds)


async def theirs(steps: int, rounds: int) -> float:
    from textual_plot import HiResMode, PlotWidget

    class Theirs(Base):
        CSS = "Grid { grid-size: 3 3; } PlotWidget { height: 1fr; }"

        def compose(self) -> ComposeResult:
            with Grid():
                for _ in NAMES:
                    yield PlotWidget()

    draw = random.Random(1)
    rows = [row(step, draw) for step in range(1, steps + 1)]
    app = Theirs()
    async with app.run_test(size=SIZE) as pilot:
        plots = list(app.query(PlotWidget))

        def tick() -> None:
            rows.append(row(len(rows) + 1, draw))
            for name, plot in zip(NAMES, plots, strict=True):
                plot.clear()
                plot.plot(
                    [one["step"] for one in rows],
                    [one[name] for one in rows],
                    hires_mode=HiResMode.BRAILLE,
                )

        tick()
        await pilot.pause()
        return await drawn(pilot, tick, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    found: dict[str, Any] = asyncio.run(ours(given.steps, given.rounds))
    beside = found["plain text"] = asyncio.run(plain(given.rounds))
    found |= {
        f"{name}, times plain text": round(found[name] / beside, 2)
        for name in ("new number", "cursor")
    }
    if importlib.util.find_spec("textual_plot"):
        found["textual-plot, new number"] = asyncio.run(theirs(given.steps, given.rounds))
    print(json.dumps({name: round(value, 2) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()
