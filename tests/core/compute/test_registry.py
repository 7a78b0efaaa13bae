from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hudtui.core.compute.owned_hosts import owned_hosts_file
from hudtui.core.compute.prime.entry import prime_access
from hudtui.core.compute.provider import AuthError, Provider, ProviderError, find_offer
from hudtui.core.compute.registry import (
    find_providers,
    open_provider,
    pod_target,
    rental_titles,
    unavailable_providers,
)
from hudtui.core.compute.ssh_key import find_registered, keep_path, key_path, read_key
from hudtui.core.compute.ssh_key import make_key as new_key
from hudtui.core.compute.values import Address, Offer, Pod, Price, SshKey
from hudtui.core.errors import InputError
from hudtui.core.http import is_loopback
from hudtui.core.platform import HUD
from hudtui.core.settings import Settings, load_settings, user_file


def make_key(path: Path, *more: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-C", "ann", "-f", str(path), *more], check=True)
    return path


# --- who can be asked ---


def test_without_anything_there_is_this_machine() -> None:
    found = find_providers({}.get)
    assert list(found) == ["local"] and isinstance(found["local"], Provider)
    told = unavailable_providers({}.get)
    assert "PRIME_API_KEY" in told["prime"] and str(owned_hosts_file()) in told["ssh"]


async def test_a_key_brings_prime() -> None:
    settings = {"PRIME_API_KEY": "pit_secret_1234567890", "PRIME_TEAM_ID": "team"}
    found = find_providers(settings.get)
    prime = found["prime"]
    assert prime.title == "Prime Intellect" and prime.features.paid and not prime.features.simulated
    assert "pit_secret" not in repr(prime) and "pit_secret" not in repr(prime_access(settings.get))
    assert open_provider("prime", settings.get, providers=found) is prime
    await prime.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"PRIME_API_KEY": "pit_secret_1234567890", "PRIME_API_BASE_URL": "http://127.0.0.1:1"},
        {
            "PRIME_API_KEY": "pit_secret_1234567890",
            "HUDTUI_SIM": "http://localhost:1/",
            "HUDTUI_SIM_KEY": "its-own",
        },
        {"HUDTUI_SIM": "http://[::1]:1", "HUDTUI_SIM_KEY": "its-own"},
    ],
)
async def test_an_address_of_this_machine_is_a_simulated_prime(settings: dict[str, str]) -> None:
    found = find_providers(settings.get)
    (prime,) = (provider for provider in found.values() if provider.features.paid)
    assert prime.features.simulated and "simulated" in prime.title and found[prime.name] is prime
    assert open_provider("prime", settings.get, providers=found) is prime
    if "HUDTUI_SIM" in settings:  # the real key stays at home
        key = prime_access(settings.get).key
        assert key is not None and key == "its-own"
    await prime.close()


@pytest.mark.parametrize(
    ("settings", "title"),
    [
        ({}, "Prime Intellect"),
        ({"HUDTUI_SIM": "off"}, "Prime Intellect"),
        ({"HUDTUI_SIM": "https://api.primeintellect.ai"}, "Prime Intellect"),
        ({"HUDTUI_SIM": "demo"}, "Prime (simulated)"),  # also before it runs
        ({"HUDTUI_SIM": "http://127.0.0.1:1"}, "Prime (simulated)"),
        ({"PRIME_API_BASE_URL": "http://127.0.0.1:1"}, "Prime (simulated)"),
    ],
)
def test_the_title_of_prime_is_known_before_it_is_set_up(
    settings: dict[str, str], title: str
) -> None:
    assert rental_titles(settings.get) == {"prime": title, "sky": "SkyPilot"}


def test_a_provider_that_is_not_among_the_given_ones_is_not_opened() -> None:
    settings = {"PRIME_API_KEY": "pit_secret_1234567890"}
    with pytest.raises(ProviderError, match="prime is not set up here"):
        open_provider("prime", settings.get, providers={})


