"""The command tree, put together from the modules beside this one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_command_from_info, get_group_from_info
from typer.models import CommandInfo, DefaultPlaceholder, TyperInfo

from hudtui import __version__
from hudtui.cli import console
from hudtui.cli.command import HelpCommand, HelpGroup, refusal, top

MODULES: tuple[str, ...] = (
    "demo",
    "doctor",
    "env",
    "audit",
    "lint",
    "parse",
    "tasks",
    "hf",
    "rl",
    "art",
    "eval",
    "rollouts",
    "runs",
    "watch",
    "diagnosis",
    "records",
    "export",
    "gpus",
    "pods",
    "keys",
    "machine",
    "settings",
    "trust",
)
"""Modules of `hudtui.cli` with commands: of `command.top`, or of a group, their `app`. Heavy
imports stay inside the commands."""

SHOWN = (
    "demo",
    "doctor",
    "env",
    "config",
    "tasks",
    "hf",
    "rl",
    "art",
    "eval",
    "rollouts",
    "runs",
    "watch",
    "pods",
    "machine",
    "settings",
    "trust",
)
"""The commands that `hudtui --help` lists, in its order. All others are other spellings of them."""

SPELLINGS = {
    "env analyze": "env show",
    "rl init": "config init",
    "lint": "config check",
    "parse": "config try",
    "transform": "config transform",
    "hf": "tasks push",
    "export": "runs export",
    "runs watch": "watch",
    "gpus": "pods offers",
    "wallet": "pods wallet",
    "keys": "pods keys",
    "pods status": "pods show",
}
"""Commands with two spellings. Both work alike; help lists the second one, and of `hf` and
`rl init` both."""


_JSON = "hudtui.json"
"""In what the contexts of a command line share: whether `--json` was typed."""
_UsageError: Any = typer.BadParameter.__base__
"""What Typer raises for a command line that cannot be used."""


class _Root(HelpGroup):
    """The command itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of `hudtui`.

        What an earlier call of this process has set is forgotten.
        """
        console.debug = console.trusting = False
        ctx.meta[_JSON] = "--json" in args[: args.index("--") if "--" in args else None]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed.

        With `--json`, a command line that is refused is also printed as an object, like every other
        error.
        """
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            if ctx.meta[_JSON]:
                console.out_json(refusal(error).to_json())
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of `SHOWN` first and in its order."""
        return sorted(
            super().list_commands(ctx),
            key=lambda name: SHOWN.index(name) if name in SHOWN else len(SHOWN),
        )


@cache
def build() -> typer.Typer:
    """Return the complete `hudtui` command. It is put together once."""
    app = typer.Typer(
        name="hudtui",
        cls=_Root,
        no_args_is_help=False,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=(
            "Mission control for reinforcement learning on MCP environments. Without a command: "
            "the full-screen app."
        ),
    )
    app.callback()(_root)
    for name in MODULES:
        if (group := getattr(import_module(f"hudtui.cli.{name}"), "app", None)) is not None:
            app.add_typer(group, name=name)
    app.registered_commands += top.registered_commands
    config = typer.Typer(
        help="Gym configurations: write, check and try them.", rich_markup_mode=None
    )
    app.add_typer(config, name="config")
    for old, new in SPELLINGS.items():
        _respell(app, old, new)
    _finish(app)
    for entry in _entries(app):
        entry.hidden = _name(entry) not in SHOWN
    return app


def command() -> Any:
    """Return the complete command, ready to be called.

    Those in it are made once they are asked for: all together take 60 ms.
    """
    app = build()
    found: Any = get_command(_alone(app))
    found.commands = _Later(app)
    return found


def _alone(app: typer.Typer) -> typer.Typer:
    """Return an app without the commands and groups in it."""
    bare = copy(app)
    bare.registered_commands, bare.registered_groups = [], []
    return bare


class _Later(Mapping[str, Any]):
    """The commands and groups of an app by their names, each made when it is first asked for."""

    def __init__(self, app: typer.Typer) -> None:
        self._app = app
        self._found: dict[str, Any] = dict.fromkeys(map(_name, _entries(app)))

    def __getitem__(self, name: str) -> Any:
        if self._found[name] is None:
            self._found[name] = self._made(_entry(self._app, name)[1])
        return self._found[name]

    def _made(self, entry: CommandInfo | TyperInfo) -> Any:
        how: Any = {"pretty_exceptions_short": False, "rich_markup_mode": None}
        if isinstance(entry, CommandInfo):
            return get_command_from_info(entry, **how)
        assert entry.typer_instance is not None
        bare = copy(entry)
        bare.typer_instance = _alone(entry.typer_instance)
        group: Any = get_group_from_info(bare, suggest_commands=True, **how)
        group.commands = _Later(entry.typer_instance)
        return group

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _entries(app: typer.Typer) -> list[CommandInfo | TyperInfo]:
    return [*app.registered_commands, *app.registered_groups]


def _name(entry: CommandInfo | TyperInfo) -> str:
    """The name of a command or group, which Typer derives from the function if it is not given."""
    if isinstance(entry.name, str):
        return entry.name
    callback = getattr(entry, "callback", None)
    return callback.__name__.replace("_", "-") if callback is not None else ""


def _entry(app: typer.Typer, path: str) -> tuple[typer.Typer, CommandInfo | TyperInfo]:
    """The app that holds a command or group, and its entry there."""
    first, _, rest = path.partition(" ")
    entry = next(one for one in _entries(app) if _name(one) == first)
    if not rest:
        return app, entry
    assert isinstance(entry, TyperInfo) and entry.typer_instance is not None
    return _entry(entry.typer_instance, rest)


def _respell(app: typer.Typer, old: str, new: str) -> None:
    """Add another spelling of a command or group, and hide the old one."""
    _, entry = _entry(app, old)
    group, _, name = new.rpartition(" ")
    holder = app
    if group:
        found = _entry(app, group)[1]
        assert isinstance(found, TyperInfo) and found.typer_instance is not None
        holder = found.typer_instance
    twin = copy(entry)
    twin.name = name
    (
        holder.registered_groups if isinstance(twin, TyperInfo) else holder.registered_commands
    ).append(twin)  # type: ignore[arg-type]
    entry.hidden = old not in ("hf", "rl init")


def _finish(app: typer.Typer) -> None:
    """Give every command and group the help of `hudtui.cli.command`.

    One with a class of its own keeps that.
    """
    for command in app.registered_commands:
        if command.cls in (None, TyperCommand):
            command.cls = HelpCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            if group.typer_instance.info.cls in (None, TyperGroup) or isinstance(
                group.typer_instance.info.cls, DefaultPlaceholder
            ):
                group.typer_instance.info.cls = HelpGroup
            _finish(group.typer_instance)


def _version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        typer.echo(f"hudtui {__version__}")
        raise typer.Exit


def _work_in(folder: Path | None) -> Path | None:
    if folder is not None:
        try:
            os.chdir(folder)
        except OSError as error:
            raise typer.BadParameter(
                f"{str(folder)!r}: {error.strerror}", param_hint="--workspace"
            ) from None
    return folder


def _choose_platform(name: str | None) -> str | None:
    if name is not None:
        os.environ["HUDTUI_PLATFORM"] = name
    return name


def _trust(wanted: bool) -> bool:
    console.trusting |= wanted
    return wanted


def _debug(wanted: bool) -> bool:
    console.debug |= wanted
    return wanted


def _root(
    context: typer.Context,
    workspace: Annotated[
        Path | None,
        typer.Option(
            "--workspace",
            "-C",
            is_eager=True,
            callback=_work_in,
            help="Work in this folder instead of the current one.",
        ),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            callback=_choose_platform, help="hud, buckeye, or the name of a platform file of yours."
        ),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            callback=_trust,
            help="Trust this folder as it is now: for scripts. See `hudtui trust`.",
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", callback=_debug, help="Log in detail, and show tracebacks.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        from hudtui.tui.app import run_app

        raise typer.Exit(run_app(debug=console.debug))
