"""`.env` files: reading them with python-dotenv's parser, and changing one value in place.

An edit changes only its own value. Comments, order, blank lines, `export`, quotes and line ends stay, the file gets mode 0600,
and the new text is read back before it is written. python-dotenv's `set_key` keeps neither the comment behind a value nor its
quotes nor CRLF, and its reader resolves references without a bound on their size.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.errors import InputError, Location
from hudtui.core.files import decode, file_lock, read_bytes, write_atomic

if TYPE_CHECKING:
    from dotenv.parser import Binding

MAX_BYTES = 1_000_000
"""Of a file, and of its values once their references are replaced."""
MAX_LINES = 5_000
MAX_REFERENCES = 500
_WIDE_GAP = re.compile(r"[^\S\r\n]{1000}")
_Edit = Callable[[str], str]

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_HEAD = re.compile(r"\s*(?:export[^\S\r\n]+)?(?:'[^']+'|[^=#\s]+)[^\S\r\n]*(?P<given>=[^\S\r\n]*)?")
_SINGLE = re.compile(r"'(?:\\'|[^'])*'")
_DOUBLE = re.compile(r'"(?:\\"|[^"])*"')
_SAFE = re.compile(r"[A-Za-z0-9_./:@%+,=-]+\Z")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}


@dataclass(frozen=True)
class EnvEntry:
    """One variable of a file."""

    value: str = field(repr=False)
    line: int
    """Counting from 1; of the last assignment, which is the valid one."""
    written: str | None = field(default=None, repr=False)
    """The value before references to the environment were replaced: what the file decides; None where it has no reference."""
    inside: frozenset[str] = frozenset()
    """Variables of the same file that its references lead to, also through others."""
    outside: frozenset[str] = frozenset()
    """Variables of the environment that they lead to."""


@dataclass(frozen=True)
class EnvFile:
    """What a file says."""

    path: Path
    entries: dict[str, EnvEntry] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    """What was ignored, in plain words with file and line, never with a value."""


def read_env(path: Path) -> EnvFile:
    """Read a `.env` file; a missing file is empty. References `${NAME}` in values are replaced, as python-dotenv does.

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
        line = _line_of(binding)
        if binding.error:
            notices.append(f"{path}:{line}: {_fault(binding)}, and is ignored")
        elif binding.key is not None and binding.value is not None:
            if binding.key in lines:
                notices.append(
                    f"{path}:{line}: {binding.key} is set again; the value on line {lines[binding.key]} does not count"
                )
            lines[binding.key] = line
            pairs.append((binding.key, "" if _is_comment(binding) else binding.value))
    entries = _resolved(pairs, path)
    return EnvFile(path, {name: replace(entries[name], line=line) for name, line in lines.items()}, tuple(notices))


def _resolved(pairs: Iterable[tuple[str, str]], path: Path) -> dict[str, EnvEntry]:
    """The values with their references replaced, as python-dotenv does: by earlier values, else by the environment's."""
    from dotenv.variables import Variable, parse_variables

    known: dict[str, str | None] = dict(os.environ)
    found: dict[str, EnvEntry] = {}
    size = 0
    for name, value in pairs:
        parts, written = [], []
        inside, outside = set[str](), set[str]()
        for atom in parse_variables(value):
            parts.append(atom.resolve(known))
            written.append(parts[-1])
            if not isinstance(atom, Variable):
                continue
            if (entry := found.get(atom.name)) is not None:
                inside |= {atom.name, *entry.inside}
                outside |= entry.outside
                written[-1] = entry.value if entry.written is None else entry.written
            else:
                outside.add(atom.name)
                written[-1] = f"${{{atom.name}}}" if atom.default is None else f"${{{atom.name}:-{atom.default}}}"
            size += len(parts[-1])
            if size > MAX_BYTES:
                raise InputError(
                    f"the references in this file make it larger than {MAX_BYTES:,} characters",
                    fix=f"Look at the value of {name}: it repeats others again and again.",
                    where=Location(str(path)),
                )
        known[name] = text = "".join(parts)
        found[name] = EnvEntry(text, 0, "".join(written) if inside or outside else None, frozenset(inside), frozenset(outside))
    return found


