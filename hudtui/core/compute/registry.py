"""The providers of machines that the user's settings allow, for commands, screens and launches.

What opens a machine is imported where it is used: the home screen asks whether machines can be
rented before it is shown in full.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from hudtui.core.compute.entry import Lookup, ProviderEntry
from hudtui.core.compute.prime.entry import DEMO, OFF, SIMULATOR
from hudtui.core.errors import InputError, MachineError
from hudtui.core.extensions import PROVIDERS, extensions
from hudtui.core.text import clean_line, did_you_mean, plural

if TYPE_CHECKING:
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Pod
    from hudtui.core.remote.host import Host
    from hudtui.core.remote.target import SshTarget

OWN = ("ssh", "local")
"""The providers of the user's own machines."""


def rentals() -> Mapping[str, ProviderEntry]:
    """Return the providers that machines are rented from, by name.

    Those of other packages are included.
    """
    return extensions(PROVIDERS).loaded


def provider_names() -> tuple[str, ...]:
    """Return the names of all providers."""
    return (*rentals(), *OWN)


def rental_titles(lookup: Lookup) -> Mapping[str, str]:
    """Return the titles of the providers that machines are rented from, by their names.

    A title is as `Provider.title` has it.

    A provider need not be set up, and no request is made.
    """
    return {name: entry.title(lookup) for name, entry in rentals().items()}


def simulation_words(names: Collection[str]) -> str:
    """Return that providers are simulated, in a few words: `Prime is simulated`."""
    labels = [entry.label for name, entry in rentals().items() if name in names]
    return f"{' and '.join(labels)} {'is' if len(labels) == 1 else 'are'} simulated"


def usual_rental(lookup: Lookup) -> ProviderEntry:
    """Return the provider of a run that names none: the first that is set up, otherwise the first.

    No request is made.
    """
    first, *others = (entry for entry in rentals().values() if entry.on_demand is None)
    if lookup(SIMULATOR) not in (None, "", OFF):
        return first  # real machines are no substitute for simulated ones
    if first.key is not None and lookup(first.key):
        return first
    return next((entry for entry in others if entry.lacking(lookup) is None), first)


def rents(lookup: Lookup, *, demo: bool) -> bool:
    """Return whether machines can be rented, by the settings alone.

    `demo`: also those of the demo's simulator.
    """
    simulator = lookup(SIMULATOR)
    if simulator not in (None, "", OFF) and (demo or simulator != DEMO):
        return True
    return any(
        entry.key is not None and lookup(entry.key) is not None for entry in rentals().values()
    )


def find_providers(
    lookup: Lookup,
    *,
    machines: Sequence[str] = (),
    whole_config: bool = False,
    named: Collection[str] = (),
) -> Mapping[str, Provider]:
    """Return all providers that are set up, by name. No request is made.

    A simulated Prime is called `prime`, too. SSH hosts are included only if the user has listed
    them (see `owned_hosts.owned_hosts_file`) or `machines` names them: an SSH config holds many
    others. A provider that is opened on demand, such as SkyPilot, is included if the settings ask
    for it, if it is `named`, or if a machine rented from it may be alive. `machines` are further
    SSH hosts: names in ~/.ssh/config, or `user@host[:port]`; with `whole_config` all hosts there
    are included.

    Raises:
        InputError: The user's list of machines, or a setting of a provider, is invalid.
    """
    from hudtui.core.compute.owned_hosts import (
        LocalProvider,
        OwnedHost,
        SshProvider,
        config_names,
        owned_hosts_file,
        read_owned_hosts,
    )
    from hudtui.core.compute.provider import ProviderError

    found: dict[str, Provider] = {}
    for name, entry in rentals().items():
        if (
            entry.on_demand is None
            or name in named
            or entry.on_demand(lookup)
            or _has_machines(name)
        ):
            try:
                provider = entry.make(lookup)
            except ProviderError:
                continue  # `unavailable_providers` says so
            if provider is not None:
                found[name] = provider
    listed = read_owned_hosts(owned_hosts_file())
    own = {machine.name: machine for machine in listed if machine.name != "local"}
    names = [*machines]
    if whole_config:
        names += config_names()
    for name in names:
        own.setdefault(name, OwnedHost(name))
    if own:
        found["ssh"] = SshProvider(tuple(own.values()))
    found["local"] = LocalProvider(
        next((machine for machine in listed if machine.name == "local"), None)
    )
    return found


def _has_machines(provider: str) -> bool:
    from hudtui.core.compute.pods import Ledger

    try:
        return any(owned.provider == provider for owned in Ledger().records())
    except MachineError:
        return False  # the code that needs the ledger reports its error


