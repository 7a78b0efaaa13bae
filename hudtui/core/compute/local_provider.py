"""This machine as a provider: its GPUs, if it has any."""

from __future__ import annotations

import sys

from hudtui.core.compute.hardware import Hardware, inspect
from hudtui.core.compute.owned_hosts import OwnedHost, OwnedHostsProvider
from hudtui.core.remote.local import LocalHost


class LocalProvider(OwnedHostsProvider):
    """This machine.

    Args:
        own: What the user says of it. Without a price it costs nothing: it runs anyway.
    """

    def __init__(self, own: OwnedHost | None = None) -> None:
        own = own or OwnedHost("local")
        stated = OwnedHost("local", 0.0 if own.price is None else own.price, own.currency)
        super().__init__("local", "this machine", (stated,), _look)


async def _look(name: str) -> Hardware:
    return await inspect(LocalHost(), python=sys.executable)
