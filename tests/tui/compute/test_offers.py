"""What can be had: the table, the filter, one offer in full, this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until

from hudtui.core.compute import hardware as machines
from hudtui.core.compute import owned_hosts
from hudtui.core.compute.offer_filter import SORTS, OfferList
from hudtui.core.compute.prime.schemas import parse_offer
from hudtui.core.errors import MachineError
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import Plan, Stage
from hudtui.core.workspace import make_state_dir
from hudtui.sim.catalogue import default_clusters
from hudtui.tui.app import HudtuiApp
from hudtui.tui.compute.offers import OffersPane, offer_lines
from hudtui.tui.widgets.fields import FilterField

REAL = (machines.inspect, owned_hosts._inspect_here)


# -- the picture, and the words of other states
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 20)])
def test_picture_full(snap: Any, project: Path, world: Any, size: tuple[int, int]) -> None:
    app = HudtuiApp(project, services=world.services)

    async def choose(pilot: Any) -> None:
        await pilot.press("slash")
        app.screen.query_one(FilterField).value = "gpus:h100 count:=1 -spot"
        await pilot.press("enter")

    assert snap(app, size=size, press=["4"], run_before=choose)


NO_LIBRARY = MachineError(
    "local did not say what it has", why="no such library", fix="Install Python again."
)
HERE = (
    "✓ system Linux-6.1, x86_64, Python 3.11.7 ✓ processors 2 ✓ memory 20.0 GiB free of 24.0 GiB",
    "✓ disk 80.0 GiB free of 252 GiB",
    "○ GPUs none: scripted policies and model endpoints run, training does not",
    "Programs that runs use ✓ tmux /usr/bin/tmux",
    "○ docker missing; needed for environments that come as images",
    "No machine with a GPU is on offer.",
)
GPUS_HERE = (
    "★ H100_80GB 2 80G $0.00 $0.00 this machine",
    "✓ GPU 0 NVIDIA H100 80GB HBM3, 4 of 81559 MiB used, 0 % busy",
    "GPU 1 NVIDIA H100 80GB HBM3, 70311 of 81559 MiB used, 97 % busy",
    "! this machine: local: The GPU driver is old.",
)


@pytest.mark.parametrize(
    ("size", "press", "words"),
    [
        pytest.param(
            (60, 20),
            (),
            (
                "○ no key for renting machines: a sets one up",
                "no GPU – – $0.00 this machine",
            ),
            id="empty",
        ),
        pytest.param((80, 24), ("tab",), HERE, id="this machine"),
    ],
)
async def test_the_words_without_a_market(
    says: Any,
    project: Path,
    size: tuple[int, int],
    press: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    await says(HudtuiApp(project), *words, size=size, press=["4", *press])


async def test_gpus_here_are_an_offer_without_a_price(
    says: Any, project: Path, looks_like: Any, gpu_machine: Any
) -> None:
    looks_like(gpu_machine)
    app = HudtuiApp(project)
    await says(app, GPUS_HERE[0], GPUS_HERE[-1], size=(80, 24), press=["4"])
    await says(HudtuiApp(project), *GPUS_HERE[1:], size=(80, 24), press=["4", "tab"])


async def test_a_machine_that_does_not_say_what_it_has(
    says: Any, project: Path, looks_like: Any
) -> None:
    looks_like(NO_LIBRARY)
    words = (
        "No provider has an offer. w shows what failed, a sets up a key.",
        "! this machine: local: local did not say what it has; no such library; Instal",
    )
    await says(HudtuiApp(project), *words, size=(80, 24), press=["4"])


async def test_an_offer_is_explained(says: Any, project: Path, world: Any) -> None:
    words = (
        "1 × RTX4090_24GB",
        "price ~$0.44 an hour for the machine VRAM 24 GB",
        "fits not known without a model: f names it",
        "machine 8 vCPUs, 32 GB memory, 100 GB disk, PCIe provider prime, akash",
        "where united_states, US, US-1, community_cloud stock Available",
        "$1.76 to $1.98 for 4 h at $0.44/h; setting it up takes a few minutes to half an hour; the "
        "price may change while it runs.",
        "★ Why this one is chosen It has the lowest price of 18 offers; next comes 1x A6000_48GB",
    )
    app = HudtuiApp(project, services=world.services)
    await says(app, *words, size=(80, 24), press=["4", "tab"])


async def test_remembered_offers_are_shown_while_the_provider_is_asked(
    says: Any, project: Path, world: Any, remembered: Any
) -> None:
    await remembered(world, (world.services.now() - timedelta(hours=3)).timestamp())
    app = HudtuiApp(project, services=world.services)

    async def ask(pilot: Any) -> None:
        await pilot.pause()
        world.sim.fail_next("GET", "/api/v1/availability/*", kind="slow", seconds=60, times=20)
        await pilot.press("4")
        parts = lambda: app.screen.market.parts if getattr(app.screen, "market", None) else {}  # noqa: E731
        await until(
            pilot,
            lambda: (
                len(parts()) == 2
                and not parts()["local"].asking
                and app.screen.snapshot is not None
            ),
        )

    words = ("★ RTX4090_24GB 1 24G ~$0.44 akash", "B200_180GB 1 180G $4.99 nebius")
    await says(app, *words, run_before=ask, wait=False)


async def test_a_provider_that_fails_is_named(says: Any, project: Path, world: Any) -> None:
    for path in ("/api/v1/availability/*", "/api/v1/user/whoami"):
        world.sim.fail_next(
            "GET", path, kind="status", status=403, detail="this key may not look", times=50
        )
    words = (
        "Prime (simulated) account not known",
        "no GPU – – $0.00 this machine",
        "! Prime (simulated) does not let this key… (and 1 more: w)",
    )
    await says(HudtuiApp(project, services=world.services), *words, press=["4"])


# -- the table
# --------------------------------------------------------------------------------------------------


def shown(app: Any) -> list[str]:
    return [f"{offer.gpu_count}x{offer.gpu_type}" for offer in app.screen.listed.offers]


async def test_all_offers_with_their_full_price_and_why(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        text = screen_text(app)
        assert "Prime (simulated)" in text and "wallet $100.00" in text
        assert "Why this one is chosen" in text and "20 offers" in text
        prices = [
            offer.price.hourly
            for offer in app.screen.listed.offers
            if offer.gpu_count and offer.price.currency == "USD"
        ]
        assert prices == sorted(prices) and len(prices) > 10
        assert "this machine" in text and app.screen.listed.offers[-1].gpu_count == 0


def marks(app: Any) -> list[str]:
    pane = app.screen.query_one(OffersPane)
    return [pane.fit(offer).mark for offer in app.screen.listed.offers if offer.gpu_count]


async def test_the_fit_of_a_model_decides_before_the_price(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    world.key()
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        cheapest = app.screen.listed.choice.offer
        text = screen_text(app)
        assert text.count("fits ") == 1 and "not known without a model" in text, (
            "no training is known"
        )
        await pilot.press("f")
        await settle(pilot)
        await pilot.press(*"Qwen/Qwen2.5-14B-Instruct", "enter")
        await settle(pilot)
        chosen, pane = app.screen.listed.choice.offer, app.screen.query_one(OffersPane)
        assert (
            pane.fit(chosen).holds
            and not pane.fit(cheapest).holds
            and chosen.price.hourly > cheapest.price.hourly
        )
        found = marks(app)
        held = [mark.startswith("✓") for mark in found]
        assert held == sorted(held, reverse=True) and 0 < sum(held) < len(held), (
            "those that hold it come first"
        )
        text = screen_text(app)
        assert (
            "fits: Qwen2.5-14B-Instruct, LoRA" in text
            and "GiB short" in text
            and "needs about" in text
        )
        assert app.screen.offer == chosen, "the cursor follows the choice"
        app.screen.query_one(OffersPane).choose(f"{cheapest.provider} {cheapest.id}")
        await pilot.press("n")
        await settle(pilot)
        assert "✗ Qwen2.5-14B-Instruct, LoRA" in screen_text(app) and "GiB short" in screen_text(
            app
        ), "before it is rented"
        await pilot.press("escape")
        await settle(pilot)
        await pilot.press("f", "ctrl+u", "enter")
        await settle(pilot)
        assert app.screen.listed.choice.offer == cheapest and "fits:" not in screen_text(app)


async def test_a_model_of_unknown_size_is_said_to_be_one(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("f", *"me/mine", "enter")
        await settle(pilot)
        assert "The size of me/mine is unknown" in app.screen.message
        assert set(marks(app)) <= {
            "?",
            "✗ no bfloat16",
        } and "Whether it fits is not known" in " ".join(screen_text(app).split())


async def test_the_model_is_that_of_launch_or_of_the_last_training(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    store = RunStore(make_state_dir(project))
    plan = Plan("trl", (Stage("train", ("true",)),), ())
    for number, (engine, model, rehearse) in enumerate(
        (
            ("trl", "x/old-1B", False),
            ("trl", "x/last-7B", False),
            ("trl", "x/tiny", True),
            ("rollouts", None, False),
        )
    ):
        spec = RunSpec(engine, f"run {number}", str(project), model=model, rehearse=rehearse)
        store.add(
            RunRecord(
                f"r-{number}",
                float(number),
                spec.name,
                engine,
                "local",
                "here",
                str(project),
                spec,
                plan,
            )
        )
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        assert "fits: last-7B, LoRA" in screen_text(app)
        app.open_screen("launch", engine="trl", model="x/form-3B")
        await settle(pilot)
        app.screen._put("engine", "trl")
        app.screen._put("model", "x/form-3B")
        await settle(pilot)
        app.open_screen("compute")
        await settle(pilot)
        assert "fits: form-3B, LoRA" in screen_text(app)


async def test_a_refresh_keeps_the_cursor_on_its_offer(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    async with open_app(project, size=(120, 35), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("j", "j", "j")
        before = app.screen.offer
        assert before is not None and before.gpu_type
        await pilot.press("s")  # the rows move
        await pilot.press("r")
        await settle(pilot)
        assert app.screen.offer == before
        assert app.screen.listed.offers[app.screen.query_one(OffersPane).table.cursor] == before


async def test_the_filter_is_kept_and_can_be_cleared(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    async with open_app(project, size=(120, 35), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("slash", *"gpus:h100 count:=4 price:<9 vram:>=80", "enter")
        assert (
            shown(app) == ["4xH100_80GB"]
            and app.screen.focused is app.screen.query_one(OffersPane).table
        )
        await pilot.press("r")
        await settle(pilot)
        assert shown(app) == ["4xH100_80GB"]
        await pilot.press("slash", *"gpus:h100 price:<1", "enter")
        await pilot.pause()
        assert shown(app) == [] and "No offer matches" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen.message == "Open: no row is selected"
        await pilot.press("slash", "escape")
        assert len(shown(app)) == 20
        await pilot.press("slash", *"cost:<1", "enter")
        await pilot.pause()
        assert "there is no field 'cost'" in screen_text(app)
        await pilot.press("slash", "ctrl+u", *"h200", "enter")
        assert len(shown(app)) == 1
        await pilot.press("escape")
        assert (
            len(shown(app)) == 20
            and app.screen.NAME == "compute"
            and app.screen.focused is app.screen.query_one(OffersPane).table
        )
        await pilot.press("escape")
        assert app.screen.NAME == "home"


async def test_sorting_goes_through_the_columns(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        seen = [app.screen.query_one(OffersPane).sort]
        for _ in range(8):
            await pilot.press("s")
            seen.append(app.screen.query_one(OffersPane).sort)
        assert (
            seen[0] == "price" and "vram" in seen and "provider" in seen and set(seen) <= set(SORTS)
        )
        await pilot.press("S")
        assert app.screen.query_one(OffersPane).reverse


async def test_a_key_without_a_use_says_why_and_a_filter_is_typed_from_every_pane(
    open_app: Any, settle: Any, project: Path
) -> None:
    async with open_app(project, size=(80, 24)) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        whys = {
            "X": "no machine is unclaimed",
            "d": "no machine was taken back",
            "t": "it is for rented machines: p goes to them",
        }
        for key, why in whys.items():
            await pilot.press(key)
            assert app.screen.message.endswith(why), key
        await pilot.press("tab", "slash", *"h1")
        assert app.screen.query_one(
            FilterField
        ).value == "h1" and app.screen.focused is app.screen.query_one(FilterField)


async def test_enter_hands_the_offer_to_the_launch_screen(
    open_app: Any, settle: Any, project: Path, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(project, services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        opened: list[tuple[str, Any]] = []
        monkeypatch.setattr(app, "open_screen", lambda name, **given: opened.append((name, given)))
        offer = app.screen.offer
        await pilot.press("enter")
        assert opened == [("launch", {"offer": offer})]


async def test_what_is_only_remembered_cannot_be_ordered(
    open_app: Any, settle: Any, project: Path, world: Any, remembered: Any
) -> None:
    await remembered(world, world.services.now().timestamp() - 3600)
    world.sim.fail_next("GET", "/api/v1/availability/*", kind="slow", seconds=60, times=20)
    async with open_app(project, services=world.services) as (app, pilot):
        await pilot.press("4")
        await until(pilot, lambda: app.screen.listed.offers and app.screen.offer is not None)
        assert len(app.screen.listed.offers) > 10
        for action in ("compute.use", "compute.rent"):
            assert "1 h ago" in (app.screen.why_not(action) or "")


async def test_a_provider_that_fails_blanks_nothing(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    async with open_app(project, size=(120, 35), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        world.sim.fail_next(
            "GET",
            "/api/v1/availability/*",
            kind="status",
            status=403,
            detail="not for you",
            times=50,
        )
        await pilot.press("r")
        await settle(pilot)
        assert len(shown(app)) == 20 and "! Prime (simulated)" in screen_text(app)
        await pilot.press("w")
        await pilot.pause()
        assert "Warnings of the providers" in screen_text(app)


async def test_the_real_machine_is_shown(
    open_app: Any, settle: Any, screen_text: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "inspect", REAL[0])
    monkeypatch.setattr(owned_hosts, "_inspect_here", REAL[1])
    async with open_app(project) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        text = screen_text(app)
        assert (
            "processors" in text
            and "tmux" in text
            and "Looking" not in text
            and "a sets one up" in text
        )


async def test_copy_gives_json(
    open_app: Any,
    settle: Any,
    project: Path,
    looks_like: Any,
    gpu_machine: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks_like(gpu_machine)
    copied: list[str] = []
    async with open_app(project) as (app, pilot):
        monkeypatch.setattr(app, "copy", copied.append)
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("y")
        await pilot.pause()
    assert json.loads(copied[0])["gpus"][0]["name"] == "NVIDIA H100 80GB HBM3"


def test_an_offer_says_where_its_number_of_machines_is_a_guess() -> None:
    (raw,) = default_clusters()
    offer = parse_offer(raw, "prime", cluster=True)
    assert offer is not None
    told = offer_lines(offer, OfferList(), None, 0.0, simulated=True, width=120).plain
    assert "16 × H100_80GB on 2 machines" in told
    assert "machines 2, by the number of GPUs: the offer does not say how many" in told
    single = replace(offer, nodes=1, nodes_guessed=False)
    assert (
        "machines"
        not in offer_lines(single, OfferList(), None, 0.0, simulated=True, width=120).plain
    )
