from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.remote.host import FileChunk
from hudtui.core.remote.logs import LineSplitter
from hudtui.core.text import clean


def feed(*pieces: bytes, limit: int = 100) -> tuple[list[str], str]:
    lines, offset, done, partial = LineSplitter(limit=limit), 0, [], ""
    for piece in pieces:
        found = lines.feed(FileChunk(offset, piece))
        assert not found.restarted
        offset += len(piece)
        done += found.done
        partial = found.partial
    assert lines.offset == offset
    return done, partial


@pytest.mark.parametrize(
    ("data", "done", "partial"),
    [
        (b"", [], ""),
        (b"a\nb\n", ["a", "b"], ""),
        (b"a\n\nb", ["a", ""], "b"),
        (b"\n", [""], ""),
        (b"a\r\nb\r\n", ["a", "b"], ""),
        (b" 10%\r 50%\r100%\ndone\n", ["100%", "done"], ""),
        (b" 10%\r 50%\r", [], " 50%"),
        (b"bad \xff\xfe utf\n", ["bad \ufffd\ufffd utf"], ""),
        ("äöü → 日本\n".encode(), ["äöü → 日本"], ""),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07end\n", ["red end"], ""),
        (b"\x1b]52;c;aGVsbG8=\x1b\\safe\n", ["safe"], ""),
        ("c1 \x9b31mred \x9d0;t\x9c.\n".encode(), ["c1 red ."], ""),
        (b"bell\x07 null\x00 back\x08\n", ["bell null back"], ""),
        ("flip \u202eabc\n".encode(), ["flip abc"], ""),
        (b"tab\there\n", ["tab\there"], ""),
    ],
)
def test_bytes_become_safe_lines(data: bytes, done: list[str], partial: str) -> None:
    assert feed(data) == (done, partial)
    pieces = [bytes([byte]) for byte in data]
    assert feed(*pieces) == (done, partial), "also when they come one by one"


def test_overlong_lines_are_cut_and_say_so() -> None:
    done, _ = feed(b"x" * 250 + b"\nshort\n")
    assert done == ["x" * 100 + " … [150 bytes more]", "short"]
    # Over many chunks, more than is kept.
    done, _ = feed(*[b"y" * 90] * 20, b"\nshort\n")
    assert done == ["y" * 100 + " … [1700 bytes more]", "short"]
    done, partial = feed(*["ü".encode() * 90] * 2)
    assert (done, partial) == ([], "ü" * 100 + " … [160 bytes more]")


@pytest.mark.parametrize("size", [1000, 5000, 300_000])
def test_a_progress_bar_after_an_overlong_line_starts_afresh(size: int) -> None:
    assert feed(b"z" * size, b"\r50%") == ([], "50%")
    assert feed(b"z" * size + b"\r", b"60%", b"\n") == (["60%"], "")
    assert feed(b"z" * size + b"\r", b"\nnext") == (
        ["z" * 100 + f" … [{size - 100} bytes more]"],
        "next",
    )
    assert feed(b"z" * size, b"z" * size + b"\n") == (
        ["z" * 100 + f" … [{2 * size - 100} bytes more]"],
        "",
    )


def test_a_colour_behind_a_return_does_not_hide_the_bar() -> None:
    assert feed(b"100%\r\x1b[0m\n") == feed(b"100%\r", b"\x1b[0m", b"\n") == (["100%"], "")


def test_a_restart_is_told_and_keeps_the_unfinished_line() -> None:
    lines = LineSplitter()
    lines.feed(FileChunk(0, b"one\nhalf"))
    found = lines.feed(FileChunk(0, b"new\n"))
    assert found.restarted and found.done == ["half", "new"]
    assert not lines.feed(FileChunk(4, b"more\n")).restarted


def test_a_feed_may_begin_anywhere() -> None:
    lines = LineSplitter(offset=5000)
    found = lines.feed(FileChunk(5000, b"a\nb"))
    assert (found.done, found.partial, found.restarted) == (["a"], "b", False)


@given(st.lists(st.binary(max_size=60), max_size=12), st.integers(5, 40))
def test_where_the_chunks_end_makes_no_difference(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    assert feed(*pieces, limit=limit)[0] == feed(whole, limit=limit)[0]


PIECES = [
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[1;38:5:3m",
    "\x1b",
    "\x1b]0;t",
    "\x07",
    "[",
    "m",
    "]",
    "\x9b",
    "\x9d",
    "\x1b\\",
    "a",
    "é",
    "✓",
    "\t",
    "\x08",
]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), min_size=1, max_size=5))
def test_quick_ways_give_what_cleaning_gives(texts: list[str]) -> None:
    assert feed("".join(text + "\n" for text in texts).encode(), limit=1000)[0] == [
        clean(text) for text in texts
    ]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=30),
        max_size=8,
    )
)
def test_every_line_is_what_cleaning_makes_of_it(texts: list[str]) -> None:
    data = "".join(text + "\n" for text in texts).encode()
    assert feed(data, limit=1000)[0] == [clean(text) for text in texts]


def test_memory_is_bounded_without_line_ends() -> None:
    lines, offset = LineSplitter(limit=1000), 0
    piece = b"q" * 200_000
    tracemalloc.start()
    for _ in range(100):
        lines.feed(FileChunk(offset, piece))
        offset += len(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
    bars = b"".join(b"\r%7d" % number for number in range(20_000))
    assert lines.feed(FileChunk(offset, bars)).partial == "  19999"


def test_hostile_noise_never_leaves_a_control_character() -> None:
    chance = random.Random(11)
    data = bytes(
        chance.choices(
            range(256),
            weights=[8 if byte in (27, 155, 93, 91, 13, 10, 0xC2) else 1 for byte in range(256)],
            k=100_000,
        )
    )
    done, partial = feed(
        *[data[place : place + 997] for place in range(0, len(data), 997)], limit=2000
    )
    for line in [*done, partial]:
        assert not any(
            (ord(letter) < 32 and letter != "\t") or 127 <= ord(letter) < 160 for letter in line
        )
