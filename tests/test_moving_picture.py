"""The moving picture of the README: what is committed, and that its script films the real app."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "screenshots" / "moving.svg"
SCENES = ("A reply of the agent", "The whole plan", "A point of the curve opens its episodes")


def length(svg: str) -> float:
    """How many seconds the picture takes."""
    found = re.search(r"\.f\{animation:([\d.]+)s step-end infinite\}", svg)
    assert found is not None
    return float(found[1])


def words(svg: str) -> str:
    return " ".join(text.text or "" for text in ET.fromstring(svg).iter() if text.text)


def test_the_committed_picture_is_small_and_needs_nothing_else() -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    assert PICTURE.stat().st_size < 600_000 and 15 <= length(svg) <= 26
    for foreign in ("<script", "<image", "url(", "http://www.w3.org/1999/xlink", "@import"):
        assert foreign not in svg
    assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]
    for scene in (*SCENES, "a tiny model trains on this CPU"):
        assert scene in words(svg)
    assert "screenshots/moving.svg" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_rectangles_that_touch_have_no_seams() -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    assert re.search(r"^g rect\{shape-rendering:crispEdges\}$", svg, re.MULTILINE)


@pytest.mark.timeout(300)
def test_the_script_films_the_real_app(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "moving_picture.py"), "--run", "played"]
    out, frames = tmp_path / "moving.svg", tmp_path / "frames"
    done = subprocess.run(
        [*script, "--out", str(out), "--frames", str(frames)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    svg = out.read_text(encoding="utf-8")
    assert len(list(frames.glob("*.svg"))) > 20 and length(svg) > 10
    assert "g rect{shape-rendering:crispEdges}" in svg
    seen = words(svg).replace("\xa0", " ")
    for what in (*SCENES, "did you mean", '"direction": "left"', "finished", "turn 1", "move"):
        assert what in seen, what
