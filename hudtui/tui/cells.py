"""Sends a terminal the cells that differ from what it shows, and no others.

Textual writes every line of a widget that is painted again, each piece of it with its whole style.
`Cells` keeps what was written, cell by cell, and turns each of Textual's updates into the cells
that differ, with the changes of style between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

from rich.cells import split_graphemes
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Size
from textual.strip import Strip

from hudtui.core.text import unobeyed

Sgr = tuple[str, str, str, str]
"""Attributes, foreground and background as parameters of SGR, and the sequence that begins a link.
There is one tuple for each style, so that styles are compared by identity."""

_Pieces = Iterable[tuple[int, int, Strip]]
"""Column, row and content of what is painted."""
_Run = tuple[int, int, list[str], list[Sgr], bool]
"""Column, row, characters and styles of cells that differ; and whether the terminal's cursor is
certainly behind them then."""

PLAIN: Sgr = ("", "", "", "")
GAP = 5
"""So many equal cells between two different ones are written again: a movement of the cursor takes
more bytes."""

CERTAIN = frozenset(
    chr(code)
    for first, last in (
        (0x20, 0x7E),
        (0xA1, 0xAC),
        (0xAE, 0x2FF),
        (0x370, 0x482),
        (0x2010, 0x2027),  # dashes, quotes, the ellipsis
        (0x2190, 0x2193),  # arrows
        (0x2500, 0x25FC),  # lines, blocks, shapes
        (0x2713, 0x2713),
        (0x2717, 0x2717),
        (0x2800, 0x28FF),  # Braille, of which charts are made
    )
    for code in range(first, last + 1)
)
"""Characters that take one cell in every terminal. About others terminals disagree with Textual,
and with each other."""


_MOST_KNOWN = 4096
"""Styles that are kept. What is on the screen keeps its own; a forgotten one that comes again is
only written once more."""


class Cells:
    """What the terminal shows, as far as that is known."""

    def __init__(self) -> None:
        self._size: Size | None = None
        self._rows: dict[int, tuple[list[str | None], list[Sgr | None]]] = {}
        self._known: dict[str, Sgr] = {"": PLAIN}

    def forget(self) -> None:
        """Take nothing for known: every cell of the next updates is written."""
        self._rows.clear()

    def changes(self, update: CompositorUpdate, console: Console) -> str:
        """Return what makes the terminal show an update.

        The terminal is taken to show it from now on.
        """
        if isinstance(update, LayoutUpdate):
            if update.region.size != self._size:
                self._size = update.region.size
                self.forget()
            pieces = _rows(update)
        elif isinstance(update, ChopsUpdate):
            pieces = _pieces(update)
        else:
            self.forget()
            return update.render_segments(console)
        system = console._color_system or ColorSystem.TRUECOLOR
        return self._written(self._different(pieces, system))

    def _different(self, pieces: _Pieces, system: ColorSystem) -> Iterator[_Run]:
        for x, y, strip in pieces:
            chars: list[str] = []
            styles: list[Sgr] = []
            for segment in strip:
                self._take(segment, system, chars, styles)
            end = x + len(chars)
            shown, worn = self._rows.setdefault(y, ([], []))
            if (short := end - len(shown)) > 0:
                shown.extend([None] * short)
                worn.extend([None] * short)
            before, dressed = shown[x:end], worn[x:end]
            if before == chars and dressed == styles:
                continue
            shown[x:end], worn[x:end] = chars, styles
            if not (CERTAIN.issuperset(chars) and CERTAIN.issuperset(before)):
                # Where a terminal takes another number of cells than Textual, all after it has
                # moved: the whole piece is written.
                yield x, y, chars, styles, CERTAIN.issuperset(chars)
                continue
            differ = [
                place
                for place, (old, new, style, other) in enumerate(
                    zip(before, chars, dressed, styles, strict=True)
                )
                if old != new or style is not other
            ]
            first = last = differ[0]
            for place in differ:
                if place - last > GAP:
                    yield x + first, y, chars[first : last + 1], styles[first : last + 1], True
                    first = place
                last = place
            yield x + first, y, chars[first : last + 1], styles[first : last + 1], True

    def _take(
        self, segment: Segment, system: ColorSystem, chars: list[str], styles: list[Sgr]
    ) -> None:
        text, style, control = segment
        if control:
            return
        if text.isascii() and text.isprintable():
            chars.extend(text)
            count = len(text)
        else:
            before, cells = _split(text)
            if before and chars:
                chars[-1 if chars[-1] else -2] += before
            chars.extend(cells)
            count = len(cells)
        styles.extend([self._sgr(style, system) if style else PLAIN] * count)

    def _sgr(self, style: Style, system: ColorSystem) -> Sgr:
        ansi = Strip.render_ansi(style, system) if style._ansi is None else style._ansi
        link = f"\x1b]8;id={style._link_id};{unobeyed(style._link)}\x1b\\" if style._link else ""
        found = self._known.get(ansi + link)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:  # each pair of colours of a picture is one
                self._known = {"": PLAIN}
            found = self._known[ansi + link] = (*_parts(ansi), link)
        return found

    @staticmethod
    def _written(runs: Iterable[_Run]) -> str:
        out: list[str] = []
        worn, row, column = PLAIN, -1, -1
        for x, y, chars, styles, certain in runs:
            if y != row:
                out.append(f"\x1b[{y + 1};{x + 1}H")
            elif x != column:
                out.append(f"\x1b[{x + 1}G")
            row, column = y, x + len(chars) if certain else -1
            place = 0
            for _, group in groupby(styles, id):
                style = styles[place]
                end = place + sum(1 for _ in group)
                if style is not worn:
                    out.append(_change(worn, style))
                    worn = style
                out.extend(chars[place:end])
                place = end
        if worn is not PLAIN:
            out.append(_change(worn, PLAIN))
        return "".join(out)


class ChangedCells(CompositorUpdate):
    """An update of Textual's that is written as the cells that it changes."""

    def __init__(self, update: CompositorUpdate, cells: Cells) -> None:
        self._update, self._cells = update, cells

    def render_segments(self, console: Console) -> str:
        return self._cells.changes(self._update, console)


