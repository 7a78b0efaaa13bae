"""The machines of a pod.

An SSH endpoint on loopback for each node, with a host key, a home and a PATH of its own. The
endpoints are asyncssh's and not OpenSSH's sshd: only so can a simulator that runs as an ordinary
user offer logins as root or ubuntu, give each pod its own home, and accept a key late; and it needs
no sshd where a demo is run. Shells, tmux and what they start are real processes, joined to their
SSH channels the way sshd does it; they outlive the simulator's process, the connections do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import sys
import termios
from pathlib import Path
from typing import Any

import asyncssh

from hudtui.sim.account import SimAccount
from hudtui.sim.pod import SimPod
from hudtui.sim.state import MARK, NODE_MARK, StateFolder, end_all

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TOOLS = ("tmux", "git", "rsync", "uv", "python3")

_NVIDIA_SMI = """#!/bin/sh
# A stand-in: this pod is simulated and has no GPU. It answers what inspections ask for.
name={name} count={count} memory={memory}
fields= bare= units=1
for word in "$@"; do
    case $word in
        --query-gpu=*) fields=${{word#*=}} ;;
        --format=*noheader*) bare=1; case $word in *nounits*) units= ;; esac ;;
        --format=*nounits*) units= ;;
    esac
done
if [ "$1" = -L ]; then
    i=0
    while [ $i -lt $count ]; do
        echo "GPU $i: $name (simulated) (UUID: GPU-sim-$i)"; i=$((i + 1))
    done
    exit
fi
if [ -z "$fields" ]; then
    echo "NVIDIA-SMI (simulated): $count x $name, $memory MiB each"
    exit
fi
[ -n "$bare" ] || echo "$fields" | sed 's/,/, /g'
i=0
while [ $i -lt $count ]; do
    line=
    for field in $(echo "$fields" | tr ',' ' '); do
        case $field in
            name|gpu_name) value="$name (simulated)" ;;
            index) value=$i ;;
            uuid|gpu_uuid) value=GPU-sim-$i ;;
            count) value=$count ;;
            driver_version) value=0.0-simulated ;;
            memory.total) value=$memory${{units:+ MiB}} ;;
            memory.used) value=0${{units:+ MiB}} ;;
            memory.free) value=$memory${{units:+ MiB}} ;;
            utilization.gpu|utilization.memory) value=0${{units:+ %}} ;;
            temperature.gpu) value=30 ;;
            power.draw|power.limit|enforced.power.limit) value=50.00${{units:+ W}} ;;
            compute_cap) value=9.0 ;;
            *) value="[N/A]" ;;
        esac
        line="$line${{line:+, }}$value"
    done
    echo "$line"
    i=$((i + 1))
