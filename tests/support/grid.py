"""What a terminal shows after it was sent bytes: as much of a terminal as Textual and hudtui make
use of."""

from __future__ import annotations

import re

from rich.cells import get_character_cell_size

_TOKEN = re.compile(
    r"\x1b\[([?<>=]?)([\d;]*)[ -/]*([@-~])|\x1b\](.*?)(?:\x07|\x1b\\)|\x1b[PX^_].*?\x1b\\|\x1b."
    r"|([\r\n])",
    re.DOTALL,
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|)$")
PLAIN: dict[str, str] = {}


class Grid:
    """Cells with characters and styles.

    Args:
        width: Columns.
        height: Rows.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.clear()
        self.column = self.row = 0
        self.style: dict[str, str] = {}
        self._rest = ""
        self._bytes = b""

    def clear(self) -> None:
        """Blank cells in the terminal's own colours."""
        self.cells = [[(" ", frozenset(PLAIN.items()))] * self.width for _ in range(self.height)]

    @property
    def lines(self) -> list[str]:
        """The characters of each row."""
        return ["".join(char for char, _ in row) for row in self.cells]

    @property
    def text(self) -> str:
        """The rows, without blanks at their ends."""
        return "\n".join(line.rstrip() for line in self.lines)

    def send(self, data: bytes) -> None:
        """Bytes, as they come: characters and sequences may be cut anywhere."""
        data = self._bytes + data
        whole = len(data)
        for back in range(1, min(4, len(data)) + 1):
            if data[-back] & 0xC0 != 0x80:  # the first byte of the last character
                need = (
                    4
                    if data[-back] >= 0xF0
                    else 3
                    if data[-back] >= 0xE0
                    else 2
                    if data[-back] >= 0xC0
                    else 1
                )
                whole = len(data) - back if need > back else len(data)
                break
        self._bytes = data[whole:]
        self.write(data[:whole].decode("utf-8", "replace"))

    def write(self, text: str) -> None:
        """Text with sequences."""
        text = self._rest + text
        cut = _UNFINISHED.search(text)
        self._rest = text[cut.start() :] if cut else ""
        text = text[: cut.start()] if cut else text
        place = 0
        for token in _TOKEN.finditer(text):
            self._print(text[place : token.start()])
            place = token.end()
            private, codes, end, _, control = token.groups()
            if control:
                self.column = 0 if control == "\r" else self.column
                self.row += control == "\n"
            elif end == "H":
                row, _, column = codes.partition(";")
                self.row, self.column = int(row or 1) - 1, int(column or 1) - 1
            elif end == "G":
                self.column = int(codes or 1) - 1
            elif end == "m" and not private:
                self._dress(codes)
            elif (end == "J" and codes == "2") or (end == "h" and private and codes == "1049"):
                self.clear()
        self._print(text[place:])

    def _print(self, text: str) -> None:
        style = frozenset(self.style.items())
        for char in text:
            width = get_character_cell_size(char)
            if self.row >= self.height:
                continue
            row = self.cells[self.row]
            if width == 0:
                back = self.column - 1
                while back > 0 and row[back][0] == "":
                    back -= 1
                row[back] = (row[back][0] + char, row[back][1])
                continue
            if self.column + width > self.width:
                self.column = (
                    self.width - width
                )  # it does not wrap: the last cell is written again and again
            if row[self.column][0] == "" and self.column:
                row[self.column - 1] = (" ", row[self.column - 1][1])
            after = self.column + width
            if after < self.width and row[after][0] == "":
                row[after] = (" ", row[after][1])
            row[self.column] = (char, style)
            if width == 2:
                row[self.column + 1] = ("", style)
            self.column = after

    def _dress(self, codes: str) -> None:
        left = (codes or "0").split(";")
        while left:
            code = left.pop(0)
            if code in ("", "0"):
                self.style = {}
            elif code in ("38", "48"):
                count = 4 if left[0] == "2" else 2
                self.style[code[0]] = ";".join(left[:count])
                del left[:count]
            elif code in ("39", "49"):
                self.style.pop(code[0], None)
            elif (code[0] in "3459" and len(code) == 2) or len(code) == 3:
                self.style["3" if code[0] in "39" else "4"] = code
            else:
                self.style[f"attribute {code}"] = ""
