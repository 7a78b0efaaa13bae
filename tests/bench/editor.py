"""What a keystroke costs in the mapping editor: types 500 characters into a configuration of 300
actions.

    python tests/bench/editor.py [--actions 300] [--keys 500]

The same keys go into three texts in one run: Textual's bare TextArea, that with its own YAML
highlighting, and the mapping screen with everything it does at a key (highlighting, reading the
text, interpreting the sample, drawing the preview). A phrase is typed into the middle of one
action, the next phrase into the next action. Counted is the processor time of the thread that
draws, from the key to the finished paint; the text is read in a thread meanwhile. The last row is
the time by the clock until the preview says something new.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

PHRASES = (
    "int(v) + 1 if v > 0 else 0 ",
    "str(v).strip().lower() or ",
    "[v, v + 1, v * 2][0] and ",
    "max(int(v), 1) * 3 - 2 + ",
)
"""Put in after `lambda v: `."""

SCREEN = "mapping screen"
PAUSE = 0.1
"""Seconds between two keys."""
LONGEST = 5.0
"""Seconds that the preview may take."""


def config(actions: int) -> str:
    """A configuration with so many actions, ten lines each and two in the prompt."""
    prompt = [
        f"  - act_{i}(x, y): Do number {i}\n    Usage: <tool>act_{i}({i}, 2)</tool>"
        for i in range(actions)
    ]
    entries = [
        f"  act_{i}:\n"
        f'    _tool: "tool_{i}"\n'
        "    _parser:\n"
        '      positional: ["x", "y"]\n'
        "    x:\n"
        '      from_arg: "x"\n'
        '      transform: "lambda v: int(v) + 1"\n'
        "    y:\n"
        '      from_arg: "y"\n'
        "      default: 3"
        for i in range(actions)
    ]
    return "\n".join(
        [
            "job:\n  name: bench",
            "system_prompt: |\n  You act.",
            *prompt,
            "  - done(): End\n    Usage: <tool>done()</tool>",
            "parser:\n  use_thinking: true",
            "action_mappings:",
            *entries,
            "defaults:\n  max_turns: 5\n",
        ]
    )


def keys(count: int) -> list[tuple[str, bool]]:
    """What is typed, and whether a phrase begins."""
    typed = (
        (character, place == 0)
        for phrase in itertools.cycle(PHRASES)
        for place, character in enumerate(phrase)
    )
    return list(itertools.islice(typed, count))


@contextlib.asynccontextmanager
async def bare(text: str, language: str | None) -> AsyncIterator[Any]:
    """Textual's own editor."""
    from textual.app import App
    from textual.widgets import TextArea

    class Bare(App[None]):
        def compose(self) -> Any:
            area = TextArea.code_editor(text, language=language)
            area.cursor_blink = False
            yield area

    app = Bare()
    async with app.run_test(size=(160, 48)) as pilot:
        area = app.query_one(TextArea)
        area.focus()
        await pilot.pause()
        yield pilot


@contextlib.asynccontextmanager
async def screen(folder: Path, text: str, actions: int) -> AsyncIterator[Any]:
    """The mapping screen over a project folder, with an environment that was looked at."""
    from hudtui.core.environment.cache import save_analysis
    from hudtui.core.environment.source import parse_source
    from hudtui.core.environment.values import Analysis, Tool
    from hudtui.tui.app import HudtuiApp

    (folder / "configs").mkdir()
    (folder / "configs" / "bench.yaml").write_text(text)
    whole = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
    }
    found = Analysis("text-2048", tools=tuple(Tool(f"tool_{i}", "", whole) for i in range(actions)))
    save_analysis(parse_source("text-2048", folder=folder, lookup={}.get), found)
    app = HudtuiApp(folder)
    async with app.run_test(size=(160, 48)) as pilot:
        await pilot.pause()
        app.open_screen("mapping")
        view: Any = None
        while view is None or not view.draft.rows:
            await asyncio.sleep(0.05)
            view = app.screen if type(app.screen).__name__ == "MappingScreen" else None
        view.preview.reply.load_text(f"<think>x</think><tool>act_{actions // 2}(4, 5)</tool>")
        view.editor.focus()
        await pilot.pause()
        yield pilot


async def measure(
    pilot: Any, pressed: list[tuple[str, bool]], row: int, preview: bool
) -> tuple[list[float], list[float]]:
    """Milliseconds of the drawing thread's processor time for each key.

    The time by the clock until the preview says something new comes with it where there is a
    preview.
    """
    from textual import events
    from textual.keys import _character_to_key

    app = pilot.app
    view = app.screen
    area = view.editor if preview else view.query_one("TextArea")
    own: list[float] = []
    shown = asyncio.Event()
    if preview:
        show = view.show_meaning

        def noted() -> None:
            show()
            shown.set()

        view.show_meaning = noted
    clock: list[float] = []
    phrase = 0
    for character, begins in pressed:
        if begins:
            at_row = row + 10 * phrase
            area.move_cursor((at_row, area.document.get_line(at_row).index("int")), center=True)
            phrase = (phrase + 1) % 40
            await asyncio.sleep(0.3)
        before = area.text
        shown.clear()
        began, at = time.thread_time(), time.perf_counter()
        app.post_message(events.Key(_character_to_key(character), character))
        if preview:
            await asyncio.wait_for(shown.wait(), LONGEST)
            clock.append((time.perf_counter() - at) * 1e3)
        await asyncio.sleep(PAUSE)  # the paint is over by then; whoever waits costs nothing
        own.append((time.thread_time() - began) * 1e3)
        if area.text == before:
            raise SystemExit(f"the key {character!r} was not typed")
    return own, clock


def row_of(name: str, values: list[float], floor: float) -> str:
    """A row of the table."""
    ordered = sorted(values)
    p95 = ordered[int(len(ordered) * 0.95) - 1]
    middle = statistics.median(ordered)
    return f"{name:<46} {middle:>8.2f} {p95:>8.2f} {ordered[-1]:>8.2f} {middle / floor:>11.2f}"


async def run(actions: int, count: int) -> None:
    """Measure and print."""
    text = config(actions)
    lines = text.split("\n")
    row = next(index for index, line in enumerate(lines) if line == f"  act_{actions // 2}:") + 6
    pressed = keys(count)
    results: dict[str, tuple[list[float], list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HUDTUI_HOME"] = folder + "/home"
        project = Path(folder) / "project"
        project.mkdir()
        for name, opened, preview in (
            ("TextArea, no highlighting", bare(text, None), False),
            ("TextArea, language yaml", bare(text, "yaml"), False),
            (SCREEN, screen(project, text, actions), True),
        ):
            async with opened as pilot:
                results[name] = await measure(pilot, pressed, row, preview)
    floor = statistics.median(results["TextArea, no highlighting"][0])
    print(f"{actions} actions, {len(lines)} lines, {count} keys; milliseconds a key")
    print(f"{'':<46} {'median':>8} {'p95':>8} {'max':>8} {'x TextArea':>11}")
    for name, (own, _) in results.items():
        print(row_of(f"{name}, painted", own, floor))
    print(row_of("until the preview is new, by the clock", results[SCREEN][1], floor))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--actions", type=int, default=300)
    parser.add_argument("--keys", type=int, default=500)
    given = parser.parse_args()
    asyncio.run(run(given.actions, given.keys))


if __name__ == "__main__":
    main()
