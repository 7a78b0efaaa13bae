"""The pane with the rented machines, and one machine in full.

Those taken back and those without a run come first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message

from hudtui.core.compute.limits import Limits, LimitUsage, amount
from hudtui.core.compute.pods import PodRecord
from hudtui.core.text import clean_line, duration, money
from hudtui.tui.widgets.hanging import fact_lines
from hudtui.tui.widgets.pane import Pane
from hudtui.tui.widgets.virtual_table import Cell, Column, Rows, VirtualTable
from hudtui.tui.widgets.words import span

if TYPE_CHECKING:
    from hudtui.core.compute.overview import PodsSnapshot
    from hudtui.core.compute.pod_row import PodRow
    from hudtui.core.compute.values import Pod

COLUMNS = (
    Column("state", "state", 13),
    Column("name", "name", 14, flexible=3, most=32),
    Column("gpu", "GPU", 12, flexible=2, from_width=68),
    Column("price", "price/h", 8, align="right"),
    Column("age", "age", 7, from_width=90, align="right"),
    Column("cost", "cost", 9, align="right"),
    Column("left", "left", 7, from_width=76, align="right"),
    Column("owner", "owner", 10, flexible=2, from_width=98),
)
GLYPHS = {
    "booting": "◔",
    "installing": "◑",
    "ready": "●",
    "failed": "✗",
    "stopped": "■",
    "gone": "✓",
    "unknown": "?",
}


def state_of(holding: PodRow) -> tuple[str, str]:
    """Glyph and word, and the style of the cell."""
    pod = holding.pod
    word = pod.stage + (
        f" {pod.progress}%" if pod.progress is not None and pod.stage == "installing" else ""
    )
    if not holding.reachable:
        return f"? {word}", "table--muted"
    style = {"ready": "table--ok", "failed": "table--error"}.get(
        pod.stage, "table--muted" if not holding.ours else ""
    )
    if holding.unclaimed is not None:
        return f"! {word}", "table--warning"
    return f"{GLYPHS.get(pod.stage, '?')} {word}", style


def owner_of(holding: PodRow) -> str:
    """Owner of the machine: a run, the user, none (unclaimed), or a user outside hudtui."""
    if holding.unclaimed is not None:
        return "unclaimed"
    return f"run {holding.run}" if holding.run else "you" if holding.ours else "not hudtui's"


def pod_cells(
    snapshot: PodsSnapshot, noted: Collection[str], row: PodRow | PodRecord
) -> Sequence[Cell]:
    """A row of the table.

    Args:
        snapshot: What was seen last.
        noted: Names of machines of which the user has noted that they were taken back.
        row: A machine, or the record of a machine that its provider has reclaimed.
    """
    if isinstance(row, PodRecord):
        style = "table--muted" if row.name in noted else "table--error"
        lasted = (row.ended or row.updated) - row.created
        cost = money(row.billed, row.currency) if row.billed is not None else "–"
        owner = f"run {row.run}" if row.run else "you"
        words = (row.name, _gpus(row.last_pod()), "–", _short(max(lasted, 0.0)), cost, "–", owner)
        return (("✗ taken back", style), *((word, style) for word in words))
    pod, age, left = row.pod, row.age(snapshot.at), snapshot.left(row)
    style = "" if row.ours and row.reachable else "table--muted"
    near = row.verdict is not None and row.verdict.level != "fine"
    return (
        state_of(row),
        (pod.name, style),
        (_gpus(pod), style),
        (money(pod.hourly, pod.currency) if pod.hourly is not None else "–", style),
        (_short(age) if age is not None else "–", style),
        ((row.cost_text or "–").replace("about ", "~").replace(" billed", ""), style),
        (_short(left * 3600) if left is not None else "–", "table--warning" if near else style),
        (owner_of(row), "table--warning" if row.unclaimed else style),
    )


class PodsPane(Pane):
    """The machines that are rented."""

    BORDER_TITLE = "Machines"
    HELP = (
        "The machines that are rented. Those that were taken back and those without a run "
        "(unclaimed) come first."
    )

    class Highlighted(Message):
        """The cursor is on another machine."""

    class Opened(Message):
        """Enter was pressed on a machine."""

    def __init__(self) -> None:
        super().__init__(id="compute-pods")
        self.table = VirtualTable(COLUMNS, empty="Looking for machines…")
        self.snapshot: PodsSnapshot | None = None
        self._keys: list[str] = []
        self._chosen: str | None = None

    def compose(self) -> ComposeResult:
        yield self.table

    @property
    def pod(self) -> PodRow | None:
        """The machine under the cursor."""
        pods = self.snapshot.pods if self.snapshot is not None else ()
        return next((one for one in pods if row_key(one) == self._chosen), None)

    @property
    def gone(self) -> PodRecord | None:
        """The machine under the cursor, if its provider took it back."""
        taken = self.snapshot.taken if self.snapshot is not None else ()
        return next((one for one in taken if row_key(one) == self._chosen), None)

    def show(self, snapshot: PodsSnapshot, noted: Collection[str], now: float) -> None:
        """Show the machines as they were seen last; the cursor stays on its machine.

        Those that were taken back come first.
        """
        self.snapshot = snapshot
        taken = sorted(snapshot.taken, key=lambda one: one.name in noted)
        loud = sum(one.name not in noted for one in taken)
        rows: tuple[PodRow | PodRecord, ...] = (*taken[:loud], *snapshot.pods, *taken[loud:])
        keys = self._keys = list(map(row_key, rows))
        if self._chosen not in keys:
            self._chosen = keys[min(self.table.cursor, len(keys) - 1)] if keys else None
        silent = snapshot.silent
        self.table.empty = (
            f"{silent[0].title} does not answer: whether a machine is alive there is not known."
            if silent
            else "No machine is rented."
        )
        self.table.show(
            Rows(rows, partial(pod_cells, snapshot, noted)),
            cursor=keys.index(self._chosen) if self._chosen in keys else None,
        )
        self.show_count(now, loud)
        title = "Machines" + (f" {len(snapshot.pods)}" if snapshot.pods else "")
        self.name_on_border(
            title + (f" ! {len(snapshot.orphans)} unclaimed" if snapshot.orphans else "")
        )
        self.set_class(not rows, "-empty")
        self.post_message(self.Highlighted())

    def show_count(self, now: float, taken: int) -> None:
        """Write on the border how many machines there are.

        It says how old the state of a silent provider is.
        """
        snapshot = self.snapshot
        if snapshot is None:
            return
        sure = sum(one.reachable for one in snapshot.pods)
        parts = [f"{sure} rented"] if sure else []
        if old := len(snapshot.unreachable):
            parts.append(f"{old} may be rented")
        if snapshot.orphans:
            them = "it" if len(snapshot.orphans) == 1 else "them"
            parts.append(f"{len(snapshot.orphans)} unclaimed ({{key:compute.orphans}} ends {them})")
        if taken:
            parts.append(f"{taken} taken back: {{key:compute.noted}} dismisses")
        words = [
            ", ".join(parts) or ("" if snapshot.silent else "none rented"),
            *(one.text(now) for one in snapshot.silent),
        ]
        self.note_on_border(
            ". ".join(filter(None, words)),
            "$warning" if snapshot.silent or snapshot.orphans or taken else "",
        )

    @on(VirtualTable.Highlighted)
    def _highlight(self, event: VirtualTable.Highlighted) -> None:
        event.stop()
        if event.row < len(self._keys) and self._keys[event.row] != self._chosen:
            self._chosen = self._keys[event.row]
            self.post_message(self.Highlighted())

    @on(VirtualTable.Selected)
    def _open(self, event: VirtualTable.Selected) -> None:
        event.stop()
        if self._chosen is not None:
            self.post_message(self.Opened())


def row_key(row: PodRow | PodRecord) -> str:
    """What identifies a row: the provider's id, or the name while there is none."""
    if isinstance(row, PodRecord):
        return f"gone {row.name}"
    return row.pod.id or row.pod.name


