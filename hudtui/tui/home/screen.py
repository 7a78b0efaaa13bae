"""Home: where the project stands, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.containers import Vertical
from textual.widget import Widget

from hudtui.core.text import home_short
from hudtui.tui.actions import AppAction, keys_of, needing, shown, unless
from hudtui.tui.facts import Facts
from hudtui.tui.home.panes import (
    MoneyPane,
    NextPane,
    ProjectPane,
    RecentPane,
    RewardPane,
    RunningPane,
    age,
)
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.pane import SIDE_BY_SIDE, Pane, Panes
from hudtui.tui.widgets.scrolling import Page
from hudtui.tui.widgets.virtual_table import VirtualTable


def _hidden(pane: Pane) -> Pane:
    """The pane, with nothing to show yet."""
    pane.set_reactive(Widget.disabled, True)
    pane.display = False
    return pane


_READ = unless(lambda screen: screen.app.facts is not None, "the project is still being read")


class HomeScreen(HudtuiScreen):
    """The next step, runs in progress, the newest rewards and runs, money, and the project."""

    NAME = "home"
    AUTO_FOCUS = "#home-next Static"
    TITLE = "home"
    HELP = (
        "Where the project stands: the next step, runs in progress, the newest rewards, rented "
        "machines and their cost. {key:home.next} opens the next step, 1 to 5 open any of them; in "
        "the list of runs it opens a run."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = needing(
        _READ,
        (
            AppAction("home.next", "Next step", "Open the step that comes next.", "enter"),
            AppAction(
                "home.resume",
                "Last place",
                "Return to the screen, run or file where hudtui was last left.",
                "backspace",
            ),
            AppAction(
                "home.demo",
                "Demo workspace",
                "Make a small working example, the game 2048: in a folder of its own, or here.",
                "d",
                decides=True,
                when=(
                    unless(
                        lambda screen: screen.offers("home.demo"),
                        "this folder has a project already",
                    ),
                ),
            ),
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.add_class("-stacked", update=False)
        self._aged: tuple[str, ...] = ()
        """The ages that are shown."""

    def content(self) -> Iterable[Widget]:
        """Runs on the left, machines and files on the right; in one column on a narrow terminal.

        Until the project was read there is one pane, in one column: no style is worked out twice.
        """
        with Page(id="home-scroll", can_focus=False), Panes(side_by_side=0, id="home-panes"):
            with Vertical(id="home-left"):
                yield NextPane(self._key, id="home-next")
                yield _hidden(RunningPane(id="home-running"))
                yield _hidden(RewardPane(id="home-reward"))
            with Vertical(id="home-right") as right:
                right.display = False
                yield _hidden(MoneyPane(id="home-money"))
                yield _hidden(RecentPane(id="home-recent"))
                yield _hidden(ProjectPane(id="home-project"))

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        """Two columns where there is room for them, and a curve that fills the left one."""
        self.set_class(
            self.app.size.width < SIDE_BY_SIDE or not self.query_one(RewardPane).display, "-stacked"
        )

    def _present(self, pane: Pane, there: bool) -> None:
        """Show a pane that has something to show, and hide an empty pane."""
        if pane.disabled == there or pane.display != there:
            pane.disabled = not there
            pane.display = there
        right = self.query_one("#home-right")
        right.display = any(not one.disabled for one in right.query(Pane))

    def time_passed(self) -> None:
        facts = self.app.facts
        if facts is not None and self._ages(facts) != self._aged:
            self._show_runs(facts)

    def _ages(self, facts: Facts) -> tuple[str, ...]:
        return tuple(age(run, self.app.services.now().timestamp()) for run in facts.runs)

    def facts_changed(self, facts: Facts) -> None:
        self.query_one(NextPane).show(facts)
        self.query_one(ProjectPane).show(facts)
        self._present(self.query_one(ProjectPane), not facts.untouched)
        self._show_runs(facts)
        self.refresh_bindings()

    def not_read(self) -> None:
        """Say that the project could not be read."""
        self.query_one(NextPane).fail()

    def money_changed(self) -> None:
        spending, pane = self.app.spending, self.query_one(MoneyPane)
        if spending.money is not None:
            pane.show(spending.money, spending.holdings)
        self._present(pane, spending.money is not None)

    def _show_runs(self, facts: Facts) -> None:
        self._aged = self._ages(facts)
        running = self.query_one(RunningPane)
        running.show(facts.running, self.app.progress.found)
        self._present(running, bool(facts.running))
        recent = self.query_one(RecentPane)
        recent.show(facts.listed, self.app.progress.found, self.app.services.now().timestamp())
        self._present(recent, bool(facts.listed))
        reward = self.query_one(RewardPane)
        measured = [
            (read, run)
            for run in (*facts.running, *facts.listed)
            if (read := self.app.progress.found.get(run.id)) and (read.curve or read.tasks)
        ]
        if measured:
            reward.show(*measured[0])
        self._present(reward, bool(measured))
        self._arrange()

    def progress_changed(self) -> None:
        if self.app.facts is not None:
            self._show_runs(self.app.facts)

    def on_screen_resume(self) -> None:
        self.app.progress.look_now()

    @on(VirtualTable.Selected)
    def _open_run(self, event: VirtualTable.Selected) -> None:
        event.stop()
        self.app.open_screen("run", run=self.query_one(RecentPane).runs[event.row].id)

    def offers(self, action_id: str) -> bool:
        """The demo is for folders that hold nothing of ours yet."""
        if action_id == "home.resume":
            return self.app.last_place() is not None
        facts = self.app.facts
        return action_id != "home.demo" or facts is None or facts.empty

    def action_next(self) -> None:
        facts = self.app.facts
        if facts is None:
            return
        if facts.next_step is None and facts.running:
            self.app.open_screen("run", run=facts.running[0].id)
        elif (
            facts.next_step == "mapping" and not facts.configs
        ):  # there is nothing to map before one is written
            self.app.open_and_act("environment", "environment.generate")
        else:
            self.app.open_screen(facts.next_step or "run")

    def action_resume(self) -> None:
        if (found := self.app.last_place()) is not None:
            name, given = found
            self.app.open_screen(name, **given)

    @started("demo")
    async def action_demo(self) -> None:
        from hudtui.core.demo import DEFAULT_FOLDER, FILES, is_demo
        from hudtui.tui.widgets.pick import Pick

        here = self.app.folder
        own = here / DEFAULT_FOLDER
        options = (
            f"in {home_short(own)}, a folder of its own (recommended)",
            f"in {home_short(here)}, beside its files",
        )
        hint = (
            f"It writes {', '.join((*FILES, '.env'))} and .hudtui/.   {{key:pick.take}} chooses   "
            "{key:dialog.cancel} closes"
        )
        chosen: int | None = await self.app.push_screen_wait(
            Pick("Demo workspace: the game 2048", options, hint=hint)
        )
        if chosen is None:
            return
        folder = own if chosen == 0 else here
        if (folder / ".env").exists() and not is_demo(folder):
            lines = (
                f"{home_short(folder / '.env')} is there, and stays as it is: HUDTUI_SIM=demo is "
                "not written into it.",
                "Machines would be rented with the keys that it holds, for real money.",
            )
            if not await self.app.confirm(
                "This demo would not be simulated", lines, yes="Make it", danger=True
            ):
                return
        self.busy("Writing the demo workspace")
        await self.app.make_demo(folder)

    def _key(self, action_id: str) -> str:
        from hudtui.tui.actions import REGISTRY

        keys = keys_of(REGISTRY[action_id], self.app.keymap)
        return shown(keys[0]) if keys else "^p"
