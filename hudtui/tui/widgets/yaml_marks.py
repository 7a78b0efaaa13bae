"""Which stretches of YAML lines are keys, texts, numbers and so on, worked out for what is in sight.

tree-sitter knows the language. It is given a block of lines at a time, below the lines that the block is nested in, so that the
cost of a keystroke does not depend on the length of the file. A text in quotes that runs over the border of a block may be taken
for something else there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BLOCK = 48
"""Lines looked at together."""

_MOST_BLOCKS = 256
Mark = tuple[int, int, str]
"""Start and end as characters of the line, and a name of `KINDS`."""

KINDS = ("text", "number", "word", "anchor", "punctuation", "key", "comment")
"""Later ones win."""

_QUERY = """
(boolean_scalar) @word
(null_scalar) @word
(double_quote_scalar) @text
(single_quote_scalar) @text
(string_scalar) @text
(integer_scalar) @number
(float_scalar) @number
(comment) @comment
(anchor_name) @anchor
(alias_name) @anchor
(tag) @anchor
(block_mapping_pair key: (flow_node) @key)
(flow_pair key: (flow_node) @key)
["," "-" ":" ">" "?" "|" "[" "]" "{" "}" "*" "&" "---" "..."] @punctuation
"""


class YamlMarks:
    """Gives the marks of lines and remembers them by what the lines say."""

    def __init__(self) -> None:
        self._parser: Any = None
        self._query: Any = None
        self._cursor: Any = None
        self._known: dict[tuple[str, ...], list[tuple[Mark, ...]]] = {}

    def block(self, lines: Sequence[str], number: int) -> list[tuple[Mark, ...]]:
        """The marks of each line of a block."""
        start = number * BLOCK
        own = lines[start : start + BLOCK]
        above = _ancestors(lines, start, own)
        key = (*above, "", *own)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_BLOCKS:
                self._known.clear()
            found = self._known[key] = self._look([*above, *own])[len(above) :]
        return found

    def _look(self, lines: Sequence[str]) -> list[tuple[Mark, ...]]:
        if self._parser is None:
            self._load()
        tree = self._parser.parse(("\n".join(lines) + "\n").encode("utf-8", "replace"))
        found: list[list[tuple[int, int, int]]] = [[] for _ in lines]
        for name, nodes in self._cursor(self._query).captures(tree.root_node).items():
            rank = KINDS.index(name)
            for node in nodes:
                (first, column), (last, end) = node.start_point, node.end_point
                for row in range(first, min(last, len(lines) - 1) + 1):
                    begin = column if row == first else 0
                    stop = end if row == last else 1_000_000
                    if stop > begin:
                        found[row].append((rank, begin, stop))
        return [_in_characters(line, marks) for line, marks in zip(lines, found, strict=True)]

    def _load(self) -> None:
        import tree_sitter_yaml
        from tree_sitter import Language, Parser, Query, QueryCursor

        language = Language(tree_sitter_yaml.language())
        self._parser = Parser(language)
        self._query = Query(language, _QUERY)
        self._cursor = QueryCursor


def _ancestors(lines: Sequence[str], start: int, own: Sequence[str]) -> list[str]:
    """The lines above a block that it is nested in, outermost first."""
    first = next((line for line in own if line.strip()), "")
    depth = len(first) - len(first.lstrip(" "))
    if not depth:
        # Nothing but blank lines, or the top: a block scalar may still go on below a comment, which is no harm.
        return []
    above: list[str] = []
    margin = " " * depth
    for row in range(start - 1, -1, -1):
        line = lines[row]
        if line.startswith(margin):
            continue
        bare = line.lstrip(" ")
        if not bare or bare[0] == "#":
            continue
        above.append(line)
        depth = len(line) - len(bare)
        if not depth:
            break
        margin = " " * depth
    return above[::-1]


def _in_characters(line: str, marks: list[tuple[int, int, int]]) -> tuple[Mark, ...]:
    marks.sort()
    if line.isascii():
        return tuple((start, min(end, len(line)), KINDS[rank]) for rank, start, end in marks)
    data = line.encode("utf-8", "replace")
    return tuple(
        (len(data[:start].decode("utf-8", "replace")), len(data[:end].decode("utf-8", "replace")), KINDS[rank])
        for rank, start, end in marks
    )
