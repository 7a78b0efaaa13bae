"""`hudtui runs records`: what stands in the file of a run, record by record."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

import typer

from hudtui.cli import console, runlog
from hudtui.cli import runs as runs_group


@runs_group.app.command("records")
@console.run_async(compact=True)
async def records(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A file or folder of W&B, TensorBoard, trackio or transformers, or a log, here or "
            "elsewhere (HOST:PATH).",
        ),
    ],
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="KIND", help="Only records of this kind, such as history; repeatable."
        ),
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN", help="Only records in which this regular expression occurs."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Print the records of a run that hudtui did not start, in order, as they stand in its file.

    Of W&B and TensorBoard all of them: numbers, settings, printed lines, the machine and its load.
    Of other files the rows of numbers and the lines. They are printed as they are read, so a file
    may be larger than the memory. Secrets in settings are masked, and long texts cut.
    """
    from hudtui.core.errors import InputError
    from hudtui.core.pattern import Pattern
    from hudtui.core.remote.hosts import open_host
    from hudtui.core.runs.external import read_place
    from hudtui.core.runs.records import read_records, record_line
    from hudtui.core.runs.sessions import find_session

    pattern = Pattern(grep, regex=True) if grep else None
    if pattern is not None:
        pattern.require_valid()
    place, seen, matched = read_place(path), dict[str, None](), 0
    if place.file is None:
        raise InputError(f"{path!r} is no path", fix="Name a file or folder: ./PATH, HOST:PATH.")
    async with runlog.machines():
        host = await open_host(place.machine)
        session = await find_session(host, session=place.session, file=place.file)
        async with aclosing(read_records(host, session)) as found:
            async for record in found:
                seen[record.kind] = None
                if kinds and record.kind not in kinds:
                    continue
                line = record_line(record)
                if pattern is not None and not pattern.matches(line):
                    continue
                matched += 1
                if as_json:
                    console.out_json(record.to_json(), compact=True)
                else:
                    console.out(line)
    if not seen:
        raise InputError(f"{path} has no records", fix="Name a file that a run writes.")
    if missing := [kind for kind in kinds or () if kind not in seen]:
        raise InputError(
            f"{path} has no records of kind {missing[0]!r}", fix=f"It has {', '.join(seen)}."
        )
    if not matched:
        console.say(f"no record matches {grep!r}")
