"""Convert Prime Intellect's JSON into values, and an order into a request body. Pure functions.

The values are offers, pods, keys and money.

The API changes often, so unknown statuses, new fields and missing keys are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hudtui.core.compute.provider import ProviderError
from hudtui.core.compute.values import Address, Offer, Order, Pod, PodStage, Price, SshKey
from hudtui.core.errors import InputError
from hudtui.core.text import clean_line

Raw = Mapping[str, Any]

_USER = "root"
_FLAGS_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPQRSWw")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]+(?:%\w+)?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\$?")
_IMAGE_TORCH = re.compile(r"cuda_(\d+)_(\d+)_pytorch_(\d+)_(\d+)")
_GPUS_A_NODE = 8
"""GPUs of each machine of a cluster. No offer says how many machines it has: the logins of the pod
show it, and are compared before anything begins on them."""
_IMAGES_AFTER = ("ubuntu_22_cuda_12", "prime_rl")


# --- offers ---


def parse_offer(raw: Any, provider: str, *, cluster: bool = False) -> Offer | None:
    """Parse an offer. Return None if it lacks a field that an order needs, or is not available.

    `cluster`: it is in the list of those with several machines.
    """
    if not isinstance(raw, Mapping):
        return None
    gpu_type, cloud, cloud_id = (
        _text(raw.get("gpuType")),
        _text(raw.get("provider")),
        _text(raw.get("cloudId")),
    )
    prices = _mapping(raw.get("prices"))
    hourly = _number(prices.get("communityPrice"))
    if hourly is None:
        hourly = _number(prices.get("onDemand"))
    if (
        not gpu_type
        or not cloud
        or not cloud_id
        or hourly is None
        or raw.get("stockStatus") == "Unavailable"
    ):
        return None
    count, spot = _whole(raw.get("gpuCount")) or 0, raw.get("isSpot") is True
    disk, extra = (
        _surcharge(raw.get("disk")),
        _surcharge(raw.get("vcpu")) + _surcharge(raw.get("memory")),
    )
    socket, center = _text(raw.get("socket")), _text(raw.get("dataCenter"))
    return Offer(
        provider=provider,
        # cloudId alone is not unique, and a spot offer has the same cloudId.
        id="/".join(
            (cloud, cloud_id, center, gpu_type, socket, str(count), "spot" if spot else "on-demand")
        ),
        gpu_type=gpu_type,
        gpu_count=0 if gpu_type == "CPU_NODE" else count,
        price=Price(
            hourly=round(hourly + disk + extra, 6),
            currency=_text(prices.get("currency")) or "USD",
            disk=round(disk, 6),
            variable=prices.get("isVariable") is True,
            prepaid_hours=_number(raw.get("prepaidTime")) or 0.0,
        ),
        gpu_memory=None if gpu_type == "CPU_NODE" else _number(raw.get("gpuMemory")),
        cloud=cloud,
        cloud_id=cloud_id,
        socket=socket,
        region=_text(raw.get("region")),
        country=_text(raw.get("country")),
        data_center=center,
        security=_text(raw.get("security")),
        spot=spot,
        stock=_text(raw.get("stockStatus")),
        disk_gb=_default(raw.get("disk")),
        vcpus=_whole(_default(raw.get("vcpu"))),
        memory_gb=_default(raw.get("memory")),
        images=tuple(filter(None, map(_text, _sequence(raw.get("images"))))),
        setup_minutes=_number(raw.get("provisioningTime")),
        nodes=max(-(-count // _GPUS_A_NODE), 1) if cluster else 1,
        nodes_guessed=cluster,
        raw=raw,
    )


def _default(size: Any) -> float | None:
    part = _mapping(size)
    count = _number(part.get("defaultCount"))
    return _number(part.get("minCount")) if count is None else count


def _surcharge(size: Any) -> float:
    """Return the hourly surcharge of a component at its default size."""
    part = _mapping(size)
    if part.get("defaultIncludedInPrice") is not False:
        return 0.0
    return (_number(part.get("pricePerUnit")) or 0.0) * (_default(size) or 0.0)


# --- orders ---


def order_body(order: Order, *, team: str | None, max_price: float | None = None) -> dict[str, Any]:
    """Return the body of `POST /pods/`.

    The offer's own fields, with its socket, data centre and sizes.

    Raises:
        InputError: The offer does not have the image or the disk size.
    """
    offer, raw = order.offer, order.offer.raw
    pod: dict[str, Any] = {
        "name": order.name,
        "cloudId": offer.cloud_id,
        "gpuType": offer.gpu_type,
        "socket": offer.socket,
        "gpuCount": _whole(raw.get("gpuCount")) or max(offer.gpu_count, 1),
        "diskSize": _disk(order),
        "vcpus": offer.vcpus,
        "memory": _whole(offer.memory_gb),
        "image": choose_image(offer, order.image),
        "dataCenterId": offer.data_center or None,
        "sshKeyId": order.ssh_key,
        "maxPrice": max_price,
        "autoRestart": False,
    }
    body: dict[str, Any] = {
        "pod": {name: value for name, value in pod.items() if value is not None},
        "provider": {"type": offer.cloud},
    }
    if team:
        body["team"] = {"teamId": team}
    return body


def choose_image(offer: Offer, wanted: str | None) -> str | None:
    """Return the image to install.

    The wanted image, else the newest PyTorch, else plain Ubuntu with CUDA, else `prime_rl`.
    None only if the offer lists no images; then the service decides.

    Raises:
        InputError: The offer does not have the wanted image, or has only images for other purposes.
    """
    has = ", ".join(map(clean_line, offer.images)) or "none that are named"
    if wanted is not None:
        found = next(
            (image for image in offer.images if image.lower() == wanted.strip().lower()), None
        )
        if found is None:
            raise InputError(
                f"this offer has no image {clean_line(wanted)!r}",
                why=f"it has {has}",
                fix="Name one of these.",
            )
        return found
    if not offer.images:
        return None
    torch = {
        image: tuple(map(int, match.groups()))
        for image in offer.images
        if (match := _IMAGE_TORCH.fullmatch(image))
    }
    if torch:
        return max(torch, key=lambda image: torch[image])
    for image in _IMAGES_AFTER:
        if image in offer.images:
            return image
    raise InputError(
        "this offer has no image for general use",
        why=f"it has {has}",
        fix="Name one of these, or take another offer.",
    )


def _disk(order: Order) -> int | None:
    size, wanted = _mapping(order.offer.raw.get("disk")), order.disk_gb
    if wanted is None or wanted == order.offer.disk_gb:
        return _whole(order.offer.disk_gb)
    low, high = _number(size.get("minCount")), _number(size.get("maxCount"))
    if low is None and high is None:
        fixed = order.offer.disk_gb
        raise InputError(
            "the disk of this offer has a fixed size",
            why=None if fixed is None else f"it is {fixed:g} GB",
        )
    step = _number(size.get("step")) or 1.0
    if (
        (low is not None and wanted < low)
        or (high is not None and wanted > high)
        or (wanted - (low or 0.0)) % step
    ):
        bounds = f"from {low or 0:g} GB" + (f" to {high:g} GB" if high is not None else "")
        raise InputError(
            f"this offer has no disk of {wanted:g} GB",
            why=f"they go {bounds} in steps of {step:g} GB",
        )
    return int(wanted)


# --- pods ---


def parse_pod(raw: Any, provider: str, *, gone: bool = False) -> Pod:
    """Parse a pod, or with `gone` a row of the pod history.

    Raises:
        ProviderError: The pod has no id.
    """
    known = _mapping(raw)
    pod_id = _text(known.get("id"))
    if not pod_id:
        raise ProviderError(
            "the provider's answer about a machine could not be understood", why="it has no id"
        )
    addresses = find_addresses(
        known.get("sshConnection"), known.get("ip"), known.get("primePortMapping")
    )
    stage, status = stage_of(known, bool(addresses))
    hourly = _number(known.get("priceHr"))
    if stage == "stopped":
        stopped = _number(known.get("stoppedPriceHr"))
        hourly = hourly if stopped is None else stopped
    progress = _number(known.get("installationProgress"))
    gpu_type = _text(known.get("gpuName"))
    return Pod(
        provider=provider,
        id=pod_id,
        name=_text(known.get("name")),
        stage="gone" if gone else stage,
        status=(status or "TERMINATED") if gone else status,
        gpu_type=gpu_type,
        gpu_count=0 if gpu_type == "CPU_NODE" else _whole(known.get("gpuCount")) or 0,
        socket=_text(known.get("socket")),
        hourly=hourly,
        created=parse_time(known.get("createdAt")),
        terminated=parse_time(known.get("terminatedAt")),
        billed=_number(known.get("totalBilledPrice")),
        addresses=addresses,
        cloud=_text(known.get("providerType")),
        spot=known.get("isSpot") is True,
        progress=None if progress is None else int(progress),
        failure=_text(known.get("installationFailure")) or None,
        team=_text(known.get("teamId")) or None,
        ending=is_ending(status),
    )


def is_ending(status: str) -> bool:
    """Return whether the provider's words say that a pod is being deleted."""
    return status.startswith("DELETING")


