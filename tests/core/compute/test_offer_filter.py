"""The filter language for offers, and the list that it leaves."""

from __future__ import annotations

import pytest

from hudtui.core.compute.offer_filter import SORTS, arrange, parse_filter
from hudtui.core.compute.values import Offer, Price, Query


@pytest.mark.parametrize(
    ("text", "query", "words", "without"),
    [
        ("", Query(), (), ()),
        ("4xH100 <6", Query(gpu_count=4, max_price=6), ("h100",), ()),
        ("x2 a100 >=80gb", Query(gpu_count=2, min_vram=80), ("a100",), ()),
        ("8x <=$20.5 -spot eu", Query(gpu_count=8, max_price=20.5, spot=False), ("eu",), ()),
        ("spot -canada !low", Query(spot=True), (), ("canada", "low")),
        ("a100_80gb <x - >", Query(), ("a100_80gb",), ()),
    ],
)
def test_what_people_type(text: str, query: Query, words: tuple[str, ...], without: tuple[str, ...]) -> None:
    wanted = parse_filter(text)
    assert (wanted.query, wanted.words, wanted.without) == (query, words, without)
    assert wanted.incomplete == (("<x", "-", ">") if "<x" in text else ())


def test_why_nothing_fits() -> None:
    offers = [Offer("prime", "a", "H100_80GB", 1, Price(2.5), gpu_memory=80)]
    listed = arrange(offers, parse_filter("<1"), "price")
    assert listed.offers == () and listed.choice is None and listed.total == 1
    assert any("price" in line for line in listed.nothing)
    assert arrange(offers, parse_filter("gpuzilla"), "price").nothing == ("No offer has these words.",)


@pytest.mark.parametrize("sort", SORTS)
def test_every_sort_keeps_every_offer(sort: str) -> None:
    offers = [
        Offer("prime", "a", "H100_80GB", 2, Price(5), gpu_memory=80, region="eu", stock="Low", spot=True),
        Offer("prime", "b", "A100_80GB", 1, Price(1), gpu_memory=80, region="us", stock="High", images=("x",), setup_minutes=3),
        Offer("ssh", "box", "H100_80GB", 1, Price(0, stated=False)),
        Offer("local", "local", "", 0, Price(0)),
    ]
    there, back = arrange(offers, parse_filter(""), sort), arrange(offers, parse_filter(""), sort, reverse=True)
    assert set(there.offers) == set(offers) and there.offers == back.offers[::-1]


def test_words_leave_no_doubtful_offer_alone_to_be_picked() -> None:
    offers = [
        Offer("prime", name, "H100_80GB", 1, Price(price), cloud=name) for name, price in (("a", 2.1), ("b", 2.2), ("bait", 0.05))
    ]
    listed = arrange(offers, parse_filter("bait"), "price")
    assert [offer.id for offer in listed.offers] == ["bait"] and listed.choice is None and "doubtful price" in listed.nothing[0]
