"""Reads metrics from the lines of any log.

It recognises JSON objects, the dictionaries that TRL, transformers and verifiers print, the step lines of prime-rl, the
statistics of vLLM, progress bars followed by numbers, and plain `key=value`. A line counts only if it has a known quantity
(`metrics.QUANTITIES`) or a step: a port number is not a metric.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hudtui.core.training.metrics import LAST_STEPS, STEPS, MetricsReader, quantity_named

_LONGEST = 20_000
"""Most characters of a line that are read."""
_MOST = 200
"""Most numbers that are read from a line."""

_VALUE = r"[-+]?(?:\d[\d,_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|NaN|NAN|inf|Infinity)"
_ITEM = re.compile(rf"""(?<![\w'"])(['"])([\w./@%:+\- ]{{1,80}})\1\s*:\s*(['"]?)({_VALUE})\3\s*(?=[,}}\]])""")
_PAIR = re.compile(rf"(?<![\w./=-])([A-Za-z_][\w./@-]{{0,60}})\s?=\s?({_VALUE})(?:%|s|ms|it/s)?(?![\w.=])")
_SEGMENT = re.compile(rf"([A-Za-z][\w.\- ]{{0,40}}?):?\s+({_VALUE})\s*(?:%|s|[A-Za-z]+(?:/[A-Za-z]+)?)?(?:\s.*)?$")
_SECONDS = re.compile(rf"(?:Time:?\s*)?({_VALUE})s$")
_STEP = re.compile(
    r"\b(?:global[ _-]?step|step|iteration|iter|update)s?\b[ \t]*[=:#]?[ \t]*(\d{1,12})(?:[ \t]*(?:/|of)[ \t]*(\d{1,12}))?", re.I
)
_BAR = re.compile(r"\d+%\|.*?\|\s*(\d{1,12})/(\d{1,12})\s*\[")
_EPISODE = re.compile(r"\b(?:episode|rollout|task)\s+(\d{1,12})\s*/\s*(\d{1,12})\b")
_SERVER = re.compile(
    rf"(Avg prompt throughput|Avg generation throughput|Running|Waiting|[GC]PU KV cache usage|Prefix cache hit rate)"
    rf":\s*({_VALUE})"
)
_MESSAGES = ("message", "msg", "event")


def parse_log_line(line: str) -> dict[str, float] | None:
    """Return the numbers in a line by their names there; None if the line has none.

    They include values that are not finite. The step has the name `step`, the last step of the training `max_steps`.
    """
    if len(line) > _LONGEST or not any(mark in line for mark in ("=", ":", "|", "{")):
        return None
    found = _braces(line) if "{" in line else None
    if found is None and ("vLLM" in line or "throughput:" in line):
        found = {name: _float(value) for name, value in _SERVER.findall(line)} or None
    if found is None and line.count("|") >= 2:
        found = _segments(line)
    if found is None and "=" in line:
        found = {name: _float(value) for name, value in _PAIR.findall(line)[:_MOST]}
    if not found:
        return None
    if not any(name in found for name in STEPS):
        found |= _step(line)
    return found if any(name in STEPS or quantity_named(name) for name in found) else None


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


def _numbers(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    for name, value in list(row.items())[:_MOST]:
        if isinstance(value, Mapping):
            if depth < 3:
                yield from _numbers(value, f"{prefix}{name}/", depth + 1)
        elif _is_number(value):
            yield f"{prefix}{name}", _float(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) < 30 and re.fullmatch(_VALUE, value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _segments(line: str) -> dict[str, float] | None:
    """Return the numbers of `Step 12 | 8.31s | Loss 0.0123 | ...`, with or without colons."""
    first, *rest = [part.strip() for part in line.split("|")]
    step = _STEP.search(first)
    if step is None:
        return None
    found = _step(first)
    for part in rest[:_MOST]:
        if match := _SECONDS.fullmatch(part):
            found["step_time"] = _float(match[1])
        elif match := _SEGMENT.fullmatch(part):
            found[match[1].strip()] = _float(match[2])
    return found if len(found) > 1 else None


def _step(line: str) -> dict[str, float]:
    match = _STEP.search(line) or _BAR.search(line) or _EPISODE.search(line)
    if match is None:
        return {}
    found = {"step": float(match[1])}
    if match[2]:
        found[LAST_STEPS[0]] = float(match[2])
    return found


def _float(value: Any) -> float:
    try:
        return float(value.replace(",", "").replace("_", "") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return math.nan


class LogMetricsReader(MetricsReader):
    """Reads the metrics in a log, line by line.

    If a trainer prints no step, its lines are counted instead, each kind separately: training and evaluation print in turns.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[str, int] = {}

    def see(self, line: str, *, at: float | None = None) -> dict[str, float] | None:
        """Read a line of the log and return the numbers in it."""
        row = parse_log_line(line)
        if row is None:
            return None
        if not any(name in row for name in STEPS):
            kind = min(name for name in row if quantity_named(name))
            if kind in self._kinds or len(self._kinds) < 100:
                self._kinds[kind] = self._kinds.get(kind, 0) + 1
            row["step"] = float(self._kinds.get(kind, self.count))
        self.add(row, at=at)
        return row

    def _take(self, line: bytes) -> None:
        self.see(line.decode("utf-8", "replace"))
