#!/usr/bin/env python3
"""Makes one run of several machines: standard library only, Python 3.8 and newer, one file.

    nodes.py addresses           print this machine's own IPv4 addresses, private ones first, then
                                 a port at which the other nodes can meet it
    nodes.py meet DIR            meet the other nodes of the run in DIR, and watch them to its end
    nodes.py run DIR COMMAND...  run this node's part of a command, after the nodes have met;
                                 {address} and {port} in it are where its processes meet

`nodes.json` in DIR says which node this is, where node 0 may be reached, and the key that all nodes
of the run know. Node 0 listens; the others connect, and prove with the key that they belong there.
Each node then connects with each other one, because so do the processes of a training. Only when
all of that has worked is `nodes.met` written, and the training starts. From then on each node tells
every two seconds that it lives.

Node 0 decides why a run has failed, so that every node says the same: a node that was lost, or a
process that was killed, counts more than the complaints of others about it. A training that the
supervisor of one node stops is stopped on all nodes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NoReturn, Optional, Tuple

BEAT = 2.0  # seconds between two signs of life
PATIENCE = 75.0  # seconds of silence after which a node counts as lost
WAIT = 300.0  # seconds in which all nodes have to come
CLOSED = 45.0  # seconds of vain attempts after which a port counts as closed
TRY = 4.0  # seconds for one connection
ANSWER = 20.0  # seconds for an answer
INTRODUCTION = 60.0  # seconds in which a connection has to say which node it is
COLLECT = 3.0  # seconds in which node 0 hears what the others say of a failure
DECIDED = 2.0  # seconds in which a supervisor writes down why it ends a node
ROOM = 64 * 1024  # bytes of free disk, below which nothing can be written down
OBEY = 30.0  # seconds that a failed command waits for the decision why
LINE = 64 * 1024  # bytes of a message
STRANGERS = 32  # connections that have not proved yet that they belong here
FAILED = 5  # exit status
MEETING = 29400  # port of node 0 for the other nodes, where it is free
RENDEZVOUS = 29401  # port of the training's own meeting, where it is free
CONSEQUENCES = re.compile(
    r"closed by peer|reset by peer|Broken pipe|timed out|Timeout|NCCL|DistNetworkError|"
    r"DistBackendError|ncclRemoteError|Rendezvous",
    re.IGNORECASE,
)  # words of a process that has lost another one
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b")
LAUNCHER = re.compile(r"[EWI]\d{4} .*\btorch/distributed/elastic/")  # what torchrun says of itself
KILLED = re.compile(r"Signal \d+ \((SIG\w+)\) received by PID|exitcode\s*: -(\d+)")


def say(text: str) -> None:
    """A line of the log."""
    print(text, flush=True)


def give_up(text: str) -> NoReturn:
    """Exit with a sentence instead of a traceback."""
    say("error: " + text)
    sys.exit(FAILED)


def clock() -> float:
    """Seconds that only grow."""
    return time.monotonic()


# --- files ----------------------------------------------------------------------------------------


def read_json(path: str) -> Dict[str, Any]:
    """The object in a file; empty where there is none."""
    try:
        with open(path, "rb") as stream:
            found = json.loads(stream.read(1024 * 1024).decode("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: str, value: Dict[str, Any]) -> None:
    """Replace a file in one step."""
    temporary = "%s.%d.tmp" % (path, os.getpid())
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(value, stream)
    os.replace(temporary, path)


def has_no_room(folder: str) -> bool:
    """True where the disk of a folder is full."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < ROOM