def stage_of(raw: Raw, reachable: bool) -> tuple[PodStage, str]:
    """Return the stage of a pod, and the provider's own words for it.

    ACTIVE alone is not `ready`: the installation must be finished or not reported, and an address
    must be known.
    """
    status, installation = (
        _text(raw.get("status")).upper(),
        _text(raw.get("installationStatus")).upper(),
    )
    words = "/".join(filter(None, (status, installation if status == "ACTIVE" else "")))
    if status == "TERMINATED":
        return "gone", words
    if status == "ERROR" or (installation == "ERROR" and status not in ("DELETING", "STOPPED")):
        return "failed", words
    if status in ("PROVISIONING", "PENDING"):
        return "booting", words
    if status == "STOPPED":
        return "stopped", words
    if status == "ACTIVE":
        return ("ready" if reachable and installation in ("FINISHED", "") else "installing"), words
    return "unknown", words  # also for DELETING: the pod may cost money until it has ended


# --- addresses ---


def find_addresses(connection: Any, ip: Any, ports: Any) -> tuple[Address, ...]:
    """Return the logins of a pod's nodes.

    From `sshConnection` in any form, else from the address and port map.
    """
    told = tuple(
        address for text in _flat(connection) if (address := parse_connection(text)) is not None
    )
    if told:
        return told
    port = next(
        (
            _whole(entry.get("external"))
            for entry in map(_mapping, _sequence(ports))
            if entry.get("usedBy") == "SSH" or _text(entry.get("internal")) == "22"
        ),
        None,
    )
    if port is None or not 0 < port < 65536:
        return ()
    return tuple(Address(_USER, host, port) for host in _flat(ip) if _HOST.fullmatch(host))