def test_a_simulator_without_its_key_gets_no_other_and_says_what_to_do() -> None:
    settings = {"PRIME_API_KEY": "pit_secret_1234567890", "HUDTUI_SIM": "http://127.0.0.1:1"}
    assert "prime" not in find_providers(settings.get)
    with pytest.raises(AuthError, match="needs the key that it printed") as caught:
        open_provider("prime", settings.get)
    assert "HUDTUI_SIM_KEY" in str(caught.value.fix)


@pytest.mark.parametrize(
    "address",
    ["https://api.primeintellect.ai", "http://127.0.0.1.example.com", "1", "http://10.0.0.1:80"],
)
def test_what_costs_money_is_never_taken_for_simulated(address: str) -> None:
    assert not is_loopback(address)
    with pytest.raises(InputError, match="not an address of this machine"):
        find_providers({"HUDTUI_SIM": address, "PRIME_API_KEY": "pit_secret_1234567890"}.get)


def test_only_listed_machines_are_asked_and_the_whole_config_when_wanted() -> None:
    (Path.home() / ".ssh").mkdir()
    (Path.home() / ".ssh" / "config").write_text("Host lab git\n  HostName 10.0.0.1\n")
    assert "ssh" not in find_providers({}.get)
    owned_hosts_file().parent.mkdir(parents=True)
    owned_hosts_file().write_text("box: {price: 1}\nlocal: {price: 0.5}\n")
    found = find_providers({}.get, machines=["ann@10.0.0.2"])
    assert [(one.name, one.price) for one in found["ssh"].machines] == [
        ("box", 1.0),
        ("ann@10.0.0.2", None),
    ]  # type: ignore[attr-defined]
    assert [one.price for one in found["local"].machines] == [0.5]  # type: ignore[attr-defined]
    whole = find_providers({}.get, whole_config=True)["ssh"]
    assert [one.name for one in whole.machines] == ["box", "lab", "git"]  # type: ignore[attr-defined]
    assert "ssh" not in unavailable_providers({}.get)


def test_providers_that_are_not_here_say_what_to_do() -> None:
    with pytest.raises(AuthError, match="needs a key") as caught:
        open_provider("prime", {}.get)
    assert caught.value.fix is not None and "hudtui settings set PRIME_API_KEY" in caught.value.fix
    with pytest.raises(ProviderError, match="--host"):
        open_provider("ssh", {}.get)
    with pytest.raises(InputError, match="Did you mean prime"):
        open_provider("prim", {}.get)
    with pytest.raises(InputError, match="--cloud"):
        open_provider("datacrunch", {}.get)


# --- the way in ---


def test_how_a_pod_is_logged_in_to() -> None:
    key = make_key(Path.home() / ".ssh" / "prime_key.pem", "-t", "ed25519")
    pod = Pod(
        "prime", "pod-1", "hudtui-a", "ready", addresses=(Address("ubuntu", "1.2.3.4", 2222),)
    )
    target = pod_target(pod, {}.get)
    assert target is not None
    assert (target.name, target.machine, target.keys) == (
        "ubuntu@1.2.3.4:2222",
        "pod-1",
        (key,),
    )  # known by id: addresses recur
    with pytest.raises(ProviderError, match="no address yet"):
        pod_target(Pod("prime", "pod-1", "hudtui-a", "booting", "PROVISIONING"), {}.get)
    assert pod_target(Pod("local", "local", "local", "ready"), {}.get) is None
    own = pod_target(Pod("ssh", "ann@10.0.0.2:2200", "mine", "ready"), {}.get)
    assert own is not None and own.machine == "ann@10.0.0.2:2200"


# --- the key ---


def test_which_key_is_taken(tmp_path: Path) -> None:
    assert key_path({}.get) is None
    folder = Path.home() / ".ssh"
    folder.mkdir()
    (folder / "id_rsa").touch()
    assert key_path({}.get) == folder / "id_rsa"
    (folder / "prime_key.pem").touch()
    assert key_path({}.get) == folder / "prime_key.pem"
    assert key_path({"PRIME_SSH_KEY_PATH": "~/mine"}.get) == Path.home() / "mine"


