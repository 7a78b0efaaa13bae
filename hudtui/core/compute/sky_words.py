"""SkyPilot's words: the task file that asks for a machine, and what its program answers as JSON. Pure; SkyPilot 0.14."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from hudtui.core.compute.gpus import split_type
from hudtui.core.compute.provider import ProviderError
from hudtui.core.compute.values import Offer, Order, Pod, PodStage, Price
from hudtui.core.text import clean_line

_STAGES: dict[str, PodStage] = {
    "PENDING": "booting",
    "INIT": "booting",
    "UP": "ready",
    "AUTOSTOPPING": "unknown",
    "STOPPED": "stopped",
}
"""A machine that is shutting itself down is no longer ready and not yet gone."""
_FREE = ("kubernetes", "slurm", "ssh")
"""Infrastructure of the user's own: its price of 0 is none that anybody stated."""


def task_file(order: Order, *, idle_minutes: int, max_hours: float) -> str:
    """The task that holds the machine that was chosen, and no other, for so many hours at most.

    The task only waits: what is to be done there is done over SSH. When it has ended and nobody is logged in, the machine is
    idle, and SkyPilot, which watches from the machine itself, takes it down.

    Args:
        order: What to rent.
        idle_minutes: How long it may be idle.
        max_hours: How long the task waits.
    """
    import yaml

    raw = order.offer.raw
    resources: dict[str, Any] = {
        "infra": "/".join(word for word in (raw["cloud"].lower(), order.offer.region) if word),
        "accelerators": f"{order.offer.gpu_type}:{order.offer.gpu_count}",
        "use_spot": order.offer.spot,
        "autostop": {"idle_minutes": idle_minutes, "down": True},
    }
    if raw.get("instance_type"):
        resources["instance_type"] = raw["instance_type"]
    if order.disk_gb is not None:
        resources["disk_size"] = round(order.disk_gb)
    if order.image is not None:
        resources["image_id"] = order.image
    task = {
        "name": order.name,
        "resources": resources,
        "num_nodes": 1,
        "run": f"sleep {round(max_hours * 3600)}\n",
    }
    return yaml.safe_dump(task, sort_keys=False, width=1000)


def read_json(text: str, what: str) -> Any:
    """The JSON in what the program printed: it may say other things before.

    Raises:
        ProviderError: There is none.
    """
    for match in re.finditer(r"^[\[{]", text, re.MULTILINE):
        try:
            return json.JSONDecoder().raw_decode(text, match.start())[0]
        except ValueError:
            continue
    raise ProviderError(f"SkyPilot's {what} cannot be understood", why=clean_line(text, 300) or "it said nothing")


def enabled_clouds(data: Any) -> tuple[str, ...]:
    """The clouds that may be computed on, by `sky check -o json`: by workspace, what each may be used for.

    Prime Intellect is left out: SkyPilot cannot make its machines take themselves down, and it is a provider here.
    """
    found: dict[str, None] = {}
    for clouds in data.values() if isinstance(data, Mapping) else ():
        for cloud, uses in clouds.items() if isinstance(clouds, Mapping) else ():
            if isinstance(uses, list) and "compute" in uses and str(cloud).lower() != "primeintellect":
                found.setdefault(clean_line(str(cloud).lower(), 40))
    return tuple(found)


def parse_offers(data: Any) -> tuple[Offer, ...]:
    """The offers in `sky gpus list -o json`; with a spot price, each is two. Rows of another form are left out."""
    rows = (
        row for rows in (data.values() if isinstance(data, Mapping) else ()) for row in (rows or ()) if isinstance(row, Mapping)
    )
    return tuple(offer for row in rows for offer in _offers(row))


