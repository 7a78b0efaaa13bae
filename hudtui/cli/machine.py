"""`hudtui machine`: what this machine has for a run."""

from __future__ import annotations

from typing import Annotated

import typer

from hudtui.cli import console


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("machine")(machine)


def machine(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what this machine has for a run: processors, memory, disk, GPUs, programs."""
    import sys

    from hudtui.core.compute.machine import inspect, size
    from hudtui.core.remote.local import LocalHost

    found = console.run(inspect(LocalHost(), python=sys.executable), as_json=as_json)
    if as_json:
        console.out_json(found.to_json())
        return
    console.out(f"{found.name}: {found.system}, {found.architecture}, Python {found.python}")
    console.out(f"processors  {found.cpus or '–'}")
    console.out(f"memory      {size(found.memory_free_bytes)} free of {size(found.memory_bytes)}")
    console.out(f"disk        {size(found.disk_free_bytes)} free of {size(found.disk_bytes)}")
    for gpu in found.gpus:
        memory = "memory unknown" if gpu.memory_mib is None else f"{gpu.used_mib or 0} of {gpu.memory_mib} MiB used"
        console.out(f"GPU {gpu.index}       {gpu.name}, {memory}")
    if not found.gpus:
        console.out("GPUs        none")
    for name, place in found.programs:
        console.out(f"{name:<11} {place or 'missing'}")
    for warning in found.warnings:
        console.say(f"warning: {warning}")
