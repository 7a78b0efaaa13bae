"""`hudtui rl`: from an environment to a configuration, and on to training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hudtui.cli import console
from hudtui.cli.rl_run import run
from hudtui.cli.sources import TakesCommand, given_command, read_source

if TYPE_CHECKING:
    from hudtui.core.gym.generate import Draft


def register(app: typer.Typer) -> None:
    """Add the commands."""
    rl = typer.Typer(
        cls=_RunsByItself,
        help="Train on an environment: `hudtui rl [TASKS] [OPTIONS]`. `hudtui rl init` writes the configuration that this takes.",
        rich_markup_mode=None,
    )
    rl.callback()(_group)
    rl.command("run")(run)
    rl.command("init", cls=TakesCommand)(init)
    app.add_typer(rl, name="rl")


class _RunsByItself(TyperGroup):
    """The group whose own call is its command `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` in front of what names no command."""
        if args and args[0] not in self.commands:
            self._refuse_slip(args[0])
        if not (args or ctx.resilient_parsing) or (args and args[0] not in self.commands and args[0] not in ("--help", "-h")):
            args = ["run", *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def _refuse_slip(self, word: str) -> None:
        """Raises an error for a word that is nearly a command, and no tasks: `int`."""
        from hudtui.core.text import did_you_mean

        near = did_you_mean(word, self.commands)
        if near and word.isalpha() and not Path(word).exists():
            raise typer.BadParameter(f"there is no command {word!r}, and no file of that name; did you mean {near}?")

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The commands, and the options of `run`."""
        command = self.commands["run"]
        own = command.shell_complete(type(ctx)(command, info_name="run", parent=ctx), incomplete)
        return [*super().shell_complete(ctx, incomplete), *own]

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Both ways to call it."""
        formatter.write_usage(ctx.command_path, "[TASKS] [OPTIONS]")
        formatter.write_usage(ctx.command_path, "COMMAND ...")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options of `run`, which are the group's own, before the commands."""
        command = self.commands["run"]
        command.format_options(type(ctx)(command, info_name="run", parent=ctx), formatter)
        self.format_commands(ctx, formatter)


def _group() -> None:
    """Reinforcement learning on an environment."""


def init(
    ctx: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            help="Bundled name, image, folder, lock file, URL, mcp_config or tcp:// address; the current folder by default.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it; configs/<name>.yaml by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite a file that is there already.")] = False,
    per_value: Annotated[
        bool,
        typer.Option(
            "--per-value", help="Turn tools with one small enum parameter into one action a value: left() right() up() down()."
        ),
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="What to call the environment.")] = None,
    to_stdout: Annotated[bool, typer.Option("--stdout", help="Print the YAML instead of writing a file.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Start the environment and look, even where a lock file tells.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds for the start, and for each answer.")] = 60.0,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="HTTP header for a URL; $NAME takes a setting."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", metavar="NAME[=VALUE]", help="Variable for a started server; NAME alone passes on a setting."
        ),
    ] = None,
    sse: Annotated[bool, typer.Option("--sse", help="The URL is an SSE endpoint, whatever its path.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write a configuration for an environment: the system prompt, and the tool call that each action becomes.

    The tools are those of the environment as it is now; set-up and evaluation stay out of the agent's hands. A file that is there
    already is never overwritten without --force.
    """
    if to_stdout and output is not None:
        raise typer.BadParameter("give one of them", param_hint="--stdout, --output")
    with console.failures(as_json=as_json):
        place = read_source(source, given_command(ctx), headers=header or (), env=env or (), sse=sse)
        target = None if to_stdout else _target(output, name or place.image or place.text)
        if target is not None:
            _refuse_overwriting(target, force)  # before the environment is started for nothing
    from hudtui.cli.analyses import look, say_warnings

    analysis = console.run(look(place, live=live or place.kind != "lock", timeout=timeout), as_json=as_json)
    say_warnings(analysis)
    from hudtui.core.files import write_atomic
    from hudtui.core.gym.generate import render, usable_draft
    from hudtui.core.gym.lint.check import lint
    from hudtui.core.platform import choose_platform

    with console.failures(as_json=as_json):
        plan = usable_draft(analysis, name=name, per_value=per_value)
        text = render(plan, platform=choose_platform(Path.cwd()))
        findings = lint(text, name=str(target or "generated.yaml"), tools={tool.name: tool for tool in analysis.tools})
        if target is not None:
            _refuse_overwriting(target, force)
            write_atomic(target, text)
    if as_json:
        console.out_json({**_summary(plan, target), "findings": [finding.to_json() for finding in findings], "yaml": text})
        return
    if target is None:
        typer.echo(text, nl=False)
    else:
        console.out(str(target))
    for finding in findings:
        console.say(finding.render(str(target or "generated.yaml")))
    _tell(plan, target, per_value=per_value)


def _target(output: Path | None, named: str) -> Path:
    from hudtui.core.gym.environment_name import config_file_name

    if output is None:
        return Path("configs") / config_file_name(named)
    return output / config_file_name(named) if output.is_dir() else output


def _refuse_overwriting(target: Path, force: bool) -> None:
    from hudtui.core.errors import InputError, Location

    if not force and (target.exists() or target.is_symlink()):
        raise InputError(
            "there is a file of this name already; it is left as it is",
            fix="Overwrite it with --force, or write another one with -o FILE.",
            where=Location(str(target)),
        )


def _summary(plan: Draft, target: Path | None) -> dict[str, Any]:
    return {
        "file": None if target is None else str(target),
        "name": plan.name,
        "environment": plan.environment,
        "actions": [
            {"name": action.name, "tool": action.tool, "usage": action.usage, "notes": list(action.notes)}
            for action in plan.actions
        ],
        "left_out": [{"tool": item.tool, "reason": item.reason} for item in plan.left_out],
        "per_value": {tool: list(names) for tool, names in plan.per_value.items()},
    }


def _tell(plan: Draft, target: Path | None, *, per_value: bool) -> None:
    from hudtui.core.text import clean_line

    count = len(plan.actions)
    shown = ", ".join(action.name for action in plan.actions[:8]) + (", ..." if count > 8 else "")
    console.say(f"{count} action{'' if count == 1 else 's'}{': ' + shown if shown else ''}, and done")
    for action in plan.actions:
        for note in action.notes:
            console.say(f"note: {action.name}: {note}")
    for item in plan.left_out:
        console.say(f"left out: {clean_line(item.tool, 80)} ({item.reason})")
    if not per_value:
        for tool, names in list(plan.per_value.items())[:3]:
            calls = " ".join(f"{each}()" for each in names)
            console.say(f"hint: {clean_line(tool, 80)} has one parameter with few values: --per-value writes {calls}")
    if target is not None:
        console.say(f"next: hudtui lint {target}")
