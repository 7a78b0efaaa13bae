"""Reads metrics from the lines of any log.

It recognises JSON objects, the dictionaries that TRL, transformers and verifiers print, the step
lines of prime-rl, verl and torchtune, the results that NeMo RL prints one below the other, the
statistics of vLLM, progress bars followed by numbers, and plain `key=value`. A line counts only if
it has a known quantity (`metrics.QUANTITIES`) or a step: a port number is not a metric.

The step of a line is the one that it names. A line that names none has the step of the progress bar
of the training around it, or else its epoch tells the step: lines of one epoch are one step.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hudtui.core.training.metrics import (
    LAST_STEPS,
    STEPS,
    Epoch,
    MetricsReader,
    NotFiniteStreak,
    Point,
    is_number,
    of_evaluation,
    quantity_named,
    step_of,
    sums_up,
)

_LONGEST = 20_000
"""Most characters of a line that are read."""
_MOST = 200
"""Most numbers that are read from a line."""

_FIELDS = 2_000
"""Most fields that are read from a JSON object."""
_LONGEST_OBJECT = 256 * 1024
"""Most characters of a line that is a JSON object."""

_GROUPED = (
    r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?|[1-9]\d{0,2}(?:['\u00a0\u2009\u202f]\d{3})+(?:[.,]\d+)?"
)
"""A number with marks between its thousands: 1,234.5 or 1'234.5."""
_COMMA = r"[1-9]\d{0,2}(?:\.\d{3})+,\d+|\d+,\d+"
"""A number with a decimal comma: 1.234,5 or 0,25."""
_VALUE = (
    rf"[-+\u2212]?(?:(?:{_GROUPED}|{_COMMA}|\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|NaN"
    r"|NAN|inf|Infinity)"
)
_MARKS = re.compile(r"[_'\u00a0\u2009\u202f]")
_COMMAS = re.compile(
    rf"[-+]?(?!{_GROUPED}(?:[eE]|$))(?:{_COMMA})(?:[eE][-+]?\d+)?|[-+]?\d+,\d{{1,2}}"
)
_ITEM = re.compile(
    rf"""(?<![\w'"])(['"])([\w./@%:+\- ]{{1,80}})\1\s*:\s*(['"]?)({_VALUE})\3\s*(?=[,}}\]])"""
)
_PAIR = re.compile(
    rf"(?<![\w./=-])([A-Za-z_][\w./@-]{{0,60}})\s?=\s?({_VALUE})(?:%|s|ms|it/s)?(?![\w.=])"
)
_SEGMENT = re.compile(
    rf"([A-Za-z][\w.@\- ]{{0,40}}?):?\s+({_VALUE})\s*(?:%|s|[A-Za-z]+(?:/[A-Za-z]+)?)?(?:\s.*)?$"
)
_SAID = re.compile(
    rf"(?<![\w./])([A-Za-z][\w./@-]{{0,60}}(?: [A-Za-z][\w./@-]{{0,60}}){{0,2}}) ?: ?({_VALUE})"
    r"(?:%|s|ms)?(?=[\s,;|)\]]|$)"
)
"""`loss: 0.5` in a line of text."""
_SECONDS = re.compile(rf"(?:Time:?\s*)?({_VALUE})s$")
_COLON = re.compile(rf"(?<!\S)([A-Za-z][\w./@%+\-:]{{0,80}}):({_VALUE})(?=\s|$)")
_STEP = re.compile(
    r"(?<!micro[ -])\b(?:global[ _-]?step|step|iteration|iter|update)\b[ \t]*[=:#]?[ \t]*"
    r"(\d{1,3}(?:[,_]\d{3})+|\d{1,12})(?!\d|\.\d)(?:[ \t]*(?:/|of)[ \t]*"
    r"(\d{1,3}(?:[,_]\d{3})+|\d{1,12}))?",
    re.I,
)
_BAR = re.compile(r"\d+%\|.*?\|\s*(\d{1,12})/(\d{1,12})\s*\[")
_EPISODE = re.compile(r"\b(?:episode|rollout|task)\s+(\d{1,12})\s*/\s*(\d{1,12})\b")
_SERVER = re.compile(
    r"(Avg prompt throughput|Avg generation throughput|Running|Waiting|[GC]PU KV cache usage"
    r"|Prefix cache hit rate)"
    rf":\s*({_VALUE})"
)
_EVALUATED = re.compile(r"\bEvaluated (\S{1,80}) in \d")
"""An evaluation of prime-rl: its numbers are of no step of the training."""
_NO_METRICS = frozenset({"pid", "rank", "local_rank", "global_rank", "world_size", "port"})
_MESSAGES = ("message", "msg", "event")
_WRAPPED = re.compile(r"(?:\b(?:np|numpy)\.(?:float|int)\d*|\btensor)\(([^(),]{1,40})[^()]{0,60}\)")
"""A number of NumPy or PyTorch, as Python writes it."""
_OF_MANY = re.compile(r"(\d{1,12})\s*/\s*(\d{1,12})")
_HEADING = re.compile(r"\W*(?:training )?step\W*(\d{1,12})(?:\W*(?:/|of)\W*(\d{1,12}))?\W*", re.I)
"""A line that names a step and nothing else: the lines below it are of that step."""
_SECTION = re.compile(r"\W*(validation|training) results\W*", re.I)
"""A line below which NeMo RL lists the results of the evaluation, or of the training."""
_COUNTED = re.compile(r"(?:^|\|)(\d{1,12})\|[^|]*$")
"""The step that torchtune writes before the loss and its bar: `1|12|Loss: 0.5: `."""
_OF_EPOCH = re.compile(r"\bepoch\W{0,3}(\d{1,6})(?:\s*(?:/|of)\s*(\d{1,6}))?", re.I)
"""An epoch before a bar that begins anew with each of them."""
_NO_STEPS = re.compile(r"eval|valid|test", re.I)
_OPENS = re.compile(r"[{,:]\s*$")
_GOES_ON = re.compile(
    r"\s*(?:['\"\]})(\[\d.+-]|(?:np|array|tensor|nan|inf|none|null|true|false)\b)", re.I
)
"""Beginning of a line that continues a printed dictionary."""
_SPEAKER = re.compile(r"^\s*\([\w .:=-]{1,80}\) ?")
"""The worker of a line, as Ray writes it."""
_LISTED = re.compile(
    rf"[^\w\n]*([A-Za-z][\w ./@:%+\-]{{0,80}}?)\s*[:│┃|]\s*({_VALUE})\s*(?:s|%)?\s*[│┃|]?\s*"
)
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])"
)
_DRAWN = re.compile(
    r"(?<!\d)\d{1,3}%\|[^|\r\n]{0,500}\|\s{0,9}(\d{1,12})/(\d{1,12})\s{0,9}\[([^\]\r\n]{0,500})\]"
)
"""A progress bar of tqdm, without what it is about."""
_ABOUT = re.compile(r"\[[^\]]*\]|\([^)]*\)|[\W\d_]+")
_TRAINS = re.compile(r"train|step|iter|epoch|progress|optim", re.I)
_HELPS = re.compile(
    r"map|load|token|process|generat|eval|filter|captur|dataset|shard|prompt|chat|template|valid"
    r"|prepar|sav|weight|gather|roll|"
    r"sampl",
    re.I,
)
_CLEARED = re.compile(r"\r {8,}\r?[^\S\r]*$|^ {8,}\r?$")
_NOTHING = re.compile(r"\r {8,}\r\r *\d")
"""A bar that was taken away for a line and drawn again, without the line."""
_RANK = re.compile(
    r"(?:\b|_)rank[ :=_]*(\d+)|\[(?:default|rank)?(\d+)\]:|\[\d+,(\d+)\]<std|^\s*(\d+):\s"
    r"|\[(?:gpu|cuda)[ :=_]?(\d+)\]|"
    r"\[pod/[^\]\s]{0,80}?-(\d+)/",
    re.I,
)
"""The process of a line, as torchrun, mpirun, srun and kubectl write it before the line."""
_RESULTS = ("reward", "loss", "eval_reward", "eval_loss")
_RANKS = ("rank", "local_rank", "global_rank", "process_index")
_BEFORE = 6
"""Most parts of a line before the one that names the step, such as a time and a level."""
_GAP = 200
"""Most lines that wait for a progress bar."""
_LONG_NAME = 120
"""Most characters of what stands before a bar."""
_LEAST = 1e-9
"""Smallest epoch from which the number of steps of an epoch is learned."""
_WIDTH = 8
"""Fewest blanks by which a bar is taken away."""
_ROOM = 64 * 1024
"""Bytes of an unfinished line from which on its progress bars are folded."""
_PIECE = 32 * 1024
"""Bytes that are taken at once: a log of progress bars alone may be one line."""


