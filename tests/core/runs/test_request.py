"""Options of runs: declared once, shown by commands and the form, and read back from rows of
earlier versions."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import pytest

from hudtui.cli.rl_run import run
from hudtui.core.compute.limits import Limits
from hudtui.core.compute.values import Offer, Order, Price
from hudtui.core.errors import InputError
from hudtui.core.knobs import knob, knobs_of, out_of_bounds
from hudtui.core.plain import from_plain, to_plain
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.spec import Rental, RunSpec

OFFER = Offer(
    "prime",
    "x",
    "H100_80GB",
    2,
    price=Price(3.0),
    images=("cuda",),
    raw={"cloudId": "a", "list": [1]},
)


def test_a_spec_with_a_rented_machine_goes_to_json_and_back() -> None:
    rent = Rental("prime", "hudtui-x", OFFER, 3.0, ssh_key="k")
    spec = RunSpec(
        "trl",
        "x",
        "/w",
        rent=rent,
        limits=Limits(max_hours=2.0),
        tunnels=(80,),
        model="a/b",
        seed=3,
    )
    assert from_plain(to_plain(spec), RunSpec) == spec
    assert spec.rent is not None and from_plain(to_plain(spec), RunSpec).rent == rent
    assert rent.order == Order("hudtui-x", OFFER, ssh_key="k") and rent.order.offer.raw == {
        "cloudId": "a",
        "list": [1],
    }


def test_a_row_of_the_first_version_is_read() -> None:
    price = {
        "hourly": 2.0,
        "currency": "USD",
        "disk": 0.0,
        "variable": False,
        "prepaid_hours": 0.0,
        "stated": True,
    }
    offer = {
        "provider": "prime",
        "id": "x",
        "gpu_type": "H100_80GB",
        "gpu_count": 1,
        "price": price,
        "raw": {"a": [1]},
    }
    row: dict[str, Any] = {
        "engine": "rollouts",
        "name": "n",
        "workspace": "/w",
        "group": 2,
        "limits": {"max_hours": None, "run_budget": 5},
        "rent": {
            "provider": "prime",
            "machine": "hudtui-x",
            "offer": offer,
            "hourly": 2.0,
            "keep_on_failure": True,
        },
    }
    spec = from_plain(row, RunSpec)
    assert spec.rent is not None and spec.rent.offer.raw == {"a": [1]} and spec.rent.keep_on_failure
    assert (spec.group, spec.limits) == (2, Limits(max_hours=None, run_budget=5.0))
    assert from_plain({**row, "rent": None, "limits": {}}, RunSpec).limits == Limits(), (
        "a machine of the user's own has none"
    )
    with pytest.raises(InputError, match="not a RunSpec that this version"):
        from_plain({**row, "limits": {"max_hours": "soon"}}, RunSpec)


def test_the_command_takes_every_option_of_a_request_with_its_default() -> None:
    given = inspect.signature(run).parameters
    assert set(knobs_of(RunRequest)) <= set(given)
    standard = RunRequest()
    for name in knobs_of(RunRequest):
        assert given[name].default in (getattr(standard, name), None), name
    assert all(about.help.endswith(".") for about in knobs_of(RunRequest).values())


@dataclass(frozen=True)
class Bounded:
    count: int | None = knob(2, "A number.", minimum=1, maximum=4)
    text: str = "x"


@pytest.mark.parametrize(
    ("count", "problem"), [(0, "at least 1, not 0"), (5, "at most 4, not 5"), (4, ""), (None, "")]
)
def test_values_beyond_their_bounds_are_named(count: int | None, problem: str) -> None:
    assert problem in str(out_of_bounds(Bounded(count)) or "") and (
        out_of_bounds(Bounded(count)) is None
    ) == (not problem)
