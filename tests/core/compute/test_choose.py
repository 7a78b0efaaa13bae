from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.compute.choose import (
    ORDERS,
    choose,
    doubtful_prices,
    price_in_usd,
    price_text,
    select,
)
from hudtui.core.compute.gpus import parse_spec
from hudtui.core.compute.values import Offer, Price, Query
from hudtui.core.errors import InputError


def offer(
    name: str, gpu: str = "H100_80GB", count: int = 1, price: float | Price = 2.0, **more: Any
) -> Offer:
    facts = {
        "gpu_memory": float(gpu.split("_")[1][:-2]) if "_" in gpu and gpu != "CPU_NODE" else None,
        "cloud": name,
    } | more
    return Offer(
        facts.pop("provider", "prime"),
        name,
        gpu,
        count,
        price if isinstance(price, Price) else Price(price),
        **facts,
    )


MARKET = (
    offer("plain", price=2.1, region="eu_north", country="FI", data_center="FIN-01"),
    offer("dear", price=2.45, region="canada", country="CA"),
    offer("spot", price=1.05, spot=True, region="eu_north"),
    offer("gone", price=0.5, stock="Unavailable"),
    offer("four", count=4, price=8.4, region="eu_west", socket="SXM5"),
    offer("small", "A100_40GB", price=0.99),
    offer("large", "A100_80GB", price=1.29, stock="Low"),
    offer("euro", price=Price(1.9, "EUR")),
    offer("cpu", "CPU_NODE", price=0.08),
)


def names(found: Any) -> list[str]:
    return [item.id for item in found]


def test_the_lowest_price_wins() -> None:
    choice = choose(MARKET, spec=parse_spec("H100"))
    assert choice.offer.id == "spot"
    assert "lowest price of 4 offers with one GPU; next" in choice.reasons[0], (
        "one GPU is what is meant without a number"
    )
    assert "of 4 offers; next" in choose(MARKET, spec=parse_spec("1xH100")).reasons[0]
    assert any(
        "taken away at any moment" in reason and "$2.10" in reason for reason in choice.reasons
    )


def test_the_reasons_name_the_cheaper_ones_that_were_left_out() -> None:
    choice = choose(MARKET, spec=parse_spec("1xH100"), query=Query(spot=False))
    assert choice.offer.id == "plain"
    said = " ".join(choice.reasons)
    assert "Cheaper, but left out: 1x H100_80GB at $0.50 (gone): there is none left." in said
    assert "$1.05 (spot eu_north, spot): it is spot" in said
    assert "1 EUR as 1.2 USD" in said  # €1.90 may be more than $2.10


@pytest.mark.parametrize(
    ("query", "spec", "found"),
    [
        (Query(min_vram=80), "A100", ["large"]),
        (Query(max_price=1.0), "A100", ["small"]),
        (Query(spot=True), "H100", ["spot"]),
        (Query(spot=False, regions=("eu",)), "H100", ["plain", "four"]),
        (Query(regions=("FI",)), "H100", ["plain"]),
        (Query(regions=("fin-01",)), "H100", ["plain"]),
        (Query(regions=("eu_north",)), "H100", ["spot", "plain"]),
        (Query(clouds=("Dear",)), "H100", ["dear"]),
        (Query(gpu_count=4), "H100", ["four"]),
        (Query(gpu_types=("A100_40GB",)), None, ["small"]),
        (Query(), "4xH100-SXM", ["four"]),
        (Query(), "cpu", ["cpu"]),
        (Query(min_vram=90), "H100", []),
    ],
)
def test_filters(query: Query, spec: str | None, found: list[str]) -> None:
    selection = select(MARKET, query=query, spec=parse_spec(spec) if spec else None)
    assert names(selection.found) == found
    assert len(selection.found) + len(selection.rejected) == len(MARKET)
    assert all(item.reason for item in selection.rejected)


