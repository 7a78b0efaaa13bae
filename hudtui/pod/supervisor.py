#!/usr/bin/env python3
"""Carries out a run on a machine, alone: standard library only, Python 3.8 and newer, one file.

    supervisor.py start DIR            begin the run in DIR, or continue a run whose supervisor was
    killed; returns at once supervisor.py status DIR           print what is known and what is alive
    supervisor.py stop DIR [SECONDS|- [WHY]]   ask the run to stop; after SECONDS what does not obey
    is killed

`start` reads secrets as `{"env": {NAME: VALUE}}` from standard input; they are kept in memory and
handed to the stages that name them. Everything else is a file in DIR:

    plan.json        what to do; written by the hudtui that starts the run status.json      state,
    heartbeat, stages; replaced in one step events.jsonl     what happened, one JSON object a line,
    appended by the supervisor alone logs/STAGE.log   what the stage printed, byte for byte
    stop.json        a request to stop limits.json      other limits than the plan's; written while
    it runs gpu.jsonl        how busy the machine is, every 10 s: a line of its processors, memory,
    disk and network,
                     and where nvidia-smi is a line of its GPUs

Where `lookout` in the plan names signatures, or HUDTUI_NOTIFY_URL is among the secrets,
`lookout.py` in DIR looks at the numbers of the run meanwhile.

The supervisor starts the program of each stage itself, collects its exit status, and ends what it
left behind. The program writes straight to its log file, so that nothing in between can stall it,
lose a byte or break with it. Where tmux is, a window of the session named in the plan shows the log
(`tail -F`). What the supervisor is about to do is written down before: when it is killed, the next
one ends the stages that had begun, and says so; none is started twice.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import traceback
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Set, Tuple

BEAT = 2.0  # seconds between heartbeats
TICK = 0.2  # seconds between looks at the stages
SAMPLE = 10.0  # seconds between looks at the machine's load and at its GPUs
SAMPLES_LIMIT = 32 * 1024 * 1024  # bytes that they may take: eight GPUs for six weeks
TEXT_LIMIT = 2000  # characters of a text in an event or a status: readers accept twice as much
SLACK = 4.0  # seconds that a killed program gets to end
TIDY = 3.0  # seconds that what a program left behind gets to end, at most
NOTIFY = ("HUDTUI_NOTIFY_URL", "HUDTUI_NOTIFY_TEXT")  # what the lookout alone gets
REFUSED = 2  # status of hudtui's programs where what they were given cannot be used, now or later
LOOKOUT_AGAIN = 60.0  # seconds before a lookout that has died is started again
JSON_LIMIT = 64 * 1024 * 1024  # bytes of a file that is read as JSON
ENDED = ("finished", "failed", "stopped")
BEGUN = ("starting", "running", "ready")  # states of a stage that may have a program
SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)  # in names of variables


# --- machine --------------------------------------------------------------------------------------


def clock() -> float:
    """Seconds that only grow, also through sleep and changes of the date."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


_boot = ""