def parse_connection(text: str) -> Address | None:
    """Parse `root@host -p 22`, `ubuntu@host:2222`, `ssh -i key user@host -p 22` or `user@[::1]:22`.

    Else return None.
    """
    words = text.split()
    if words[:1] == ["ssh"]:
        words = words[1:]
    user, place, port = "", "", None
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            place = place or word.removeprefix("ssh://").rstrip("/")
            continue
        flag, value = word[1:2], word[2:]
        if flag in ("p", *_FLAGS_WITH_VALUE) and not value:
            value = words.pop(0) if words else ""
        if flag == "p":
            port = value
        elif flag == "l":
            user = value
    name, at, host = place.rpartition("@")
    user = name if at else user or _USER
    if host.startswith("["):
        host, _, tail = host[1:].partition("]")
        port = port or tail.removeprefix(":") or None
    elif host.count(":") == 1:
        host, _, tail = host.partition(":")
        port = port or tail
    number = _whole(port) if port is not None else 22
    if (
        number is None
        or not 0 < number < 65536
        or not _HOST.fullmatch(host)
        or not _NAME.fullmatch(user)
    ):
        return None
    return Address(user, host, number)


def _flat(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, list):
        for item in value:
            yield from _flat(item)


# --- keys and small things ---


def parse_key(raw: Any) -> SshKey:
    """Parse a public key of the account.

    Raises:
        ProviderError: The key has no id.
    """
    known = _mapping(raw)
    if not _text(known.get("id")):
        raise ProviderError(
            "the provider's answer about an SSH key could not be understood", why="it has no id"
        )
    public = _text(known.get("publicKey"))
    return SshKey(
        _text(known.get("id")), _text(known.get("name")), public, known.get("isPrimary") is True
    )


def parse_time(value: Any) -> float | None:
    """Parse an ISO 8601 time into seconds since the epoch; UTC without a time zone."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return ""
    return (
        clean_line(value, 4000)
        if isinstance(value, str)
        else str(value)
        if isinstance(value, int | float)
        else ""
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and abs(value) < 1e12 else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _mapping(value: Any) -> Raw:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
