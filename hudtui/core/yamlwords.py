"""What a YAML parser's complaints mean, in words that say what to do. Imported when there is something to complain about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hudtui.core.errors import InputError, Location

if TYPE_CHECKING:
    import yaml

_PLAIN_WORDS: tuple[tuple[str, str, str | None], ...] = (
    (
        "mapping values are not allowed",
        "a colon stands where no key can be",
        "Put quotes around text that holds a colon and a blank, and check the indentation of this line and the one before.",
    ),
    (
        "did not find expected key",
        "this line does not fit: a key of the mapping around it was expected",
        "Check its indentation, and quotes that close too early on the line before.",
    ),
    (
        "could not find expected ':'",
        "a key without a colon",
        "Write `key: value` with a blank behind the colon; check the indentation and the quotes around here.",
    ),
    (
        "did not find expected '-' indicator",
        "this line does not fit: an item of the list around it was expected",
        "Begin it with `- `, or check its indentation.",
    ),
    ("did not find expected ',' or ']'", "the list that begins here is not closed properly", "A comma or `]` is missing."),
    ("did not find expected ',' or '}'", "the mapping that begins here is not closed properly", "A comma or `}` is missing."),
    ("expected ',' or ']'", "the list that begins here is not closed properly", "A comma or `]` is missing."),
    ("expected ',' or '}'", "the mapping that begins here is not closed properly", "A comma or `}` is missing."),
    ("found unexpected end of stream", "the quote that opens here is never closed", None),
    ("found unknown escape character", "unknown escape in double quotes", "Write a backslash as `\\\\`, or use single quotes."),
    ("did not find expected hexdecimal number", "an escape in double quotes lacks its digits", "Write a backslash as `\\\\`."),
    (
        "found invalid Unicode character escape code",
        "an escape in double quotes stands for half a character",
        "Write the character itself, or its full number: \\U0001f600.",
    ),
    ("found a tab character", "a tab stands in the indentation", "Use blanks; YAML allows no tabs there."),
    ("did not find expected <document start>", "text behind the end of the document", "Check the indentation of this line."),
    ("did not find expected node content", "a value is missing here", None),
    (
        "block sequence entries are not allowed",
        "a list cannot begin here",
        "Put it on a line of its own, indented below its key.",
    ),
    ("found undefined tag handle", "a tag that is not supported", 'Text that begins with "!" needs quotes.'),
    ("found duplicate anchor", "this anchor is defined twice", None),
)
_AT_OPENING = (
    "did not find expected ',' or",
    "expected ',' or",
    "found unexpected end of stream",
    "could not find expected ':'",
)
_BAD_START = {
    "\t": ("a tab stands in the indentation", "Use blanks; YAML allows no tabs there."),
    "%": ('text cannot begin with "%"', "Put quotes around it."),
    "@": ('text cannot begin with "@"', "Put quotes around it."),
    "`": ('text cannot begin with "`"', "Put quotes around it."),
}


def explained(error: yaml.MarkedYAMLError, text: str, name: str) -> InputError:
    """The parser's complaint in words that say what to do."""
    problem = error.problem or "this is not valid YAML"
    at = error.problem_mark or error.context_mark
    what, why, fix = "this is not valid YAML", problem, None
    for words, plain, advice in _PLAIN_WORDS:
        if words in problem:
            what, fix = plain, advice
            if error.context_mark is not None and any(opening in problem for opening in _AT_OPENING):
                at = error.context_mark
            break
    if at is None:
        return InputError(what, why=why, where=Location(name))
    lines = text.split("\n")
    line = lines[at.line] if at.line < len(lines) else ""
    character = line[at.column : at.column + 1]
    if "did not find expected key" in problem and line[: at.column].strip():
        opening = _quote_before(text, at.line, at.column)
        if opening is not None:
            what = f"the quote that opens here is closed only on line {at.line + 1}, and more text stands behind it"
            fix = "Close the quote where the value ends; a quote inside single quotes is written twice."
            return InputError(what, fix=fix, where=Location(name, opening[0] + 1, opening[1] + 1))
        what = "something stands behind the end of a value"
        fix = "Put quotes around the whole value; a quote inside single quotes is written twice."
    if "did not find expected node content" in problem and not "\n".join([line[at.column :], *lines[at.line + 1 :]]).strip():
        what, fix = "the text ends in the middle of a list or mapping", "A closing `]` or `}` is missing."
    if "cannot start any token" in problem:
        what, fix = _BAD_START.get(character, (f"text cannot begin with {character!r}", "Put quotes around it."))
    elif "\t" in line[: len(line) - len(line.lstrip())] and "quote" not in what:
        what, fix = _BAD_START["\t"]
    return InputError(what, why=f"The parser says: {why}.", fix=fix, where=Location(name, at.line + 1, at.column + 1))


def _quote_before(text: str, row: int, column: int) -> tuple[int, int] | None:
    """Line and column, from 0, of a quote that opens on an earlier line and closes right before a place; None for any other."""
    import yaml

    last: Any = None
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if type(event) is yaml.ScalarEvent and event.style in ("'", '"'):
                last = event
    except yaml.YAMLError:
        pass
    if last is None or last.end_mark.line != row or last.start_mark.line == row:
        return None
    between = text.split("\n")[row][last.end_mark.column : column]
    return None if between.strip() else (last.start_mark.line, last.start_mark.column)