def boot_id() -> str:
    """Differs after a restart of the machine."""
    global _boot
    if not _boot:
        try:
            with open("/proc/sys/kernel/random/boot_id") as stream:
                _boot = stream.read().strip()
        except OSError:
            done = subprocess.run(
                ["sysctl", "-n", "kern.boottime"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            _boot = done.stdout.decode("ascii", "replace").strip()
    return _boot


def processes() -> Dict[int, Tuple[int, int, str]]:
    """All processes that are not dead yet: pid -> parent, group, start time."""
    found = {}  # type: Dict[int, Tuple[int, int, str]]
    if os.path.isdir("/proc/self"):
        for name in os.listdir("/proc"):
            if name.isdigit():
                entry = _stat(int(name))
                if entry:
                    found[int(name)] = entry
        return found
    done = subprocess.run(["ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart="], stdout=subprocess.PIPE)
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        part = line.split(None, 4)
        if len(part) == 5 and not part[3].startswith("Z"):
            found[int(part[0])] = (int(part[1]), int(part[2]), part[4].strip())
    return found


def _stat(pid: int) -> Optional[Tuple[int, int, str]]:
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            part = stream.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if part[0] in (b"Z", b"X"):
        return None
    return int(part[1]), int(part[2]), part[19].decode()


def identity(pid: int) -> Optional[str]:
    """Distinguishes a process from a later process of the same number.

    None when the process is gone.
    """
    entry = _stat(pid) if os.path.isdir("/proc/self") else processes().get(pid)
    return entry[2] if entry else None


def is_alive(record: Optional[Dict[str, Any]]) -> bool:
    """True if the process that a record names still runs."""
    if not record or record.get("boot") != boot_id() or not isinstance(record.get("pid"), int):
        return False
    now = identity(record["pid"])
    return now is not None and now == record.get("pid_id")


def own_record() -> Dict[str, Any]:
    """The record by which others know this process."""
    return {"pid": os.getpid(), "pid_id": identity(os.getpid()), "boot": boot_id()}


def descendants(root: int, table: Dict[int, Tuple[int, int, str]], without: Set[int]) -> Set[int]:
    """Return the children of a process, their children, and so on.

    Those in `without`, and those below them, are left out.
    """
    children = {}  # type: Dict[int, List[int]]
    for pid, entry in table.items():
        children.setdefault(entry[0], []).append(pid)
    result, todo = set(), [root]  # type: Tuple[Set[int], List[int]]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in result and pid not in without and not is_tmux(pid):
                result.add(pid)
                todo.append(pid)
    return result


def is_tmux(pid: int) -> bool:
    """True for tmux.

    Its server belongs to all of the user's sessions, whoever happened to start it.
    """
    try:
        with open("/proc/%d/comm" % pid, "rb") as stream:
            return stream.read().startswith(b"tmux")
    except OSError:
        return False


def tagged(folder: str, stage: str = "") -> Set[int]:
    """Processes that a run (or one stage of it) started, by the mark in their environment.

    Linux only; else empty.
    """
    mark = b"\0HUDTUI_RUN_DIR=" + os.fsencode(folder) + b"\0"
    second = b"\0HUDTUI_STAGE=" + os.fsencode(stage) + b"\0"
    found, kin, pid = set(), set(), os.getpid()  # type: Tuple[Set[int], Set[int], int]
    table = processes()
    while pid in table and pid not in kin:
        kin.add(pid)
        pid = table[pid][0]
    for pid in table:
        try:
            with open("/proc/%d/environ" % pid, "rb") as stream:
                text = b"\0" + stream.read() + b"\0"
        except OSError:
            continue
        if mark in text and (not stage or second in text) and pid not in kin and not is_tmux(pid):
            found.add(pid)
    return found


def send(pids: Set[int], number: int) -> None:
    """Send a signal to the processes that still exist."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def signal_name(number: int) -> str:
    """A signal as people know it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def log_problem(text: str) -> None:
    """Write a line to supervisor.log; on a full disk it is left out."""
    with contextlib.suppress(OSError, ValueError):
        os.write(2, ("%s: %s\n" % (time.ctime(), text)).encode("utf-8", "replace"))


# --- files ----------------------------------------------------------------------------------------


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading; anything else is an OSError.

    A pipe, which a stage may have made, is not waited for.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return open(handle, "rb")


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """The object in a file.

    None when the file cannot be read, is over `JSON_LIMIT`, or holds no object.
    """
    try:
        with open_regular(path) as stream:
            data = stream.read(JSON_LIMIT + 1)
        found = json.loads(data.decode("utf-8")) if len(data) <= JSON_LIMIT else None
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def write_json(path: str, value: Dict[str, Any], durable: bool = True) -> None:
    """Replace a file in one step."""
    temporary = "%s.%d.tmp" % (path, os.getpid())
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(json.dumps(value).encode("utf-8"))
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
        except BaseException:
            os.unlink(temporary)
            raise
        os.rename(temporary, path)
    except FileNotFoundError:
        raise OSError(errno.ENOENT, "the run's folder is gone") from None


def take_lock(path: str) -> Optional[int]:
    """An open lock that the kernel frees with this process; None when another process holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # file systems without flock
    except OSError as error:
        os.close(handle)
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK):
            return None
        raise
    text = json.dumps(own_record()).encode("ascii")
    os.pwrite(handle, text, 0)
    os.ftruncate(handle, len(text))
    return handle


def detach(work: Callable[[int], int]) -> bytes:
    """Call `work` with a pipe in a process of its own session, and return what it writes there.

    Its result is the exit status.
    """
    reading, writing = os.pipe()
    if os.fork() == 0:
        code = 1
        try:
            os.setsid()
            if os.fork() == 0:
                os.close(reading)
                code = work(writing)
        except BaseException:
            log_problem(traceback.format_exc())
        finally:
            os._exit(code)
    os.close(writing)
    os.wait()
    with os.fdopen(reading, "rb") as stream:
        return stream.read()


def leave_terminal(log: str) -> None:
    """Read nothing, print into a file, and keep running when the terminal is closed."""
    handle, null = (
        os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        os.open(os.devnull, os.O_RDONLY),
    )
    for number, target in ((0, null), (1, handle), (2, handle)):
        os.dup2(target, number)
    os.close(handle)
    os.close(null)
    os.chdir("/")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def adopt_orphans() -> None:
    """Make orphans of the programs children of this process, instead of the machine's first one.

    Linux only.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)


# --- load -----------------------------------------------------------------------------------------


class LoadReader:
    """Load of the machine, from Linux. Figures that cannot be read are left out."""

    # of a container: most memory, memory in use, and what of it are files that can be dropped
    LIMITS = (
        (
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/memory.current",
            "/sys/fs/cgroup/memory.stat",
            "inactive_file",
        ),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
            "/sys/fs/cgroup/memory/memory.stat",
            "total_inactive_file",
        ),
    )

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.at = clock()
        self.before = self._counters()

    def read(self) -> "Dict[str, float]":
        """Shares in per cent, sizes in bytes, rates in bytes a second, since the reading before."""
        found = {}  # type: Dict[str, float]
        now, counters = clock(), self._counters()
        seconds, before = now - self.at, self.before
        self.at, self.before = now, counters
        if "all" in counters and "all" in before and counters["all"] > before["all"]:
            found["cpu"] = round(
                100.0 * (counters["busy"] - before["busy"]) / (counters["all"] - before["all"]), 1
            )
            found["cpus"] = counters["cpus"]
        for name in ("received", "sent"):
            if seconds > 0 and counters.get(name, 0.0) >= before.get(name, float("inf")):
                found[name] = round((counters[name] - before[name]) / seconds)
        with contextlib.suppress(OSError, ValueError, KeyError):
            found.update(self._memory())
        with contextlib.suppress(OSError):
            room = os.statvfs(self.folder)
            found["disk_total"] = room.f_blocks * room.f_frsize
            found["disk_used"] = (room.f_blocks - room.f_bfree) * room.f_frsize
            found["disk_free"] = room.f_bavail * room.f_frsize
        return found

    def _counters(self) -> "Dict[str, float]":
        """Time of all processors, and bytes through the network: both only ever grow."""
        found = {}  # type: Dict[str, float]
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open("/proc/stat") as stream:
                lines = stream.read().splitlines()
            times = [float(word) for word in lines[0].split()[1:9]]
            found["all"], found["busy"] = (
                sum(times),
                sum(times) - times[3] - times[4],
            )  # but idle and waiting for the disk
            found["cpus"] = sum(1 for line in lines if re.match("cpu[0-9]", line))
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open("/proc/net/dev") as stream:
                rows = [line.partition(":") for line in stream.read().splitlines() if ":" in line]
            figures = [rest.split() for name, _, rest in rows if name.strip() != "lo"]
            found["received"] = float(sum(int(row[0]) for row in figures))
            found["sent"] = float(sum(int(row[8]) for row in figures))
        return found

    def _memory(self) -> "Dict[str, float]":
        with open("/proc/meminfo") as stream:
            told = {
                line.split(":")[0]: int(line.split()[1]) * 1024
                for line in stream
                if len(line.split()) > 1
            }
        total, used = told["MemTotal"], told["MemTotal"] - told["MemAvailable"]
        for most, now, details, files in self.LIMITS:
            with contextlib.suppress(OSError, ValueError, KeyError):
                with open(most) as stream:
                    limit = int(stream.read())  # "max" where there is none
                if limit >= total:
                    continue
                with open(now) as stream:
                    current = int(stream.read())
                with open(details) as stream:
                    kept = {
                        line.split()[0]: int(line.split()[1])
                        for line in stream
                        if len(line.split()) == 2
                    }
                return {"memory_total": limit, "memory_used": max(current - kept[files], 0)}
        return {"memory_total": total, "memory_used": used}


