"""The command tree, put together from the modules beside this one."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from hudtui import __version__
from hudtui.cli import console

MODULES: tuple[str, ...] = (
    "demo",
    "env",
    "rl",
    "lint",
    "parse",
    "tasks",
    "hf",
    "eval",
    "runs",
    "watch",
    "rehearse",
    "export",
    "machine",
    "gpus",
    "pods",
    "keys",
    "wallet",
    "settings",
    "trust",
    "doctor",
)
"""Modules of `hudtui.cli` that add commands. `--help` lists single commands in this order, and after them groups of commands.

Each has a `register(app)`; heavy imports stay inside its commands.
"""


def build() -> typer.Typer:
    """The complete `hudtui` command."""
    app = typer.Typer(
        name="hudtui",
        no_args_is_help=False,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Mission control for reinforcement learning on MCP environments. Without a command: the full-screen app.",
    )
    app.callback()(_root)
    for name in MODULES:
        import_module(f"hudtui.cli.{name}").register(app)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hudtui {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    workspace: Annotated[
        Path | None, typer.Option("--workspace", "-C", help="Work in this folder instead of the current one.")
    ] = None,
    platform: Annotated[str | None, typer.Option(help="hud, buckeye, or the name of a platform file of yours.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Trust this folder as it is now: for scripts. See `hudtui trust`.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Log in detail, and show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    console.debug = debug
    if workspace is not None:
        try:
            os.chdir(workspace)
        except OSError as error:
            raise typer.BadParameter(f"{workspace}: {error.strerror}", param_hint="--workspace") from None
    if platform is not None:
        os.environ["HUDTUI_PLATFORM"] = platform
    console.trusting = trust
    if trust:
        from hudtui.core.flows.trust import survey
        from hudtui.core.trust import agree

        with console.failures():
            agree(Path.cwd(), survey(Path.cwd()))
    if context.invoked_subcommand is None:
        from hudtui.tui.app import run_app

        raise typer.Exit(run_app(debug=debug))