def parse_log_line(line: str) -> dict[str, float] | None:
    """Return the numbers in a line by their names there; None if the line has none.

    They include values that are not finite. The step has the name `step`, the last step of the
    training `max_steps`.
    """
    most = _LONGEST_OBJECT if line.startswith("{") else _LONGEST
    if len(line) > most or not any(mark in line for mark in ("=", ":", "|", "{")):
        return None
    if "np." in line or "numpy." in line or "tensor(" in line:
        line = _WRAPPED.sub(r"\1", line)
    found = _braces(line) if "{" in line else None
    if found is None and " - " in line and "step:" in line:
        found = {
            name: _float(value)
            for part in line[line.index("step:") :].split(" - ")
            for name, value in _COLON.findall(part)
        }
    if found is None and ("vLLM" in line or "throughput:" in line):
        found = {name: _float(value) for name, value in _SERVER.findall(line)} or None
    if found is None and "|" in line:
        found = _segments(line)
    if found is None and "=" in line:
        found = {
            name: _float(value)
            for name, value in _PAIR.findall(line)[:_MOST]
            if name not in _NO_METRICS
        }
        if found and (evaluated := _EVALUATED.search(line)) is not None:
            found = {f"eval/{evaluated[1]}/{name}": value for name, value in found.items()}
    if not found and ": " in line and _STEP.search(line) is not None:
        found = _said(line)
    if not found:
        return None
    if step_of(found) is None:
        found |= _step(line)
    counts = (
        step_of(found) is not None
        or sums_up(found)
        or any(quantity_named(name) or of_evaluation(name) for name in found)
    )
    return found if counts else None


