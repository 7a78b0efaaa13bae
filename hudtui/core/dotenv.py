"""`.env` files: reading them with python-dotenv's parser, within bounds, and changing one value.

A file is written in one step with mode 0600. `NAME` is changed where the file already has it, also
in another case. python-dotenv's own `set_key` drops blank lines and `export`, turns CRLF into LF,
leaves a file readable for others, and writes before anything can be checked.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.errors import InputError, Location
from hudtui.core.files import decode, file_lock, read_bytes, write_atomic

if TYPE_CHECKING:
    from dotenv.parser import Binding

MAX_BYTES = 100_000
"""Largest size of a file. With references replaced, its values may have ten times as much."""
MAX_REFERENCES = 500
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_WIDE_GAP = re.compile(r"[^\S\r\n]{1000}")
_ONLY_A_COMMENT = re.compile(r"[^=]*=[^\S\r\n]+#")
_EXPORT = re.compile(r"\s*export\s")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
_UNQUOTED = re.compile(r"[A-Za-z0-9_./:@%+,=-]*\Z")
"""Values without quotes: `docker run --env-file` takes quotes for a part of the value."""
# Python takes each character of a class one by one: naming the few that are bad is quick.
_BAD_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class EnvEntry:
    """One variable of a file."""

    value: str = field(repr=False)
    line: int
    """Counting from 1; of the last assignment, which is the valid one."""
    written: str | None = field(default=None, repr=False)
    """Value before references to the environment were replaced: what the file decides. None: it has
    no reference."""
    inside: frozenset[str] = frozenset()
    """Variables of the same file that its references lead to, also through others."""
    outside: frozenset[str] = frozenset()
    """Variables of the environment that they lead to."""


@dataclass(frozen=True)
class EnvFile:
    """Values of a file by name."""

    path: Path
    entries: dict[str, EnvEntry] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    """Lines that do not count and why, with file and line, never with a value."""


def read_env(path: Path) -> EnvFile:
    """Read a `.env` file; a missing file is empty.

    References `${NAME}` in values are replaced, as python-dotenv does.

    Raises:
        InputError: The file cannot be read, is too large or is not text.
    """
    text = _read(path)
    if text is None:
        return EnvFile(path)
    notices: list[str] = []
    lines: dict[str, int] = {}
    pairs: list[tuple[str, str]] = []
    for binding in _bindings(text):
        name, line = binding.key, _line_of(binding)
        if binding.error:
            notices.append(f"{path}:{line}: {_fault(binding)}, and is ignored")
            continue
        if name is None or binding.value is None:
            continue
        if name in lines:
            notices.append(
                f"{path}:{line}: {name} is set again; the value on line {lines[name]} does not "
                "count"
            )
        lines[name] = line
        # python-dotenv takes a comment that stands in a value's place for the value; a shell does
        # not.
        comment = _ONLY_A_COMMENT.match(binding.original.string)
        pairs.append((name, "" if comment else binding.value))
    entries = _resolved(pairs, path)
    placed = {name: replace(entries[name], line=line) for name, line in lines.items()}
    return EnvFile(path, placed, tuple(notices))


def _resolved(pairs: Iterable[tuple[str, str]], path: Path) -> dict[str, EnvEntry]:
    """Replace the references in values, as python-dotenv does.

    By earlier values, else by the environment's.
    """
    from dotenv.variables import Variable, parse_variables

    known: dict[str, str | None] = dict(os.environ)
    entries: dict[str, EnvEntry] = {}
    size = 0
    for name, value in pairs:
        parts, written = [], []
        inside, outside = set[str](), set[str]()
        for atom in parse_variables(value):
            part = atom.resolve(known)
            size += len(part)
            if size > 10 * MAX_BYTES:
                raise InputError(
                    f"the references in this file make it larger than {10 * MAX_BYTES:,} "
                    "characters",
                    fix=f"Look at the value of {name}: it repeats others again and again.",
                    where=Location(str(path)),
                )
            parts.append(part)
            if not isinstance(atom, Variable):
                written.append(part)
            elif (entry := entries.get(atom.name)) is not None:
                inside |= {atom.name, *entry.inside}
                outside |= entry.outside
                written.append(entry.value if entry.written is None else entry.written)
            else:
                outside.add(atom.name)
                default = "" if atom.default is None else f":-{atom.default}"
                written.append(f"${{{atom.name}{default}}}")
        known[name] = text = "".join(parts)
        own = "".join(written) if inside or outside else None
        entries[name] = EnvEntry(text, 0, own, frozenset(inside), frozenset(outside))
    return entries


def set_value(path: Path, name: str, value: str) -> None:
    """Give `name` a value in the file, which is made if need be, with mode 0600.

    All other lines stay.

    Raises:
        InputError: The name cannot be a variable's, such a file cannot hold the value, or the file
            cannot be read or written. It is then unchanged.
    """
    _check_name(name)
    _check_value(name, value, path)

    def edit(text: str) -> str:
        newline = "\r\n" if "\r\n" in text else "\n"
        own = _own(text, name)
        if not own:
            gap = newline if text and not text.endswith(("\n", "\r")) else ""
            return f"{text}{gap}{name}={_quoted(value)}{newline}"

        def line(binding: Binding) -> str:
            export = "export " if _EXPORT.match(binding.original.string) else ""
            return f"{export}{binding.key}={_quoted(value)}{newline}"

        return _with_lines(text, own, line)

    _change(path, name, edit, value)


def unset_value(path: Path, name: str) -> bool:
    """Remove every assignment of `name` from the file. Returns True if there was one.

    Raises:
        InputError: The file cannot be read or written. It is then unchanged.
    """
    _check_name(name)
    removed = False

    def edit(text: str) -> str:
        nonlocal removed
        own = _own(text, name)
        removed = bool(own)
        return _with_lines(text, own, lambda binding: "")

    if path.exists():
        _change(path, name, edit, None)
    return removed


def _with_lines(text: str, own: list[Binding], line: Callable[[Binding], str]) -> str:
    """Replace assignments by other lines; the blank lines before them stay."""
    pieces = []
    for binding in _bindings(text):
        piece = binding.original.string
        if binding in own:
            blank = piece[: len(piece) - len(piece.lstrip())]
            piece = blank[: blank.rfind("\n") + 1] + line(binding)
        pieces.append(piece)
    return "".join(pieces)


def _change(path: Path, name: str, edit: Callable[[str], str], value: str | None) -> None:
    """Write the edited text in one step, after a check that nothing but `name` has changed."""
    target = Path(os.path.realpath(path))
    with file_lock(target):
        before = _read(target)
        text = (before or "").removeprefix("\ufeff")
        if before is not None and before.encode() != read_bytes(target):
            fix = "Save it as UTF-8 first."
            raise InputError(
                "this file is not UTF-8 and is not changed", fix=fix, where=Location(str(path))
            )
        changed = edit(text)
        values = {binding.value for binding in _own(changed, name)}
        if values != (set() if value is None else {value}) or _others(text, name) != _others(
            changed, name
        ):
            raise InputError(
                f"{name} cannot be set in this file without harm to the rest of it",
                why="A quote that is never closed, or a line that is not NAME=value, prevents it.",
                fix="Correct the file in an editor first.",
                where=Location(str(path)),
            )
        mark = "\ufeff" if before and before.startswith("\ufeff") else ""
        write_atomic(target, (mark + changed).encode(), mode=0o600)


def _read(path: Path) -> str | None:
    """Return the file's text with its own line ends and its byte order mark.

    None if there is no file.
    """
    try:
        path.stat()
    except FileNotFoundError:
        return None
    except OSError:
        pass  # the reader says why
    data = read_bytes(path, limit=MAX_BYTES)
    text = decode(data, str(path))
    _check_bounds(text, path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return text


def _check_bounds(text: str, path: Path) -> None:
    """Refuse what python-dotenv takes very long to read: references, or blanks in a row."""
    if (count := text.count("${")) > MAX_REFERENCES:
        raise InputError(
            f"this file has too many references to other variables for settings: {count:,}",
            fix=f"At most {MAX_REFERENCES:,} are read.",
            where=Location(str(path)),
        )
    if wide := _WIDE_GAP.search(text):
        line = text.count("\n", 0, wide.start()) + 1
        raise InputError(
            "this line has a thousand blanks in a row",
            fix="Take them out.",
            where=Location(str(path), line),
        )


def _bindings(text: str) -> list[Binding]:
    from dotenv.parser import parse_stream

    return list(parse_stream(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def _own(text: str, name: str) -> list[Binding]:
    """Return the assignments of a name, or of the same name in another case.

    Those in another case count only if there is none of the name itself.
    """
    valid = [binding for binding in _bindings(text) if binding.key and not binding.error]
    exact = [binding for binding in valid if binding.key == name]
    return exact or [binding for binding in valid if (binding.key or "").upper() == name.upper()]


def _others(text: str, name: str) -> list[tuple[str | None, str | None, bool]]:
    """Return all assignments and unreadable lines but those of a name."""
    own = _own(text, name)
    rest = [binding for binding in _bindings(text) if binding not in own]
    return [(one.key, one.value, one.error) for one in rest if one.key is not None or one.error]


def _line_of(binding: Binding) -> int:
    # A binding begins with the blank lines before it.
    string = binding.original.string
    blank = string[: len(string) - len(string.lstrip())]
    return binding.original.line + len(re.findall(r"\r\n|\n|\r", blank))


def _fault(binding: Binding) -> str:
    """Return why the parser could not read a line."""
    name, sign, rest = binding.original.string.partition("=")
    rest = rest.lstrip(" \t")
    if (
        not sign
        or not rest.startswith(("'", '"'))
        or not re.fullmatch(r"\s*(?:export\s+)?(?:'[^']+'|[^\s#]+)\s*", name)
    ):
        return "this is not NAME=value"
    quoted = re.match(rf"{rest[0]}(?:\\.|[^{rest[0]}\n])*{rest[0]}", rest)
    return (
        "text follows the closing quote of this value"
        if quoted
        else f"the quote {rest[0]} is not closed in this value"
    )


def _quoted(value: str) -> str:
    if _UNQUOTED.match(value):
        return value
    if not re.search(r"['\\\r\n]", value):
        return f"'{value}'"
    return '"' + "".join(_ESCAPES.get(character, character) for character in value) + '"'


def _check_name(name: str) -> None:
    if not VARIABLE_NAME.match(name):
        raise InputError(
            f"{name!r} cannot be the name of a variable",
            fix="Use letters, digits and _, with no digit first.",
        )


def _check_value(name: str, value: str, path: Path) -> None:
    if bad := _BAD_CHARACTER.search(value):
        half = "\ud800" <= bad[0] <= "\udfff"
        shown = "half a character" if half else f"the control character U+{ord(bad[0]):04X}"
        raise InputError(
            f"the value of {name} holds {shown}", fix="Copy it again.", where=Location(str(path))
        )
    if "${" in value:
        raise InputError(
            f"a value with ${{...}} in it cannot be kept in such a file: {name}",
            why="Programs that read it would take that for a reference to another variable.",
            fix="Set it in the environment instead.",
            where=Location(str(path)),
        )