def _rows(update: LayoutUpdate) -> _Pieces:
    """Column, row and content of the pieces of a whole screen."""
    for y, strips in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in strips:
            yield x, y, strip
            x += strip.cell_length


def _pieces(update: ChopsUpdate) -> _Pieces:
    """Column, row and content of what a partial update paints.

    As `ChopsUpdate.render_segments` cuts it.
    """
    for y, first, last in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= last and end > first:
                whole = last > x >= first and end <= last
                yield x, y, strip if whole else strip.crop(0, min(end, last) - x)


@lru_cache(maxsize=8192)
def _split(text: str) -> tuple[str, tuple[str, ...]]:
    """What belongs to the cell before the text, and the text in cells.

    The second cell of a wide character is empty. Whatever a widget draws, a character that the
    terminal would obey is left out here: Textual counts no cell for it.
    """
    before, cells = "", list[str]()
    for start, end, width in split_graphemes(text)[0]:
        part = unobeyed(text[start:end])
        if width:
            cells += [part or " ", *[""] * (width - 1)]
        elif cells:
            cells[-1 if cells[-1] else -2] += part
        else:
            before += part
    return before, tuple(cells)


def _parts(ansi: str) -> tuple[str, str, str]:
    """Attributes, foreground and background of the parameters of an SGR sequence."""
    attributes: list[str] = []
    colours = {"3": "", "4": ""}
    codes = ansi.split(";") if ansi else []
    while codes:
        code = codes.pop(0)
        if code in ("38", "48"):
            count = 4 if codes[0] == "2" else 2
            colours[code[0]] = ";".join([code, *codes[:count]])
            del codes[:count]
        elif 30 <= int(code) <= 49 or int(code) >= 90:
            kind = "3" if code[0] == "3" or code[0] == "9" else "4"
            colours[kind] = code
        else:
            attributes.append(code)
    return ";".join(attributes), colours["3"], colours["4"]


@lru_cache(maxsize=8192)
def _change(before: Sgr, after: Sgr) -> str:
    """The shortest sequence that leads from one style to another."""
    out = ""
    if before[3] != after[3]:
        out = after[3] or "\x1b]8;;\x1b\\"
    codes = []
    if before[0] != after[0]:
        codes.append(f"0;{after[0]}" if after[0] else "0")
        before = PLAIN
    for place, default in ((1, "39"), (2, "49")):
        if before[place] != after[place]:
            codes.append(after[place] or default)
    if after[:3] == PLAIN[:3]:
        codes = ["0"]
    return out + f"\x1b[{';'.join(codes)}m" if codes else out