@pytest.mark.parametrize(
    ("spec", "query", "said"),
    [
        ("3xH100", Query(), "with 1 GPU: 1x H100_80GB at $1.05"),
        ("4xH100", Query(max_price=8), "at a higher --max-price: 4x H100_80GB at $8.40"),
        ("4xH100", Query(spot=True), "with --no-spot"),
        ("A100", Query(min_vram=90), "with --min-vram 40"),
        ("4xH100", Query(regions=("canada",)), "with --region eu_west"),
    ],
)
def test_nothing_fits_and_what_is_nearest(spec: str, query: Query, said: str) -> None:
    with pytest.raises(InputError, match="no offer fits") as caught:
        choose(MARKET, spec=parse_spec(spec), query=query)
    assert caught.value.fix is not None and said in caught.value.fix
    assert caught.value.why


def test_machines_without_a_gpu_are_asked_for_by_name() -> None:
    cpu = offer("cpu", "CPU_NODE", price=0.08)
    with pytest.raises(InputError, match="no offer fits"):
        choose([cpu])
    assert choose([cpu], query=Query(gpu_types=("CPU_NODE",))).offer is cpu
    assert choose([cpu], spec=parse_spec("cpu")).offer is cpu


def test_nothing_at_all() -> None:
    with pytest.raises(InputError, match="no offers at all"):
        choose([])


def test_own_machines_without_a_price_come_last_and_are_named() -> None:
    own = offer("box", count=8, price=Price(0.0, stated=False), provider="ssh", cloud_id="gpu-box")
    choice = choose([own, *MARKET], spec=parse_spec("4xH100"))
    assert choice.offer.id == "four"
    assert choice.reasons[-1] == "Your own machine gpu-box would do too (--provider ssh)."
    assert choose([own], spec=parse_spec("4xH100")).offer is own  # it has more than enough
    with pytest.raises(InputError):
        choose(
            [own], spec=parse_spec("4xH100"), query=Query(max_price=10)
        )  # an unknown price is below nothing


def test_what_is_to_know_about_the_price() -> None:
    price = Price(22.4, "EUR", disk=0.4, variable=True, prepaid_hours=24)
    said = choose([offer("x", price=price)]).reasons
    assert said == (
        "It is the only offer of this choice.",
        "Its price may change while it runs.",
        "24 hours are charged at once, used or not: €537.60.",
        "Its price includes €0.40 for the disk in it.",
        "For ranking, prices in other currencies are rounded up at rates of November 2026: 1 EUR "
        "as 1.2 USD.",
    )
    assert price_text(price) == "~€22.40" and price_text(Price(0, stated=False)) == "unknown"


def test_prepaid_hours_count_for_short_work_alone() -> None:
    prepaid, plain = offer("prepaid", price=Price(1.0, prepaid_hours=24)), offer("plain", price=1.5)
    assert choose([prepaid, plain]).offer is prepaid
    assert choose([prepaid, plain], hours=2).offer is plain
    assert choose([prepaid, plain], hours=40).offer is prepaid


def test_orders() -> None:
    fast = offer("fast", price=9, setup_minutes=2)
    market = [*MARKET, fast]
    assert [select(market, order=order).found[0].id for order in ORDERS] == [
        "small",
        "small",
        "spot",
        "four",
        "fast",
    ]
    with pytest.raises(InputError, match="sorted by 'luck'"):
        select(market, order="luck")


def test_what_a_provider_says_is_cleaned() -> None:
    bad = "\x1b[31mevil"
    market = [offer(bad, price=1, region=bad), offer("b", price=2)]
    for query in (Query(), Query(regions=("nowhere",))):
        try:
            said = " ".join(choose(market, query=query).reasons)
        except InputError as error:
            said = str(error)
        assert "\x1b" not in said


