"""What is special about hosts behind SSH: keys, trust, lost connections, large files, tunnels."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import asyncssh
import pytest
from support.sshd import connect_ssh
from support.waiting import eventually

from hudtui.core.errors import InputError, MachineError
from hudtui.core.events import Notice
from hudtui.core.remote.host import Disconnected, FileChanged, FileRefused, LoginRefused, Silent
from hudtui.core.remote.hosts import HostPool, close_hosts, open_host
from hudtui.core.remote.known_hosts import HostKeyChanged, KnownHosts
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.ssh import SshHost, ssh_argv
from hudtui.core.remote.target import SshTarget, parse_target

Box = Any


@pytest.fixture
async def line(ssh_box: Box, bad_line: Any) -> AsyncIterator[Any]:
    async with bad_line(ssh_box.port) as found:
        yield found


def words(error: MachineError) -> str:
    return "\n".join(error.lines())


def sftp_servers(server: Any) -> Iterator[int]:
    """Process ids of the file services of a server's connections."""
    sessions = set(server.sessions())
    for entry in Path("/proc").iterdir():
        with suppress(OSError, IndexError):
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            if name == "sftp-server" and int(rest.split()[1]) in sessions:
                yield int(entry.name)


# --- trust ----------------------------------------------------------------------------------------


async def test_the_first_contact_is_told_and_the_second_is_not(ssh_box: Box) -> None:
    said: list[Notice] = []
    async with await connect_ssh(
        ssh_box.target(), known_hosts=ssh_box.known_hosts(), say=said.append
    ) as host:
        link = await host.reach()
        assert link.host_key is not None and link.host_key.first
    public = ssh_box.server.folder / "host_key.pub"
    expected = (await LocalHost().run(["ssh-keygen", "-l", "-f", str(public)])).stdout.split()[1]
    assert link.host_key.fingerprint == expected
    assert expected in said[0].message and len(said) == 1
    async with await connect_ssh(
        ssh_box.target(), known_hosts=ssh_box.known_hosts(), say=said.append
    ) as host:
        link = await host.reach()
        assert link.host_key is not None and not link.host_key.first
    assert len(said) == 1
    (kept,) = list(ssh_box.pins_folder.iterdir())
    assert kept.stat().st_mode & 0o777 == 0o600


async def test_a_changed_host_key_stops_everything(own_server: Any, ssh_box: Box) -> None:
    box = own_server
    async with await connect_ssh(box.target(), known_hosts=box.known_hosts(), patience=20) as host:
        old = (await host.reach()).host_key
        assert old is not None and (await host.run(["true"])).ok
        box.server.stop()
        box.server.new_host_key()
        box.server.start()
        (box.home / "log").write_bytes(b"x\n")
        followed: Any = host.follow("log")
        for action in (
            host.run(["touch", "run-anyway"]),
            host.put(b"x", "put-anyway"),
            host.get("log"),
            anext(followed),
        ):
            with pytest.raises(HostKeyChanged) as caught:
                await action
        assert "CHANGED" in caught.value.what and old.fingerprint in words(caught.value)
        assert str(box.known_hosts().path(host.name)) in (caught.value.fix or "")
    with pytest.raises(HostKeyChanged):
        await connect_ssh(box.target(), known_hosts=box.known_hosts())
    assert sorted(path.name for path in box.home.iterdir() if path.name.endswith("anyway")) == []
    # A new pod at the same address is another machine.
    async with await connect_ssh(box.target(pin="pod-2"), known_hosts=box.known_hosts()) as host:
        assert (
            (await host.reach()).host_key is not None
            and (await host.reach()).host_key.first
            and (await host.reach()).host_key.fingerprint != old.fingerprint
        )
    assert box.known_hosts().forget(box.target().name)
    async with await connect_ssh(box.target(), known_hosts=box.known_hosts()):
        pass


async def test_a_damaged_pin_is_no_first_contact(ssh_box: Box) -> None:
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()):
        pass
    (kept,) = list(ssh_box.pins_folder.iterdir())
    kept.write_text("nonsense")
    with pytest.raises(MachineError, match="damaged"):
        await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts())


def test_pins_of_odd_names_stay_in_their_folder(tmp_path: Path) -> None:
    known_hosts = KnownHosts(tmp_path)
    names = ["../../etc/passwd", "a/b", "a_b", "a b", "x" * 400, ".hidden", "root@[::1]:22"]
    paths = {known_hosts.path(name) for name in names}
    assert len(paths) == len(names)
    assert all(
        path.parent == tmp_path and len(path.name) < 120 and not path.name.startswith(".")
        for path in paths
    )


# --- logging in -----------------------------------------------------------------------------------