done
"""


class _Door(asyncssh.SSHServer):
    """Who may log in, and that connections may be forwarded."""

    def __init__(self, node: PodNode) -> None:
        self._node = node

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._node.connections.add(conn)
        self._conn = conn

    def connection_lost(self, exc: Exception | None) -> None:
        self._node.connections.discard(self._conn)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return False

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return self._node.lets_in(username, key)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> bool:
        return True

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        return True

    def unix_connection_requested(self, dest_path: str) -> bool:
        return True


class PodNode:
    """One machine of a pod.

    Args:
        pod: Whose machine it is.
        index: Its number within the pod.
        folder: Where its home, its programs and its sockets are; a short path, because sockets lie
            below it.
        may_log_in: Returns whether keys are accepted now.
    """

    def __init__(self, pod: SimPod, index: int, folder: Path, may_log_in: Any) -> None:
        self.pod = pod
        self.index = index
        self.folder = folder
        self.home = folder / "home"
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self._may_log_in = may_log_in
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._keys = [asyncssh.import_public_key(text) for text in pod.keys]

    def lets_in(self, user: str, key: asyncssh.SSHKey) -> bool:
        """Return True if this user may log in with this key now."""
        return bool(user == self.pod.behaviour.user and key in self._keys and self._may_log_in())

    def prepare(self) -> None:
        """Make the folders and programs of the machine; harmless when they are there."""
        for name in ("home", "bin", "tmux", "tmp"):
            self.folder.joinpath(name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write("home/.profile", f'PATH="{self.folder / "bin"}:$PATH"\nexport PATH\n')
        self._write("token", self.pod.token)
        offer = self.pod.offer
        if offer["gpuMemory"]:
            count = -(-int(offer["gpuCount"]) // self.pod.nodes)
            script = _NVIDIA_SMI.format(
                name=f"'{offer['gpuType']}'", count=count, memory=int(offer["gpuMemory"]) * 1024
            )
            self._write("bin/nvidia-smi", script, 0o755)
        for tool in _TOOLS:
            link = self.folder / "bin" / tool
            if shutil.which(tool, path=SYSTEM_PATH) is None and not link.exists():
                found = (
                    os.path.realpath(sys.executable) if tool == "python3" else shutil.which(tool)
                )
                if found:
                    link.symlink_to(found)

    def _write(self, name: str, text: str, mode: int = 0o600) -> None:
        path = self.folder / name
        if not path.exists():
            path.write_text(text)
            path.chmod(mode)

    def environment(self) -> dict[str, str]:
        """What a login finds. Nothing of the simulator's own environment is in it."""
        ordered = {item["key"]: item["value"] for item in self.pod.order.get("envVars") or ()}
        return ordered | {
            "HOME": str(self.home),
            "USER": self.pod.behaviour.user,
            "LOGNAME": self.pod.behaviour.user,
            "SHELL": self.shell,
            "PATH": f"{self.folder / 'bin'}:{SYSTEM_PATH}",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder / "tmp"),
            "TMUX_TMPDIR": str(self.folder / "tmux"),
            "HOSTNAME": f"{self.pod.name}-{self.index}",
            MARK: self.pod.token,
            NODE_MARK: self.token,
        }

    @property
    def token(self) -> str:
        """Marks every process of this machine, as `SimPod.token` those of the whole pod."""
        return f"{self.pod.token}.{self.index}"

    @property
    def shell(self) -> str:
        return shutil.which("bash", path=SYSTEM_PATH) or "/bin/sh"

    def host_key(self, *, fresh: bool = False) -> asyncssh.SSHKey:
        """The host key, made at first use."""
        path = self.folder / "host_key"
        if fresh or not path.exists():
            key = asyncssh.generate_private_key("ssh-ed25519")
            path.write_bytes(key.export_private_key())
            path.chmod(0o600)
        return asyncssh.read_private_key(path)

    async def open(self, port: int) -> int:
        """Listen; returns the port, which is another one when `port` is 0 or taken."""
        self.prepare()
        key = self.host_key()

        async def listen(at: int) -> asyncssh.SSHAcceptor:
            return await asyncssh.create_server(
                lambda: _Door(self),
                "127.0.0.1",
                at,
                server_host_keys=[key],
                process_factory=lambda process: serve_session(process, self),
                sftp_factory=lambda chan: _Files(chan, self.home),
                allow_scp=False,
                encoding=None,
                line_editor=False,
                reuse_address=True,
                keepalive_interval=0,
                login_timeout=30,
            )

        try:
            self._acceptor = await listen(port)
        except OSError:
            if not port:
                raise
            self._acceptor = await listen(0)
        return int(self._acceptor.get_port())

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None:
            acceptor.close()
            for connection in tuple(self.connections):
                connection.abort()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(acceptor.wait_closed(), 5)

    async def reopen(self) -> None:
        """Listen again at the port that the API tells."""
        await self.open(self.pod.ports[self.index])

    async def rekey(self) -> None:
        """Come back at the same port with another host key."""
        await self.close()
        self.host_key(fresh=True)
        await self.reopen()

    async def end(self) -> None:
        """Drop every connection, and end what runs on the machine."""
        await self.close()
        await asyncio.to_thread(self.halt)

    def halt(self) -> None:
        """End what runs on the machine."""
        end_all(self.token, NODE_MARK)


class _Files(asyncssh.SFTPServer):
    """SFTP as sshd has it: the whole file system, relative paths from the home."""

    def __init__(self, chan: Any, home: Path) -> None:
        super().__init__(chan)
        self._home = os.fsencode(home)

    def map_path(self, path: bytes) -> bytes:
        return os.path.join(self._home, path)


def folders(root: Path, pod: SimPod) -> list[Path]:
    """Where the machines of a pod lie.

    Short names, because the paths of sockets have little room.
    """
    return [root / f"{int(pod.id.removeprefix('simpod')):d}.{index}" for index in range(pod.nodes)]