def set_value(path: Path, name: str, value: str) -> None:
    """Give `name` a value in the file, which is made if need be, with mode 0600.

    Raises:
        InputError: The name cannot be a variable's, such a file cannot hold the value, or the file cannot be read or written. It
            is then unchanged.
    """
    _check_name(name)
    _change(path, lambda text: with_value(text, name, value, file=str(path)))


def unset_value(path: Path, name: str) -> bool:
    """Remove every assignment of `name` from the file. Returns whether there was one.

    Raises:
        InputError: The file cannot be read or written. It is then unchanged.
    """
    _check_name(name)
    found = False

    def without(text: str) -> str:
        nonlocal found
        kept = without_value(text, name)
        found = kept != text
        return kept

    _change(path, without, create=False)
    return found


def with_value(text: str, name: str, value: str, *, file: str = ".env") -> str:
    """The text of a `.env` file with this value for `name`.

    The last assignment is changed, since the last one counts. A new one goes below a commented-out `# NAME=`, else to the end.

    Raises:
        InputError: The value cannot be kept in such a file.
    """
    _check_value(name, value, file)
    bindings = _bindings(text)
    pieces = [binding.original.string for binding in bindings]
    newline = "\r\n" if "\r\n" in text else "\n"
    at = max((index for index, binding in enumerate(bindings) if binding.key == name and not binding.error), default=None)
    if at is not None:
        pieces[at] = _changed(pieces[at], value)
    else:
        line = f"{name}={_quoted(value, '')}{newline}"
        example = re.compile(rf"#\s*(?:export\s+)?{re.escape(name)}\s*=.*")
        after = next((index for index, piece in enumerate(pieces) if example.fullmatch(piece.strip())), len(pieces) - 1)
        if after >= 0 and pieces[after] and not pieces[after].endswith(("\n", "\r")):
            pieces[after] += newline
        pieces.insert(after + 1, line)
    changed = "".join(pieces)
    _verify(text, changed, name, value, file)
    return changed


def without_value(text: str, name: str) -> str:
    """The text of a `.env` file without any assignment of `name`; blank lines and comments before it stay."""
    pieces: list[str] = []
    for binding in _bindings(text):
        piece = binding.original.string
        if binding.key == name and not binding.error:
            piece = piece[: len(piece) - len(piece.lstrip())]
            piece = piece[: max(piece.rfind("\n"), piece.rfind("\r")) + 1]
        pieces.append(piece)
    return "".join(pieces)


def _read(path: Path) -> str | None:
    """The file's text with its own line ends and without a byte order mark."""
    try:
        path.stat()
    except FileNotFoundError:
        return None
    except OSError:
        pass  # the reader says why
    data = read_bytes(path, limit=MAX_BYTES)
    text = decode(data, str(path))
    _check_bounds(text, path)
    # `decode` makes every line end a newline; an edit must not, so the original is taken where it is plain UTF-8.
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return text


def _check_bounds(text: str, path: Path) -> None:
    """Refuse what python-dotenv takes very long to read: too many lines, references, or blanks in a row."""
    for found, most, what in (
        (text.count("\n") + 1, MAX_LINES, "lines"),
        (text.count("${"), MAX_REFERENCES, "references to other variables"),
    ):
        if found > most:
            raise InputError(
                f"this file has too many {what} for settings: {found:,}",
                fix=f"At most {most:,} are read.",
                where=Location(str(path)),
            )
    if wide := _WIDE_GAP.search(text):
        line = text.count("\n", 0, wide.start()) + 1
        raise InputError("this line has a thousand blanks in a row", fix="Take them out.", where=Location(str(path), line))


def _change(path: Path, edit: _Edit, *, create: bool = True) -> None:
    target = Path(os.path.realpath(path))
    if not create and not target.exists():
        return
    with file_lock(target):
        text = _read(target)
        before = b"" if text is None else target.read_bytes()
        mark = b"\xef\xbb\xbf" if before.startswith(b"\xef\xbb\xbf") else b""
        if text is not None and mark + text.encode() != before:
            raise InputError(
                "this file is not UTF-8 and is not changed", fix="Save it as UTF-8 first.", where=Location(str(path))
            )
        changed = edit(text or "")
        if text is None or changed != text:
            write_atomic(target, mark + changed.encode(), mode=0o600)
        elif stat.S_IMODE(target.stat().st_mode) & 0o077:
            write_atomic(target, before, mode=0o600)


