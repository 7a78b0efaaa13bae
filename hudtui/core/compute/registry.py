"""The providers of machines that the user's settings allow, for commands, screens and launches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hudtui.core.compute.demo_simulator import DEMO, OFF, SIMULATOR, SIMULATOR_KEY, find_simulator
from hudtui.core.compute.owned_hosts import OwnedHost, owned_hosts_file, read_owned_hosts
from hudtui.core.compute.provider import AuthError, Provider, ProviderError
from hudtui.core.compute.skypilot import INSTALL, PROGRAM, SkyPilotProvider, find_sky
from hudtui.core.compute.ssh_key import key_path
from hudtui.core.compute.values import Pod
from hudtui.core.errors import InputError, MachineError
from hudtui.core.http import is_loopback
from hudtui.core.remote.host import Host
from hudtui.core.remote.hosts import open_host
from hudtui.core.remote.target import SshTarget
from hudtui.core.text import clean_line, did_you_mean

Lookup = Callable[[str], str | None]
"""Returns the value of a setting by its name, as `Settings.get` does."""

NAMES = ("prime", "sky", "ssh", "local")


@dataclass(frozen=True)
class PrimeAccess:
    """Address and key of Prime Intellect."""

    base_url: str
    key: str | None = field(repr=False)
    team: str | None
    simulated: bool
    """The address is on this computer: no real money is spent."""


def prime_access(lookup: Lookup) -> PrimeAccess:
    """Return address, key and team from the settings, or those of the simulator in `HUDTUI_SIM`.

    A simulator never gets the user's own key. The demo's simulator must be running: see `ensure_simulator`.

    Raises:
        InputError: `HUDTUI_SIM` is not an address of this computer; a real service must never count as simulated.
        ProviderError: The demo's simulator is not running.
    """
    from hudtui.core.compute.prime.provider import BASE_URL

    simulator = lookup(SIMULATOR)
    if simulator == DEMO:
        living = find_simulator()
        if living is None:
            raise ProviderError("the demo's simulator does not run", fix="The next command that asks for machines starts it.")
        return PrimeAccess(living.url, living.key, None, True)
    if simulator and simulator != OFF:
        if not is_loopback(simulator):
            raise InputError(
                f"{SIMULATOR} is not an address of this machine",
                why=f"It is {clean_line(simulator, 80)!r}.",
                fix="Start one with `python -m hudtui.sim`, and set the address that it prints.",
            )
        return PrimeAccess(simulator.rstrip("/"), lookup(SIMULATOR_KEY) or None, None, True)
    base = (lookup("PRIME_API_BASE_URL") or BASE_URL).rstrip("/")
    return PrimeAccess(base, lookup("PRIME_API_KEY") or None, lookup("PRIME_TEAM_ID"), is_prime_simulated(lookup))


def is_prime_simulated(lookup: Lookup) -> bool:
    """Return whether the settings put a simulator in Prime Intellect's place. It need not be running."""
    from hudtui.core.compute.prime.provider import BASE_URL

    simulator = lookup(SIMULATOR)
    if simulator and simulator != OFF:
        return simulator == DEMO or is_loopback(simulator)
    return is_loopback(lookup("PRIME_API_BASE_URL") or BASE_URL)


def rental_titles(lookup: Lookup) -> Mapping[str, str]:
    """Return the providers that machines are rented from, by name, each with its title as `Provider.title` has it.

    A provider need not be set up, and no request is made.
    """
    from hudtui.core.compute.prime.provider import prime_title

    return {"prime": prime_title(is_prime_simulated(lookup)), SkyPilotProvider.name: SkyPilotProvider.title}


def find_providers(
    lookup: Lookup,
    *,
    machines: Sequence[str] = (),
    whole_config: bool = False,
    sky: bool = False,
) -> Mapping[str, Provider]:
    """Return all providers that are set up, by name. No request is made. A simulated Prime is called `prime`, too.

    SSH hosts are included only if the user has listed them (see `owned_hosts.owned_hosts_file`) or `machines` names them: an SSH
    config holds many others. An installed SkyPilot is not enough, because every request starts its server: SkyPilot is included
    if `HUDTUI_SKY` is set, or if a machine rented from it may be alive. `machines` are further SSH hosts: names in ~/.ssh/config,
    or `user@host[:port]`; with `whole_config` all hosts there are included, and with `sky` SkyPilot if it is installed.

    Raises:
        InputError: The user's list of machines is invalid.
    """
    found: dict[str, Provider] = {}
    try:
        access: PrimeAccess | None = prime_access(lookup)
    except ProviderError:  # `unavailable_providers` says so
        access = None
    if access is not None and access.key is not None:
        from hudtui.core.compute.prime.provider import PrimeProvider

        prime = PrimeProvider(access.key, base_url=access.base_url, team_id=access.team, simulated=access.simulated)
        found[prime.name] = prime
    if sky or lookup(PROGRAM) or _has_sky_machines():
        pilot = _sky(lookup)
        if pilot is not None:
            found[pilot.name] = pilot
    listed = read_owned_hosts(owned_hosts_file())
    own = {machine.name: machine for machine in listed if machine.name != "local"}
    names = [*machines]
    if whole_config:
        from hudtui.core.compute.owned_hosts import config_names

        names += config_names()
    for name in names:
        own.setdefault(name, OwnedHost(name))
    if own:
        from hudtui.core.compute.owned_hosts import SshProvider

        found["ssh"] = SshProvider(tuple(own.values()))
    from hudtui.core.compute.owned_hosts import LocalProvider

    found["local"] = LocalProvider(next((machine for machine in listed if machine.name == "local"), None))
    return found


