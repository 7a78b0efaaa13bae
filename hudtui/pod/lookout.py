#!/usr/bin/env python3
"""Watches the numbers of a training on its machine, whether or not anybody else looks.

Standard library only, Python 3.8 and newer; `supervisor.py` lies beside it and starts it.

    lookout.py DIR     look until the run in DIR has ended, or its supervisor

It obeys `lookout` in `plan.json`:

    metrics   the file in DIR with the numbers, an object a line
    names     for each quantity the names that it may have there, the best first
    stop_on   signatures at which the run is asked to stop, by `stop.json`, once they are certain
    bounds    from when on the troubles that it knows are certain, by name
    continued the step of the checkpoint of an earlier run that this one goes on from, or null: what
              is in the file at first is the earlier run's, and no reason to stop this one

With HUDTUI_NOTIFY_URL in its environment it sends there, as JSON, each finding and the end of the
run, each once in the life of the run (`notified.json` says what was sent). The text of the run (its
name, why it has ended) is sent with HUDTUI_NOTIFY_TEXT alone.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterator, List, Optional, Tuple

if TYPE_CHECKING or __package__:
    from hudtui.pod.supervisor import ENDED, open_regular, read_json, write_json
else:  # on a machine, as a program of its own: nothing in its folder hides a module of Python
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from supervisor import ENDED, open_regular, read_json, write_json

LOOK = 3.0  # seconds between looks
PIECE = 1024 * 1024  # bytes of the metrics that are read at once
LINE = 256 * 1024  # bytes of the longest line; a longer one holds no metrics
DEPTH = 3  # of nested objects in a line
WINDOW = 20  # newest values of a series that are kept
HOLDS = 16  # of them that show a condition which holds
FIRST = 5  # first values of a series whose median is its usual level
TRIES = (0, 5, 30, 120)  # seconds before each attempt to send
PATIENCE = 240.0  # seconds at the end for what is still being sent


class Finding:
    """A signature that is certain."""

    def __init__(self, signature: str, severity: str, step: float, words: str) -> None:
        self.signature = signature
        self.severity = severity
        self.step = step  # at which it began
        self.words = words

    @property
    def sentence(self) -> str:
        """The finding in words."""
        return "%s: %s since step %g" % (self.signature, self.words, self.step)


class Series:
    """The newest values of a series, and its usual level."""

    def __init__(self) -> None:
        self.count = 0
        self.first = []  # type: List[float]
        self.newest: Deque[Tuple[float, float]] = deque(maxlen=WINDOW)
        self.most = float("-inf")

    def add(self, step: float, value: float, own: bool = True) -> None:
        """Take a value; one of an earlier step begins a part that is done again.

        One that is not the run's `own` says what is usual, and nothing of how it is now.
        """
        while self.newest and self.newest[-1][0] >= step:
            self.newest.pop()
        self.count += 1
        if len(self.first) < FIRST:
            self.first.append(value)
        if own:
            self.newest.append((step, value))
        self.most = max(self.most, value)

    @property
    def usual(self) -> float:
        """The median of its first values."""
        return median(self.first)

    @property
    def now(self) -> float:
        """The median of its newest values."""
        return median([value for _, value in self.newest])

    def since(self, low: float, high: float) -> Optional[float]:
        """The step of the first of the newest values between two bounds, where most of them are.

        None where the window is not full, or most are not.
        """
        steps = [step for step, value in self.newest if low <= value <= high]
        last = bool(self.newest) and low <= self.newest[-1][1] <= high
        full = len(self.newest) == WINDOW
        return steps[0] if full and last and len(steps) >= HOLDS else None


def median(values: List[float]) -> float:
    """The middle of some values; NaN without any."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else float("nan")


