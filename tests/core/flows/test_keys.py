"""The SSH key for rented machines, against a simulated provider: what is asked, in which order, and
what is kept."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.person import ScriptedPerson

from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.ssh_key import key_path, make_key, read_key
from hudtui.core.errors import InputError
from hudtui.core.flows.keys import create_key, make_private, prepare_key, register
from hudtui.core.platform import HUD
from hudtui.core.project import Project
from hudtui.core.settings import user_file
from hudtui.sim import PrimeSimulator

USUAL = ".ssh/prime_key.pem"


@pytest.fixture
def sim() -> Iterator[PrimeSimulator]:
    with PrimeSimulator() as running:
        yield running


@pytest.fixture
async def prime(sim: PrimeSimulator) -> AsyncIterator[PrimeProvider]:
    provider = PrimeProvider(sim.api_key, base_url=sim.url, simulated=True)
    yield provider
    await provider.close()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder, HUD)


def registered(sim: PrimeSimulator) -> list[str]:
    """Labels of the keys that were registered."""
    return [
        one.body["name"] for one in sim.requests if one.method == "POST" and "ssh_keys" in one.path
    ]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_from_no_key_to_one_that_the_provider_knows(
    project: Project, prime: PrimeProvider, sim: PrimeSimulator
) -> None:
    person = ScriptedPerson("", True)
    key = await prepare_key(project, prime, person)
    path = Path.home() / USUAL
    assert key is not None and key.id and key.fingerprint == read_key(path).fingerprint
    assert mode(path) == 0o400 and person.titles == [
        "An SSH key for rented machines",
        "Register this SSH key?",
    ]
    assert (
        "~/.ssh/prime_key.pem" in person.questions[1].lines
        and key.fingerprint in person.questions[1].lines
    )
    assert registered(sim) == ["hudtui prime_key.pem"]
    assert await prepare_key(project, prime, ScriptedPerson()) == key, "nothing is left to ask"
    assert registered(sim) == ["hudtui prime_key.pem"]


async def test_a_chosen_key_serves_all_projects(
    project: Project, prime: PrimeProvider, tmp_path: Path
) -> None:
    mine = make_key(Path.home() / ".ssh" / "work")
    person = ScriptedPerson(str(mine), True)
    assert await prepare_key(project, prime, person) is not None
    assert [choice.label for choice in person.questions[0].choices] == [
        "make a new one: ~/.ssh/prime_key.pem",
        "take ~/.ssh/work",
    ]
    assert not (project.folder / ".env").exists() and str(mine) in user_file().read_text()
    other = tmp_path / "other"
    other.mkdir()
    assert key_path(Project(other, HUD).settings().get) == mine


async def test_a_project_that_names_a_key_of_its_own_keeps_the_new_one(
    project: Project, prime: PrimeProvider
) -> None:
    (project.folder / ".env").write_text("PRIME_SSH_KEY_PATH=~/gone\n")
    person = ScriptedPerson("", False)
    assert await prepare_key(project, prime, person) is None
    assert person.titles[0] == "An SSH key for rented machines; ~/gone is not there"
    assert key_path(project.settings().get) == Path.home() / USUAL and not user_file().exists()


async def test_an_environment_variable_that_counts_is_named(
    project: Project, prime: PrimeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIME_SSH_KEY_PATH", "/nowhere/key")
    person = ScriptedPerson()
    key, file = await create_key(project, Path.home() / ".ssh" / "second", person)
    assert key.path.name == "second" and file == user_file()
    assert (
        person.said[0].startswith("PRIME_SSH_KEY_PATH is set to /nowhere/key")
        and "takes precedence" in person.said[0]
    )


async def test_a_new_key_replaces_none(
    project: Project, prime: PrimeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_key(Path.home() / USUAL)
    before = path.read_bytes()
    monkeypatch.setenv("PRIME_SSH_KEY_PATH", "/nowhere/key")
    await prepare_key(project, prime, ScriptedPerson("", False))
    assert path.read_bytes() == before and path.with_name("prime_key-new.pem").is_file()
    with pytest.raises(InputError, match="cannot be written"):
        await create_key(project, path, ScriptedPerson())
    assert path.read_bytes() == before


@pytest.mark.parametrize("answers", [(None,), ("", False)])
async def test_without_a_yes_nothing_is_registered(
    project: Project,
    prime: PrimeProvider,
    sim: PrimeSimulator,
    answers: tuple[str | bool | None, ...],
) -> None:
    assert await prepare_key(project, prime, ScriptedPerson(*answers)) is None
    assert registered(sim) == []


async def test_the_mode_of_a_key_is_repaired_after_a_yes(
    project: Project, prime: PrimeProvider, sim: PrimeSimulator
) -> None:
    path = make_key(Path.home() / USUAL)
    path.chmod(0o644)
    assert await prepare_key(project, prime, ScriptedPerson(False)) is None
    assert mode(path) == 0o644 and not sim.requests
    person = ScriptedPerson(True, True)
    assert await prepare_key(project, prime, person) is not None
    assert mode(path) == 0o400 and "Only you can read ~/.ssh/prime_key.pem now." in person.said
    assert not (await make_private(read_key(path), ScriptedPerson())).exposed


async def test_what_may_not_be_set_up_is_an_error(
    project: Project, prime: PrimeProvider, sim: PrimeSimulator
) -> None:
    with pytest.raises(InputError, match="you have no SSH key"):
        await prepare_key(project, prime, ScriptedPerson(), set_up=False)
    make_key(Path.home() / USUAL)
    with pytest.raises(InputError, match="does not know your SSH key"):
        await prepare_key(project, prime, ScriptedPerson(), set_up=False)
    assert registered(sim) == []


async def test_registering_makes_a_key_the_primary_one_once(
    prime: PrimeProvider, sim: PrimeSimulator
) -> None:
    key = read_key(make_key(Path.home() / USUAL))
    person = ScriptedPerson(True)
    entry = await register(key, prime, person, name="laptop")
    assert entry is not None and entry.primary and registered(sim) == ["laptop"]
    await prime.register_key("another", "ssh-ed25519 AAAABBBB")
    known = next(one for one in await prime.keys() if one.id == entry.id)
    assert not known.primary
    person = ScriptedPerson(True)
    again = await register(key, prime, person, known=known)
    assert again is not None and again.primary and again.id == entry.id
    assert person.titles == ["Make this SSH key the primary one?"]
    person = ScriptedPerson()
    assert await register(key, prime, person, known=again) == again
    assert "knows" in person.said[0] and "already" in person.said[0]
