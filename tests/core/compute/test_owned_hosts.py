"""Machines of the user's own: what they say of them, what they have, and that nothing is ever done
to them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from hudtui.core.compute.choose import choose
from hudtui.core.compute.gpus import parse_spec
from hudtui.core.compute.hardware import Gpu, Hardware
from hudtui.core.compute.owned_hosts import (
    LocalProvider,
    OwnedHost,
    OwnedHostsProvider,
    SshProvider,
    config_names,
    offers_of,
    owned_hosts_file,
    read_owned_hosts,
)
from hudtui.core.compute.provider import Provider, ProviderError
from hudtui.core.compute.values import Order, Price
from hudtui.core.errors import InputError, MachineError
from hudtui.core.remote.hosts import HostPool
from hudtui.core.remote.known_hosts import KnownHosts
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.site import request_host
from hudtui.sim import PrimeSimulator

H100 = Gpu(0, "NVIDIA H100 80GB HBM3", 81559, 500, 0, "570")
BOX = Hardware(
    "ann@box:22",
    cpus=32,
    memory_bytes=128_000_000_000,
    disk_free_bytes=900_000_000_000,
    gpus=(H100, replace(H100, index=1)),
)


# --- what the user says ---


def test_the_list_of_machines(tmp_path: Path) -> None:
    path = tmp_path / "machines.yaml"
    assert read_owned_hosts(path) == ()
    path.write_text(
        "gpu-box: {price: 1.2, currency: eur}\nann@10.0.0.5:2222:\nlocal:\n  price: 0\n"
    )
    assert read_owned_hosts(path) == (
        OwnedHost("gpu-box", 1.2, "EUR"),
        OwnedHost("ann@10.0.0.5:2222"),
        OwnedHost("local", 0.0),
    )
    path.write_text("# nothing yet\n")
    assert read_owned_hosts(path) == ()


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("- gpu-box\n", "names to facts", 1),
        ("a: {price: 1}\nb: {price: cheap}\n", "is a number", 2),
        ("a: {price: -1}\n", "is a number", 1),
        ("a:\n  price: 1\n  cost: 2\n", "no 'cost'", 3),
        ("a: {currency: euros}\n", "three letters", 1),
        ("a: 1.2\n", "a mapping", 1),
    ],
)
def test_what_is_wrong_with_the_list_is_told_with_its_line(
    tmp_path: Path, text: str, said: str, line: int
) -> None:
    path = tmp_path / "machines.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        read_owned_hosts(path)
    assert caught.value.where is not None and caught.value.where.line == line


def test_the_names_of_the_ssh_config() -> None:
    folder = Path.home() / ".ssh"
    (folder / "more").mkdir(parents=True)
    lines = [
        "Include more/*.conf",
        "Include config",
        "Host *",
        "  User ann",
        "Host box !not box-2 *.lab # the lab",
        "Host=eq",
    ]
    (folder / "config").write_text("\n".join([*lines, "Host github.com", '  Host "quoted"', ""]))
    (folder / "more" / "a.conf").write_text("host included\n\tHostName 10.0.0.1\n")
    assert config_names() == ("included", "box", "box-2", "eq", "quoted")
    assert config_names(folder / "none") == ()


# --- what the machines have ---


def test_a_machine_as_an_offer() -> None:
    (offer,) = offers_of(BOX, OwnedHost("box", 1.5, "EUR"), "ssh")
    assert (offer.gpu_type, offer.gpu_count, offer.gpu_memory, offer.vram) == (
        "H100_80GB",
        2,
        80,
        160,
    )
    assert (offer.price, offer.cloud_id, offer.stock) == (Price(1.5, "EUR"), "box", "idle")
    assert (offer.vcpus, offer.memory_gb, offer.disk_gb) == (32, 128, 900)


def test_busy_mixed_and_bare_machines() -> None:
    busy = replace(BOX, gpus=(H100, replace(H100, index=1, used_mib=60_000)))
    assert offers_of(busy, OwnedHost("box"), "ssh")[0].stock == "in use"
    mixed = replace(BOX, gpus=(H100, Gpu(1, "NVIDIA L40S", 46068)))
    offers = offers_of(mixed, OwnedHost("box"), "ssh")
    assert [(offer.gpu_type, offer.gpu_count) for offer in offers] == [
        ("H100_80GB", 1),
        ("L40S_48GB", 1),
    ]
    assert len({offer.short for offer in offers}) == 2 and not offers[0].price.stated
    (bare,) = offers_of(replace(BOX, gpus=()), OwnedHost("box"), "ssh")
    assert (bare.gpu_type, bare.gpu_count) == ("", 0)
    assert choose([bare], spec=parse_spec("cpu")).offer is bare


async def test_machines_that_do_not_answer_are_named_and_the_others_stay() -> None:
    silent = asyncio.Event()

    async def look(name: str) -> Hardware:
        if name == "silent":
            await silent.wait()
        if name == "closed":
            raise MachineError("it refused the connection", why="nobody\x1b[31m listens")
        return replace(
            BOX, name=name, warnings=("The GPU driver does not work",) if name == "odd" else ()
        )

    provider = OwnedHostsProvider(
        "ssh",
        "mine",
        [OwnedHost(name) for name in ("ok", "silent", "closed", "odd")],
        look,
        patience=0.2,
    )
    answer = await provider.offers()
    assert [offer.cloud_id for offer in answer.found] == ["ok", "odd"]
    assert answer.warnings == (
        "silent did not say what it has within 0.2 s",
        "closed: it refused the connection; nobody listens",
        "odd: The GPU driver does not work",
    )


async def test_nothing_is_rented_and_nothing_is_ended() -> None:
    provider = SshProvider([OwnedHost("ann@10.0.0.5:2222", 1.5)])
    assert isinstance(provider, Provider) and isinstance(LocalProvider(), Provider)
    assert not provider.features.paid and not provider.features.simulated
    (offer,) = offers_of(BOX, provider.machines[0], "ssh")
    pod = await provider.create(Order("mine", offer))
    assert (pod.id, pod.name, pod.stage, pod.hourly) == ("ann@10.0.0.5:2222", "mine", "ready", 1.5)
    assert str(pod.addresses[0]) == "ann@10.0.0.5:2222"
    await provider.terminate(pod.id)
    assert await provider.pods() == () and await provider.history() == ()
    assert [pod.stage for pod in await provider.status(["ann@10.0.0.5:2222"])] == ["ready"]
    with pytest.raises(ProviderError, match="ssh-copy-id"):
        await provider.register_key("name", "ssh-ed25519 AAAA")


async def test_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = tmp_path / "bin" / "nvidia-smi"
    driver.parent.mkdir()
    lines = [f"echo '{index}, NVIDIA GeForce RTX 4090, 24564, 10, 0, 570.1'" for index in (0, 1)]
    driver.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{driver.parent}:{os.environ['PATH']}")
    answer = await LocalProvider().offers()
    (offer,) = answer.found
    assert (offer.gpu_type, offer.gpu_count, offer.price) == ("RTX4090_24GB", 2, Price(0.0))
    assert choose(answer.found, spec=parse_spec("2x4090")).offer is offer and answer.warnings == ()
    assert (await LocalProvider(OwnedHost("local", 0.3, "EUR")).offers()).found[0].price == Price(
        0.3, "EUR"
    )


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@pytest.fixture
def box(key: Path) -> Iterator[str]:
    """A machine behind SSH with two GPUs, under the name that this gives: a pod of the simulator,
    which has a stand-in driver."""
    with PrimeSimulator() as sim:
        sim.add_ssh_key(key.with_suffix(".pub").read_text())
        body = {
            "name": "box",
            "cloudId": "2H100.80S",
            "gpuType": "H100_80GB",
            "socket": "SXM5",
            "gpuCount": 2,
            "dataCenterId": "FIN-02",
        }
        url, headers = f"{sim.url}/api/v1/pods/", {"Authorization": f"Bearer {sim.api_key}"}
        made = (
            httpx2.post(
                url, json={"pod": body, "provider": {"type": "datacrunch"}}, headers=headers
            )
            .raise_for_status()
            .json()
        )
        sim.clock.advance(60)
        told = httpx2.get(f"{url}{made['id']}", headers=headers).json()["sshConnection"].split()
        user, _, address = told[0].partition("@")
        (Path.home() / ".ssh").mkdir()
        (Path.home() / ".ssh" / "config").write_text(
            f"Host box\n  HostName {address}\n  User {user}\n  Port {told[2]}\n  IdentityFile "
            f"{key}\n  IdentityAgent none\n"
        )
        yield "box"


async def test_a_machine_behind_ssh(box: str, tmp_path: Path) -> None:
    owned_hosts_file().parent.mkdir(parents=True)
    owned_hosts_file().write_text("box: {price: 1.25}\n")
    async with aclosing(HostPool(KnownHosts(tmp_path / "pins"))) as pool:
        provider = SshProvider(
            [*read_owned_hosts(owned_hosts_file()), OwnedHost("nobody@127.0.0.1:1")],
            connect=pool.open,
        )
        answer = await provider.offers()
    (offer,) = answer.found
    assert (offer.gpu_type, offer.gpu_count, offer.gpu_memory) == ("H100_80GB (simulated)", 2, 80)
    assert offer.price == Price(1.25) and offer.cloud_id == box and offer.stock == "idle"
    assert choose(answer.found, spec=parse_spec("2xH100")).offer is offer
    assert len(answer.warnings) == 1 and answer.warnings[0].startswith("nobody@127.0.0.1:1: ")


async def test_each_kind_of_gpu_in_a_machine_leads_to_that_machine() -> None:
    machine = replace(BOX, gpus=(H100, Gpu(1, "NVIDIA A100-SXM4-80GB", 81920)))
    offers = offers_of(machine, OwnedHost("gpu-box"), "ssh")
    assert [offer.gpu_type for offer in offers] == ["H100_80GB", "A100_80GB"] and len(
        {offer.id for offer in offers}
    ) == 2
    for offer in offers:
        assert request_host(RunRequest(offer=offer)) == "gpu-box"
        assert (
            await SshProvider((OwnedHost("gpu-box"),)).create(Order("n", offer))
        ).id == "gpu-box"