def _gpus(pod: Pod) -> str:
    return f"{pod.gpu_count}× {pod.gpu_type}" if pod.gpu_count else pod.gpu_type or "–"


Keys = Callable[[str], str]
"""Puts the user's keys into a text; see `HudtuiApp.keys_in`."""


def gone_lines(one: PodRecord, keys: Keys, width: int) -> Content:
    """Return a machine that was taken back or has ended, in full.

    The lines have at most `width` cells.
    """
    from hudtui.core.http import is_loopback

    pod = one.last_pod()
    simulated = ("  (simulated)", "bold $warning") if is_loopback(one.endpoint) else ""
    why = one.why or ("its provider does not say why" if one.unasked else "")
    glyph, style = ("✗", "bold $error") if one.unasked else ("✓", "bold $success")
    lines = [
        Content.assemble((clean_line(one.name), "bold $primary"), simulated),
        Content.styled(f"{glyph} It has ended{f': {clean_line(why)}' if why else ''}.", style),
        Content(""),
    ]
    facts = (
        (
            "machine",
            (f"{pod.gpu_count} × " if pod.gpu_count else "")
            + pod.gpu_type
            + (", spot" if pod.spot else ""),
        ),
        ("where", ", ".join(filter(None, (pod.cloud, pod.region)))),
        ("id", one.pod or ""),
        ("run", one.run or ""),
        ("lasted", span(max((one.ended or one.updated) - one.created, 0.0))),
        (
            "cost",
            f"{money(one.billed, one.currency)} billed"
            if one.billed is not None
            else "not billed yet",
        ),
    )
    for name, value in facts:
        lines += fact_lines(name, value, "", width) if value else []
    dismiss = "{key:compute.noted} dismisses the notice. " if one.unasked else ""
    lines += [
        Content(""),
        Content(keys(f"{dismiss}{{key:compute.history}} lists the machines that have ended.")),
    ]
    return Content("\n").join(lines)


