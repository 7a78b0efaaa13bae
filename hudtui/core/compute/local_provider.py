"""This machine as a provider: its GPUs, if it has any."""

from __future__ import annotations

import sys

from hudtui.core.compute.machine import Machine, inspect
from hudtui.core.compute.own_machines import OwnMachine, OwnMachines
from hudtui.core.remote.local import LocalHost


class Local(OwnMachines):
    """This machine.

    Args:
        own: What the user says of it. Without a price it costs nothing: it runs anyway.
    """

    def __init__(self, own: OwnMachine | None = None) -> None:
        own = own or OwnMachine("local")
        stated = OwnMachine("local", 0.0 if own.price is None else own.price, own.currency)
        super().__init__("local", "this machine", (stated,), _look)


async def _look(name: str) -> Machine:
    return await inspect(LocalHost(), python=sys.executable)
