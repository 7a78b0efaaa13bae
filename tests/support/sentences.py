"""The sentences of a Markdown page, as a reader counts their words."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_BEGINS = re.compile(r"^ *(?:[-*] |\d+\. |#+ |> ?|\||$)")
_BREAK = re.compile(r"(?<=[.!?])[\"')*_]*\s+")
_WORD = re.compile(r"[^\W_]")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|No)\.", re.IGNORECASE)


def paragraphs(text: str) -> Iterator[str]:
    """Yield what stands on its own: paragraphs, items of lists, headings and cells of tables."""
    text = _CODE.sub("§", _FENCED.sub("\n", text))
    held: list[str] = []
    for line in [*text.splitlines(), ""]:
        if _BEGINS.match(line):
            if held:
                yield " ".join(held)
            held = []
            if line.lstrip().startswith("|"):
                yield from (
                    cell.strip() for cell in line.replace("\\|", "/").strip(" |").split("|")
                )
                continue
        if line.strip():
            held.append(line.strip())


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences. A piece of code is one word, §."""
    for paragraph in paragraphs(text):
        plain = _ABBREVIATION.sub("etc", _LINK.sub(r"\1", paragraph))
        yield from _BREAK.split(plain)


def length(sentence: str) -> int:
    """The number of words."""
    return sum(bool(_WORD.search(word) or "§" in word) for word in sentence.split())
