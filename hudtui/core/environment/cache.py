"""Analyses kept in the workspace, so that the last one shows at once while a new one is made.

One JSON file per source under `.hudtui/analyses/`. Keys and tokens were masked when the analysis
was made.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from hudtui.core.environment.source import Source
from hudtui.core.environment.values import Analysis, analysis_from_json
from hudtui.core.errors import InputError
from hudtui.core.files import read_json, write_atomic
from hudtui.core.trust import agree

FORMAT = 1


def load_analysis(source: Source) -> Analysis | None:
    """The last analysis of a source, or None.

    A damaged file, or one of another format, counts as none.
    """
    return _read(_file(source), source.key)


def latest_analysis(folder: Path) -> Analysis | None:
    """The analysis that was saved last in this project folder, or None."""
    from hudtui.core.workspace import STATE_FOLDER

    files = sorted(
        (folder / STATE_FOLDER / "analyses").glob("*.json"),
        key=lambda file: file.stat().st_mtime,
        reverse=True,
    )
    return next((analysis for file in files if (analysis := _read(file)) is not None), None)


def recent_sources(folder: Path) -> tuple[str, ...]:
    """The sources that were analyzed in this project folder, the last one first."""
    from hudtui.core.workspace import STATE_FOLDER

    files = sorted(
        (folder / STATE_FOLDER / "analyses").glob("*.json"),
        key=lambda file: file.stat().st_mtime,
        reverse=True,
    )
    return tuple(
        dict.fromkeys(analysis.source for file in files if (analysis := _read(file)) is not None)
    )


def save_analysis(source: Source, analysis: Analysis) -> None:
    """Save an analysis, and the user's agreement to analyze this source again.

    Raises:
        InputError: The workspace cannot be written to. The analysis is still good: show a notice.
    """
    from hudtui.core.workspace import make_state_dir

    make_state_dir(source.folder)
    if source.file is None:
        agree(
            source.folder, source.all_powers
        )  # the user named it: no question about what is saved here
    data = {"format": FORMAT, "key": source.key, "analysis": analysis.to_json()}
    write_atomic(_file(source), json.dumps(data, ensure_ascii=False, indent=1))


def analysis_age(analysis: Analysis, now: datetime | None = None) -> float | None:
    """Seconds since the analysis was made; None when the time is not known."""
    if analysis.analyzed_at is None:
        return None
    try:
        taken = datetime.fromisoformat(analysis.analyzed_at)
    except ValueError:
        return None
    if taken.tzinfo is None:
        taken = taken.replace(tzinfo=UTC)
    return max(0.0, ((now or datetime.now(UTC)) - taken).total_seconds())


def age_text(seconds: float | None) -> str:
    """An age in words: `just now`, `5 minutes ago`, `3 days ago`."""
    if seconds is None:
        return "some time ago"
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {word}{'s' if count > 1 else ''} ago"
    return "just now"


def _read(file: Path, key: str | None = None) -> Analysis | None:
    try:
        data = read_json(file)
        if data["format"] == FORMAT and key in (None, data["key"]):
            return analysis_from_json(data["analysis"])
    except (InputError, ValueError, KeyError, TypeError):
        pass
    return None


def _file(source: Source) -> Path:
    from hudtui.core.workspace import STATE_FOLDER

    return source.folder / STATE_FOLDER / "analyses" / f"{source.key}.json"