class Sampler:
    """Writes down from time to time how busy the machine and its GPUs are.

    It never waits for the answer of nvidia-smi: a driver may take seconds, or hang.
    """

    FIELDS = (
        ("index", "index"),
        ("utilization", "utilization.gpu"),
        ("used_mib", "memory.used"),
        ("memory_mib", "memory.total"),
        ("celsius", "temperature.gpu"),
        ("watts", "power.draw"),
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.next = clock()
        self.since = 0.0
        self.process = None  # type: Optional[subprocess.Popen[bytes]]
        self.late = False  # its answer is not wanted any more
        self.program = shutil.which("nvidia-smi")
        self.load = LoadReader(os.path.dirname(path) or ".")
        self.next_load = clock() + BEAT

    def tick(self) -> None:
        """Take the next step."""
        if clock() >= self.next_load:
            self.next_load = clock() + SAMPLE
            found = self.load.read()
            if found:
                self._append("machine", found)
        if self.program is None:
            return
        if self.process is None:
            if clock() >= self.next:
                self._ask(self.program)
        elif self.process.poll() is not None:
            assert self.process.stdout is not None
            with self.process.stdout as stream:
                answer = stream.read() or b""
            self.process = None
            if not self.late:
                self._write(answer.decode("utf-8", "replace"))
        elif clock() - self.since > 4 * SAMPLE and not self.late:
            self.end()

    def end(self) -> None:
        """Give up the present question.

        While its program cannot be killed, because the driver holds it, no other is started.
        """
        if self.process is not None:
            self.late = True
            with contextlib.suppress(OSError):
                self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=1.0)

    def _ask(self, program: str) -> None:
        query = "--query-gpu=" + ",".join(field for _, field in self.FIELDS)
        self.since, self.next, self.late = clock(), clock() + SAMPLE, False
        try:
            command = [program, query, "--format=csv,noheader,nounits"]
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self.program = None
            return
        assert self.process.stdout is not None
        os.set_blocking(
            self.process.stdout.fileno(), False
        )  # something that it has started may hold the pipe open

    def _write(self, text: str) -> None:
        found = []
        for line in text.splitlines():
            values = [_figure(part) for part in line.split(",")]
            if len(values) == len(self.FIELDS) and values[0] is not None:
                found.append({self.FIELDS[place][0]: value for place, value in enumerate(values)})
        if found:
            self._append("gpus", found)

    def _append(self, name: str, found: Any) -> None:
        append_sample(
            self.path,
            json.dumps({"at": round(time.time(), 3), name: found}).encode("ascii") + b"\n",
        )


def _figure(text: str) -> Optional[float]:
    """A number; None for what the driver does not report (`[N/A]`)."""
    try:
        value = float(text)
        return int(value) if value == int(value) else value
    except (ValueError, OverflowError):
        return None


# --- supervisor -----------------------------------------------------------------------------------


class StageState:
    """A stage of the plan, and the state of its present attempt."""

    def __init__(self, spec: Dict[str, Any], saved: Dict[str, Any]) -> None:
        self.spec = spec
        self.name = spec["name"]  # type: str
        self.service = bool(spec.get("service"))
        self.grace = float(spec.get("grace", 10.0))
        self.state = saved.get("state", "waiting")  # type: str
        self.attempt = saved.get("attempt", 0)  # type: int
        self.exit = saved.get("exit")  # type: Optional[int]
        self.started = saved.get("started")  # type: Optional[float]
        self.ended = saved.get("ended")  # type: Optional[float]
        self.pid = saved.get("pid")  # type: Optional[int]
        self.pid_id = saved.get("pid_id")  # type: Optional[str]
        self.program = None  # type: Optional[subprocess.Popen[bytes]]
        # Exit status, memory in KiB, time
        self.result = None  # type: Optional[Tuple[int, int, float]]
        self.since = clock()
        self.not_before = 0.0
        self.asked = None  # type: Optional[float]
        self.reason = "stop"

    def saved(self) -> Dict[str, Any]:
        """Fields of the stage in status.json."""
        alive = self.state in ("running", "ready")
        return {
            "state": self.state,
            "attempt": self.attempt,
            "exit": self.exit,
            "started": self.started,
            "ended": self.ended,
            "pid": self.pid if alive else None,
            "pid_id": self.pid_id if alive else None,
            "service": self.service,
        }

    def signal(self, number: int) -> None:
        """Send a signal to the program and its group.

        Its number is its own until its exit status is collected.
        """
        if self.program is not None and self.result is None:
            with contextlib.suppress(OSError):
                os.killpg(self.program.pid, number)


def append_sample(path: str, lines: bytes) -> None:
    """Append whole lines to a file of samples, unless it is full.

    A disk without room is no reason to stop.
    """
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(handle).st_size < SAMPLES_LIMIT:
                os.write(handle, lines)
        finally:
            os.close(handle)