prices = st.builds(
    Price,
    st.floats(0.01, 50),
    st.sampled_from(["USD", "EUR", "XXX"]),
    variable=st.booleans(),
    prepaid_hours=st.sampled_from([0.0, 24.0]),
    stated=st.booleans(),
)
markets = st.lists(
    st.builds(
        Offer,
        st.sampled_from(["prime", "ssh", "local"]),
        st.uuids().map(str),
        st.sampled_from(["H100_80GB", "A100_40GB", "A100_80GB", "CPU_NODE", ""]),
        st.integers(0, 8),
        prices,
        gpu_memory=st.none() | st.sampled_from([40.0, 80.0]),
        spot=st.booleans(),
        stock=st.sampled_from(["", "High", "Low", "Unavailable", "something new"]),
        region=st.sampled_from(["", "eu_north", "canada"]),
        setup_minutes=st.none() | st.floats(0, 30),
    ),
    max_size=12,
)
queries = st.builds(
    Query,
    gpu_count=st.none() | st.integers(1, 4),
    min_vram=st.none() | st.sampled_from([40.0, 80.0]),
    max_price=st.none() | st.floats(0.1, 60),
    spot=st.none() | st.booleans(),
    regions=st.sampled_from([(), ("eu",), ("canada", "eu_north")]),
)


@given(markets, queries, st.none() | st.floats(0.5, 100))
def test_the_choice_fits_and_nothing_that_fits_is_cheaper(
    market: list[Offer], query: Query, hours: float | None
) -> None:
    selection = select(market, query=query, hours=hours)
    assert sorted(map(id, selection.found)) == sorted(
        id(o) for o in market if not any(r.offer is o for r in selection.rejected)
    )
    sound = [offer for offer in selection.found if offer not in selection.doubts]
    if not sound:
        with pytest.raises(InputError):
            choose(market, query=query, hours=hours)
        return
    best = choose(market, query=query, hours=hours).offer
    assert best in sound
    stated = [offer for offer in sound if offer.price.stated]
    if stated:
        assert best.price.stated and price_in_usd(best, hours) == min(
            price_in_usd(offer, hours) for offer in stated
        )
    assert query.spot is None or best.spot == query.spot
    assert query.max_price is None or price_in_usd(best) <= query.max_price
    assert query.min_vram is None or (best.gpu_memory or 0) >= query.min_vram


@given(markets, st.randoms())
def test_the_order_of_the_market_does_not_matter(market: list[Offer], random: Any) -> None:
    shuffled = list(market)
    random.shuffle(shuffled)
    assert names(select(market).found) == names(select(shuffled).found)


def test_memory_is_that_of_one_gpu_also_in_the_order() -> None:
    market = [offer("eight", "A100_40GB", count=8, price=8.0), offer("one", "A100_80GB", price=1.3)]
    assert names(select(market, order="vram").found) == ["one", "eight"]


@pytest.mark.parametrize("price", [0.0, -1.0, 0.01, 0.2])
def test_a_price_that_is_hardly_one_is_shown_and_never_picked(price: float) -> None:
    odd = offer("odd", price=price)
    market = (*MARKET, odd)
    for order in ORDERS:
        choice = choose(market, spec=parse_spec("1xH100"), order=order)
        assert choice.offer.id not in ("odd", "gone"), order
    choice = choose(market, spec=parse_spec("1xH100"))
    assert any("Passed over" in reason and "(odd)" in reason for reason in choice.reasons)
    selection = select(market, spec=parse_spec("1xH100"))
    assert odd in selection.found and list(selection.doubts) == [odd]
    named = choose(market, named=odd)
    assert named.offer == odd and "doubtful" in named.reasons[0]
    with pytest.raises(InputError, match="every offer that fits has a doubtful price") as caught:
        choose(market, spec=parse_spec("1xH100"), query=Query(clouds=("odd",)))
    assert odd.short in str(caught.value)
    with pytest.raises(InputError) as nothing:
        choose(market, spec=parse_spec("1xH100"), query=Query(min_vram=90))
    assert "(odd)" not in str(nothing.value)


