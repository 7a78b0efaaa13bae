"""A real OpenSSH server on loopback, for the user who runs the tests, with keys of its own.

Loaded by path: `ssh_server = load("sshd").ssh_server` makes the session's server known to a
conftest; `ssh_box` (which needs `own_tmux` of tmux_world) gives one test its own world on it: home
folder, environment, keys, and `Box.target()`.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.remote.known_hosts import KnownHosts
from hudtui.core.remote.ssh import SshHost
from hudtui.core.remote.ssh_connection import AskPassphrase, Notify, SshConnection
from hudtui.core.remote.target import SshTarget

SSHD = shutil.which("sshd") or next(
    (path for path in ("/usr/sbin/sshd", "/usr/local/sbin/sshd") if os.path.exists(path)), "sshd"
)

# Every session passes here: tests choose the home folder and the environment, which sshd would take
# from the system's user list.
_FORCE = """\
. {folder}/world
case ${{SSH_ORIGINAL_COMMAND:-}} in
  internal-sftp*|*/sftp-server*) exec {sftp} ;;
  '') exec sh -l ;;
  *) eval "exec $SHELL_USED" ;;
esac
"""


class Sshd:
    """One server."""

    def __init__(self, folder: Path, *, options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._options = options
        folder.chmod(0o700)
        self.new_host_key()
        self.key = make_key(folder / "user_key")
        self.authorized.write_bytes(self.key.with_suffix(".pub").read_bytes())
        self.set_world({})

    @property
    def authorized(self) -> Path:
        return self.folder / "authorized_keys"

    def new_host_key(self) -> None:
        """Another key from the next start on."""
        for suffix in ("", ".pub"):
            (self.folder / f"host_key{suffix}").unlink(missing_ok=True)
        make_key(self.folder / "host_key")

    def set_world(
        self, variables: Mapping[str, str], *, folder: str | None = None, before: str = ""
    ) -> None:
        """What sessions find: environment, the folder they begin in, lines that their shell runs
        first."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        if folder:
            lines.append(f"cd {shlex.quote(folder)} || exit 99")
        shell = 'sh -c "$SSH_ORIGINAL_COMMAND"'
        lines += [f"SHELL_USED={shlex.quote(shell)}", before]
        temporary = self.folder / "world.new"
        temporary.write_text("\n".join(lines) + "\n")
        temporary.replace(self.folder / "world")

    def start(self) -> None:
        sftp = next(
            (
                path
                for path in (
                    "/usr/lib/openssh/sftp-server",
                    "/usr/libexec/sftp-server",
                    "/usr/libexec/openssh/sftp-server",
                )
                if os.path.exists(path)
            ),
            "sftp-server",
        )
        (self.folder / "force").write_text(_FORCE.format(folder=self.folder, sftp=sftp))
        config = [
            "ListenAddress 127.0.0.1",
            f"Port {self.port}",
            f"HostKey {self.folder}/host_key",
            f"AuthorizedKeysFile {self.authorized}",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "PermitUserRC no",
            "PrintMotd no",
            "LogLevel ERROR",
            "MaxStartups 200",
            "Subsystem sftp internal-sftp",
            # before the world is set, the login shell must not read the user's own .bashrc
            f"SetEnv HOME={self.folder}",
            f"ForceCommand . {self.folder}/force",
            *self._options,
        ]
        (self.folder / "sshd_config").write_text("\n".join(config) + "\n")
        if os.getuid() == 0:
            os.makedirs(
                "/run/sshd", mode=0o755, exist_ok=True
            )  # where sshd locks itself in before the login
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
            )
        until = time.monotonic() + 20
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"sshd did not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.02)

    def cut(self) -> None:
        """End all connections; the server itself stays."""
        for pid in self.sessions():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def sessions(self) -> list[int]:
        """Process ids of the server's own children: one or two a connection."""
        assert self._process is not None
        return descendants(self._process.pid, "sshd")

    def stop(self) -> None:
        """End the server with its connections. It may be started again, at the same port."""
        if self._process is None:
            return
        self.cut()
        self._process.terminate()
        self._process.wait(20)
        self._process = None


class Box:
    """A server as one test sees it: a machine with a home folder of its own."""

    def __init__(self, server: Sshd, home: Path, known_hosts: Path) -> None:
        self.server, self.home, self.pins_folder = server, home, known_hosts

    @property
    def port(self) -> int:
        return self.server.port

    def target(self, *, port: int | None = None, **more: Any) -> Any:
        from hudtui.core.remote.target import SshTarget

        values: dict[str, Any] = {
            "keys": (self.server.key,),
            "agent": "",
            "user": getpass.getuser(),
        } | more
        return SshTarget(host="127.0.0.1", port=port or self.port, **values)

    def known_hosts(self) -> Any:
        from hudtui.core.remote.known_hosts import KnownHosts

        return KnownHosts(self.pins_folder)

    def world(self, *, before: str = "", **variables: str) -> None:
        """Change the environment of sessions from now on."""
        names = ("PATH", "TMUX_TMPDIR", "LC_ALL", "HOME")
        self.server.set_world(
            {name: os.environ[name] for name in names} | variables,
            folder=str(self.home),
            before=before,
        )


def make_key(path: Path, *, words: str = "") -> Path:
    """A new ed25519 key at `path`, locked by `words`."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", words, "-C", path.name, "-f", str(path)],
        check=True,
    )
    return path


def descendants(pid: int, name: str) -> list[int]:
    """Children, and children of children as long as they have that name."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError):
                text = Path(f"/proc/{entry}/stat").read_text()
                if int(text.rpartition(")")[2].split()[1]) == pid and text.partition("(")[
                    2
                ].startswith(name):
                    found += [int(entry), *descendants(int(entry), name)]
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as stream:
            return stream.recv(4) == b"SSH-"
    except OSError:
        return False


@contextlib.contextmanager
def running_server(*, options: tuple[str, ...] = ()) -> Iterator[Sshd]:
    """A server with a folder of its own; both are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hts-", dir="/tmp"))
    server = Sshd(folder, options=options)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ssh_server() -> Iterator[Sshd]:
    """The session's server."""
    with running_server() as server:
        yield server


@pytest.fixture
def ssh_box(ssh_server: Sshd, own_world: Path, own_tmux: str, tmp_path: Path) -> Iterator[Box]:
    """This test's machine. Its home folder is the one of the test, so that both kinds of host see
    the same files."""
    box = Box(ssh_server, Path.home(), tmp_path / "pins")
    box.world()
    yield box
    ssh_server.cut()


if __name__ == "__main__":
    with running_server() as running:
        print(running.port, running.key)
        sys.stdin.read()


async def connect_ssh(
    target: SshTarget,
    *,
    known_hosts: KnownHosts,
    ask_passphrase: AskPassphrase | None = None,
    say: Notify | None = None,
    timeout: float = 30.0,
    patience: float = 30.0,
) -> SshHost:
    """Connect with a machine, by a connection of its own."""
    link = SshConnection(
        target, known_hosts, ask=ask_passphrase, say=say, timeout=timeout, patience=patience
    )
    try:
        await link.connection()
    except BaseException:
        await link.close()
        raise
    return SshHost(target.name, link.reach)
