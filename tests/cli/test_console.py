from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from hudtui.cli import console
from hudtui.core.errors import InputError, Location

WAITS = """
import asyncio, sys
from hudtui.cli import console
async def work():
    print("ready", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.05)
        print("cleaned up", flush=True)
import typer
app = typer.Typer()
@app.command()
def main():
    console.run(work())
app()
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_let_the_work_clean_up(number: int, status: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert (output, process.returncode) == ("cleaned up\n", status)
    assert errors == (
        "stopped\n" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}\n"
    )


ASKS = """
import asyncio, sys, typer
from hudtui.cli import console
from hudtui.cli.person import Terminal
async def work():
    try:
        if sys.argv[1] == "secret":
            await console.ask_secret("Which? ")
        else:
            await Terminal().confirm("Which?")
        print("went on")
    finally:
        await asyncio.sleep(0.05)
        print("cleaned up")
app = typer.Typer()
@app.command()
def main(kind: str):
    console.run(work(), when_ended="nothing was begun")
app()
"""


@pytest.mark.parametrize("kind", ["secret", "confirm"])
@pytest.mark.parametrize(
    ("number", "status"), [(None, 0), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_question_that_nobody_wants_to_answer(
    kind: str, number: signal.Signals | None, status: int
) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", ASKS, kind])
    try:
        said = b""
        while b"Which?" not in said:
            said += os.read(terminal, 4096)
        with contextlib.suppress(OSError, EOFError):  # that is how a terminal tells of its end
            while True:
                if number is None:
                    os.write(terminal, b"yes\n")
                elif number == signal.SIGINT:
                    os.write(terminal, b"\x03")
                else:
                    os.kill(process, number)
                # Again after a while: a signal just before Python begins to read is heard after the
                # next one.
                while select.select([terminal], [], [], 3.0)[0]:
                    more = os.read(terminal, 4096)
                    if not more:
                        raise EOFError
                    said += more
    finally:
        os.close(terminal)
        ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert ended == status, said
    assert b"cleaned up" in said and (b"went on" in said) == (number is None)
    assert (b"; nothing was begun" in said) == (number is not None)


def test_a_failure_is_told_to_people_and_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    async def work() -> None:
        raise InputError(
            "it is \x1b[31mbroken",
            why="because",
            fix="mend it",
            where=Location("a.yaml", 3, 4, "x.y"),
        )

    with pytest.raises(typer.Exit) as ended:
        console.run(work(), as_json=True)
    said = capsys.readouterr()
    assert ended.value.exit_code == 2
    assert said.err == "error: a.yaml:3:4 (x.y): it is broken\n  because\n  mend it\n"
    assert json.loads(said.out)["error"]["where"] == {
        "file": "a.yaml",
        "line": 3,
        "column": 4,
        "field": "x.y",
    }


def test_what_a_terminal_would_carry_out_stands_escaped_in_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hostile = {
        "é\x9b2J": ["\x1b[2J\x7f", "\u202eabc\u2028", "\ud800", "\U000e0041", "tab\tand\nline"]
    }
    for compact in (False, True):
        console.out_json(hostile, compact=compact)
        said = capsys.readouterr().out
        assert json.loads(said) == hostile and "é" in said
        assert not set("\x1b\x7f\x9b\u202e\u2028\ud800\U000e0041") & set(said)


def test_a_reader_that_goes_away_is_no_failure_of_ours() -> None:
    command = (
        f"{sys.executable} -m hudtui settings list --json | head -c 1; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout.split("\n")[0][1:] in ("0", "141") or done.stdout[-4:].strip() in (
        "0",
        "141",
    )


def test_version_and_help_and_a_bad_folder(tmp_path: Path) -> None:
    def hudtui(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hudtui", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert hudtui("--version").stdout.startswith("hudtui 0.")
    shown = hudtui("--help").stdout
    assert all(
        word in shown
        for word in (
            "demo",
            "env",
            "rl",
            "config",
            "pods",
            "tasks",
            "hf",
            "eval",
            "runs",
            "settings",
            "doctor",
        )
    )
    bad = hudtui("-C", str(tmp_path / "none"), "doctor")
    assert bad.returncode == 2 and "No such file" in bad.stderr
    assert hudtui("nonsense").returncode == 2


def test_columns_count_cells_and_not_letters() -> None:
    assert console.columns([["棋盘", "1"], ["ab", "10"]], right={1}) == ["棋盘   1", "ab    10"]


def test_too_little_memory_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as end, console.failures(as_json=True):
        bytearray(2**62)
    told = capsys.readouterr()
    assert end.value.exit_code == 5 and told.err.startswith(
        "error: the memory of this computer is not enough"
    )
    assert json.loads(told.out)["error"]["type"] == "MachineError"


def test_whatever_the_umask_nothing_is_made_that_everybody_may_write(own_world: Path) -> None:
    home = Path.home()
    for words in (
        ("demo", "--help"),
        ("settings", "set", "HUDTUI_MAX_HOURS", "3"),
        ("trust", "--yes"),
        ("init", "--help"),
    ):
        subprocess.run(
            [sys.executable, "-m", "hudtui", *words],
            cwd=own_world,
            umask=0,
            capture_output=True,
            check=False,
            timeout=120,
        )
    code = f"""
import pathlib
from hudtui.cli import main
from hudtui.tui.applog import start_logging
from hudtui.core.runs.store import RunStore
start_logging(pathlib.Path({str(home)!r}) / "a" / "b" / "c", debug=False)
"""
    subprocess.run([sys.executable, "-c", code], umask=0, check=True, timeout=120)
    assert (home / "a").stat().st_mode & 0o777 == 0o700 and (
        home / "a" / "b" / "c" / "hudtui.log"
    ).is_file()
    made = [
        path
        for top in (home, own_world)
        for path in top.rglob("*")
        if not path.is_relative_to(home / "a" / "b" / "c")
    ]
    assert len(made) > 3 and not [
        path for path in made if not path.is_symlink() and path.stat().st_mode & 0o002
    ]


def test_a_text_breaks_between_words_on_a_terminal_alone(monkeypatch, capsys):
    text = "direction  string  (one of left, right)  Where all the tiles go"
    monkeypatch.setenv("COLUMNS", "40")
    console.out_text(text, indent=4)
    assert capsys.readouterr().out == f"    {text}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    console.out_text(text, indent=4)
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "    direction  string  (one of left,"
    assert others == ["      right)  Where all the tiles go"]
