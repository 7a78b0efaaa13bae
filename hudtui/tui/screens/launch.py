"""Launch: choose what to run, see the whole plan, start it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.text import clean_line
from hudtui.tui.facts import Facts
from hudtui.tui.keymap import Action
from hudtui.tui.screens.base import StationScreen
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.fit import home_short

if TYPE_CHECKING:
    from hudtui.core.runs.store import RunRecord

_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("tasks", "tasks", "task file, e.g. tasks.json"),
    ("config", "config", "gym configuration, e.g. configs/2048.yaml"),
    ("policy", "policy", "greedy, random, replay:FILE, openai:MODEL"),
    ("base_url", "endpoint", "for openai:MODEL; its usual one when empty"),
    ("group", "per task", "episodes a task"),
    ("limit", "limit", "only the first tasks; all when empty"),
    ("max_turns", "max turns", "replies an episode may have; the config's when empty"),
    ("max_hours", "max hours", "the run is stopped after this time; no limit when empty"),
    ("name", "name", "what to call it; made from config and policy when empty"),
)
_POLICIES = ("greedy", "random", "replay:", "openai:")
_DELAY = 0.25
"""Seconds without a key after which the plan is made anew."""


class LaunchScreen(StationScreen):
    """A form, what is checked, and the plan that it makes."""

    NAME = "launch"
    TITLE = "launch"
    CSS_PATH = "launch.tcss"
    AUTO_FOCUS = "#launch-policy"
    HELP = (
        "What will run: tasks, configuration, policy. Below stands all that will happen: files, commands, where results go. "
        "Nothing starts before ^g (or the palette's Start) is pressed."
    )
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("launch.start", "Start", "Start this run. It goes on when hudtui is closed.", "ctrl+g", priority=True),
        Action("launch.back", "Back", "Go to the runs without starting anything.", "escape"),
        Action("launch.copy", "Copy command", "Copy the command that does the same.", "f6"),
        Action("launch.up", "Field above", "Go to the field above.", "up", show=False, palette=False, priority=True),
        Action("launch.down", "Field below", "Go to the field below.", "down,enter", show=False, palette=False, priority=True),
    )

    def __init__(self) -> None:
        super().__init__()
        self.record: RunRecord | None = None
        """The plan as it stands; None while something is missing."""
        self._timer: Any = None

    def content(self) -> Iterable[Widget]:
        """Fields, then checks and plan."""
        with Vertical(id="launch-form"):
            for name, label, hint in _FIELDS:
                with Horizontal(classes="row"):
                    yield Static(Content.styled(f"{label:<10}", "bold $primary"), classes="label")
                    yield Field(placeholder=hint, id=f"launch-{name}")
        with VerticalScroll(id="launch-plan-scroll"):
            yield Static(id="launch-plan")

    def on_mount(self) -> None:
        """The usual answers."""
        self._field("policy").suggester = SuggestFromList(_POLICIES)
        if not self._value("policy"):
            self._field("policy").value = "greedy"

    def opened(self, **given: Any) -> None:
        """Take over what the opener chose; look at the files again."""
        for name, _, _ in _FIELDS:
            if name in given:
                self._field(name).value = str(given[name])
        self._plan_soon()

    def facts_changed(self, facts: Facts) -> None:
        """Offer the files of the project."""
        for name, files in (("tasks", facts.task_files), ("config", facts.configs)):
            names = [self._short(path) for path in files]
            field = self._field(name)
            field.suggester = SuggestFromList(names)
            if not field.value and names:
                field.value = names[0]

    def why_not(self, action_id: str) -> str | None:
        """There has to be a plan."""
        if action_id in ("launch.start", "launch.copy") and self.record is None:
            return "something is missing; the lower half says what"
        return None

    def action_back(self) -> None:
        """To the runs."""
        self.shell.open_station("run")

    def action_up(self) -> None:
        """The field above."""
        self.focus_previous(Field)

    def action_down(self) -> None:
        """The field below."""
        self.focus_next(Field)

    # -- the plan ----------------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Field.Changed) -> None:
        """Make the plan anew when the typing pauses."""
        event.stop()
        self._plan_soon()

    def _plan_soon(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_DELAY, self._plan_now, name="plan")

    def _plan_now(self) -> None:
        self.start(self._plan(), group="plan")

    async def _plan(self) -> None:
        self.record = None
        checks: list[tuple[bool | None, str]] = []
        problem: HudtuiError | None = None
        try:
            checks = await asyncio.to_thread(self._check)
            if not any(passed is False for passed, _ in checks):
                self.record = await asyncio.to_thread(self._draft)
        except HudtuiError as error:
            problem = error
        self._show(checks, problem)
        self.refresh_bindings()

    def _check(self) -> list[tuple[bool | None, str]]:
        """Whether what was chosen can be used; runs in a thread."""
        from hudtui.core.files import read_text
        from hudtui.core.gym.config import parse_config
        from hudtui.core.settings import load_settings
        from hudtui.core.tasks.load import read_tasks

        checks: list[tuple[bool | None, str]] = []
        workspace = self.shell.workspace
        if tasks := self._value("tasks"):
            settings = load_settings(workspace.folder, workspace.platform)
            image = None
            if workspace.lock is not None:
                from hudtui.core.lockfile import read_lock

                image = read_lock(workspace.lock).image
            found = read_tasks(
                tasks, folder=workspace.folder, lookup=settings.lookup, lock_image=image, platform=workspace.platform
            )
            good = len(found.tasks)
            checks.append((good > 0, f"tasks: {good} of {found.total} can be used"))
            checks += [(None, str(problem)) for problem in found.problems[:5]]
        else:
            checks.append((False, "tasks: name a task file"))
        if config := self._value("config"):
            read, findings = parse_config(read_text(workspace.folder / config), name=config)
            errors = [finding for finding in findings if finding.severity == "error"]
            actions = len(read.mappings) if read else 0
            checks.append((read is not None and not errors, f"config: {actions} actions, {len(errors)} errors"))
            checks += [(None, f"line {finding.line}: {finding.message}") for finding in findings[:5]]
            policy = self._value("policy") or "greedy"
            if read is not None and not policy.startswith("openai:"):
                from hudtui.core.rollouts.policy import policy_source

                policy_source(policy, read)
        else:
            checks.append((False, "config: name one; w on the environment screen writes it"))
        return checks

    def _draft(self) -> RunRecord:
        from hudtui.core.remote.local import LocalHost
        from hudtui.core.runs.launcher import draft, make_spec
        from hudtui.core.runs.store import RunStore

        workspace = self.shell.workspace
        hours = self._number("max_hours", float)
        spec = make_spec(
            workspace,
            tasks=workspace.folder / self._value("tasks"),
            config=workspace.folder / self._value("config"),
            policy=self._value("policy") or "greedy",
            base_url=self._value("base_url") or None,
            group=self._number("group", int) or 1,
            limit=self._number("limit", int),
            max_turns=self._number("max_turns", int),
            max_seconds=None if hours is None else hours * 3600,
            name=self._value("name") or None,
        )
        return draft(spec, LocalHost(), RunStore(workspace.state_dir))

    def _show(self, checks: Sequence[tuple[bool | None, str]], problem: HudtuiError | None) -> None:
        lines: list[Content] = []
        glyphs = {True: ("✓ ", "$success"), False: ("✗ ", "bold $error"), None: ("  ! ", "$warning")}
        for passed, words in checks:
            glyph, style = glyphs[passed]
            lines.append(Content.assemble((glyph, style), clean_line(words, 300)))
        if problem is not None:
            first, *rest = problem.lines()
            lines.append(Content.assemble(("✗ ", "bold $error"), clean_line(first)))
            lines += [Content.styled(f"  {clean_line(line)}", "$foreground-muted") for line in rest]
        if self.record is not None:
            plan = self.record.plan
            lines += [Content(""), Content.styled("Plan", "bold $primary"), Content("on         this machine, for nothing")]
            lines += [Content(f"file       RUN/{file.path}  {file.size:,} bytes") for file in plan.files]
            for stage in plan.stages:
                command = shlex.join(stage.argv).replace(self.record.folder, "RUN").replace(f"{Path.home()}/", "~/")
                lines.append(Content(f"{clean_line(stage.name, 10):<10} {clean_line(command)}"))
            lines += [Content(f"result     RUN/{output.path}  {output.what}") for output in plan.outputs]
            lines.append(Content(f"RUN        {clean_line(home_short(Path(self.record.folder)))}"))
            lines += [Content(""), Content.styled("^g starts it. Closing hudtui does not stop it.", "bold $accent")]
        self.query_one("#launch-plan", Static).update(Content("\n").join(lines))

    def action_copy(self) -> None:
        """Copy the command."""
        words = ["hudtui", "runs", "start", "--follow"]
        for name, _, _ in _FIELDS:
            if value := self._value(name):
                words += [f"--{name.replace('_', '-')}", value]
        self.shell.copy(shlex.join(words))

    # -- starting ----------------------------------------------------------------------------------------------------

    def action_start(self) -> None:
        """Start it."""
        if self.record is not None:
            record, self.record = self.record, None  # a second press must not start a second run
            self.start(self._launch(record), group="launch", exclusive=False, busy="Starting")

    async def _launch(self, record: RunRecord) -> None:
        from hudtui.core.remote.local import LocalHost
        from hudtui.core.runs.launcher import launch
        from hudtui.core.runs.store import RunStore
        from hudtui.core.settings import load_settings

        workspace = self.shell.workspace
        settings = await asyncio.to_thread(load_settings, workspace.folder, workspace.platform)
        store = RunStore(workspace.state_dir)
        notes: list[str] = []
        try:
            async with aclosing(launch(record, LocalHost(), store, lookup=settings.get)) as events:
                async for event in events:
                    if event.type == "step":
                        self.busy(f"Starting: {event.data.get('name')}")
                    elif event.type == "note":
                        notes.append(str(event.data.get("message")))
        finally:
            self._plan_soon()
        self.clear_message()
        self.shell.open_station("run", run=record.id)
        if notes:
            self.shell.say(" ".join(notes), severity="warning")

    # -- fields ------------------------------------------------------------------------------------------------------

    def _field(self, name: str) -> Field:
        return self.query_one(f"#launch-{name}", Field)

    def _value(self, name: str) -> str:
        return self._field(name).value.strip()

    def _number(self, name: str, kind: type[int] | type[float]) -> Any:
        text = self._value(name)
        if not text:
            return None
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < 1e9:
            label = next(label for field, label, _ in _FIELDS if field == name)
            raise InputError(f"{text!r} is no number above 0", where=Location(label))
        return value

    def _short(self, path: Path) -> str:
        folder = self.shell.folder
        return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
