from __future__ import annotations

from pathlib import Path

import pytest

from hudtui.core.errors import InputError
from hudtui.core.paths import app_paths
from hudtui.core.platform import (
    BUCKEYE,
    HUD,
    choose_platform,
    explain_choice,
    find_platform,
    platforms,
    read_platform,
)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def user_file(name: str, text: str) -> Path:
    return write(app_paths().platforms / f"{name}.yaml", text)


def test_the_built_in_ones() -> None:
    assert (HUD.key_variable, HUD.lock_name, HUD.gym_id) == (
        "HUD_API_KEY",
        "hud.lock.yaml",
        "hud-vf-gym",
    )
    assert HUD.gateway_url == "https://mcp.hud.ai/v3/mcp"
    assert "HUD_MCP_URL" in HUD.url_variables
    assert (BUCKEYE.key_variable, BUCKEYE.lock_name, BUCKEYE.gym_id) == (
        "BUCKEYE_API_KEY",
        "buckeye.lock.yaml",
        "buckeye-vf-gym",
    )
    assert BUCKEYE.gateway_url == "http://localhost:8765/mcp"


def test_urls_can_be_overridden() -> None:
    lookup = {"HUD_MCP_URL": "http://127.0.0.1:1/mcp/", "HUD_API_URL": ""}.get
    assert HUD.url("mcp", lookup) == "http://127.0.0.1:1/mcp"
    assert HUD.url("api", lookup) == "https://api.hud.ai"
    assert BUCKEYE.url("api", lookup) is None


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("https://mcp.hud.ai/v3/mcp", True),
        ("https://mcp.hud.so/v3/mcp", True),
        ("https://MCP.HUD.SO:443/v3/mcp", True),
        ("https://mcp.hud.ai.evil.example/v3/mcp", False),
        ("https://evil.example/?x=mcp.hud.ai", False),
        ("https://mcp.hud.ai@evil.example/", False),
        ("http://localhost:8765/mcp", False),
        ("http://[broken", False),
        ("", False),
    ],
)
def test_whose_address_it_is(url: str, own: bool) -> None:
    assert HUD.owns(url) is own


def test_mcp_config() -> None:
    assert BUCKEYE.mcp_config("your-org/your-env:latest") == {
        "buckeye": {
            "url": "http://localhost:8765/mcp",
            "headers": {
                "Authorization": "Bearer $BUCKEYE_API_KEY",
                "Mcp-Image": "your-org/your-env:latest",
            },
        }
    }


def test_hud_is_the_default(own_world: Path) -> None:
    choice = explain_choice(own_world)
    assert choice.platform is HUD
    assert choice.reason == "the default"
    assert choice.notices == ()


def test_the_lock_file_decides(own_world: Path) -> None:
    write(own_world / "buckeye.lock.yaml", "")
    assert choose_platform(own_world) is BUCKEYE
    assert explain_choice(own_world).reason == "buckeye.lock.yaml"


def test_two_lock_files(own_world: Path) -> None:
    write(own_world / "buckeye.lock.yaml", "")
    write(own_world / "hud.lock.yaml", "")
    choice = explain_choice(own_world)
    assert choice.platform is HUD
    (notice,) = choice.notices
    assert "hud.lock.yaml and buckeye.lock.yaml" in notice
    assert "--platform buckeye" in notice
    assert explain_choice(own_world, "buckeye").notices == ()


