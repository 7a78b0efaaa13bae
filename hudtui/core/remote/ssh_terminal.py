"""The user's own terminal on a machine, such as an attached tmux: by the system's `ssh`, which trusts what we trust."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence

from hudtui.core.errors import MachineError
from hudtui.core.files import write_atomic
from hudtui.core.remote.known_hosts import KnownHosts
from hudtui.core.remote.target import SshTarget


def ssh_argv(target: SshTarget, known_hosts: KnownHosts, command: Sequence[str] = (), *, tty: bool = True) -> tuple[str, ...]:
    """The command that shows `command` of the machine, or a shell there, on this terminal.

    Args:
        target: The machine. It has been reached before, so that its host key is known.
        known_hosts: The known host keys.
        command: What to run there, for instance `tmux.attach_argv(session)`.
        tty: It is shown on a terminal.

    Machines on the way (`jump`) are judged by the user's own known_hosts: `ssh -J` hands no options on to them.

    Raises:
        MachineError: Its host key is not known.
        InputError: The key cannot be written down for `ssh`.
    """
    key = known_hosts.known(target.machine)
    if key is None:
        raise MachineError(f"{target.name} has never been reached", fix="Connect first, so that its host key is known.")
    alias = f"hudtui-{hashlib.sha256(target.machine.encode()).hexdigest()[:16]}"
    path = known_hosts.path(target.machine).with_suffix(".known")
    write_atomic(path, f"{alias} {key.export_public_key('openssh').decode().strip()}\n", mode=0o600)
    options = [f"UserKnownHostsFile={_word(str(path))}", "GlobalKnownHostsFile=none", "StrictHostKeyChecking=yes"]
    options += [f"HostKeyAlias={alias}", "UpdateHostKeys=no", "PasswordAuthentication=no", "KbdInteractiveAuthentication=no"]
    if target.agent is not None:
        options.append(f"IdentityAgent={_word(target.agent) if target.agent else 'none'}")
    if target.identities_only:
        options.append("IdentitiesOnly=yes")
    if target.proxy_command:
        options.append(f"ProxyCommand={target.proxy_command}")
    argv = ["ssh", *(["-t"] if tty else []), *(part for option in options for part in ("-o", option))]
    for key_file in target.keys:
        argv += ["-i", str(key_file)]
    if target.jump:
        argv += ["-J", ",".join(hop.name for hop in target.jump)]
    argv += ["-p", str(target.port), "-l", target.user, "--", target.host]
    return (*argv, shlex.join(command)) if command else tuple(argv)


def _word(text: str) -> str:
    return '"' + text.replace("%", "%%") + '"'
