"""Naming an environment on the command line.

A source, or a command after `--`, with headers and variables.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.exceptions import TyperException

from hudtui.cli.command import HelpCommand
from hudtui.core.knobs import knob

if TYPE_CHECKING:
    from hudtui.core.environment.source import Source
    from hudtui.core.settings import Settings

_KEY = "hudtui.command"


class TakesCommand(HelpCommand):
    """A command that may be given another program's command line after `--`.

    `given_command` tells it.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set aside what follows `--`, and parse the rest."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_KEY] = tuple(args[at + 1 :])
            if not ctx.meta[_KEY]:
                raise typer.BadParameter("there is no command after it", ctx, param_hint="--")
            return self._parse(ctx, args[:at])
        try:
            return self._parse(ctx, list(args))
        except TyperException as error:
            program = next((word for word in args if not word.startswith("-")), "")
            beginning = args[args.index(program) :] if program else []
            if (
                len(beginning) > 1
                and not Path(program).exists()
                and shutil.which(program) is not None
            ):
                shown = shlex.join([*args[: len(args) - len(beginning)], "--", *beginning])
                said = getattr(error, "message", "these words are not understood")
                text = (
                    f"{said} {program} is a program: as a command it stands after --: "
                    f"{ctx.command_path} {shown}"
                )
                raise typer.BadParameter(text, ctx) from None
            raise

    def _parse(self, ctx: Any, args: list[str]) -> list[str]:
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The pieces of the usage line, with the command at their end."""
        pieces: list[str] = super().collect_usage_pieces(ctx)
        return [*pieces, "[-- COMMAND...]"]


def given_command(ctx: typer.Context) -> tuple[str, ...]:
    """The command line after `--`; empty when there was none."""
    command: tuple[str, ...] = ctx.meta.get(_KEY, ())
    return command


def pairs(values: Sequence[str], option: str, *, bare: bool = False) -> dict[str, Any]:
    """`NAME=VALUE` options as a mapping; with `bare`, a lone NAME stands for None.

    A header may also be written as curl has it: `Name: value`.
    """
    found: dict[str, str | None] = {}
    for text in values:
        name, sign, value = text.partition("=")
        if option == "--header" and ":" in name:
            name, sign, value = text.partition(":")
            value = value.strip()
        if not name.strip() or not (sign or bare):
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        found[name.strip()] = value if sign else None
    return found


def login_settings() -> Settings | None:
    """The settings for a login that the person at the terminal is offered.

    None where there is no terminal.
    """
    from hudtui.cli import console
    from hudtui.core.settings import load_settings

    return load_settings(Path.cwd()) if console.interactive() else None


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Way to reach an environment."""

    timeout: float = knob(60.0, "Seconds for the start, and for each answer.", minimum=0.1)
    header: tuple[str, ...] = knob(
        (), "HTTP header for a URL; $NAME takes a setting.", "--header", "-H", metavar="NAME=VALUE"
    )
    env: tuple[str, ...] = knob(
        (), "Variable for a started server; NAME alone passes on a setting.", metavar="NAME[=VALUE]"
    )
    sse: bool = knob(False, "The URL is an SSE endpoint, whatever its path.")


def read_source(
    text: str | None, command: Sequence[str] = (), options: SourceOptions | None = None
) -> Source:
    """The source that a command line names, in the current folder with its settings.

    Raises:
        InputError: It cannot be understood, or the settings cannot be read.
    """
    from hudtui.core.environment.source import parse_source
    from hudtui.core.settings import load_settings

    folder, how = Path.cwd(), options or SourceOptions()
    settings = load_settings(folder)
    return parse_source(
        text,
        command,
        headers=pairs(how.header, "--header"),
        env=pairs(how.env, "--env", bare=True),
        folder=folder,
        lookup=settings.use,
        sse=how.sse,
    )