def _sky(lookup: Lookup) -> Provider | None:
    program = find_sky(lookup)
    return SkyPilotProvider(program) if program else None


def _has_sky_machines() -> bool:
    from hudtui.core.compute.pods import Ledger

    try:
        return any(owned.provider == "sky" for owned in Ledger().records())
    except MachineError:
        return False  # the code that needs the ledger reports its error


def unavailable_providers(lookup: Lookup) -> Mapping[str, str]:
    """Return the providers that cannot be used, by name, each with one line that says what to do."""
    told: dict[str, str] = {}
    try:
        key = prime_access(lookup).key
    except ProviderError as error:
        told["prime"] = "; ".join(error.lines())
    else:
        if key is None and lookup(SIMULATOR) not in (None, "", OFF):
            told["prime"] = f"The simulator needs the key that it printed: hudtui settings set {SIMULATOR_KEY} --user"
        elif key is None:
            told["prime"] = (
                "Prime Intellect needs a key: make one at https://app.primeintellect.ai/dashboard/tokens, "
                "then: hudtui settings set PRIME_API_KEY --user"
            )
    if _sky(lookup) is None:
        told["sky"] = INSTALL
    if not read_owned_hosts(owned_hosts_file()):
        told["ssh"] = f"No machine behind SSH is listed: name one with --host, or list them in {owned_hosts_file()}."
    return told


def open_provider(name: str, lookup: Lookup, *, providers: Mapping[str, Provider] | None = None) -> Provider:
    """Return the provider with this name.

    Raises:
        InputError: No provider has this name.
        AuthError: The provider's key is missing; the error says what to do.
        ProviderError: The provider is not available; the error says what to do.
    """
    if name not in NAMES:
        near = did_you_mean(name, NAMES)
        raise InputError(
            f"there is no provider {clean_line(name, 40)!r}",
            fix=f"Did you mean {near}?"
            if near
            else f"There are: {', '.join(NAMES)}. The clouds behind prime are chosen with --cloud.",
        )
    there = providers if providers is not None else find_providers(lookup)
    found = there.get(name) or (_sky(lookup) if name == "sky" else None)
    if found is not None:
        return found
    if name == "prime":
        prime_access(lookup)  # says why a simulator cannot be asked
    told = unavailable_providers(lookup).get(name, f"{name} is not set up here.")
    what, _, fix = told.partition(": ")
    fix = fix[:1].upper() + fix[1:]
    if name == "prime":
        raise AuthError(what, fix=fix or None, lacks="PRIME_API_KEY")
    raise ProviderError(what, fix=fix or None)


def pod_target(pod: Pod, lookup: Lookup) -> SshTarget | None:
    """Return the SSH login of a pod's first node; None for this computer. A pod's host key is kept by pod id, not by address.

    SkyPilot writes the logins of its machines, with a key of its own, into the user's SSH config.

    Raises:
        ProviderError: The pod's address is not known yet.
    """
    if pod.provider == "local":
        return None
    if pod.provider == "ssh":
        from hudtui.core.remote.target import parse_target

        return parse_target(pod.id)
    if pod.provider == "sky" and pod.addresses:
        from hudtui.core.remote.target import parse_target

        return parse_target(pod.id, pin=pod.id)
    if not pod.addresses:
        raise ProviderError(
            f"{clean_line(pod.name or pod.id, 60)} has no address yet", why=f"Its state is {pod.status or pod.stage}."
        )
    address, key = pod.addresses[0], key_path(lookup)
    return SshTarget(address.user, address.host, address.port, keys=(key,) if key else (), pin=pod.id)


async def pod_ssh_command(pod: Pod, lookup: Lookup, command: Sequence[str] = (), *, tty: bool = True) -> tuple[str, ...]:
    """Return the `ssh` command for a shell on a pod, or for `command` there.

    This function connects to the pod once, to learn its host key and the right user.

    Raises:
        ProviderError: The pod is this computer, or has no address yet.
        MachineError: The pod cannot be reached, or rejects the login.
    """
    import asyncio

    from hudtui.core.compute.lifecycle import log_in_to_pod
    from hudtui.core.remote.known_hosts import KnownHosts
    from hudtui.core.remote.ssh import ssh_argv

    entered, _ = await log_in_to_pod(pod, pod_login(lookup))
    target = pod_target(entered, lookup)
    if target is None:
        raise ProviderError("this machine needs no login")
    return await asyncio.to_thread(ssh_argv, target, KnownHosts(), command, tty=tty)


def pod_login(lookup: Lookup) -> Callable[[Pod], Awaitable[Host]]:
    """Return the function that logs in to a pod, for `acquire`: with the user's key, over the shared connections."""

    async def login(pod: Pod) -> Host:
        return await open_host(pod_target(pod, lookup) or "local")

    return login
