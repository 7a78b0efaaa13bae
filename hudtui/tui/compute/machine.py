"""This machine, as the compute screen shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from hudtui.core.text import clean_line
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.hanging import hanging_lines

if TYPE_CHECKING:
    from hudtui.core.compute.hardware import Hardware

_NEEDED_FOR = {
    "tmux": "runs in a session that you can attach to",
    "docker": "environments that come as images",
    "podman": "environments that come as images",
    "uv": "fast setup of training environments",
    "nvidia-smi": "GPUs",
    "git": "environments that come as repositories",
}


def machine_lines(machine: Hardware, width: int) -> Content:
    """What a machine has, in lines of at most `width` cells."""
    from hudtui.core.compute.hardware import size

    rows: list[tuple[str, str, str, str]] = [
        (
            "✓",
            "system",
            f"{machine.system}, {machine.architecture}, Python {machine.python}",
            "$success",
        ),
        ("✓", "processors", str(machine.cpus or "–"), "$success"),
        (
            "✓",
            "memory",
            f"{size(machine.memory_free_bytes)} free of {size(machine.memory_bytes)}",
            "$success",
        ),
        (
            "✓",
            "disk",
            f"{size(machine.disk_free_bytes)} free of {size(machine.disk_bytes)}",
            "$success",
        ),
    ]
    for gpu in machine.gpus:
        memory = (
            "" if gpu.memory_mib is None else f", {gpu.used_mib or 0} of {gpu.memory_mib} MiB used"
        )
        busy = "" if gpu.utilization is None else f", {gpu.utilization} % busy"
        rows.append(("✓", f"GPU {gpu.index}", f"{gpu.name}{memory}{busy}", "$success"))
    if not machine.gpus:
        rows.append(
            (
                "○",
                "GPUs",
                "none: scripted policies and model endpoints run, training does not",
                "$foreground-muted",
            )
        )
    body = [
        Content.styled("This machine", "bold $primary"),
        *(line for row in rows for line in _row(*row, width)),
    ]
    body += [Content(""), Content.styled("Programs that runs use", "bold $primary")]
    for name, place in machine.programs:
        detail = place or f"missing; needed for {_NEEDED_FOR.get(name, 'other environments')}"
        body += _row(
            "✓" if place else "○", name, detail, "$success" if place else "$foreground-muted", width
        )
    if machine.warnings:
        body.append(Content(""))
    body += [Content.styled(f"! {clean_line(warning)}", "$warning") for warning in machine.warnings]
    return Content("\n").join(body)


def _row(glyph: str, name: str, detail: str, style: str, width: int) -> list[Content]:
    return hanging_lines(
        Content.styled(f"{glyph} {pad(name, 12)}", style), Content(clean_line(detail)), width
    )