def unavailable_providers(lookup: Lookup) -> Mapping[str, str]:
    """Return the providers that cannot be used, by name, each with a line on what to do."""
    from hudtui.core.compute.owned_hosts import owned_hosts_file, read_owned_hosts

    lacking = {name: entry.lacking(lookup) for name, entry in rentals().items()}
    told = {name: text for name, text in lacking.items() if text is not None}
    for name, why in extensions(PROVIDERS).broken.items():
        told[name] = f"The provider {clean_line(name, 40)} cannot be loaded: {clean_line(why, 200)}"
    if not read_owned_hosts(owned_hosts_file()):
        told["ssh"] = (
            "No machine behind SSH is listed: name one with --host, or list them in "
            f"{owned_hosts_file()}."
        )
    return told


def open_provider(
    name: str, lookup: Lookup, *, providers: Mapping[str, Provider] | None = None
) -> Provider:
    """Return the provider with this name.

    Raises:
        InputError: No provider has this name.
        AuthError: The provider's key is missing; the error says what to do.
        ProviderError: The provider is not available; the error says what to do.
    """
    from hudtui.core.compute.provider import AuthError, ProviderError

    names, entry = provider_names(), rentals().get(name)
    given = providers.get(name) if providers is not None else None
    if given is not None:
        return given
    if name not in (*names, *extensions(PROVIDERS).broken):
        near = did_you_mean(name, names)
        others = f"There are: {', '.join(names)}. The clouds behind prime are chosen with --cloud."
        raise InputError(
            f"there is no provider {clean_line(name, 40)!r}",
            fix=f"Did you mean {near}?" if near else others,
        )
    opened = None
    if entry is not None and (providers is None or entry.on_demand is not None):
        opened = entry.make(lookup)
    elif entry is None and providers is None:
        opened = find_providers(lookup).get(name)
    if opened is not None:
        return opened
    told = unavailable_providers(lookup).get(name, f"{name} is not set up here.")
    what, _, fix = told.partition(": ")
    fix = fix[:1].upper() + fix[1:]
    if entry is not None and entry.key is not None:
        raise AuthError(what, fix=fix or None, lacks=entry.key)
    raise ProviderError(what, fix=fix or None)


def pod_target(pod: Pod, lookup: Lookup, node: int = 0) -> SshTarget | None:
    """Return the SSH login of a machine of a pod; None for this computer.

    Its host key is kept by pod id and number of the machine, not by address.

    Raises:
        ProviderError: The pod's address is not known yet.
    """
    from hudtui.core.compute.provider import ProviderError
    from hudtui.core.compute.ssh_key import key_path
    from hudtui.core.remote.target import SshTarget, parse_target

    if pod.provider == "local":
        return None
    if pod.provider == "ssh":
        return parse_target(pod.id)
    entry = rentals().get(pod.provider)
    own = None if entry is None or entry.target is None else entry.target(pod, node)
    if own is not None:
        return own
    if len(pod.addresses) <= node:
        raise ProviderError(
            f"{clean_line(pod.name or pod.id, 60)} has no address yet",
            why=f"Its state is {pod.status or pod.stage}.",
        )
    address, key = pod.addresses[node], key_path(lookup)
    pin = f"{pod.id}.{node}" if node else pod.id
    return SshTarget(address.user, address.host, address.port, keys=(key,) if key else (), pin=pin)


async def pod_ssh_command(
    pod: Pod, lookup: Lookup, command: Sequence[str] = (), *, tty: bool = True, node: int = 0
) -> tuple[str, ...]:
    """Return the `ssh` command for a shell on a machine of a pod, or for `command` there.

    This function connects to the pod once, to learn its host key and the right user.

    Raises:
        InputError: The pod has fewer machines.
        ProviderError: The pod is this computer, or has no address yet.
        MachineError: The pod cannot be reached, or rejects the login.
    """
    import asyncio

    from hudtui.core.compute.lifecycle import log_in_to_pod
    from hudtui.core.compute.provider import ProviderError
    from hudtui.core.remote.known_hosts import KnownHosts
    from hudtui.core.remote.ssh import ssh_argv

    if 0 < len(pod.addresses) <= node:
        name, has = clean_line(pod.name or pod.id, 60), plural(len(pod.addresses), "machine")
        raise InputError(f"{name} has {has}, and none has the number {node}", fix="The first is 0.")
    entered, _ = await log_in_to_pod(pod, pod_login(lookup), node)
    target = pod_target(entered, lookup, node)
    if target is None:
        raise ProviderError("this machine needs no login")
    return await asyncio.to_thread(ssh_argv, target, KnownHosts(), command, tty=tty)


def pod_login(lookup: Lookup) -> Callable[[Pod, int], Awaitable[Host]]:
    """Return the function that logs in to a machine of a pod, for `acquire`.

    With the user's key, over the shared connections.
    """
    from hudtui.core.remote.hosts import open_host

    async def login(pod: Pod, node: int) -> Host:
        return await open_host(pod_target(pod, lookup, node) or "local")

    return login
