"""What a machine has: processors, memory, disk, GPUs, and the programs that runs need."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from hudtui.core.errors import MachineError
from hudtui.core.python import isolated_python_command
from hudtui.core.remote.host import Host
from hudtui.core.text import clean_line

TIMEOUT = 20.0
"""Seconds that one question to the machine may take. A GPU driver that has to wake up needs
several."""

_PROBE = r"""
import json, os, platform, shutil, sys
found = {
    "system": platform.platform(terse=True),
    "architecture": platform.machine(),
    "python": platform.python_version(),
}
try:
    found["cpus"] = len(os.sched_getaffinity(0))
except AttributeError:
    found["cpus"] = os.cpu_count()
try:
    with open("/proc/meminfo") as lines:
        rows = [line.split() for line in lines]
    memory = {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}
    found["memory_bytes"] = memory.get("MemTotal")
    found["memory_free_bytes"] = memory.get("MemAvailable")
except (OSError, ValueError):
    pass
disk = shutil.disk_usage(os.path.expanduser("~"))
found["disk_bytes"], found["disk_free_bytes"] = disk.total, disk.free
programs = ("tmux", "docker", "podman", "uv", "nvidia-smi", "git")
found["programs"] = {name: shutil.which(name) for name in programs}
json.dump(found, sys.stdout)
"""
_DIVISIBLE = re.compile(r"\b(?:A30|A[18]00\w?|G?[BH]\d+|RTX PRO)\b")
"""GPUs that can be divided into parts (MIG)."""
NO_DEVICES = "No devices were found"
"""What a driver says that works and finds no GPU."""
_GPU_FIELDS = ("index", "name", "memory.total", "memory.used", "utilization.gpu", "driver_version")


@dataclass(frozen=True)
class Gpu:
    """One GPU, as its driver reports it. What the driver does not tell is None."""

    index: int
    name: str
    memory_mib: int | None = None
    used_mib: int | None = None
    utilization: int | None = None
    """Percent of the last sampling period in which it computed."""
    driver: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Hardware:
    """What a machine had when it was inspected. Sizes in bytes; None: unknown."""

    name: str
    system: str = ""
    architecture: str = ""
    python: str = ""
    """Version of its Python."""
    cpus: int | None = None
    """Processors that a run may use."""
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    disk_bytes: int | None = None
    """Of the disk that the home folder is on."""
    disk_free_bytes: int | None = None
    gpus: tuple[Gpu, ...] = ()
    programs: tuple[tuple[str, str | None], ...] = ()
    """Programs that runs may need, and where each is; None where it is missing."""
    warnings: tuple[str, ...] = ()

    def program(self, name: str) -> str | None:
        """Where a program is, or None."""
        return dict(self.programs).get(name)

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui machine --json`."""
        return {
            **vars(self),
            "gpus": [gpu.to_json() for gpu in self.gpus],
            "programs": dict(self.programs),
            "warnings": list(self.warnings),
        }


async def inspect(host: Host, *, python: str = "python3") -> Hardware:
    """Look at a machine.

    Raises:
        MachineError: It cannot be reached, or has no such Python.
    """
    answer = await host.run(isolated_python_command(python, "-c", _PROBE), timeout=TIMEOUT)
    try:
        found = json.loads(answer.stdout) if answer.ok else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        said = clean_line(answer.stderr or answer.stdout, 300)
        raise MachineError(
            f"{host.name} did not say what it has",
            why=said or f"{python} ended with status {answer.exit_status}",
        )
    programs = found.get("programs") or {}
    gpus: tuple[Gpu, ...] = ()
    warnings: list[str] = []
    if programs.get("nvidia-smi"):
        gpus, complaint = await find_gpus(host, programs["nvidia-smi"])
        warnings += [complaint] if complaint else []

    def number(key: str) -> int | None:
        value = found.get(key)
        return value if isinstance(value, int) else None

    def words(key: str) -> str:
        return clean_line(str(found.get(key) or ""), 200)

    return Hardware(
        host.name,
        words("system"),
        words("architecture"),
        words("python"),
        cpus=number("cpus"),
        memory_bytes=number("memory_bytes"),
        memory_free_bytes=number("memory_free_bytes"),
        disk_bytes=number("disk_bytes"),
        disk_free_bytes=number("disk_free_bytes"),
        gpus=gpus,
        programs=tuple(
            (name, clean_line(place) if place else None) for name, place in programs.items()
        ),
        warnings=tuple(warnings),
    )


async def find_gpus(host: Host, program: str = "nvidia-smi") -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs that the driver on a machine finds, and why it does not say so (None: it does)."""
    try:
        answer = await host.run(
            [program, f"--query-gpu={','.join(_GPU_FIELDS)}", "--format=csv,noheader,nounits"],
            timeout=TIMEOUT,
        )
    except MachineError as error:
        return (), f"The GPU driver did not answer: {error.what}"
    if not answer.ok:
        return (
            (),
            f"The GPU driver does not work: {clean_line(answer.stdout or answer.stderr, 300)}",
        )
    gpus = parse_gpus(answer.stdout)
    if not any(_DIVISIBLE.search(gpu.name) for gpu in gpus):
        return gpus, None
    try:  # what is asked above tells of a GPU as if it were whole
        listed = await host.run([program, "-L"], timeout=TIMEOUT)
    except MachineError as error:
        return gpus, f"The GPU driver did not say whether its GPUs are divided: {error.what}"
    return divided(gpus, listed.stdout), None


def divided(gpus: tuple[Gpu, ...], text: str) -> tuple[Gpu, ...]:
    """The GPUs that programs see.

    A GPU that is divided (MIG) is replaced by its parts, as `nvidia-smi -L` lists them.
    A part has the name `NVIDIA H100 80GB HBM3 MIG 1g.10gb`, and the index of its GPU.
    """
    parts: dict[int, list[tuple[str, int]]] = {}
    index = -1
    for line in text.splitlines():
        if whole := re.match(r"GPU (\d+):", line):
            index = int(whole[1])
        elif part := re.match(r"\s+MIG (\d+[gc]\S*\.(\d+)gb\S*)\s+Device", line):
            parts.setdefault(index, []).append((part[1], int(part[2]) * 1024))
    found: list[Gpu] = []
    for gpu in gpus:
        mine = parts.get(gpu.index)
        found += (
            [replace(gpu, name=f"{gpu.name} MIG {name}", memory_mib=size) for name, size in mine]
            if mine
            else [gpu]
        )
    return tuple(found)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs in the CSV of `nvidia-smi`, without units.

    The query is `--query-gpu=index,name,memory.total,memory.used,utilization.gpu,driver_version`.

    Lines of another form, which some drivers print between, are left out.
    """
    gpus = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(_GPU_FIELDS) or not fields[0].isdigit():
            continue
        total, used, utilization = (
            int(field) if re.fullmatch(r"\d+", field) else None for field in fields[2:5]
        )
        gpus.append(
            Gpu(
                int(fields[0]),
                clean_line(fields[1], 80),
                total,
                used,
                utilization,
                clean_line(fields[5], 40),
            )
        )
    return tuple(gpus)


def size(count: int | None) -> str:
    """Bytes for people: `23.4 GiB`; a dash where unknown."""
    if count is None:
        return "–"
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