def _bindings(text: str) -> list[Binding]:
    from dotenv.parser import parse_stream

    return list(parse_stream(io.StringIO(text, newline="")))


def _line_of(binding: Binding) -> int:
    # A binding begins with the blank lines before it.
    string = binding.original.string
    return binding.original.line + len(re.findall(r"\r\n|\n|\r", string[: len(string) - len(string.lstrip())]))


def _is_comment(binding: Binding) -> bool:
    """`NAME= # get it at ...`: python-dotenv takes the comment for the value; a shell does not."""
    head = _HEAD.match(binding.original.string)
    return head is not None and head[0].endswith((" ", "\t")) and binding.original.string.startswith("#", head.end())


def _fault(binding: Binding) -> str:
    """Why the parser could not read it."""
    piece = binding.original.string
    head = _HEAD.match(piece)
    if head is None or head["given"] is None or not piece.startswith(("'", '"'), head.end()):
        return "this is not NAME=value"
    quoted = (_SINGLE if piece[head.end()] == "'" else _DOUBLE).match(piece, head.end())
    if quoted is None or "\n" in quoted[0]:
        return f"the quote {piece[head.end()]} is not closed in this value"
    return "text follows the closing quote of this value"


def _changed(piece: str, value: str) -> str:
    head = _HEAD.match(piece)
    assert head is not None  # the parser found a key here
    start, rest = head[0], piece[head.end() :]
    if head["given"] is None:
        start += "="
    quote = rest[:1] if rest[:1] in ("'", '"') else ""
    if quote:
        match = (_SINGLE if quote == "'" else _DOUBLE).match(rest)
        assert match is not None
        tail = rest[match.end() :]
    else:
        line = re.match(r"[^\r\n]*", rest)
        assert line is not None
        body = line[0]
        comment = re.search(r"\s+#.*", body)
        if body.startswith("#") and start.endswith((" ", "\t")):
            start, tail = start.rstrip(" \t"), " " + body
        else:
            tail = comment[0] if comment else body[len(body.rstrip()) :]
        tail += rest[line.end() :]
    if not value and tail.strip():
        return f"{start}''{tail}"  # nothing but a comment behind the sign: some readers would take it for the value
    return start + _quoted(value, quote) + tail


def _quoted(value: str, style: str) -> str:
    plain = _SAFE.match(value) is not None or value == ""
    if style == "" and plain:
        return value
    if style != '"' and not re.search(r"['\\\r\n]", value):
        return f"'{value}'"
    return '"' + "".join(_ESCAPES.get(character, character) for character in value) + '"'


def _check_name(name: str) -> None:
    if not VARIABLE_NAME.match(name):
        raise InputError(f"{name!r} cannot be the name of a variable", fix="Use letters, digits and _, with no digit first.")


def _check_value(name: str, value: str, file: str) -> None:
    bad = next(
        (character for character in value if character not in "\t\n\r" and (ord(character) < 32 or ord(character) == 127)), None
    )
    if bad is not None or any("\ud800" <= character <= "\udfff" for character in value):
        shown = "half a character" if bad is None else f"the control character U+{ord(bad):04X}"
        raise InputError(f"the value of {name} holds {shown}", fix="Copy it again.", where=Location(file))


def _verify(before: str, after: str, name: str, value: str, file: str) -> None:
    from dotenv.main import resolve_variables

    def pairs(text: str) -> list[tuple[str, str | None]]:
        return [(binding.key, binding.value) for binding in _bindings(text) if binding.key is not None and not binding.error]

    others = [pair for pair in pairs(before) if pair[0] != name] == [pair for pair in pairs(after) if pair[0] != name]
    mine = dict(pairs(after)).get(name)
    if others and mine == value and resolve_variables([(name, value)], override=True)[name] == value:
        return
    if "${" in value:
        raise InputError(
            f"a value with ${{...}} in it cannot be kept in such a file: {name}",
            why="Programs that read it would take that for a reference to another variable.",
            fix="Set it in the environment instead.",
            where=Location(file),
        )
    raise InputError(
        f"{name} cannot be set in this file without harm to the rest of it",
        why="A quote that is never closed, or a line that is not NAME=value, prevents it.",
        fix="Correct the file in an editor first.",
        where=Location(file),
    )
