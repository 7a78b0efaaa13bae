"""`hudtui machine`: what a machine has for a run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hudtui.cli import console, runlog
from hudtui.cli.command import top
from hudtui.cli.options import Json


@top.command("machine")
@console.run_async()
async def machine(
    target: Annotated[
        str,
        typer.Argument(
            help="`local`, a name of ~/.ssh/config, or user@host[:port].", metavar="[TARGET]"
        ),
    ] = "local",
    as_json: Json = False,
) -> None:
    """Show the hardware and programs of this machine, or of a machine behind SSH."""
    from hudtui.core.compute.hardware import inspect, size
    from hudtui.core.remote.hosts import open_host

    async with runlog.machines():
        host = await open_host(target)
        found = await inspect(host, python=sys.executable if host.name == "local" else "python3")
    if as_json:
        console.out_json(found.to_json())
        return
    console.out(f"{found.name}: {found.system}, {found.architecture}, Python {found.python}")
    console.out(f"processors  {found.cpus or '–'}")
    console.out(f"memory      {size(found.memory_free_bytes)} free of {size(found.memory_bytes)}")
    console.out(f"disk        {size(found.disk_free_bytes)} free of {size(found.disk_bytes)}")
    for gpu in found.gpus:
        memory = (
            "memory unknown"
            if gpu.memory_mib is None
            else f"{gpu.used_mib or 0} of {gpu.memory_mib} MiB used"
        )
        console.out(f"GPU {gpu.index}       {gpu.name}, {memory}")
    if not found.gpus:
        console.out("GPUs        none")
    for name, place in found.programs:
        console.out(f"{name:<11} {place or 'missing'}")
    for warning in found.warnings:
        console.say(f"warning: {warning}")
