"""Prime's JSON in every form that it is known to take."""

from __future__ import annotations

from typing import Any

import pytest

from hudtui.core.compute.prime.schemas import (
    choose_image,
    find_addresses,
    order_body,
    parse_connection,
    parse_offer,
    parse_pod,
    parse_time,
    stage_of,
)
from hudtui.core.compute.provider import ProviderError
from hudtui.core.compute.values import Address, Offer, Order, Price
from hudtui.core.errors import InputError
from hudtui.sim import catalogue

RAW: dict[str, dict[str, Any]] = {
    f"{item['cloudId']}@{item['dataCenter']}": item
    for item in (*catalogue.default_offers(), *catalogue.default_clusters())
}


def _offer(name: str) -> Offer:
    offer = parse_offer(RAW[name], "prime")
    assert offer is not None
    return offer


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("root@1.2.3.4 -p 2222", Address("root", "1.2.3.4", 2222)),
        ("ubuntu@host.example", Address("ubuntu", "host.example", 22)),
        ("ubuntu@host:2222", Address("ubuntu", "host", 2222)),
        ("ssh ubuntu@host -p 2222", Address("ubuntu", "host", 2222)),
        ("ssh -p 2222 ubuntu@host", Address("ubuntu", "host", 2222)),
        (
            "ssh -i ~/.ssh/key -o StrictHostKeyChecking=no -p2222 ubuntu@host",
            Address("ubuntu", "host", 2222),
        ),
        ("ssh -l ubuntu 1.2.3.4", Address("ubuntu", "1.2.3.4", 22)),
        ("1.2.3.4 -p 40", Address("root", "1.2.3.4", 40)),
        ("ssh://ubuntu@host:40", Address("ubuntu", "host", 40)),
        ("root@[2001:db8::1]:40", Address("root", "2001:db8::1", 40)),
        ("root@2001:db8::1 -p 40", Address("root", "2001:db8::1", 40)),
        ("root@-oProxyCommand=x", None),
        ("-oProxyCommand=x@host", None),
        ("root@host -p 99999", None),
        ("root@host -p no", None),
        ("root@ho;st", None),
        ("ssh", None),
        ("", None),
    ],
)
def test_connections(text: str, address: Address | None) -> None:
    assert parse_connection(text) == address


@pytest.mark.parametrize(
    ("connection", "ip", "ports", "found"),
    [
        (None, None, None, ()),
        ("root@a -p 1", "9.9.9.9", [], (Address("root", "a", 1),)),
        (
            [None, "root@a -p 1", None, "ubuntu@b"],
            None,
            None,
            (Address("root", "a", 1), Address("ubuntu", "b", 22)),
        ),
        ([["root@a"], []], None, None, (Address("root", "a", 22),)),
        ([None], [None], [], ()),
        (
            None,
            "9.9.9.9",
            [{"internal": "22", "external": "1022", "usedBy": None}],
            (Address("root", "9.9.9.9", 1022),),
        ),
        (
            None,
            ["9.9.9.9", None, "8.8.8.8"],
            [{"internal": 8888, "external": 1}, {"internal": 2222, "external": 7, "usedBy": "SSH"}],
            (Address("root", "9.9.9.9", 7), Address("root", "8.8.8.8", 7)),
        ),
        (
            None,
            "9.9.9.9",
            [{"internal": "8888", "external": "1", "usedBy": "JUPYTER_NOTEBOOK"}],
            (),
        ),
        (None, "9.9.9.9", "nonsense", ()),
        (17, {"a": 1}, [None, 3], ()),
    ],
)
def test_addresses(connection: Any, ip: Any, ports: Any, found: tuple[Address, ...]) -> None:
    assert find_addresses(connection, ip, ports) == found


@pytest.mark.parametrize(
    ("status", "installation", "reachable", "stage"),
    [
        ("PROVISIONING", None, False, "booting"),
        ("PENDING", "PENDING", True, "booting"),
        ("ACTIVE", "PENDING", True, "installing"),
        ("ACTIVE", "ACTIVE", True, "installing"),
        ("ACTIVE", "SOMETHING_NEW", True, "installing"),
        ("ACTIVE", "FINISHED", False, "installing"),
        ("ACTIVE", "FINISHED", True, "ready"),
        ("ACTIVE", None, True, "ready"),
        ("ACTIVE", "ERROR", True, "failed"),
        ("ERROR", None, False, "failed"),
        ("STOPPED", "FINISHED", True, "stopped"),
        ("DELETING", "ERROR", True, "unknown"),
        ("TERMINATED", "TERMINATED", False, "gone"),
        ("UNKNOWN", None, True, "unknown"),
        ("WARMING_UP", "VERIFYING", True, "unknown"),
        (None, None, True, "unknown"),
    ],
)
def test_stages(status: str | None, installation: str | None, reachable: bool, stage: str) -> None:
    assert stage_of({"status": status, "installationStatus": installation}, reachable)[0] == stage


def test_an_offer_with_everything() -> None:
    offer = _offer("1A100.22V-spot@FIN-01")
    assert (offer.gpu_type, offer.gpu_count, offer.gpu_memory, offer.spot) == (
        "A100_80GB",
        1,
        80.0,
        True,
    )
    assert (offer.cloud, offer.data_center, offer.socket, offer.stock) == (
        "datacrunch",
        "FIN-01",
        "SXM4",
        "Medium",
    )
    assert offer.price == Price(0.65)


