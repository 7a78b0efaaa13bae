"""Launch: choose what to run and where, see the whole plan with its price, start it."""

from __future__ import annotations

import asyncio
import shlex
import textwrap
import time
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.knobs import Knob, knobs_of
from hudtui.core.runs.request import RunRequest
from hudtui.core.text import clean_line
from hudtui.core.training.recipe import Recipe, parse_settings
from hudtui.tui.actions import AppAction
from hudtui.tui.facts import Facts
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.widgets.fields import Field

if TYPE_CHECKING:
    from textual.worker import Worker

    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Offer, Offers, Query, SshKey
    from hudtui.core.events import Progress
    from hudtui.core.runs.plan_text import PlanLine
    from hudtui.core.runs.preflight import Check
    from hudtui.core.runs.prepare import Preparation
    from hudtui.core.runs.store import RunRecord
    from hudtui.core.runs.values import RunEvent
    from hudtui.core.settings import Settings

_ALWAYS, _PLAYS, _TRAINS, _RENTS, _AWAY = "always", "plays", "trains", "rents", "away"
_FORM: Mapping[str, str] = {
    **dict.fromkeys(("machine",), _ALWAYS),
    "gpus": _RENTS,
    **dict.fromkeys(("engine", "tasks", "config"), _ALWAYS),
    "model": _TRAINS,
    **dict.fromkeys(("policy", "base_url", "group", "limit"), _PLAYS),
    **dict.fromkeys(("steps", "learning_rate", "num_generations", "batch_size", "lora", "max_tokens", "training"), _TRAINS),
    **dict.fromkeys(("max_turns", "max_hours"), _ALWAYS),
    "budget": _RENTS,
    **dict.fromkeys(("environments", "python"), _AWAY),
    "name": _ALWAYS,
}
"""The fields in their order, and when each is shown: options of `RunRequest`, settings of `Recipe`, and the machine."""
_KNOBS: Mapping[str, Knob] = {
    **knobs_of(Recipe),
    **knobs_of(RunRequest),
    "machine": Knob("", hint="local, user@host, a name of ~/.ssh/config, or prime to rent one"),
}
_SET = tuple(name for name in _FORM if name not in knobs_of(RunRequest) and name != "machine")
"""Fields that are settings of the trainer."""
_USUAL = {"machine": "local", "engine": "rollouts", "policy": "greedy"}
_POLICIES = ("greedy", "random", "replay:", "openai:")
_RENTED = ("prime", "sky")
"""Providers from whom a machine can be rented for a run."""
_DELAY = 0.25
"""Seconds without a key after which the plan is updated."""
_QUOTED = 60.0
"""Seconds for which prices are not asked for again while the plan changes."""


