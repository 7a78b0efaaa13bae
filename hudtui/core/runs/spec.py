"""The full specification of a run: the job of the engine, the rented machine, and the limits.

The store keeps it as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudtui.core.compute.limits import Limits
from hudtui.core.compute.values import Offer, Order
from hudtui.core.remote.hosts import pod_host
from hudtui.core.training.plan import JobSpec


@dataclass(frozen=True)
class Rental:
    """A machine, or a cluster, that is rented for one run and ended after it."""

    provider: str
    """Name of the provider."""
    machine: str
    """Name under which the machine is ordered and found again; unique."""
    offer: Offer
    """The offer to order, with the provider's data for the order."""
    hourly: float = 0.0
    """Price per hour, in `currency`, that the user agreed to."""
    currency: str = "USD"
    image: str | None = None
    disk_gb: float | None = None
    ssh_key: str | None = None
    """The provider's id of the public key that may log in."""
    keep_on_failure: bool = False
    """Keep the machine, and pay for it, if the run fails."""
    simulated: bool = False
    """True if the machine is simulated: it costs nothing, and is never really switched off."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names of its machines, that of node 0 first."""
        return tuple(pod_host(self.machine, node) for node in range(self.offer.nodes))

    @property
    def order(self) -> Order:
        """The order for the provider."""
        return Order(
            self.machine, self.offer, image=self.image, disk_gb=self.disk_gb, ssh_key=self.ssh_key
        )


@dataclass(frozen=True)
class RunSpec(JobSpec):
    """A run: its work, its machine and its limits."""

    peers: tuple[str, ...] = ()
    """The machines beside that of the run, where it has several nodes: node 1, 2, ..."""
    rent: Rental | None = None
    """None for this machine, or a machine that the user owns."""
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    """Limits of the rented machine when it is ordered; they may be changed later."""
    stop_on: tuple[str, ...] = ()
    """Signatures at which the run is stopped, see `diagnosis.stop`."""
    output_dir: str | None = None
    """Absolute path of a folder on this computer; the results are stored in a folder of the run in
    it."""
    tunnels: tuple[int, ...] = ()
    """Ports of this computer that environments of the tasks listen on. The machine can reach them
    while hudtui is open."""
    remarks: tuple[str, ...] = ()
    """Remarks for the user before the start."""
    asked: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Options that the user has set, as texts; see `request_texts.chosen_texts`."""