_BLOCK = 65536
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], "
    "sys.argv[2:])"
)
_ACCEPTED = ("LANG", "LC_", "TERM", "COLORTERM")


def _argv(process: asyncssh.SSHServerProcess[bytes], node: PodNode) -> list[str]:
    """The login shell, or the shell with the command.

    The first word is the program, the second its name.
    """
    name = os.path.basename(node.shell)
    command = process.command
    if command is None:
        return [node.shell, f"-{name}"]
    return [node.shell, name, "-c", command if isinstance(command, str) else command.decode()]


def _environment(process: asyncssh.SSHServerProcess[bytes], node: PodNode) -> dict[str, str]:
    values = node.environment()
    values |= {
        str(name): str(value)
        for name, value in process.env.items()
        if str(name).startswith(_ACCEPTED)
    }
    client, server = process.get_extra_info("peername"), process.get_extra_info("sockname")
    if client and server:
        values["SSH_CONNECTION"] = f"{client[0]} {client[1]} {server[0]} {server[1]}"
    if process.term_type:
        values["TERM"] = process.term_type
    return values


def _resize(terminal: int, size: tuple[int, int, int, int]) -> None:
    columns, rows, width, height = size
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, width, height))


async def serve_session(process: asyncssh.SSHServerProcess[bytes], node: PodNode) -> None:
    """Run what the client asks for until it ends.

    The exit status or signal goes back to the client.
    """
    terminal: int | None = None
    argv = _argv(process, node)
    common: dict[str, Any] = {
        "cwd": node.home,
        "env": _environment(process, node),
        "start_new_session": True,
    }
    try:
        if process.term_type:
            terminal, slave = pty.openpty()
            try:
                _resize(terminal, process.term_size)
                wrapper = [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *argv]
                child = await asyncio.create_subprocess_exec(
                    *wrapper, stdin=slave, stdout=slave, stderr=slave, **common
                )
            finally:
                os.close(slave)
        else:
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(
                argv[1],
                *argv[2:],
                executable=argv[0],
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                **common,
            )
    except OSError as error:
        if terminal is not None:
            os.close(terminal)
        process.stderr.write(f"simulated pod: {error}\n".encode())
        process.exit(127)
        return
    if terminal is not None:
        await _join_terminal(process, child, terminal)
    else:
        await _join_pipes(process, child)
    status = await child.wait()
    if process.is_closing():
        return
    if status < 0:
        # SSH names signals without their SIG.
        process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
    else:
        process.exit(status)


def _signal(child: asyncio.subprocess.Process, name: str) -> None:
    number = getattr(signal, f"SIG{name}", None)
    if number is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)


async def _pump(
    source: asyncio.StreamReader, process: asyncssh.SSHServerProcess[bytes], error: bool = False
) -> None:
    """Bytes of the child to the client, no faster than it takes them."""
    target = process.stderr if error else process.stdout
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(_BLOCK):
            target.write(data)
            await target.drain()


async def _requests(
    process: asyncssh.SSHServerProcess[bytes],
    child: asyncio.subprocess.Process,
    write: Any,
    terminal: int | None,
) -> None:
    """Input, signals and window sizes of the client to the child, until the input ends."""
    while True:
        try:
            data = await process.stdin.read(_BLOCK)
        except asyncssh.TerminalSizeChanged as change:
            if terminal is not None:
                _resize(terminal, change.term_size)
            continue
        except asyncssh.SignalReceived as received:
            _signal(child, received.signal)
            continue
        except asyncssh.BreakReceived:
            continue
        except (OSError, asyncssh.Error):
            return
        if not data:
            return
        await write(data)


async def _join_pipes(
    process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process
) -> None:
    assert child.stdin and child.stdout and child.stderr

    async def write(data: bytes) -> None:
        assert child.stdin
        with contextlib.suppress(OSError):
            child.stdin.write(data)
            await child.stdin.drain()

    async def feed() -> None:
        assert child.stdin
        await _requests(process, child, write, None)
        with contextlib.suppress(OSError):
            child.stdin.close()

    feeding = asyncio.create_task(feed())
    # sshd too waits for the end of the output, which a child in the background may hold open.
    stdout, stderr = child.stdout, child.stderr

    async def read() -> None:
        await asyncio.gather(_pump(stdout, process), _pump(stderr, process, True))

    reading = asyncio.create_task(read())
    gone = asyncio.create_task(process.channel.wait_closed())
    try:
        await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (feeding, reading, gone):
            task.cancel()
        await asyncio.gather(feeding, reading, gone, return_exceptions=True)
        transport = child._transport  # type: ignore[attr-defined]
        for number in (0, 1, 2):
            if (side := transport.get_pipe_transport(number)) is not None:
                side.close()