class Numbers:
    """The numbers of a run, and what they show for certain."""

    def __init__(self, wish: Dict[str, Any]) -> None:
        self.places = {}  # type: Dict[str, Tuple[str, int]]
        for quantity, known in (wish.get("names") or {}).items():
            for place, name in enumerate(known):
                self.places.setdefault(name, (quantity, place))
        self.bounds = wish.get("bounds") or {}  # type: Dict[str, float]
        continued = wish.get("continued")
        self.continued = float("-inf") if continued is None else continued
        self.series = {}  # type: Dict[str, Series]
        self.chosen = {}  # type: Dict[str, int]
        self.wrong = {}  # type: Dict[str, Tuple[float, int]]
        self.equal = []  # type: List[float]
        self.lines = 0

    def take(self, line: bytes) -> None:
        """Take a line of the metrics; one that is no object is passed over."""
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            return
        if not isinstance(row, dict):
            return
        self.lines += 1
        step = row.get("step")
        at = float(step) if step is not None and is_number(step) else float(self.lines)
        own = at > self.continued
        taken = {}  # type: Dict[str, float]
        for name, value in flat(row):
            if own:
                self._finite(name, value, at)
            found = self.places.get(normal(name))
            if found is None or not math.isfinite(value):
                continue
            quantity, place = found
            if place > self.chosen.setdefault(quantity, place):
                continue
            if place < self.chosen[quantity]:  # a better name comes later
                self.chosen[quantity] = place
                self.series.pop(quantity, None)
            self.series.setdefault(quantity, Series()).add(at, value, own)
            taken[quantity] = value
        if own:
            self._spread(taken, at)

    def _finite(self, name: str, value: float, step: float) -> None:
        if math.isfinite(value):
            self.wrong.pop(name, None)
        elif name in self.wrong or len(self.wrong) < 500:
            first, count = self.wrong.get(name, (step, 0))
            self.wrong[name] = (first, count + 1)

    def _spread(self, taken: Dict[str, float], step: float) -> None:
        """Keep the newest steps whose groups all have equal rewards."""
        if "no_spread" not in taken and "reward_std" not in taken:
            return
        equal = taken.get("no_spread", 0.0) >= 1 - 1e-9 or abs(taken.get("reward_std", 1.0)) < 1e-9
        while self.equal and self.equal[-1] >= step:  # done again
            self.equal.pop()
        if not equal:
            self.equal = []
        elif len(self.equal) < 1000:  # more say no more
            self.equal.append(step)

    def findings(self) -> Iterator[Finding]:
        """What is certain now."""
        bounds = self.bounds
        lost = [first for first, count in self.wrong.values() if count >= bounds["not_finite"]]
        if lost:
            yield Finding("not-a-number", "critical", min(lost), "numbers are not finite")
        if len(self.equal) >= bounds["flat"]:
            severity = "medium" if self._level() >= bounds["full"] else "critical"
            words = "all rewards of a group are equal"
            yield Finding("constant-reward", severity, self.equal[0], words)
        else:
            for finding in self._no_spread():
                yield finding
        for finding in self._collapse():
            yield finding
        for finding in self._distance():
            yield finding
        broken = self._since("broken", bounds["broken"], 1.0)
        if broken is not None:
            words = "%.0f%% of the episodes break off" % (100 * self.series["broken"].now)
            yield Finding("episodes-break", "high", broken, words)

    def _since(self, quantity: str, low: float, high: float) -> Optional[float]:
        series = self.series.get(quantity)
        return None if series is None else series.since(low, high)

    def _level(self) -> float:
        """The reward, as a share of the most that the run has seen; NaN without any."""
        reward = self.series.get("reward")
        return float("nan") if reward is None else max(reward.now, 0.0) / max(1.0, reward.most)

    def _no_spread(self) -> Iterator[Finding]:
        since = self._since("no_spread", self.bounds["no_spread"], 1.0)
        if since is None:
            return
        level = self._level()
        share = "%.0f%% of the groups have equal rewards" % (100 * self.series["no_spread"].now)
        if level >= self.bounds["solved"]:
            yield Finding("no-spread-solved", "medium", since, share)
        elif level <= self.bounds["failed"]:
            yield Finding("no-spread-failed", "high", since, share)
        else:
            yield Finding("no-spread", "high", since, share)

    def _collapse(self) -> Iterator[Finding]:
        entropy = self.series.get("entropy")
        if entropy is None or entropy.count < WINDOW + FIRST or entropy.usual <= 1e-6:
            return
        since = entropy.since(float("-inf"), entropy.usual / self.bounds["entropy_fall"])
        if since is not None:
            words = "the entropy fell from %.3g to %.3g" % (entropy.usual, entropy.now)
            yield Finding("entropy-collapse", "high", since, words)

    def _distance(self) -> Iterator[Finding]:
        kl = self.series.get("kl")
        if kl is None or kl.count < WINDOW + FIRST:
            return
        high = max(self.bounds["kl"], self.bounds["kl_rise"] * max(kl.usual, 1e-3))
        since = kl.since(high, float("inf"))
        if since is not None:
            words = "the distance from the model rose from %.3g to %.3g" % (kl.usual, kl.now)
            severity = "critical" if kl.now >= self.bounds["kl_lost"] else "high"
            yield Finding("kl-blow-up", severity, since, words)


