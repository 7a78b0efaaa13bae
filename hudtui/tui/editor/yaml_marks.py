"""Which stretches of YAML lines are keys, texts, numbers and so on, computed for the visible lines.

tree-sitter knows the language. It is given a block of lines at a time, below the lines that the
block is nested in, so that the cost of a keystroke does not depend on the length of the file. A
text in quotes that runs over the border of a block may be taken for something else there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BLOCK = 48
"""Lines that are parsed together."""

_MOST_BLOCKS = 256
_Chain = tuple[tuple[int, str], ...]
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
    """The marks of one text that is being edited."""

    def __init__(self) -> None:
        self._parser: Any = None
        self._query: Any = None
        self._cursor: Any = None
        self._known: dict[tuple[str, ...], list[tuple[Mark, ...]]] = {}
        self._blocks: dict[int, list[tuple[Mark, ...]]] = {}
        self._chains: list[_Chain] = [()]
        """For each block, the lines above it that its content may be nested in, with their
        indentation."""

    def edited(self, row: int) -> None:
        """The text changed at this row, or from it on."""
        first = row // BLOCK
        del self._chains[first + 1 :]
        self._blocks = {number: marks for number, marks in self._blocks.items() if number < first}

    def block(self, lines: Sequence[str], number: int) -> list[tuple[Mark, ...]]:
        """The marks of each line of a block, as long as `edited` is called for every change."""
        found = self._blocks.get(number)
        if found is None:
            found = self._blocks[number] = self._made(lines, number)
        return found

    def _made(self, lines: Sequence[str], number: int) -> list[tuple[Mark, ...]]:
        own = lines[number * BLOCK : (number + 1) * BLOCK]
        first = next((line for line in own if line.strip()), "")
        depth = len(first) - len(first.lstrip(" "))
        above = [line for indent, line in self._chain(lines, number) if indent < depth]
        key = (*above, "", *own)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_BLOCKS:
                self._known.clear()
            found = self._known[key] = self._look([*above, *own])[len(above) :]
        return found

    def _chain(self, lines: Sequence[str], number: int) -> _Chain:
        while len(self._chains) <= number:
            start = (len(self._chains) - 1) * BLOCK
            self._chains.append(_chained(self._chains[-1], lines[start : start + BLOCK]))
        return self._chains[number]

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


def _chained(above: _Chain, lines: Sequence[str]) -> _Chain:
    """The chain below some lines, given the chain above them."""
    chain: list[tuple[int, str]] = []
    least = 1_000_000
    for line in reversed(lines):
        bare = line.lstrip(" ")
        depth = len(line) - len(bare)
        if depth < least and bare.strip() and bare[0] != "#":
            chain.append((depth, line))
            least = depth
            if not depth:
                break
    chain += [(depth, line) for depth, line in reversed(above) if depth < least]
    return tuple(reversed(chain))


def _in_characters(line: str, marks: list[tuple[int, int, int]]) -> tuple[Mark, ...]:
    marks.sort()
    if line.isascii():
        return tuple((start, min(end, len(line)), KINDS[rank]) for rank, start, end in marks)
    data = line.encode("utf-8", "replace")
    return tuple(
        (
            len(data[:start].decode("utf-8", "replace")),
            len(data[:end].decode("utf-8", "replace")),
            KINDS[rank],
        )
        for rank, start, end in marks
    )
