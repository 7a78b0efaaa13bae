"""Home: where the project stands, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual.containers import Vertical
from textual.widget import Widget

from hudtui.core.text import home_short
from hudtui.tui.actions import AppAction, keys_of, needing, shown, unless
from hudtui.tui.home.panes import (
    MoneyPane,
    NextPane,
    ProjectPane,
    RewardPane,
    RunningPane,
    age,
)
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.pane import SIDE_BY_SIDE, Pane, Panes
from hudtui.tui.widgets.scrolling import Page

if TYPE_CHECKING:
    from hudtui.tui.facts import Facts
    from hudtui.tui.home.recent import RecentPane
    from hudtui.tui.widgets.virtual_table import VirtualTable

P = TypeVar("P", bound=Pane)

_LEFT = ("running", "reward")
_ORDER = (*_LEFT, "money", "recent", "project")
"""The names of the panes below the first one on the left, and of those on the right."""
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
        self._made: dict[str, Pane] = {}
        """The panes that were made, by their names; not the first one."""

    def content(self) -> Iterable[Widget]:
        """Runs on the left, machines and files on the right; in one column on a narrow terminal.

        Until the project was read there is one pane. The others are made once they have something
        to show: nothing is made, styled and laid out that may never be seen.
        """
        with Page(id="home-scroll", can_focus=False), Panes(side_by_side=0, id="home-panes"):
            with Vertical(id="home-left"):
                yield NextPane(self._key, id="home-next")
            with Vertical(id="home-right") as right:
                right.display = False

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        """Two columns where there is room for them, and a curve that fills the left one."""
        reward = self._made.get("reward")
        stacked = reward is None or not reward.display
        self.set_class(self.app.size.width < SIDE_BY_SIDE or stacked, "-stacked")

    def _present(self, name: str, kind: Callable[..., P], there: object) -> P | None:
        """Return a pane that has something to show, and show it; hide one that has nothing.

        It is made the first time, in its place of `_ORDER`.
        """
        pane = self._made.get(name)
        if pane is None and not there:
            return None
        right = self.query_one("#home-right")
        if pane is None:
            pane = self._made[name] = kind(id=f"home-{name}")
            box = self.query_one("#home-left") if name in _LEFT else right
            after = [one for one in _ORDER[_ORDER.index(name) + 1 :] if one in self._made]
            before = next((one for one in after if (one in _LEFT) == (name in _LEFT)), None)
            box.mount(pane, before=None if before is None else self._made[before])
        elif pane.disabled == bool(there) or pane.display != bool(there):
            pane.disabled = not there
            pane.display = bool(there)
        right.display = any(not one.disabled for one in right.query(Pane))
        return cast(P, pane) if there else None

    def time_passed(self) -> None:
        facts = self.app.facts
        if facts is not None and self._ages(facts) != self._aged:
            self._show_runs(facts)

    def _ages(self, facts: Facts) -> tuple[str, ...]:
        return tuple(age(run, self.app.services.now().timestamp()) for run in facts.runs)

    def facts_changed(self, facts: Facts) -> None:
        self.query_one(NextPane).show(facts)
        if project := self._present("project", ProjectPane, not facts.untouched):
            project.show(facts)
        self._show_runs(facts)
        self.refresh_bindings()

    def not_read(self) -> None:
        """Say that the project could not be read."""
        self.query_one(NextPane).fail()

    def money_changed(self) -> None:
        spending = self.app.spending
        pane = self._present("money", MoneyPane, spending.money is not None)
        if pane is not None and spending.money is not None:
            pane.show(spending.money, spending.holdings)

    def _show_runs(self, facts: Facts) -> None:
        self._aged = self._ages(facts)
        found = self.app.progress.found
        if running := self._present("running", RunningPane, facts.running):
            running.show(facts.running, found)
        if recent := self._present("recent", _recent_pane, facts.listed):
            recent.show(facts.listed, found, self.app.services.now().timestamp())
        measured = [
            (read, run)
            for run in (*facts.running, *facts.listed)
            if (read := found.get(run.id)) and (read.curve or read.tasks)
        ]
        if reward := self._present("reward", RewardPane, measured):
            reward.show(*measured[0])
        self._arrange()

    def progress_changed(self) -> None:
        if self.app.facts is not None:
            self._show_runs(self.app.facts)

    def on_screen_resume(self) -> None:
        self.app.progress.look_now()

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        """Open the run under the cursor."""
        event.stop()
        recent = cast("RecentPane", self._made["recent"])
        self.app.open_screen("run", run=recent.runs[event.row].id)

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


def _recent_pane(**given: Any) -> RecentPane:
    from hudtui.tui.home.recent import RecentPane  # with its table, for projects that have runs

    return RecentPane(**given)
