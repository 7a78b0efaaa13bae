"""The machines of a pod: an SSH endpoint on loopback for each node, with a host key, a home and a PATH of its own.

The endpoints are asyncssh's and not OpenSSH's sshd: only so can a simulator that runs as an ordinary user offer logins as root or
ubuntu, give each pod its own home, and accept a key late; and it needs no sshd where a demo is run. Shells, tmux and
what they start are real and outlive the simulator's process; the SSH connections do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import asyncssh

from hudtui.sim.pod import SimPod
from hudtui.sim.processes import MARK, end_all
from hudtui.sim.session import serve_session

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
    while [ $i -lt $count ]; do echo "GPU $i: $name (simulated) (UUID: GPU-sim-$i)"; i=$((i + 1)); done
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

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
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
        folder: Where its home, its programs and its sockets are; a short path, because sockets lie below it.
        may_log_in: Whether keys are accepted by now.
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
        """Whether this user may log in with this key now."""
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
            script = _NVIDIA_SMI.format(name=f"'{offer['gpuType']}'", count=count, memory=int(offer["gpuMemory"]) * 1024)
            self._write("bin/nvidia-smi", script, 0o755)
        for tool in _TOOLS:
            link = self.folder / "bin" / tool
            if shutil.which(tool, path=SYSTEM_PATH) is None and not link.exists():
                found = os.path.realpath(sys.executable) if tool == "python3" else shutil.which(tool)
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
        }

    @property
    def shell(self) -> str:
        """The login shell."""
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

    async def rekey(self) -> None:
        """Come back at the same port with another host key."""
        port = self.pod.ports[self.index]
        await self.close()
        self.host_key(fresh=True)
        await self.open(port)

    async def destroy(self) -> None:
        """End what runs on the machine, and remove it."""
        await self.close()
        await asyncio.to_thread(self.wipe)

    def halt(self) -> None:
        """End what runs on the machine."""
        end_all(self.pod.token)

    def wipe(self) -> None:
        """End what runs on the machine and remove its files."""
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)


class _Files(asyncssh.SFTPServer):
    """SFTP as sshd has it: the whole file system, relative paths from the home."""

    def __init__(self, chan: Any, home: Path) -> None:
        super().__init__(chan)
        self._home = os.fsencode(home)

    def map_path(self, path: bytes) -> bytes:
        """A local path."""
        return os.path.join(self._home, path)


def folders(root: Path, pod: SimPod) -> list[Path]:
    """Where the machines of a pod lie: short names, because the paths of sockets have little room."""
    return [root / f"{int(pod.id.removeprefix('simpod')):d}.{index}" for index in range(pod.nodes)]