async def test_a_wrong_key_is_told_with_the_keys_that_were_tried(
    ssh_box: Box, make_key: Any, tmp_path: Path
) -> None:
    wrong, missing = make_key(tmp_path / "wrong"), tmp_path / "missing"
    with pytest.raises(LoginRefused) as caught:
        await connect_ssh(ssh_box.target(keys=(wrong, missing)), known_hosts=ssh_box.known_hosts())
    assert "refused the login" in caught.value.what
    assert str(wrong) in words(caught.value) and f"{missing} (there is no such file)" in words(
        caught.value
    )
    with pytest.raises(LoginRefused, match="no key"):
        await connect_ssh(ssh_box.target(keys=(missing,)), known_hosts=ssh_box.known_hosts())


async def test_a_pass_phrase_is_asked_once(
    ssh_box: Box, line: Any, make_key: Any, tmp_path: Path
) -> None:
    locked = make_key(tmp_path / "locked", words="right")
    ssh_box.server.authorized.write_bytes(locked.with_suffix(".pub").read_bytes())
    asked: list[str] = []

    async def ask(prompt: str) -> str | None:
        asked.append(prompt)
        return "wrong" if len(asked) == 1 else "right"

    try:
        target = ssh_box.target(keys=(locked,), port=line.port)
        with pytest.raises(LoginRefused) as caught:
            await connect_ssh(target, known_hosts=ssh_box.known_hosts())
        assert "locked" in words(caught.value) and "agent" in words(caught.value)
        async with await connect_ssh(
            target, known_hosts=ssh_box.known_hosts(), ask_passphrase=ask
        ) as host:
            line.cut()
            assert (await host.run(["true"])).ok and (await host.reach()).connects == 2
        assert len(asked) == 2 and str(locked) in asked[0]

        async def decline(prompt: str) -> str | None:
            return None

        with pytest.raises(LoginRefused) as caught:
            await connect_ssh(target, known_hosts=ssh_box.known_hosts(), ask_passphrase=decline)
        assert "pass-phrase was not given" in words(caught.value)
    finally:
        ssh_box.server.authorized.write_bytes(ssh_box.server.key.with_suffix(".pub").read_bytes())


async def test_a_key_that_is_not_needed_is_not_asked_for(
    ssh_box: Box, make_key: Any, tmp_path: Path
) -> None:
    async def ask(prompt: str) -> str | None:
        raise AssertionError(prompt)

    locked = make_key(tmp_path / "locked", words="x")
    target = ssh_box.target(keys=(locked, ssh_box.server.key))
    async with await connect_ssh(target, known_hosts=ssh_box.known_hosts(), ask_passphrase=ask):
        pass


@contextmanager
def agent(folder: Path, key: Path) -> Iterator[str]:
    path = folder / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + 20
        while not path.exists() and time.monotonic() < limit:
            time.sleep(0.01)
        environment = {**os.environ, "SSH_AUTH_SOCK": str(path)}
        subprocess.run(
            ["ssh-add", "-q", str(key)], env=environment, check=True, capture_output=True
        )
        yield str(path)
    finally:
        process.kill()
        process.wait()


async def test_the_agent_has_the_key(
    ssh_box: Box, own_tmux: str, make_key: Any, tmp_path: Path
) -> None:
    with agent(Path(own_tmux), ssh_box.server.key) as path:
        target = ssh_box.target(keys=(tmp_path / "none",), agent=path)
        async with await connect_ssh(target, known_hosts=ssh_box.known_hosts()) as host:
            assert (await host.run(["true"])).ok
        with pytest.raises(LoginRefused, match="refused") as caught:
            await connect_ssh(
                ssh_box.target(agent=path, user="nobody-there"), known_hosts=ssh_box.known_hosts()
            )
        assert "user_key of the agent" in words(caught.value)
        other = make_key(tmp_path / "other")
        with pytest.raises(LoginRefused) as caught:  # of the agent's keys only those that are named
            await connect_ssh(
                ssh_box.target(keys=(other,), agent=path, identities_only=True),
                known_hosts=ssh_box.known_hosts(),
            )
        assert "of the agent" not in words(caught.value)
        locked = make_key(tmp_path / "locked", words="x")
        await LocalHost().run(["ssh-add", "-q", "-D"], env={"SSH_AUTH_SOCK": path})
        with pytest.raises(LoginRefused, match="no key"):
            await connect_ssh(
                ssh_box.target(keys=(locked,), agent=path), known_hosts=ssh_box.known_hosts()
            )


async def test_a_host_that_is_closed_while_it_connects(ssh_box: Box, line: Any) -> None:
    host = await connect_ssh(ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts())
    line.silent = True
    line.cut()
    waiting = asyncio.create_task(host.run(["true"]))
    before = line.accepted
    await eventually(lambda: line.accepted > before)
    async with asyncio.timeout(20):
        await host.close()
        with pytest.raises(MachineError):
            await waiting