class LaunchScreen(HudtuiScreen):
    """A form, what is checked, and the plan that it makes."""

    NAME = "launch"
    TITLE = "launch"
    CSS_PATH = "launch.tcss"
    AUTO_FOCUS = "#launch-policy"
    HELP = (
        "What will run, and where: this machine, one of yours behind SSH, or one that is rented for it. Below stands all that "
        "will happen: machine and price, files, commands, where results go. Nothing starts before ^g (or the palette's Start) is "
        "pressed; what costs money is asked for once more. f7 rehearses a training for nothing. Page up and page "
        "down scroll the plan."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "launch.start", "Start", "Start this run. It goes on when hudtui is closed.", "ctrl+g", priority=True, decides=True
        ),
        AppAction("launch.fix", "Fix", "Offer a fix for the first thing that is missing.", "f4"),
        AppAction(
            "launch.rehearse", "Rehearse", "The training for nothing: a tiny model, on this machine's CPU.", "f7", decides=True
        ),
        AppAction("launch.back", "Back", "Go to the runs without starting anything.", "escape"),
        AppAction("launch.copy", "Copy command", "Copy the command that does the same.", "f6"),
        AppAction(
            "launch.cancel",
            "Give up",
            "Give up the machine that is being got; what was created is ended.",
            "f8",
            show=False,
            danger=True,
        ),
        AppAction("launch.up", "Field above", "Go to the field above.", "up", show=False, palette=False, priority=True),
        AppAction("launch.down", "Field below", "Go to the field below.", "down,enter", show=False, palette=False, priority=True),
        AppAction("launch.plan_up", "Plan up", "Scroll the plan up.", "pageup", show=False, palette=False, priority=True),
        AppAction("launch.plan_down", "Plan down", "Scroll the plan down.", "pagedown", show=False, palette=False, priority=True),
    )

    def __init__(self) -> None:
        super().__init__()
        self.prepared: Preparation | None = None
        """The checks and the plan for the form as it stands."""
        self.offer: Offer | None = None
        """The machine that was chosen on the Compute step."""
        self.rented: RunRecord | None = None
        """The run that a machine was asked for last."""
        self._timer: Any = None
        self._quoted: dict[str, _Quoted] = {}
        self._shown: tuple[tuple[PlanLine, ...], HudtuiError | None, bool] | None = None
        self._typed_machine = ""
        self._begun: str | None = None
        """The run that began last on a rented machine."""
        self._started: str | None = None
        """A run that began, and was not gone to yet."""

    @property
    def _getting(self) -> RunRecord | None:
        """The run that a machine is being got for, until it begins."""
        run = self.rented
        return run if run is not None and run.id != self._begun and self.app.rented.manages(run.id) else None

    @property
    def record(self) -> RunRecord | None:
        """The plan as it stands; None while something is missing."""
        return self.prepared.record if self.prepared is not None else None

    def content(self) -> Iterable[Widget]:
        """Fields, then checks and plan."""
        usual = Recipe()
        told = {field.name: _as_typed(getattr(usual, field.name)) for field in fields(usual)} | {"rate": f"{usual.rate:g}"}
        with Vertical(id="launch-form"):
            for name in _FORM:
                label, hint = _label(name), _KNOBS[name].hint
                with Horizontal(classes="row", id=f"launch-row-{name}"):
                    yield Static(Content.styled(f"{label:<10}", "bold $primary"), classes="label")
                    yield Field(placeholder=hint.format_map(told), id=f"launch-{name}")
        with VerticalScroll(id="launch-plan-scroll"):
            yield Static(id="launch-plan")

    def on_mount(self) -> None:
        """The usual answers."""
        self._field("policy").suggester = SuggestFromList(_POLICIES)
        from hudtui.core.training.engine import engine_names

        self._field("machine").suggester = SuggestFromList(("local", *_RENTED))
        self._field("environments").suggester = SuggestFromList(("as-is", "remote"))
        self._field("lora").suggester = SuggestFromList(("true", "false"))
        self._field("engine").suggester = SuggestFromList(engine_names())
        for name, value in _USUAL.items():
            if not self._value(name):
                self._field(name).value = value
        self._typed_machine = self._value("machine")
        self._show_fields()

    def opened(self, **given: Any) -> None:
        """Take over what the opener chose; look at the files again."""
        if "offer" in given:
            self._take_offer(given["offer"])
        for name in _FORM:
            if name in given:
                self._field(name).value = str(given[name])
        self._plan_soon()

    def _take_offer(self, offer: Offer) -> None:
        if offer.provider in ("local", "ssh"):
            self.offer = None
            self._field("machine").value = "local" if offer.provider == "local" else offer.id
        else:
            self.offer = offer
            self._field("machine").value = offer.provider
            self._field("gpus").value = f"{offer.gpu_count}x{offer.gpu_type}" if offer.gpu_count else ""
        self._typed_machine = self._value("machine")

    def facts_changed(self, facts: Facts) -> None:
        """Offer the files of the project."""
        for name, files in (("tasks", facts.task_files), ("config", facts.configs)):
            names = [self._short(path) for path in files]
            field = self._field(name)
            field.suggester = SuggestFromList(names)
            if not field.value and names:
                field.value = names[0]
        if self.rented is not None and self._getting is None and self.prepared is None:
            self._plan_soon()  # nothing is being got any more

    def why_not(self, action_id: str) -> str | None:
        """There has to be a plan."""
        if action_id in ("launch.start", "launch.rehearse") and self._getting is not None:
            return f"a machine is being got for {clean_line(self._getting.name, 40)}; F8 gives it up"
        if action_id in ("launch.start", "launch.copy") and self.record is None:
            return "something is missing; the lower half says what"
        if action_id == "launch.rehearse" and self.going("rehearse"):
            return "a rehearsal is being started"
        if action_id == "launch.cancel" and self._getting is None:
            return "no machine is being got"
        if action_id == "launch.fix" and self.going("fix"):
            return "a fix is going on already"
        if action_id == "launch.fix" and self._to_fix is None:
            return "nothing is missing that hudtui has a fix for"
        return None

    def action_back(self) -> None:
        """To the runs."""
        self.app.open_screen("run")

    def action_up(self) -> None:
        """The field above."""
        self.focus_previous(Field)

    def action_down(self) -> None:
        """The field below."""
        self.focus_next(Field)

    def action_plan_up(self) -> None:
        """The part of the plan above."""
        self.query_one("#launch-plan-scroll").scroll_page_up(animate=False)

    def action_plan_down(self) -> None:
        """The part of the plan below."""
        self.query_one("#launch-plan-scroll").scroll_page_down(animate=False)

    # -- the plan ----------------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Field.Changed) -> None:
        """Update the plan when the typing pauses."""
        event.stop()
        if event.input.id == "launch-gpus" and self.offer is not None and event.value != self._offered():
            self.offer = None
        self._show_fields()
        self._plan_soon()

    def on_descendant_blur(self) -> None:
        """Check a machine once its name is complete."""
        if self._value("machine") != self._typed_machine:
            self._typed_machine = self._value("machine")
            self._plan_soon()

    def _offered(self) -> str:
        return f"{self.offer.gpu_count}x{self.offer.gpu_type}" if self.offer is not None and self.offer.gpu_count else ""

    def _show_fields(self) -> None:
        """Only what matters for this engine and machine."""
        plays, machine = self._value("engine") in ("", "rollouts"), self._value("machine")
        away = machine not in ("", "local")
        shown = {_ALWAYS: True, _PLAYS: plays, _TRAINS: not plays, _RENTS: machine in _RENTED, _AWAY: away}
        for name, when in _FORM.items():
            self.query_one(f"#launch-row-{name}").display = shown[when]

    def _plan_soon(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_DELAY, self._plan_now, name="plan")

    def _plan_now(self) -> None:
        self.start(self._plan(), group="plan")

    async def _plan(self) -> None:
        if self._getting is not None:
            return  # what is shown is what is being started
        self.prepared = None
        problem: HudtuiError | None = None
        plan: tuple[PlanLine, ...] = ()
        machine = self._value("machine") or "local"
        waits = machine not in ("local", *_RENTED) and machine != self._typed_machine
        if not waits:
            try:
                self.prepared, plan = await self._prepare()
            except HudtuiError as error:
                problem = error
        self._shown = (plan, problem, waits)
        self._show(*self._shown)
        self.refresh_bindings()

    def on_resize(self) -> None:
        """Wrap the lines of the plan again."""
        if self._shown is not None:
            self.call_after_refresh(self._show, *self._shown)

    async def _prepare(self) -> tuple[Preparation, tuple[PlanLine, ...]]:
        from hudtui.core.runs.plan_text import plan_lines
        from hudtui.core.runs.prepare import prepare_run
        from hudtui.core.runs.store import RunStore

        workspace = self.app.workspace
        store = RunStore(workspace.state_dir)
        if self._value("machine") in _RENTED:
            session = await self.app.spending.open()
            settings, providers = session.settings, self._quote(session.overview.providers)
        else:
            settings, providers = await asyncio.to_thread(self._settings), None
        prepared = await prepare_run(self._request(), workspace, settings, store, providers=providers)
        if prepared.record is None:
            return prepared, ()
        shown = await asyncio.to_thread(plan_lines, prepared.record, store, prepared)
        return prepared, shown

    def _settings(self) -> Settings:
        from hudtui.core.settings import load_settings

        workspace = self.app.workspace
        return load_settings(workspace.folder, workspace.platform)

    def _quote(self, providers: Mapping[str, Provider]) -> Mapping[str, Provider]:
        """The providers, asked for prices at most once a minute."""
        for name, provider in providers.items():
            if name not in self._quoted or self._quoted[name].provider is not provider:
                self._quoted[name] = _Quoted(provider)
        return cast("Mapping[str, Provider]", {name: self._quoted[name] for name in providers})

    def _request(self) -> RunRequest:
        machine = self._value("machine") or "local"
        rents = machine in _RENTED
        self._number("max_hours", float)
        config = self._value("config")
        return RunRequest(
            engine=self._value("engine") or "rollouts",
            tasks=self._value("tasks") or None,
            config=Path(config) if config else None,
            model=self._value("model") or None,
            policy=self._value("policy") or "greedy",
            base_url=self._value("base_url") or None,
            group=self._number("group", int) or 1,
            limit=self._number("limit", int),
            max_turns=self._number("max_turns", int),
            **self._training(),
            name=self._value("name") or None,
            host=None if rents else machine,
            provider=machine if rents else None,
            gpus=(self._value("gpus") or None) if rents and self.offer is None else None,
            offer=self.offer if rents else None,
            max_hours=self._value("max_hours") or None,
            budget=(self._value("budget") or None) if rents else None,
            environments=(self._value("environments") or "as-is") if machine != "local" else "as-is",
            python=(self._value("python") or None) if machine != "local" else None,
        )

    def _training(self) -> dict[str, Any]:
        """The options of a training: steps, single settings, and the file with all others."""
        if self._value("engine") in ("", "rollouts"):
            return {}
        file = self._value("training")
        return {
            "steps": self._number("steps", int),
            "settings": parse_settings(f"{name}={self._value(name)}" for name in _SET if self._value(name)),
            "training": self.app.folder / file if file else None,
        }

    def _show(self, plan: tuple[PlanLine, ...], problem: HudtuiError | None, waits: bool) -> None:
        lines: list[Content] = []
        if waits:
            lines.append(Content.styled("  machine: it is looked at when you leave the field", "$foreground-muted"))
        getting = self._getting
        glyphs = {"fine": ("✓ ", "$success"), "missing": ("✗ ", "bold $error"), "warning": ("! ", "$warning")}
        for check in self.prepared.checks if self.prepared is not None else ():
            glyph, style = glyphs[check.state]
            lines.append(Content.assemble((glyph, style), f"{check.name}: {clean_line(check.text, 300)}"))
            if check.fix and check.state != "fine":
                lines.append(Content.styled(f"  {clean_line(check.fix, 300)}", "$foreground-muted"))
        if problem is not None:
            first, *rest = problem.lines()
            lines.append(Content.assemble(("✗ ", "bold $error"), clean_line(first)))
            lines += [Content.styled(f"  {clean_line(line)}", "$foreground-muted") for line in rest]
        if self.record is not None or getting is not None:
            width = max(self.query_one("#launch-plan").content_size.width, 40)
            lines += [Content(""), Content.styled("Plan", "bold $primary")]
            lines += [
                Content(part) for line in plan for part in _hanging(clean_line(line.label, 10), clean_line(line.text), width)
            ]
            words = "^g starts it. Closing hudtui does not stop it."
            if getting is not None:
                words = f"A machine is being got for {clean_line(getting.name, 60)}. F8 gives it up."
            lines += [Content(""), Content.styled(words, "bold $accent")]
        elif self._to_fix is not None:
            lines += [Content(""), Content.styled("f4 offers a fix for what is missing.", "bold $accent")]
        self.query_one("#launch-plan", Static).update(Content("\n").join(lines))

    def action_copy(self) -> None:
        """Copy the command."""
        words = ["hudtui", "rl"]
        if self._value("tasks"):
            words.append(self._value("tasks"))
        machine = self._value("machine") or "local"
        words += ["--provider", machine] if machine in _RENTED else ["--host", machine]
        exact = self.offer if machine in _RENTED else None
        if exact is not None:
            words += ["--offer", exact.short]
        for name in _FORM:
            value = self._value(name)
            if name == "gpus" and exact is not None:
                continue  # an offer says them itself
            if value and name not in ("machine", "tasks") and self.query_one(f"#launch-row-{name}").display:
                words += ["--set", f"{name}={value}"] if name in _SET else [f"--{name.replace('_', '-')}", value]
        self.app.copy(shlex.join(words))

    # -- what is missing ---------------------------------------------------------------------------------------------

    @property
    def _to_fix(self) -> Check | None:
        """The first thing that is missing and that a fix is offered for."""
        return next((check for check in self.prepared.missing if check.remedy), None) if self.prepared is not None else None

    def action_fix(self) -> None:
        """Offer a fix."""
        check = self._to_fix
        if check is not None:
            self.start(lambda: self._fix(check), group="fix")

    async def _fix(self, check: Check) -> None:
        from hudtui.core.flows.prepare import fix

        rents = self._value("machine") in _RENTED
        providers = (await self.app.spending.open()).overview.providers if rents else None
        fixed = await fix(check, self._request(), self.app.project, self.app, providers=providers, on_event=self._show_progress)
        if self.is_busy:
            self.clear_message()
        if fixed is not None:
            self._take_request(fixed)
            self._quoted.clear()
            self.app.reload()
            self._plan_soon()

    def _show_progress(self, event: Progress) -> None:
        self.busy(event.message or event.stage)

    def _take_request(self, request: RunRequest) -> None:
        """Show the choices of a fix in the form."""
        self.offer = request.offer
        self._typed_machine = request.host or request.provider or self._value("machine")
        shown = {"tasks": request.tasks, "config": request.config, "machine": self._typed_machine, "gpus": request.gpus}
        for name, value in shown.items():
            if value is not None:
                self._field(name).value = str(value)

    # -- starting ----------------------------------------------------------------------------------------------------

    def action_start(self) -> None:
        """Start it."""
        prepared = self.prepared
        if prepared is None or prepared.record is None:
            return
        self.prepared = None  # a second press must not start a second run
        if prepared.record.spec.rent is None:
            record = prepared.record
            self.start(lambda: self._launch(record), group="launch", exclusive=False, busy="Starting")
        else:
            self.start(lambda: self._ask_and_rent(prepared), group="ask", exclusive=False)

    def action_rehearse(self) -> None:
        """The free training."""
        self.start(self._rehearse, group="rehearse", exclusive=False)

    async def _rehearse(self) -> None:
        from hudtui.core.flows.start import plan_rehearsal

        tasks, config = self._value("tasks"), self._value("config")
        training = {**self._training(), "steps": None}  # those of the form are the training's
        request = RunRequest(tasks=tasks or None, config=Path(config) if config else None, **training)
        record = await plan_rehearsal(request, self.app.project, self.app)
        if record is not None:
            self.busy("Starting the rehearsal")
            await self._launch(record)

    async def _launch(self, record: RunRecord) -> None:
        """On this machine, or one of the user's own."""
        from hudtui.core.flows.start import start

        notes: list[str] = []
        tunnels: Worker[None] | None = None
        try:
            tunnels = await self._keep_tunnels(record)
            async with aclosing(start(record, self.app.project)) as events:
                async for event in events:
                    if event.type == "step":
                        self.busy(f"Starting: {event.data.get('name')}")
                    elif event.type == "note":
                        notes.append(str(event.data.get("message")))
        except BaseException:
            if tunnels is not None:
                tunnels.cancel()
            raise
        finally:
            self._plan_soon()
        self.clear_message()
        self.app.open_screen("run", run=record.id)
        if notes:
            self.app.say(" ".join(notes), severity="warning")

    async def _keep_tunnels(self, record: RunRecord) -> Worker[None] | None:
        """Open the tunnels of a run before it starts. They stay open until hudtui is closed.

        Raises:
            MachineError: A port of this computer cannot be reached from the machine.
        """
        from hudtui.core.flows.start import open_tunnels

        if not record.spec.tunnels:
            return None
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def keep() -> None:
            try:
                async with open_tunnels(record, self.app.project):
                    if not opened.done():
                        opened.set_result(None)
                    await asyncio.Event().wait()
            except Exception as error:
                if not opened.done():
                    opened.set_exception(error)
                    return
                words = (error if isinstance(error, HudtuiError) else self.app.defect(error)).lines()[0]
                self.app.notify(words, title=clean_line(record.name), severity="error", timeout=30, markup=False)
            finally:
                opened.cancel()

        worker = self.run_worker(keep(), name="forever", group=f"tunnels-{record.id}", exit_on_error=False)
        await opened
        return worker

    async def _ask_and_rent(self, prepared: Preparation) -> None:
        from hudtui.core.flows.start import agree_to_start
        from hudtui.core.flows.trust import require_run

        record = prepared.record
        assert record is not None
        agreed = False
        try:
            await asyncio.to_thread(require_run, record.spec, await asyncio.to_thread(self._settings))
            providers = (await self.app.spending.open()).overview.providers
            agreed = await agree_to_start(prepared, self.app.project, self.app, providers=providers)
        finally:
            if not agreed:
                self._plan_soon()  # what can be started again is shown again
        if not agreed:
            return
        self.rented = record
        self.busy(f"Getting a machine for {record.name} (F8 gives it up)")
        self.app.rented.manage(record, told=lambda event: self._tell(record, event))
        if self._shown is not None:
            self._show(*self._shown)
        self.refresh_bindings()

    def action_cancel(self) -> None:
        """Give the machine up."""
        if self.rented is not None:
            self.start(self._give_up(self.rented), group="give-up")

    async def _give_up(self, record: RunRecord) -> None:
        from hudtui.core.flows.stop import end

        self.busy(f"Giving up the machine for {record.name}")
        providers = (await self.app.spending.open()).overview.providers
        ended = await end(record.id, self.app.project, providers=providers)
        self.say(ended.report, "warning" if ended.summary.holds_machine else "success")
        self.app.reload()

    def _tell(self, record: RunRecord, event: RunEvent) -> None:
        """A step of a managed run, while the screen is shown."""
        if not self.is_attached:
            return
        if event.type == "machine" and event.data.get("kind") not in ("released", "never"):
            self.busy(f"{clean_line(str(event.data.get('text') or event.data.get('kind')), 200)} (F8 gives it up)")
        elif event.type == "step" and event.data.get("name") not in ("collect", "terminate"):
            self.busy(f"Starting: {event.data.get('name')}")
        else:
            self.clear_message()
        if event.type == "started":
            self._begun = self._started = record.id
            if self.app.screen is self:
                self._go_to_run()
        elif event.type in ("failed", "stopped"):
            self._plan_soon()

    def on_screen_resume(self) -> None:
        """A question was answered, or the user is back: the run may have begun meanwhile."""
        super().on_screen_resume()
        self._go_to_run()

    def _go_to_run(self) -> None:
        run, self._started = self._started, None
        if run is not None:
            self.app.open_screen("run", run=run)

    def on_screen_suspend(self) -> None:
        """Whoever goes elsewhere is not taken to a run that begins later; over a question one is still here."""
        self.call_later(self._left)

    def _left(self) -> None:
        if self not in self.app.screen_stack:
            self._started = None

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
            raise InputError(f"{text!r} is not a number above 0", where=Location(_label(name)))
        return value

    def _short(self, path: Path) -> str:
        folder = self.app.folder
        return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def _label(name: str) -> str:
    return _KNOBS[name].label or name


def _as_typed(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _hanging(label: str, text: str, width: int) -> list[str]:
    """A line of the plan, wrapped with a hanging indent."""
    parts = textwrap.wrap(text, max(width - 11, 20), break_on_hyphens=False) or [""]
    return [f"{label if number == 0 else '':<10} {part}" for number, part in enumerate(parts)]


class _Quoted:
    """A provider that caches offers and keys for a while, since the plan is updated at every pause of the typing."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._known: dict[str, tuple[float, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.provider, name)

    async def offers(self, query: Query) -> Offers:
        return cast("Offers", await self._once(f"offers {query}", lambda: self.provider.offers(query)))

    async def keys(self) -> tuple[SshKey, ...]:
        return cast("tuple[SshKey, ...]", await self._once("keys", self.provider.keys))

    async def _once(self, what: str, ask: Any) -> Any:
        at, answer = self._known.get(what, (0.0, None))
        if answer is None or time.monotonic() - at > _QUOTED:
            answer = await ask()
            self._known[what] = (time.monotonic(), answer)
        return answer
