"""The simulated account: its keys, pods, wallet and disks.

Pure state over a clock; no network and no processes.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from hudtui.sim import catalogue
from hudtui.sim.catalogue import SimOffer
from hudtui.sim.clock import SimClock, stamp
from hudtui.sim.faults import Behaviour
from hudtui.sim.pod import SimPod

_SAVED = (
    "balance",
    "ssh_keys",
    "disks",
    "records",
    "offers",
    "clusters",
    "disk_offers",
    "made",
    "last_ports",
    "settled",
)


class SimInsufficientFunds(Exception):
    """The wallet is empty."""


class SimOutOfCapacity(Exception):
    """The offer cannot be had (any more)."""


def default_records() -> dict[str, Any]:
    """What the account has besides pods. Every name is invented."""
    return {
        "teams": [
            {
                "teamId": "team_sim",
                "name": "Sim Team",
                "slug": "sim-team",
                "role": "ADMIN",
                "createdAt": stamp(0),
            }
        ],
        "members": [
            {
                "userId": "user_sim",
                "userName": "Sim User",
                "userEmail": "sim@example.invalid",
                "role": "ADMIN",
                "joinedAt": stamp(0),
            }
        ],
        "history": [],
        "billings": [],
        "environments": {
            "sim/tiny-env": {
                "id": "env_sim",
                "name": "tiny-env",
                "owner": "sim",
                "version": "0.1.0",
                "visibility": "PUBLIC",
                "simple_index_url": "{SIM}/simple/",
                "wheel_url": None,
                "url_dependencies": [],
                "latest_version": "0.1.0",
            }
        },
        "models": [
            {
                "id": "sim/model",
                "object": "model",
                "created": 0,
                "owned_by": "sim",
                "pricing": {"input_usd_per_mtok": 0.1, "output_usd_per_mtok": 0.2},
            }
        ],
        "runs": [
            {
                "id": "run_sim",
                "name": "r",
                "userId": "user_sim",
                "teamId": None,
                "status": "RUNNING",
                "kind": "LORA",
                "maxSteps": 100,
                "batchSize": 16,
                "baseModel": "sim/model",
                "environments": [{"id": "sim/tiny-env"}],
                "createdAt": stamp(0),
                "updatedAt": stamp(0),
            }
        ],
        "run_logs": {"run_sim": "line1\nline2"},
        "evaluations": {},
    }


class SimAccount:
    """Everything the simulated service knows.

    Args:
        clock: Its time.
        token: The first API key; it may do everything.
        seed: Where the little that is random comes from (ids of keys).
        balance: USD in the wallet.
        offers: The market; the default one when None.
        clusters: Offers of several machines.
        disk_offers: Offers of storage.
        records: Replaces parts of `default_records`.
    """

    def __init__(
        self,
        clock: SimClock,
        token: str,
        *,
        seed: int = 0,
        balance: float = 100.0,
        offers: Sequence[SimOffer] | None = None,
        clusters: Sequence[SimOffer] | None = None,
        disk_offers: Sequence[SimOffer] | None = None,
        records: Mapping[str, Any] | None = None,
    ) -> None:
        self.clock = clock
        self.random = random.Random(seed)
        self.balance = balance
        self.tokens: dict[str, dict[str, Any] | None] = {token: None}
        self.ssh_keys: list[dict[str, Any]] = []
        self.disks: list[dict[str, Any]] = []
        self.records = {**default_records(), **(records or {})}
        self.offers = list(offers) if offers is not None else catalogue.default_offers()
        self.clusters = list(clusters) if clusters is not None else catalogue.default_clusters()
        self.disk_offers = (
            list(disk_offers) if disk_offers is not None else catalogue.default_disks()
        )
        self.pods: dict[str, SimPod] = {}
        self.made = 0
        self.last_ports: list[int] = []
        self.settled = 0.0
        self.behaviour = Behaviour()

    # --- time and money ---

    def settle(self) -> float:
        """Let everything that is due happen: machines taken back, pods ended with the wallet.

        Returns the time.
        """
        now = self.clock.now()
        for pod in list(self.pods.values()):
            taken = pod.behaviour.reclaimed
            if taken is not None and pod.created + taken <= now and pod.alive(pod.created + taken):
                self._end(pod, pod.created + taken, "reclaimed by the provider")
        running = [pod for pod in self.pods.values() if pod.alive(now)]
        if running and self.money(now) < 0:
            low, high = min(self.settled, now), now
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (middle, high) if self.money(middle) > 0 else (low, middle)
            for pod in running:
                self._end(pod, max(high, pod.created), "the wallet is empty")
        self.settled = now
        return now

    def money(self, now: float) -> float:
        """USD left in the wallet."""
        return self.balance - sum(pod.cost(now) for pod in self.pods.values() if pod.created <= now)

    # --- pods ---

    def create(
        self,
        order: dict[str, Any],
        provider: str,
        team: str | None,
        disks: Sequence[dict[str, Any]] = (),
    ) -> SimPod:
        """Take an order that was found in shape.

        Raises:
            SimInsufficientFunds: The wallet is empty, or cannot pay the hours in advance.
            SimOutOfCapacity: No such offer, or none left.
        """
        now = self.settle()
        offer = catalogue.find([*self.offers, *self.clusters], order, provider)
        if offer is None or offer["stockStatus"] == "Unavailable":
            raise SimOutOfCapacity
        if self.behaviour.offer_gone:
            self.withdraw(offer)
            raise SimOutOfCapacity
        self.made += 1
        pod = SimPod(
            id=f"simpod{self.made:026d}",
            name=order.get("name") or f"pod-{self.made}",
            created=now,
            offer=offer,
            order=order,
            team=team,
            behaviour=self.behaviour,
            keys=self._keys_for(order.get("sshKeyId")),
            token=secrets.token_hex(
                8
            ),  # two simulators with one seed must not end each other's processes
        )
        if offer["prepaidTime"]:
            pod.prepaid = round(pod.hourly * offer["prepaidTime"], 6)
        if self.money(now) <= pod.prepaid:
            self.made -= 1
            raise SimInsufficientFunds
        for disk in disks:
            disk["pods"].append(pod.id)
            attached = {
                "id": disk["id"],
                "type": "DISK",
                "status": "ATTACHED",
                "createdAt": stamp(now),
                "size": disk["size"],
            }
            pod.disks.append(
                {**attached, "mountPath": "/workspace", "resourcePath": None, "isDetachable": True}
            )
        if self.behaviour.recycle and self.last_ports:
            pod.ports, self.last_ports = list(self.last_ports), []
        self.pods[pod.id] = pod
        return pod

    def withdraw(self, offer: SimOffer) -> None:
        """Take an offer off the market."""
        for market in (self.offers, self.clusters):
            market[:] = [
                item
                for item in market
                if (item["cloudId"], item["dataCenter"]) != (offer["cloudId"], offer["dataCenter"])
            ]

    def terminate(self, pod: SimPod) -> str:
        """Do as DELETE asks; returns the status that is answered."""
        now = self.settle()
        if not pod.alive(now):
            return "TERMINATED"
        if pod.behaviour.delete_ignored:
            return "DELETING"
        if pod.ended is None:
            pod.asked_to_end = now
            self._end(pod, now + pod.behaviour.delete, "terminated by the user")
        return "TERMINATED" if not pod.alive(now) else "DELETING"

    def reclaim(self, pod: SimPod) -> None:
        """Take the machine away now, as a provider does with spot machines."""
        self._end(pod, self.settle(), "reclaimed by the provider")

    def _end(self, pod: SimPod, when: float, why: str) -> None:
        pod.ended, pod.why_ended = when, why
        for disk in self.disks:
            disk["pods"] = [pod_id for pod_id in disk["pods"] if pod_id != pod.id]
        if pod.ports:
            self.last_ports = list(pod.ports)

    def listed(self) -> list[SimPod]:
        """Pods that are not terminated, in order of creation."""
        now = self.settle()
        return [pod for pod in self.pods.values() if pod.alive(now)]

    def known(self, pod_id: str) -> SimPod | None:
        """A pod that the API still speaks of, terminated or not."""
        now = self.settle()
        pod = self.pods.get(pod_id)
        if pod is None or (pod.ended is not None and now >= pod.ended + pod.behaviour.keep):
            return None
        return pod

    def past(self) -> list[SimPod]:
        """Terminated pods, the last one first."""
        now = self.settle()
        return sorted(
            (pod for pod in self.pods.values() if not pod.alive(now)),
            key=lambda pod: pod.ended or 0,
            reverse=True,
        )

    # --- keys ---

    def add_key(self, name: str, public: str) -> dict[str, Any]:
        """Register a public key. The first one is the primary one."""
        now = stamp(self.clock.now())
        key = {
            "id": f"key_{len(self.ssh_keys) + 1}_{self.random.getrandbits(24):06x}",
            "userId": "user_sim",
            "name": name,
            "publicKey": public.strip(),
            "isPrimary": not self.ssh_keys,
            "isUserKey": True,
            "createdAt": now,
            "updatedAt": now,
        }
        self.ssh_keys.append(key)
        return key

    def _keys_for(self, key_id: str | None) -> list[str]:
        return [
            key["publicKey"]
            for key in self.ssh_keys
            if (key["id"] == key_id if key_id else key["isPrimary"])
        ]

    # --- the state file ---

    def to_json(self) -> dict[str, Any]:
        """Everything that outlives the simulator's process."""
        return {
            **{name: getattr(self, name) for name in _SAVED},
            "behaviour": self.behaviour.to_json(),
            "pods": [pod.to_json() for pod in self.pods.values()],
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Go on where `to_json` stopped."""
        for name in _SAVED:
            setattr(self, name, data[name])
        self.behaviour = Behaviour.from_json(data["behaviour"])
        self.pods = {pod.id: pod for pod in map(SimPod.from_json, data["pods"])}
        # A restarted account must not hand out the marks of the one before.
        self.random.seed(f"{self.made}:{self.settled}:{len(self.ssh_keys)}")