async def _join_terminal(
    process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process, terminal: int
) -> None:
    loop = asyncio.get_running_loop()
    os.set_blocking(terminal, False)
    reader = asyncio.StreamReader()
    source, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(terminal), "rb", 0)
    )

    async def write(data: bytes) -> None:
        while data:
            try:
                data = data[os.write(terminal, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.01)
            except OSError:
                return

    async def feed() -> None:
        await _requests(process, child, write, terminal)

    feeding = asyncio.create_task(feed())
    reading = asyncio.create_task(_pump(reader, process))
    ended = asyncio.create_task(child.wait())
    gone = asyncio.create_task(process.channel.wait_closed())
    try:
        await asyncio.wait({ended, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            # What it wrote last; a background process that keeps the terminal open does not hold
            # the session.
            await asyncio.wait({reading, gone}, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (feeding, reading, ended, gone):
            task.cancel()
        await asyncio.gather(feeding, reading, ended, gone, return_exceptions=True)
        source.close()
        os.close(terminal)  # the last end of it: the kernel sends SIGHUP to what is still there


class PodFleet:
    """The machines that are up.

    Args:
        account: What should be up.
        folder: Where the machines lie, and who removes them.
    """

    def __init__(self, account: SimAccount, folder: StateFolder) -> None:
        self._account = account
        self._folder = folder
        self._up: dict[str, list[PodNode]] = {}
        self._rekeyed: set[str] = set()
        self._lock = asyncio.Lock()

    async def sync(self) -> None:
        """Start, change and end machines as the account demands now."""
        async with self._lock:
            now = self._account.settle()
            # First what ends: a new machine may take over its port.
            for pod_id in [
                pod_id for pod_id in self._up if not self._account.pods[pod_id].machine_up(now)
            ]:
                await self._destroy(self._up.pop(pod_id))
            for pod in list(self._account.pods.values()):
                if pod.machine_up(now):
                    if pod.id not in self._up:
                        await self._start(pod)
                    await self._rekey(pod, now)

    async def clear(self) -> None:
        """Destroy what an earlier simulator left of pods that are over by now."""
        now = self._account.settle()
        for pod in self._account.pods.values():
            if not pod.machine_up(now):
                await self._destroy([one for one in self._nodes(pod) if one.folder.exists()])

    async def _destroy(self, nodes: list[PodNode]) -> None:
        """End machines for good; their files go in the background."""
        for node in nodes:
            await node.end()
        for node in nodes:
            self._folder.discard(node.folder)

    def _nodes(self, pod: SimPod) -> list[PodNode]:
        return [
            PodNode(pod, index, folder, lambda: self._account.clock.now() >= pod.login_from)
            for index, folder in enumerate(folders(self._folder.machines, pod))
        ]

    async def _start(self, pod: SimPod) -> None:
        nodes = self._nodes(pod)
        wanted = pod.ports or [0] * len(nodes)
        pod.ports = [await node.open(port) for node, port in zip(nodes, wanted, strict=True)]
        self._up[pod.id] = nodes

    async def _rekey(self, pod: SimPod, now: float) -> None:
        due = pod.behaviour.rekey
        if due is not None and now >= pod.created + due and pod.id not in self._rekeyed:
            self._rekeyed.add(pod.id)
            for node in self._up[pod.id]:
                await node.rekey()

    def node(self, pod_id: str, index: int) -> PodNode:
        """A machine of a pod that is up."""
        return self._up[pod_id][index]

    def homes(self, pod_id: str) -> list[Path]:
        """The home folders of a pod's machines."""
        pod = self._account.pods[pod_id]
        return [folder / "home" for folder in folders(self._folder.machines, pod)]

    async def close(self) -> None:
        """Stop listening and end every process; machines of a simulator that lasts stay."""
        async with self._lock:
            for nodes in self._up.values():
                for node in nodes:
                    await node.end()
            self._up.clear()
