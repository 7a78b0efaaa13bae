"""The panes of home, but for the list of runs. They only draw what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.content import Content

from hudtui.core.text import clean_line, home_short, plural, seen_from
from hudtui.tui.steps import GLYPHS, STEPS, STYLES
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.fit import cut, cut_left, pad
from hudtui.tui.widgets.hanging import hanging_lines
from hudtui.tui.widgets.pane import Pane
from hudtui.tui.widgets.words import ago

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hudtui.core.compute.overview import PodsSnapshot
    from hudtui.core.compute.pod_row import PodRow
    from hudtui.tui.facts import Facts, Money, RunFact
    from hudtui.tui.home.reads import RunRead

_MUTED = "$foreground-muted"
_KEY = "bold $accent"
CURVE = 10
"""Cells of a small curve."""
_TALL = 40
"""Lines of a terminal in which the steps say what can be done there."""
_SMOOTHED, _WEIGHT = 60, 0.8
"""Steps from which the curve is smoothed, how strongly; what was measured is drawn behind it."""
_TASKS = 12
"""Tasks that are listed with their rewards."""
_ALARMS = 2
"""Alarms of a run that are listed; the Runs screen lists all."""


class TextPane(Pane):
    """A pane with text that depends on its width. It takes the focus, so that `z` can zoom it."""

    DEFAULT_CSS = """
    TextPane { height: auto; padding: 0 1; }
    TextPane > Static { height: auto; width: 1fr; }
    """

    def __init__(self, *, title: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(title=title, id=id)
        self.body = CalmStatic()
        self.body.can_focus = True

    def compose(self) -> ComposeResult:
        yield self.body

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw what was given last. What is given before the pane is laid out is drawn then."""
        if not self.is_mounted:
            return
        text = self.text(max(self.content_size.width, 20), max(self.content_size.height, 3))
        if text != self.body.content:
            self.body.update(text)

    def text(self, width: int, height: int) -> Content:
        """Return the text for a width and a height in cells."""
        raise NotImplementedError


