"""Images as lines of text. Needs the extra `images`: without it, and without colours, there are none.

Lines are half blocks; in kitty and Ghostty they are places in which the terminal draws the image itself.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import fcntl
import importlib.util
import io
import os
import struct
import sys
import termios
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from textual.color import Color
from textual.content import Content, Span
from textual.style import Style

from hudtui.core.text import clean_line
from hudtui.tui.ascii import wants_ascii

if TYPE_CHECKING:
    from textual.app import App

INSTALL = "pip install 'hudtui[images]' shows images here"
WIDEST, TALLEST = 80, 20
"""Cells of a picture."""
MOST_PIXELS = 40_000_000
"""Of an image that is decoded: a file of a few bytes may claim any number."""
_SIDE = 800
"""Pixels of the longer side of an image that is drawn."""
MOST_PICTURES = 48
"""Pictures whose lines are kept, and those of one episode that are shown."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_DRAWING_TERMINALS = ("xterm-kitty", "xterm-ghostty")


@cache
def installed() -> bool:
    """Return whether the extra is there."""
    return importlib.util.find_spec("textual_image") is not None


def why_no_pictures(app: App[Any]) -> str | None:
    """Return why the app shows no images; None if it does."""
    if not installed():
        return INSTALL
    return "images need colours and UTF-8" if app.no_color or app.theme == "monochrome" or wants_ascii(os.environ) else None


class Undecodable(ValueError):
    """What cannot be shown as an image, in words."""


def _decode(data: str) -> Any:
    """Return an image (`PIL.Image.Image`) of at most 800 pixels a side from base64. Of several frames the first one.

    Raises:
        Undecodable: It is no image, or too large.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        raw = base64.b64decode(data, validate=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own limit is checked below
            with Image.open(io.BytesIO(raw), formats=_FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise Undecodable(f"{image.width}x{image.height} pixels are too many")
                image.draft("RGB", (_SIDE, _SIDE))
                small = image.convert("RGBA")
        small.thumbnail((_SIDE, _SIDE))
    except (Undecodable, binascii.Error) as error:
        raise Undecodable(str(error)) from None
    except UnidentifiedImageError:
        raise Undecodable("it is no PNG, JPEG, GIF or WebP image") from None
    except Exception as error:  # decoders of foreign data raise whatever they like
        raise Undecodable(clean_line(str(error), 120) or type(error).__name__) from None
    ground = Image.new("RGBA", small.size, (0, 0, 0, 255))
    return Image.alpha_composite(ground, small).convert("RGB")


class Pictures:
    """The pictures of an app, as lines that can be scrolled like any other. Neither pixels nor base64 are kept."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._made: OrderedDict[tuple[int, int, int], tuple[Any, tuple[Content, ...]]] = OrderedDict()
        self._lock = threading.Lock()

    def lines(self, data: str | None, width: int) -> Sequence[Content]:
        """Return an image as lines of at most `width` cells; one line that says why where it cannot be shown.

        A new image takes some 20 ms: `draw` calls this in a thread before.

        Args:
            data: Base64.
            width: Cells.
        """
        if data is None or width < 4 or why_no_pictures(self._app) is not None:
            return ()
        width = min(width, WIDEST)
        key = (hash(data), len(data), width)
        with self._lock:
            if key not in self._made:
                try:
                    self._made[key] = self._draw(_decode(data), width)
                except Undecodable as error:
                    self._made[key] = (None, (Content.styled(f"it cannot be shown: {error}", "$warning"),))
                while len(self._made) > MOST_PICTURES:
                    self._release(self._made.popitem(last=False)[1][0])
            self._made.move_to_end(key)
            return self._made[key][1]

    async def draw(self, images: Iterable[str | None], width: int) -> None:
        """Make the lines of the first images of an episode, so that `lines` returns them at once."""
        for data in [data for data in images if data is not None][:MOST_PICTURES]:
            await asyncio.to_thread(self.lines, data, width)

    def forget(self) -> None:
        """Let the terminal forget all images."""
        while self._made:
            self._release(self._made.popitem()[1][0])

    def _draw(self, image: Any, width: int) -> tuple[Any, tuple[Content, ...]]:
        across, down = _cell_size()
        drawn = os.environ.get("TERM") in _DRAWING_TERMINALS and self._app.console.color_system == "truecolor"
        # No pixel of a small image takes more than half a cell.
        scale = min(width / image.width, 2 * TALLEST / image.height, 1.0)
        columns, rows = max(round(image.width * scale), 1), max(round(image.height * scale / 2), 1)
        if drawn:
            scale = min(width * across / image.width, TALLEST * down / image.height, 1.0)
            columns, rows = max(round(image.width * scale / across), 1), max(round(image.height * scale / down), 1)
        with _terminal_aside(self._app):
            from textual_image.renderable import HalfcellImage, TGPImage

            made = (TGPImage if drawn else HalfcellImage)(image, columns, rows)
            options = self._app.console.options.update(max_width=columns)
            options.max_height = rows
            lines = tuple(_as_lines(made.__rich_console__(self._app.console, options)))
        if not drawn:
            return None, lines
        del made._image_data  # the terminal has the pixels now
        return made, lines

    def _release(self, made: Any) -> None:
        if made is not None:
            with _terminal_aside(self._app):
                made.cleanup()


@contextmanager
def _terminal_aside(app: App[Any]) -> Iterator[None]:
    """Keep the library off the terminal, which is the app's: it asks nothing, and the app writes what it wants to write."""
    out, aside = sys.__stdout__, io.StringIO()
    sys.__stdout__ = aside  # type: ignore[misc, assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # its calls of Pillow
            yield
    finally:
        sys.__stdout__ = out  # type: ignore[misc]
    if (text := aside.getvalue()) and (driver := app._driver) is not None:
        driver.write(text)


@cache
def _cell_size() -> tuple[int, int]:
    """Pixels of a cell; the library takes them for known then, and does not ask the terminal."""
    try:
        rows, columns, width, height = struct.unpack("HHHH", fcntl.ioctl(2, termios.TIOCGWINSZ, b"\0" * 8))
        size = (width // columns, height // rows) if width and height else (10, 20)
    except (OSError, ZeroDivisionError):
        size = (10, 20)
    from textual_image import _terminal

    _terminal.get_cell_size._result = _terminal.CellSize(*size)  # type: ignore[attr-defined, unused-ignore]
    return size


def _as_lines(segments: Any) -> Iterator[Content]:
    """Segments of Rich as lines; neighbours of the same colours are one span."""
    text, spans = "", list[Span]()
    for segment in segments:
        for number, piece in enumerate(segment.text.split("\n")):
            if number:
                yield Content(text, spans=spans)
                text, spans = "", []
            if not piece:
                continue
            style = _style(segment.style.color, segment.style.bgcolor)
            if spans and spans[-1].style is style:
                spans[-1] = Span(spans[-1].start, len(text) + len(piece), style)
            else:
                spans.append(Span(len(text), len(text) + len(piece), style))
            text += piece
    if text:
        yield Content(text, spans=spans)


@lru_cache(maxsize=16_384)
def _style(front: Any, back: Any) -> Style:
    return Style(
        foreground=None if front is None else Color.from_rich_color(front),
        background=None if back is None else Color.from_rich_color(back),
    )
