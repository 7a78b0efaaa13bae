"""A text that matches a regular expression, for the patterns that schemas commonly hold."""

from __future__ import annotations

from collections.abc import Iterator

_CLASSES = {"d": "0123456789", "w": "abcdefghijklmnopqrstuvwxyz0123456789_", "s": " "}
_OUTSIDE = {"D": "x", "W": "-", "S": "x"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_MOST = 64
_DEEPEST = 40


def sample_matches(pattern: str, least: int = 0) -> Iterator[str]:
    """Texts that are meant to match, the shortest first; the caller checks.

    Understood are literals, classes, groups, alternatives and repetitions; of look-arounds and back-references only that they
    are there. Nothing is raised on a pattern that is none.

    Args:
        pattern: The regular expression.
        least: The shortest length that is of use; open repetitions are stretched towards it.
    """
    if len(pattern) > 2000:
        return
    for repeat in dict.fromkeys((1, min(max(least, 3), _MOST), min(least + 1, _MOST))):
        try:
            text = _Sampler(pattern, repeat).alternatives(0)
        except (IndexError, ValueError):
            return
        yield text


class _Sampler:
    def __init__(self, pattern: str, repeat: int) -> None:
        self.pattern = pattern
        self.repeat = repeat
        self.at = 0

    def alternatives(self, depth: int) -> str:
        """The first alternative that is not empty, up to the end or a closing parenthesis; the others are read over."""
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        found = self.sequence(depth)
        while self.at < len(self.pattern) and self.pattern[self.at] == "|":
            self.at += 1
            other = self.sequence(depth)
            found = found or other
        return found

    def sequence(self, depth: int) -> str:
        text = ""
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            piece = self.piece(depth)
            times = self.times()
            text += piece * times
            if len(text) > 4096:
                raise ValueError("too long")
        return text

    def piece(self, depth: int) -> str:
        character = self.pattern[self.at]
        self.at += 1
        if character in "^$":
            return ""
        if character == ".":
            return "a"
        if character == "\\":
            return self.escape()
        if character == "[":
            return self.one_of()
        if character == "(":
            return self.group(depth)
        return character

    def escape(self) -> str:
        character = self.pattern[self.at]
        self.at += 1
        if character in _CLASSES:
            return _CLASSES[character][0] if character != "d" else "1"
        if character in _OUTSIDE:
            return _OUTSIDE[character]
        if character in "bBAZz":
            return ""
        if character in "xu":
            length = 2 if character == "x" else 4
            digits = self.pattern[self.at : self.at + length]
            self.at += length
            return chr(int(digits, 16))
        return _CONTROLS.get(character, character)

    def one_of(self) -> str:
        negated = self.pattern[self.at] == "^"
        self.at += negated
        members: list[str] = []
        first = True
        while first or self.pattern[self.at] != "]":
            first = False
            members += self.member()
        self.at += 1
        if not negated:
            return members[0]
        return next(character for character in "axX1-_ ,." if character not in members)

    def member(self) -> list[str]:
        character = self.pattern[self.at]
        self.at += 1
        if character == "\\":
            letter = self.pattern[self.at]
            if letter in _CLASSES:
                self.at += 1
                return list(_CLASSES[letter])
            low = self.escape()
        else:
            low = character
        if self.pattern[self.at] == "-" and self.pattern[self.at + 1] != "]":
            self.at += 1
            high = self.pattern[self.at]
            self.at += 1
            if high == "\\":
                high = self.escape()
            return [chr(code) for code in range(ord(low), min(ord(high), ord(low) + 255) + 1)] or [low]
        return [low]

    def group(self, depth: int) -> str:
        around = False
        if self.pattern.startswith("?", self.at):
            if self.pattern.startswith(("?=", "?!", "?<=", "?<!"), self.at):
                around = True
                self.at += 3 if self.pattern.startswith(("?<=", "?<!"), self.at) else 2
            elif self.pattern.startswith(("?P<", "?<"), self.at):
                self.at = self.pattern.index(">", self.at) + 1
            else:
                self.at = self.pattern.index(":", self.at) + 1
        text = self.alternatives(depth + 1)
        if self.pattern[self.at] != ")":
            raise ValueError("a group is not closed")
        self.at += 1
        return "" if around else text

    def times(self) -> int:
        if self.at >= len(self.pattern):
            return 1
        character = self.pattern[self.at]
        if character in "*+?":
            self.at += 1
            self.lazy()
            return 1 if character == "?" else max(self.repeat, 1)
        if character == "{":
            end = self.pattern.find("}", self.at)
            low, comma, high = self.pattern[self.at + 1 : end].partition(",")
            if end > 0 and low.isdigit() and (high.isdigit() or not high):
                self.at = end + 1
                self.lazy()
                wanted = max(int(low), self.repeat) if comma else int(low)
                return min(wanted, int(high)) if high else min(wanted, 4096)
        return 1

    def lazy(self) -> None:
        if self.at < len(self.pattern) and self.pattern[self.at] in "?+":
            self.at += 1
