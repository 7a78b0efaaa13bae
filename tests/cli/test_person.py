"""How a command asks: without a terminal, with `--yes`, and at a real pseudo-terminal."""

import asyncio
import contextlib
import os
import pty
import select
import subprocess
import sys
import time

import pytest
import typer

from hudtui.cli.person import Terminal
from hudtui.core.flows.person import Choice

CHOICES = (Choice("a", "The first", "is cheap"), Choice("b", "The second"))

SCRIPT = """
import json
from hudtui.cli import console
from hudtui.cli.person import Terminal
from hudtui.core.flows.person import Choice

async def work():
    person = Terminal()
    return [
        await person.confirm("Rent it?", ("It costs $2.00 an hour.",)),
        await person.ask("Name", value="one"),
        await person.ask("Key", secret=True),
        await person.choose(
            "Which?", [Choice("a", "The first", "is cheap"), Choice("b", "The second")]
        ),
    ]

print(json.dumps(console.run(work())))
"""


WAITING = """
import asyncio, json
from hudtui.cli import console
from hudtui.cli.person import Terminal

async def work():
    person, never, soon = Terminal(), asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().call_later(0.5, soon.set)
    return [
        await person.ask("Paste it", copy="https://example.invalid/?a=1", until=never),
        await person.ask("Nothing to do", until=soon),
    ]

print(json.dumps(console.run(work())))
"""


SUGGESTING = """
import json
from hudtui.cli import console
from hudtui.cli.person import Terminal
from hudtui.core.flows.person import Choice

async def work():
    person, choices = Terminal(), [Choice("a", "The first"), Choice("b", "The second")]
    return [
        await person.choose("Again?", choices, lines=("It failed.",), value="b") for _ in range(3)
    ]

print(json.dumps(console.run(work())))
"""


def at_terminal(answers: list[tuple[str, str]], script: str = SCRIPT) -> tuple[str, str]:
    """Standard output, and what stood on the terminal, of the script when each prompt gets its
    answer."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=slave, stderr=slave, stdout=subprocess.PIPE, text=True
    ) as process:
        os.close(slave)
        shown, deadline = "", time.monotonic() + 60
        for prompt, answer in answers:
            begin = len(shown)
            while prompt not in shown[begin:]:
                assert select.select([master], [], [], max(deadline - time.monotonic(), 0))[0], (
                    shown
                )
                shown += os.read(master, 4096).decode()
            time.sleep(0.1)  # a prompt without echo is on the screen before the echo is off
            os.write(master, f"{answer}\n".encode())
        assert process.stdout is not None
        out = process.stdout.read()
        assert process.wait(60) == 0, shown
    os.close(master)
    return out, shown


def test_questions_and_answers() -> None:
    out, shown = at_terminal(
        [("Rent it?", "y"), ("Name", ""), ("Key", "s3cret"), ("Number", "7"), ("not one", "2")]
    )
    assert out == '[true, "one", "s3cret", "b"]\n'
    assert "It costs $2.00 an hour." in shown and "The first  is cheap" in shown
    assert "s3cret" not in shown


def test_a_line_is_read_while_something_else_may_answer() -> None:
    out, shown = at_terminal([("Paste it: ", "pasted")], WAITING)
    assert out == '["pasted", ""]\n' and "https://example.invalid/?a=1\r\n" in shown


async def test_without_a_terminal_only_the_event_answers() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, done.set)
    assert await Terminal().ask("Open this", copy="https://example.invalid", until=done) == ""


def test_empty_answers_agree_to_nothing() -> None:
    out, _ = at_terminal([("Rent it?", ""), ("Name", "two"), ("Key", ""), ("Number", "")])
    assert out == '[false, "two", null, null]\n'


def test_an_answer_is_suggested() -> None:
    out, shown = at_terminal([("[2]: ", ""), ("[2]: ", "1"), ("[2]: ", "0")], SUGGESTING)
    assert out == '["b", "a", null]\n' and "Again?\r\nIt failed.\r\n" in shown


def test_yes_agrees_and_takes_what_is_suggested() -> None:
    person = Terminal(yes=True)
    assert asyncio.run(person.confirm("Rent it?"))
    assert asyncio.run(person.ask("Name", value="one")) == "one"
    assert asyncio.run(person.choose("Which?", CHOICES)) == "a"
    assert asyncio.run(person.choose("Which?", CHOICES, value="b")) == "b"


@pytest.mark.parametrize("method", ["confirm", "ask", "choose"])
def test_without_a_terminal_nothing_is_asked(method: str) -> None:
    person = Terminal()
    asked = (
        person.choose("Which?", CHOICES)
        if method == "choose"
        else getattr(person, method)("Rent it?")
    )
    with pytest.raises(typer.BadParameter, match="cannot ask: add --yes"):
        asyncio.run(asked)


@pytest.mark.parametrize("yes", [True, False])
def test_what_is_agreed_to_is_said_also_where_nothing_is_asked(
    yes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Terminal(yes=yes).confirm(
        "Rent it for $2.00/h?", ("It ends after 24 hours.",), danger=True
    )
    with contextlib.nullcontext() if yes else pytest.raises(typer.BadParameter):
        assert asyncio.run(asked)
    shown = capsys.readouterr()
    assert shown.out == "" and "It ends after 24 hours.\nRent it for $2.00/h?" in shown.err