@pytest.mark.parametrize(
    "kind", [("-t", "ed25519"), ("-t", "rsa", "-b", "2048", "-m", "PEM"), ("-t", "ecdsa")]
)
def test_a_key_and_its_public_part(tmp_path: Path, kind: tuple[str, ...]) -> None:
    path = make_key(tmp_path / "key.pem", *kind)
    public = (tmp_path / "key.pem.pub").read_text().split()
    (tmp_path / "key.pem.pub").unlink()
    key = read_key(path)
    assert (
        key.public_key.split()[:2] == public[:2]
        and not key.locked
        and not key.exposed
        and key.warning is None
    )
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert key.fingerprint in shown
    assert find_registered(
        key,
        [
            SshKey("1", "other", "ssh-rsa AAAA"),
            SshKey("2", "mine", " ".join([*public[:2], "elsewhere"])),
        ],
    ) == SshKey("2", "mine", " ".join([*public[:2], "elsewhere"]))
    assert find_registered(key, [SshKey("1", "empty", "")]) is None
    os.chmod(path, 0o644)
    assert "chmod 400" in (read_key(path).warning or "")


@pytest.mark.parametrize("form", [(), ("-m", "PEM")])
def test_a_key_with_a_pass_phrase(tmp_path: Path, form: tuple[str, ...]) -> None:
    path = tmp_path / "key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "secret", "-f", str(path), *form], check=True
    )
    key = read_key(path)
    assert (
        key.locked and key.public_key.split()[:2] == (tmp_path / "key.pub").read_text().split()[:2]
    )
    (tmp_path / "key.pub").unlink()
    with pytest.raises(InputError, match="ssh-keygen -y"):
        read_key(path)


def test_what_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such key"):
        read_key(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match="not a private key"):
        read_key(tmp_path / "text")
    make_key(tmp_path / "key", "-t", "ed25519")
    with pytest.raises(InputError, match=r"without \.pub"):
        read_key(tmp_path / "key.pub")
    (tmp_path / "bad").write_text(
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
    )
    with pytest.raises(InputError, match="cannot be understood"):
        read_key(tmp_path / "bad")


def test_an_offer_by_a_name_that_several_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [Offer("prime", name, "H100_80GB", 1, Price(1.0)) for name in ("a/1", "b/2")]
    assert find_offer(offers, offers[0].short) == offers[0] and find_offer(offers, "none") is None
    monkeypatch.setattr(Offer, "short", "abcdef")
    with pytest.raises(InputError, match="means several offers") as caught:
        find_offer(offers, "abcdef")
    assert "a/1, b/2" in str(caught.value.fix)
    assert find_offer(offers, "b/2") == offers[1], "its id says which one is meant"


def test_where_a_new_key_is_noted(own_world: Path) -> None:
    usual, other = Path.home() / ".ssh" / "prime_key.pem", own_world / "key"
    new_key(usual)
    new_key(other)

    def settings() -> Settings:
        return load_settings(own_world, HUD)

    assert keep_path(usual, settings()) is None, "it is found without"
    assert keep_path(other, settings()) == user_file() and key_path(settings().get) == other
    (own_world / ".env").write_text("PRIME_SSH_KEY_PATH=/gone\n")
    assert keep_path(usual, settings()) == own_world / ".env" and key_path(settings().get) == usual
    assert (read_key(usual).label, read_key(other).label) == ("hudtui prime_key.pem", "hudtui key")


def test_own_machines_are_there_without_the_demos_simulator(own_world: Path) -> None:
    owned_hosts_file().parent.mkdir(parents=True, exist_ok=True)
    owned_hosts_file().write_text("gpu-box: {price: 1.2}\n")
    settings = {"HUDTUI_SIM": "demo"}
    assert set(find_providers(settings.get)) == {"ssh", "local"}
    assert "simulator does not run" in unavailable_providers(settings.get)["prime"]
    with pytest.raises(ProviderError, match="simulator does not run"):
        open_provider("prime", settings.get)
    assert open_provider("ssh", settings.get).name == "ssh"
