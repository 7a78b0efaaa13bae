"""This machine with other GPUs, as a driver tells of them."""

from __future__ import annotations

from typing import Any

from hudtui.core.remote.host import Completed
from hudtui.core.remote.local import LocalHost


class WithDriver(LocalHost):
    """This machine with a driver that tells of these GPUs: name and MiB of each,
    `NVIDIA H200, 143771`."""

    def __init__(self, *gpus: str) -> None:
        super().__init__()
        self._told = "".join(f"{number}, {gpu}, 1, 0, 570.1\n" for number, gpu in enumerate(gpus))

    async def run(self, argv: Any, **more: Any) -> Completed:
        if argv[0] == "nvidia-smi":
            return Completed(tuple(argv), 0, "" if argv[1] == "-L" else self._told, "")
        return await super().run(argv, **more)
