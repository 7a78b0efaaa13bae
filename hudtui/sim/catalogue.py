"""The offers of the simulated market: one of each kind that the real one is known to have."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SimOffer = dict[str, Any]

_IMAGES = ("ubuntu_22_cuda_12", "cuda_12_4_pytorch_2_5", "cuda_12_6_pytorch_2_7", "prime_rl")


def _size(
    default: int | None,
    low: int | None = None,
    high: int | None = None,
    step: int | None = None,
    price: float | None = None,
) -> dict[str, Any]:
    return {
        "minCount": low,
        "defaultCount": default,
        "maxCount": high,
        "pricePerUnit": price,
        "step": step,
        "defaultIncludedInPrice": None if price is None else False,
        "additionalInfo": None,
    }


def offer(
    cloud_id: str,
    gpu_type: str,
    count: int,
    memory_gb: int,
    price: float,
    place: tuple[str, str | None, str],
    *,
    socket: str = "PCIe",
    provider: str = "datacrunch",
    disk: Mapping[str, Any] | int = 100,
    vcpus: int = 16,
    ram_gb: int = 64,
    stock: str = "Available",
    images: Sequence[str] = _IMAGES,
    prices: Mapping[str, Any] | None = None,
    **other: Any,
) -> SimOffer:
    """An offer with every key that the real clients demand.

    Args:
        cloud_id: The provider's name of it; not unique.
        gpu_type: E.g. `H100_80GB` or `CPU_NODE`.
        count: GPUs of the whole offer.
        memory_gb: Memory of one GPU.
        price: Per hour for the whole offer.
        place: Region, data centre, country.
        socket: E.g. `SXM5`.
        provider: The cloud behind it.
        disk: GB, or a size in the API's form.
        vcpus: Fixed number of CPUs.
        ram_gb: Fixed memory.
        stock: Stock status.
        images: What can be installed.
        prices: Replaces parts of the price block.
        other: Further keys of the offer.
    """
    region, centre, country = place
    return {
        "cloudId": cloud_id,
        "gpuType": gpu_type,
        "socket": socket,
        "provider": provider,
        "region": region,
        "dataCenter": centre,
        "country": country,
        "gpuCount": count,
        "gpuMemory": memory_gb,
        "disk": _size(disk) if isinstance(disk, int) else dict(disk),
        "sharedDisk": _size(None),
        "vcpu": _size(vcpus),
        "memory": _size(ram_gb),
        "internetSpeed": None,
        "interconnect": None,
        "interconnectType": None,
        "provisioningTime": None,
        "stockStatus": stock,
        "security": "secure_cloud",
        "prices": {
            "onDemand": price,
            "communityPrice": None,
            "isVariable": None,
            "currency": "USD",
            **(prices or {}),
        },
        "images": list(images),
        "isSpot": None,
        "prepaidTime": None,
        **other,
    }


_FIN = ("eu_north", "FIN-01", "FI")
_FIN2 = ("eu_north", "FIN-02", "FI")
_CAN = ("canada", "CANADA-1", "CA")
_USA = ("united_states", "US-1", "US")
_NLD = ("eu_west", "NL-1", "NL")

_DISK_TO_CHOOSE = _size(100, 100, 3000, 1, 0.00014)


def default_offers() -> list[SimOffer]:
    """The market as it opens.

    Plain, spot, free sizes, EUR, prepaid, variable, ambiguous ids, a CPU machine, several nodes.
    """
    return [
        offer(
            "1A100.22V",
            "A100_80GB",
            1,
            80,
            1.29,
            _FIN,
            socket="SXM4",
            vcpus=22,
            ram_gb=120,
            stock="High",
        ),
        offer(
            "1A100.22V-spot",
            "A100_80GB",
            1,
            80,
            0.65,
            _FIN,
            socket="SXM4",
            vcpus=22,
            ram_gb=120,
            stock="Medium",
            isSpot=True,
        ),
        offer(
            "a100-pcie-x2",
            "A100_80GB",
            2,
            80,
            2.70,
            _CAN,
            provider="hyperstack",
            disk=_DISK_TO_CHOOSE,
            vcpus=60,
            ram_gb=240,
            stock="Low",
        ),
        offer(
            "a100-40",
            "A100_40GB",
            1,
            40,
            0.99,
            _USA,
            socket="SXM4",
            provider="lambdalabs",
            disk=512,
            vcpus=30,
            ram_gb=200,
        ),
        *(
            offer(
                f"{count}H100.80S",
                "H100_80GB",
                count,
                80,
                round(2.1 * count, 2),
                _FIN2,
                socket="SXM5",
                disk=200 * count,
                vcpus=30 * count,
                ram_gb=180 * count,
                images=("cuda_12_4_pytorch_2_5", "prime_rl"),
                provisioningTime=4,
            )
            for count in (1, 2, 4, 8)
        ),
        offer(
            "1H100.80S-spot",
            "H100_80GB",
            1,
            80,
            1.05,
            _FIN2,
            socket="SXM5",
            disk=200,
            vcpus=30,
            ram_gb=180,
            isSpot=True,
        ),
        # The same cloudId in two data centres, at two prices.
        offer(
            "gpu-h100",
            "H100_80GB",
            1,
            80,
            2.45,
            _CAN,
            provider="hyperstack",
            disk=750,
            vcpus=28,
            ram_gb=180,
        ),
        offer(
            "gpu-h100",
            "H100_80GB",
            1,
            80,
            2.39,
            _USA,
            provider="hyperstack",
            disk=750,
            vcpus=28,
            ram_gb=180,
        ),
        # Priced in euro; prepaid; priced by the hour's market.
        offer(
            "scw-h100",
            "H100_80GB",
            1,
            80,
            2.52,
            _NLD,
            provider="scaleway",
            disk=3000,
            vcpus=24,
            ram_gb=240,
            prices={"currency": "EUR"},
        ),
        offer(
            "res-h200x8",
            "H200_141GB",
            8,
            141,
            22.4,
            _USA,
            socket="SXM5",
            provider="latitude",
            disk=3000,
            vcpus=192,
            ram_gb=1800,
            prepaidTime=24,
        ),
        offer(
            "akash-4090",
            "RTX4090_24GB",
            1,
            24,
            0.44,
            _USA,
            provider="akash",
            vcpus=8,
            ram_gb=32,
            prices={"onDemand": 0.5, "communityPrice": 0.44, "isVariable": True},
            security="community_cloud",
        ),
        offer(
            "mc-a6000",
            "A6000_48GB",
            1,
            48,
            0.57,
            _USA,
            provider="massedcompute",
            disk=256,
            vcpus=6,
            ram_gb=48,
        ),
        offer(
            "rp-l40s",
            "L40S_48GB",
            1,
            48,
            0.86,
            _NLD,
            provider="runpod",
            disk=_size(80, 20, 1000, 10, 0.0001),
            vcpus=12,
            ram_gb=62,
            provisioningTime=1,
        ),
        offer(
            "b200-x1",
            "B200_180GB",
            1,
            180,
            4.99,
            _USA,
            socket="SXM6",
            provider="nebius",
            disk=500,
            vcpus=20,
            ram_gb=224,
            stock="Low",
        ),
        # Sizes and places left empty.
        offer(
            "cudo-v100",
            "V100_32GB",
            1,
            32,
            0.39,
            ("eu_west", None, "NL"),
            provider="cudocompute",
            disk=_size(None),
            images=("ubuntu_22_cuda_12",),
            stock="Unavailable",
        ),
        offer(
            "cpu-8",
            "CPU_NODE",
            1,
            0,
            0.08,
            _FIN,
            disk=40,
            vcpus=8,
            ram_gb=16,
            images=("ubuntu_22_cuda_12",),
        ),
    ]


def default_clusters() -> list[SimOffer]:
    """Offers of several machines."""
    return [
        offer(
            "h100-cluster-2",
            "H100_80GB",
            16,
            80,
            35.2,
            _USA,
            socket="SXM5",
            provider="primecompute",
            disk=1000,
            vcpus=208,
            ram_gb=1800,
            stock="Low",
            interconnect=3200,
            interconnectType="Infiniband",
        )
    ]


def default_disks() -> list[SimOffer]:
    """Offers of storage that outlives a pod."""
    return [
        {
            "cloudId": None,
            "provider": "hyperstack",
            "dataCenter": "CANADA-1",
            "country": "CA",
            "region": "canada",
            "spec": {**_size(0, 0, 10000, 1, 9.7e-05)},
            "stockStatus": "Available",
            "security": "secure_cloud",
            "isMultinode": True,
        }
    ]


def matching(offers: Iterable[SimOffer], query: Mapping[str, Sequence[str]]) -> list[SimOffer]:
    """The offers that a query of the availability paths asks for."""
    exact = {
        "gpu_type": "gpuType",
        "socket": "socket",
        "security": "security",
        "data_center_id": "dataCenter",
        "cloud_id": "cloudId",
    }

    def wanted(item: SimOffer) -> bool:
        if query.get("regions") and item["region"] not in query["regions"]:
            return False
        if query.get("gpu_count") and str(item.get("gpuCount")) != query["gpu_count"][-1]:
            return False
        return all(
            not query.get(name) or item.get(key) == query[name][-1] for name, key in exact.items()
        )

    return [item for item in offers if wanted(item)]


def price_of(item: SimOffer) -> float:
    """Price per hour of the whole offer, without what free sizes add."""
    prices = item["prices"]
    return float(
        prices["communityPrice"] if prices["communityPrice"] is not None else prices["onDemand"]
    )


def summary(offers: Iterable[SimOffer]) -> dict[str, Any]:
    """The cheapest prices by GPU type, count and region.

    Here alone spot prices stand beside the others.
    """
    table: dict[str, Any] = {}
    for item in offers:
        rows = table.setdefault(item["gpuType"], {}).setdefault(str(item["gpuCount"]), {})
        for place in ("cheapest", item["region"]):
            row = rows.setdefault(
                place, {"onDemand": None, "communityPrice": None, "spotPrice": None}
            )
            prices = item["prices"]
            found = (
                {"spotPrice": prices["onDemand"]}
                if item["isSpot"]
                else {"onDemand": prices["onDemand"], "communityPrice": prices["communityPrice"]}
            )
            for name, price in found.items():
                if price is not None and (row[name] is None or price < row[name]):
                    row[name] = price
    return table


def find(offers: Iterable[SimOffer], wanted: Mapping[str, Any], provider: str) -> SimOffer | None:
    """Return the offer that a create request means, or None when it is not on the market.

    It may be no longer there.
    """
    for item in offers:
        same = item["provider"] == provider and all(
            item[key] == wanted.get(key) for key in ("cloudId", "gpuType", "gpuCount", "socket")
        )
        if same and (wanted.get("dataCenterId") in (None, item["dataCenter"])):
            return copy.deepcopy(item)
    return None