def test_prices() -> None:
    assert _offer("akash-4090@US-1").price == Price(0.44, variable=True), (
        "the community's price goes first"
    )
    assert _offer("scw-h100@NL-1").price.currency == "EUR"
    assert _offer("res-h200x8@US-1").price.prepaid_hours == 24
    assert _offer("rp-l40s@NL-1").price == Price(0.868, disk=0.008), (
        "80 GB at 0.0001 are charged by themselves"
    )


def test_offers_of_the_same_name_are_told_apart() -> None:
    ids = [offer.id for raw in RAW.values() if (offer := parse_offer(raw, "prime"))]
    assert len(ids) == len(set(ids))


def test_what_cannot_be_had_or_ordered_is_no_offer() -> None:
    assert parse_offer(RAW["cudo-v100@None"], "prime") is None
    for missing in ("gpuType", "provider", "cloudId", "prices"):
        assert parse_offer({**RAW["1A100.22V@FIN-01"], missing: None}, "prime") is None
    assert parse_offer("nonsense", "prime") is None


def test_a_minimal_offer_of_unknown_words() -> None:
    raw = {
        "gpuType": "Z9_1TB",
        "provider": "new",
        "cloudId": "z",
        "gpuCount": 1,
        "prices": {"onDemand": "1.5"},
        "later": [1],
    }
    offer = parse_offer(raw, "prime")
    assert (
        offer is not None
        and offer.price.hourly == 1.5
        and offer.images == ()
        and offer.disk_gb is None
    )
    body = order_body(Order("n", offer), team=None)
    assert body == {
        "pod": {
            "name": "n",
            "cloudId": "z",
            "gpuType": "Z9_1TB",
            "socket": "",
            "gpuCount": 1,
            "autoRestart": False,
        },
        "provider": {"type": "new"},
    }


def test_a_cpu_machine_has_no_gpus_and_is_ordered_as_it_is_offered() -> None:
    offer = _offer("cpu-8@FIN-01")
    assert offer.gpu_count == 0
    assert order_body(Order("n", offer), team=None)["pod"]["gpuCount"] == 1


def test_an_order_echoes_its_offer() -> None:
    body = order_body(
        Order("n", _offer("1A100.22V@FIN-01"), ssh_key="key_1"), team="team_1", max_price=2.0
    )
    assert body == {
        "pod": {
            "name": "n",
            "cloudId": "1A100.22V",
            "gpuType": "A100_80GB",
            "socket": "SXM4",
            "gpuCount": 1,
            "diskSize": 100,
            "vcpus": 22,
            "memory": 120,
            "image": "cuda_12_6_pytorch_2_7",
            "dataCenterId": "FIN-01",
            "sshKeyId": "key_1",
            "maxPrice": 2.0,
            "autoRestart": False,
        },
        "provider": {"type": "datacrunch"},
        "team": {"teamId": "team_1"},
    }


def test_images_are_chosen_by_name_and_never_replaced() -> None:
    offer = _offer("1A100.22V@FIN-01")
    assert choose_image(offer, None) == "cuda_12_6_pytorch_2_7"
    assert choose_image(offer, "Prime_RL") == "prime_rl"
    with pytest.raises(InputError, match="cuda_11_8_pytorch_2_1"):
        choose_image(offer, "cuda_11_8_pytorch_2_1")
    only = parse_offer({**RAW["1A100.22V@FIN-01"], "images": ["stable_diffusion", "flux"]}, "prime")
    assert only is not None
    with pytest.raises(InputError, match="general use") as caught:
        choose_image(only, None)
    assert "stable_diffusion, flux" in str(caught.value)
    assert choose_image(only, "flux") == "flux"


@pytest.mark.parametrize(
    ("images", "chosen"),
    [
        (
            ("cuda_12_4_pytorch_2_6", "cuda_12_4_pytorch_2_10", "cuda_11_8_pytorch_2_1"),
            "cuda_12_4_pytorch_2_10",
        ),
        (("prime_rl", "ubuntu_22_cuda_12"), "ubuntu_22_cuda_12"),
        (("axolotl", "prime_rl"), "prime_rl"),
        ((), None),
    ],
)
def test_the_order_of_preference(images: tuple[str, ...], chosen: str | None) -> None:
    assert choose_image(Offer("prime", "i", "G", 1, Price(1.0), images=images), None) == chosen


def test_disks() -> None:
    free, fixed = _offer("rp-l40s@NL-1"), _offer("1A100.22V@FIN-01")
    assert order_body(Order("n", free), team=None)["pod"]["diskSize"] == 80
    assert order_body(Order("n", free, disk_gb=200), team=None)["pod"]["diskSize"] == 200
    assert order_body(Order("n", fixed, disk_gb=100), team=None)["pod"]["diskSize"] == 100
    for offer, size in ((free, 10), (free, 2000), (free, 85), (fixed, 200)):
        with pytest.raises(InputError, match="disk"):
            order_body(Order("n", offer, disk_gb=size), team=None)


def test_pods() -> None:
    pod = parse_pod(
        {
            "id": "p",
            "name": "n\x1b[31m",
            "status": "STOPPED",
            "priceHr": 2,
            "stoppedPriceHr": 0.1,
            "createdAt": "2026-11-20T21:00:00Z",
        },
        "prime",
    )
    assert (pod.name, pod.stage, pod.hourly, pod.alive) == ("n", "stopped", 0.1, True)
    assert (
        pod.created
        == parse_time("2026-11-20T22:00:00+01:00")
        == parse_time("2026-11-20T21:00:00")
        == 1795208400.0
    )
    with pytest.raises(ProviderError, match="no id"):
        parse_pod({"name": "n"}, "prime")
    assert parse_time("yesterday") is None and parse_time(5) is None