def last_lines(path: str) -> List[str]:
    """The last lines of a log that are not empty."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - 65536))
            text = stream.read(65536).decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip() and not line.startswith("+ ")]


def parted(lines: List[str]) -> Tuple[List[str], List[str]]:
    """The newest lines of a training, and what its launcher says of the process that failed first.

    The launcher's report is longer than what it is about, and comes last.
    """
    ends = [number for number, line in enumerate(lines) if re.match(r"\S*ChildFailedError", line)]
    report = []  # type: List[str]
    if ends:
        begins = [
            number
            for number, line in enumerate(lines[: ends[-1]])
            if line.startswith("Traceback (most recent call last)")
        ]
        begin = begins[-1] if begins else ends[-1]
        lines, report = lines[:begin], lines[ends[-1] :]
    roots = [number for number, line in enumerate(report) if line.startswith("Root Cause")]
    if roots:
        report = report[roots[-1] :]
    else:
        report = [line for line in lines if LAUNCHER.match(line)] + report
    return [line for line in lines if not LAUNCHER.match(line)][-20:], report[-20:]


def telling(lines: List[str]) -> str:
    """The line that says most about a failure; empty where there is none."""
    plain = [re.sub(r"^\[rank\d+\]: ", "", line) for line in lines]
    for line in reversed(plain):
        if line.startswith("error: "):
            return line.replace("error: ", "", 1)
    for line in reversed(plain):
        if EXCEPTION.match(line):
            return line
    return next((line for line in reversed(plain) if re.search(r"[^\W\d_]{2}", line)), "")


# --- addresses ------------------------------------------------------------------------------------


def interfaces() -> Dict[str, str]:
    """The IPv4 address of each network interface. Linux only; elsewhere that of the host's name."""
    found = {}  # type: Dict[str, str]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                asked = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(probe.fileno(), 0x8915, asked)  # SIOCGIFADDR
                found[name] = socket.inet_ntoa(answer[20:24])
    if not found:
        with contextlib.suppress(OSError):
            found["?"] = socket.gethostbyname(socket.gethostname())
    return found


def is_private(address: str) -> bool:
    """True for an address of a private network."""
    return re.match(r"10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.", address) is not None


def own_addresses() -> List[str]:
    """This machine's addresses for others, those of private networks first."""
    usable = [
        address
        for name, address in interfaces().items()
        if not address.startswith("127.") and not re.match(r"docker|virbr|br-|veth.*\d$", name)
    ]
    return sorted(usable, key=lambda address: not is_private(address))


def interface_of(address: str) -> Optional[str]:
    """The interface with that address."""
    return next((name for name, own in interfaces().items() if own == address), None)


# --- connections ----------------------------------------------------------------------------------


def proof(key: str, *words: object) -> str:
    """What only a node that knows the key can say."""
    text = "\n".join(map(str, words)).encode("utf-8")
    return hmac.new(key.encode("utf-8"), text, hashlib.sha256).hexdigest()


class Link:
    """A connection with another node: a JSON object a line."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream.setblocking(False)
        self.coming = b""
        self.going = b""
        self.open = True
        self.since = self.heard = clock()
        self.rank = -1  # of the node at the other end; below 0 until it is known
        self.nonce = secrets.token_hex(16)

    def send(self, kind: str, **data: Any) -> None:
        """Send a message, now or when there is room."""
        self.going += json.dumps(dict(data, type=kind)).encode("utf-8") + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what is waiting, as far as there is room."""
        while self.going and self.open:
            try:
                sent = self.stream.send(self.going)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                return  # what the other node has said before is still to be read
            self.going = self.going[sent:]

    def read(self) -> List[Dict[str, Any]]:
        """The messages that have come; notices the end of the connection."""
        while self.open:
            try:
                data = self.stream.recv(65536)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data = b""
            if not data:
                self.close()
                break
            self.heard = clock()
            self.coming += data
            if len(self.coming) > LINE:  # the rest is for the next time
                if b"\n" not in self.coming:
                    self.close()
                break
        lines = self.coming.split(b"\n")
        self.coming = lines.pop()
        found = []
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                message = json.loads(line.decode("utf-8", "replace"))
                if isinstance(message, dict):
                    found.append(message)
        return found

    def close(self) -> None:
        """End the connection."""
        if self.open:
            self.open = False
            self.stream.close()


