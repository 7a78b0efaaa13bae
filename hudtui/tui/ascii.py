"""Signs for terminals that cannot show Unicode.

Every character becomes one of ASCII that takes as many cells.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len

_SIGNS = (
    ("─━═╌┄┈╍╸╺╴╶╼╾▔▁‾–—−‑", "-"),  # lines, dashes
    ("│┃║▏▎▍▌▐▕┊┆╷╵╻╹╿╽‖｜", "|"),
    ("┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋", "+"),
    ("▂", "_"),
    ("▃", "."),
    ("▄", "="),
    ("▅", "+"),
    ("▆", "*"),
    ("▇█▉▊▋■◼▓▒", "#"),
    ("░□", ":"),
    ("✓", "v"),
    ("✗×", "x"),
    ("●•◆★◕◑", "*"),
    ("○◔◇", "o"),
    ("►▶▸→", ">"),
    ("◀◂←", "<"),
    ("▲↑", "^"),
    ("▼▾↓", "v"),
    ("…·", "."),
    ("“”„", '"'),
    ("‘’‚", "'"),
    ("≤", "<"),
    ("≥", ">"),
    ("±", "~"),
    ("°", "o"),
    ("€", "E"),
    ("⌫", "<"),
    ("⇧", "^"),
    ("\u00a0", " "),
)


class AsciiTable(dict[int, str]):
    """A table for `str.translate`.

    What it does not know becomes question marks, as many as the character has cells.
    """

    def __init__(self) -> None:
        super().__init__(
            (ord(sign), plain * cell_len(sign)) for signs, plain in _SIGNS for sign in signs
        )

    def __missing__(self, code: int) -> str:
        if code < 128:
            plain = chr(code)
        elif 0x2800 <= code < 0x2900:  # Braille patterns, of which charts are made
            plain = " " if code == 0x2800 else "*"
        else:
            plain = "?" * cell_len(chr(code))
        self[code] = plain
        return plain


def wants_ascii(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal should get ASCII only.

    `HUDTUI_ASCII` decides if it is set; otherwise the first of LC_ALL, LC_CTYPE and LANG that is
    set does: any character set but UTF-8 means ASCII. Without a locale the terminal is taken to
    show UTF-8, as Python takes it.
    """
    own = environ.get("HUDTUI_ASCII", "").strip().lower()
    if own:
        return own not in ("0", "off", "no", "false")
    name = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    return bool(name) and "utf8" not in name.lower().replace("-", "")
