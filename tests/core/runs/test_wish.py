"""What a wish becomes, with machines and offers that are made up: nothing is reached, nothing is rented."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute import machine as machines
from hudtui.core.compute.ledger import Ledger
from hudtui.core.compute.machine import Gpu, Machine
from hudtui.core.compute.prime import Prime
from hudtui.core.compute.values import Offer, Order, Price
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.wish import Preparation, Wish, prepare
from hudtui.core.settings import load_settings
from hudtui.core.workspace import open_workspace
from hudtui.sim import Simulator

CONFIG = "parser: {use_thinking: false}\naction_mappings:\n  left: {_parser: {positional: []}, _tool: move}\n"


@pytest.fixture
def project(own_world: Path) -> Path:
    server = {"game": {"url": "https://example.org/mcp"}}
    judge = {"name": "evaluate", "arguments": {}}
    tasks = [{"id": f"t{n}", "prompt": "Go left.", "mcp_config": server, "evaluate_tool": judge} for n in range(4)]
    (own_world / "tasks.json").write_text(json.dumps(tasks))
    (own_world / "play.yaml").write_text(CONFIG)
    return own_world


async def _prepare(project: Path, store: RunStore, wish: Wish, **more: Any) -> Preparation:
    workspace = open_workspace(project)
    return await prepare(wish, workspace, load_settings(workspace.folder, workspace.platform), store, **more)


def _machine_with(monkeypatch: pytest.MonkeyPatch, *memory_mib: int) -> None:
    async def inspect(host: Any, *, python: str = "python3") -> Machine:
        gpus = tuple(Gpu(number, "NVIDIA GPU", mib, 0) for number, mib in enumerate(memory_mib))
        return Machine(host.name, python="3.12", cpus=8, gpus=gpus, programs=(("tmux", "/usr/bin/tmux"),))

    monkeypatch.setattr(machines, "inspect", inspect)


@pytest.mark.parametrize("host", ["local", "me@box"])
async def test_the_plan_goes_by_the_memory_of_the_machine_that_is_named(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    wish = Wish(host=host, model="Qwen/Qwen2.5-7B-Instruct")
    _machine_with(monkeypatch, 24576, 49152)
    prepared = await _prepare(project, store, wish)
    record = prepared.record
    assert record is not None, prepared.missing
    assert (record.spec.gpus, record.spec.gpu_memory) == (2, 24.0), "the smallest counts"
    _machine_with(monkeypatch, 8192, 8192)
    (missing,) = (await _prepare(project, store, wish)).missing
    assert missing.name == "plan" and "it has 8" in missing.text


async def test_a_plan_that_is_only_read_needs_no_key_and_leaves_no_connection(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Prime] = []
    close = Prime.close

    async def closing(self: Prime) -> None:
        closed.append(self)
        await close(self)

    monkeypatch.setattr(Prime, "close", closing)
    with Simulator(step=5) as sim:
        monkeypatch.setenv("HUDTUI_SIM", sim.url)
        monkeypatch.setenv("HUDTUI_SIM_KEY", sim.api_key)
        wish = Wish(engine="rollouts", policy="random", provider="prime", gpus="H100")
        missing = (await _prepare(project, store, wish)).missing
        assert [check.remedy for check in missing] == ["make-key"], missing
        prepared = await _prepare(project, store, wish, starts=False)
        assert prepared.record is not None and not prepared.missing and prepared.record.spec.rent is not None
        assert len(closed) == 2 and not sim.alive


@pytest.fixture
def prime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    with Simulator(step=5) as sim:
        monkeypatch.setenv("HUDTUI_SIM", sim.url)
        monkeypatch.setenv("HUDTUI_SIM_KEY", sim.api_key)
        yield sim


@pytest.mark.parametrize(
    ("wish", "gpu"),
    [
        (Wish(provider="prime", gpus="1xA100"), "A100_80GB"),
        (Wish(engine="rollouts", policy="random", provider="prime"), "CPU_NODE"),
        (Wish(provider="prime", rehearse=True), "CPU_NODE"),
        (Wish(engine="rollouts", policy="random", provider="prime", gpus="1x4090"), "RTX4090_24GB"),
    ],
)
async def test_the_cheapest_machine_that_the_work_fits(
    project: Path, store: RunStore, prime: Simulator, wish: Wish, gpu: str
) -> None:
    prepared = await _prepare(project, store, wish, starts=False)
    assert prepared.record is not None, prepared.missing
    assert prepared.choice is not None and prepared.choice.offer.gpu_type == gpu


@pytest.mark.parametrize(
    ("wish", "state"),
    [
        (Wish(provider="prime", gpus="1x4090"), "missing"),
        (Wish(provider="prime", gpus="2xA100", model="Qwen/Qwen2.5-32B-Instruct"), "missing"),
        (Wish(provider="prime", gpus="1xA100"), "fine"),
    ],
)
async def test_a_model_that_does_not_fit_is_said_before_anything_is_rented(
    project: Path, store: RunStore, prime: Simulator, wish: Wish, state: str
) -> None:
    prepared = await _prepare(project, store, wish, starts=False)
    (memory,) = (check for check in prepared.checks if check.name == "memory")
    assert memory.state == state and "GiB" in memory.text, prepared.checks
    assert (prepared.record is None) == (state == "missing")


async def test_on_a_machine_of_ones_own_it_is_a_warning(project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _machine_with(monkeypatch, 24576)
    prepared = await _prepare(project, store, Wish(host="me@box"))
    assert [check.state for check in prepared.checks if check.name == "memory"] == ["warning"]
    assert prepared.record is not None


@pytest.mark.parametrize(("sold", "driver"), [(80.0, 81920), (48.0, 46068)])
async def test_a_card_is_judged_alike_wherever_its_memory_is_told(
    project: Path, store: RunStore, prime: Simulator, monkeypatch: pytest.MonkeyPatch, sold: float, driver: int
) -> None:
    offer = Offer("prime", "o", "X", 1, Price(1.0), gpu_memory=sold)
    rented = (await _prepare(project, store, Wish(offer=offer, model="Qwen/Qwen2.5-0.5B-Instruct"), starts=False)).record
    _machine_with(monkeypatch, driver)
    own = (await _prepare(project, store, Wish(host="me@box", model="Qwen/Qwen2.5-0.5B-Instruct"))).record
    assert rented is not None and own is not None
    assert rented.spec.gpu_memory == pytest.approx(own.spec.gpu_memory, rel=0.08) and rented.spec.gpu_memory < sold


async def test_a_days_budget_without_room_is_said_before_anybody_is_asked(
    project: Path, store: RunStore, prime: Simulator
) -> None:
    order = Order("hudtui-large", Offer("prime", "o", "H100_80GB", 8, Price(20.0)))
    Ledger().intend(order, provider="prime", realm=prime.url, grant=lambda entries: time.time() + 10 * 3600)
    wish = Wish(engine="rollouts", policy="random", provider="prime")
    (missing,) = (await _prepare(project, store, wish, starts=False)).missing
    assert "day's budget" in missing.text and "hudtui-large may cost" in missing.text and "HUDTUI_BUDGET_DAY" in str(missing.fix)
