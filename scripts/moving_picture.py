#!/usr/bin/env python3
"""The moving picture of the README: the real app in a demo workspace, as one SVG without a script.

    .venv/bin/python scripts/moving_picture.py [--run rehearsal|played] [--out FILE] [--frames DIR]

A reply is typed and becomes a call; a training is rehearsed on this CPU (`--run played`: the tasks
are played instead, for which no PyTorch is needed); its curve grows; a point of it opens the
episodes of that step. Each frame is what `App.export_screenshot` says. An element that stays is
drawn once, and CSS shows and hides it. Nothing outside a temporary folder, FILE and DIR is touched.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from screenshots import MARK, in_a_clean_home, make_demo, settle

ROOT = Path(__file__).resolve().parents[1]
TRAINER = Path(".venv-train")
SIZE = (112, 30)
WRONG = "<think>A 4 is next to a 4.</think>\n<tool>lef()</tool>"
RIGHT = WRONG.replace("lef", "left")
STEPS = 16
"""Steps of the rehearsal."""
SVG = "{http://www.w3.org/2000/svg}"
FONT = "'Fira Code',Menlo,Consolas,'DejaVu Sans Mono',monospace"
BACKGROUND = "#10151b"


@dataclass(frozen=True)
class Frame:
    """What the app showed."""

    svg: str
    caption: str
    seconds: float
    """How long it stays."""


@dataclass
class Film:
    """The frames so far, and the app that they are taken of."""

    pilot: Any
    frames: list[Frame] = field(default_factory=list)
    shell: asyncio.subprocess.Process | None = None
    """The command in a shell beside the app."""

    def take(self, caption: str, seconds: float) -> None:
        """Take what the app shows now."""
        self.frames.append(Frame(self.pilot.app.export_screenshot(), caption, seconds))

    async def press(self, *keys: str) -> None:
        """Press keys, each time waiting until nothing is under way."""
        for key in keys:
            await self.pilot.press(key)
            await settle(self.pilot)

    async def until(self, seen: Callable[[], Any], what: str) -> None:
        """Wait for something to come true in the app.

        Raises:
            SystemExit: It did not.
        """
        for _ in range(1200):
            if seen():
                return
            await self.pilot.pause()
            await asyncio.sleep(0.2)
        self.take(what, 1)
        raise SystemExit(f"the app does not show {what}:\n{words(self.frames[-1].svg)}")


def words(svg: str) -> str:
    """The texts of an exported picture, a line each."""
    lines: dict[str, str] = {}
    for text in ET.fromstring(svg).iter(f"{SVG}text"):
        lines[text.get("y", "")] = lines.get(text.get("y", ""), "") + (text.text or "")
    return "\n".join(lines.values()).replace("\xa0", " ")


# --- the scenes -----------------------------------------------------------------------------------


async def reply(film: Film) -> None:
    """A reply is typed, and its meaning stands below it."""
    caption = "A reply of the agent, and the call that it becomes"
    app = film.pilot.app
    await film.press("2")
    editor = app.screen.query_one("#map-reply")
    editor.focus()
    editor.text = ""
    await settle(film.pilot)
    film.take(caption, 0.6)
    for count, sign in enumerate(WRONG):
        editor.insert(sign)
        if count % 4 == 3 or count == len(WRONG) - 1:
            await settle(film.pilot)
            film.take(caption, 0.14)
    film.take(caption, 1.6)
    editor.text = RIGHT
    editor.move_cursor((1, RIGHT.index("()") - RIGHT.index("\n") - 1))
    await settle(film.pilot)
    film.take(caption, 2.2)


async def start(film: Film, rehearsal: bool) -> None:
    """A run is planned and started: from the app, or the rehearsal from a shell beside it."""
    app = film.pilot.app
    await film.press("escape")
    app.open_screen("launch", engine="trl" if rehearsal else "rollouts", machine="local")
    await film.until(lambda: app.screen.NAME == "launch", "Launch")
    await film.until(lambda: app.screen.prepared is not None, "a plan")
    await film.until(lambda: "Checking" not in words(app.export_screenshot()), "its checks")
    await settle(film.pilot)
    film.take("The whole plan, and what is missing, before anything starts", 2.8)
    if rehearsal:
        command = (
            sys.executable,
            "-m",
            "hudtui",
            "rl",
            "--rehearse",
            "--steps",
            str(STEPS),
            "--yes",
        )
        film.shell = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await film.press("5")
        await film.until(lambda: "rehearsal" in words(app.export_screenshot()), "the rehearsal")
        await film.press("up")
    else:
        await film.press("ctrl+g")
    await film.until(lambda: app.screen.NAME == "run", "the run")
    begun = re.compile("running|finished|failed")  # a short one may be over at the first look
    await film.until(lambda: begun.search(words(app.export_screenshot())), "that it runs")


async def curve(film: Film) -> None:
    """The values of the run come."""
    caption = "Its curves, as they come"
    if film.shell is not None:
        caption = "hudtui rl --rehearse: a tiny model trains on this CPU, for free"
    app = film.pilot.app
    await film.press("m")
    seen: list[str] = []

    def ended() -> bool:
        now = words(app.export_screenshot())
        if "✗ failed" in now:
            raise SystemExit(f"the run failed:\n{now}")
        step = re.search(r"step \d+/\d+", now)
        if step and step[0] not in seen:
            seen.append(step[0])
            film.take(caption, 0.35)
        return "✓ finished" in now

    await film.until(ended, "the end of the run")
    await settle(film.pilot)
    film.take(caption, 1.2)


async def episodes(film: Film) -> None:
    """A point of the curve opens its episodes."""
    caption = "A point of the curve opens its episodes, turn by turn"
    app = film.pilot.app
    await film.press("enter")
    film.take(caption, 0.8)
    for _ in range(3):
        await film.press("left")
        film.take(caption, 0.3)
    film.take(caption, 0.5)
    await film.press("enter")
    await film.until(lambda: app.screen.NAME == "results", "the episodes of a step")
    await settle(film.pilot)
    film.take(caption, 1.0)
    await film.press("enter")
    film.take(caption, 1.6)
    await film.press("enter", "pagedown")
    film.take(caption, 2.2)


async def shoot(folder: Path, rehearsal: bool) -> list[Frame]:
    """The frames of all scenes."""
    from hudtui.tui.app import HudtuiApp

    app = HudtuiApp(folder)
    async with app.run_test(size=SIZE) as pilot:
        film = Film(pilot)
        await settle(pilot)
        await reply(film)
        await start(film, rehearsal)
        await curve(film)
        if film.shell is not None:
            await film.shell.wait()
        await episodes(film)
    return film.frames


# --- the picture ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Element:
    """A rectangle or a text of a frame; equal ones are drawn once."""

    layer: int
    """Backgrounds lie below texts."""
    markup: str


def elements(frame: Frame, classes: dict[str, str]) -> list[Element]:
    """What a frame consists of. `classes` gets a name for each style that it uses."""
    root = ET.fromstring(frame.svg)
    styles = dict(re.findall(r"\.(terminal-\d+-r\d+) \{ ([^}]*?) \}", frame.svg))
    found = []
    whole = next(
        g for g in root.iter(f"{SVG}g") if any("-matrix" in (c.get("class") or "") for c in g)
    )
    for one in whole.iter():
        at = f'x="{one.get("x")}" y="{one.get("y")}"'
        if one.tag == f"{SVG}rect":
            if one.get("fill") != BACKGROUND:
                size = f'width="{one.get("width")}" height="{one.get("height")}"'
                found.append(Element(0, f'<rect {at} {size} fill="{one.get("fill")}"/>'))
        elif one.tag == f"{SVG}text" and (one.text or "").strip("\xa0 "):
            style = styles[one.get("class", "")].replace(";;", ";")
            name = classes.setdefault(style, f"s{len(classes)}")
            length = one.get("textLength")
            found.append(
                Element(
                    1,
                    f'<text class="{name}" {at} textLength="{length}">{escape(one.text or "")}'
                    "</text>",
                )
            )
    return found


def caption_of(frame: Frame, width: float, height: float) -> Element:
    """The line below the app."""
    middle = f'x="{width / 2:g}" y="{height + 34:g}" text-anchor="middle"'
    return Element(1, f'<text class="caption" {middle}>{escape(frame.caption)}</text>')


def moving(frames: Sequence[Frame], poster: int) -> str:
    """One SVG that shows the frames one after the other, for ever.

    What cannot show movement, or whose user wants none, shows the frame `poster`.
    """
    classes: dict[str, str] = {}
    width, height = SIZE[0] * 12.2, SIZE[1] * 24.4
    shown: dict[Element, list[int]] = {}
    for number, frame in enumerate(frames):
        for element in (*elements(frame, classes), caption_of(frame, width, height)):
            shown.setdefault(element, []).append(number)
    groups: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    for element, when in shown.items():
        groups.setdefault((element.layer, tuple(when)), []).append(element.markup)
    whole = sum(frame.seconds for frame in frames)
    starts = [sum(frame.seconds for frame in frames[:number]) for number in range(len(frames))]
    names: dict[tuple[int, ...], str] = {}
    rules, parts = [], []
    for (_, when), markup in sorted(groups.items(), key=lambda item: item[0][0]):
        if len(when) == len(frames):
            parts.append(f"<g>{''.join(markup)}</g>")
            continue
        if when not in names:
            names[when] = name = f"k{len(names)}"
            stops = [
                f"{100 * starts[number] / whole:.2f}%{{visibility:"
                f"{'visible' if number in when else 'hidden'}}}"
                for number in range(len(frames))
                if number == 0 or (number in when) != (number - 1 in when)
            ]
            still = "visible" if poster in when else "hidden"
            rules.append(f"@keyframes {name}{{{''.join(stops)}}}")
            rules.append(f".{name}{{visibility:{still};animation-name:{name}}}")
        parts.append(f'<g class="f {names[when]}">{"".join(markup)}</g>')
    looks = [f".{name}{{{style}}}" for style, name in classes.items()]
    edge = 18
    box = f"0 0 {width + 2 * edge:g} {height + 2 * edge + 40:g}"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">',
            "<title>hudtui: a reply, a run, its curves, its episodes</title>",
            "<style>",
            f"text{{font:20px {FONT};white-space:pre}}",
            # Rectangles touch: with soft edges, the page shines through between them.
            "g rect{shape-rendering:crispEdges}",
            f".f{{animation:{whole:.2f}s step-end infinite}}",
            ".caption{fill:#e5b450;font-weight:bold}",
            *looks,
            *rules,
            "@media (prefers-reduced-motion:reduce){.f{animation:none}}",
            "</style>",
            f'<rect width="100%" height="100%" rx="12" fill="{BACKGROUND}"/>',
            f'<g transform="translate({edge},{edge})">',
            *parts,
            "</g>",
            "</svg>",
            "",
        )
    )


def main() -> int:
    """Make the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", choices=("rehearsal", "played"), default="rehearsal")
    parser.add_argument("--out", type=Path, default=ROOT / "screenshots" / "moving.svg")
    parser.add_argument("--frames", type=Path, help="also keep each frame in this folder")
    given = parser.parse_args()
    rehearsal = given.run == "rehearsal"
    if rehearsal and not (ROOT / TRAINER / "bin" / "python").exists():
        print(f"a rehearsal needs the environment {TRAINER}; see CONTRIBUTING.md", file=sys.stderr)
        return 1
    if MARK not in os.environ:
        with tempfile.TemporaryDirectory(prefix="hudtui-") as name:
            return in_a_clean_home(name, __file__)
    platform.platform = lambda *_, **__: "Linux-6.12-x86_64"
    home = Path.home()
    out, kept = given.out.resolve(), given.frames and given.frames.resolve()
    if rehearsal:
        (home / TRAINER).symlink_to((ROOT / TRAINER).resolve())
        os.environ["HUDTUI_TRAINER_PYTHON"] = str(home / TRAINER / "bin" / "python")
    make_demo(Path(sys.executable), home / "demo")
    os.chdir(home / "demo")
    frames = asyncio.run(shoot(home / "demo", rehearsal))
    for number, frame in enumerate(frames if kept else ()):
        kept.mkdir(parents=True, exist_ok=True)
        (kept / f"{number:03}.svg").write_text(frame.svg, encoding="utf-8")
    done = [n for n, frame in enumerate(frames) if "✓ finished" in words(frame.svg)]
    picture = moving(frames, done[0])
    if str(home.parent) in picture:
        print("the picture shows a path of this machine", file=sys.stderr)
        return 1
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(picture, encoding="utf-8")
    seconds = sum(frame.seconds for frame in frames)
    print(f"{given.out}: {len(frames)} frames, {seconds:.1f} s, {len(picture.encode()) // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
