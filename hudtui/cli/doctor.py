"""`hudtui doctor`."""

from __future__ import annotations

from pathlib import Path

import typer

from hudtui.cli import console
from hudtui.cli.options import Json

_GLYPHS = {"ok": "✓", "info": " ", "missing": "○", "problem": "✗"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(as_json: Json = False) -> None:
    """Show versions, folders and files, and missing programs. Exit code 1 if something is wrong."""
    from hudtui.core.doctor import GROUPS, examine

    report = console.run(examine(Path.cwd()), as_json=as_json)
    if as_json:
        console.out_json(report.to_json())
    else:
        width = max(len(fact.name) for fact in report.facts)
        for group in GROUPS:
            console.out(group)
            for fact in report.group(group):
                console.out(f"  {_GLYPHS[fact.state]} {fact.name:<{width}}  {fact.value}")
        for state, title in (("missing", "not there, and what it would be for"), ("problem", "to put right")):
            facts = report.of_state(state)  # type: ignore[arg-type]
            if facts:
                console.out()
                console.out(f"{title}:")
                for fact in facts:
                    stop = "" if fact.value.endswith((".", "?", "!")) else "."
                    console.out(f"  {_GLYPHS[state]} {fact.name}: {fact.value}{stop}{f' {fact.fix}' if fact.fix else ''}")
        if not report.of_state("missing", "problem"):
            console.out()
            console.out("Nothing is missing.")
    if not report.ok:
        raise typer.Exit(console.FOUND)
