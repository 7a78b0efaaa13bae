"""The watchdog on a rented machine, which keeps the limits while hudtui is closed.

Its rules, and how it is started. What it does stands in `hudtui/pod/watchdog.py`. Without a key of
its own it can only switch the machine off; with one it ends it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from hudtui.core.compute.demo_simulator import find_simulator
from hudtui.core.compute.provider import Provider
from hudtui.core.compute.registry import rentals
from hudtui.core.errors import InputError, MachineError
from hudtui.core.remote.host import Host
from hudtui.core.settings import other_holder, provider_settings
from hudtui.core.text import failure_text

FOLDER = ".hudtui-guard"
"""Where it is on machines that no run has been started on; below the home."""
KEY_FILE = "guard.key"
POWER_OFF = (
    ["shutdown", "-h", "now"],
    ["sudo", "-n", "shutdown", "-h", "now"],
    ["poweroff"],
    ["sudo", "-n", "poweroff"],
)
UNLIMITED = "No limit is set: it costs money until you end it."
_PATIENCE = 60.0


@dataclass(frozen=True)
class WatchdogPromise:
    """What a guard will do, for people."""

    text: str
    caveat: str = ""
    """What that does not stop."""


def guard_key(provider: str, lookup: Callable[[str], str | None]) -> str | None:
    """The key for the guards of machines that are rented from a provider.

    None where none was given, or it has no such keys.

    Raises:
        InputError: It is also another key of the user's, or the simulator's: those never go to a
            machine.
    """
    entry = rentals().get(provider)
    setting = None if entry is None else entry.guard_key
    key = "" if setting is None else (lookup(setting) or "").strip()
    if setting is None or not key:
        return None
    holder = other_holder(key, setting, Path.cwd())
    secrets = [one.name for one in provider_settings() if one.secret and one.name != setting]
    for name in secrets:
        holder = holder or (name if key == (lookup(name) or "").strip() else None)
    simulator = find_simulator()
    if holder is None and simulator is not None and key == simulator.key:
        holder = "of the demo's simulator"
    if holder is not None:
        raise InputError(
            f"{setting} is your own key {holder}, and would be left on rented machines",
            fix="Make a key that may only end machines.",
        )
    return key


def terminate_rule(
    provider: Provider, pod: str, lookup: Callable[[str], str | None]
) -> dict[str, str] | None:
    """The guard's rule `end`.

    How it tells the provider; None where no key was given for that, or the provider has no such
    way.

    Raises:
        InputError: See `guard_key`.
    """
    url = provider.terminate_url(pod)
    if url is None or guard_key(provider.name, lookup) is None:
        return None
    return {"url": url, "key_file": KEY_FILE}


def watchdog_rules(
    until: float | None, provider: Provider, pod: str, *, lookup: Callable[[str], str | None]
) -> dict[str, Any]:
    """The rules of the watchdog on a machine without a run.

    They have no limit for idling, which is not measured there.

    `until` is the moment at which its time is over; None: never. `pod` is the provider's id of it.

    Raises:
        InputError: See `terminate_rule`.
    """
    now = time.time()
    return {
        "max_seconds": None if until is None else round(max(until - now, 0.0), 1),
        "grace_seconds": 0.0,
        "count_from": f"{now:.3f}",
        "power_off": [["true"]] if provider.features.simulated else list(POWER_OFF),
        "end": terminate_rule(provider, pod, lookup),
    }


async def arm_watchdog(
    host: Host, folder: str, rules: Mapping[str, Any], *, key: str | None = None
) -> None:
    """Start the watchdog, or give the running one its rules.

    For the rules see `hudtui/pod/watchdog.py`; `key` goes into the file that the rule `end` names.

    Raises:
        MachineError: It could not start.
    """
    for command in (["mkdir", "-p", "--", folder], ["chmod", "700", "--", folder]):
        await _run(host, command)
    if key is not None:
        await host.put(key.encode(), f"{folder}/{KEY_FILE}", mode=0o600)
    await host.put(json.dumps(dict(rules), indent=1).encode(), f"{folder}/guard.json", mode=0o600)
    for name in ("supervisor.py", "watchdog.py"):
        await host.put(
            resources.files("hudtui.pod").joinpath(name).read_bytes(),
            f"{folder}/{name}",
            mode=0o700,
        )
    await _run(host, ["python3", f"{folder}/watchdog.py", "arm", folder])


async def _run(host: Host, command: list[str]) -> None:
    done = await host.run(command, timeout=_PATIENCE)
    if not done.ok:
        raise MachineError(
            f"the guard of {host.name} could not be armed", why=failure_text(done.stderr)
        )


async def start_watchdog(
    host: Host,
    until: float | None,
    provider: Provider,
    pod: str,
    *,
    lookup: Callable[[str], str | None],
) -> WatchdogPromise | None:
    """Start the watchdog of a machine without a run, or give the running one other limits.

    `until` is the moment at which its time is over, for which the day's budget has room; None:
    never. `pod` is the provider's id of it.

    Returns:
        What it will do; None where there is no limit that it could watch.

    Raises:
        MachineError: It could not start.
        InputError: See `terminate_rule`.
    """
    if provider.features.terminates_itself:
        return WatchdogPromise(
            f"{provider.title} ends it by itself when its time is over, even if hudtui is closed."
        )
    rules = watchdog_rules(until, provider, pod, lookup=lookup)
    await arm_watchdog(
        host, FOLDER, rules, key=guard_key(provider.name, lookup) if rules["end"] else None
    )
    if rules["max_seconds"] is None:
        return None
    entry = rentals().get(provider.name)
    setting = None if entry is None else entry.guard_key
    return watchdog_promise(
        rules["max_seconds"] / 3600, ends=rules["end"] is not None, setting=setting
    )


def watchdog_notice(provider: Provider, lookup: Callable[[str], str | None]) -> str:
    """What holds the limits when hudtui is closed, for people who are about to pay.

    Raises:
        InputError: See `terminate_rule`: the guard could not be armed.
    """
    if provider.features.terminates_itself:
        return f"When hudtui is closed, {provider.title} ends it in time."
    if terminate_rule(provider, "", lookup) is not None:
        return "When hudtui is closed, a guard on it ends it in time."
    return (
        "When hudtui is closed, a guard on it switches it off in time. Only ending it is sure to "
        "stop the billing."
    )


def watchdog_promise(hours: float, *, ends: bool, setting: str | None = None) -> WatchdogPromise:
    """What the guard will do.

    `setting` is that of a key for guards, where the provider has such keys.
    """
    after = f"after {hours:.3g} h, even if hudtui is closed"
    if ends:
        return WatchdogPromise(f"Safety stop: a guard on the machine ends it {after}.")
    caveat = "That may not stop the billing: only ending it does."
    if setting is not None:
        caveat += f" With {setting}, a key that may only end machines, the guard ends it."
    return WatchdogPromise(f"Safety stop: a guard on the machine switches it off {after}.", caveat)
