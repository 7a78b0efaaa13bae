"""Prime Intellect in the registry of providers.

Its settings, its key, and the simulator that may stand in its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hudtui.core.compute.entry import Lookup, ProviderEntry
from hudtui.core.errors import InputError
from hudtui.core.http import is_loopback
from hudtui.core.settings import Setting
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.compute.provider import Provider
    from hudtui.core.credentials import KeyRequest

KEY = "PRIME_API_KEY"
BASE_URL = "https://api.primeintellect.ai"
SIMULATOR = "HUDTUI_SIM"
"""Setting: the address of a simulator (`python -m hudtui.sim`) that stands in for Prime Intellect,
on this machine; or `DEMO`, or `OFF`."""
SIMULATOR_KEY = "HUDTUI_SIM_KEY"
"""Setting: the key that such a simulator printed when it started."""
DEMO, OFF = "demo", "off"
"""The simulator that is started here; none."""


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

    A simulator never gets the user's own key. The demo's simulator must be running: see
    `ensure_simulator`.

    Raises:
        InputError: `HUDTUI_SIM` is not an address of this computer; a real service must never count
            as simulated.
        ProviderError: The demo's simulator is not running.
    """
    from hudtui.core.compute.demo_simulator import find_simulator
    from hudtui.core.compute.provider import ProviderError

    simulator = lookup(SIMULATOR)
    if simulator == DEMO:
        living = find_simulator()
        if living is None:
            raise ProviderError(
                "the demo's simulator does not run",
                fix="The next command that asks for machines starts it.",
            )
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
    return PrimeAccess(
        base, lookup("PRIME_API_KEY") or None, lookup("PRIME_TEAM_ID"), is_prime_simulated(lookup)
    )


def is_prime_simulated(lookup: Lookup) -> bool:
    """Return whether the settings put a simulator in Prime Intellect's place.

    It need not be running.
    """
    simulator = lookup(SIMULATOR)
    if simulator and simulator != OFF:
        return simulator == DEMO or is_loopback(simulator)
    return is_loopback(lookup("PRIME_API_BASE_URL") or BASE_URL)


def prime_title(simulated: bool) -> str:
    """Return the name of Prime Intellect, or of a simulator in its place, for people."""
    return "Prime (simulated)" if simulated else "Prime Intellect"


def _title(lookup: Lookup) -> str:
    return prime_title(is_prime_simulated(lookup))


def _make(lookup: Lookup) -> Provider | None:
    access = prime_access(lookup)
    if access.key is None:
        return None
    from hudtui.core.compute.prime.provider import PrimeProvider

    return PrimeProvider(
        access.key, base_url=access.base_url, team_id=access.team, simulated=access.simulated
    )


def _lacking(lookup: Lookup) -> str | None:
    from hudtui.core.compute.provider import ProviderError

    try:
        key = prime_access(lookup).key
    except ProviderError as error:
        return "; ".join(error.lines())
    if key is not None:
        return None
    if lookup(SIMULATOR) not in (None, "", OFF):
        return (
            f"The simulator needs the key that it printed: hudtui settings set {SIMULATOR_KEY} "
            "--user"
        )
    return (
        "Prime Intellect needs a key: make one at https://app.primeintellect.ai/dashboard/tokens, "
        f"then: hudtui settings set {KEY} --user"
    )


def _key_request() -> KeyRequest:
    from hudtui.core.credentials import KeyRequest

    return KeyRequest("PRIME_API_BASE_URL", "/api/v1/user/whoami", _account)


def _account(data: Any) -> str | None:
    user = data["data"]
    return str(user.get("email") or user.get("name") or user["id"])


PRIME = ProviderEntry(
    name="prime",
    label="Prime",
    title=_title,
    make=_make,
    lacking=_lacking,
    key=KEY,
    key_request=_key_request,
    guard_key="HUDTUI_GUARD_KEY",
    settings=(
        Setting(
            KEY,
            "Prime Intellect: renting GPUs",
            "secret",
            get_it="https://app.primeintellect.ai/dashboard/tokens",
            needs=(
                "It has to allow reading availability, and reading and writing instances and SSH "
                "keys."
            ),
        ),
        Setting("PRIME_TEAM_ID", "Prime Intellect team that pays; without it, your own account"),
        Setting(
            "PRIME_SSH_KEY_PATH",
            "private SSH key for machines of Prime, e.g. ~/.ssh/prime_key.pem",
            "path",
        ),
        Setting("PRIME_API_BASE_URL", "address of the Prime Intellect API", "url", BASE_URL),
        Setting(
            SIMULATOR,
            "a simulator in Prime Intellect's place: demo, its address on this machine, or off",
        ),
        Setting(
            SIMULATOR_KEY,
            "the simulator at HUDTUI_SIM: the key that it prints when it starts",
            "secret",
            in_folders=False,
        ),
    ),
)