def is_number(value: Any) -> bool:
    """True for a finite number that is no boolean."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def flat(row: Dict[str, Any], prefix: str = "", depth: int = 0) -> Iterator[Tuple[str, float]]:
    """The numbers of a line; those of nested objects as `name/nested`."""
    for name, value in row.items():
        if isinstance(value, dict) and depth < DEPTH:
            for inner in flat(value, prefix + name + "/", depth + 1):
                yield inner
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):
                yield prefix + name, float(value)


def normal(name: str) -> str:
    """A name in the form of `names`: lower case, `_` for spaces, no dots, no `train/`."""
    text = "_".join(name.strip().lower().replace(".", "").split())
    return text[len("train/") :] if text.startswith("train/") else text


class Tail:
    """Reads what a file has got since the last look."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.place = 0
        self.rest = b""
        self.file = None  # type: Optional[Tuple[int, int]]
        self.begun = 0  # times that the file was read from its beginning

    def lines(self, since: float = 0.0) -> List[bytes]:
        """The new whole lines; at most `PIECE` bytes are read.

        None of a file that nobody has written to `since` then.
        """
        try:
            with open_regular(self.path) as stream:
                now = os.fstat(stream.fileno())
                if now.st_mtime < since:
                    return []
                file = (now.st_dev, now.st_ino)
                if file != self.file or now.st_size < self.place:
                    self.file, self.place, self.rest = file, 0, b""
                    self.begun += 1
                stream.seek(self.place)
                data = stream.read(PIECE)
        except OSError:
            return []
        self.place += len(data)
        whole = (self.rest + data).split(b"\n")
        self.rest = whole.pop()
        if len(self.rest) > LINE:
            self.rest = b""
        return [line for line in whole if line.strip() and len(line) <= LINE]


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Sends nothing to another address than the one that was given."""

    def redirect_request(self, *_: Any) -> None:
        """No other address."""
        return None


class Messenger:
    """Tells the user, each event once."""

    def __init__(self, folder: str, url: str, text: bool) -> None:
        self.path = os.path.join(folder, "notified.json")
        self.url, self.text = url, text
        self.senders = []  # type: List[threading.Thread]
        known = (read_json(self.path) or {}).get("sent")
        self.sent = [str(one) for one in known] if isinstance(known, list) else []

    def tell(self, event: str, message: Dict[str, Any], words: Dict[str, Any]) -> None:
        """Send a message; `words` are those of the run, for users who allow them.

        It is written down before: a lookout that is started again does not send it twice.
        """
        if not self.url or event in self.sent:
            return
        self.sent.append(event)
        with contextlib.suppress(OSError):
            write_json(self.path, {"sent": self.sent})
        body = json.dumps(dict(message, **(words if self.text else {}))).encode("utf-8")
        # A stop does not wait for it, nor does the end of this process for ever: the other side may
        # send its answer byte by byte.
        sender = threading.Thread(target=self._try, args=(body,), daemon=True)
        sender.start()
        self.senders.append(sender)

    def wait(self) -> None:
        """Wait until everything is sent, given up, or `PATIENCE` is over."""
        until = time.monotonic() + PATIENCE
        for sender in self.senders:
            sender.join(max(until - time.monotonic(), 0.0))

    def _try(self, body: bytes) -> None:
        for pause in TRIES:
            time.sleep(pause)
            if self._send(body):
                return

    def _send(self, body: bytes) -> bool:
        """Send it; returns whether there is no use in trying again."""
        headers = {"Content-Type": "application/json", "User-Agent": "hudtui"}
        try:
            if not self.url.lower().startswith(("https://", "http://")):
                return True
            request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
            opener = urllib.request.build_opener(NoRedirect)
            with opener.open(request, timeout=20):
                return True
        except urllib.error.HTTPError as error:
            return bool(error.code < 500 and error.code != 429)
        except (OSError, HTTPException):
            return False
        except ValueError:
            return True


class Lookout:
    """The loop that looks at a run."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        plan = read_json(os.path.join(folder, "plan.json")) or {}
        wish = plan.get("lookout")
        self.wish = wish if isinstance(wish, dict) else {}  # type: Dict[str, Any]
        self.run = str(plan.get("run") or "")
        self.stop_on = [str(one) for one in self.wish.get("stop_on") or ()]
        self.numbers, self.begun = Numbers(self.wish), 0
        path = self.wish.get("metrics")
        self.tail = Tail(os.path.join(folder, path)) if path else None
        url = os.environ.pop("HUDTUI_NOTIFY_URL", "")
        self.messenger = Messenger(folder, url, bool(os.environ.get("HUDTUI_NOTIFY_TEXT")))
        self.parent = os.getppid()
        self.stopped = False

    def look(self, started: float = 0.0) -> None:
        """Read what is new, and do what follows from it; the run has `started` then."""
        if self.tail is None:
            return
        since = 0.0 if self.wish.get("continued") is None else started
        while True:
            lines = self.tail.lines(since)
            if self.begun != self.tail.begun:  # cut to a checkpoint, or another file
                self.begun = self.tail.begun
                self.numbers = Numbers(self.wish)
            for line in lines:
                self.numbers.take(line)
            if not lines:
                break
        for finding in self.numbers.findings():
            stops = finding.signature in self.stop_on or (
                "critical" in self.stop_on and finding.severity == "critical"
            )
            if stops:
                self.stop(finding)
            self.tell(finding, stops)

    def stop(self, finding: Finding) -> None:
        """Ask the run to stop, once."""
        path = os.path.join(self.folder, "stop.json")
        if self.stopped or read_json(path) is not None:
            return
        why = "stopped on %s" % finding.sentence
        try:
            write_json(path, {"at": time.time(), "grace": None, "why": why})
        except OSError:  # a full disk must not keep a run going
            if os.getppid() == self.parent:
                os.kill(self.parent, signal.SIGTERM)
        self.stopped = True

    def tell(self, finding: Finding, stops: bool) -> None:
        """Tell the user of a finding."""
        title = "A run has a %s finding: %s" % (finding.severity, finding.signature)
        message = {
            "event": "finding",
            "title": title,
            "message": title + (". It is stopped." if stops else "."),
            "signature": finding.signature,
            "severity": finding.severity,
            "step": finding.step,
            "stops": stops,
            "run": self.run.rpartition("-")[2],
            "at": time.time(),
        }
        words = {"name": self.run, "message": "%s: %s" % (self.run, finding.sentence)}
        self.messenger.tell("finding:" + finding.signature, message, words)

    def tell_end(self, status: Dict[str, Any]) -> None:
        """Tell the user of the end."""
        state = str(status.get("state"))
        title = "A run is %s" % state
        message = {
            "event": "end",
            "title": title,
            "message": title + ".",
            "state": state,
            "run": self.run.rpartition("-")[2],
            "at": time.time(),
        }
        why = str(status.get("why") or "")[:500]
        text = "%s: %s" % (self.run, state) + (", %s" % why if why else "")
        self.messenger.tell("end", message, {"name": self.run, "why": why, "message": text})

    def watch(self) -> None:
        """Look until the run has ended, or its supervisor, whose successor starts another one."""
        while True:
            orphan = os.getppid() != self.parent
            status = read_json(os.path.join(self.folder, "status.json")) or {}
            ended = status.get("state") in ENDED
            self.look(float(status.get("started") or 0.0))
            if ended:
                self.tell_end(status)
            if ended or orphan or not os.path.isdir(self.folder):
                return
            time.sleep(LOOK)


def main(words: List[str]) -> int:
    """The command line; see the text at the top of the file."""
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    lookout = Lookout(os.path.realpath(os.path.expanduser(words[0])))
    lookout.watch()
    lookout.messenger.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
