"""`hudtui config check`: check a configuration, against itself and against its environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudtui.cli import console
from hudtui.cli.analyses import look, read_analysis, say_warnings
from hudtui.cli.command import top
from hudtui.cli.options import Json
from hudtui.cli.sources import TakesCommand, given_command, read_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hudtui.core.gym.lint.findings import Finding


@top.command("lint", cls=TakesCommand)
@console.run_async()
async def lint(
    ctx: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration (YAML).")],
    env: Annotated[
        str | None,
        typer.Option(
            "--env",
            metavar="SOURCE",
            help="Check against this environment, as for `hudtui env show`.",
        ),
    ] = None,
    analysis: Annotated[
        Path | None,
        typer.Option(
            "--analysis",
            metavar="FILE",
            help="Check against the output of `hudtui env show --json`.",
        ),
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Apply all safe fixes; comments and layout stay.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Start the environment and inspect it, even if the answer is cached."
        ),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=0.1, help="Seconds for the start, and for each answer."),
    ] = 60.0,
    as_json: Json = False,
) -> None:
    """Check a configuration by itself and against the environment.

    Found are tools and parameters that do not exist, prompts that do not fit the mappings, and
    transforms that fail.

    An environment may also be a command after `--`. Exit code 1 if there are errors.
    """
    command = given_command(ctx)
    if sum(map(bool, (env, analysis, command))) > 1:
        raise typer.BadParameter("give one environment", param_hint="--env, --analysis, -- COMMAND")
    from hudtui.core.files import read_text
    from hudtui.core.gym.lint import check as checks
    from hudtui.core.gym.lint import fixes

    found = None if analysis is None else read_analysis(analysis)
    if env is not None or command:
        found = await look(read_source(env, command), live=live, timeout=timeout)
        say_warnings(found)
    tools = None if found is None else {tool.name: tool for tool in found.tools}
    applied: Sequence[Finding] = ()
    if fix:
        fixed = fixes.fix_file(config, tools=tools)
        findings, applied = fixed.findings, fixed.applied
    else:
        config = console.config_file(config)
        findings = checks.lint(read_text(config), name=str(config), tools=tools)
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        console.out_json(
            {
                "file": str(config),
                "findings": [finding.to_json() for finding in findings],
                "fixed": len(applied),
                "ok": errors == 0,
            }
        )
    else:
        _show(config, findings, applied)
    if errors:
        raise typer.Exit(console.FOUND)


def _show(config: Path, findings: Sequence[Finding], applied: Sequence[Finding]) -> None:
    for finding in applied:
        console.say(
            f"fixed: {finding.code} {_about(finding)}{finding.fix.title if finding.fix else ''}"
        )
    for finding in findings:
        place = f"{config}:{finding.line}:{finding.column}"
        console.out(
            f"{place}: {finding.severity} {finding.code} {_about(finding)}{finding.message}"
        )
    counts = [
        (sum(each.severity == severity for each in findings), severity)
        for severity in ("error", "warning", "info")
    ]
    told = ", ".join(
        f"{count} {word}{'s' if count > 1 and word != 'info' else ''}"
        for count, word in counts
        if count
    )
    fixable = sum(finding.fix is not None for finding in findings)
    console.out(
        f"{told or 'nothing to report'}{f'; --fix can repair {fixable}' if fixable else ''}"
    )


def _about(finding: Finding) -> str:
    where = ".".join(part for part in (finding.mapping, finding.parameter) if part is not None)
    return f"{where}: " if where else ""
