from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.text import clean, clean_line, did_you_mean


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("žluťoučký 漢字 🙂", "žluťoučký 漢字 🙂"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mred", "red"),
        ("\x1b[2J\x1b[H\x1b[?1049hscreen", "screen"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]0;title\x1b\\after", "after"),
        ("\x1b]52;c;ZXZpbA==\x07after", "after"),  # would fill the clipboard
        ("\x1b]8;;http://x.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9d0;title\x9cafter", "after"),
        ("\x1bP+q544e\x1b\\after", "after"),
        ("\x1b_Gf=100;AAAA\x1b\\after", "after"),  # an image of the kitty terminal
        ("\x1bc\x1b7\x1b8\x1b(0after", "after"),
        ("\x1b[6n\x05after", "after"),  # would make the terminal type an answer
        ("bell\x07 back\x08space\x00\x7f", "bell backspace"),
        ("a\u202eevil\u202c\u2066b\u2069", "aevilb"),
        ("zero\ufeffwidth", "zerowidth"),
        ("invisible\U000e0041tag", "invisibletag"),
        ("half \ud83d a character", "half \ufffd a character"),
        ("one\u2028two\u2029three", "one\ntwo\nthree"),
        ("crlf\r\nline", "crlf\nline"),
        (" 10%\r 50%\r100%\nnext", "100%\nnext"),
        ("done\r", "done"),
        ("\x1b[31", "31"),
        ("\x1b", ""),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_an_opening_without_an_end_swallows_nothing() -> None:
    assert clean("\x1b]0;title\nfirst\nsecond") == "0;title\nfirst\nsecond"
    assert (
        clean("\x9dclosing quotes in the wrong encoding\x9d and the rest")
        == "closing quotes in the wrong encoding and the rest"
    )


@given(
    st.text(alphabet="\x1b\x9b\x9d\x90\x9c\x07[]P_\\;?0m2J\r\n\t ax\u202e\ud800\u2028é")
    | st.text(st.characters())
)
@settings(max_examples=500, deadline=None)
def test_nothing_that_a_terminal_would_obey_is_left(text: str) -> None:
    shown = clean(text)
    assert all(
        character.isprintable() or character in "\t\n" or not character.isascii()
        for character in shown
    )
    assert not set(shown) & set(
        map(chr, [*range(9), *range(11, 32), *range(127, 160), 0x202E, 0xFEFF])
    )
    shown.encode()
    assert clean(shown) == shown
    line = clean_line(text)
    assert "\n" not in line
    assert line == line.strip()


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_ordinary_text_is_untouched(text: str) -> None:
    assert clean(text) == text


def test_clean_line() -> None:
    assert clean_line("  two\n\n lines \x1b[31m ") == "two lines"
    assert clean_line("abcdef", 6) == "abcdef"
    assert clean_line("abcdefg", 6) == "abcde…"
    assert clean_line("x" * 10_000_000, 5) == "xxxx…"


@pytest.mark.parametrize(
    "piece", ["\x1b]", "\x1b[", "\x9d", "\x1b[0", "\x1bP;", "\r", "\x1b]a\x1b", "\x9b;"]
)
def test_time_grows_with_the_length_only(piece: str) -> None:
    def cost(size: int) -> float:
        text = piece * (size // len(piece)) + "a" * size
        best = 9.0
        for _ in range(3):
            start = time.process_time()
            clean(text)
            best = min(best, time.process_time() - start)
        return best

    assert cost(500_000) < 40 * cost(50_000) + 0.05


def test_nearest() -> None:
    assert did_you_mean("clik", ["click", "wait"]) == "click"
    assert did_you_mean("zoom", {"click": 1, "wait": 2}) is None
    assert did_you_mean("click", []) is None
    assert did_you_mean("clik", ["click"], cutoff=0.95) is None