def read_line(stream: socket.socket) -> bytes:
    """A line, and nothing of what comes after it."""
    line, until = b"", clock() + ANSWER
    while not line.endswith(b"\n") and len(line) < LINE:
        if clock() > until:
            raise OSError("the answer takes too long")
        letter = stream.recv(1)
        if not letter:
            raise OSError("the connection ended")
        line += letter
    return line


def listen(port: int) -> socket.socket:
    """A socket that waits for connections at all addresses."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(128)
    listener.setblocking(False)
    return listener


def connection_problem(address: str, port: int) -> Tuple[Optional[socket.socket], str]:
    """A connection, or why there is none."""
    try:
        return socket.create_connection((address, port), TRY), ""
    except socket.timeout:
        return None, "no answer (closed by a firewall?)"
    except OSError as error:
        return None, (error.strerror or str(error)).lower()


# --- the meeting ----------------------------------------------------------------------------------


class Node:
    """What node 0 and the others have in common."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        about = read_json(self.path("nodes.json"))
        try:
            self.rank = int(about["rank"])
            self.hosts = [str(name) for name in about["hosts"]]
            self.addresses = [str(address) for address in about["addresses"]]
            self.port = int(about["port"])
            self.key = str(about["key"])
        except (KeyError, TypeError, ValueError):
            give_up("nodes.json in %s is not readable" % folder)
        self.count = len(self.hosts)
        self.patience = float(about.get("patience", PATIENCE))
        self.wait = float(about.get("wait", WAIT))
        self.began = clock()
        self.next_beat = 0.0
        self.asked = False  # its supervisor has asked it to end
        self.met = False
        self.told = False  # of the failed command
        for name in ("nodes.met", "nodes.ended"):
            with contextlib.suppress(OSError):
                os.unlink(self.path(name))

    def path(self, name: str) -> str:
        """A path in the run's folder."""
        return os.path.join(self.folder, name)

    def name(self, rank: int) -> str:
        """A node as people know it."""
        return "node %d (%s)" % (rank, self.hosts[rank])

    def on_signal(self, _number: int, _frame: Any) -> None:
        """Its supervisor ends it."""
        self.asked = True

    def meet(self, address: str, port: int, own: str) -> None:
        """Write down that all nodes have met."""
        self.met = True
        found = {"address": address, "port": port, "interface": interface_of(own)}
        write_json(self.path("nodes.met"), found)
        say(
            "%d nodes have met; the training's processes meet at %s:%d"
            % (self.count, address, port)
        )

    def failure(self) -> Optional[Dict[str, Any]]:
        """How this node's command has failed; None while it has not."""
        if self.told:
            return None
        found = read_json(self.path("nodes.ended"))
        self.told = bool(found)
        return found or None

    def outcome(self) -> Tuple[str, str]:
        """How the supervisor of this node ends the run, and why.

        Where the whole machine is told to end, the supervisor may be a moment later.
        """
        until = clock() + DECIDED
        while True:
            found = read_json(self.path("status.json")).get("outcome")
            if isinstance(found, list) and len(found) == 2:
                return str(found[0]), str(found[1] or "")
            if clock() > until:
                break
            time.sleep(0.05)
        full = has_no_room(self.folder)
        return "failed", "its disk is full" if full else "it was ended, and does not say why"

    def stop(self, why: str) -> None:
        """Have this node's supervisor stop the run."""
        if not os.path.exists(self.path("stop.json")):
            write_json(self.path("stop.json"), {"at": time.time(), "grace": None, "why": why})

    def probe(self, table: Dict[str, Any]) -> List[str]:
        """Connect with every other node; returns what did not work.

        With all at once: one after the other, closed ports would take longer than a node may be
        silent.
        """

        def attempt(rank: int) -> Optional[str]:
            address, port = table[str(rank)]
            stream, why = connection_problem(str(address), int(port))
            if stream is None:
                names = (self.name(self.rank), self.name(rank), address, port, why)
                return "%s cannot reach %s at %s:%d: %s" % names
            stream.close()
            return None

        others = sorted(int(text) for text in table if int(text) != self.rank)
        with ThreadPoolExecutor(max_workers=64) as pool:
            return [problem for problem in pool.map(attempt, others) if problem]