async def test_a_wrong_login_keeps_no_host_key(ssh_box: Box, make_key: Any, tmp_path: Path) -> None:
    with pytest.raises(LoginRefused):
        await connect_ssh(
            ssh_box.target(keys=(make_key(tmp_path / "wrong"),)), known_hosts=ssh_box.known_hosts()
        )
    assert ssh_box.known_hosts().known(ssh_box.target().machine) is None


async def test_machines_that_do_not_answer(ssh_box: Box, line: Any) -> None:
    line.silent = True
    with pytest.raises(Disconnected, match=r"did not answer within 0.5 s"):
        await connect_ssh(
            ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts(), timeout=0.5
        )
    await line.refuse()
    with pytest.raises(Disconnected, match="refused the connection"):
        await connect_ssh(ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts())
    with pytest.raises(Disconnected, match="is not known") as caught:
        await connect_ssh(
            SshTarget("a", "no-such-machine.invalid", keys=(ssh_box.server.key,), agent=""),
            known_hosts=ssh_box.known_hosts(),
        )
    assert caught.value.fix


# --- names ----------------------------------------------------------------------------------------


def test_targets_from_the_ssh_config(tmp_path: Path) -> None:
    folder = Path.home() / ".ssh"
    folder.mkdir()
    (folder / "more").write_text("Host *.example\n  Port 2200\n")
    (folder / "config").write_text(
        "Include more\n"
        "Host box gpu?\n  HostName 10.0.0.7\n  User trainer\n  Port 2222\n  IdentityFile "
        "~/.ssh/box_key\n"
        "  IdentityAgent none\n  IdentitiesOnly yes\n  ProxyJump jumper@gate:2022,second\n"
        "Host second\n  HostName second.example\n"
        "Host *\n  User everybody\n  IdentityFile %d/.ssh/common\n"
    )
    box = parse_target("box", pin="pod-1")
    assert (box.user, box.host, box.port, box.pin, box.agent) == (
        "trainer",
        "10.0.0.7",
        2222,
        "pod-1",
        "",
    )
    assert box.keys == (folder / "box_key", folder / "common") and box.identities_only
    assert [hop.name for hop in box.jump] == ["jumper@gate:2022", "everybody@second.example:22"]
    assert box.name == "trainer@10.0.0.7:2222" and box.machine == "pod-1"
    assert parse_target("me@gpu1:99").name == "me@10.0.0.7:99"
    assert parse_target("x.example").name == "everybody@x.example:2200"
    (folder / "config").write_text("Port nonsense\n")
    with pytest.raises(InputError, match="SSH config"):
        parse_target("box")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a@host", "a@host:22"),
        ("a@host:2200", "a@host:2200"),
        ("a@10.1.2.3:1", "a@10.1.2.3:1"),
        ("a@::1", "a@[::1]:22"),
        ("a@[::1]", "a@[::1]:22"),
        ("a@[fe80::1%eth0]:2222", "a@[fe80::1%eth0]:2222"),
        ("ssh://a@host:2200", "a@host:2200"),
        (" a.b@host ", "a.b@host:22"),
    ],
)
def test_targets_without_a_config(text: str, name: str) -> None:
    assert parse_target(text).name == name


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "a@",
            "@host",
            "a b@host",
            "host:port",
            "a@host:0",
            "a@host:70000",
            "-oProxyCommand=x",
            "a@-host",
            "a@host/x",
        ),
        *("h;id", "a@$(id)", "`id`", "a|b@host", "h&", "${IFS}", "a'b", 'a"b', "h>x"),
    ],
)
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(InputError):
        parse_target(text)


def test_jumps_in_a_circle() -> None:
    folder = Path.home() / ".ssh"
    folder.mkdir()
    (folder / "config").write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    with pytest.raises(InputError, match="circle"):
        parse_target("a")


PROXY = r"""#!/usr/bin/env python3
import os, socket, sys, threading
open(os.path.expanduser("~/proxy.args"), "w").write(" ".join(sys.argv[1:]))
print("a word of the proxy", file=sys.stderr, flush=True)
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := os.read(0, 65536): s.sendall(data)
    s.shutdown(1)
threading.Thread(target=up, daemon=True).start()
while data := s.recv(65536): os.write(1, data)
"""


@pytest.fixture
def proxied(ssh_box: Box) -> Callable[[str], Any]:
    """Makes a target of a command in `~/.ssh/config`; `~/bin/proxy` is a program that leads to the
    machine."""
    program = Path.home() / "bin" / "proxy"
    program.parent.mkdir(exist_ok=True)
    program.write_text(PROXY)
    program.chmod(0o755)
    whole = ssh_box.target()

    def make(command: str) -> Any:
        text = (
            f"Host behind\n  HostName {whole.host}\n  Port {whole.port}\n  User {whole.user}\n  "
            f"ProxyCommand {command}\n"
        )
        folder = Path.home() / ".ssh"
        folder.mkdir(exist_ok=True)
        (folder / "config").write_text(text)
        return replace(parse_target("behind", pin="behind"), keys=whole.keys, agent="")

    return make