def _said(line: str) -> dict[str, float] | None:
    """Return the numbers of `Step 12: loss: 0.5, reward: 0.25`, or None.

    One of them has to be a known quantity.
    """
    found: dict[str, float] = {}
    for name, value in _SAID.findall(line)[:_MOST]:
        words = name.split(" ")
        ends = (" ".join(words[place:]) for place in range(len(words)))
        found[next((end for end in ends if quantity_named(end)), words[-1])] = _float(value)
    return found if any(map(quantity_named, found)) else None


def _braces(line: str) -> dict[str, float] | None:
    """Return the numbers of a JSON object, or of a printed Python dictionary, in the line."""
    start, end = line.find("{"), line.rfind("}")
    if end <= start:
        return None
    text = line[start : end + 1]
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, dict):
        found = dict(_numbers(row))
        if not any(quantity_named(name) for name in found):
            for name in _MESSAGES:  # a log of JSON objects: what it says may hold the numbers
                if isinstance(said := row.get(name), str) and (inside := parse_log_line(said)):
                    return inside
        return found
    return {name: _float(value) for _, name, _, value in _ITEM.findall(text)[:_MOST]} or None


def _numbers(
    row: Mapping[str, Any], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, float]]:
    if len(row) > _FIELDS:  # the numbers that have a chart come first
        row = dict(
            sorted(
                row.items(), key=lambda one: one[0] not in STEPS and quantity_named(one[0]) is None
            )[:_FIELDS]
        )
    for name, value in row.items():
        if isinstance(value, Mapping):
            if depth < 3:
                yield from _numbers(value, f"{prefix}{name}/", depth + 1)
        elif _is_number(value):
            yield f"{prefix}{name}", _float(value)
        elif (
            name == "global_step/max_steps"
            and isinstance(value, str)
            and (match := _OF_MANY.fullmatch(value))
        ):
            yield "step", float(match[1])
            yield LAST_STEPS[0], float(match[2])


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) < 30 and re.fullmatch(_VALUE, value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _segments(line: str) -> dict[str, float] | None:
    """Return the numbers of a line such as `Step 12 | 8.31s | Loss 0.0123 | ...`.

    `Step 12 | loss:0.0123 ...` is the same: with or without colons.
    """
    parts = [part.strip() for part in line.split("|")]
    place = next(
        (place for place, part in enumerate(parts[:_BEFORE]) if _STEP.search(part) is not None),
        None,
    )
    if place is None:
        return None
    first, rest = parts[place], parts[place + 1 :]
    evaluated = any(
        re.search(r"\b(?:evaluat|validation)", part, re.I) for part in parts[: place + 1]
    )
    found, numbers = _step(first), dict[str, float]()
    for part in rest[:_MOST]:
        if match := _SECONDS.fullmatch(part):
            numbers["step_time"] = _float(match[1])
        elif match := _SEGMENT.fullmatch(part):
            numbers[match[1].strip()] = _float(match[2])
        else:
            numbers |= {name: _float(value) for name, value in _COLON.findall(part)}
    if not numbers:
        return None
    return found | (
        {f"eval/{name}": value for name, value in numbers.items()} if evaluated else numbers
    )


def _step(line: str) -> dict[str, float]:
    match = _STEP.search(line) or _BAR.search(line) or _EPISODE.search(line)
    if match is None:
        return {}
    found = {"step": _float(match[1])}
    if match[2]:
        found[LAST_STEPS[0]] = _float(match[2])
    return found


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.nan
    except ValueError:
        value = _MARKS.sub("", value.replace("\u2212", "-"))
    if _COMMAS.fullmatch(value) is not None:
        value = value.replace(".", "").replace(",", ".")
    try:
        return float(value.replace(",", ""))
    except ValueError:
        return math.nan


@dataclass
class _LineWithoutStep:
    """A line without a step of its own, which waits for the progress bar that is drawn after it."""

    row: dict[str, float]
    at: float | None
    drawn: bool
    """True if the bar was taken away for this line, and so is drawn again after it, at the line's
    own step."""
    bar: tuple[int, int] | None
    """The bar before it."""


class LogMetricsReader(MetricsReader):
    """Reads the metrics in a log, line by line, and counts steps as the trainer does.

    The step of a line that names none is, in this order:

    - that of the training's progress bar: tqdm takes its bar away before a line and draws it again
      after it;
    - where several lines of different steps came between two bars, because the trainer's output was
      held back, or where only the newest bar is to be seen, as in a terminal: in the proportion of
      its epoch to the epoch at a bar;
    - without a bar, the number of epochs up to its own; without an epoch, the number of lines of
      its kind. A line of an evaluation has the step that the training has reached.

    Of the processes that print the same step, told apart by what stands before the line, the first
    one counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at: float | None = None
        """The time of the lines that are fed now; None if it is not known."""
        self._kinds: dict[str, int] = {}
        self._voices: dict[str, tuple[str, float]] = {}
        """For each kind of line, the process that prints it, and its newest step or epoch."""
        self._ready: list[dict[str, float]] = []
        self._waiting: list[_LineWithoutStep] = []
        self._bars: dict[int, int] = {}
        """Progress bars that may be the training's: how many there are of it -> how many are
        done."""
        self._total: int | None = None
        """The number of steps of the training's bar."""
        self._guessed = True
        """True if no line of the training has told yet which bar is the training's."""
        self._seen: dict[int, None] = {}
        """The totals of the bars since the last line of the training, the one that was drawn last
        at the end."""
        self._blank = False
        """True if a bar was taken away, and nothing was written since."""
        self._epochs: list[float] = []
        """The epochs of the training's lines, in order."""
        self._pace: tuple[float, float] | None = None
        """Most steps an epoch that a bar allows, given how the epoch was rounded, and the steps an
        epoch there."""
        self._held_back = False
        """True if the trainer's lines come later than its bars, in bunches, since Python keeps back
        what goes to a file."""
        self._begun = ""
        """The beginning of a line whose rest was held back."""
        self._heading: dict[str, float] = {}
        self._section = ""
        """What stands before the names of listed results: those of an evaluation have their own."""
        self._parts: list[str] = []
        """The lines of a printed dictionary whose end is still missing."""
        self._depth = 0
        self._reached: float | None = None
        """The newest step that a line of the training named itself."""
        self._of_bars: set[str] | None = set()
        """The series whose numbers stand at progress bars; None if bars count something else than
        the training's steps."""
        self._first_epoch = 1
        """The number of the first epoch before bars: 0 once such an epoch was seen."""
        self._drawn_at: float | None = None
        """The step of the newest bar with numbers."""

    # -- what is fed
    # ----------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> int:
        """Read more bytes of the log and return the number of new lines with numbers.

        The bytes complete these lines.
        """
        before = self.count
        data = data.replace(b"\0", b"") if b"\0" in data else data
        for start in range(0, len(data), _PIECE):
            super().feed(data[start : start + _PIECE])
            if b"\r" in self._rest:
                self._rest = self._folded(self._rest)
        if self._waiting:
            self._after(self._rest.decode("utf-8", "replace"))
        return self.count - before

    def end(self) -> None:
        """Read what is left of a log that ends without the end of a line."""
        rest, self._rest = self._rest, b""
        if rest.strip():
            self._take(rest)
        self._settle(None)

    def restart(self) -> None:
        """Forget the unfinished line of a log that begins anew."""
        self._rest, self._skipping = b"", False
        self._settle(None)

    def taken(self) -> list[dict[str, float]]:
        """Return the numbers of the lines since the last call, with their steps."""
        ready, self._ready = self._ready, []
        return ready

    def see(self, line: str, *, at: float | None = None) -> dict[str, float] | None:
        """Read a whole line of the log and return the numbers in it."""
        self.at = at
        self._line(line)
        self._settle(None)
        rows = self.taken()
        return rows[-1] if rows else None

    def see_screen(self, lines: list[str], last: str) -> None:
        """Read lines that a terminal shows.

        A progress bar overwrites itself there, and only the newest is in the last line.
        """
        bars = self._draws(last)
        for line in lines:
            self._line(line)
        if bars and (self._total is None or all(total != self._total for _, total in bars)):
            self._total = bars[-1][1]
        bar = next((bar for bar in reversed(bars) if bar[1] == self._total), None)
        self._by_epoch(bar)

    def _blank_line(self, line: bytes) -> None:
        self._blank = self._blank or len(line.strip(b"\r")) >= _WIDTH

    def _take(self, line: bytes) -> None:
        self._line(line.decode("utf-8", "replace"))

    def _folded(self, rest: bytes) -> bytes:
        """Return an unfinished line without its progress bars but the last one.

        What else stands there is kept.
        The numbers at those bars are taken, and so are overwritten texts that name their step.
        """
        text = rest.decode("utf-8", "replace")
        bars = _bars(text)
        if not bars and b"%|" not in rest:
            *overwritten, last = text.split("\r")
            return "\r".join([*(one for one in overwritten if not self._overwritten(one)), last])[
                -_ROOM:
            ].encode()
        if len(rest) <= _ROOM and (len(bars) < 2 or not all(map(_has_numbers, bars))):
            return rest
        self._draws(text)
        self._at_bars(bars, more=True)
        pieces, kept = list[str](), ""
        for place, words in enumerate(_between(text, bars)):
            pieces.append(words)
            kept = kept or words.strip()
            if place < len(bars) and (
                kept or place == len(bars) - 1
            ):  # the first bar after words tells their step
                end = bars[
                    place
                ].end  # without its numbers, which were taken, unless it is the last one
                pieces.append(
                    text[
                        bars[place].start : end
                        if place == len(bars) - 1
                        else end - 1 - len(bars[place].rest)
                    ]
                )
                pieces.append("" if place == len(bars) - 1 else "]")
                kept = ""
        return "".join(pieces)[-_ROOM:].encode()

    # -- lines
    # ----------------------------------------------------------------------------------------------

    def _line(self, line: str) -> None:
        if "\x1b" in line:
            line = _CONTROL.sub("", line)
        if "%|" not in line:
            *overwritten, last = line.rstrip("\r").split("\r")
            for text in overwritten:
                self._overwritten(text)
            self._record(last, cleared=_cleared(line) or self._blank)
            return
        self._held_back = self._held_back or _NOTHING.search(line) is not None
        bars = _bars(line)
        self._at_bars(bars)
        pieces = _between(line, bars)
        start = next((place for place, words in enumerate(pieces) if words.strip()), None)
        if start is None:
            self._after(line)
            self._blank = _CLEARED.search(line) is not None
            return
        cut = bars[start - 1].end if start else 0
        self._after(line[:cut])
        behind, text = line[cut:], "".join(pieces[start:])
        cleared = _cleared(text) or self._blank
        # A line may be cut by bars: what held it back let go of its first part alone.
        words = "".join(piece for piece in text.split("\r") if piece.strip())
        if "{" in words and "}" not in words:
            self._begun = words  # a bar has ended the line
        else:
            self._record(words, cleared=cleared)
        self._after(behind)

    def _record(self, line: str, *, cleared: bool = False) -> None:
        """Take a line without progress bars."""
        self._blank = False
        line = line.strip("\r")
        begun, self._begun = self._begun, ""
        if begun and -1 < line.find("}") < (line.find("{") + 1 or len(line) + 1):
            line = begun + line
        several = bool(self._parts)
        if (whole := self._gathered(line)) is None:
            return
        several, line = several and whole is not line, whole
        if (section := _SECTION.fullmatch(line)) is not None:
            self._section = "validation/" if section[1].lower() == "validation" else ""
            self._heading = self._heading or {"step": 0.0}
            return
        if (heading := _HEADING.fullmatch(line)) is not None:
            self._heading = {
                "step": float(heading[1]),
                **({LAST_STEPS[0]: float(heading[2])} if heading[2] else {}),
            }
            self._section = ""
            return
        row = parse_log_line(line)
        if (
            row is None
            and self._heading
            and len(line) < _GAP
            and (listed := _LISTED.fullmatch(line))
            and quantity_named(f"{self._section}{listed[1]}")
        ):
            row = {f"{self._section}{listed[1]}": _float(listed[2]), **self._heading}
        if (
            several
            and row is not None
            and not any(quantity_named(name) in _RESULTS for name in row)
        ):
            row = None  # a configuration
        if row is None:
            self._blank = len(line) - len(line.rstrip(" ")) >= _WIDTH
            return
        if self._said_already(line, row):
            return
        if (step := step_of(row)) is not None:
            if _trains(row) and any(quantity_named(name) in _RESULTS for name in row):
                self._reached = step
                if self._drawn_at is not None and abs(self._drawn_at - step) > 1:
                    self._forget_bars()
            self._add(row, step)
            return
        if self._reached is not None and not _trains(row) and _epoch(row) is None:
            self._add({**row, "step": self._reached}, self._reached)
            return
        if _trains(row):
            if self._seen and (
                self._guessed or self._total not in self._seen
            ):  # one drawn no more was of something else
                self._total, self._guessed = self._goes_on(), False
            self._seen = {}
        elif self._guessed and self._bars:
            self._total = self._first_bar()
        bar = None if self._total is None else (self._bars[self._total], self._total)
        self._waiting.append(_LineWithoutStep(row, self.at, cleared, bar))
        if not self._bars or len(self._waiting) > _GAP:
            self._settle(None)

    def _overwritten(self, text: str) -> bool:
        """Take a text that the next one overwrites in its line, if it names its step.

        Returns whether it does.
        """
        if not text.strip() or _STEP.search(text) is None:
            return False
        self._record(text)
        return True

    def _gathered(self, line: str) -> str | None:
        """Return a line, or the whole dictionary that ends with it.

        None while the end of a dictionary is missing.
        """
        opened = line.count("{") - line.count("}")
        if self._parts:
            more = _SPEAKER.sub("", line, count=1)
            if _GOES_ON.match(more) is not None and sum(map(len, self._parts)) < _LONGEST:
                self._parts.append(more)
                self._depth += opened
                if self._depth > 0:
                    return None
                whole, self._parts = " ".join(self._parts), []
                return whole
            self._parts = []
        if opened > 0 and _OPENS.search(line) is not None:
            self._parts, self._depth = [line], opened
            return None
        return line

    def _said_already(self, line: str, row: Mapping[str, float]) -> bool:
        """Return whether another process has printed the step of this line."""
        rank = next((str(int(row[name])) for name in _RANKS if is_number(row.get(name))), None)
        if rank is None:
            match = _RANK.search(line[: line.find("{")] if "{" in line else line[:120])
            rank = next((one for one in match.groups() if one is not None), None) if match else None
        if rank is None:
            return False
        kind = _kind(row)
        own = step_of(row)
        here = own if own is not None else row.get("epoch", math.nan)
        voice, newest = self._voices.get(kind, (rank, -math.inf))
        if voice != rank and not here > newest:
            return True
        if voice == rank and len(self._voices) < _GAP:
            self._voices[kind] = rank, here
        return False

    # -- progress bars
    # ----------------------------------------------------------------------------------------------

    def _at_bars(self, bars: list[_Bar], *, more: bool = False) -> None:
        """Take the numbers behind progress bars, and those before them.

        With `more` not of the last one, which goes on.
        """
        for place, one in enumerate(bars):
            after = bars[place + 1] if place + 1 < len(bars) else None
            if self._of_bars is None or (after is None and more) or not _has_numbers(one):
                continue
            if after is not None and (one.done, one.total, one.counted) == (
                after.done,
                after.total,
                after.counted,
            ):
                continue  # drawn again at the same step, with newer numbers
            about = one.about.rstrip(": ")
            row = {
                name: _float(value)
                for name, value in _PAIR.findall(f"{about} {one.rest}")[:_MOST]
                if name not in _NO_METRICS
            }
            row |= _said(about) or {} if ":" in about else {}
            if not any(map(quantity_named, row)) or _NO_STEPS.search(about):
                continue
            row |= self._step_of_bar(one)
            self._drawn_at = row["step"]
            self._of_bars.update(name for name in row if name not in self._curves)
            self._add(row, row["step"])

    def _step_of_bar(self, bar: _Bar) -> dict[str, float]:
        """Return the step of a bar with numbers, and the last one if it is known.

        A bar may be that of one epoch.
        """
        if bar.counted is not None:
            return {"step": float(bar.counted)}
        if _STEP.search(bar.about) is not None:
            return _step(bar.about)
        if (epoch := _OF_EPOCH.search(bar.about)) is None:
            return {"step": float(bar.done), LAST_STEPS[0]: float(bar.total)}
        self._first_epoch = min(self._first_epoch, int(epoch[1]))
        step = {"step": float((int(epoch[1]) - self._first_epoch) * bar.total + bar.done)}
        return step | ({LAST_STEPS[0]: float(int(epoch[2]) * bar.total)} if epoch[2] else {})

    def _forget_bars(self) -> None:
        """Leave out the numbers at progress bars: the trainer's own lines count other steps."""
        for name in self._of_bars or ():
            self._curves.pop(name, None)
            self._wrong.pop(name, None)
            self._leading.discard(name)
        self._of_bars = self._drawn_at = self.max_step = None

    def _draws(self, text: str) -> list[tuple[int, int]]:
        """Return the bars in a text that may be the training's, and keep them."""
        bars = []
        for drawn in _bars(text):
            # tqdm puts a colon behind what a bar is about; anything else before it, such as a time,
            # is not of the bar
            about = _ABOUT.sub("", drawn.about) if drawn.about.rstrip().endswith(":") else ""
            done, total = drawn.done, drawn.total
            if about and (_HELPS.search(about) or not _TRAINS.search(about)):
                continue
            if not 0 < total >= done or (total not in self._bars and len(self._bars) >= _GAP):
                continue
            bars.append((done, total))
            self._bars[total] = done
            self._seen.pop(total, None)
            self._seen[total] = None
        return bars

    def _first_bar(self) -> int:
        """Return the total of the first bar that is not full.

        That of an evaluation comes later than the training's.
        """
        return next(
            (total for total, done in self._bars.items() if done < total), next(iter(self._bars))
        )

    def _goes_on(self) -> int:
        """Return the total of the training's bar before a line of the training.

        It is the last one, unless that is full and a longer one is not: fast steps are not drawn
        between the end of an evaluation and the line.
        """
        last = next(reversed(self._seen))
        if self._bars[last] < last:
            return last
        longer = (one for one in self._seen if one > last and self._bars[one] < one)
        return next(longer, last)

    def _after(self, text: str) -> None:
        """Take the bars of a text that follows lines, or stands before the next one."""
        bars = self._draws(text)
        if not bars or not self._waiting:
            return
        if self._guessed:
            self._total = self._first_bar()
        first = next((bar for bar in bars if bar[1] == self._total), None)
        if first is not None:
            self._settle(first)

    def _settle(self, after: tuple[int, int] | None) -> None:
        """Give the lines that wait their step.

        `after` is the bar that was drawn after them, if one was.
        """
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        trains = [one for one in waiting if _trains(one.row)]
        kinds = Counter(_kind(one.row) for one in trains)
        epochs = {epoch for one in waiting if (epoch := _epoch(one.row)) is not None}
        places = len(epochs) or max(kinds.values(), default=0)
        bar = waiting[0].bar
        if places > 1 or (bar is None and after is None) or (epochs and self._held_back):
            self._waiting = waiting
            self._by_epoch(after or bar)
            return
        for one in waiting:
            ahead = (
                after is not None
                and one.drawn
                and (one.bar is None or one.bar[1] != after[1] or after[0] >= one.bar[0])
            )
            done, total = after if ahead and after is not None else one.bar or after or (0, 0)
            epoch = _epoch(one.row)
            if epoch is not None and epoch > 0 and _trains(one.row):
                self._paced(done, epoch)
                self._insert(epoch)
            self._add(
                {**one.row, "step": float(done), LAST_STEPS[0]: float(total)},
                float(done),
                at=one.at,
            )

    def _by_epoch(self, bar: tuple[int, int] | None) -> None:
        """Give the lines that wait the step that their epoch tells.

        The newest of them came at a bar, or before it.
        """
        waiting, self._waiting = self._waiting, []
        epochs = [epoch for one in waiting if (epoch := _epoch(one.row)) is not None]
        if bar is not None and epochs and epochs[-1] > 0:
            self._paced(bar[0], epochs[-1])
        last = {LAST_STEPS[0]: float(bar[1])} if bar is not None else {}
        for one in waiting:
            epoch = _epoch(one.row)
            if epoch is not None:
                if _trains(one.row):
                    self._insert(epoch)
                self._add(
                    {**one.row, "step": self._counted(epoch), **last}, Epoch(epoch), at=one.at
                )
                continue
            kind = _kind(one.row)
            if _trains(one.row) and (kind in self._kinds or len(self._kinds) < _GAP):
                self._kinds[kind] = self._kinds.get(kind, 0) + 1
            x = float(
                self._kinds.get(kind, self.count)
                if _trains(one.row)
                else max(self._kinds.values(), default=0)
            )
            self._add({**one.row, "step": x, **last}, x, at=one.at)

    def _insert(self, epoch: float) -> None:
        place = bisect_left(self._epochs, epoch)
        if place == len(self._epochs) or self._epochs[place] != epoch:
            insort(self._epochs, epoch)

    def _paced(self, done: int, epoch: float) -> None:
        """Learn how many steps an epoch has, from a bar at the step of an epoch or further."""
        digits = len(f"{epoch:.10g}".partition(".")[2])
        most = done / max(epoch - 0.5 / 10**digits, epoch / 2)
        if done > 0 and epoch > _LEAST and (self._pace is None or most <= self._pace[0]):
            self._pace = most, done / epoch

    def _counted(self, x: float) -> float:
        """Return the step that an epoch stands for."""
        if self._pace is not None:
            return float(max(round(x * self._pace[1]), 0))
        return float(bisect_right(self._epochs, x))

    # -- what was read
    # ----------------------------------------------------------------------------------------------

    def _add(self, row: dict[str, float], x: float, *, at: float | None = None) -> None:
        self._ready.append(row if "step" in row else {**row, "step": float(x)})
        self.add(row, at=self.at if at is None else at, x=x)

    def _cut(self, x: float) -> None:
        super()._cut(x)
        if isinstance(x, Epoch):
            del self._epochs[bisect_left(self._epochs, x) + 1 :]

    def _placed(self, point: Point) -> Point:
        return (
            Point(self._counted(point.x), point.y, point.at)
            if isinstance(point.x, Epoch)
            else point
        )

    def series(self, name: str) -> tuple[Point, ...]:
        """Return the points of a series; empty if the series does not exist."""
        points = super().series(name)
        if not any(isinstance(point.x, Epoch) for point in points):
            return points
        placed = {point.x: point for point in map(self._placed, points)}
        return tuple(placed[x] for x in sorted(placed))

    @property
    def wrong(self) -> tuple[NotFiniteStreak, ...]:
        """The series whose newest value is not finite."""
        return tuple(
            replace(one, x=self._counted(one.x)) if isinstance(one.x, Epoch) else one
            for one in super().wrong
        )

    def last(self, name: str) -> Point | None:
        """Return the newest value of a series, not averaged."""
        point = super().last(name)
        return None if point is None else self._placed(point)


class _Bar(NamedTuple):
    """A progress bar in a text."""

    start: int
    end: int
    about: str
    """Text before it: `Train: `."""
    done: int
    total: int
    rest: str
    """Text in its brackets."""
    counted: int | None = None
    """The step that stands before it."""


def _bars(text: str) -> list[_Bar]:
    """Return the progress bars in a text."""
    bars: list[_Bar] = []
    for match in _DRAWN.finditer(text) if "%|" in text else ():
        start = match.start()
        before = text[max(bars[-1].end if bars else 0, start - _LONG_NAME) : start]
        about = before[max(map(before.rfind, "\r\n|")) + 1 :]
        counted = _COUNTED.search(before[max(map(before.rfind, "\r\n")) + 1 :])
        step = int(counted[1]) if counted is not None else None
        bars.append(
            _Bar(
                start - len(about), match.end(), about, int(match[1]), int(match[2]), match[3], step
            )
        )
    return bars


def _has_numbers(bar: _Bar) -> bool:
    """Return whether numbers stand behind a bar, or before it."""
    return "=" in bar.rest or ":" in bar.about.rstrip(": ")


def _between(text: str, bars: list[_Bar]) -> list[str]:
    """Return what stands before, between and after the bars of a text."""
    starts, ends = [0, *(bar.end for bar in bars)], [*(bar.start for bar in bars), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _cleared(line: str) -> bool:
    """Return whether the text of a line stands where something was taken away."""
    blank = line[: len(line) - len(line.lstrip("\r "))]
    return any(len(piece) >= _WIDTH for piece in blank.split("\r")[:-1])


def _epoch(row: Mapping[str, float]) -> float | None:
    """Return the epoch that a line names, if it can be one."""
    epoch = row.get("epoch")
    return epoch if epoch is not None and 0 <= epoch < 1e9 else None


def _trains(row: Mapping[str, float]) -> bool:
    """Return whether a line is of the training, not of an evaluation or the training's end."""
    return not sums_up(row) and not any(of_evaluation(name) for name in row)


def _kind(row: Mapping[str, float]) -> str:
    return min((name for name in row if quantity_named(name)), default="")