def _offers(row: Mapping[str, Any]) -> Iterable[Offer]:
    cloud, name, count = row.get("cloud"), row.get("accelerator_name"), _number(row.get("accelerator_count"))
    if not isinstance(cloud, str) or not isinstance(name, str) or count is None or count != int(count) or count < 1:
        return
    own = cloud.lower() in _FREE
    region = row.get("region")
    for spot, price in ((False, _number(row.get("price"))), (True, _number(row.get("spot_price")))):
        if price is None and (spot or not own):
            continue
        kind = row.get("instance_type")
        memory = _number(row.get("device_memory"))
        vcpus = _number(row.get("cpu_count"))
        yield Offer(
            "sky",
            "/".join(str(part or "") for part in (cloud, region, kind, f"{name}:{int(count)}", "spot" if spot else "")),
            clean_line(name, 60),
            int(count),
            Price(0.0 if own else price or 0.0, stated=not own),
            gpu_memory=memory or split_type(name)[1],
            cloud=clean_line(cloud.lower(), 40),
            cloud_id=clean_line(str(kind or ""), 60),
            region=clean_line(str(region or ""), 60),
            spot=spot,
            vcpus=None if vcpus is None else int(vcpus),
            memory_gb=_number(row.get("memory")),
            raw={"cloud": cloud, "instance_type": kind},
        )


def parse_pod(row: Mapping[str, Any], cost: Mapping[str, Any] | None, *, failed: str | None = None) -> Pod:
    """A cluster in `sky status -o json`, with its row of `sky cost-report -o json`.

    Args:
        row: The cluster.
        cost: What the report says of it.
        failed: Why its launch failed, where it did.
    """
    status = str(row.get("status") or "").upper()
    stage = _STAGES.get(status, "unknown")
    name, count = _accelerators(row.get("accelerators"))
    reason = row.get("init_status_reason")
    if stage == "booting" and row.get("init_kind") == "unhealthy":
        failed = failed or clean_line(str(reason or "it does not answer"), 300)
    if failed and stage == "booting":
        stage = "failed"
    return Pod(
        "sky",
        str(row.get("name") or ""),
        clean_line(str(row.get("name") or ""), 60),
        stage,
        clean_line(status, 30),
        gpu_type=name,
        gpu_count=count,
        hourly=hourly_of(cost),
        created=_number(row.get("launched_at")),
        billed=_number((cost or {}).get("total_cost")),
        estimated=True,
        cloud=clean_line(str(row.get("cloud") or "").lower(), 40),
        region=clean_line(str(row.get("region") or ""), 60),
        failure=failed,
    )


def parse_past(row: Mapping[str, Any]) -> Pod | None:
    """A cluster of `sky cost-report -o json` that has ended; None for one that has not."""
    if str(row.get("status") or "").upper() not in ("", "TERMINATED") or not row.get("name"):
        return None
    name, count = _accelerators(row.get("accelerators"))
    ends = [
        pair[1] for pair in row.get("usage_intervals") or () if isinstance(pair, list) and len(pair) == 2 and _number(pair[1])
    ]
    return Pod(
        "sky",
        str(row["name"]),
        clean_line(str(row["name"]), 60),
        "gone",
        "TERMINATED",
        gpu_type=name,
        gpu_count=count,
        hourly=hourly_of(row),
        created=_number(row.get("launched_at")),
        terminated=max(map(float, ends), default=None),
        billed=_number(row.get("total_cost")),
        estimated=True,
        cloud=clean_line(str(row.get("cloud") or "").lower(), 40),
        region=clean_line(str(row.get("region") or ""), 60),
    )


def hourly_of(cost: Mapping[str, Any] | None) -> float | None:
    """The price of an hour that a row of the cost report stands for: its estimate, divided by the time."""
    total, seconds = _number((cost or {}).get("total_cost")), _number((cost or {}).get("duration"))
    return round(total * 3600 / seconds, 4) if total is not None and seconds else None


def _accelerators(value: Any) -> tuple[str, int]:
    """`{'H100': 4}`, as text or not, and `H100:4`."""
    match = re.search(r"([A-Za-z][\w .-]*?)['\"]?\s*:\s*(\d+)", str(value or ""))
    return (match[1], int(match[2])) if match else ("", 0)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