PROXY_COMMANDS = (
    "~/bin/proxy %h %p",
    "$HOME/bin/proxy %h %p 2>/dev/null",
    "${HOME}/bin/proxy %h %p 2>>~/proxy.log",
    "exec ~/bin/proxy %h %p",
    "env X=1 ~/bin/proxy '%h' \"%p\" %r %n %%",
    "sh -c 'true && exec ~/bin/proxy %h %p'",
    "~/bin/proxy %h %p | cat",
    "~/bin/pr?xy %h $(echo %p)",
)


@pytest.mark.parametrize(
    ("command", "shell"),
    [
        *((command, "/bin/sh") for command in PROXY_COMMANDS),
        (PROXY_COMMANDS[-1], "/bin/bash"),
        (PROXY_COMMANDS[-1], None),
    ],
)
async def test_through_a_proxy_command_as_ssh_runs_it(
    ssh_box: Box,
    proxied: Callable[[str], Any],
    command: str,
    shell: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHELL", shell) if shell else monkeypatch.delenv("SHELL", raising=False)
    target = proxied(command)
    async with await connect_ssh(target, known_hosts=ssh_box.known_hosts()) as host:
        assert (await host.run(["echo", "there"])).stdout == "there\n"
        ssh_box.server.cut()
        assert (await host.run(["true"], repeat=True)).ok, "and again after the connection was lost"
    given = (Path.home() / "proxy.args").read_text().split()
    assert given[:2] == [target.host, str(target.port)]
    if "%r" in command:
        assert given[2:] == [target.user, "behind", "%"]


async def test_a_proxy_command_that_fails_says_why(
    ssh_box: Box, proxied: Callable[[str], Any]
) -> None:
    for command, said in (
        ("~/bin/nowhere %h %p", "nowhere"),
        ("sh -c 'echo no way >&2; exit 3'", "ended with status 3: no way"),
    ):
        with pytest.raises(Disconnected) as caught:
            await connect_ssh(proxied(command), known_hosts=ssh_box.known_hosts())
        assert (
            said in str(caught.value)
            and "ProxyCommand" in str(caught.value)
            and "~/.ssh/config" in str(caught.value)
        )


async def test_a_proxy_command_ends_with_its_connection(
    ssh_box: Box, proxied: Callable[[str], Any]
) -> None:
    target = proxied("sh -c 'echo $$ >~/proxy.pid; ~/bin/proxy %h %p; sleep 1000'")
    async with await connect_ssh(target, known_hosts=ssh_box.known_hosts()):
        process = (Path.home() / "proxy.pid").read_text().strip()
    until = time.monotonic() + 20
    while _living(process):
        assert time.monotonic() < until, "it lives on"
        await asyncio.sleep(0.05)


def _living(group: str) -> list[str]:
    """The processes of a group that are more than an entry in the table."""
    rows = subprocess.check_output(["ps", "-eo", "pgid=,stat=,args="], text=True).splitlines()
    return [row for row in rows if row.split()[0] == group and not row.split()[1].startswith("Z")]


def test_the_systems_ssh_fills_in_no_proxy_command_twice(
    ssh_box: Box, proxied: Callable[[str], Any]
) -> None:
    target = proxied("~/bin/proxy %h %p %%h")
    assert target.proxy_command is not None and target.proxy_command.endswith(f"{target.port} %h")
    assert f"ProxyCommand=~/bin/proxy {target.host} {target.port} %%h" in ssh_argv(target, _Known())


class _Known:
    """Host keys of which one is known."""

    def __init__(self) -> None:
        self._key = asyncssh.generate_private_key("ssh-ed25519").convert_to_public()

    def known(self, machine: str) -> Any:
        return self._key

    def path(self, machine: str) -> Path:
        return Path.home() / "known"


async def test_through_another_machine(ssh_box: Box) -> None:
    target = ssh_box.target(jump=(ssh_box.target(pin="gate"),), pin="behind")
    async with await connect_ssh(target, known_hosts=ssh_box.known_hosts()) as host:
        assert (await host.run(["true"])).ok
        ssh_box.server.cut()
        assert (await host.run(["true"])).ok and (await host.reach()).connects == 2
    assert len(list(ssh_box.pins_folder.iterdir())) == 2


async def test_one_connection_for_each_machine(ssh_box: Box, line: Any) -> None:
    async with aclosing(HostPool(ssh_box.known_hosts())) as pool:
        target = ssh_box.target(port=line.port)
        first, second = cast(
            tuple[SshHost, SshHost], await asyncio.gather(pool.open(target), pool.open(target))
        )
        assert await first.reach() is await second.reach() and line.accepted == 1
        assert isinstance(await pool.open("local"), LocalHost)
        await line.refuse()
    await line.open()
    async with aclosing(HostPool(ssh_box.known_hosts())) as pool:
        line.silent = False
        await line.refuse()
        with pytest.raises(Disconnected):
            await pool.open(target)
        await line.open()
        assert (await (await pool.open(target)).run(["true"])).ok  # a failure is not kept


async def test_hosts_by_name(ssh_box: Box) -> None:
    folder = Path.home() / ".ssh"
    folder.mkdir()
    (folder / "config").write_text(
        f"Host box\n  HostName 127.0.0.1\n  Port {ssh_box.port}\n  IdentityFile "
        f"{ssh_box.server.key}\n  IdentityAgent none\n"
    )
    try:
        host = await open_host("box")
        assert (await host.run(["true"])).ok and host.name.endswith(f"@127.0.0.1:{ssh_box.port}")
        assert isinstance(host, SshHost)
        link = await host.reach()

        async def reach(name: Any) -> Any:
            found: Any = await open_host(name)
            return await found.reach()

        assert await reach("box") is link
        assert await reach(ssh_box.target()) is link  # by another name
        await host.close()
        assert await reach("box") is not link and (await (await open_host("box")).run(["true"])).ok
        with pytest.raises(InputError):
            await open_host("no host")
    finally:
        await close_hosts()


async def test_a_terminal_of_ones_own(ssh_box: Box) -> None:
    """The system's ssh takes the same road, and trusts the same key."""
    target, known_hosts = ssh_box.target(pin="pod 7/a"), ssh_box.known_hosts()
    with pytest.raises(MachineError, match="never been reached"):
        ssh_argv(target, known_hosts, ["true"])
    async with await connect_ssh(target, known_hosts=known_hosts):
        pass
    assert "-t" in ssh_argv(target, known_hosts) and "-t" not in ssh_argv(
        target, known_hosts, ["true"], tty=False
    )
    argv = ssh_argv(target, known_hosts, ["sh", "-c", "printf '%s|' \"$@\"", "x", "a  b", "$HOME"])
    done = await LocalHost().run(argv)
    assert (done.exit_status, done.stdout) == (0, "a  b|$HOME|"), done.stderr
    other = ssh_box.target(pin="pod 8")
    known_hosts.path(other.machine).write_bytes(
        ssh_box.server.key.with_suffix(".pub").read_bytes()
    )  # some other key
    done = await LocalHost().run(ssh_argv(other, known_hosts, ["true"]))
    assert done.exit_status == 255 and "CHANGED" in done.stderr


# --- lost connections -----------------------------------------------------------------------------


async def test_a_command_is_not_repeated_when_it_may_have_run(ssh_box: Box, line: Any) -> None:
    script = "echo x >> runs; while [ ! -e go ]; do sleep 0.05; done; echo done"
    runs = ssh_box.home / "runs"
    async with await connect_ssh(
        ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()
    ) as host:
        task = asyncio.create_task(host.run(["sh", "-c", script]))
        await eventually(runs.exists)
        line.cut()
        with pytest.raises(Disconnected, match="was lost while `sh` ran") as caught:
            await task
        assert "look before" in (caught.value.fix or "")
        assert (await host.run(["true"])).ok  # before it begins, a lost connection is no matter
        task = asyncio.create_task(host.run(["sh", "-c", script], repeat=True))
        await eventually(lambda: runs.read_text() == "x\nx\n")
        line.cut()
        await eventually(lambda: runs.read_text() == "x\nx\nx\n")
        (ssh_box.home / "go").touch()
        assert (await task).stdout == "done\n"


async def test_work_on_files_goes_on_after_a_cut(ssh_box: Box, line: Any) -> None:
    data = random.Random(5).randbytes(600_000)
    async with await connect_ssh(
        ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()
    ) as host:
        for size in (100_000, 700_000):
            line.cut_after(size)
            await host.put(data, "file")
            assert await host.get("file") == data
        assert (await host.reach()).connects == 3 and line.cuts == 2
        assert [path.name for path in ssh_box.home.iterdir() if "tmp" in path.name] == []


@pytest.mark.parametrize("step", ["_open", "_make_request"])
async def test_a_connection_that_goes_while_something_is_opened_on_it(
    ssh_box: Box, echo: int, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asyncssh.channel import SSHChannel

    original: Any = getattr(SSHChannel, step)
    cuts = 0

    async def cut(channel: Any, *arguments: Any) -> Any:
        nonlocal cuts
        connection, answer = channel.get_connection(), await original(channel, *arguments)
        if cuts:
            cuts -= 1
            connection.abort()
            await connection.wait_closed()
        return answer

    monkeypatch.setattr(SSHChannel, step, cut)
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        cuts = 1
        assert await host.stat("nothing") is None, "files are asked for again"
        cuts = 1
        with pytest.raises(Disconnected, match="was lost while `true` ran"):
            await host.run(["true"])  # nobody knows whether it ran
        cuts = 1
        assert (await host.run(["true"], repeat=True)).ok
        (ssh_box.home / "log").write_bytes(b"line\n")
        cuts = 1
        stream: Any = host.follow("log")
        assert (await anext(stream)).data == b"line\n"
        await stream.aclose()
        async with host.forward(0, "127.0.0.1", echo) as port:
            cuts = 1 if step == "_open" else 0  # a port needs no request
            assert await talk(port, b"x") == b"X"
        assert cuts == 0


async def test_a_machine_that_gives_more_than_was_asked_for(
    ssh_box: Box, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def generous(stream: Any, size: int = -1, offset: int | None = None) -> bytes:
        return b"x" * (2 * size)

    (tmp_path / "file").write_bytes(b"x" * 10)
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        monkeypatch.setattr(asyncssh.SFTPClientFile, "read", generous)
        assert await host.get(str(tmp_path / "file"), limit=3) == b"xxx"
        with pytest.raises(FileRefused, match="is not read"):
            await host.get(str(tmp_path / "file"))
        await host.download(str(tmp_path / "file"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"x" * 10


async def test_an_error_of_the_network_is_no_error_of_a_file(
    ssh_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        link: Any = await host.reach()
        files = await link.files()

        async def unreachable(path: str) -> Any:
            connection = await link.connection()
            connection.connection_lost(OSError(errno.EHOSTUNREACH, "No route to host"))
            await connection.wait_closed()
            raise OSError(errno.EHOSTUNREACH, "No route to host")

        monkeypatch.setattr(files, "stat", unreachable)
        assert await host.stat("nothing") is None and (await host.reach()).connects == 2


async def test_patience_ends(ssh_box: Box, line: Any) -> None:
    async with await connect_ssh(
        ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts(), patience=0.5
    ) as host:
        await line.refuse()
        for action in (host.get("x"), host.stat("x"), host.put(b"", "x"), host.run(["true"])):
            with pytest.raises(Disconnected, match="refused the connection"):
                await action
        assert (await host.reach()).trouble is not None and not (await host.reach()).live
        await line.open()
        assert (
            (await host.run(["true"])).ok
            and (await host.reach()).trouble is None
            and (await host.reach()).live
        )


async def test_what_the_login_shell_prints_is_no_output(ssh_box: Box) -> None:
    ssh_box.world(before="echo welcome; echo motd >&2")
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        done = await host.run(["sh", "-c", "echo out; echo err >&2"])
        assert (done.stdout, done.stderr) == ("out\n", "err\n")
        with pytest.raises(MachineError, match="offers no file transfer") as caught:
            await host.stat("log")
        assert caught.value.fix is not None and "an echo in ~/.bashrc" in caught.value.fix


async def test_a_home_folder_that_cannot_be_written(ssh_box: Box) -> None:
    """Root may write everywhere: the file system itself must refuse, as /proc does."""
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        with pytest.raises(MachineError, match="cannot be written") as caught:
            await host.put(b"x", "/proc/hudtui/plan.json")
        assert caught.value.why
        source = ssh_box.home / "source"
        source.write_bytes(b"x")
        with pytest.raises(MachineError, match="cannot be written"):
            await host.upload(source, "/proc/hudtui/plan.json")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"flags": 1, "bavail": 0}, "is read-only"),
        ({"bavail": 0}, "is full"),
        ({"bavail": 5, "files": 10, "favail": 0}, "holds no more files"),
        ({"bavail": 5, "files": 10, "favail": 1}, "Failure"),
    ],
)
async def test_why_a_machine_refused_to_write(
    ssh_box: Box, monkeypatch: pytest.MonkeyPatch, values: dict[str, int], expected: str
) -> None:
    """SFTP says no more than "failure": the state of the disk, which is pretended here, tells the
    rest."""
    import asyncssh

    async def statvfs(self: Any, path: str) -> Any:
        assert path == str(ssh_box.home)
        return asyncssh.SFTPVFSAttrs(**values)

    monkeypatch.setattr(asyncssh.SFTPClient, "statvfs", statvfs)
    (ssh_box.home / "folder" / "below").mkdir(parents=True)
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        with pytest.raises(MachineError, match="cannot be written") as caught:
            await host.put(b"x", "folder")  # a folder is in the way
        assert expected in (caught.value.why or "")
    assert os.listdir(ssh_box.home) == ["folder"]


# --- large files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [0, 2])
async def test_large_files_there_and_back(
    ssh_box: Box, line: Any, tmp_path: Path, cuts: int
) -> None:
    source, back = tmp_path / "source", tmp_path / "new" / "back"
    data = random.Random(11).randbytes(12_000_000)
    source.write_bytes(data)
    seen: list[tuple[int, int]] = []
    async with await connect_ssh(
        ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()
    ) as host:

        def progress(done: int, total: int) -> None:
            seen.append((done, total))
            if line.cuts < cuts and done >= 4_000_000 * (line.cuts % 2 + 1) and len(seen) > 1:
                line.cut()

        await host.upload(source, "up/file", progress=progress)
        assert (ssh_box.home / "up/file").read_bytes() == data
        assert (ssh_box.home / "up/file").stat().st_mode & 0o777 == 0o644
        assert seen[0] == (0, len(data)) and seen[-1] == (len(data), len(data))
        assert line.cuts == cuts and (await host.reach()).connects == cuts + 1
        cuts *= 2
        await host.download("up/file", back, progress=progress)
        assert back.read_bytes() == data and back.stat().st_mode == source.stat().st_mode
        resumed = [now for (before, _), (now, _) in pairwise(seen) if 0 < now <= before]
        assert line.cuts == cuts and bool(resumed) == bool(cuts)
    assert os.listdir(ssh_box.home / "up") == ["file"] and os.listdir(back.parent) == ["back"]


async def test_a_part_of_something_else_is_not_taken(ssh_box: Box, tmp_path: Path) -> None:
    remote, back = ssh_box.home / "file", tmp_path / "back"
    remote.write_bytes(b"right" * 100_000)
    (tmp_path / ".back.part").write_bytes(b"wrong" * 1000)
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        await host.download("file", back)
        assert back.read_bytes() == remote.read_bytes()
        empty = tmp_path / "empty"
        empty.touch()
        await host.upload(empty, "empty")
        assert (ssh_box.home / "empty").read_bytes() == b""
        with pytest.raises(MachineError, match="cannot be brought"):
            await host.download("nothing", back)
        with pytest.raises(MachineError, match="cannot be read"):
            await host.upload(tmp_path / "nothing", "x")


@pytest.mark.parametrize("hashes", [True, False])
@pytest.mark.parametrize(
    "part", [".back.part", ".back.unknown.part", ".back.{old}.part", ".back.{new}.part"]
)
async def test_a_download_is_never_half_of_two_versions(
    ssh_box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hashes: bool, part: str
) -> None:
    old, new = b"old!" * 50_000, b"new!" * 100_000
    digests = {
        name: hashlib.sha256(data).hexdigest()[:16] for name, data in (("old", old), ("new", new))
    }
    remote, back = ssh_box.home / "file", tmp_path / "back"
    remote.write_bytes(new)
    (tmp_path / part.format(**digests)).write_bytes(old)
    if not hashes:

        async def cannot(*_: Any) -> None:
            return None

        monkeypatch.setattr(SshHost, "_remote_digest", cannot)
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        await host.download("file", back)
        assert back.read_bytes() == new
        back.unlink()
        await host.download("file", back, digest=hashlib.sha256(new).hexdigest())
        with pytest.raises(FileChanged):
            await host.download("file", back, digest=hashlib.sha256(old).hexdigest())
        assert back.read_bytes() == new
    left = {path.name for path in tmp_path.iterdir() if path.suffix == ".part"}
    assert left <= {".back.part"}, "parts of what the file was before are cleared"


@pytest.mark.parametrize(
    ("programs", "verified"), [(("sh", "python3"), True), (("sh", "head"), False)]
)
async def test_without_sha256sum(
    ssh_box: Box, tmp_path: Path, programs: tuple[str, ...], verified: bool
) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    import sys

    for name in programs:
        (folder / name).symlink_to(sys.executable if name == "python3" else str(shutil.which(name)))
    ssh_box.world(PATH=str(folder))
    source = tmp_path / "source"
    source.write_bytes(b"content")
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        await host.upload(source, "file")
        assert (ssh_box.home / "file").read_bytes() == b"content"
        assert (await host._remote_digest(str(ssh_box.home / "file"), 7) is not None) is verified


# --- machines that say nothing --------------------------------------------------------------------

_NO_FILES = (
    "case ${SSH_ORIGINAL_COMMAND:-} in internal-sftp*|*/sftp-server*) cat >/dev/null; exit ;; esac"
)
_NO_COMMANDS = (
    "case ${SSH_ORIGINAL_COMMAND:-} in internal-sftp*|*/sftp-server*) ;; *) exec tail -s 0.1 "
    "--pid=$PPID -f /dev/null ;; esac"
)


@pytest.mark.parametrize("what", ["stat", "get", "put", "download", "upload"])
async def test_files_of_a_machine_that_says_nothing_end_in_words(
    ssh_box: Box, tmp_path: Path, what: str
) -> None:
    async with await connect_ssh(
        ssh_box.target(), known_hosts=ssh_box.known_hosts(), timeout=1.0
    ) as host:
        assert (await host.run(["true"])).ok
        ssh_box.world(before=_NO_FILES)
        (tmp_path / "here").write_text("x")
        began = time.monotonic()
        with pytest.raises(Disconnected, match="did not answer within 1 s"):
            if what == "stat":
                await host.stat("x")
            elif what == "get":
                await host.get("x", limit=1)
            elif what == "put":
                await host.put(b"x", "x")
            elif what == "download":
                await host.download("x", tmp_path / "x")
            else:
                await host.upload(tmp_path / "here", "x")
        assert time.monotonic() - began < 25


@pytest.mark.parametrize("what", ["stat", "get", "download"])
async def test_a_machine_that_falls_silent_in_the_middle_ends_in_words(
    ssh_box: Box, tmp_path: Path, what: str
) -> None:
    (ssh_box.home / "x").write_text("x")
    async with await connect_ssh(
        ssh_box.target(), known_hosts=ssh_box.known_hosts(), timeout=1.0
    ) as host:
        link = await host.reach()
        await host.stat("x")
        server = next(pid for pid in sftp_servers(ssh_box.server))
        os.kill(server, signal.SIGSTOP)
        try:
            with pytest.raises(Silent, match="did not answer within"):
                if what == "stat":
                    await host.stat("x")
                elif what == "get":
                    await host.get("x", limit=1)
                else:
                    await host.download("x", tmp_path / "x", digest="0" * 64)
            assert (await host.stat("x")) is not None and link.connects == 1, (
                "a new file service answers"
            )
        finally:
            os.kill(server, signal.SIGKILL)


async def test_a_command_that_is_never_begun_ends_in_words(ssh_box: Box) -> None:
    async with await connect_ssh(
        ssh_box.target(), known_hosts=ssh_box.known_hosts(), timeout=1.0
    ) as host:
        ssh_box.world(before=_NO_COMMANDS)
        began = time.monotonic()
        with pytest.raises(Silent, match="did not begin `date` within 1 s"):
            await host.run(["date"], timeout=900.0)
        assert time.monotonic() - began < 25


async def test_a_command_that_prints_nothing_for_long_is_ended(ssh_box: Box) -> None:
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        with pytest.raises(MachineError, match=r"printed nothing for 0\.5 s, and was ended"):
            await host.run(["sh", "-c", "echo x; exec sleep 600"], timeout=900.0, silence=0.5)
        words = "for n in 1 2 3 4 5 6; do echo x; sleep 0.2; done"
        assert (
            await host.run(["sh", "-c", words], timeout=900.0, silence=60.0)
        ).stdout == "x\n" * 6


# --- tunnels --------------------------------------------------------------------------------------


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def talk(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(text)
        writer.write_eof()
        return await reader.read(-1)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def connect_soon(port: int, text: bytes) -> bytes:
    """A tunnel needs a while after a cut."""
    async with asyncio.timeout(60):
        while True:
            try:
                if answer := await talk(port, text):
                    return answer
            except OSError:
                pass
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
async def test_tunnels_outlive_the_connection(
    ssh_box: Box, line: Any, echo: int, direction: str
) -> None:
    async with await connect_ssh(
        ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()
    ) as host:
        tunnel = (host.forward if direction == "forward" else host.reverse)(0, "127.0.0.1", echo)
        async with tunnel as port:
            assert port not in (0, echo)
            assert await talk(port, b"hello " * 50_000) == b"HELLO " * 50_000
            line.cut()
            assert await connect_soon(port, b"again") == b"AGAIN"
            assert (await host.reach()).connects == 2
        with pytest.raises(OSError):
            await talk(port, b"x")


async def test_a_port_that_is_in_use(ssh_box: Box, echo: int) -> None:
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        for tunnel in (
            host.forward(echo, "127.0.0.1", echo),
            host.reverse(echo, "127.0.0.1", echo),
        ):
            with pytest.raises(MachineError, match=f"port {echo}"):
                async with tunnel:
                    pass


async def test_a_forward_to_nothing_ends_the_client(ssh_box: Box) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nothing = probe.getsockname()[1]
    async with (
        await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host,
        host.forward(0, "127.0.0.1", nothing) as port,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(-1), 30) == b""
        writer.close()


async def test_a_closed_host_says_so(ssh_box: Box) -> None:
    host: SshHost = await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts())
    await host.close()
    with pytest.raises(MachineError, match="was closed"):
        await host.run(["true"])
