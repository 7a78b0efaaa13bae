#!/usr/bin/env python3
"""Ends a rented machine that is not needed any more.

Standard library only, Python 3.8 and newer; `supervisor.py` lies beside it.
    watchdog.py arm DIR      start the watchdog of the run in DIR, or find that it runs already;
    returns at once watchdog.py disarm DIR   end it: the machine stays on

It needs nothing else: the hudtui that armed it may be gone for good, and so may DIR. It obeys
`guard.json` in DIR, which it reads at every look; while that cannot be read, the rules that were
read last hold. Only `disarm` ends it, or the end of its machine (the home that it was armed in is
gone: so a simulated machine ends).

    max_seconds     after this time since it was armed, the run is asked to stop grace_seconds
    after this time since then, the machine is switched off, whether or not the run has ended
    start_seconds   how long it may take until a run begins after_seconds   how long a run that has
    ended may wait until its results are fetched idle_seconds    how long there may be neither a log
    line nor work for a GPU look_seconds    time between two looks, and between attempts to end the
    machine, where that is less than usual count_from      any word; from the moment that another
    word stands there, max_seconds counts again from zero end             {"url", "key_file"}: the
    request (DELETE) that tells the provider to end this machine, and the file in DIR
                    with the key for it, which may do nothing else
    power_off       commands to switch off with, tried one after the other; empty: nothing is
    switched off

Each may be missing, or null for no limit; a file that is no JSON object counts as unreadable. What
it does is written to `guard.jsonl`. A machine that it could neither end nor switch off is tried
again for as long as it is on and its time is over. Without `end` it cannot end a contract: a
machine that is switched off may still be charged for, until its provider ends it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import subprocess
import sys
import time
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set

if TYPE_CHECKING or __package__:
    from hudtui.pod.supervisor import (
        ENDED,
        clock,
        detach,
        leave_terminal,
        open_regular,
        read_json,
        take_lock,
        write_json,
    )
else:  # on a machine, as a program of its own
    from supervisor import (
        ENDED,
        clock,
        detach,
        leave_terminal,
        open_regular,
        read_json,
        take_lock,
        write_json,
    )

LOOK = 5.0  # seconds between looks
KEY_LIMIT = 4096  # bytes of a provider's key
BUSY = 3.0  # percent of a GPU's time from which on it works
PAUSES = (0, 5, 20)  # seconds before each attempt to tell the provider
AGAIN = 300.0  # seconds until all of it is tried again, when nothing worked


class Watchdog:
    """The loop that watches the run and the time."""

    def __init__(self, folder: str) -> None:
        self.folder, self.home = folder, os.path.expanduser("~")
        self.rules: Dict[str, Any] = {}
        self.status: Dict[str, Any] = {}
        self.key = None  # type: Optional[str]
        self.armed, self.active = clock(), time.time()
        self.offset = self.active - self.armed
        self.ended = None  # type: Optional[float]
        self.asked = None  # type: Optional[float]
        self.asked_why = ""
        self.count_from = None  # type: Any
        self.again = self.armed
        self.problems: Set[str] = set()

    def path(self, *parts: str) -> str:
        """A path in the run's folder."""
        return os.path.join(self.folder, *parts)

    def say(self, what: str, **data: Any) -> None:
        """A line in guard.jsonl; on a full disk it is left out."""
        with contextlib.suppress(OSError):
            handle = os.open(
                self.path("guard.jsonl"),
                os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK,
                0o600,
            )
            with os.fdopen(handle, "ab") as stream:
                stream.write(
                    json.dumps(dict(data, at=time.time(), type=what)).encode("utf-8") + b"\n"
                )

    def trouble(self, problem: str) -> None:
        """Write down something unforeseen, each once."""
        if problem not in self.problems:
            self.problems.add(problem)
            self.say("trouble", problem=problem)

    def read(self) -> None:
        """The rules, the key and the state of the run as they are now.

        What cannot be read stays as it was.
        """
        rules = read_json(self.path("guard.json"))
        self.status = read_json(self.path("status.json")) or self.status
        if rules is None:
            self.trouble("guard.json cannot be read: what was read last holds")
            return
        self.rules = rules
        wish = rules.get("end")
        if isinstance(wish, dict):
            self.key = self.read_key(wish) or self.key

    def read_key(self, wish: Dict[str, Any]) -> Optional[str]:
        """The provider's key; None when its file cannot be read."""
        try:
            with open_regular(self.path(wish["key_file"])) as stream:
                return stream.read(KEY_LIMIT).decode("utf-8").strip()
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def limit(self, name: str) -> float:
        """A limit in seconds; infinite without a limit."""
        value = self.rules.get(name)
        return (
            float(value)
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            else float("inf")
        )

    def look(self) -> Optional[str]:
        """Do what is due; returns why the machine is to be switched off, once it is."""
        now = clock()
        if self.rules.get("count_from") != self.count_from:
            self.count_from, self.armed = self.rules.get("count_from"), now
        if self.status.get("state") in ENDED:
            self.ended = self.ended or now
            if now - self.ended > self.limit("after_seconds"):
                return "the run has ended, and its results were not fetched"
            if now - self.armed > self.limit("max_seconds") + self.limit("grace_seconds"):
                return self.over()
            return None
        self.ended = None
        if not self.status and now - self.armed > self.limit("start_seconds"):
            return "no run was begun here"
        due = self.due(now)
        if due is None:
            self.asked = None  # the limits were raised
        elif self.asked is None:
            self.asked, self.asked_why = now, due
            self.say("stop", why=due)
            with contextlib.suppress(OSError):
                write_json(self.path("stop.json"), {"at": time.time(), "grace": None, "why": due})
        elif now - self.asked > self.limit("grace_seconds"):
            return self.asked_why
        return None

    def due(self, now: float) -> Optional[str]:
        """Reason to stop the run; None when it may continue."""
        if now - self.armed > self.limit("max_seconds"):
            return self.over()
        if self.idle() > self.limit("idle_seconds"):
            return "nothing was logged and no GPU worked for %.4g min" % (
                self.limit("idle_seconds") / 60
            )
        return None

    def over(self) -> str:
        """Message for the end of its time."""
        return "the guard's time of %.4g h is over" % (self.limit("max_seconds") / 3600)

    def idle(self) -> float:
        """Seconds since the run showed a sign of work; the machine's date may be set meanwhile."""
        now = time.time()
        moved = now - clock() - self.offset
        self.offset += moved
        last = self.active = self.active + moved
        for name in [*glob.glob(self.path("logs", "*.log")), self.path("events.jsonl")]:
            with contextlib.suppress(OSError):
                last = max(last, os.stat(name).st_mtime)
        with contextlib.suppress(OSError), open_regular(self.path("gpu.jsonl")) as stream:
            stream.seek(max(os.fstat(stream.fileno()).st_size - 65536, 0))
            for line in stream.read().splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                    sample = json.loads(line.decode("utf-8"))
                    if any((gpu.get("utilization") or 0) > BUSY for gpu in sample["gpus"]):
                        last = max(last, float(sample["at"]))
        self.active = min(last, now)
        return now - last

    def run(self) -> None:
        """Look until the machine is off, or the watchdog is disarmed."""
        self.say("armed", pid=os.getpid())
        while os.path.isdir(self.home):
            if os.path.exists(self.path("guard.disarmed")):
                self.say("disarmed")
                return
            self.read()
            pause = self.limit("look_seconds")
            try:
                why = self.look()
                if (
                    why is not None
                    and clock() >= self.again
                    and self.switch_off(why, min(AGAIN, pause))
                ):
                    return
            except (
                Exception
            ) as error:  # whatever it is: with the watchdog all limits of the machine would end
                self.trouble(type(error).__name__)
            time.sleep(min(LOOK, pause))

    def switch_off(self, why: str, again_in: float) -> bool:
        """End the machine, or at least switch it off; returns whether nothing is left to do.

        Else it is tried again later.
        """
        self.again = clock() + again_in
        ended, off = self.end(why), self.power_off(why)
        if ended or off or ended is off is None:
            return True
        self.say("still_on", why=why, again_in=again_in)
        return False

    def end(self, why: str) -> Optional[bool]:
        """Tell the provider to end this machine.

        Returns whether it accepted, None without the rule `end`.
        """
        wish = self.rules.get("end")
        if not isinstance(wish, dict):
            return None
        for pause in PAUSES:
            time.sleep(min(pause, self.limit("look_seconds")))
            try:
                if self.key is None:
                    raise FileNotFoundError("there is no key that can be read")
                headers = {"Authorization": "Bearer " + self.key, "User-Agent": "hudtui-guard"}
                request = urllib.request.Request(wish["url"], method="DELETE", headers=headers)
                with urllib.request.urlopen(request, timeout=30) as answer:
                    self.say("ended", why=why, status=answer.status)
                    return True
            except OSError as error:
                self.say("not_ended", why=why, problem=str(error))
            except (
                HTTPException,
                ValueError,
                KeyError,
                TypeError,
            ) as error:  # the text of such an error may contain the key
                self.say("not_ended", why=why, problem=type(error).__name__)
        return False

    def power_off(self, why: str) -> Optional[bool]:
        """Switch the machine off, by the first command that works.

        Returns whether one did, None without commands.
        """
        commands = self.rules.get("power_off") or []  # type: List[List[str]]
        self.say("power_off", why=why, commands=len(commands))
        with contextlib.suppress(AttributeError, OSError):
            os.sync()
        for command in commands:
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=60,
                )
            except (OSError, subprocess.SubprocessError) as error:
                self.say("tried", command=command[0], problem=str(error))
                continue
            self.say("tried", command=command[0], status=done.returncode)
            if done.returncode == 0:
                return True
        return False if commands else None


def arm(folder: str) -> int:
    """Start the watchdog in the background, and print how that went."""

    def watch(report: int) -> int:
        lock = take_lock(os.path.join(folder, "guard.lock"))
        leave_terminal(os.devnull)
        os.write(report, json.dumps({"ok": True, "already": lock is None}).encode("ascii"))
        os.close(report)
        if lock is not None:
            Watchdog(folder).run()
        return 0

    answer = detach(watch).decode("ascii") or '{"ok": false}'
    print(answer)
    return 0 if json.loads(answer)["ok"] else 1


def main(words: List[str]) -> int:
    """The command line; see the text at the top of the file."""
    if len(words) != 2 or words[0] not in ("arm", "disarm"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = os.path.realpath(os.path.expanduser(words[1]))
    if words[0] == "arm":
        return arm(folder)
    with open(os.path.join(folder, "guard.disarmed"), "w"):
        pass
    print('{"ok": true}')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
