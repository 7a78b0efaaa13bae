"""`hudtui env audit`: attack the grader of an environment before a model does it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudtui.cli import console
from hudtui.cli import env as env_group
from hudtui.cli.diagnosis import FailOn, fail_on_findings
from hudtui.cli.options import Json, takes_request
from hudtui.core.audit.options import AuditOptions
from hudtui.core.knobs import knobs_of

if TYPE_CHECKING:
    from hudtui.core.audit.values import Audit, AuditFinding
    from hudtui.core.events import Progress
    from hudtui.core.flows.audit import AuditEnded, AuditRequest

_SHOWN_PROOFS = 2


@env_group.app.command("audit")
@takes_request(*knobs_of(AuditOptions), kind=AuditOptions)
@console.run_async(when_ended="the episodes so far are kept")
async def audit(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG]", help="Gym configuration (YAML); by default the only one here."
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Argument(
            metavar="[TASKS]",
            help="A file of tasks, or a dataset on the Hub; by default the only one here.",
        ),
    ] = None,
    *,
    request: AuditOptions,
    fail_on: FailOn = "high",
    as_json: Json = False,
) -> None:
    """Say whether an environment is worth a training: attack its grader.

    Players that never look at the task play it: nothing at all, the form only, one call for ever,
    random legal calls, injected text and others. What they earn is compared with a good player: the
    tasks' own solutions, --model, or --episodes. Every finding names an episode that shows it. All
    tools are called: use a copy of what must not change.

    Exit code 1 if a finding is as bad as --fail-on says.
    """
    from hudtui.core.flows.audit import AuditRequest

    path = None if config is None else console.config_file(config)
    ended = await _play(AuditRequest(config=path, tasks=tasks, **vars(request)))
    if as_json:
        console.out_json({**ended.audit.to_json(), "file": str(ended.file)})
    else:
        _print(ended.audit)
        console.say(f"kept in {ended.file}")
    fail_on_findings((finding.severity for finding in ended.audit.findings), fail_on)


async def _play(request: AuditRequest) -> AuditEnded:
    from hudtui.core.events import Notice, Progress
    from hudtui.core.flows.audit import AuditStarted, audit_environment
    from hudtui.core.project import open_project

    ended: AuditEnded | None = None
    lines = _Lines()
    async with contextlib.aclosing(audit_environment(open_project(), request)) as events:
        async for event in events:
            if isinstance(event, AuditStarted):
                console.say(
                    f"audit of {event.config} with {event.played} of {event.of} tasks of "
                    f"{event.tasks}, kept in {event.out_dir}"
                )
                if event.reach is not None:
                    console.say(f"warning: {event.reach}")
            elif isinstance(event, Notice):
                console.tell(event)
            elif isinstance(event, Progress):
                lines.tell(event)
            else:
                ended = event  # it comes last
    assert ended is not None
    return ended


class _Lines:
    """Progress in plain lines: one when a part begins, and one every few seconds."""

    _EVERY = 5.0

    def __init__(self) -> None:
        self._stage, self._said = "", 0.0

    def tell(self, event: Progress) -> None:
        """Say where the audit is, if that is news."""
        now = time.monotonic()
        if event.message == self._stage and now - self._said < self._EVERY:
            return
        self._stage, self._said = event.message, now
        count = "" if event.total is None else f": {event.done} of {event.total} episodes"
        console.say(f"{time.strftime('%H:%M:%S')} {event.message}{count}")


def _print(audit: Audit) -> None:
    from hudtui.core.text import plural

    played = f"{plural(audit.episodes, 'episode')} of {plural(audit.tasks, 'task')}"
    console.out(f"{audit.verdict}: {audit.why}")
    console.out(f"{played} in {audit.seconds:.0f} s")
    if (line := audit.signal_line()) is not None:
        console.out(line)
    for finding in audit.findings:
        console.out()
        _print_finding(finding)
    if audit.unseen:
        console.say(f"not checked, for want of episodes that show it: {', '.join(audit.unseen)}")


def _print_finding(finding: AuditFinding) -> None:
    console.out(f"{finding.severity}  {finding.title} ({finding.signature})")
    for proof in finding.evidence[:_SHOWN_PROOFS]:
        console.out(f"  {proof.line()}")
    for remedy in finding.remedies:
        console.out(f"  > {remedy.words}")