class NextPane(TextPane):
    """What to do next, and the key that does it."""

    BORDER_TITLE = "Next"
    facts: Facts | None = None

    def __init__(self, key: Callable[[str], str], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._key = key
        self._failed = False

    def fail(self) -> None:
        """Say that the project could not be read."""
        self._failed = True
        self.draw()

    def show(self, facts: Facts) -> None:
        """Show the next step of a project."""
        self.facts = facts
        self.name_on_border("Welcome" if facts.untouched else "Next")
        self.draw()

    def text(self, width: int, height: int) -> Content:
        """Return one or two sentences, and the keys."""
        facts = self.facts
        if facts is None:
            if self._failed:
                return Content.assemble(
                    "The project could not be read. ",
                    (self._key("app.refresh"), _KEY),
                    " reads it again.",
                )
            return Content.styled("Reading the project…", _MUTED)
        if facts.untouched:
            return self._welcome(width)
        sign, style, what, then = self._step(facts)
        lines = [Content.assemble((cut(f"{sign} {what}", width), style))]
        lines.append(
            Content.assemble((self._key("home.next"), _KEY), "  ", cut(then, max(width - 8, 10)))
        )
        for one in facts.warnings[:2]:
            warning = hanging_lines(
                Content("! "), Content(clean_line(seen_from(facts.folder, one), 300)), width
            )
            lines += [line.stylize("$warning") for line in warning]
        if len(facts.warnings) > 2:
            lines.append(Content.styled(f"! and {len(facts.warnings) - 2} more", "$warning"))
        return Content("\n").join(lines)

    def _welcome(self, width: int) -> Content:
        rows = (
            ("home.demo", "Demo workspace", "a working example, the game 2048; costs nothing"),
            (
                "app.open-environment",
                "Connect an environment",
                "see and call its tools, write a configuration",
            ),
            ("app.open-dataset", "Open a task file", "check its tasks, and convert them"),
            (
                "app.settings",
                "Keys and addresses",
                "what you use may need one; local runs need none",
            ),
        )
        lines = [
            Content.styled(
                "hudtui takes you from an MCP environment to a monitored training run.", "bold"
            )
        ]
        lines.append(Content.styled("There is no project in this folder yet. Begin with:", _MUTED))
        for action, title, why in rows:
            lines.append(
                Content.assemble(
                    (pad(self._key(action), 4), _KEY),
                    (pad(title, 24), "bold"),
                    (cut(why, max(width - 28, 0)), _MUTED),
                )
            )
        return Content("\n").join(lines)

    def _ready(self, facts: Facts) -> str:
        """Where all steps are done: the last run."""
        return (
            f"Ready. Last run: {clean_line(facts.listed[0].title, 60)}"
            if facts.listed
            else "Ready."
        )

    def _step(self, facts: Facts) -> tuple[str, str, str, str]:
        """Return sign, style, message, and what the key does."""
        name = facts.next_step
        if name is None:
            going = len(facts.running)
            if going:
                return (
                    GLYPHS["running"],
                    "bold $success",
                    f"{plural(going, 'run')} in progress.",
                    "watch",
                )
            return (
                "✓",
                "bold $success",
                self._ready(facts),
                "open the results, or start another run",
            )
        fact = facts.step(name)
        step = next(one for one in STEPS if one.name == name)
        then = clean_line(fact.what_next) or step.question
        if fact.state == "failed":
            what = "The last run failed" if name == "run" else step.title.capitalize()
            return GLYPHS["failed"], "bold $error", f"{what}: {clean_line(fact.detail)}", then
        return GLYPHS["next"], _KEY, step.title.capitalize(), then


class RunningPane(TextPane):
    """The runs that are going: step, reward, time left, cost, alarms."""

    BORDER_TITLE = "Running"
    runs: Sequence[RunFact] = ()
    read: Mapping[str, RunRead] = {}

    def show(self, runs: Sequence[RunFact], read: Mapping[str, RunRead]) -> None:
        """Show runs, with what was read of them so far."""
        self.runs, self.read = runs, read
        self.draw()

    def text(self, width: int, height: int) -> Content:
        """Return a line for each run, and one for each alarm."""
        lines = []
        name = max(
            min(max((cell_len(clean_line(run.title)) for run in self.runs), default=8), width // 3),
            8,
        )
        for run in self.runs:
            read = self.read.get(run.id)
            parts: list[str | tuple[str, str]] = [
                (f"{run.glyph} ", "bold $success"),
                pad(clean_line(run.title), name),
            ]
            for text, style in () if read is None else read.progress(CURVE):
                if (
                    sum(cell_len(part if isinstance(part, str) else part[0]) for part in parts)
                    + cell_len(text)
                    + 2
                    <= width
                ):
                    parts += ["  ", (text, style)]
            lines.append(Content.assemble(*parts))
            for alarm in () if read is None else read.alarms[:_ALARMS]:
                lines.append(Content.styled(cut(f"  ! {alarm}", width), "$warning"))
            if read is not None and read.finding:
                lines.append(Content.styled(cut(f"  ? {read.finding}", width), _MUTED))
        return Content("\n").join(lines)


class RewardPane(TextPane):
    """The reward of the newest run: over the steps of a training, or of each task."""

    BORDER_TITLE = "Reward"
    DEFAULT_CSS = """
    RewardPane { height: 1fr; min-height: 9; max-height: 22; }
    RewardPane.-bars { height: auto; min-height: 0; }
    """
    run: RunRead | None = None

    def show(self, run: RunRead, listed: RunFact) -> None:
        """Show the rewards of a run, under its title in the list."""
        self.run = run
        self.set_class(not run.curve, "-bars")
        self.name_on_border(f"Reward: {clean_line(listed.title, 60)}")
        self.note_on_border(run.note)
        self.draw()

    def text(self, width: int, height: int) -> Content:
        """Return the curve, or a bar for each task."""
        if self.run is None:
            return Content("")
        if not self.run.curve:
            return self._bars(self.run, width)
        from hudtui.tui.widgets.charts import ChartLine, curves, series_styles, smooth

        raw, style = tuple(self.run.curve), series_styles(self.app.current_theme)[0]
        noisy = len(raw) >= _SMOOTHED
        line = ChartLine(smooth(raw, _WEIGHT), style, raw) if noisy else ChartLine(raw, style)
        return curves([line], width, height)

    def _bars(self, run: RunRead, width: int) -> Content:
        from hudtui.tui.widgets.charts import series_styles

        rows = run.tasks[:_TASKS]
        name = min(max((cell_len(task) for task, _ in rows), default=0), width // 2)
        room = max(width - name - 10, 4)
        most = max(max((reward for _, reward in rows), default=1.0), 1.0)
        colour = series_styles(self.app.current_theme)[0].colour
        lines = []
        for task, reward in rows:
            full = round(max(reward, 0.0) / most * room)
            bar = ("▆" * full, colour), ("▁" * (room - full), _MUTED)
            lines.append(Content.assemble(pad(task, name), "  ", *bar, f"{reward:8.3f}"))
        if len(run.tasks) > len(rows):
            lines.append(Content.styled(f"and {len(run.tasks) - len(rows)} more tasks", _MUTED))
        return Content("\n").join(lines)


class MoneyPane(TextPane):
    """What is rented, what it costs, and when it ends."""

    BORDER_TITLE = "Money"
    money: Money | None = None
    pods: PodsSnapshot | None = None

    def show(self, money: Money, pods: PodsSnapshot | None) -> None:
        """Show rented machines."""
        self.money, self.pods = money, pods
        self.draw()

    def text(self, width: int, height: int) -> Content:
        """Return the sums, and a line for each machine."""
        money = self.money
        if money is None:
            return Content("")
        words = [f"{plural(money.machines, 'machine')}", f"{money.per_hour}/h"]
        words.append(f"today {money.today}" + (f" of {money.budget}" if money.budget else ""))
        if money.as_of:
            words.append(f"as of {money.as_of}")
        if money.simulated:
            words.append("simulated")
        lines = [
            Content.styled(cut("   ".join(words), width), "bold $warning" if money.warn else "bold")
        ]
        pods = self.pods.pods if self.pods is not None else ()
        for pod in pods:
            lines.append(self._pod(pod, width))
        if money.taken:
            lines.append(
                Content.styled(
                    cut(f"✗ {plural(money.taken, 'machine')} taken back", width), "bold $error"
                )
            )
        return Content("\n").join(lines)

    def _pod(self, one: PodRow, width: int) -> Content:
        from hudtui.tui.home.reads import pod_words

        assert self.pods is not None
        name, owner, price, left, warns = pod_words(self.pods, one)
        tail = f"{price:>9}  {left:>9}"
        room = max(width - cell_len(tail) - 2, 8)
        first = max(min(cell_len(name), room - 12), room // 2) if room > 24 else room
        text = pad(name, first) + ("  " + pad(owner, room - first - 2) if room > first + 4 else "")
        return Content.styled(f"{text}  {tail}", "$warning" if warns else "")


class ProjectPane(TextPane):
    """The steps in detail, and the files of the project."""

    BORDER_TITLE = "Project"
    facts: Facts | None = None

    def show(self, facts: Facts) -> None:
        """Show a project."""
        self.facts = facts
        self.draw()

    def text(self, width: int, height: int) -> Content:
        """Return the steps, then the files.

        A step comes with what can be done there, where there is room.
        """
        facts = self.facts
        if facts is None:
            return Content("")
        files = self._files(facts, width)
        wordy = self.app.size.height >= _TALL
        lines = []
        for step in STEPS:
            fact = facts.step(step.name)
            detail = clean_line(fact.detail) or step.question
            sign = f"{GLYPHS[fact.state]} {pad(step.title, 13)}"
            lines.append(
                Content.assemble(
                    (f"{step.key} ", _KEY), (sign, STYLES[fact.state]), cut(detail, width - 17)
                )
            )
            if wordy:
                lines.append(
                    Content.styled(cut(" " * 17 + clean_line(fact.what_next), width), _MUTED)
                )
        return Content("\n").join([*lines, Content(""), *files])

    def _files(self, facts: Facts, width: int) -> list[Content]:
        relative = facts.workspace.relative if facts.workspace is not None else str
        rows: list[tuple[str, str]] = [
            ("folder", home_short(facts.folder)),
            ("platform", facts.platform),
            ("configs", _names([relative(path) for path in facts.configs])),
            ("tasks", _names([relative(path) for path in facts.task_files])),
            ("lock file", relative(facts.lock) if facts.lock else "none"),
        ]
        if facts.account is not None and facts.account.origin is not None:
            rows.insert(2, ("key", f"{facts.account.variable} from {facts.account.origin}"))
        if facts.image:
            name, _, digest = facts.image.partition("@")
            rows.append(
                ("image", name + (f" @{digest.removeprefix('sha256:')[:12]}" if digest else ""))
            )
        if facts.dataset:
            rows.append(("dataset", facts.dataset))
        lines = []
        for name, value in rows:
            value = clean_line(value)
            fitted = (
                cut_left(value, width - 11)
                if name in ("image", "folder")
                else cut(value, max(width - 11, 8))
            )
            lines.append(
                Content.assemble(
                    (pad(name, 11), _MUTED), (fitted, _MUTED if value == "none" else "")
                )
            )
        return lines


def age(run: RunFact, now: float) -> str:
    """Return how long ago a run began."""
    return ago(now - run.started_at) if run.started_at else ""


def _names(names: list[str]) -> str:
    if not names:
        return "none"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
