"""The page about scale: its table is the arithmetic that it says it is, and its files and commands
can be read by what they are for."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from hudtui.core.training.memory import adapter_parameters
from hudtui.core.training.recipe import Recipe
from hudtui.core.training.shape import ModelShape

PAGE = (Path(__file__).parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")
TURNS, GENERATED, TOKENS = 8, 1600, 4000
PARAMETERS = 7.6e9


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def table(head: str) -> list[list[str]]:
    """The cells of the rows below a head."""
    _, _, rest = PAGE.partition(f"| {head} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def number(cell: str) -> float:
    return float(cell.replace(" ", ""))


def test_each_row_of_the_table_is_the_sum_of_its_parts() -> None:
    rows = table("episodes | GPUs")
    assert len(rows) == 8
    for row in rows:
        episodes, gpus, *said = (number(cell) for cell in row)
        half = max(gpus / 2, 1)
        processors = max(gpus / 8, 1) * 128 if gpus > 1 else 16
        generation = episodes * GENERATED / 5000 / half
        training = episodes * 8 * PARAMETERS * TOKENS / 4e14 / half
        player = episodes * (0.016 + 0.001 * TURNS) / half
        environments = episodes * 0.053 / processors
        whole = generation + training
        overlapped = whole if gpus == 1 else max(generation, training)
        parts = (generation, training, player, environments, whole, overlapped)
        for shown, part in zip(said, parts, strict=True):
            assert shown == pytest.approx(part, rel=0.02, abs=0.06), row


def test_what_is_said_of_weights_and_records_follows_from_their_sizes() -> None:
    gigabytes = PARAMETERS * 2 / 1e9
    assert f"{gigabytes:.1f} GB in 16 bits" in PAGE
    for gbit, billions in ((400, 7.6), (10, 7.6), (400, 72), (10, 72)):
        seconds = billions * 2 / (gbit / 8)
        assert f"{seconds:.2g} s" in PAGE or f"{seconds:.0f} s" in PAGE, (gbit, billions)
    shape = ModelShape(PARAMETERS, 3584, 28, 512)
    adapter = adapter_parameters(Recipe(), shape) * 4 / 1e6
    assert f"{adapter:.0f} MB" in PAGE
    assert f"{32 * 7.8 / 1000:.2f} MB" in PAGE and f"{100_000 * 7.8e3 / 1e9:.1f} GB" in PAGE


def test_its_files_and_commands_can_be_read() -> None:
    taskset, cluster = (tomllib.loads(text) for text in blocks("toml"))
    assert taskset["env"]["taskset"]["id"] == "openenv"
    assert cluster["deployment"]["type"] == "multi_node"
    scripts = blocks("sh")
    assert len(scripts) == 4
    for text in scripts:
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert not done.returncode and not done.stderr, text


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= 150
