"""The filter language for offers, and the list that it leaves."""

from __future__ import annotations

import pytest

from hudtui.core.compute.offer_filter import FIELDS, SORTS, arrange
from hudtui.core.compute.values import Offer, Price
from hudtui.core.row_filter import parse_filter

OFFERS = [
    Offer(
        "prime",
        "a",
        "H100_80GB",
        4,
        Price(5),
        cloud="hyper",
        gpu_memory=80,
        region="eu_north",
        stock="Low",
        spot=True,
    ),
    Offer(
        "prime",
        "b",
        "H100_80GB",
        4,
        Price(9),
        gpu_memory=80,
        region="united_states",
        country="US",
        stock="High",
    ),
    Offer("prime", "c", "A100_80GB", 8, Price(4, currency="EUR"), gpu_memory=80, country="FI"),
    Offer("prime", "d", "A100_40GB", 1, Price(1), gpu_memory=40, country="CA"),
    Offer("ssh", "box", "H100_80GB", 1, Price(0, stated=False), cloud_id="box"),
    Offer("local", "local", "", 0, Price(0)),
]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ["a", "b", "c", "d", "box", "local"]),
        ("gpus:h100", ["a", "b", "box"]),
        ("h100 count:=4", ["a", "b"]),
        ("count:>4", ["c"]),
        ("vram:<80", ["d"]),
        ("vram:>=80 -spot", ["b", "c"]),
        ("price:<5", ["c", "d", "local"]),  # 4 EUR is 4.8 USD
        ("price:<4.5", ["d", "local"]),
        ("spot", ["a"]),
        ("region:eu", ["a"]),
        ("provider:hyper", ["a"]),
        ("provider:ssh", ["box"]),
        ("stock:low", ["a"]),
        ("-gpus:. ", []),
        ("a100_80gb price:<", ["c"]),
    ],
)
def test_filters(text: str, ids: list[str]) -> None:
    listed = arrange(OFFERS, parse_filter(text, FIELDS), "price")
    assert sorted(offer.id for offer in listed.offers) == sorted(ids)


def test_why_nothing_fits() -> None:
    offers = [Offer("prime", "a", "H100_80GB", 1, Price(2.5), gpu_memory=80)]
    listed = arrange(offers, parse_filter("price:<1", FIELDS), "price")
    assert listed.offers == () and listed.choice is None and listed.total == 1
    assert listed.nothing == ("No offer matches the filter.",)


@pytest.mark.parametrize("sort", SORTS)
def test_every_sort_keeps_every_offer(sort: str) -> None:
    offers = [
        Offer(
            "prime",
            "a",
            "H100_80GB",
            2,
            Price(5),
            gpu_memory=80,
            region="eu",
            stock="Low",
            spot=True,
        ),
        Offer(
            "prime",
            "b",
            "A100_80GB",
            1,
            Price(1),
            gpu_memory=80,
            region="us",
            stock="High",
            images=("x",),
            setup_minutes=3,
        ),
        Offer("ssh", "box", "H100_80GB", 1, Price(0, stated=False)),
        Offer("local", "local", "", 0, Price(0)),
    ]
    there, back = (
        arrange(offers, parse_filter("", FIELDS), sort),
        arrange(offers, parse_filter("", FIELDS), sort, reverse=True),
    )
    assert set(there.offers) == set(offers) and there.offers == back.offers[::-1]


def test_words_leave_no_doubtful_offer_alone_to_be_picked() -> None:
    offers = [
        Offer("prime", name, "H100_80GB", 1, Price(price), cloud=name)
        for name, price in (("a", 2.1), ("b", 2.2), ("bait", 0.05))
    ]
    listed = arrange(offers, parse_filter("bait", FIELDS), "price")
    assert (
        [offer.id for offer in listed.offers] == ["bait"]
        and listed.choice is None
        and "doubtful price" in listed.nothing[0]
    )
