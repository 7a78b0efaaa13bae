"""The log of the app itself, and what is kept when it breaks."""

from __future__ import annotations

import logging
import os
import platform
import traceback
from datetime import UTC, datetime
from pathlib import Path

from hudtui.core.paths import private_folder

log = logging.getLogger("hudtui")

_MAX_BYTES = 1_000_000
_KEPT = 3


def start_logging(folder: Path, *, debug: bool) -> Path | None:
    """Log to a rotating file in `folder`.

    Its path, or None when it cannot be written (the app runs on without).
    """
    from logging.handlers import RotatingFileHandler

    path = folder / "hudtui.log"
    try:
        private_folder(folder)
        handler = RotatingFileHandler(
            path, maxBytes=_MAX_BYTES, backupCount=_KEPT, encoding="utf-8", delay=False
        )
    except OSError:
        return None
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
    )
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if debug else logging.INFO)
    log.propagate = False
    return path


def write_crash(folder: Path, error: BaseException, version: str) -> Path | None:
    """Keep an unexpected exception in a file of its own; None when that is impossible.

    The traceback holds code lines, never the values of variables: they may be secrets.
    """
    now = datetime.now(UTC)
    text = "".join(
        [
            f"hudtui {version}, Python {platform.python_version()}, {platform.platform()}\n",
            f"{now.isoformat(timespec='seconds')} TERM={os.environ.get('TERM', '')}\n\n",
            *traceback.format_exception(error),
        ]
    )
    path = folder / f"crash-{now:%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    try:
        private_folder(folder)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError:
        return None
    return path