def test_variable_and_flag(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(own_world / "hud.lock.yaml", "")
    monkeypatch.setenv("HUDTUI_PLATFORM", "buckeye")
    assert explain_choice(own_world).platform is BUCKEYE
    assert explain_choice(own_world).reason == "HUDTUI_PLATFORM"
    assert choose_platform(own_world, "HUD") is HUD
    monkeypatch.setenv("HUDTUI_PLATFORM", "")
    assert choose_platform(own_world) is HUD


def test_unknown_platform(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError) as caught:
        choose_platform(own_world, "buckye")
    assert "Did you mean buckeye?" in str(caught.value)
    monkeypatch.setenv("HUDTUI_PLATFORM", "../../etc/passwd")
    with pytest.raises(InputError):
        choose_platform(own_world)


def test_a_platform_of_ones_own(own_world: Path) -> None:
    user_file(
        "acme",
        "urls:\n  mcp: https://mcp.acme.example/mcp\n  api: https://api.acme.example\nhosts: "
        "[old.acme.example]\n",
    )
    acme = find_platform("acme", own_world)
    assert (acme.name, acme.title, acme.key_variable, acme.lock_name, acme.gym_id) == (
        "acme",
        "acme",
        "ACME_API_KEY",
        "acme.lock.yaml",
        "acme-vf-gym",
    )
    assert acme.url_variable("mcp") == "ACME_MCP_URL"
    assert acme.owns("https://mcp.acme.example/x")
    assert acme.owns("https://old.acme.example/x")
    assert acme.url("api") == "https://api.acme.example"
    write(own_world / "acme.lock.yaml", "")
    assert choose_platform(own_world).name == "acme"
    assert [platform.name for platform in platforms(own_world)] == ["hud", "buckeye", "acme"]


def test_every_field(own_world: Path) -> None:
    text = "title: Acme Inc.\nkey_variable: MY_KEY\nlock_name: env.lock.yaml\ngym_id: my-gym\n"
    platform = read_platform(write(own_world / ".hudtui" / "platforms" / "a-b.yaml", text))
    assert (platform.title, platform.key_variable, platform.lock_name, platform.gym_id) == (
        "Acme Inc.",
        "MY_KEY",
        "env.lock.yaml",
        "my-gym",
    )
    assert platform.prefix == "A_B"
    with pytest.raises(InputError, match="A_B_MCP_URL"):
        platform.mcp_config("image")


def test_an_empty_file_is_all_defaults(own_world: Path) -> None:
    user_file("acme", "# nothing\n")
    assert find_platform("acme", own_world).key_variable == "ACME_API_KEY"


def test_a_workspace_platform_is_taken_by_name_only(own_world: Path) -> None:
    write(
        own_world / ".hudtui" / "platforms" / "evil.yaml",
        "key_variable: HUD_API_KEY\nurls: {mcp: https://evil.example}\n",
    )
    write(own_world / "evil.lock.yaml", "")
    assert choose_platform(own_world) is HUD
    assert choose_platform(own_world, "evil").name == "evil"


def test_the_workspace_comes_before_the_user(own_world: Path) -> None:
    user_file("acme", "title: user's\n")
    write(own_world / ".hudtui" / "platforms" / "acme.yml", "title: workspace's\n")
    assert find_platform("acme", own_world).title == "workspace's"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("- a\n", 1, "mapping"),
        ("title: x\nkey_varable: X\n", 2, "Did you mean key_variable?"),
        ("key_variable: 'A B'\n", 1, "variable"),
        ("title: [1]\n", 1, "text"),
        ("lock_name: ../x.yaml\n", 1, "folder"),
        ("urls: https://x\n", 1, "mapping"),
        ("urls:\n  mpc: https://x\n", 2, "Did you mean mcp?"),
        ("urls:\n  mcp: localhost:1\n", 2, "http://"),
        ("urls:\n  mcp: 'http://[x'\n", 2, "address"),
        ("hosts: x\n", 1, "list"),
        ("a: 1\na: 2\n", 2, "duplicate"),
    ],
)
def test_broken_files(own_world: Path, text: str, line: int, words: str) -> None:
    path = user_file("acme", text)
    with pytest.raises(InputError) as caught:
        find_platform("acme", own_world)
    assert words in str(caught.value)
    assert caught.value.where is not None
    assert (caught.value.where.file, caught.value.where.line) == (str(path), line)
    # It is in nobody's way who does not ask for it.
    choice = explain_choice(own_world)
    assert choice.platform is HUD
    assert "acme.yaml" in choice.notices[0]
    assert [platform.name for platform in platforms(own_world)] == ["hud", "buckeye"]


@pytest.mark.parametrize("name", ["hud", "a b"])
def test_names_that_cannot_be(name: str, own_world: Path) -> None:
    with pytest.raises(InputError):
        read_platform(write(own_world / f"{name}.yaml", ""))
