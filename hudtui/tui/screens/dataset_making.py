"""What the dataset screen does with tasks: test one, convert all, publish them."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.widgets import Static, TabbedContent

from hudtui.core.errors import InputError, Location
from hudtui.core.events import Notice, Progress
from hudtui.core.text import clean_line
from hudtui.tui.screens.base import StationScreen

if TYPE_CHECKING:
    from hudtui.core.environment.values import Analysis
    from hudtui.core.tasks.dataset import DatasetRequest, DatasetResult
    from hudtui.core.tasks.read import OpenedSource
    from hudtui.core.tasks.table import TaskIndex, TaskRecord
    from hudtui.tui.screens.dataset_dialogs import ConvertContext

_TOLD = 0.1
"""Seconds between two words of progress."""


class Making(StationScreen):
    """The half of the dataset screen that starts work on what is open."""

    def __init__(self) -> None:
        super().__init__()
        self.source: str | None = None
        """The source as the user named it."""
        self.index: TaskIndex | None = None
        self.opened_source: OpenedSource | None = None
        self.analysis: Analysis | None = None
        """What calls are checked against."""
        self.chosen: int | None = None
        """Index of the task under the cursor."""
        self.complete = False
        """Everything was read."""
        self._agreed: set[str] = set()
        """Configurations of servers that the user agreed to test with."""
        self._entries: dict[tuple[bool, str], dict[str, str | bool]] = {}
        """What was entered into the dialogs that make datasets and did not come to anything, by dialog and source."""

    def show_tab(self, name: str) -> None:
        """Go to a tab of the detail: `task`, `problems`, `stats` or `test`."""
        tabs = self.query_one(TabbedContent)
        self.query_one("#ds-panes").add_class("-detail")
        tabs.active = f"ds-tab-{name}"
        target = {"task": "#ds-task-page", "problems": "#ds-problems", "stats": "#ds-stats-page", "test": "#ds-test-page"}[name]
        self.call_after_refresh(self.query_one(target).focus)

    # -- testing one task --------------------------------------------------------------------------------------------

    def action_test(self) -> None:
        assert self.index is not None and self.chosen is not None
        record = self.index.record(self.chosen)
        if record is not None:
            self.start(lambda: self._test(record), group="test")

    async def _test(self, record: TaskRecord) -> None:
        from hudtui.core.flows.trial import Trial, try_task
        from hudtui.core.project import Project
        from hudtui.tui.screens.dataset_detail import trial_content

        assert self.source is not None
        project = Project(self.shell.folder, self.shell.platform)
        shown, begun = self.query_one("#ds-test", Static), False
        try:
            async for step in try_task(project, self.shell, record.task(), self.source, agreed=self._agreed):
                if isinstance(step, Trial):
                    shown.update(trial_content(step))
                    self.say(f"{record.id}: {step.verdict}", step.severity)
                else:
                    begun = True
                    shown.update(Content.styled(f"Testing {clean_line(record.id, 100)} … Ctrl-X cancels.", "$foreground-muted"))
                    self.show_tab("test")
                    self.busy(f"Testing {record.id} (Ctrl-X cancels)")
        except BaseException:
            if begun and self.is_attached:
                shown.update(Content.styled("The test did not come to an end.", "$warning"))
            raise

    # -- making datasets ---------------------------------------------------------------------------------------------

    def action_convert(self) -> None:
        self.start(self._make(publish=False), group="make")

    def action_publish(self) -> None:
        self.start(self._make(publish=True), group="make")

    async def _make(self, *, publish: bool) -> None:
        from hudtui.tui.screens.dataset_dialogs import MakeDialog

        offer = await asyncio.to_thread(self._offer)
        kept = (publish, offer.tasks)
        while True:
            dialog = MakeDialog(offer, publish=publish, entries=self._entries.get(kept))
            request: DatasetRequest | None = await self.app.push_screen_wait(dialog)
            self._entries[kept] = dialog.entries
            if request is None:
                return
            output = request.output
            if output is not None and not await self._may_replace(self.shell.folder / output, str(output)):
                return
            if not publish or await self._last_look(request, offer, dialog.rows):
                break
        await self._carry_out(request, offer.settings)
        self._entries.pop(kept, None)

    async def _last_look(self, request: DatasetRequest, offer: ConvertContext, rows: int | None) -> bool:
        """Say where the dataset would go and who would see it, and ask. False: back to the entries."""
        from hudtui.core.tasks.dataset import hub_token
        from hudtui.core.tasks.hub import endpoint, use_hub_of
        from hudtui.core.tasks.publish import RepoStatus, repo_status

        self.busy("Asking the Hub")

        def ask() -> RepoStatus:
            use_hub_of(offer.settings)
            return repo_status(request.name or "", private=request.private, token=hub_token(request, offer.settings))

        found = await asyncio.to_thread(ask)
        self.clear_message()
        count = "" if rows is None else f"{rows:,} {'row' if rows == 1 else 'rows'} "
        seen = "private: only you and your organisation see it" if found.private else "! PUBLIC: everyone can read it"
        lines = [
            f"{count}to {endpoint()}/datasets/{found.repo}",
            seen,
            "The rows that are there now are replaced; the Hub keeps them in its history." if found.exists else "It is new.",
        ]
        if request.keep_secrets and offer.secrets:
            lines.append(f"! {offer.secrets:,} tasks with secrets as they are written")
        title = f"Publish {found.repo}?"
        return await self.shell.confirm(title, tuple(lines), yes="Publish", no="Back", danger=not found.private)

    # -- carrying over -----------------------------------------------------------------------------------------------

    def action_carry(self) -> None:
        """Ask where to, then write for HUD v6."""
        self.start(self._carry(), group="make")

    async def _carry(self) -> None:
        from hudtui.core.events import iterate_in_thread
        from hudtui.core.tasks.migrate import Migration, migrate_to_v6
        from hudtui.tui.screens.dataset_detail import suggested_output

        opened = self.opened_source
        assert opened is not None and self.source is not None
        wanted = suggested_output(self.source, self.index)
        output = await self.shell.ask(
            "Write the tasks for HUD v6 to", value=str(Path(wanted).with_suffix("")).removesuffix("-checked") + "-v6.json"
        )
        if output is None:
            return
        if not output.strip():
            self.say("Nothing is written: the tasks need a file name.", "warning")
            return
        path = self.shell.folder / output.strip()
        if path.suffix not in (".json", ".jsonl", ".ndjson"):
            raise InputError("a task file ends in .json or .jsonl", where=Location(output))
        if not await self._may_replace(path, output.strip()):
            return
        self.busy("Writing (Ctrl-X cancels)")
        made: Migration | None = None
        async with aclosing(iterate_in_thread(migrate_to_v6(opened.source, path))) as steps:  # type: ignore[type-var]
            async for step in steps:
                if isinstance(step, Migration):
                    made = step
                else:
                    self.busy(f"{step.message} (Ctrl-X cancels)")
        assert made is not None
        self.shell.reload()
        out = made.total - made.written
        first = f"; {out:,} left out: {clean_line(str(made.findings.errors[0]), 200)}" if out and made.findings.errors else ""
        self.say(f"Wrote {output.strip()}: {made.written:,} of {made.total:,} tasks{first}.", "warning" if out else "success")

    async def _may_replace(self, path: Path, name: str) -> bool:
        return not await asyncio.to_thread(path.exists) or await self.shell.confirm(
            f"Replace {name}?", ("What stands there now is lost.",), yes="Replace", danger=True
        )

    # -- asking ------------------------------------------------------------------------------------------------------

    def _offer(self) -> ConvertContext:
        from hudtui.core.settings import load_settings
        from hudtui.core.tasks.dataset import DatasetRequest, hub_token, names_for, updates_lock
        from hudtui.core.tasks.read import lock_image
        from hudtui.core.tasks.servers import LOCAL, SECRETS
        from hudtui.tui.screens.dataset_detail import suggested_output
        from hudtui.tui.screens.dataset_dialogs import ConvertContext

        index, opened = self.index, self.opened_source
        assert index is not None and opened is not None and self.source is not None
        settings = load_settings(self.shell.folder, self.shell.platform)
        plain = DatasetRequest(self.source)
        lock, image, _ = lock_image(settings)
        token = hub_token(plain, settings)
        if token is None:
            from huggingface_hub import get_token

            token = get_token()
        return ConvertContext(
            opened,
            settings,
            self.source,
            suggested_output(self.source, index),
            names_for(plain, settings),
            image,
            index.noticed.get(LOCAL, 0),
            index.noticed.get(SECRETS, 0),
            lock.name if lock is not None else None,
            updates_lock(plain, settings),
            token is not None,
            self.analysis,
            index if self.complete else None,
        )

    async def _carry_out(self, request: DatasetRequest, settings: Any) -> None:
        from hudtui.core.events import iterate_in_thread
        from hudtui.core.tasks.dataset import DatasetResult, make_dataset
        from hudtui.core.tasks.hub import use_hub_of

        made: DatasetResult | None = None
        notes: list[str] = []
        told = 0.0
        self.busy("Writing (Ctrl-X cancels)")
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
                    share = f" {100 * step.done // step.total} %" if step.done is not None and step.total else ""
                    self.busy(f"{step.stage}: {step.message}{share} (Ctrl-X cancels)")
        assert made is not None
        self.shell.reload()
        self.say(" ".join([_told(made, self.shell.folder), *notes]), "warning" if notes else "success")


def _told(made: DatasetResult, folder: Path) -> str:
    converted = made.converted
    written = ", ".join(f"{count:,} in {split}" for split, count in converted.written.items())
    parts = []
    if made.output is not None:
        output = made.output
        parts.append(f"Wrote {output.relative_to(folder) if output.is_relative_to(folder) else output}")
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
