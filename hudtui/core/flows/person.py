"""The user of a flow: at a terminal, at a screen, or a script that said `--yes`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from hudtui.core.errors import InputError, Location

Severity = Literal["information", "success", "warning", "error"]
"""Importance of a message."""


@dataclass(frozen=True)
class Choice:
    """One of several answers to a question."""

    value: str
    """Value that the flow gets."""
    label: str
    """Text that the user reads."""
    help: str = ""


class Person(Protocol):
    """The user of a flow. A flow asks only through a person, in the order that it decides."""

    async def confirm(
        self,
        title: str,
        lines: tuple[str, ...] = (),
        *,
        yes: str = "Yes",
        no: str = "Cancel",
        danger: bool = False,
    ) -> bool:
        """Return whether the user agrees.

        Args:
            title: The question.
            lines: What the user should know before the answer.
            yes: Label of the answer that agrees.
            no: Label of the other answer.
            danger: The action cannot be undone, or costs money: the default answer is no.
        """
        ...

    async def ask(
        self,
        title: str,
        *,
        lines: tuple[str, ...] = (),
        value: str = "",
        placeholder: str = "",
        secret: bool = False,
        accept: str = "OK",
        copy: str = "",
        until: asyncio.Event | None = None,
    ) -> str | None:
        """Return a line of text, or None if the user cancels.

        Args:
            title: The question.
            lines: What the user should know before the answer.
            value: The answer that is suggested.
            placeholder: An example of an answer.
            secret: The answer is not shown while it is typed.
            accept: Label of the button that accepts the answer.
            copy: A text that the user needs elsewhere, such as an address; it is shown in full.
            until: The question goes, and the answer is empty, when this is set. Where there is no
                terminal to type at, this is waited for.
        """
        ...

    async def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        lines: tuple[str, ...] = (),
        value: str | None = None,
    ) -> str | None:
        """Return the value of the chosen answer, or None if the user cancels.

        Args:
            title: The question.
            choices: The answers.
            lines: What the user should know before the answer.
            value: Of the answer that is suggested; None for the first.
        """
        ...

    def say(self, text: str, /, *, severity: Severity = "information") -> None:
        """Show one line that needs no answer."""
        ...


async def may_replace(person: Person, path: Path, name: str) -> bool:
    """Return whether a file may be written.

    There is none yet, or the person agrees that it is replaced.

    Args:
        person: Agrees or not.
        path: The file.
        name: The file as the person named it.
    """
    # `Path.exists` raises for a name that is too long; writing then says what is wrong with it.
    return not await asyncio.to_thread(os.path.exists, path) or await person.confirm(
        f"Replace {name}?", ("Its content will be lost.",), yes="Replace", danger=True
    )


async def ask_for_file(person: Person, title: str, folder: Path, default: Path) -> Path | None:
    """Ask for the name of a file to write in the project folder; None if the user declines.

    Raises:
        InputError: The file is outside of the folder.
    """
    given = await person.ask(
        title, value=str(default), lines=("Relative to the project folder.",), accept="Save"
    )
    if given is None:
        return None
    if not given.strip():
        person.say("Nothing is written: it needs a file name.")
        return None
    file = Path(given.strip())
    if not (folder / file).resolve().is_relative_to(folder.resolve()):
        raise InputError(
            "this is outside of the project folder, and nothing is written",
            fix="Name a file inside it. As a command, -o FILE writes anywhere.",
            where=Location(str(file)),
        )
    return file
