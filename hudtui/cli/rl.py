"""`hudtui rl`: from an environment to a configuration, and on to training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import console
from hudtui.cli.command import HelpCommand, HelpGroup
from hudtui.cli.options import Json, takes_request
from hudtui.cli.person import Terminal
from hudtui.cli.rl_run import run
from hudtui.cli.sources import SourceOptions, TakesCommand, given_command, read_source

if TYPE_CHECKING:
    from hudtui.core.flows.generate import Generated


class _RunsByItself(HelpGroup):
    """The group whose own call is its command `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` in front of what names no command."""
        if args and args[0] not in self.commands:
            self._refuse_slip(args[0])
        if not (args or ctx.resilient_parsing) or (
            args and args[0] not in self.commands and args[0] not in ("--help", "-h")
        ):
            args = ["run", *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def _refuse_slip(self, word: str) -> None:
        """Raises an error for a word that is nearly a command, and no tasks: `int`."""
        from hudtui.core.text import did_you_mean

        near = did_you_mean(word, self.commands)
        if near and word.isalpha() and not Path(word).exists():
            raise typer.BadParameter(
                f"there is no command {word!r}, and no file of that name; did you mean {near}?"
            )

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The commands, and the options and tasks of `run`."""
        command = self.commands["run"]
        inner = type(ctx)(command, info_name="run", parent=ctx, resilient_parsing=True)
        own = command.shell_complete(inner, incomplete)
        if not incomplete.startswith("-"):
            own = [
                *own,
                *next(
                    one for one in command.get_params(inner) if one.name == "tasks"
                ).shell_complete(inner, incomplete),
            ]
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


class _RunContext(typer.Context):
    """A call of `run`, which help and errors call by the name of its group."""

    @property
    def command_path(self) -> str:
        """The group's path."""
        return super().command_path if self.parent is None else self.parent.command_path


class _Run(HelpCommand):
    """The command `run`."""

    context_class = _RunContext


app = typer.Typer(
    cls=_RunsByItself,
    help=(
        "Train on an environment: `hudtui rl [TASKS] [OPTIONS]`. `hudtui rl init` writes the "
        "configuration that this takes."
    ),
    rich_markup_mode=None,
)
app.command("run", cls=_Run, hidden=True)(run)


@app.callback()
def _group() -> None:
    """Reinforcement learning on an environment."""


@app.command("init", cls=TakesCommand)
@takes_request(kind=SourceOptions)
@console.run_async()
async def init(
    ctx: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            help=(
                "Bundled name, image, folder, lock file, URL, mcp_config or tcp:// address; the "
                "current folder by default."
            )
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write it; configs/<name>.yaml by default.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    per_value: Annotated[
        bool,
        typer.Option(
            "--per-value",
            help=(
                "Write a tool with one small enum parameter as one action per value: left() "
                "right() up() down()."
            ),
        ),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="NAMES",
            help="Only these tools: names with commas, also with * and ?; repeatable.",
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="NAMES", help="Leave these tools out, in the same form."),
    ] = None,
    dialect: Annotated[
        str,
        typer.Option(
            "--dialect",
            help="Form of the model's calls: text, native, hermes, json, harmony or auto.",
        ),
    ] = "text",
    name: Annotated[str | None, typer.Option("--name", help="Name of the environment.")] = None,
    to_stdout: Annotated[
        bool, typer.Option("--stdout", help="Print the YAML instead of writing a file.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Start the environment and inspect it, even if a lock file lists its tools.",
        ),
    ] = False,
    *,
    request: SourceOptions,
    as_json: Json = False,
) -> None:
    """Write a configuration for an environment.

    It has the system prompt, and the tool call that each action becomes.

    The agent gets the environment's tools, without setup and evaluation, and without those whose
    description says that they are deprecated, unless --only names them. An existing file is never
    overwritten without --force.
    """
    if to_stdout and output is not None:
        raise typer.BadParameter(
            "these options exclude each other", param_hint="--stdout, --output"
        )
    from hudtui.cli.analyses import look, say_warnings
    from hudtui.core.flows.generate import default_file, make_config, require_free, write_config
    from hudtui.core.gym.generate import ToolChoice
    from hudtui.core.project import open_project

    project = open_project()
    place = read_source(source, given_command(ctx), request)
    target = None if to_stdout else output
    if not to_stdout and (output is None or output.is_dir()):
        target = default_file(name or place.image or place.text, folder=output or Path("configs"))
    if target is not None and not force:
        require_free(project, target)  # before the environment is started in vain
    analysis = await look(place, live=live or place.kind != "lock", timeout=request.timeout)
    say_warnings(analysis)
    choice = ToolChoice(_names(only), _names(without))
    made: Generated | None
    if target is None:
        made = make_config(
            project, analysis, name=name, per_value=per_value, choice=choice, dialect=dialect
        )
    else:
        made = await write_config(
            project,
            analysis,
            Terminal(),
            file=target,
            name=name,
            per_value=per_value,
            choice=choice,
            replace=force,
            dialect=dialect,
        )
    assert made is not None  # there was no question to decline
    if as_json:
        found = [finding.to_json() for finding in made.findings]
        console.out_json({**_summary(made, target), "findings": found, "yaml": made.text})
        return
    if target is None:
        typer.echo(made.text, nl=False)
    else:
        console.out(str(target))
    _report(made, per_value=per_value)


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name for text in given or () for part in text.split(",") if (name := part.strip()))


def _summary(made: Generated, target: Path | None) -> dict[str, Any]:
    plan = made.draft
    return {
        "file": None if target is None else str(target),
        "name": plan.name,
        "environment": plan.environment,
        "actions": [
            {
                "name": action.name,
                "tool": action.tool,
                "usage": action.usage,
                "notes": list(action.notes),
            }
            for action in plan.actions
        ],
        "left_out": [{"tool": item.tool, "reason": item.reason} for item in plan.left_out],
        "per_value": {tool: list(names) for tool, names in plan.per_value.items()},
        "estimated_tokens": made.tokens.to_json(),
    }


def _report(made: Generated, *, per_value: bool) -> None:
    from hudtui.core.text import clean_line

    for finding in made.findings:
        console.say(finding.render(str(made.file or "generated.yaml")))
    console.say(made.summary)
    console.say(made.tokens.line())
    for action in made.draft.actions:
        for note in action.notes:
            console.say(f"note: {action.name}: {note}")
    for item in made.draft.left_out:
        console.say(f"left out: {clean_line(item.tool, 80)} ({item.reason})")
    if not per_value:
        for tool, names in list(made.draft.per_value.items())[:3]:
            calls = " ".join(f"{each}()" for each in names)
            console.say(
                f"hint: {clean_line(tool, 80)} has one parameter with few values: --per-value "
                f"writes {calls}"
            )
    if made.file is not None:
        console.say(f"next: hudtui config check {made.file}")
