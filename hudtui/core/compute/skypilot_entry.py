"""SkyPilot in the registry of providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudtui.core.compute.entry import Lookup, ProviderEntry
from hudtui.core.settings import Setting

if TYPE_CHECKING:
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Pod
    from hudtui.core.remote.target import SshTarget

TITLE = "SkyPilot"
PROGRAM = "HUDTUI_SKY"
"""How SkyPilot is called, such as `uvx --from skypilot[aws] sky`, where it is not `sky` on PATH."""


def _make(lookup: Lookup) -> Provider | None:
    from hudtui.core.compute.skypilot import SkyPilotProvider, find_sky

    program = find_sky(lookup)
    return SkyPilotProvider(program) if program else None


def _lacking(lookup: Lookup) -> str | None:
    from hudtui.core.compute.skypilot import INSTALL, find_sky

    return None if find_sky(lookup) else INSTALL


def _target(pod: Pod, node: int) -> SshTarget | None:
    """Return the login of a machine of a pod; see `machine_name`."""
    from hudtui.core.compute.skypilot import machine_name
    from hudtui.core.remote.target import parse_target

    name = machine_name(pod.id, node)
    return parse_target(name, pin=name) if len(pod.addresses) > node else None


SKY = ProviderEntry(
    name="sky",
    label=TITLE,
    title=lambda lookup: TITLE,
    make=_make,
    lacking=_lacking,
    # An installed SkyPilot is not enough: every request starts its server.
    on_demand=lambda lookup: bool(lookup(PROGRAM)),
    target=_target,
    settings=(
        Setting(
            PROGRAM,
            "how SkyPilot is called, such as uvx --from 'skypilot[aws]' sky; by default sky on "
            "PATH",
            "command",
            in_folders=False,
        ),
    ),
)
