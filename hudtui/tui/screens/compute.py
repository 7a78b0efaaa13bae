"""Compute: on which machine will it run? For now there is this one."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.keymap import Action
from hudtui.tui.screens.base import StationScreen
from hudtui.tui.widgets.fit import cut, pad

if TYPE_CHECKING:
    from hudtui.core.compute.machine import Machine

_NEEDED_FOR = {
    "tmux": "runs in a session that you can attach to",
    "docker": "environments that come as images",
    "podman": "environments that come as images",
    "uv": "fast set-up of training environments",
    "nvidia-smi": "GPUs",
    "git": "environments that come as repositories",
}


class ComputeScreen(StationScreen):
    """What this machine has for a run."""

    NAME = "compute"
    TITLE = "compute"
    CSS_PATH = "compute.tcss"
    HELP = (
        "What this machine has for a run: processors, memory, disk, GPUs, and the programs that runs use. "
        "Runs start on this machine and go on when hudtui is closed."
    )
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("compute.look", "Look again", "Ask the machine again what it has.", "r"),
        Action("compute.copy", "Copy", "Copy what is shown, as JSON.", "y"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.machine: Machine | None = None
        """What was seen last; None before the first look came back."""

    def content(self) -> Iterable[Widget]:
        """One scrolling column."""
        with VerticalScroll(id="compute-scroll"):
            yield Static(Content.styled("Looking at this machine…", "$foreground-muted"), id="compute-body")

    def opened(self, **given: Any) -> None:
        """Look at the machine, unless that was done."""
        if self.machine is None:
            self.action_look()

    def on_resize(self) -> None:
        """Lines are cut to the width."""
        if self.machine is not None:
            self._show(self.machine)

    def why_not(self, action_id: str) -> str | None:
        """There is nothing to copy before the first look came back."""
        return "the machine was not looked at yet" if action_id == "compute.copy" and self.machine is None else None

    def action_look(self) -> None:
        """Look at the machine."""
        self.start(self._look(), group="look", busy="Looking at this machine")

    def action_copy(self) -> None:
        """Copy what is known."""
        import json

        if self.machine is not None:
            self.shell.copy(json.dumps(self.machine.to_json(), indent=2))

    async def _look(self) -> None:
        from hudtui.core.compute.machine import inspect
        from hudtui.core.remote.local import LocalHost

        self.machine = await inspect(LocalHost(), python=sys.executable)
        self._show(self.machine)
        self.refresh_bindings()

    def _show(self, machine: Machine) -> None:
        from hudtui.core.compute.machine import size

        width = max(self.size.width - 4, 20)
        rows: list[tuple[str, str, str, str]] = [
            ("✓", "system", f"{machine.system}, {machine.architecture}, Python {machine.python}", "$success"),
            ("✓", "processors", str(machine.cpus or "–"), "$success"),
            ("✓", "memory", f"{size(machine.memory_free_bytes)} free of {size(machine.memory_bytes)}", "$success"),
            ("✓", "disk", f"{size(machine.disk_free_bytes)} free of {size(machine.disk_bytes)}", "$success"),
        ]
        for gpu in machine.gpus:
            memory = "" if gpu.memory_mib is None else f", {gpu.used_mib or 0} of {gpu.memory_mib} MiB used"
            busy = "" if gpu.utilization is None else f", {gpu.utilization} % busy"
            rows.append(("✓", f"GPU {gpu.index}", f"{gpu.name}{memory}{busy}", "$success"))
        if not machine.gpus:
            rows.append(("○", "GPUs", "none: scripted policies and model endpoints run, training does not", "$foreground-muted"))
        body = [Content.styled("This machine", "bold $primary"), *(self._row(*row, width) for row in rows)]
        body += [Content(""), Content.styled("Programs that runs use", "bold $primary")]
        for name, place in machine.programs:
            detail = place or f"missing: {_NEEDED_FOR.get(name, '')}"
            body.append(self._row("✓" if place else "○", name, detail, "$success" if place else "$foreground-muted", width))
        if machine.warnings:
            body.append(Content(""))
        body += [Content.styled(f" ! {clean_line(warning)}", "$warning") for warning in machine.warnings]
        self.query_one("#compute-body", Static).update(Content("\n").join(body))

    def _row(self, glyph: str, name: str, detail: str, style: str, width: int) -> Content:
        return Content.assemble((f" {glyph} {pad(name, 12)}", style), cut(clean_line(detail), max(width - 15, 10)))