class Supervisor:
    """The loop that starts stages, watches them and writes down what happens."""

    def __init__(self, folder: str, secrets: Dict[str, str]) -> None:
        self.folder = folder
        self.secrets = secrets
        plan = read_json(self.path("plan.json"))
        if plan is None:
            raise SystemExit("there is no readable plan.json in %s" % folder)
        self.plan = plan
        self.session = str(plan["session"])
        saved = read_json(self.path("status.json")) or {}
        self.resumed = bool(saved)
        self.rebooted = bool(saved) and saved.get("boot") != boot_id()
        self.state = saved.get("state", "running")  # type: str
        self.outcome = None  # type: Optional[Tuple[str, Optional[str]]]
        self.why = saved.get("why")  # type: Optional[str]
        self.mode = saved.get("mode", "")  # type: str
        self.started = saved.get("started") or time.time()  # type: float
        self.spent = float(saved.get("elapsed", 0.0))
        if saved.get("boot") == boot_id():
            self.zero = float(saved["zero"])
        else:
            self.zero = clock() - max(time.time() - self.started if saved else 0.0, self.spent)
        self.ended = None  # type: Optional[float]
        self.beats = int(saved.get("beats", 0))
        self.next_beat = 0.0
        self.signalled = 0
        names = saved.get("stages", {})
        self.stages = [StageState(spec, names.get(spec["name"], {})) for spec in plan["stages"]]
        if self.rebooted:
            for stage in self.stages:
                stage.pid = None  # the number may be another process now
        self.sampler = Sampler(self.path("gpu.jsonl"))
        self.notify = {name: secrets[name] for name in NOTIFY if name in secrets}
        self.lookout = None  # type: Optional[subprocess.Popen[bytes]]
        self.lookout_after = 0.0
        self.unwritten = []  # type: List[bytes]
        self.ends = {}  # type: Dict[Tuple[str, int], Dict[str, Any]]
        self.sequence = self._next_sequence()
        self.hard_after = None  # type: Optional[float]
        if saved.get("outcome"):
            self.outcome = (saved["outcome"][0], saved["outcome"][1])
            self.hard_after = self.wished_grace(read_json(self.path("stop.json")))

    def path(self, *parts: str) -> str:
        """A path in the run's folder."""
        return os.path.join(self.folder, *parts)

    @staticmethod
    def wished_grace(wish: Optional[Dict[str, Any]]) -> Optional[float]:
        """Seconds that a request to stop allows; None for the plan's."""
        return None if not wish or wish.get("grace") is None else float(wish["grace"])

    # -- what is written

    def _next_sequence(self) -> int:
        """One more than the last number in events.jsonl, whose last line may be incomplete.

        Takes note of the ends in it.
        """
        highest = 0
        try:
            with open(self.path("events.jsonl"), "rb") as stream:
                for line in stream:
                    with contextlib.suppress(ValueError, KeyError, TypeError):
                        record = json.loads(line.decode("utf-8"))
                        highest = max(highest, int(record["seq"]))
                        if record["type"] == "stage_ended":
                            self.ends[record["data"]["stage"], record["data"]["attempt"]] = record[
                                "data"
                            ]
        except OSError:
            return 1
        return highest + 1

    def event(self, kind: str, **data: Any) -> None:
        """Append an event. On a full disk it waits in memory until there is room."""
        data = {
            name: value[:TEXT_LIMIT] if isinstance(value, str) else value
            for name, value in data.items()
        }
        record = {"seq": self.sequence, "at": time.time(), "type": kind, "data": data}
        self.sequence += 1
        self.unwritten.append(json.dumps(record).encode("utf-8") + b"\n")
        self.flush_events()
        self.next_beat = 0.0

    def flush_events(self) -> None:
        """Append what is not written yet: whole lines, or nothing."""
        if not self.unwritten:
            return
        try:
            handle = os.open(
                self.path("events.jsonl"),
                os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )
        except OSError:
            return
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            while self.unwritten:
                text = (b"\n" if torn else b"") + self.unwritten[0]
                try:
                    whole = os.write(handle, text) == len(text)
                except OSError:
                    whole = False
                if not whole:
                    os.ftruncate(handle, size)
                    return
                size, torn = size + len(text), False
                del self.unwritten[0]
            os.fsync(handle)
        except OSError:
            pass
        finally:
            os.close(handle)

    def save(self, durable: bool = True) -> bool:
        """Replace status.json; False when that is not possible now."""
        self.beats += 1
        self.next_beat = clock() + BEAT
        try:
            room = os.statvfs(self.folder)
            free = room.f_bavail * room.f_frsize  # type: Optional[int]
        except OSError:
            free = None
        value = {
            "version": 1,
            "run": self.plan["run"],
            "state": self.state,
            "why": self.why[:TEXT_LIMIT] if self.why else self.why,
            "outcome": self.outcome,
            "mode": self.mode,
            "session": self.session if self.mode == "tmux" else None,
            "pid": os.getpid(),
            "started": self.started,
            "ended": self.ended,
            "elapsed": round(clock() - self.zero, 3),
            "heartbeat": time.time(),
            "beats": self.beats,
            "boot": boot_id(),
            "zero": self.zero,
            "disk_free": free,
            "stages": {stage.name: stage.saved() for stage in self.stages},
        }
        try:
            write_json(self.path("status.json"), value, durable)
        except OSError as error:
            log_problem("status.json: %s" % error)
            return False
        return True

    # -- tmux

    def tmux(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        """Run a tmux command.

        The first command starts the server, which keeps the environment for all of the user's
        sessions and shows it to every client: variables that sound like a secret stay out. Stages
        get theirs another way.
        """
        env = {name: value for name, value in os.environ.items() if not SECRET.search(name)}
        return subprocess.run(
            ["tmux", *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=30,
        )

    def choose_mode(self) -> None:
        """Windows of a tmux session where there is tmux, else detached processes."""
        if self.mode:
            return
        self.mode = "tmux" if shutil.which("tmux") and self.plan.get("tmux", True) else "processes"
        self.event(
            "started",
            mode=self.mode,
            pid=os.getpid(),
            python=sys.version.split()[0],
            run=self.plan["run"],
        )
        if self.mode == "processes" and self.plan.get("tmux", True):
            self.without_windows("tmux is not installed on this machine")

    def without_windows(self, why: str) -> None:
        """Continue without tmux, and note that as an event."""
        self.mode = "processes"
        self.event(
            "note",
            message="%s: stages run as detached processes, without windows" % why,
            mode=self.mode,
        )

    def open_window(self, stage: StageState, offset: int) -> None:
        """Show the log of a stage from `offset` on in a window of its name.

        Without a tmux that works there are no windows.
        """
        session, name = "=" + self.session, stage.name
        command = ["tail", "-c", "+%d" % (offset + 1), "-F", self.path("logs", name + ".log")]
        # A dead window stays readable while the run lasts. The user's own settings must not end the
        # session early.
        settings = [
            ";",
            "set-option",
            "-w",
            "-t",
            "%s:%s" % (self.session, name),
            "remain-on-exit",
            "on",
        ]
        settings += [";", "set-option", "-t", self.session, "destroy-unattached", "off"]
        try:
            done = self.tmux("respawn-window", "-k", "-t", "%s:=%s" % (session, name), *command)
            if done.returncode != 0:
                done = self.tmux(
                    "new-window", "-d", "-t", session + ":", "-n", name, *(command + settings)
                )
            if done.returncode != 0:
                size = ["-x", "180", "-y", "50"]
                done = self.tmux(
                    "new-session",
                    "-d",
                    *size,
                    "-s",
                    self.session,
                    "-n",
                    name,
                    *(command + settings),
                )
            elif not self.tmux("list-clients", "-t", session).stdout.strip():
                # A client that attaches later sees what runs; a client that is attached already
                # stays where it is.
                self.tmux("select-window", "-t", "%s:=%s" % (session, name))
        except (OSError, subprocess.SubprocessError) as error:
            problem = str(error)
        else:
            problem = (
                done.stderr.decode("utf-8", "replace").strip() or "tmux failed"
                if done.returncode
                else ""
            )
        if problem:
            self.without_windows("tmux cannot be used (%s)" % problem)

    def close_session(self) -> None:
        """Close the windows; while a client is attached they stay until it leaves."""
        if self.mode != "tmux":
            return
        try:
            clients = self.tmux("list-clients", "-t", "=" + self.session)
            if clients.returncode == 0 and clients.stdout.strip():
                self.tmux("set-option", "-t", self.session, "destroy-unattached", "on")
            elif clients.returncode == 0:
                self.tmux("kill-session", "-t", "=" + self.session)
        except (OSError, subprocess.SubprocessError) as error:
            log_problem("tmux: %s" % error)

    # -- lookout

    def look_out(self) -> None:
        """Have the lookout running, where somebody wants it."""
        wish = self.plan.get("lookout") or {}
        path = self.path("lookout.py")
        if not (wish.get("stop_on") or self.notify) or clock() < self.lookout_after:
            return
        if self.lookout is not None and identity(self.lookout.pid) is not None:
            return
        self.lookout_after = clock() + LOOKOUT_AGAIN
        env = dict(os.environ, **self.notify)
        try:
            self.lookout = subprocess.Popen(
                [sys.executable, "-I", "-S", path, self.folder],
                env=env,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            log_problem("lookout: %s" % error)

    # -- stages

    def launch(self, stage: StageState) -> None:
        """Start the next attempt of a stage."""
        stage.attempt += 1
        stage.state, stage.exit, stage.ended, stage.started = "starting", None, None, None
        stage.pid, stage.pid_id, stage.program, stage.result = None, None, None, None
        stage.asked, stage.reason = None, "stop"
        # Written down first: whatever is killed from here on, this attempt is never started again.
        if self.save():
            problem = self._start_program(stage)
        else:
            problem = (
                "the disk is full" if _no_room(self.folder) else "status.json cannot be written"
            )
        if problem:
            self._ended(stage, 127, "error", problem)
            return
        stage.state, stage.started, stage.since = "running", time.time(), clock()
        self.save()
        self.event("stage_started", stage=stage.name, attempt=stage.attempt, pid=stage.pid)

    def _start_program(self, stage: StageState) -> Optional[str]:
        """Start the program of an attempt; returns why that is not possible."""
        missing = [name for name in stage.spec.get("secrets", ()) if name not in self.secrets]
        if missing:
            return "its secrets are not known here: " + ", ".join(missing)
        env = {
            name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")
        }
        env.update(
            {"PYTHONUNBUFFERED": "1", "HUDTUI_RUN_DIR": self.folder, "HUDTUI_STAGE": stage.name}
        )
        env["HUDTUI_RUN_ID"] = str(self.plan["run"])
        env.update(stage.spec.get("env", {}))
        env.update({name: self.secrets[name] for name in stage.spec.get("secrets", ())})
        argv = stage.spec["argv"]
        where = os.path.join(self.folder, stage.spec.get("cwd") or "")
        try:
            log = os.open(
                self.path("logs", stage.name + ".log"),
                os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )
        except OSError as error:
            return "its log cannot be written: %s" % error.strerror
        try:
            if self.mode == "tmux":
                self.open_window(stage, os.fstat(log).st_size)
            stage.program = subprocess.Popen(
                argv,
                cwd=where,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            what = "the folder %s" % where if error.filename == where else "`%s`" % argv[0]
            return (
                "the disk is full"
                if _no_room(self.folder)
                else "%s cannot be used: %s" % (what, error.strerror)
            )
        except ValueError as error:
            return "`%s` cannot be used: %s" % (argv[0], error)
        finally:
            os.close(log)
        stage.pid, stage.pid_id = stage.program.pid, identity(stage.program.pid)
        return None

    def reap(self) -> None:
        """Collect the exit status of every process that has ended.

        Orphans of a stage are children of this process too.
        """
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, code, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    return
                for stage in self.stages:
                    if (
                        stage.program is not None
                        and stage.program.pid == pid
                        and stage.result is None
                    ):
                        status = (
                            -os.WTERMSIG(code) if os.WIFSIGNALED(code) else os.WEXITSTATUS(code)
                        )
                        stage.program.returncode = status
                        stage.result = status, usage.ru_maxrss, time.time()

    def observe(self, stage: StageState) -> None:
        """Notice the end of a stage that runs."""
        if stage.state not in ("running", "ready"):
            return
        if stage.result is not None:
            status, memory, at = stage.result
            self.clear(stage)
            self._ended(
                stage, status, "itself" if stage.asked is None else stage.reason, None, at, memory
            )
        elif stage.asked is not None and clock() - stage.asked > self.patience(stage):
            stage.signal(signal.SIGKILL)
            if clock() - stage.asked > self.patience(stage) + SLACK:
                self.kill_stage(stage)
                self._ended(stage, -signal.SIGKILL, stage.reason)

    def left_of(self, stage: StageState) -> Set[int]:
        """Processes that a stage has started and that still run."""
        victims = tagged(self.folder, stage.name)
        table = processes()
        if stage.program is not None:
            victims |= {pid for pid, entry in table.items() if entry[1] == stage.program.pid}
        elif is_alive({"boot": boot_id(), "pid": stage.pid, "pid_id": stage.pid_id}):
            assert stage.pid is not None
            victims |= descendants(stage.pid, table, set()) | {stage.pid}
            victims |= {pid for pid, entry in table.items() if entry[1] == stage.pid}
        if not any(other.state in BEGUN for other in self.stages if other is not stage):
            victims |= self.strays(stage)
        return victims

    def strays(self, ended: Optional[StageState] = None) -> Set[int]:
        """Return the orphans that stages have left behind.

        They come to this process whatever their group and environment.
        """
        alive = [stage for stage in self.stages if stage.result is None and stage is not ended]
        known = {stage.program.pid for stage in alive if stage.program is not None}
        for other in (self.sampler.process, self.lookout):
            if other is not None:
                known.add(other.pid)
        return descendants(os.getpid(), processes(), known)

    def clear(self, stage: StageState) -> None:
        """End what the program left behind: politely, then at once."""
        until, asked = clock() + min(stage.grace, TIDY), False
        while clock() < until + 5.0:
            self.keep_up()
            remaining = self.left_of(stage)
            if not remaining:
                return
            if not asked or clock() > until:
                send(remaining, signal.SIGKILL if asked else signal.SIGTERM)
                asked = True
            time.sleep(0.05)

    def end_abandoned(self) -> None:
        """End the stages that a killed supervisor had begun: their exit status went to nobody."""
        for stage in self.stages:
            if stage.state not in BEGUN:
                continue
            alive = bool(self.left_of(stage))
            self.kill_stage(stage)
            end = self.ends.get((stage.name, stage.attempt))
            if end is not None:  # written down just before the kill
                self._ended(stage, end.get("exit"), str(end.get("by")), end.get("error"))
                continue
            why = "its supervisor was killed, and the stage ended unseen"
            if self.rebooted:
                why = "the machine was restarted"
            elif alive:
                why = "its supervisor was killed, and the stage was ended with it"
            self._ended(stage, None, "error", why)

    def _ended(
        self,
        stage: StageState,
        status: Optional[int],
        by: str,
        error: Optional[str] = None,
        at: Optional[float] = None,
        memory: Optional[int] = None,
    ) -> None:
        stage.state, stage.exit, stage.ended = "ended", status, at or time.time()
        if (stage.name, stage.attempt) in self.ends:
            self._after(stage, status, by, error)
            return
        ended = {"exit": status, "by": by}  # type: Dict[str, Any]
        data = {"stage": stage.name, "attempt": stage.attempt, **ended}
        if error:
            data["error"] = error
        if memory:
            data["max_rss_kib"] = memory
        self.event("stage_ended", **data)
        self.save()
        self._after(stage, status, by, error)

    def _after(
        self, stage: StageState, status: Optional[int], by: str, error: Optional[str]
    ) -> None:
        """Decide what follows from the end of an attempt."""
        if self.state != "running" or (status == 0 and not stage.service):
            return
        again = stage.spec.get("restart") or {}
        another = stage.attempt <= int(again.get("times", 0))
        if another and by != "limit" and status != REFUSED:
            stage.state, stage.not_before = "waiting", clock() + float(again.get("delay", 2.0))
            return
        if error:
            what = error
        elif by == "limit":
            what = "it took longer than its limit of %g s" % stage.spec.get("max_seconds", 0)
        elif status is not None and status < 0:
            what = "it was ended by %s" % signal_name(-status)
            if status == -signal.SIGKILL:
                what += ": perhaps the machine ran out of memory"
        else:
            said = self.last_error(stage)
            if said:
                self.begin_stop("failed", "%s failed (exit %s): %s" % (stage.name, status, said))
                return
            what = "it ended with status %s" % status
        self.begin_stop("failed", "%s: %s" % (stage.name, what))

    def last_error(self, stage: StageState) -> str:
        """The last line of the stage's log that begins with `error: `, as programs of hudtui end.

        Empty when it has none.
        """
        try:
            with open(self.path("logs", stage.name + ".log"), "rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - 16384))
                lines = stream.read(16384).decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        said = next(
            (line[len("error: ") :] for line in reversed(lines) if line.startswith("error: ")), ""
        )
        for value in self.secrets.values():
            said = said.replace(value, "***") if value else said
        return "".join(letter if letter.isprintable() else " " for letter in said).strip()[:300]

    def kill_stage(self, stage: StageState) -> None:
        """End whatever is left of a stage, at once."""
        for _ in range(3):  # what is being started just now is seen by the next look
            victims = self.left_of(stage)
            if not victims:
                return
            send(victims, signal.SIGKILL)
            self.wait_gone(victims, 2.0)

    def wait_gone(self, pids: Set[int], limit: float) -> Set[int]:
        """Wait, and return the processes that still exist after `limit` seconds."""
        until = clock() + limit
        while pids and clock() < until:
            self.keep_up()
            pids = {pid for pid in pids if identity(pid) is not None}
            if pids:
                time.sleep(0.02)
        return pids

    # -- the run

    def patience(self, stage: StageState) -> float:
        """Seconds between the polite and the hard request."""
        return stage.grace if self.hard_after is None else self.hard_after

    def begin_stop(self, outcome: str, why: Optional[str], grace: Optional[float] = None) -> None:
        """Decide how the run ends, and begin to end it."""
        if self.outcome is None:
            self.outcome = (outcome, why)
            self.state, self.why = "stopping", why
            self.hard_after = grace
            self.event("stopping", outcome=outcome, why=why)
            self.save()

    def requests(self) -> None:
        """Obey requests from outside: a stop file, a signal, the time limit."""
        wish = read_json(self.path("stop.json"))
        if self.outcome is not None:
            sooner = self.wished_grace(wish)
            if sooner is not None and (self.hard_after is None or sooner < self.hard_after):
                self.hard_after = sooner  # a second request, with less patience
            return
        limit = (read_json(self.path("limits.json")) or self.plan).get("max_seconds")
        if wish is not None:
            self.begin_stop(
                "stopped", str(wish.get("why") or "stopped on request"), self.wished_grace(wish)
            )
        elif self.signalled:
            self.begin_stop(
                "stopped", "its supervisor was told to stop by %s" % signal_name(self.signalled)
            )
        elif limit and clock() - self.zero > float(limit):
            self.begin_stop("stopped", "its time limit of %g s was reached" % float(limit))

    def advance(self) -> None:
        """Start the next stage when its turn has come.

        Decide the outcome when all stages are done.
        """
        for stage in self.stages:
            if stage.state == "waiting" and clock() < stage.not_before:
                return
            if stage.state == "waiting":
                self.launch(stage)
                return
            if stage.state == "running":
                limit = stage.spec.get("max_seconds")
                if stage.service:
                    self.check_ready(stage)
                elif limit and clock() - stage.since > float(limit) and stage.asked is None:
                    self.ask(stage, "limit")
                if stage.state != "ready":
                    return
        self.outcome = ("finished", None)
        self.state = (
            "stopping" if any(stage.state == "ready" for stage in self.stages) else "running"
        )
        self.save()

    def check_ready(self, stage: StageState) -> None:
        """Mark a service as ready once it answers."""
        wanted = stage.spec.get("ready") or {}
        if wanted.get("port"):
            try:
                socket.create_connection(("127.0.0.1", int(wanted["port"])), 1.0).close()
            except OSError:
                ready = False
            else:
                ready = True
        else:
            ready = not wanted.get("path") or os.path.exists(self.path(wanted["path"]))
        if ready:
            stage.state = "ready"
            self.event("stage_ready", stage=stage.name, seconds=round(clock() - stage.since, 3))
        elif clock() - stage.since > float(wanted.get("timeout", 600.0)):
            self.begin_stop(
                "failed",
                "%s: it was not ready after %g s" % (stage.name, wanted.get("timeout", 600.0)),
            )

    def ask(self, stage: StageState, reason: str) -> None:
        """Tell a program to end politely; `observe` kills it when it does not."""
        stage.asked, stage.reason = clock(), reason
        stage.signal(
            getattr(signal, "SIG" + str(stage.spec.get("stop_signal", "TERM")), signal.SIGTERM)
        )

    def wind_down(self) -> None:
        """Stop what still runs, the newest first; then conclude."""
        for stage in reversed(self.stages):
            if stage.state in ("running", "ready"):
                if stage.asked is None:
                    self.ask(stage, "stop")
                return
        self.conclude()

    def conclude(self) -> None:
        """Kill what is left of the run, and write down how it ended."""
        remaining = tagged(self.folder) | self.strays()
        if remaining:
            send(remaining, signal.SIGKILL)
            remaining = self.wait_gone(remaining, 5.0)
            if remaining:
                listed = ", ".join(map(str, sorted(remaining)))
                self.event("note", message="these processes could not be ended: %s" % listed)
        self.close_session()
        self.sampler.end()
        if self.lookout is not None and not self.notify:  # nobody waits for what it would tell
            with contextlib.suppress(OSError):
                os.kill(self.lookout.pid, signal.SIGKILL)
        state, why = self.outcome or ("failed", "nothing was decided")
        self.state, self.why, self.ended = state, why, time.time()
        self.event(state, why=why, exits={stage.name: stage.exit for stage in self.stages})
        until = clock() + 600.0
        while (
            (not self.save() or self.unwritten) and os.path.isdir(self.folder) and clock() < until
        ):
            time.sleep(1.0)  # a full disk: later readers should find the truth
            self.flush_events()

    def keep_up(self) -> None:
        """Do the work that must not wait.

        Exit codes, the heartbeat, events that found no room, GPUs.
        """
        self.reap()
        self.sampler.tick()
        if clock() >= self.next_beat:
            self.flush_events()
            self.save(durable=False)

    def run(self) -> None:
        """The loop. Returns when the run has ended."""
        self.choose_mode()
        if self.resumed:
            self.event("resumed", pid=os.getpid())
            self.requests()
            self.end_abandoned()
        self.save()
        while self.state not in ENDED:
            if not os.path.isdir(self.folder):
                self.outcome = ("stopped", "the run's folder was removed")
            self.reap()
            for stage in self.stages:
                self.observe(stage)
            self.requests()
            self.look_out()
            if self.outcome is None:
                self.advance()
            else:
                self.wind_down()
            if self.state not in ENDED:
                self.keep_up()
                busy = self.outcome is not None or clock() - self.zero < 5.0
                time.sleep(TICK / 4 if busy else TICK)


def start(folder: str, text: bytes = b"") -> int:
    """Begin or continue a run in the background; `text` holds the secrets."""
    secrets = {}  # type: Dict[str, str]
    if text.strip():
        try:
            secrets = {
                str(name): str(value)
                for name, value in json.loads(text.decode("utf-8"))["env"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            print(
                json.dumps(
                    {
                        "ok": False,
                        "status": 2,
                        "error": "standard input is not the JSON object that was expected",
                    }
                )
            )
            return 2
    answer = detach(lambda report: _serve(folder, secrets, report))
    if not answer:
        print(
            json.dumps(
                {"ok": False, "error": "the supervisor died while it started; see supervisor.log"}
            )
        )
        return 1
    print(answer.decode("utf-8"))
    return int(json.loads(answer.decode("utf-8"))["status"])


def _serve(folder: str, secrets: Dict[str, str], report: int) -> int:
    """Carry out the run in this process, and report how that began."""

    def answer(status: int, **data: Any) -> None:
        os.write(report, json.dumps(dict(data, ok=status == 0, status=status)).encode("utf-8"))
        os.close(report)

    try:
        os.chmod(folder, 0o700)
        leave_terminal(os.path.join(folder, "supervisor.log"))
        os.environ.pop("TMUX", None)  # the default server, where `tmux attach` looks
        os.environ.pop("TMUX_PANE", None)
        os.makedirs(os.path.join(folder, "logs"), 0o700, exist_ok=True)
        adopt_orphans()
        lock = take_lock(os.path.join(folder, "supervisor.lock"))
        if lock is None:
            answer(3, error="another supervisor carries out this run", pid=_holder(folder))
            return 3
        supervisor = Supervisor(folder, secrets)
        if supervisor.state in ENDED:
            answer(0, state=supervisor.state, pid=None)
            return 0

        def on_signal(number: int, _frame: Any) -> None:
            supervisor.signalled = number

        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)
        signal.signal(signal.SIGHUP, lambda *_: None)  # not ignored, which programs would inherit
        if not supervisor.save():
            answer(
                1,
                error="the disk is full"
                if _no_room(folder)
                else "status.json cannot be written; see supervisor.log",
            )
            return 1
    except (OSError, SystemExit, KeyError, ValueError) as error:
        answer(1, error="the supervisor cannot work in %s: %s" % (folder, error))
        return 1
    answer(0, state=supervisor.state, pid=os.getpid())
    try:
        supervisor.run()
        return 0
    except Exception as error:
        log_problem(traceback.format_exc())
        for stage in supervisor.stages:
            supervisor.kill_stage(stage)
        supervisor.outcome = ("failed", "the supervisor broke down: %r" % (error,))
        supervisor.conclude()
        return 1


def _holder(folder: str) -> Optional[int]:
    record = read_json(os.path.join(folder, "supervisor.lock"))
    return int(record["pid"]) if record and is_alive(record) else None


def _no_room(folder: str) -> bool:
    try:
        return os.statvfs(folder).f_bavail == 0
    except OSError:
        return False


def status(folder: str) -> int:
    """Print what the files say and which processes live.

    First whether the supervisor lives: it writes down how the run ended before it ends itself.
    """
    pid = _holder(folder)
    found = read_json(os.path.join(folder, "status.json"))
    records, stages = [], (found or {}).get("stages")
    for name, stage in stages.items() if isinstance(stages, dict) else ():
        if isinstance(stage, dict) and is_alive(dict(stage, boot=(found or {}).get("boot"))):
            records.append(name)
    session = False
    if found and isinstance(found.get("session"), str) and shutil.which("tmux"):
        env = {name: value for name, value in os.environ.items() if name != "TMUX"}
        asked = subprocess.run(
            ["tmux", "has-session", "-t", "=" + found["session"]],
            env=env,
            stderr=subprocess.DEVNULL,
        )
        session = asked.returncode == 0
    answer = {
        "status": found,
        "supervisor": pid,
        "stages": records,
        "session": session,
        "now": time.time(),
    }
    print(json.dumps(dict(answer, processes=sorted(tagged(folder)))))
    return 0


def stop(folder: str, grace: Optional[float], why: str) -> int:
    """Leave a request to stop, and make sure that a supervisor reads it."""
    found = read_json(os.path.join(folder, "status.json"))
    if found is None or found.get("state") not in ENDED:
        holder = _holder(folder)
        try:
            write_json(
                os.path.join(folder, "stop.json"), {"at": time.time(), "grace": grace, "why": why}
            )
        except OSError as error:  # a full disk must not keep a run going
            if holder is None:
                print(json.dumps({"ok": False, "status": 1, "error": str(error)}))
                return 1
            os.kill(holder, signal.SIGTERM)
        if holder is None and found is not None:
            return start(folder)
    print(json.dumps({"ok": True, "status": 0}))
    return 0


def main(arguments: List[str]) -> int:
    """The command line; see the text at the top of the file."""
    if len(arguments) < 2 or arguments[0] not in ("start", "status", "stop"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = os.path.realpath(os.path.expanduser(arguments[1]))
    if not os.path.isdir(folder):
        print(json.dumps({"ok": False, "status": 4, "error": "there is no folder %s" % folder}))
        return 4
    if arguments[0] == "start":
        return start(folder, b"" if sys.stdin.isatty() else sys.stdin.buffer.read())
    if arguments[0] == "status":
        return status(folder)
    grace = float(arguments[2]) if len(arguments) > 2 and arguments[2] != "-" else None
    return stop(folder, grace, arguments[3] if len(arguments) > 3 else "stopped on request")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