@pytest.mark.parametrize(
    ("market", "doubted"),
    [
        ((offer("a", price=2.1), offer("b", price=0.2)), ["b"]),
        ((offer("a", price=2.1), offer("b", price=0.22)), []),
        ((offer("only", price=0.01),), []),
        (
            (
                offer("a", count=8, price=16.0),
                offer("b", count=1, price=1.9),
                offer("c", count=8, price=1.0),
            ),
            ["c"],
        ),
        ((offer("a", price=2.1), offer("euro", price=Price(0.15, "EUR"))), ["euro"]),
        ((offer("a", price=2.1), offer("b", "A100_80GB", price=0.2)), []),
        (
            (
                offer("a", price=2.1),
                offer("mine", price=0.0, provider="ssh"),
                offer("here", price=0.0, provider="local"),
            ),
            [],
        ),
        (
            (
                offer("a", price=2.1),
                offer("own cloud", price=Price(0.0, stated=False), provider="sky"),
            ),
            [],
        ),
        (
            (offer("a", price=2.1), offer("other words", "H100", price=0.1, gpu_memory=80.0)),
            ["other words"],
        ),
        ((offer("a", price=2.1), offer("another size", "H100", price=0.1, gpu_memory=94.0)), []),
        ((offer("a", "CPU_NODE", price=2.0), offer("b", "CPU_NODE", price=0.02)), []),
        ((offer("a", "CPU_NODE", price=2.0), offer("b", "CPU_NODE", price=0.0)), ["b"]),
        (
            (
                offer("a", price=2.1),
                offer("spot", price=0.4, spot=True),
                offer("spot free", price=0.0, spot=True),
            ),
            ["spot free"],
        ),
        (
            (
                offer("a", price=2.1),
                offer("b", price=2.2),
                offer("c", price=2.3),
                offer("d", price=float("1e-9")),
            ),
            ["d"],
        ),
    ],
)
def test_prices_that_are_doubted(market: tuple[Offer, ...], doubted: list[str]) -> None:
    assert names(doubtful_prices(market)) == doubted


def test_a_price_is_doubted_by_the_whole_market_also_where_a_part_of_it_is_chosen_from() -> None:
    odd, market = (
        offer("odd", price=0.1),
        (offer("a", price=2.1), offer("b", price=2.2), offer("odd", price=0.1)),
    )
    with pytest.raises(InputError, match="every offer that fits has a doubtful price"):
        choose((odd,), market=market)
    assert names(select((odd,), market=market).doubts) == ["odd"] and choose((odd,)).offer is odd


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("9xH100", ["8x", "16x"]),
        ("3xH100", ["2x", "4x"]),
        ("32xH100", ["16x"]),
        ("9xH100-SXM", ["8x", "16x"]),
    ],
)
def test_the_nearest_numbers_of_gpus_are_named(wanted: str, near: list[str]) -> None:
    market = [
        offer(f"n{count}", count=count, price=2.0 * count, socket="SXM5")
        for count in (1, 2, 4, 8, 16)
    ]
    with pytest.raises(InputError) as caught:
        choose(market, spec=parse_spec(wanted))
    assert re.findall(r"\d+x(?= H100)", caught.value.fix or "") == near


def test_a_cluster_counts_by_all_gpus_unless_a_number_of_machines_is_asked_for() -> None:
    cluster = replace(offer("c", count=16, price=35.0), nodes=2)
    assert choose([cluster], spec=parse_spec("16xH100")).offer is cluster
    said = {
        None: ("it has 16 GPUs, not 12", "Nearest, with 16 GPUs: 16x"),
        2: ("it has 8 GPUs on each machine, not 12", "Nearest, with 8 GPUs on each: 16x"),
    }
    market = [offer("one", count=8, price=17.0), cluster]
    for nodes, (reason, near) in said.items():
        query, spec = Query(nodes=nodes), parse_spec("12xH100")
        rejected = select([cluster], query=query, spec=spec).rejected
        assert [item.reason for item in rejected] == [reason]
        with pytest.raises(InputError) as caught:
            choose([cluster], query=query, spec=spec)
        assert near in (caught.value.fix or "")
    with pytest.raises(InputError, match="no offer fits 12xH100") as caught:
        choose(market, spec=parse_spec("12xH100"))
    assert re.findall(r"\d+x(?= H100)", caught.value.fix or "") == ["8x", "16x"]
