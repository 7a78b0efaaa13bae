"""`hudtui runs diagnose`: why a training does not learn."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hudtui.cli import console, runlog
from hudtui.cli import runs as runs_group
from hudtui.cli.options import Json
from hudtui.core.diagnosis.likelihood import FEWEST

if TYPE_CHECKING:
    from hudtui.core.diagnosis.values import Diagnosis, Finding, Severity

FailOn = Annotated[
    Literal["critical", "high", "medium", "low", "never"],
    typer.Option("--fail-on", help="Exit with 1 at a finding as bad as this."),
]


def fail_on_findings(severities: Iterable[Severity], fail_on: str) -> None:
    """End the command with exit code 1 if a finding is as bad as `fail_on` says."""
    from hudtui.core.diagnosis.values import SEVERITIES

    bad = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on in SEVERITIES else ()
    if not set(bad).isdisjoint(severities):
        raise typer.Exit(console.FOUND)


@runs_group.app.command("diagnose")
@console.run_async()
async def diagnose(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|PATH]",
            help="Id or name of a run, or a log, file or folder of any trainer or tracker, here or "
            "elsewhere (HOST:PATH); by default the newest run.",
        ),
    ] = None,
    fail_on: FailOn = "high",
    as_json: Json = False,
) -> None:
    """Say why a training does not learn: signatures of trouble in its metrics, log and machine.

    Each finding names the step at which it began, how likely it is, the numbers that show it, and
    what to change. Trouble of which the run writes no number is listed as not seen. A run that has
    only just begun is not judged.

    Exit code 1 if a finding is as bad as --fail-on says.
    """
    from hudtui.core.errors import InputError
    from hudtui.core.flows.diagnosis import diagnose_run

    async with runlog.machines():
        name, diagnosis = await diagnose_run(run, *runlog.open_store(), Path.cwd())
    if diagnosis is None:
        raise InputError(
            f"{name} has no numbers to diagnose",
            why="No line of it names a metric that hudtui knows.",
            fix="Name a metrics file, a trainer's log, or a tracker's folder.",
        )
    if as_json:
        console.out_json({"run": name, **diagnosis.to_json()})
    else:
        _print(name, diagnosis)
    fail_on_findings((finding.severity for finding in diagnosis.findings), fail_on)


def _print(name: str, diagnosis: Diagnosis) -> None:
    from hudtui.core.text import clean_line, plural

    said = {
        "sick": plural(len(diagnosis.findings), "finding"),
        "sound": "no known trouble",
        "not enough evidence": "not enough evidence yet",
    }
    steps = plural(diagnosis.steps, "step")
    console.out(f"{clean_line(name)}: {said[diagnosis.verdict]} in {steps}")
    for finding in diagnosis.findings:
        console.out()
        head, *lines = _lines(finding)
        console.out(f"{finding.severity}  {clean_line(head)}")
        for line in lines:
            console.out(f"  {clean_line(line, 400)}")
        if finding.episodes:
            words = shlex.join(["hudtui", "rollouts", "list", name, *finding.episodes.split()])
            console.out(f"  episodes: {clean_line(words)}")
    if diagnosis.steps < FEWEST:
        console.say(f"a run is judged from step {FEWEST} on")
    elif diagnosis.unseen:
        console.say(f"not seen, as the run has no such numbers: {', '.join(diagnosis.unseen)}")


def _lines(finding: Finding) -> list[str]:
    from hudtui.core.text import step_text

    lines = [
        f"{finding.title} ({finding.signature})",
        f"since step {step_text(finding.onset)}, {finding.probability:.0%} likely",
        *([] if finding.spent is None else [finding.spent.words()]),
        *(evidence.words() for evidence in finding.evidence),
    ]
    for remedy in finding.remedies:
        options = "".join(f" --set {name}={value}" for name, value in remedy.settings.items())
        lines.append(f"> {remedy.words}{options}")
    return lines
