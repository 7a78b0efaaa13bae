"""Whether GPUs hold a model: the verdict from estimate and memory, and the choice of an offer by
it."""

from __future__ import annotations

import pytest

from hudtui.core.compute.choose import choose, select
from hudtui.core.compute.fit import Fit, judge_memory, unable
from hudtui.core.compute.values import Offer, Price, Query


@pytest.mark.parametrize(
    ("needed", "memory", "mark", "hopeless"),
    [
        (30.0, 40.0, "✓", False),  # also with an error of a third
        (30.1, 40.0, "✓ tight", False),
        (40.0, 40.0, "✓ tight", False),
        (43.2, 40.0, "✗ 3 GiB short", False),
        (40.2, 40.0, "✗ 1 GiB short", False),
        (60.0, 40.0, "✗ 20 GiB short", True),
        (None, 40.0, "?", False),
        (30.0, None, "?", False),
    ],
)
def test_the_verdict_counts_the_error_of_the_estimate(
    needed: float | None, memory: float | None, mark: str, hopeless: bool
) -> None:
    fit = judge_memory(needed, memory)
    assert (fit.mark, fit.hopeless) == (mark, hopeless)
    assert fit.holds == mark.startswith("✓")


@pytest.mark.parametrize(
    ("gpu", "count", "mark"),
    [
        ("V100_32GB", 1, "✗ no bfloat16"),
        ("Tesla T4", 1, "✗ no bfloat16"),
        ("RTX2080Ti_11GB", 1, "✗ no bfloat16"),
        ("NVIDIA GeForce GTX 1080 Ti", 1, "✗ no bfloat16"),
        ("MI300X_192GB", 8, "✗ no CUDA"),
        ("CPU_NODE", 0, "✗ no GPU"),
        ("A100_80GB", 1, None),
        ("RTX4090_24GB", 1, None),
        ("L4_24GB", 1, None),
        ("A40_48GB", 1, None),
        ("A10_24GB", 1, None),
        ("L40S_48GB", 1, None),
        ("RTX6000_Ada_48GB", 1, None),
        ("H200_141GB", 8, None),
        ("GH200_96GB", 1, None),
    ],
)
def test_gpus_that_cannot_train_whatever_their_memory(
    gpu: str, count: int, mark: str | None
) -> None:
    verdict = unable(Offer("prime", "x", gpu, count, Price(1.0), gpu_memory=80.0))
    assert (verdict.mark if verdict else None) == mark


def test_without_bfloat16_older_gpus_will_do() -> None:
    assert unable(Offer("prime", "x", "V100_32GB", 1, Price(1.0)), bfloat16=False) is None


MARKET = tuple(
    Offer("prime", name, "H100_80GB", 1, Price(price), gpu_memory=memory)
    for name, price, memory in (
        ("small", 0.5, 24.0),
        ("tight", 1.0, 40.0),
        ("good", 2.0, 80.0),
        ("dear", 3.0, 80.0),
    )
)


def _fit(offer: Offer) -> Fit:
    return judge_memory(36.0, offer.gpu_memory)


def test_fit_comes_before_the_price() -> None:
    assert [offer.id for offer in select(MARKET, fit=_fit).found] == [
        "good",
        "dear",
        "tight",
        "small",
    ]
    choice = choose(MARKET, fit=_fit)
    assert choice.offer.id == "good"
    said = " ".join(choice.reasons)
    assert (
        "needs about 36 GiB of 80." in said and "the lowest price of the 2 offers that fit" in said
    )
    assert (
        "Cheaper, but tight: 1x H100_80GB at $1.00" in said
        and "Cheaper, but 12 GiB short: 1x H100_80GB at $0.50" in said
    )


def test_where_none_fits_the_nearest_is_named_and_no_fit_is_claimed() -> None:
    choice = choose(
        MARKET[:1] + MARKET[1:2], fit=lambda offer: judge_memory(100.0, offer.gpu_memory)
    )
    said = " ".join(choice.reasons)
    assert (
        choice.offer.id == "tight"
        and "60 GiB short" in said
        and "None of the 2 offers of this choice holds it." in said
    )
    assert "that fit" not in said


def test_what_holds_the_model_and_is_left_out_is_named() -> None:
    query = Query(max_price=1.5)
    said = " ".join(
        choose(MARKET, query=query, fit=lambda offer: judge_memory(70.0, offer.gpu_memory)).reasons
    )
    assert "None of the 2 offers of this choice holds it." in said
    assert (
        "Left out, but holds the model: 1x H100_80GB at $2.00 (prime): its price is $2.00." in said
    )
    alone = " ".join(
        choose(MARKET[2:], fit=lambda offer: judge_memory(170.0, offer.gpu_memory)).reasons
    )
    assert "Left out" not in alone


def test_a_fit_that_is_not_known_is_not_claimed() -> None:
    said = " ".join(choose(MARKET, fit=lambda offer: judge_memory(None, offer.gpu_memory)).reasons)
    assert "the size of the model is not known" in said and "that fit;" not in said
