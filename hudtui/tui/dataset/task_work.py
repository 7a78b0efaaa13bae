"""What the dataset screen does with tasks.

Test one, convert all, publish them, write them for HUD v6.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.content import Content

from hudtui.core.events import Notice, Progress
from hudtui.core.text import clean_line
from hudtui.tui.dataset.open_tasks import OpenTasks
from hudtui.tui.dataset.panes import TaskDetailPane
from hudtui.tui.screen import HudtuiScreen

if TYPE_CHECKING:
    from hudtui.core.flows.audit import AuditEnded, AuditStarted
    from hudtui.core.tasks.dataset import DatasetRequest, DatasetResult
    from hudtui.core.tasks.table import TaskRecord
    from hudtui.tui.dataset.dialogs import ConvertContext

_TOLD = 0.1
"""Seconds between two reports of progress."""


class TaskWork:
    """Work that is started on what is open.

    Args:
        screen: The screen for questions and progress.
        open_tasks: What is open.
        detail: Where a test is shown.
        show_test: Brings the test to the front.
    """

    def __init__(
        self,
        screen: HudtuiScreen,
        open_tasks: OpenTasks,
        detail: TaskDetailPane,
        show_test: Callable[[], None],
    ) -> None:
        self._screen, self._open, self._detail, self._show_test = (
            screen,
            open_tasks,
            detail,
            show_test,
        )
        self._agreed: set[str] = set()
        """Configurations of servers that the user agreed to test with."""
        self._entries: dict[tuple[bool, str], dict[str, str]] = {}
        """Entries of dialogs that were cancelled, by dialog and source."""

    # -- testing one task
    # --------------------------------------------------------------------------------------------

    async def test(self, record: TaskRecord) -> None:
        """Set a task up in its environment, and evaluate it at once."""
        from hudtui.core.flows.trial import Trial, try_task
        from hudtui.tui.dataset.detail import trial_content

        source = self._open.source
        assert source is not None
        app = self._screen.app
        shown, begun = self._detail.texts["test"], False
        try:
            async for step in try_task(
                app.project, app, record.task(), source, agreed=self._agreed
            ):
                if isinstance(step, Trial):
                    shown.update(trial_content(step))
                    self._screen.say(f"{record.id}: {step.verdict}", step.severity)
                else:
                    begun = True
                    shown.update(
                        Content.styled(
                            f"Testing {clean_line(record.id, 100)} …", "$foreground-muted"
                        )
                    )
                    self._show_test()
                    self._screen.busy(f"Testing {record.id} ({{key:dataset.cancel}} cancels)")
        except BaseException:
            if begun and self._screen.is_attached:
                shown.update(Content.styled("The test did not finish.", "$warning"))
            raise

    # -- auditing all
    # ---------------------------------------------------------------------------------------------

    async def audit(self) -> None:
        """Audit the grader of the open tasks, and show what is found."""
        config, app = await self._configuration(), self._screen.app
        if config is None:
            return
        from hudtui.core.flows.audit import (
            AuditEnded,
            AuditRequest,
            AuditStarted,
            audit_environment,
        )

        request = AuditRequest(config=Path(config), tasks=self._open.source)
        reported = 0.0
        async with aclosing(audit_environment(app.project, request)) as events:
            async for event in events:
                if isinstance(event, AuditStarted):
                    if not await app.confirm("Audit the grader?", _plan(event), yes="Audit"):
                        return
                elif isinstance(event, AuditEnded):
                    await self._show_audit(event)
                elif isinstance(event, Progress) and (now := time.monotonic()) - reported > _TOLD:
                    reported = now
                    count = "" if event.total is None else f", {event.done} of {event.total}"
                    self._screen.busy(
                        f"Audit: {event.message}{count} ({{key:dataset.cancel}} cancels)"
                    )

    async def _configuration(self) -> str | None:
        """Return the only configuration of the project, or the one that the user chooses."""
        from hudtui.tui.widgets.pick import pick_file

        app = self._screen.app
        workspace = await asyncio.to_thread(lambda: app.workspace)
        if len(workspace.configs) == 1:
            return workspace.relative(workspace.configs[0])
        return await pick_file(app, "configs", None)

    async def _show_audit(self, ended: AuditEnded) -> None:
        """Say the verdict; where something was found, list it and open an episode that shows it."""
        from hudtui.tui.widgets.pick import Pick

        audit, app = ended.audit, self._screen.app
        signal = audit.signal_line()
        lines = [f"{audit.verdict}: {audit.why}", signal, f"Kept in {ended.file}."]
        said = [line for line in lines if line]
        self._screen.say(
            f"The audit says {audit.verdict}: {audit.why}. {f'Its {signal}. ' if signal else ''}"
            f"It is kept in {ended.file}.",
            "success" if audit.verdict == "sound" else "warning",
        )
        if not audit.findings:
            return
        rows = [
            (one.severity, f"{one.title}. {' '.join(cure.words for cure in one.remedies)}")
            for one in audit.findings
        ]
        hint = "{key:pick.take} opens an episode that shows it   {key:dialog.cancel} closes"
        dialog = Pick(f"Audit: {audit.verdict}", rows, lines=said, hint=hint)
        place: int | None = await app.push_screen_wait(dialog)
        proofs = () if place is None else audit.findings[place].evidence
        if proofs:
            proof = proofs[0]
            app.open_screen(
                "results",
                back="dataset",
                path=str(proof.file),
                task=proof.task,
                episode=proof.number,
            )
        elif place is not None:
            self._screen.say("No single episode shows this.")

    # -- making datasets
    # ---------------------------------------------------------------------------------------------

    async def make(self, *, publish: bool) -> None:
        """Ask what to write, and write or publish it."""
        from hudtui.core.flows.person import may_replace
        from hudtui.core.flows.publish import agree_to_push, find_destination
        from hudtui.tui.dataset.dialogs import MakeDialog

        context = await asyncio.to_thread(self._convert_context)
        if publish:
            context.settings.require_trust()
        offers, settings = context.offers, context.settings
        kept = (publish, context.tasks)
        while True:
            dialog = MakeDialog(context, publish=publish, entries=self._entries.get(kept))
            request: DatasetRequest | None = await self._screen.app.push_screen_wait(dialog)
            self._entries[kept] = dialog.entries
            if request is None:
                return
            output = request.output
            if output is not None and not await may_replace(
                self._screen.app, self._screen.app.folder / output, str(output)
            ):
                return
            if not publish:
                break
            self._screen.busy("Asking the Hub")
            there = await find_destination(request, settings)
            self._screen.clear_message()
            if await agree_to_push(
                request, there, self._screen.app, rows=dialog.rows, secrets=offers.secrets.tasks
            ):
                break
        await self._carry_out(request, settings)
        self._entries.pop(kept, None)

    # -- carrying over
    # ----------------------------------------------------------------------------------------------

    async def carry(self) -> None:
        """Ask where to, then write for HUD v6."""
        from hudtui.core.flows.publish import carry_to_v6
        from hudtui.core.tasks.migrate import Migration

        opened, app = self._open.opened, self._screen.app
        assert opened is not None
        async with aclosing(carry_to_v6(app.project, app, opened.source)) as steps:  # type: ignore[type-var]
            async for step in steps:
                if not isinstance(step, Migration):
                    self._screen.busy(f"{step.message} ({{key:dataset.cancel}} cancels)")
                    continue
                app.reload()
                out, errors = step.total - step.written, step.findings.errors
                first = (
                    f"; {out:,} left out: {clean_line(str(errors[0]), 200)}"
                    if out and errors
                    else ""
                )
                counts = f"{step.written:,} of {step.total:,} tasks{first}"
                self._screen.say(
                    f"Wrote {app.relative(step.output)}: {counts}.", "warning" if out else "success"
                )

    # -- asking
    # ----------------------------------------------------------------------------------------------

    def _convert_context(self) -> ConvertContext:
        from hudtui.core.flows.publish import find_choices, suggested_output
        from hudtui.core.tasks.dataset import DatasetRequest
        from hudtui.tui.dataset.dialogs import ConvertContext

        index, opened, source = self._open.index, self._open.opened, self._open.source
        assert index is not None and opened is not None and source is not None
        settings = self._screen.app.project.settings()
        usable = index.counts["ok"] + index.counts["warning"]
        offers = find_choices(DatasetRequest(source), settings, index.noticed, usable)
        known = index if self._open.complete else None
        return ConvertContext(
            opened, settings, source, suggested_output(source), offers, self._open.analysis, known
        )

    async def _carry_out(self, request: DatasetRequest, settings: Any) -> None:
        from hudtui.core.events import iterate_in_thread
        from hudtui.core.tasks.dataset import DatasetResult, make_dataset
        from hudtui.core.tasks.hub import use_hub_of

        made: DatasetResult | None = None
        notes: list[str] = []
        told = 0.0
        self._screen.busy("Writing ({key:dataset.cancel} cancels)")
        use_hub_of(settings)
        async with aclosing(iterate_in_thread(make_dataset(request, settings))) as steps:  # type: ignore[type-var]
            async for step in steps:
                if isinstance(step, DatasetResult):
                    made = step
                elif isinstance(step, Notice):
                    if step.severity != "info":  # the dialog has shown what is merely good to know
                        notes.append(f"! {step.message}.")
                elif isinstance(step, Progress) and (now := time.monotonic()) - told > _TOLD:
                    told = now
                    share = (
                        f" {100 * step.done // step.total} %"
                        if step.done is not None and step.total
                        else ""
                    )
                    self._screen.busy(
                        f"{step.stage}: {step.message}{share} ({{key:dataset.cancel}} cancels)"
                    )
        assert made is not None
        self._screen.app.reload()
        self._screen.say(
            " ".join([_told(made, self._screen.app.relative), *notes]),
            "warning" if notes else "success",
        )


def _plan(start: AuditStarted) -> tuple[str, ...]:
    """Return what an audit is about to do, in lines."""
    return (
        f"{start.played} of {start.of} tasks of {start.tasks}, with {start.config}.",
        "Players that never look at a task play it, about 40 episodes a task. Then random calls "
        "are played until it is known what a group would teach, for 20 seconds at most.",
        f"The episodes are kept in {start.out_dir}.",
        *(() if start.reach is None else (f"! {start.reach}",)),
    )


def _told(made: DatasetResult, relative: Callable[[Path], str]) -> str:
    converted = made.converted
    written = ", ".join(f"{count:,} in {split}" for split, count in converted.written.items())
    parts = []
    if made.output is not None:
        parts.append(f"Wrote {relative(made.output)}")
    if made.pushed is not None:
        unchanged = " (it had all of it already)" if made.pushed.commit is None else ""
        parts.append(f"Published at {made.pushed.url}{unchanged}")
    told = f"{'; '.join(parts)}: {written}"
    if out := converted.total - converted.valid:
        told += f"; {out:,} unusable left out"
    if converted.duplicated:
        told += f"; {converted.duplicated:,} copies"
    if made.lock is not None:
        told += f"; {made.lock.name} names it"
    return told + "."
