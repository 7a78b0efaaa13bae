"""Setting up: API key, SSH key, and making the one known with the other."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from support.waiting import until

from hudtui.core.compute.ssh_key import key_path, make_key
from hudtui.core.settings import load_settings, user_file
from hudtui.tui.app import HudtuiApp


@pytest.fixture
def nobody(world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The user has given no key yet."""
    monkeypatch.delenv("PRIME_API_KEY")
    return world


async def test_the_words_of_the_first_step(says: Any, project: Path, nobody: Any) -> None:
    words = (
        "What is PRIME_API_KEY? Make one at https://app.primeintellect.ai/dashboard/tokens",
        "It has to allow reading availability, and reading and writing instances and SSH keys.",
        "It is kept in ~/config/hudtui/settings.env, which only you can read.",
        "it is not shown",
        "Save (Enter) Cancel (Esc)",
    )
    await says(HudtuiApp(project, services=nobody.services), *words, press=["4", "a"])


async def test_the_words_of_the_second_step(says: Any, project: Path, world: Any) -> None:
    (Path.home() / ".ssh").mkdir(mode=0o700)
    make_key(Path.home() / ".ssh" / "work")
    words = (
        "An SSH key for rented machines",
        "make a new one: ~/.ssh/prime_key.pem",
        "take ~/.ssh/work",
        "Enter chooses Esc closes",
    )
    app = HudtuiApp(project, services=world.services)
    await says(app, *words, size=(80, 24), press=["4", "a"])


async def test_from_nothing_to_a_machine_that_can_be_rented(
    open_app: Any, settle: Any, screen_text: Any, project: Path, nobody: Any
) -> None:
    async with open_app(project, size=(100, 30), services=nobody.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        assert "a sets one up" in screen_text(app)
        await pilot.press("a")
        await until(pilot, lambda: "What is PRIME_API_KEY?" in screen_text(app))
        app.screen.query_one("#answer").value = nobody.sim.api_key
        await pilot.pause()
        assert nobody.sim.api_key not in screen_text(app)
        await pilot.press("enter")

        await until(pilot, lambda: "An SSH key" in screen_text(app))
        assert nobody.sim.api_key not in screen_text(app)
        await pilot.press("enter")  # make a new one
        await until(pilot, lambda: "Register this SSH key?" in screen_text(app))
        await pilot.press("y")
        await until(
            pilot, lambda: not app.screen.is_modal and "Everything is set up" in app.screen.message
        )
        await settle(pilot)
        path = Path.home() / ".ssh" / "prime_key.pem"
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
        settings = load_settings(project, app.platform)
        assert (
            settings.get("PRIME_API_KEY") == nobody.sim.api_key and key_path(settings.get) == path
        )
        assert nobody.sim.api_key in user_file().read_text(), (
            "the key that pays for machines is the user's, for all projects"
        )
        assert stat.S_IMODE(user_file().stat().st_mode) == 0o600 and not (project / ".env").exists()
        known = [
            request
            for request in nobody.sim.requests
            if request.method == "POST" and "ssh_keys" in request.path
        ]
        public = (
            asyncssh.read_public_key(str(path) + ".pub").export_public_key().decode().split()[1]
        )
        assert len(known) == 1 and public in str(known[0].body)

        await until(pilot, lambda: len(app.screen.listed.offers) > 10)
        await pilot.press("a")
        await until(pilot, lambda: "Everything is set up" in app.screen.message)
        assert len([request for request in nobody.sim.requests if request.method == "POST"]) == 1


async def test_giving_up_changes_nothing(
    open_app: Any, settle: Any, screen_text: Any, project: Path, nobody: Any
) -> None:
    async with open_app(project, services=nobody.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("a")
        await until(pilot, lambda: "What is PRIME_API_KEY?" in screen_text(app))
        await pilot.press("escape")
        await settle(pilot)
        assert "Nothing was changed" in app.screen.message
        assert not (project / ".env").exists() and not user_file().exists()


async def test_a_key_that_others_may_read_is_made_private_first(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    path = world.key()
    path.chmod(0o644)
    async with open_app(project, services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("a")
        await until(pilot, lambda: "Others may read" in screen_text(app))
        await pilot.press("y")
        await until(pilot, lambda: "Everything is set up" in app.screen.message)
        assert stat.S_IMODE(path.stat().st_mode) == 0o400


def test_a_new_key_replaces_none(tmp_path: Path) -> None:
    path = make_key(tmp_path / "deep" / "key.pem")
    assert asyncssh.read_private_key(path).get_algorithm() == "ssh-ed25519"
    assert (
        stat.S_IMODE(os.stat(path).st_mode) == 0o400
        and (tmp_path / "deep" / "key.pem.pub").is_file()
    )
    before = path.read_bytes()
    with pytest.raises(Exception, match="cannot be written"):
        make_key(path)
    assert path.read_bytes() == before
