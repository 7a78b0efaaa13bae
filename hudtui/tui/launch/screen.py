"""Launch: choose what to run and where, see the whole plan with its cost, start it."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.actions import SkipAction
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Static

from hudtui.core.compute.registry import rentals
from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.knobs import knobs_of
from hudtui.core.runs.art_request import ArtRequest
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.request_texts import argv_of, request_from, texts_of
from hudtui.core.text import clean_line
from hudtui.core.training.options import engine_of
from hudtui.tui.actions import AppAction, by_key, unless
from hudtui.tui.facts import Facts
from hudtui.tui.launch import form
from hudtui.tui.launch.form import label_of
from hudtui.tui.launch.plan import PlanPane
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.dropdown import OTHER, Dropdown
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.knob_pane import KnobPane, KnobRow
from hudtui.tui.widgets.pane import Panes

if TYPE_CHECKING:
    from textual.worker import Worker

    from hudtui.core.compute.hardware import Hardware
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Offer, Offers, SshKey
    from hudtui.core.events import Progress
    from hudtui.core.runs.checks import Check
    from hudtui.core.runs.plan_text import PlanLine
    from hudtui.core.runs.prepare import Preparation
    from hudtui.core.runs.store import RunRecord
    from hudtui.core.runs.values import RunEvent
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.read import TaskReader
    from hudtui.core.training.features import Features
    from hudtui.core.trust import Untrusted

_OTHERS = {
    "tasks": (
        "another file, or a dataset on the Hub…",
        "Which tasks?",
        "FILE, or org/name on the Hub",
    ),
    "configs": ("another file…", "Which configuration?", "FILE"),
    "art_configs": ("another file…", "Which configuration?", "FILE"),
    "machines": ("another machine of yours…", "Which machine?", "user@host"),
}
"""The choice beside those that are listed, and the question that it asks."""
DELAY = 0.25
"""Seconds without a key after which the plan is updated."""
_KEPT = 60.0
"""Seconds for which the answers about prices and machines are kept while the plan changes."""


def _being_prepared(screen: LaunchScreen) -> str | None:
    run = screen.getting
    if run is None:
        return None
    name = clean_line(run.name, 40)
    return f"a machine is being prepared for {name}; {{key:launch.cancel}} cancels it"


def _incomplete(screen: LaunchScreen) -> str | None:
    if screen.checking or screen.record is not None:
        return None  # the action waits for the plan
    return "something is missing; the pane Plan says what"


def _nothing_to_fix(screen: LaunchScreen) -> str | None:
    if screen.checking:
        return None
    if screen.going("fix"):
        return "a fix is already running"
    if screen.to_fix is None and screen.untrusted is None:
        return "there is nothing that hudtui can fix"
    return None


class LaunchScreen(HudtuiScreen):
    """A form in groups, whether the run is ready and what it costs, the checks and the plan."""

    NAME = "launch"
    TITLE = "launch"
    CSS_PATH = "launch.tcss"
    AUTO_FOCUS = "#launch-policy"
    HELP = (
        "What will run, and where: on this machine, on one of yours behind SSH, or on a rented "
        "machine. The line above the message says whether the run is ready, what it is expected to "
        "cost and what it costs at most. Nothing starts before {key:launch.start}, and what costs "
        "money needs your confirmation. {key:launch.rehearse} rehearses a training for free. Arrow "
        "keys go from field to field, Enter opens a list; {key:launch.plan_down} scrolls the plan, "
        "and Enter on the plan unfolds it."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "launch.start",
            "Start",
            "Start this run. It continues when hudtui is closed.",
            "ctrl+g",
            priority=True,
            decides=True,
            when=(_being_prepared, _incomplete),
        ),
        AppAction(
            "launch.fix",
            "Fix",
            "Offer a fix for the first thing that is missing.",
            "f4",
            when=(_nothing_to_fix,),
        ),
        AppAction(
            "launch.rehearse",
            "Rehearse",
            "Rehearse the training free of charge: a tiny model, on this machine's CPU.",
            "f7,R",
            decides=True,
            when=(
                _being_prepared,
                unless(lambda screen: not screen.going("rehearse"), "a rehearsal is being started"),
            ),
        ),
        AppAction(
            "launch.back",
            "Back",
            "Restore the text of the field; then go to the runs without a start.",
            "escape",
        ),
        AppAction(
            "launch.copy",
            "Copy command",
            "Copy the command that does the same.",
            "f6,y",
            when=(_incomplete,),
        ),
        AppAction(
            "launch.reset",
            "Defaults",
            "Set all fields back to their defaults.",
            show=False,
            asks=True,
        ),
        AppAction(
            "launch.cancel",
            "Cancel",
            "Cancel the machine that is being prepared; what was created is ended.",
            "f8,ctrl+x",
            show=False,
            danger=True,
            when=(
                unless(lambda screen: screen.getting is not None, "no machine is being prepared"),
            ),
        ),
        by_key("launch.up", "Field above", "Go to the field above.", "up", priority=True),
        by_key("launch.down", "Field below", "Go to the field below.", "down", priority=True),
        by_key(
            "launch.plan_up", "Plan up", "Show the plan, or scroll it up.", "pageup", priority=True
        ),
        by_key(
            "launch.plan_down",
            "Plan down",
            "Show the plan, or scroll it down.",
            "pagedown",
            priority=True,
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self._rows = {name: form.row_of(name) for name in form.FORM}
        self.prepared: Preparation | None = None
        """The checks and the plan for the current form."""
        self.offer: Offer | None = None
        """The machine that was chosen on the Compute step."""
        self.rented: RunRecord | None = None
        """The run that a machine was asked for last."""
        self._timer: Any = None
        self._checked = asyncio.Event()
        """Set while the plan, or the error that is shown, is that of the current form."""
        self._checked.set()
        self._quoted: dict[str, _Quoted] = {}
        self._looked_at = _Known()
        self._tasks: TaskReader | None = None
        self._engine = ""
        """The engine that hudtui chose for the machine; empty once the user or the opener has
        chosen one."""
        self._rentals: Mapping[str, str] = {name: entry.label for name, entry in rentals().items()}
        """Titles of the providers from whom a machine can be rented for a run; their labels until
        the settings are read."""
        self._machines: tuple[str, ...] = ()
        """Machines of the user's that were named here or are listed."""
        self.untrusted: Untrusted | None = None
        """What the form asks for, and the user has not agreed to."""
        self._stood = ""
        """Text of the focused field when it got the focus."""
        self._begun: str | None = None
        """The run that began last on a rented machine."""
        self._started: str | None = None
        """A run that began, and was not gone to yet."""

    @property
    def getting(self) -> RunRecord | None:
        """The run that a machine is being prepared for, until it begins."""
        run = self.rented
        return (
            run
            if run is not None and run.id != self._begun and self.app.rented.manages(run.id)
            else None
        )

    @property
    def record(self) -> RunRecord | None:
        """The current plan; None while something is missing."""
        return self.prepared.record if self.prepared is not None else None

    def content(self) -> Iterable[Widget]:
        rows: dict[str, dict[str, KnobRow]] = {}
        for name, row in self._rows.items():
            rows.setdefault(form.pane_of(row.about), {})[name] = row
        with Panes(), Vertical(id="launch-all"):
            with Horizontal(id="launch-groups"):
                for title in ("What", "Where", "Limits"):
                    yield form.pane(title, rows[title], id=f"launch-{title.lower()}")
            trains = form.pane("Training", rows["Training"], id="launch-trains")
            trains.disabled, trains.display = True, False  # until a training is chosen
            yield trains
            yield PlanPane(id="launch-plan-pane")
        yield CalmStatic(id="launch-hint")
        yield CalmStatic(id="launch-ready")

    def on_mount(self) -> None:
        for name, about in form.FORM.items():
            if about.choices:
                self._choice(name).offer(about.entries())
        self._offer_machines()
        self._put_defaults()
        self._show_fields()

    def _put_defaults(self) -> None:
        for name, value in form.FIRST.items():
            if not self._value(name):
                self._put(name, value)
        self._engine = self._value("engine")

    @started("reset")
    async def action_reset(self) -> None:
        if not await self.app.confirm("Set all fields back to their defaults?", yes="Set back"):
            return
        self.offer = None
        for name in form.FORM:
            self._put(name, "")
        self._put_defaults()
        if self.app.facts is not None:
            self.facts_changed(self.app.facts)
        self._choose_engine()
        self._show_fields()
        self._plan_soon()

    def opened(self, **given: Any) -> None:
        """Take over what the opener chose; read the files again."""
        self._looked_at.forget()
        if "offer" in given:
            self._take_offer(given["offer"])
        for name in form.FORM:
            if name in given:
                self._put(name, str(given[name]))
        request: RunRequest | None = given.get("request")
        if request is not None:
            self._put(form.MORE, "true")  # whatever is set is seen
            self._take_request(type(request)(), request)
        if given.get("engine") or request is not None:
            self._engine = ""
        self._choose_engine()
        self._show_fields()
        self._plan_soon()
        self.start(self._read_machines, group="machines")
        self._offer_environments()

    def _take_offer(self, offer: Offer) -> None:
        if offer.provider in ("local", "ssh"):
            self.offer = None
            self._put("machine", "local" if offer.provider == "local" else offer.cloud_id)
            return
        self.offer = offer
        self._offer_machines()
        self._put("machine", form.OFFER)
        self._put("gpus", "")

    async def _read_machines(self) -> None:
        from hudtui.core.compute.owned_hosts import owned_hosts_file, read_owned_hosts
        from hudtui.core.compute.registry import rental_titles

        self._rentals = await asyncio.to_thread(
            lambda: rental_titles(self.app.project.settings().get)
        )
        self._offer_machines()
        listed = await asyncio.to_thread(lambda: read_owned_hosts(owned_hosts_file()))
        self._machines = tuple(
            dict.fromkeys((*self._machines, *(one.name for one in listed if one.name != "local")))
        )
        self._offer_machines()

    def _offer_machines(self) -> None:
        entries = [
            ("this machine", "local"),
            *((clean_line(name, 60), name) for name in self._machines),
        ]
        if self.offer is not None:
            from hudtui.core.runs.site import offer_text

            simulated = (
                " (simulated)" if self.app.spending.is_simulated(self.offer.provider) else ""
            )
            entries.append((f"rent{simulated} {offer_text(self.offer)}", form.OFFER))
        entries += [(f"rent: {title}", name) for name, title in self._rentals.items()]
        self._choice("machine").offer([*entries, (_OTHERS["machines"][0], OTHER)])

    def facts_changed(self, facts: Facts) -> None:
        """Offer the files of the project."""
        art_files = facts.workspace.art_configs if facts.workspace is not None else ()
        files_of = {"tasks": facts.task_files, "configs": facts.configs, "art_configs": art_files}
        for name, about in form.FORM.items():
            if about.lists not in files_of:
                continue
            names = [self.app.relative(path) for path in files_of[about.lists]]
            choice = self._choice(name)
            empty = not choice.value
            choice.offer(
                [*((clean_line(one, 80), one) for one in names), (_OTHERS[about.lists][0], OTHER)]
            )
            if about.required and empty and names:
                choice.put(names[0])
        if self.rented is not None and self.getting is None and self.prepared is None:
            self._plan_soon()  # no machine is being prepared any more
        elif self.untrusted is not None or self._asks_about_env:
            self._plan_soon()  # the user may have agreed in another way

    def action_back(self) -> None:
        """Restore the text.

        Then to the first group, where one is shown at a time; then to the runs.
        """
        field = self.focused
        if isinstance(field, Field) and field.value != self._stood:
            field.value = self._stood
            return
        panes = self.query_one(Panes)
        if not (panes.alone and panes.back()):
            self.app.open_screen("run")

    def _step(self, by: int) -> None:
        """Go to a neighbour in the form.

        Raises:
            SkipAction: The focus is not on a field: the key belongs to a list or to the plan.
        """
        controls = [
            widget for widget in self.query("KnobRow > .-control") if widget in self.focus_chain
        ]
        if self.focused not in controls:
            raise SkipAction
        place = controls.index(self.focused) + by
        if 0 <= place < len(controls):
            controls[place].focus()
        elif self.query_one(Panes).alone:  # the next group is not shown beside this one
            self.query_one(Panes).step(by)

    action_up = partialmethod(_step, -1)
    action_down = partialmethod(_step, 1)

    def action_plan_up(self) -> None:
        if not self._reveal_plan():
            self.query_one(PlanPane).page.scroll_page_up(animate=False)

    def action_plan_down(self) -> None:
        if not self._reveal_plan():
            self.query_one(PlanPane).page.scroll_page_down(animate=False)

    def _reveal_plan(self) -> bool:
        """Show the plan where it is out of sight; False where it is in sight."""
        plan = self.query_one(PlanPane)
        if plan.display:
            return False
        self.query_one(Panes).open(plan)
        return True

    # -- the plan
    # ----------------------------------------------------------------------------------------------

    @on(Input.Changed)
    @on(Checkbox.Changed)
    def _changed(self, event: Input.Changed | Checkbox.Changed) -> None:
        """Update the plan when the typing pauses."""
        event.stop()
        if event.control.id == "launch-gpus" and self._value("gpus") and self.offer is not None:
            self._put("machine", self.offer.provider)  # other GPUs than the offer's
        if isinstance(event, Checkbox.Changed):
            self._show_fields()
        self._plan_soon()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._step(1)

    @on(Dropdown.OtherChosen)
    def _wanted(self, event: Dropdown.OtherChosen) -> None:
        event.stop()
        self.start(
            partial(self._ask_for, str(event.control.id).removeprefix("launch-")), group="ask-other"
        )

    @on(Dropdown.Changed)
    def _chosen(self, event: Dropdown.Changed) -> None:
        event.stop()
        name = str(event.control.id).removeprefix("launch-")
        if name == "machine" and self._value("machine") != form.OFFER:
            self.offer = None
        if name == "engine" and self._value(name) != self._engine:
            self._engine = ""
        if name == "machine":
            self._choose_engine(tell=event.control.has_focus)
        if name == "art_config":
            self._offer_environments()
        self._show_fields()
        self._plan_soon()

    def _offer_environments(self) -> None:
        self.start(self._read_environments, group="environments")

    async def _read_environments(self) -> None:
        from hudtui.core.runs.art_config import DATASETS, ArtConfig, read_art_config

        file = self._value("art_config")
        try:
            config = (
                await asyncio.to_thread(read_art_config, self.app.folder / file)
                if file
                else ArtConfig()
            )
        except InputError:
            return  # the plan says so
        names = dict.fromkeys((*config.environments, *DATASETS))
        self._choice("environment").offer((clean_line(name, 60), name) for name in names)

    async def _ask_for(self, name: str) -> None:
        _, title, placeholder = _OTHERS[form.FORM[name].lists or "machines"]
        given = (await self.app.ask(title, placeholder=placeholder) or "").strip()
        if not given:
            return
        if name == "machine":
            self._machines = tuple(dict.fromkeys((*self._machines, given)))
            self._offer_machines()
        self._put(name, given)

    def _choose_engine(self, *, tell: bool = False) -> None:
        """Choose the engine for the machine, unless the user has chosen one.

        With `tell`, say so where it is another one.
        """
        if self._engine:
            self.start(partial(self._default_engine, tell), group="engine")

    async def _default_engine(self, tell: bool) -> None:
        from hudtui.core.runs.site import default_engine

        host = None if self._rents else self._value("machine") or "local"
        engine, why = await default_engine(host)
        if self._engine:
            before, self._engine = self._engine, engine
            self._put("engine", engine)
            if tell and engine != before:
                self.app.say(
                    f"The engine is now {engine}, because {why}; it was {before}. Engine chooses "
                    "another one."
                )

    @on(KnobPane.Focused)
    def _explain(self, event: KnobPane.Focused) -> None:
        event.stop()
        control = self._rows[event.name].control
        self._stood = control.value if isinstance(control, Field) else ""
        self.query_one("#launch-hint", Static).update(
            Content.assemble(
                (label_of(event.name), "bold"),
                ("  " + form.help_of(event.name, self._texts()), "$foreground-muted"),
            )
        )

    @property
    def _features(self) -> Features:
        """Abilities of the engine of the form."""
        return engine_of({"engine": self._value("engine") or form.FIRST["engine"]})

    @property
    def _rents(self) -> bool:
        return self._value("machine") in (*self._rentals, form.OFFER)

    def _show_fields(self) -> None:
        """Only what matters for this engine and machine."""
        texts, machine, plays = self._texts(), self._value("machine"), not self._features.trains
        for name in ("what", "where", "limits", "trains"):
            self.query_one(f"#launch-{name}", KnobPane).show(texts)
        if machine == form.OFFER:
            cast("Field", self._rows["gpus"].control).placeholder = "those of the offer"
        if (
            self.focused is None
            or not self.focused.display
            or not all(one.display for one in self.focused.ancestors[:3])
        ):
            self._choice("tasks" if plays else "engine").focus()
        training = self.query_one("#launch-trains", KnobPane)
        if training.disabled != plays:
            training.disabled = plays  # the panes hide what is disabled
            training.display = not plays and not self.query_one(Panes).alone
            self.query_one(Panes).name_panes()

    @property
    def checking(self) -> bool:
        """Whether the plan for the current form is still being made."""
        return not self._checked.is_set()

    def _plan_soon(self) -> None:
        self._checked.clear()
        for worker in self.going("plan"):
            worker.cancel()
        if self._timer is not None:
            self._timer.stop()
        elif self.getting is None:
            self._forget_plan()
        self._timer = self.set_timer(DELAY, self._plan_now, name="plan")

    def _forget_plan(self) -> None:
        """The plan is not that of the form: nothing can be started with it."""
        self.prepared = self.untrusted = None
        self.query_one("#launch-ready", Static).update(
            Content.styled("● Checking…", "$foreground-muted")
        )
        self.refresh_bindings()

    def _plan_now(self) -> None:
        self._timer = None
        self.start(self._check, group="plan")

    async def _check(self) -> None:
        try:
            await self._plan()
        except Exception:
            self._checked.set()
            raise
        self._checked.set()  # not where it is cancelled: another check follows

    async def _plan(self) -> None:
        if self.getting is not None:
            return  # what is shown is what is being started
        from hudtui.core.trust import Untrusted

        problem: HudtuiError | None = None
        plan: tuple[PlanLine, ...] = ()
        summary = ""
        try:
            self.prepared, plan, summary = await self._prepare()
        except Exception as error:
            problem = error if isinstance(error, HudtuiError) else self.app.defect(error)
            self.untrusted = error if isinstance(error, Untrusted) else None
        self.query_one(PlanPane).show(self.prepared, plan, summary, problem)
        self._say_ready(problem)
        self.refresh_bindings()
        if self.prepared is not None and problem is None:
            self.start(partial(self._add_baseline, self.prepared, plan, summary), group="baseline")

    async def _add_baseline(
        self, prepared: Preparation, plan: tuple[PlanLine, ...], summary: str
    ) -> None:
        """Show what earlier evaluations say, under a plan that is shown already."""
        from hudtui.core.flows.baseline import with_baseline

        with_known, _ = await with_baseline(prepared, self.app.project)
        if self.prepared is prepared and with_known is not prepared:
            self.prepared = with_known
            self.query_one(PlanPane).show(with_known, plan, summary, None)

    def _say_ready(self, problem: HudtuiError | None = None) -> None:
        """Say whether the run can be started, with its expected and its highest cost."""
        from hudtui.core.runs.plan_text import readiness_text

        getting, prepared = self.getting, self.prepared
        if getting is not None:
            name = clean_line(getting.name, 60)
            text, style = (
                f"● A machine is being prepared for {name}. {{key:launch.cancel}} cancels it.",
                "bold $accent",
            )
        elif problem is not None:
            asks = " {key:launch.fix} asks about it." if self.untrusted is not None else ""
            text, style = f"✗ Not ready: {clean_line(problem.lines()[0], 300)}{asks}", "bold $error"
        elif prepared is None:
            text, style = "", ""
        elif prepared.record is None:
            fix = " {key:launch.fix} offers a fix." if self.to_fix is not None else ""
            text, style = f"✗ {readiness_text(prepared)}{fix}", "bold $error"
        else:
            text, style = (
                f"✓ {readiness_text(prepared)} {{key:launch.start}} starts it.",
                "bold $success",
            )
        self.query_one("#launch-ready", Static).update(
            Content.styled(self.app.keys_in(text), style) if text else Content("")
        )
        where = self.query_one("#launch-where", KnobPane)
        choice = prepared.choice if prepared is not None else None
        if choice is not None and self._rents:
            from hudtui.core.runs.site import offer_text

            where.note_on_border(clean_line(offer_text(choice.offer).partition(" (")[0], 40))
        else:
            where.note_on_border("")

    async def _prepare(self) -> tuple[Preparation, tuple[PlanLine, ...], str]:
        from hudtui.core.flows.baseline import measurer
        from hudtui.core.runs.plan_text import plan_lines, plan_summary
        from hudtui.core.runs.prepare import prepare_run
        from hudtui.core.runs.store import RunStore
        from hudtui.core.tasks.read import TaskReader

        workspace = self.app.workspace
        store = RunStore(workspace.state_dir)
        if self._rents:
            session = await self.app.spending.open()
            settings, providers = session.settings, self._quote(session.overview.providers)
        else:
            settings, providers = await asyncio.to_thread(self.app.project.settings), None
        self._show_limits(settings)
        if self._tasks is None:
            self._tasks = TaskReader()
        request = await self._request_to_prepare()
        prepared = await prepare_run(
            request,
            workspace,
            settings,
            store,
            providers=providers,
            read=self._tasks,
            look_at=self._look_at,
            measure=measurer(workspace.folder, store),
        )
        if prepared.record is None:
            return prepared, (), ""
        shown = await asyncio.to_thread(plan_lines, prepared.record, store, prepared)
        return prepared, shown, plan_summary(prepared.record, store)

    async def _request_to_prepare(self, **changes: str) -> RunRequest:
        """What the form asks for, with the environment of a training with ART looked up.

        Raises:
            InputError: A field, or what it names, cannot be used.
            Untrusted: The training needs something that the user has not agreed to.
        """
        request = self._request(**changes)
        if not isinstance(request, ArtRequest):
            return request
        from hudtui.core.flows.art import plan_art

        return await plan_art(request, self.app.project)

    async def _look_at(self, host: str) -> Hardware:
        from hudtui.core.runs.site import look_at_machine

        return cast("Hardware", await self._looked_at.once(host, partial(look_at_machine, host)))

    def _show_limits(self, settings: Settings) -> None:
        """Show the limits of the settings where the form has none."""
        from hudtui.core.compute.limits import amount, limits_from_settings

        try:
            limits = limits_from_settings(settings)
        except InputError:
            return  # the checks say so
        usual = {"budget": limits.run_budget, "idle_minutes": limits.idle_minutes}
        usual["max_hours"] = limits.max_hours if self._rents else None
        for name, value in usual.items():
            cast("Field", self._rows[name].control).placeholder = (
                "none" if value is None else amount(value)
            )

    def _quote(self, providers: Mapping[str, Provider]) -> Mapping[str, Provider]:
        """The providers, asked for prices at most once a minute."""
        for name, provider in providers.items():
            if name not in self._quoted or self._quoted[name].provider is not provider:
                self._quoted[name] = _Quoted(provider)
        return cast("Mapping[str, Provider]", {name: self._quoted[name] for name in providers})

    def _texts(self) -> dict[str, str]:
        """Return the texts of the options that the form holds.

        The machine as the options that name it.
        """
        texts = {name: text for name in form.FORM if (text := self._value(name))}
        texts.setdefault("engine", form.FIRST["engine"])
        machine = texts.pop("machine", form.FIRST["machine"])
        if machine == form.OFFER and self.offer is not None:
            return texts | {
                "provider": self.offer.provider,
                "offer_name": self.offer.short,
                "gpus": "",
            }
        return texts | {"provider" if machine in self._rentals else "host": machine}

    def _request(self, **changes: str) -> RunRequest:
        """Return what the form asks for, with other texts in some places.

        Raises:
            InputError: A text cannot be used.
        """
        request = request_from(self._texts() | changes)
        if (
            request.offer_name is not None
        ):  # the very offer, also if it is not on the market any more
            request = replace(request, offer=self.offer, offer_name=None)
        return request

    def training_request(self) -> RunRequest | None:
        """The training of the form.

        None without one, if its model is not looked up yet, or if the form is invalid.
        """
        if not self.is_attached or not self._features.trains or self._features.from_environment:
            return None
        try:
            return self._request()
        except InputError:
            return None

    def command(self) -> str:
        """Return the command that does what the form says."""
        return shlex.join(argv_of(self._request()))

    def action_copy(self) -> None:
        if self._once_checked("launch.copy"):
            self.app.copy(self.command())

    # -- what is missing
    # ---------------------------------------------------------------------------------------------

    @property
    def _asks_about_env(self) -> bool:
        """Whether the user has not agreed to values of `.env`, which may change the plan."""
        return self.prepared is not None and any(
            check.remedy == "trust" for check in self.prepared.checks
        )

    @property
    def to_fix(self) -> Check | None:
        """The first thing that is missing and that a fix is offered for."""
        return (
            next((check for check in self.prepared.missing if check.remedy), None)
            if self.prepared is not None
            else None
        )

    def action_fix(self) -> None:
        """Offer a fix, or ask about what the form needs the user's agreement for."""
        if not self._once_checked("launch.fix"):
            return
        check, untrusted = self.to_fix, self.untrusted
        if untrusted is not None:
            self.start(lambda: self._agree(untrusted), group="fix")
        elif check is not None:
            self.start(lambda: self._fix(check), group="fix")

    async def _agree(self, untrusted: Untrusted) -> None:
        if await self.app.permit(untrusted.powers):
            self._plan_soon()
        else:
            self.say("Not done: this folder is not trusted.", "warning")

    async def _fix(self, check: Check) -> None:
        from hudtui.core.flows.prepare import fix

        rents = self._rents
        providers = (await self.app.spending.open()).overview.providers if rents else None
        asked = self._request()
        fixed = await fix(
            check,
            asked,
            self.app.project,
            self.app,
            providers=providers,
            on_event=self._show_progress,
        )
        if self.is_busy:
            self.clear_message()
        if fixed is not None:
            self._take_request(asked, fixed)
            self._quoted.clear()
            self._looked_at.forget()
            self.app.reload()
            self._plan_soon()

    def _show_progress(self, event: Progress) -> None:
        self.busy(event.message or event.stage)

    def _take_request(self, asked: RunRequest, request: RunRequest) -> None:
        """Show in the form what a fix has changed of what was asked for."""
        machine = request.host or request.provider
        if request.host is not None and request.host != "local":
            self._machines = tuple(dict.fromkeys((*self._machines, request.host)))
            self._offer_machines()
        if request.offer is None and machine is not None:
            self._put("machine", machine)
        before = texts_of(asked)
        for name, text in texts_of(request).items():
            if name in self._rows and before.get(name) != text:
                self._put(name, text)

    # -- starting
    # ----------------------------------------------------------------------------------------------

    def _once_checked(self, action_id: str) -> bool:
        """Whether the current form is checked.

        If not, the action is carried out when it is, unless the user leaves.
        """
        if self.checking:
            self.start(lambda: self._act_when_checked(action_id), group="once checked")
        return not self.checking

    async def _act_when_checked(self, action_id: str) -> None:
        self.busy("Checking what the run needs")
        while self.checking:
            await self._checked.wait()
        if self.is_busy:
            self.clear_message()
        if self.is_current:
            await self.action_act(action_id)

    def action_start(self) -> None:
        if not self._once_checked("launch.start"):
            return
        prepared = self.prepared
        if prepared is None or prepared.record is None:
            return
        if self._asks_about_env:
            self.start(self._start_once_agreed, group="launch", exclusive=False)
            return
        self.prepared = None  # a second press must not start a second run
        if prepared.record.spec.rent is None:
            record = prepared.record
            self.start(
                lambda: self._launch(record), group="launch", exclusive=False, busy="Starting"
            )
        else:
            self.start(lambda: self._ask_and_rent(prepared), group="ask", exclusive=False)

    async def _start_once_agreed(self) -> None:
        """Ask about the values of `.env`, and start what is planned with them.

        The values may change the plan.
        """
        (await asyncio.to_thread(self.app.project.settings)).require_trust()
        self._plan_soon()
        await self._act_when_checked("launch.start")

    @started("rehearse", exclusive=False)
    async def action_rehearse(self) -> None:
        from hudtui.core.flows.start import plan_rehearsal

        if self._features.from_environment:
            here = {
                "host": "local",
                "provider": "",
                "offer_name": "",
                "ruler": "",
            }  # free of charge
            request = replace(await self._request_to_prepare(**here), rehearse=True)
        else:
            names = {
                "engine",
                "tasks",
                "config",
                "training",
            }  # the rest, apart from settings, is of the training itself
            others = dict.fromkeys(knobs_of(RunRequest).keys() - names, "")
            request = self._request(**others)
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
                words = (
                    error if isinstance(error, HudtuiError) else self.app.defect(error)
                ).lines()[0]
                self.app.notify(
                    words, title=clean_line(record.name), severity="error", timeout=30, markup=False
                )
            finally:
                opened.cancel()

        worker = self.run_worker(keep(), name="forever", group=f"tunnels-{record.id}")
        await opened
        return worker

    async def _ask_and_rent(self, prepared: Preparation) -> None:
        from hudtui.core.flows.start import agree_to_start
        from hudtui.core.flows.trust import require_run

        record = prepared.record
        assert record is not None
        agreed = False
        try:
            await asyncio.to_thread(
                require_run, record.spec, await asyncio.to_thread(self.app.project.settings)
            )
            providers = (await self.app.spending.open()).overview.providers
            agreed = await agree_to_start(prepared, self.app.project, self.app, providers=providers)
        finally:
            if not agreed:
                self._plan_soon()  # what can be started again is shown again
        if not agreed:
            return
        self.rented = record
        self.busy(
            f"A machine is being prepared for {record.name} ({{key:launch.cancel}} cancels it)"
        )
        self.app.rented.manage(record, told=lambda event: self._tell(record, event))
        self._say_ready()
        self.refresh_bindings()

    def action_cancel(self) -> None:
        if self.rented is not None:
            self.start(partial(self._give_up, self.rented), group="give-up")

    async def _give_up(self, record: RunRecord) -> None:
        from hudtui.core.flows.stop import end

        self.busy(f"Ending the machine for {record.name}")
        providers = (await self.app.spending.open()).overview.providers
        ended = await end(record.id, self.app.project, providers=providers)
        self.say(ended.report, "warning" if ended.summary.holds_machine else "success")
        self.app.reload()

    def _tell(self, record: RunRecord, event: RunEvent) -> None:
        """A step of a managed run, while the screen is shown."""
        if not self.is_attached:
            return
        if event.type == "machine" and event.data.get("kind") not in ("released", "never"):
            self.busy(
                f"{clean_line(str(event.data.get('text') or event.data.get('kind')), 200)} "
                "({key:launch.cancel} cancels it)"
            )
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
        """Go to a run that began while a dialog or another screen was shown."""
        self._go_to_run()

    def _go_to_run(self) -> None:
        run, self._started = self._started, None
        if run is not None:
            self.app.open_screen("run", run=run)

    def on_screen_suspend(self) -> None:
        """Do not take a user who has left to a run that begins later.

        Behind a dialog this screen counts as shown.
        """
        self.call_later(self._left)

    def _left(self) -> None:
        if self not in self.app.screen_stack:
            self._started = None
            for worker in self.going("once checked"):
                worker.cancel()
                self.clear_message()

    # -- fields
    # ----------------------------------------------------------------------------------------------

    def _choice(self, name: str) -> Dropdown:
        return cast("Dropdown", self._rows[name].control)

    def _put(self, name: str, text: str) -> None:
        row = self._rows[name]
        row.put(text)
        if row.control is self.focused:  # Esc comes back to this, not to what stood here before
            self._stood = row.text

    def _value(self, name: str) -> str:
        return self._rows[name].text


class _Known:
    """Answers that are kept for a while, since the plan is updated at every pause of the typing."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[float, Any]] = {}

    async def once(self, what: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Return the answer to a question, which is asked where no answer is kept."""
        at, answer = self._answers.get(what, (0.0, None))
        if answer is None or time.monotonic() - at > _KEPT:
            answer = await ask()
            self._answers[what] = (time.monotonic(), answer)
        return answer

    def forget(self) -> None:
        self._answers.clear()


class _Quoted:
    """A provider that keeps offers and keys for a while."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._known = _Known()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.provider, name)

    async def offers(self) -> Offers:
        return cast("Offers", await self._known.once("offers", self.provider.offers))

    async def keys(self) -> tuple[SshKey, ...]:
        return cast("tuple[SshKey, ...]", await self._known.once("keys", self.provider.keys))
