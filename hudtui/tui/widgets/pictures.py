"""Images as lines of half blocks.

Needs the extra `images`: without it, and without colours, there are none.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib.util
import io
import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
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
_Pixel = tuple[int, int, int]
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


@cache
def installed() -> bool:
    """Return whether the extra is there."""
    return importlib.util.find_spec("PIL") is not None


def why_no_pictures(app: App[Any]) -> str | None:
    """Return why the app shows no images; None if it does."""
    if not installed():
        return INSTALL
    return (
        "images need colours and UTF-8"
        if app.no_color or app.theme == "monochrome" or wants_ascii(os.environ)
        else None
    )


class Undecodable(ValueError):
    """What cannot be shown as an image, in words."""


def _decode(data: str) -> Any:
    """Return an image (`PIL.Image.Image`) of at most 800 pixels a side from base64.

    Of several frames the first one.

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
    """The pictures of an app, as lines that can be scrolled like any other.

    Neither pixels nor base64 are kept.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._made: OrderedDict[tuple[int, int, int], tuple[Content, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def lines(self, data: str | None, width: int) -> Sequence[Content]:
        """Return an image as lines of at most `width` cells.

        One line that says why where it cannot be shown.
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
                    self._made[key] = tuple(_half_blocks(_decode(data), width))
                except Undecodable as error:
                    self._made[key] = (Content.styled(f"it cannot be shown: {error}", "$warning"),)
                while len(self._made) > MOST_PICTURES:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]

    async def draw(self, images: Iterable[str | None], width: int) -> None:
        """Make the lines of an episode's first images, so that `lines` returns them at once."""
        for data in [data for data in images if data is not None][:MOST_PICTURES]:
            await asyncio.to_thread(self.lines, data, width)


def _half_blocks(image: Any, width: int) -> Iterator[Content]:
    """Lines of an image, two pixels in a cell; a small image is not made larger."""
    scale = min(width / image.width, 2 * TALLEST / image.height, 1.0)
    columns = max(round(image.width * scale), 1)
    rows = max(round(image.height * scale / 2), 1)
    pixels = image.resize((columns, 2 * rows)).load()
    text = "▀" * columns
    for row in range(rows):
        pairs = [
            (pixels[column, 2 * row], pixels[column, 2 * row + 1]) for column in range(columns)
        ]
        yield Content(text, spans=_spans(pairs))


def _spans(pairs: Iterable[tuple[_Pixel, _Pixel]]) -> list[Span]:
    """Styles of the cells of a line; neighbours of the same colours are one span."""
    spans: list[Span] = []
    at = 0
    for (upper, lower), cells in groupby(pairs):
        end = at + len(list(cells))
        spans.append(Span(at, end, _style(upper, lower)))
        at = end
    return spans


@lru_cache(maxsize=16_384)
def _style(upper: _Pixel, lower: _Pixel) -> Style:
    return Style(foreground=Color(*upper), background=Color(*lower))
