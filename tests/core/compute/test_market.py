from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.compute.market import OFTEN, PriceHistory, PricePoint, price_kind
from hudtui.core.compute.values import Offer, Price


def offer(hourly: float, *, gpu: str = "H100_80GB", count: int = 1, spot: bool = False, stated: bool = True) -> Offer:
    return Offer("prime", f"{gpu}-{hourly}", gpu, count, Price(hourly, stated=stated), spot=spot)


def history(book: PriceHistory, one: Offer) -> tuple[PricePoint, ...]:
    return book.histories().get(price_kind(one), ())


def test_the_lowest_price_of_a_kind_is_kept(tmp_path: Path) -> None:
    book = PriceHistory(tmp_path)
    assert book.update([offer(3), offer(2), offer(8, count=8), offer(1, spot=True), offer(0, gpu="MINE", stated=False)], 100)
    assert history(book, offer(5)) == ((100, 2),)
    assert history(book, offer(5, count=8)) == ((100, 1),)
    assert history(book, offer(5, spot=True)) == ((100, 1),)
    assert history(book, offer(5, gpu="A100")) == history(book, offer(0, gpu="MINE")) == ()


def test_the_same_prices_are_not_noted_twice_in_a_moment(tmp_path: Path) -> None:
    book = PriceHistory(tmp_path)
    assert book.update([offer(2)], 100)
    assert not book.update([offer(2)], 100 + OFTEN - 1)
    assert book.update([offer(3)], 100 + OFTEN - 1)
    assert book.update([offer(3)], 100 + 2 * OFTEN)
    assert [price for _, price in history(book, offer(1))] == [2, 3, 3]


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    book = PriceHistory(tmp_path / "missing")
    assert not book.update([offer(2)], 100) and history(book, offer(2)) == ()
    assert not (tmp_path / "missing").exists()
    assert not PriceHistory(tmp_path).update([], 100) and not list(tmp_path.iterdir())


def test_the_file_stays_small_and_keeps_what_is_new(tmp_path: Path) -> None:
    book = PriceHistory(tmp_path, most=2000)
    for number in range(200):
        assert book.update([offer(number)], 1000.0 * number)
        assert book.path.stat().st_size <= 2000
    prices = [price for _, price in history(book, offer(1))]
    assert prices == [float(number) for number in range(200 - len(prices), 200)] and len(prices) > 10


def test_a_broken_line_spoils_no_other(tmp_path: Path) -> None:
    book = PriceHistory(tmp_path)
    book.update([offer(2)], 100)
    with book.path.open("a") as file:
        file.write('{"at": 1, "prices": 3}\n[]\n\x00\n{"at": 2, "pri')
    book.update([offer(3)], 200)
    assert history(book, offer(1)) == ((100, 2), (200, 3))


@given(st.binary(max_size=300))
def test_any_file_can_be_read(junk: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        book = PriceHistory(Path(folder))
        book.path.write_bytes(junk)
        history(book, offer(1))
        assert book.update([offer(2)], 1e10)
        assert (1e10, 2.0) in history(book, offer(1))
