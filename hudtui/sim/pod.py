"""One simulated pod: its order, its state, and how the API describes it at a given time.

Everything about a pod but its end follows from its order, its behaviour and the clock; there is no
state to keep in step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hudtui.sim.catalogue import SimOffer, price_of
from hudtui.sim.clock import stamp
from hudtui.sim.faults import Behaviour

EUR_IN_USD = 1.1
"""The one exchange rate of the simulated account."""


@dataclass
class SimPod:
    """A pod as the simulator remembers it. Times are simulated seconds."""

    id: str
    name: str
    created: float
    offer: SimOffer
    order: dict[str, Any]
    """The `pod` part of the create request."""
    team: str | None
    behaviour: Behaviour
    keys: list[str]
    """Public keys that may log in, in OpenSSH's form."""
    token: str
    """Marks every process of this pod in its environment."""
    asked_to_end: float | None = None
    ended: float | None = None
    why_ended: str | None = None
    ports: list[int] = field(default_factory=list)
    """Loopback ports of its nodes; known once the machine was up."""
    forced: dict[str, Any] = field(default_factory=dict)
    """Fields of the API's answers that were set by hand."""
    disks: list[dict[str, Any]] = field(default_factory=list)
    """Attached storage, in the API's form."""
    prepaid: float = 0.0
    """USD charged at creation."""

    @property
    def active_from(self) -> float:
        """When the machine has booted."""
        return self.created + self.behaviour.boot

    @property
    def ready_from(self) -> float:
        """When the installation has finished."""
        return self.active_from + self.behaviour.install

    @property
    def login_from(self) -> float:
        """When its keys are accepted."""
        return self.ready_from + self.behaviour.key_delay

    @property
    def nodes(self) -> int:
        """Machines of this pod."""
        return max(1, -(-int(self.offer["gpuCount"]) // self.behaviour.gpus_a_node))

    @property
    def hourly(self) -> float:
        """USD per hour, with what free sizes add."""
        price = price_of(self.offer)
        for part, chosen in (("disk", "diskSize"), ("vcpu", "vcpus"), ("memory", "memory")):
            size = self.offer[part]
            if size["defaultIncludedInPrice"] is False and size["pricePerUnit"]:
                price += size["pricePerUnit"] * (
                    self.order.get(chosen) or size["defaultCount"] or 0
                )
        return round(price * (EUR_IN_USD if self.offer["prices"]["currency"] == "EUR" else 1), 6)

    def alive(self, now: float) -> bool:
        """It was not terminated; it may cost money."""
        return self.ended is None or now < self.ended

    def machine_up(self, now: float) -> bool:
        """There is a machine to log in to."""
        return self.behaviour.ends == "ready" and self.alive(now) and now >= self.ready_from

    def cost(self, now: float) -> float:
        """USD billed until `now`.

        Nothing while it boots, the full price after that, prepaid hours first.
        """
        until = now if self.ended is None else min(now, self.ended)
        return self.prepaid + max(
            0.0, max(0.0, until - self.active_from) / 3600 * self.hourly - self.prepaid
        )

    def status(self, now: float) -> dict[str, Any]:
        """status, installationStatus, installationProgress, installationFailure."""
        ends, behaviour = self.behaviour.ends, self.behaviour
        if not self.alive(now):
            told: tuple[str, str, int | None, str | None] = ("TERMINATED", "TERMINATED", None, None)
        elif self.ended is not None and self.asked_to_end is not None and now >= self.asked_to_end:
            told = ("DELETING", "FINISHED", None, None)
        elif now < self.active_from:
            told = (
                ("WARMING_UP", "VERIFYING", None, None)
                if behaviour.strange_values
                else ("PROVISIONING", "PENDING", None, None)
            )
        elif ends == "error":
            told = ("ERROR", "ERROR", None, "The machine did not boot")
        elif ends == "stopped":
            told = ("STOPPED", "FINISHED", None, None)
        elif ends == "stuck":
            told = ("ACTIVE", "ACTIVE", 40, None)
        elif now < self.ready_from:
            progress = int(100 * (now - self.active_from) / behaviour.install)
            told = ("ACTIVE", "VERIFYING" if behaviour.strange_values else "ACTIVE", progress, None)
        elif ends == "install_error":
            told = ("ACTIVE", "ERROR", 60, "Driver install failed")
        else:
            told = ("ACTIVE", "FINISHED", 100, None)
        return dict(
            zip(
                ("status", "installationStatus", "installationProgress", "installationFailure"),
                told,
                strict=True,
            )
        )

    def connection(self, now: float) -> dict[str, Any]:
        """sshConnection, ip and primePortMapping."""
        if not (self.machine_up(now) and self.ports):
            empty = [None] if self.behaviour.ends == "error" and now >= self.active_from else None
            return {"sshConnection": empty, "ip": empty, "primePortMapping": []}
        ways: list[str | None] = [
            self.behaviour.connection.format(user=self.behaviour.user, host="127.0.0.1", port=port)
            for port in self.ports
        ]
        addresses: list[str | None] = ["127.0.0.1"] * len(ways)
        shape = self.behaviour.shape if len(ways) == 1 or self.behaviour.shape != "text" else "list"
        if shape == "nulls":
            ways, addresses = [None, *ways, None], [None, *addresses, None]
        listed = shape in ("list", "nulls")
        return {
            "sshConnection": None if shape == "none" else ways if listed else ways[0],
            "ip": addresses if listed else addresses[0],
            "primePortMapping": [
                {
                    "internal": "22",
                    "external": str(self.ports[0]),
                    "protocol": "TCP",
                    "usedBy": "SSH",
                    "description": None,
                }
            ],
        }

    def describe(self, now: float) -> dict[str, Any]:
        """The API's Pod."""
        order, offer = self.order, self.offer
        answer = {
            "id": self.id,
            "userId": "user_sim",
            "teamId": self.team,
            "walletId": "wallet_sim",
            "name": self.name,
            "type": "HOSTED",
            "providerType": offer["provider"],
            **self.status(now),
            "createdAt": stamp(self.created),
            "updatedAt": stamp(self.created if now < self.active_from else self.active_from),
            "terminatedAt": None if self.alive(now) or self.ended is None else stamp(self.ended),
            "gpuName": offer["gpuType"],
            "gpuCount": offer["gpuCount"],
            "socket": offer["socket"],
            "priceHr": self.hourly,
            "stoppedPriceHr": None,
            "provisioningPriceHr": 0.0,
            "environmentType": order.get("image") or "ubuntu_22_cuda_12",
            "customTemplateId": order.get("customTemplateId"),
            "clusterId": None,
            **self.connection(now),
            "resources": {
                "memory": order.get("memory") or offer["memory"]["defaultCount"],
                "disk": order.get("diskSize") or offer["disk"]["defaultCount"],
                "vcpus": order.get("vcpus") or offer["vcpu"]["defaultCount"],
                "shared_disk": None,
            },
            "attachedResources": self.disks,
            "isSpot": bool(offer["isSpot"]),
            "autoRestart": bool(order.get("autoRestart")),
        }
        if self.behaviour.strange_values:
            answer["sustainabilityScore"] = {"grade": "A", "of": None}
        return answer | self.forced

    def brief(self, now: float) -> dict[str, Any]:
        """The API's PodStatus."""
        whole = self.describe(now)
        names = (
            "status",
            "sshConnection",
            "ip",
            "installationStatus",
            "installationFailure",
            "installationProgress",
        )
        return {
            "podId": self.id,
            "providerType": whole["providerType"],
            **{name: whole[name] for name in names},
        }

    def history(self, now: float) -> dict[str, Any]:
        """The row of a terminated pod."""
        return {
            "id": self.id,
            "name": self.name,
            "providerType": self.offer["provider"],
            "provisionedBy": "Sim User",
            "type": "Instance",
            "createdAt": stamp(self.created),
            "terminatedAt": None if self.ended is None else stamp(self.ended),
            "gpuName": self.offer["gpuType"],
            "gpuCount": self.offer["gpuCount"],
            "socket": self.offer["socket"],
            "priceHr": self.hourly,
            "userId": "user_sim",
            "teamId": self.team,
            "totalBilledPrice": round(self.cost(now), 6),
        }

    def bill(self, now: float) -> dict[str, Any]:
        """The wallet's line about it."""
        last = stamp(now if self.ended is None else min(now, self.ended))
        return {
            "id": f"bill_{self.id}",
            "created_at": stamp(self.created),
            "updated_at": last,
            "last_billed_at": last,
            "amount_usd": round(self.cost(now), 6),
            "currency": "USD",
            "resource_type": "compute",
            "resource_id": self.id,
        }

    def to_json(self) -> dict[str, Any]:
        """The form that the state file holds."""
        return {**vars(self), "behaviour": self.behaviour.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SimPod:
        """Read `to_json` back."""
        return cls(**{**data, "behaviour": Behaviour.from_json(data["behaviour"])})
