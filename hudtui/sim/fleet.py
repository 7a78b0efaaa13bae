"""Keeps the machines in step with the world: up when a pod is ready, gone when it is over."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hudtui.sim.account import SimAccount
from hudtui.sim.machine import PodNode, folders
from hudtui.sim.pod import SimPod


class PodFleet:
    """The machines that are up.

    Args:
        world: What should be up.
        root: Folder of all machines; a short path.
    """

    def __init__(self, world: SimAccount, root: Path) -> None:
        self._world = world
        self._root = root
        self._up: dict[str, list[PodNode]] = {}
        self._rekeyed: set[str] = set()
        self._lock = asyncio.Lock()

    async def sync(self) -> None:
        """Start, change and end machines as the world says by now."""
        async with self._lock:
            now = self._world.settle()
            # First what ends: a new machine may take over its port.
            for pod_id in [pod_id for pod_id in self._up if not self._world.pods[pod_id].machine_up(now)]:
                for node in self._up.pop(pod_id):
                    await node.destroy()
            for pod in list(self._world.pods.values()):
                if pod.machine_up(now):
                    if pod.id not in self._up:
                        await self._start(pod)
                    await self._rekey(pod, now)

    async def _start(self, pod: SimPod) -> None:
        nodes = [
            PodNode(pod, index, folder, lambda: self._world.clock.now() >= pod.login_from)
            for index, folder in enumerate(folders(self._root, pod))
        ]
        wanted = pod.ports or [0] * len(nodes)
        pod.ports = [await node.open(port) for node, port in zip(nodes, wanted, strict=True)]
        self._up[pod.id] = nodes

    async def _rekey(self, pod: SimPod, now: float) -> None:
        due = pod.behaviour.rekey
        if due is not None and now >= pod.created + due and pod.id not in self._rekeyed:
            self._rekeyed.add(pod.id)
            for node in self._up[pod.id]:
                await node.rekey()

    def homes(self, pod_id: str) -> list[Path]:
        """The home folders of a pod's machines."""
        return [folder / "home" for folder in folders(self._root, self._world.pods[pod_id])]

    async def close(self, *, wipe: bool) -> None:
        """Stop listening and end every process; with `wipe`, remove the machines too."""
        async with self._lock:
            for nodes in self._up.values():
                for node in nodes:
                    await node.close()
                    await asyncio.to_thread(node.wipe if wipe else node.halt)
            self._up.clear()
