"""`hudtui doctor`."""

from __future__ import annotations

from pathlib import Path

import typer

from hudtui.cli import console
from hudtui.cli.command import top
from hudtui.cli.options import Json


@top.command("doctor")
@console.run_async()
async def doctor(as_json: Json = False) -> None:
    """Show versions, folders and files, and missing programs. Exit code 1 if something is wrong."""
    from hudtui.core.doctor import examine

    report = await examine(Path.cwd())
    if as_json:
        console.out_json(report.to_json())
    else:
        for line in report.lines():
            console.out(line)
    if not report.ok:
        raise typer.Exit(console.FOUND)