def pod_lines(
    holding: PodRow,
    holdings: PodsSnapshot,
    keys: Keys,
    *,
    title: str,
    simulated: bool,
    width: int,
    now: float | None = None,
) -> Content:
    """One machine in full.

    Args:
        holding: The machine.
        holdings: All of them, for the day's money.
        keys: Puts the user's keys into a text.
        title: Its provider's.
        simulated: No real money is spent.
        width: Cells of a line.
        now: The time, in seconds since the epoch; the moment of the last refresh by default.
    """
    pod, cost = holding.pod, holding.cost
    lines = [
        Content.assemble(
            (clean_line(pod.name), "bold $primary"),
            ("  (simulated)", "bold $warning") if simulated else "",
        )
    ]
    if holding.unclaimed is not None:
        lines.append(
            Content.styled(
                f"! Unclaimed: {clean_line(holding.unclaimed)}. {keys('{key:compute.terminate}')} "
                "ends it.",
                "bold $warning",
            )
        )
    if not holding.reachable:
        ago = holding.seen_ago(holdings.at if now is None else now)
        last = (
            f"Last seen {duration(ago)} ago"
            if ago is not None
            else "It was asked for, and never seen"
        )
        login = keys("; {key:compute.terminal} may still log in") if pod.addresses else ""
        lines.append(Content.styled(f"? {last}: {title} does not answer{login}.", "bold $warning"))
    if pod.failure:
        lines.append(Content.styled(f"✗ {clean_line(pod.failure)}", "bold $error"))
    lines.append(Content(""))

    def fact(name: str, value: str, style: str = "") -> None:
        if value:
            lines.extend(fact_lines(name, value, style, width))

    fact(
        "state",
        pod.stage
        + (
            f", {pod.progress} % installed"
            if pod.progress is not None and pod.stage == "installing"
            else ""
        ),
    )
    fact("", f"{title} says {pod.status}" if pod.status else "")
    fact(
        "machine",
        (f"{pod.gpu_count} × " if pod.gpu_count else "")
        + pod.gpu_type
        + (", spot" if pod.spot else ""),
    )
    fact("where", ", ".join(filter(None, (pod.cloud, pod.region))))
    fact("id", pod.id)
    fact("owner", owner_of(holding) + (f", team {pod.team}" if pod.team else ""))
    for address in pod.addresses:
        fact("login", str(address))
    fact("", keys("{key:compute.terminal} opens a terminal on it") if pod.addresses else "")
    lines.append(Content(""))
    age = holding.age(holdings.at)
    fact("age", span(age) if age is not None else "")
    fact(
        "price",
        f"{money(pod.hourly, pod.currency)} an hour"
        if pod.hourly is not None
        else "the provider does not say",
    )
    if cost is not None:
        source = "" if cost.billed else ": price times time, the provider has no bill yet"
        fact(
            "cost",
            f"{holding.cost_text} so far{source}" if holding.cost_text else "unknown",
            "bold",
        )
        pays = holdings.wallet_lasts(holding)
        if pays is not None:
            fact(
                "wallet",
                f"pays for {duration(pays * 3600)} of all machines",
                "bold $warning" if pays < 1 else "",
            )
        lines += [
            Content(""),
            *limit_lines(holding.limits, holdings.spending.usage(cost), keys, width),
        ]
    if holding.verdict is not None and holding.verdict.reasons:
        style = "bold $error" if holding.verdict.level == "end" else "$warning"
        lines += [
            Content.styled(f"! {clean_line(reason)}", style) for reason in holding.verdict.reasons
        ]
    return Content("\n").join(lines)


def limit_lines(limits: Limits | None, usage: LimitUsage, keys: Keys, width: int) -> list[Content]:
    """The limits, each with what is used of it, in lines of at most `width` cells."""
    if limits is None:
        return [
            Content.styled("Limits", "bold $primary"),
            Content.styled(
                keys(
                    "None: nothing ends this machine automatically. {key:compute.limits} sets some."
                ),
                "$warning",
            ),
        ]
    rows = (
        ("budget", limits.run_budget, usage.spent_run, usage.currency),
        ("a day", limits.day_budget, usage.spent_day, "USD"),
        ("hours", limits.max_hours, usage.hours, "h"),
        ("idle", limits.idle_minutes, usage.idle_minutes, "min"),
    )
    lines = [Content.styled(keys("Limits ({key:compute.limits} changes them)"), "bold $primary")]
    for name, limit, used, unit in rows:
        if limit is None:
            words = "none"
        elif used is None:
            words = f"{amount(limit)} {unit}; how long it has idled is not known"
        else:
            share = min(used / limit, 9.99)
            bar = "█" * min(round(share * 10), 10)
            whole = f"{amount(limit)} {unit}" if unit in ("h", "min") else money(limit, unit)
            words = f"{bar:░<10} {share * 100:.0f} % of {whole}"
        lines += fact_lines(name, words, "", width)
    return lines


def _short(seconds: float) -> str:
    return f"{int(seconds // 60)}m" if seconds < 3600 else span(seconds)
