"""The person at a terminal: how the core's flows ask in a command."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import typer

from hudtui.cli import console
from hudtui.core.flows.person import Choice, Severity
from hudtui.core.text import in_full


class NoTerminal(typer.BadParameter):
    """Nobody can be asked, and the user has not agreed in advance."""

    fix = "Where the user has agreed to what is asked, repeat the command with --yes."

    def format_message(self) -> str:
        """Return what happened, without the name of an option: none was wrong."""
        return self.message


class Terminal:
    """A `Person` who is asked on standard error and answers on standard input."""

    def __init__(self, *, yes: bool = False, dry: bool = False, as_json: bool = False) -> None:
        """Make the person.

        Args:
            yes: The user has agreed to everything in advance (`--yes`), and takes the suggested
                answers.
            dry: The user only wants to see the first question (`--dry-run`), whatever `yes` says.
            as_json: With `dry`: the question is one JSON document.
        """
        self._yes, self._dry, self._as_json = yes and not dry, dry, as_json

    async def confirm(
        self,
        title: str,
        lines: tuple[str, ...] = (),
        *,
        yes: str = "Yes",
        no: str = "Cancel",
        danger: bool = False,
    ) -> bool:
        """See `Person.confirm`. What the user agrees to is printed also with `--yes`.

        Raises:
            NoTerminal: There is no terminal, and the user has not agreed in advance.
            Exit: The user only wanted to see the question.
        """
        self._end_if_dry(title, lines)
        for line in lines:
            console.say(line)
        if self._yes:
            console.say(f"{title} yes")
            return True
        if not console.interactive():
            console.say(title)
            self._require_terminal()
        return await console.ask(lambda: console.confirm(title))

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
        """See `Person.ask`.

        Raises:
            NoTerminal: There is no terminal, and there is no suggested answer that `--yes` could
                take.
        """
        self._end_if_dry(title, lines)
        if self._yes and value:
            return value
        if until is None:
            self._require_terminal()
        for line in (*lines, *([in_full(copy)] if copy else ())):
            console.say(line)
        prompt = f"{title} ({placeholder})" if placeholder else title
        if until is not None:
            return await console.ask_until(until, f"{prompt}: ")
        try:
            if secret:
                return await console.ask_secret(f"{prompt}: ")
            answer: str = await console.ask(
                lambda: typer.prompt(prompt, default=value, show_default=bool(value), err=True)
            )
        except EOFError:
            return None
        return answer or None

    async def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        lines: tuple[str, ...] = (),
        value: str | None = None,
    ) -> str | None:
        """See `Person.choose`. With `--yes`, the suggested answer is taken.

        Raises:
            NoTerminal: There is no terminal, and the user has not agreed in advance.
        """
        self._end_if_dry(title, lines)
        at = next((number for number, choice in enumerate(choices) if choice.value == value), None)
        if self._yes:
            return choices[at or 0].value if choices else None
        self._require_terminal()
        console.say(title)
        for line in lines:
            console.say(line)
        for number, choice in enumerate(choices, 1):
            console.say(f"  {number}  {choice.label}" + (f"  {choice.help}" if choice.help else ""))
        prompt, default = (
            ("Number, or empty for none", "")
            if at is None
            else ("Number, or 0 for none", str(at + 1))
        )
        while True:
            answer: str = await console.ask(
                lambda: typer.prompt(prompt, default=default, show_default=bool(default), err=True)
            )
            if not answer.strip() or (default and answer.strip() == "0"):
                return None
            if answer.strip().isdecimal() and 1 <= int(answer) <= len(choices):
                return choices[int(answer) - 1].value
            console.say(f"{answer.strip()!r} is not one of the numbers.")

    def say(self, text: str, /, *, severity: Severity = "information") -> None:
        """See `Person.say`. Warnings and errors are marked by a word."""
        console.say(f"{severity}: {text}" if severity in ("warning", "error") else text)

    def _end_if_dry(self, title: str, lines: tuple[str, ...]) -> None:
        """End a command that was to ask only; nothing has been done."""
        if not self._dry:
            return
        if self._as_json:
            facts = [line for line in lines if line]
            console.out_json({"dry_run": True, "question": title, "facts": facts})
        else:
            for line in (*lines, title):
                console.out(line)
            console.say("nothing was done")
        raise typer.Exit

    def _require_terminal(self) -> None:
        if not console.interactive():
            raise NoTerminal("this is not a terminal, so hudtui cannot ask: add --yes")
