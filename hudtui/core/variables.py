"""Variables in the texts of a task or a platform.

`$X`, `${X}`, `${X:default}`, `${X:-default}`, and `$$` for a dollar sign. Every other dollar sign
is ordinary text. A default may itself hold variables. It is used when the variable is unset or
empty. Values are inserted as they are and never scanned again, so a secret that contains a dollar
sign stays intact. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Lookup = Callable[[str], str | None]
"""Returns the value of a variable, or None if it has none."""

EPISODE_DIR = "EPISODE_DIR"
"""A folder of the episode's own: a copy of the folder that its default names, else an empty one."""
EPISODE_ID = "EPISODE_ID"
"""A text that no other episode has: letters, digits, `-`."""
EPISODE_PORT = "EPISODE_PORT"
"""A port of this computer that is free when the episode begins."""
EPISODE_VARIABLES = frozenset((EPISODE_DIR, EPISODE_ID, EPISODE_PORT))
"""Variables that have another value in every episode; those of the settings never count."""

Reference = tuple[str, str]
"""A variable's name, and its default with the variables in it put in; empty without one."""

_MARK = re.compile(
    r"(?P<dollar>\$\$)"
    r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\$\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?P<end>\}|:-?)"
    r"|(?P<close>\})"
)


def substitute(
    text: str, lookup: Lookup, *, seen: Callable[[Reference], None] | None = None
) -> tuple[str, tuple[str, ...]]:
    """`text` with its variables replaced.

    Args:
        text: Any text.
        lookup: Gives the value of a name.
        seen: Gets each reference.

    Returns:
        The new text, and the names that have neither value nor default, each once, in order of
        appearance. Such a reference stays in the text as written.
    """
    if "$" not in text:
        return text, ()
    parts: list[str] = []
    unresolved: list[str] = []
    # References whose default is being read: name, where their parts begin, how many names were
    # unresolved then.
    opened: list[tuple[str, int, int]] = []
    place = 0
    for match in _MARK.finditer(text):
        parts.append(text[place : match.start()])
        place = match.end()
        if match["dollar"]:
            parts.append("$")
        elif match["close"]:
            if not opened:
                parts.append("}")
                continue
            name, start, count = opened.pop()
            value = lookup(name)
            if seen is not None:
                seen((name, "".join(parts[start + 1 :])))
            if value:
                parts[start:] = [value]
                del unresolved[count:]
            else:
                parts[start] = ""  # the opening goes, the default after it stays
        elif match["braced"] and match["end"] != "}":
            opened.append((match["braced"], len(parts), len(unresolved)))
            parts.append(match[0])
        else:
            name = match["bare"] or match["braced"]
            value = lookup(name)
            if seen is not None:
                seen((name, ""))
            if value is None:
                unresolved.append(name)
            parts.append(match[0] if value is None else value)
    parts.append(text[place:])
    return "".join(parts), tuple(dict.fromkeys(unresolved))


def substitute_tree(
    value: Any, lookup: Lookup, *, seen: Callable[[Reference], None] | None = None
) -> tuple[Any, tuple[str, ...]]:
    """`substitute` for every text in nested dicts, lists and tuples (tuples become lists).

    Keys and other values stay as they are. The argument is not changed.
    """
    unresolved: dict[str, None] = {}
    holder: list[Any] = [None]
    # A stack of its own: what comes from a file may be nested deeper than Python likes to recurse.
    work: list[tuple[Any, Any, Any]] = [(value, holder, 0)]
    while work:
        item, parent, key = work.pop()
        if isinstance(item, str):
            parent[key], names = substitute(item, lookup, seen=seen)
            unresolved.update(dict.fromkeys(names))
        elif isinstance(item, Mapping):
            parent[key] = made = dict.fromkeys(item)
            work.extend((child, made, name) for name, child in reversed(list(item.items())))
        elif isinstance(item, (list, tuple)):
            parent[key] = copy = [None] * len(item)
            work.extend((item[index], copy, index) for index in range(len(item) - 1, -1, -1))
        else:
            parent[key] = item
    return holder[0], tuple(unresolved)


def variable_names(value: Any) -> tuple[str, ...]:
    """Every variable that a text or nested data refers to, each once, also those with a default."""
    names: dict[str, None] = {}

    def note(name: str) -> None:
        names[name] = None

    substitute_tree(value, note)
    return tuple(names)


def references(value: Any, lookup: Lookup) -> tuple[Reference, ...]:
    """Every reference to a variable in a text or in nested data, as often as it stands there."""
    noted: list[Reference] = []
    substitute_tree(value, lookup, seen=noted.append)
    return tuple(noted)


def lookup_in_any_case(mapping: Mapping[str, str]) -> Lookup:
    """A lookup in a mapping of names to values.

    If the exact name is missing, a name that differs only in case is used; of several, the one in
    capitals or none.
    """
    folded: dict[str, list[str]] = {}
    for known in mapping:
        folded.setdefault(known.casefold(), []).append(known)

    def lookup(name: str) -> str | None:
        if name in mapping:
            return mapping[name]
        alike = folded.get(name.casefold(), [])
        taken = (
            alike[0]
            if len(alike) == 1
            else next((other for other in alike if other == name.upper()), None)
        )
        return None if taken is None else mapping[taken]

    return lookup