OPEN_PORTS = (
    "The nodes need one network in which they reach each other at every port: open the ports from "
    "1024 on between them."
)


class MainNode(Node):
    """Node 0: it listens, and decides."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.links = {}  # type: Dict[int, Link]
        self.strangers = []  # type: List[Link]
        self.hello = {}  # type: Dict[int, Dict[str, Any]]
        self.probed = {}  # type: Dict[int, List[str]]
        self.done = {}  # type: Dict[int, str]
        self.causes = []  # type: List[Tuple[int, str]]
        self.decide_at = 0.0
        self.table_sent = False
        self.address = ""
        try:
            self.listener = listen(self.port)
        except OSError as error:
            give_up(
                "%s cannot listen on port %d: %s"
                % (self.name(0), self.port, (error.strerror or str(error)).lower())
            )

    def run(self) -> int:
        """The loop."""
        say(
            "%s waits for %s at port %d of %s"
            % (
                self.name(0),
                " and ".join(map(self.name, range(1, self.count))),
                self.port,
                ", ".join(self.addresses),
            )
        )
        while True:
            if self.asked:
                return self.leave()
            self.look()
            if self.decide_at and clock() >= self.decide_at:
                return self.decide()
            if not self.met:
                self.advance()
            failure = self.failure()
            if failure:
                self.blame(0, failure)
            self.watch()

    def look(self) -> None:
        """Wait a moment for messages, and take them."""
        links = [*self.links.values(), *self.strangers]
        reading = [self.listener, *(link.stream for link in links if link.open)]
        writing = [link.stream for link in links if link.open and link.going]
        with contextlib.suppress(InterruptedError):
            select.select(reading, writing, [], 0.1)
        self.accept()
        for link in list(self.strangers):
            for message in link.read():
                if link in self.strangers:
                    self.admit(link, message)
            if link in self.strangers and (not link.open or clock() - link.since > INTRODUCTION):
                link.close()
                self.strangers.remove(link)
        for rank, link in self.links.items():
            link.flush()
            for message in link.read():
                self.take(rank, message)

    def accept(self) -> None:
        """Take the connections that have come."""
        with contextlib.suppress(BlockingIOError, InterruptedError, OSError):
            while True:
                stream, _ = self.listener.accept()
                if len(self.strangers) >= STRANGERS:  # a node says at once who it is
                    self.strangers.pop(0).close()
                link = Link(stream)
                self.strangers.append(link)
                link.send("who", nonce=link.nonce)

    def admit(self, link: Link, message: Dict[str, Any]) -> None:
        """A connection says which node it is; only one with the key is believed."""
        rank, said = message.get("rank"), str(message.get("proof"))
        known = isinstance(rank, int) and 0 < rank < self.count
        if not known or not hmac.compare_digest(said, proof(self.key, link.nonce, rank)):
            link.close()
            return
        assert isinstance(rank, int)
        if rank in self.links:
            link.send("refused", why="another program is %s already" % self.name(rank))
            link.close()
            return
        link.rank = rank
        self.strangers.remove(link)
        self.links[rank] = link
        self.hello[rank] = message
        link.send("welcome", proof=proof(self.key, message.get("nonce"), "main"))
        say("%s is here" % self.name(rank))

    def take(self, rank: int, message: Dict[str, Any]) -> None:
        """Take a message of a node that belongs here."""
        kind = message.get("type")
        if kind == "probed":
            self.probed[rank] = [str(text) for text in message.get("problems", ())]
        elif kind == "ended":
            self.blame(rank, message)
        elif kind == "bye":
            outcome, why = str(message.get("outcome")), str(message.get("why") or "")
            self.done[rank] = outcome
            if outcome == "failed":
                self.blame(rank, {"what": why})
            elif outcome == "stopped":
                self.stop("%s: %s" % (self.name(rank), why))

    def advance(self) -> None:
        """Take the next step of the meeting."""
        absent = [rank for rank in range(1, self.count) if rank not in self.links]
        if absent:
            if clock() - self.began > self.wait:
                self.conclude(
                    "%s did not come within %g s"
                    % (" and ".join(map(self.name, absent)), self.wait)
                )
            return
        if not self.table_sent:
            self.send_table()
        elif len(self.probed) == self.count and not self.causes:
            problems = [text for rank in sorted(self.probed) for text in self.probed[rank]]
            if problems:
                self.conclude("%s. %s" % ("; ".join(problems), OPEN_PORTS))
                return
            port = free_port(0 if self.address.startswith("127.") else RENDEZVOUS)
            for link in self.links.values():
                link.send("met", address=self.address, port=port)
            self.meet(self.address, port, socket.gethostbyname(self.address))

    def send_table(self) -> None:
        """Tell all nodes where the others are, and connect with them."""
        self.table_sent = True
        reached = [set(map(str, self.hello[rank].get("reached", ()))) for rank in self.links]
        common = [one for one in self.addresses if all(one in own for own in reached)]
        if not common:
            each = [
                "%s at %s" % (self.name(rank), ", ".join(self.hello[rank].get("reached", ())))
                for rank in sorted(self.links)
            ]
            self.conclude(
                "the nodes have no network in common: node 0 is reached by %s. %s"
                % (" and by ".join(each), OPEN_PORTS)
            )
            return
        self.address = common[0]
        table = {"0": [self.address, self.port]}  # type: Dict[str, Any]
        for rank in self.links:
            own = self.hello[rank].get("own")
            address = own.get(self.address) if isinstance(own, dict) else None
            table[str(rank)] = [str(address), int(self.hello[rank].get("probe", 0))]
        for link in self.links.values():
            link.send("table", table=table)
        self.probed[0] = self.probe(table)

    def blame(self, rank: int, how: Dict[str, Any]) -> None:
        """Take note of a failure; a little later it is decided which one counts."""
        what = str(how.get("what") or "it failed")
        lines = [str(line) for line in how.get("lines", ())]
        text = "\n".join([what, *lines])
        killed = KILLED.search("\n".join([text, *map(str, how.get("report", ()))]))
        weight = 0 if how.get("lost") or killed else 2 if CONSEQUENCES.search(text) else 1
        if killed and "SIG" not in what:
            name = killed.group(1) or signal_name(int(killed.group(2)))
            what += ", because a process of it was ended by %s" % name
        elif telling(lines) and "SIG" not in what:
            what += ": " + telling(lines)
        self.causes.append((weight, "%s: %s" % (self.name(rank), what)))
        for line in lines:
            say("  %s | %s" % (self.name(rank), line))
        self.decide_at = self.decide_at or clock() + COLLECT

    def conclude(self, text: str) -> None:
        """The one reason why the run cannot go on."""
        self.causes.append((-1, text))
        self.decide_at = clock()

    def decide(self) -> int:
        """Tell all nodes why the run has failed."""
        text = min(self.causes, key=lambda cause: cause[0])[1]
        for link in self.links.values():
            link.send("verdict", text=text)
        self.drain()
        say("error: " + text)
        return FAILED

    def watch(self) -> None:
        """Notice the nodes that are gone, and tell the others that this one lives."""
        for rank, link in self.links.items():
            if rank in self.done:
                continue
            if not link.open:
                self.done[rank] = "lost"
                what = "it is gone, without a word: its machine, or the programs of the run on it"
                self.blame(rank, {"what": what, "lost": True})
            elif clock() - link.heard > self.patience:
                self.done[rank] = "lost"
                what = "nothing was heard of it for %g s" % self.patience
                self.blame(rank, {"what": what, "lost": True})
        if clock() >= self.next_beat:
            self.next_beat = clock() + BEAT
            for link in self.links.values():
                link.send("beat")

    def leave(self) -> int:
        """Tell the others how this node ends."""
        outcome, why = self.outcome()
        for link in self.links.values():
            link.send("bye", outcome=outcome, why=why)
        self.drain()
        return 0

    def drain(self) -> None:
        """Send what is waiting."""
        until = clock() + 2.0
        while clock() < until and any(link.going and link.open for link in self.links.values()):
            for link in self.links.values():
                link.flush()
            time.sleep(0.02)


class OtherNode(Node):
    """A node that connects with node 0."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.listener = listen(0)
        self.reached = []  # type: List[str]
        self.own = {}  # type: Dict[str, str]

    def run(self) -> int:
        """The loop."""
        link = self.connect()
        if link is None:
            return 0
        ended = False  # node 0 has ended well
        while True:
            if self.asked:
                outcome, why = self.outcome()
                link.send("bye", outcome=outcome, why=why)
                until = clock() + 2.0
                while link.going and link.open and clock() < until:
                    link.flush()
                    time.sleep(0.02)
                return 0
            with contextlib.suppress(InterruptedError):
                select.select([link.stream] if link.open else [], [], [], 0.1)
            link.flush()
            for message in link.read():
                kind = message.get("type")
                if kind == "verdict":
                    give_up(str(message.get("text")))
                elif kind == "table":
                    link.send("probed", problems=self.probe(message.get("table") or {}))
                elif kind == "met":
                    address, port = str(message.get("address")), int(message.get("port", 0))
                    self.meet(address, port, self.own[address])
                elif kind == "bye":
                    ended = True
                    outcome, why = str(message.get("outcome")), str(message.get("why") or "")
                    if outcome == "failed":
                        give_up("%s: %s" % (self.name(0), why))
                    elif outcome == "stopped":
                        self.stop(why or "stopped on node 0")
            if not link.open and not ended:
                give_up(
                    "%s: it is gone, without a word: its machine, or the programs of the run on it"
                    % self.name(0)
                )
            if not ended and clock() - link.heard > self.patience:
                give_up("%s: nothing was heard of it for %g s" % (self.name(0), self.patience))
            failure = self.failure()
            if failure:
                link.send("ended", **failure)
            if clock() >= self.next_beat:
                self.next_beat = clock() + BEAT
                link.send("beat")
            if not link.open:
                time.sleep(0.1)

    def connect(self) -> Optional[Link]:
        """The connection with node 0; None when the supervisor ends this node meanwhile."""
        said, refused = "", False
        while not self.asked:
            problems = []
            for address in self.addresses:
                stream, why = connection_problem(address, self.port)
                if stream is not None:
                    if self.introduce(stream):
                        reached = ", ".join(self.own)
                        say(
                            "%s has reached %s at %s"
                            % (self.name(self.rank), self.name(0), reached)
                        )
                        return Link(stream)
                    stream.close()
                    why = "another program answers there"
                problems.append("%s:%d: %s" % (address, self.port, why))
                refused = refused or "refused" in why
            text = "; ".join(problems)
            if text != said:
                say("%s is not reached yet: %s" % (self.name(0), text))
                said = text
            # a port that refuses may be opened by a node 0 that starts later
            if clock() - self.began > (self.wait if refused else min(CLOSED, self.wait)):
                give_up(
                    "%s cannot reach %s at %s. %s"
                    % (self.name(self.rank), self.name(0), text, OPEN_PORTS)
                )
            time.sleep(0.5)
        return None

    def introduce(self, stream: socket.socket) -> bool:
        """Say which node this is; returns whether it is node 0 of this run that answers."""
        stream.settimeout(ANSWER)
        nonce = secrets.token_hex(16)
        try:
            asked = json.loads(read_line(stream))
            words = {
                "rank": self.rank,
                "nonce": nonce,
                "proof": proof(self.key, asked["nonce"], self.rank),
                "probe": self.listener.getsockname()[1],
                **self.others(stream),
            }
            stream.sendall(json.dumps(words).encode("utf-8") + b"\n")
            answer = json.loads(read_line(stream))
            said = str(answer.get("proof"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False
        return hmac.compare_digest(said, proof(self.key, nonce, "main"))

    def others(self, stream: socket.socket) -> Dict[str, Any]:
        """At which addresses node 0 is reached, and this node's own address for each."""
        numeric = stream.getpeername()[0]
        for address in self.addresses:
            with contextlib.suppress(OSError):
                if socket.gethostbyname(address) == numeric:
                    self.own[address] = stream.getsockname()[0]
                    continue
                other, _ = connection_problem(address, self.port)
                if other is not None:
                    self.own[address] = other.getsockname()[0]
                    other.close()
        return {"reached": list(self.own), "own": self.own}


def free_port(usual: int) -> int:
    """The usual port where it is free, else another one: several runs may meet on one computer."""
    for port in (usual, 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            return int(probe.getsockname()[1])
    give_up("node 0 has no free port")


def signal_name(number: int) -> str:
    """A signal as people know it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def meet(folder: str) -> int:
    """Meet the other nodes, and watch them until the run ends."""
    rank = read_json(os.path.join(folder, "nodes.json")).get("rank")
    node = MainNode(folder) if rank == 0 else OtherNode(folder)
    signal.signal(signal.SIGTERM, node.on_signal)
    signal.signal(signal.SIGINT, node.on_signal)
    return node.run()


# --- the command of all nodes ---------------------------------------------------------------------


def run(folder: str, words: List[str]) -> int:
    """Run this node's part of a command that all nodes run."""
    met = read_json(os.path.join(folder, "nodes.met"))
    if not met:
        give_up("the nodes have not met")
    command = [
        word.replace("{address}", str(met["address"])).replace("{port}", str(met["port"]))
        for word in words
    ]
    env = dict(os.environ)
    if met.get("interface"):  # the name of a machine often stands for its loopback address
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            env.setdefault(name, str(met["interface"]))
    say("+ " + " ".join(command))
    room = os.path.join(folder, "nodes.room")
    with contextlib.suppress(OSError), open(room, "wb") as stream:
        stream.write(bytes(ROOM))  # given back for the reason, where the disk becomes full
    try:
        child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
    except OSError as error:
        give_up("`%s` cannot be used: %s" % (command[0], error.strerror))
    asked = []  # type: List[int]

    def note(number: int, _frame: Any) -> None:  # the command gets the signal itself
        asked.append(number)

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGINT, note)
    status = child.wait()
    if status == 0 or asked:
        with contextlib.suppress(OSError):
            os.unlink(room)
        return status if status >= 0 else 128 - status
    what = "its training ended with status %d" % status
    if status < 0:
        what = "its training was ended by %s" % signal_name(-status)
    stage = os.environ.get("HUDTUI_STAGE", "train")
    lines, report = parted(last_lines(os.path.join(folder, "logs", stage + ".log")))
    ended = {"what": what, "lost": status < 0}  # type: Dict[str, Any]
    ended["lines"] = [line[:300] for line in lines]
    ended["report"] = [line[:300] for line in report]
    with contextlib.suppress(OSError):
        os.unlink(room)
    try:
        write_json(os.path.join(folder, "nodes.ended"), ended)
    except OSError as error:  # a full disk: the supervisor ends this node, and says so
        say("what has failed cannot be written down: %s" % (error.strerror or error))
        return status if status > 0 else 128 - status
    # Another node may be the cause: the one that watches the nodes says so, and ends this stage.
    until = clock() + OBEY
    while clock() < until and not asked:
        time.sleep(0.1)
    return status if status > 0 else 128 - status


def main(words: List[str]) -> int:
    """The command line; see the text at the top of the file."""
    if words == ["addresses"]:
        say("\n".join([*own_addresses(), str(free_port(MEETING))]))
        return 0
    if len(words) == 2 and words[0] == "meet":
        return meet(words[1])
    if len(words) > 2 and words[0] == "run":
        return run(words[1], words[2:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
