"""Home: where the project stands, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.text import clean_line, home_short
from hudtui.tui.actions import AppAction, keys_of, shown
from hudtui.tui.facts import Facts, RunFact
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.steps import GLYPHS, SCREENS, STEPS, STYLES
from hudtui.tui.widgets.fit import cut, cut_left, pad
from hudtui.tui.widgets.words import ago, span

RECENT = 5
"""Runs that are listed here; the Runs screen lists all."""

_RUN_STYLES = {"failed": "bold $error", "lost": "bold $warning", "finished": "$success"}


class HomeScreen(HudtuiScreen):
    """The steps in detail, what comes next, the newest runs, the files of the project."""

    NAME = "home"
    TITLE = "home"
    HELP = (
        "The steps from an environment to a watched run. Each one shows whether it is done, next, missing or running. "
        "Enter goes to the next one, 1 to 5 open any of them."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("home.next", "Next step", "Open the step that comes next.", "enter"),
        AppAction(
            "home.demo",
            "Demo workspace",
            "Make a small working example, the game 2048: in a folder of its own, or here.",
            "d",
            decides=True,
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self._aged: tuple[str, ...] = ()
        """The ages that are shown."""

    def content(self) -> Iterable[Widget]:
        """What is next, the steps beside the project, the newest runs."""
        with VerticalScroll(id="home-scroll"):
            yield Static(Content.styled("Reading the project…", "$foreground-muted"), id="home-next")
            with Container(id="home-panes"):
                yield Static(id="home-steps", classes="home-pane")
                yield Static(id="home-project", classes="home-pane")
            yield Static(id="home-runs", classes="home-pane")

    def on_resize(self) -> None:
        """Lines are cut to the width."""
        if self.app.facts is not None:
            self.call_after_refresh(self._show, self.app.facts)

    def time_passed(self) -> None:
        """Runs grow older."""
        facts = self.app.facts
        if facts is not None and self._ages(facts) != self._aged:
            self._show(facts)

    def _ages(self, facts: Facts) -> tuple[str, ...]:
        """Ages and durations of the listed runs."""
        return tuple(_age(run, self.app.services.now().timestamp()) for run in facts.runs[:RECENT])

    def facts_changed(self, facts: Facts) -> None:
        """Show the project."""
        self._show(facts)
        self.refresh_bindings()

    def offers(self, action_id: str) -> bool:
        """The demo is for folders that hold nothing of ours yet."""
        facts = self.app.facts
        return action_id != "home.demo" or facts is None or facts.empty

    def why_not(self, action_id: str) -> str | None:
        """Why the next step or the demo is not to be had."""
        facts = self.app.facts
        if facts is None:
            return "the project is still being read"
        if action_id == "home.next" and _goal(facts) not in SCREENS:
            return "that step has no screen in this version"
        return None

    def action_next(self) -> None:
        """Open the next step."""
        facts = self.app.facts
        if facts is not None:
            self.app.open_screen(_goal(facts))

    def action_demo(self) -> None:
        """Make the demo workspace, in a folder of its own or here."""
        self.start(self._demo(), group="demo")

    async def _demo(self) -> None:
        from hudtui.core.demo import DEFAULT_FOLDER, FILES, is_demo
        from hudtui.tui.widgets.pick import Pick

        here = self.app.folder
        own = here / DEFAULT_FOLDER
        options = (f"in {home_short(own)}, a folder of its own (recommended)", f"in {home_short(here)}, beside what is there")
        hint = f"It writes {', '.join((*FILES, '.env'))} and .hudtui/.   Enter chooses   Esc closes"
        chosen: int | None = await self.app.push_screen_wait(Pick("Demo workspace: the game 2048", options, hint=hint))
        if chosen is None:
            return
        folder = own if chosen == 0 else here
        if (folder / ".env").exists() and not is_demo(folder):
            lines = (
                f"{home_short(folder / '.env')} is there, and stays as it is: HUDTUI_SIM=demo is not written into it.",
                "Machines would be rented with the keys that it holds, for real money.",
            )
            if not await self.app.confirm("This demo would not be simulated", lines, yes="Make it", danger=True):
                return
        self.busy("Writing the demo workspace")
        await self.app.make_demo(folder)

    # -- pictures ----------------------------------------------------------------------------------------------------

    def _show(self, facts: Facts) -> None:
        self._aged = self._ages(facts)
        wide = self.has_class("-w120")
        full = max(self.size.width - 6, 20)
        half = max((self.size.width - 8) // 2, 20) if wide else full
        self.query_one("#home-next", Static).update(self._next(facts))
        self.query_one("#home-steps", Static).update(self._steps(facts, half - 2))
        self.query_one("#home-project", Static).update(self._project(facts, half - 2))
        runs = self.query_one("#home-runs", Static)
        runs.update(self._runs(facts, full))
        runs.display = not facts.empty

    def _key(self, action_id: str) -> str:
        from hudtui.tui.actions import REGISTRY

        keys = keys_of(REGISTRY[action_id], self.app._keymap)
        return shown(keys[0]) if keys else "^p"

    def _next(self, facts: Facts) -> Content:
        if facts.empty:
            return Content.assemble(
                ("Welcome. hudtui leads from an environment to a watched training run.", "bold"),
                "\nThis folder holds no project yet. Press ",
                (f" {self._key('home.demo')} ", "bold $accent reverse"),
                " for a demo workspace that runs at once,\nor ",
                (f" {self._key('app.open-environment')} ", "bold $accent reverse"),
                " to look at an environment of your own.",
            )
        enter = Content.assemble("Press ", (f" {self._key('home.next')} ", "bold $accent reverse"))
        name = facts.next_step
        if name is None:
            going = len(facts.running)
            if going:
                text = "A run is going. " if going == 1 else f"{going} runs are going. "
                return Content.styled(f"{GLYPHS['running']} {text}", "bold $success") + enter + Content(" to watch.")
            done = Content.styled("✓ All steps are done. ", "bold $success")
            return done + enter + Content(" for the results, or to start another run.")
        fact = facts.step(name)
        step = next(one for one in STEPS if one.name == name)
        if fact.state == "failed":
            what = "The last run failed" if name == "run" else step.title.capitalize()
            wrong = Content.assemble((f"{GLYPHS['failed']} {what}: {clean_line(fact.detail)}", "bold $error"), "  ")
            return wrong + Content(f"{clean_line(fact.what_next)}  ") + enter
        lines = Content.assemble(
            (f"{GLYPHS['next']} Next: {step.title}", "bold $accent"),
            f"  {clean_line(fact.what_next) or step.question}  ",
        )
        return lines + enter if name in SCREENS else lines

    def _steps(self, facts: Facts, width: int) -> Content:
        lines = [Content.styled("Steps", "bold $primary")]
        for step in STEPS:
            fact = facts.step(step.name)
            style = STYLES[fact.state]
            detail = clean_line(fact.detail) or step.question
            lines.append(
                Content.assemble(
                    (f"{step.key} ", "bold $accent" if step.name in SCREENS else "$foreground-muted"),
                    (f"{GLYPHS[fact.state]} {pad(step.title, 14)}", style),
                    cut(detail, max(width - 18, 8)),
                )
            )
        return Content("\n").join(lines)

    def _project(self, facts: Facts, width: int) -> Content:
        rows: list[tuple[str, str, str]] = []
        if facts.account is not None:
            account = facts.account
            if account.origin is None:
                rows.append(("key", f"○ no {account.variable}; local work needs none", "$foreground-muted"))
            else:
                rows.append(("key", f"✓ {account.variable} from {account.origin}", ""))
        relative = facts.workspace.relative if facts.workspace is not None else str
        rows.append(("configs", _names([relative(path) for path in facts.configs]), ""))
        rows.append(("tasks", _names([relative(path) for path in facts.task_files]), ""))
        rows.append(("lock file", relative(facts.lock) if facts.lock else "none", ""))
        if facts.image:
            name, _, digest = facts.image.partition("@")
            rows.append(("image", name + (f" @{digest.removeprefix('sha256:')[:12]}" if digest else ""), ""))
        if facts.dataset:
            rows.append(("dataset", facts.dataset, ""))
        lines = [Content.styled("Project", "bold $primary")]
        for name, value, style in rows:
            value = clean_line(value)
            fitted = cut_left(value, width - 11) if name == "image" else cut(value, max(width - 11, 8))  # a tag ends it
            lines.append(
                Content.assemble(
                    (pad(name, 11), "$foreground-muted"), (fitted, style or ("$foreground-muted" if value == "none" else ""))
                )
            )
        for warning in facts.warnings[:3]:
            lines.append(Content.styled(cut(f"! {clean_line(warning)}", 2 * width - 12), "$warning"))
        if len(facts.warnings) > 3:
            lines.append(Content.styled(f"! and {len(facts.warnings) - 3} more", "$warning"))
        return Content("\n").join(lines)

    def _runs(self, facts: Facts, width: int) -> Content:
        lines = [Content.styled("Recent runs", "bold $primary")]
        if not facts.runs:
            lines.append(Content.styled("none yet", "$foreground-muted"))
        for run in facts.runs[:RECENT]:
            lines.append(self._run(run, width))
        if len(facts.runs) > RECENT:
            lines.append(
                Content.styled(f"and {len(facts.runs) - RECENT} more: press {self._key('app.open-run')}", "$foreground-muted")
            )
        return Content("\n").join(lines)

    def _run(self, run: RunFact, width: int) -> Content:
        style = "bold $success" if run.running else _RUN_STYLES.get(run.state, "$foreground-muted")
        took = span(run.seconds) if run.seconds is not None else ""
        when = _age(run, self.app.services.now().timestamp())
        tail = f"{took:>7}  {when:<10}"
        room = max(width - 11 - len(tail) - 2, 12)
        name = min(room, 30)
        line = Content.assemble(
            (f"{run.glyph} {pad(run.state, 9)}", style), pad(clean_line(run.title), name), "  ", (tail, "$foreground-muted")
        )
        if run.result and room - name > 12:
            line += Content(" " + cut(clean_line(run.result), room - name))
        return line


def _goal(facts: Facts) -> str:
    """Where Enter leads: to the next step; with all of them passed, to the runs."""
    return facts.next_step or "run"


def _age(run: RunFact, now: float) -> str:
    """How long ago it began."""
    return ago(now - run.started_at) if run.started_at else ""


def _names(names: list[str]) -> str:
    if not names:
        return "none"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
