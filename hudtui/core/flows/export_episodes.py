"""Write episodes to a file.

Ask for the form and the file, and write the file whole or not at all.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from hudtui.core.errors import HudtuiError
from hudtui.core.flows.person import Choice, Person, may_replace
from hudtui.core.paths import typed_path
from hudtui.core.results.export import ExportForm, WrittenExport, export_results
from hudtui.core.results.index import ResultIndex
from hudtui.core.text import plural

_FORMS: Mapping[ExportForm, tuple[str, str, str]] = {
    "jsonl": ("records", "JSON lines, as they were recorded", ".jsonl"),
    "markdown": ("Markdown", "to read", ".md"),
    "atif": ("ATIF", "Agent Trajectory Interchange Format, a document a line", ".atif.jsonl"),
    "sft": ("training data", "prompts and completions that datasets loads", ".sft.jsonl"),
}
"""Forms of written episodes: words, explanation, end of the file's name."""


async def export_episodes(
    person: Person,
    index: ResultIndex,
    numbers: Sequence[int],
    folder: Path,
    name: str,
    *,
    begins: Callable[[], object],
) -> WrittenExport | None:
    """Write some episodes to a file that the person names.

    Cancelling ends the work, and nothing is written.

    Args:
        person: Chooses the form, names the file, and agrees to the replacement of an existing one.
        index: The results.
        numbers: `EpisodeEntry.number` of the episodes.
        folder: Relative names start here.
        name: Of the results; part of the name that is suggested.
        begins: Called when the writing begins.

    Returns:
        What was written; None if the person cancels.

    Raises:
        InputError: The file cannot be written, or an episode cannot be read.
    """
    choices = [Choice(form, words, what) for form, (words, what, _) in _FORMS.items()]
    form = cast(
        "ExportForm | None",
        await person.choose(f"Write {plural(len(numbers), 'episode')} as", choices),
    )
    if form is None:
        return None
    suggested = f"exports/{name.replace('/', '-').replace(' ', '-')}{_FORMS[form][2]}"
    typed = (await person.ask("File to write", value=suggested, accept="Export") or "").strip()
    if not typed:
        return None
    path = folder / typed_path(typed)
    if not await may_replace(person, path, typed):
        return None
    stop = threading.Event()

    def go_on(_: int) -> None:
        if stop.is_set():
            raise HudtuiError("the export was cancelled")

    begins()
    try:
        return await asyncio.to_thread(
            export_results, index, numbers, form, path, replace=True, progress=go_on
        )
    finally:
        stop.set()
