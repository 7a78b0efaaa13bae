from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import hudtui
from hudtui.core.errors import InputError
from hudtui.core.masking import looks_secret
from hudtui.core.paths import app_paths
from hudtui.core.platform import BUCKEYE, BUILT_IN, HUD, SERVICES, Platform
from hudtui.core.settings import (
    ALARM_SETTINGS,
    LIMIT_SETTINGS,
    MASK,
    Settings,
    check_setting_name,
    check_setting_value,
    check_settings,
    known_settings,
    load_settings,
    mask,
    remove_setting,
    save_project_setting,
    save_user_setting,
    user_file,
)
from hudtui.core.variables import substitute

PACKAGE = Path(hudtui.__file__).parent
KEYS = [
    "HUD_API_KEY",
    "BUCKEYE_API_KEY",
    "WANDB_API_KEY",
    "PRIME_API_KEY",
    "PRIME_TEAM_ID",
    "PRIME_SSH_KEY_PATH",
    "OPENAI_API_KEY",
    "HF_TOKEN",
    "HUD_MCP_URL",
    "HUD_API_URL",
]
OF_A_PLATFORM = (
    "TELEMETRY_URL",
    "WEB_URL",
    "TELEMETRY_ENABLED",
    "TELEMETRY_LOCAL_DIR",
    "CLIENT_TIMEOUT",
)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def load(folder: Path, platform: Platform = HUD, **environ: str) -> Settings:
    return load_settings(folder, platform, environ=environ)


def test_every_key_is_described() -> None:
    for platform in (HUD, BUCKEYE):
        keys = {key.name: key for key in known_settings(platform)}
        assert set(KEYS) | {platform.own_variable(name) for name in OF_A_PLATFORM} <= set(keys)
        assert all(key.about and "\n" not in key.about for key in keys.values())
        assert {name for name, key in keys.items() if key.secret} == {
            "HUD_API_KEY",
            "BUCKEYE_API_KEY",
            "WANDB_API_KEY",
            "PRIME_API_KEY",
            "HUDTUI_GUARD_KEY",
            "HUDTUI_NOTIFY_URL",
            "HUDTUI_SIM_KEY",
            "OPENAI_API_KEY",
            "HF_TOKEN",
        }
    assert known_settings(BUCKEYE)[0].name == "BUCKEYE_API_KEY"


DECLARED = re.compile(r"""\bSetting\(\s*["'][A-Z_]+["']""")
SOURCES = {
    path.relative_to(PACKAGE).as_posix(): DECLARED.sub("", path.read_text())
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).as_posix()
    not in ("core/settings.py", "core/platform.py", "cli/settings.py")
}
"""The code, without the modules that list settings and platforms, and without what providers
declare."""


def readers(setting: str, platform: Platform) -> Iterator[str]:
    """The modules that read a setting: by its name, by its platform's service, or by its name on
    each platform."""
    ways = [rf"""["']{setting}["']"""]
    for one in (platform, *BUILT_IN):
        if setting in one.url_variables:
            service = one.url_variable
            name = next(name for name in SERVICES if service(name) == setting)
            ways.append(rf"""(?:\.url|url_variable)\(["']{name}["']""")
        elif setting == one.key_variable:
            ways.append(r"\.key_variable\b")
        elif setting.startswith(f"{one.prefix}_"):
            name = setting.removeprefix(f"{one.prefix}_")
            ways.append(rf"""(?:own|own_variable)\(["']{name}["']""")
            ways += [r"settings\.client_timeout"] if name == "CLIENT_TIMEOUT" else []
    for limit, name in LIMIT_SETTINGS.items():
        ways += [rf"\blimits\.{limit}\b|\b{limit}=|\.{limit}\b"] if name == setting else []
    for threshold, one in ALARM_SETTINGS.items():
        if one.name == setting:
            ways.append(rf"""(?:threshold=|from_when\[)["']{threshold}["']""")
    return (path for path, text in SOURCES.items() if any(re.search(way, text) for way in ways))


@pytest.mark.parametrize(
    "platform", [HUD, BUCKEYE, Platform("acme", "Acme", "ACME_API_KEY", "a.yaml", "acme-vf-gym")]
)
def test_each_listed_setting_is_read_by_something(platform: Platform) -> None:
    names = [setting.name for setting in known_settings(platform)]
    assert [name for name in names if not any(readers(name, platform))] == []


@pytest.mark.parametrize(
    "name",
    ["HUD_RL_URL", "HUD_GATEWAY_URL", "HUD_RUNTIME_URL", "PRIME_INFERENCE_URL", "HUD_NOTHING"],
)
def test_what_nothing_reads_is_not_listed(name: str) -> None:
    assert list(readers(name, HUD)) == []
    assert all(
        setting.name != name for platform in (HUD, BUCKEYE) for setting in known_settings(platform)
    )


def test_the_time_limit_of_calls(own_world: Path) -> None:
    assert load(own_world).client_timeout == 60.0
    assert load(own_world, HUD_CLIENT_TIMEOUT="2.5").client_timeout == 2.5
    assert (
        load(
            own_world, BUCKEYE, HUD_CLIENT_TIMEOUT="2.5", BUCKEYE_CLIENT_TIMEOUT="7"
        ).client_timeout
        == 7.0
    )
    for wrong in ("soon", "0", "-1", "inf", "nan"):
        with pytest.raises(
            InputError, match=r"HUD_CLIENT_TIMEOUT is .*a number of seconds is needed"
        ):
            _ = load(own_world, HUD_CLIENT_TIMEOUT=wrong).client_timeout


def test_reading_a_file_of_many_names_takes_linear_time(own_world: Path) -> None:
    def spent(count: int) -> float:
        write(own_world / ".env", "".join(f"K{number:x}=\n" for number in range(count)))
        began = time.process_time()
        load(own_world)
        return time.process_time() - began

    few = spent(3_500)
    assert spent(14_000) < 10 * few


def test_layers(own_world: Path) -> None:
    hud_file = write(Path.home() / ".hud" / ".env", "A=hud\nB=hud\nC=hud\nD=hud\n")
    user = write(user_file(), "A=user\nB=user\nC=user\n")
    project = write(own_world / ".env", "\nA=project\nB=project\n")
    settings = load(own_world, A="environment")
    assert [settings.get(name) for name in "ABCDE"] == [
        "environment",
        "project",
        "user",
        "hud",
        None,
    ]
    assert [settings.origin(name) for name in "ABCDE"] == [
        "environment",
        ".env",
        "user file",
        "~/.hud/.env",
        None,
    ]
    assert settings.origin("HUD_API_URL") == "default"
    assert settings.get("HUD_API_URL") == "https://api.hud.ai"
    assert settings.location("A") is None
    assert str(settings.location("B")) == f"{project}:3"
    assert str(settings.location("C")) == f"{user}:3"
    assert str(settings.location("D")) == f"{hud_file}:4"
    assert settings.hidden("A") == (".env", "user file", "~/.hud/.env")
    assert settings.hidden("D") == ()


def test_an_empty_value_hides_nothing(own_world: Path) -> None:
    write(own_world / ".env", "HUD_API_KEY=from-file\nONLY_EMPTY=\n")
    settings = load(own_world, HUD_API_KEY="")
    assert settings.get("HUD_API_KEY") == "from-file"
    assert settings.origin("HUD_API_KEY") == ".env"
    assert settings.get("ONLY_EMPTY") is None
    assert settings.lookup("ONLY_EMPTY") == ""


def test_the_name_of_a_setting_may_be_written_in_any_case(own_world: Path) -> None:
    project = write(
        own_world / ".env", "# keys\nhud_api_key=small\nOpenai_Api_Key=mixed\nmine=1\nMINE=2\n"
    )
    write(
        user_file(),
        "wandb_api_key=user\nhf_token=\nHF_TOKEN=shouted\nHUD_CLIENT_TIMEOUT=\n"
        "hud_client_timeout=7\n",
    )
    settings = load(own_world, HUD_API_KEY="", prime_api_key="environment")
    for name, value, origin in (
        ("HUD_API_KEY", "small", ".env"),
        ("OPENAI_API_KEY", "mixed", ".env"),
        ("WANDB_API_KEY", "user", "user file"),
        ("HF_TOKEN", "shouted", "user file"),
        ("HUD_CLIENT_TIMEOUT", "7", "user file"),
        ("PRIME_API_KEY", "environment", "environment"),
    ):
        assert (settings.get(name), settings.lookup(name), settings.origin(name)) == (
            value,
            value,
            origin,
        )
    assert str(settings.location("HUD_API_KEY")) == f"{project}:2" and settings.client_timeout == 7
    assert (settings.get("mine"), settings.get("MINE")) == (
        "1",
        "2",
    )  # no settings: these are two variables
    assert load(own_world, hud_api_key="nearer").get("HUD_API_KEY") == "nearer"
    save_project_setting(own_world, "HUD_API_KEY", "new")
    assert (
        "hud_api_key=new\n" in project.read_text() and load(own_world).get("HUD_API_KEY") == "new"
    )
    assert remove_setting(own_world, "HUD_API_KEY") and load(own_world).get("HUD_API_KEY") is None


def test_the_process_environment_is_the_default(
    own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUD_API_KEY", "k")
    assert load_settings(own_world, HUD).origin("HUD_API_KEY") == "environment"


def test_what_other_tools_keep(own_world: Path) -> None:
    write(
        Path.home() / ".prime" / "config.json",
        json.dumps({"api_key": "pit_1", "base_url": "http://h/api/v1", "team_id": None}),
    )
    write(Path.home() / ".cache" / "huggingface" / "token", "hf_1\n")
    settings = load(own_world)
    assert settings.get("PRIME_API_KEY") == "pit_1"
    assert settings.origin("PRIME_API_KEY") == "~/.prime"
    assert settings.get("PRIME_API_BASE_URL") == "http://h"
    assert settings.get("PRIME_TEAM_ID") is None
    assert settings.get("HF_TOKEN") == "hf_1"
    assert settings.origin("HF_TOKEN") == "Hugging Face login"
    assert load(own_world, HF_HOME=str(own_world)).get("HF_TOKEN") is None
    other = load(own_world, PRIME_API_KEY="pit_2", PRIME_BASE_URL="http://x/api/v1/")
    assert (other.get("PRIME_API_KEY"), other.get("PRIME_API_BASE_URL")) == ("pit_2", "http://x")


def test_broken_files_are_left_out_and_named(own_world: Path) -> None:
    (own_world / ".env").mkdir()
    write(Path.home() / ".prime" / "config.json", "[1, 2")
    write(user_file(), "junk line\nHUD_API_KEY=k\n")
    settings = load(own_world)
    assert settings.get("HUD_API_KEY") == "k"
    assert len(settings.notices) == 3
    assert ".env is left out" in settings.notices[0]
    assert "settings.env:1" in settings.notices[1]
    assert "~/.prime" in settings.notices[2]


def test_variables_of_a_task(own_world: Path) -> None:
    write(own_world / ".env", "BUCKEYE_API_KEY=secret-key\n")
    settings = load(own_world, BUCKEYE)
    assert substitute("Bearer $buckeye_API_KEY", settings.lookup) == ("Bearer secret-key", ())
    assert substitute("${BUCKEYE_MCP_URL} $NOPE", settings.lookup) == (
        "http://localhost:8765/mcp $NOPE",
        ("NOPE",),
    )


def test_secrets_cannot_be_printed_by_accident(own_world: Path) -> None:
    write(own_world / ".env", "HUD_API_KEY=very-secret-value\nMY_TOKEN=other-secret\n")
    settings = load(own_world, WANDB_API_KEY="third-secret", PLAIN="visible-value")
    assert settings.get("HUD_API_KEY") == "very-secret-value"
    everything = "".join(
        [
            repr(settings),
            str(settings),
            repr(vars(settings)["_layers"]),
            repr(check_settings(settings)),
        ]
    )
    assert "secret-value" not in everything
    assert "other-secret" not in everything
    assert settings.shown("HUD_API_KEY") == MASK + "alue"
    assert settings.shown("MY_TOKEN") == MASK
    assert settings.shown("PLAIN") == "visible-value"
    assert settings.shown("NOPE") is None
    log = "sent very-secret-value and third-secret, other-secret to visible-value"
    assert settings.redact(log) == f"sent {MASK} and {MASK}, {MASK} to visible-value"


def test_passwords_in_addresses_are_masked(own_world: Path) -> None:
    settings = load(own_world, OPENAI_BASE_URL="http://me:pass@127.0.0.1/v1")
    assert settings.shown("OPENAI_BASE_URL") == f"http://{MASK}@127.0.0.1/v1"


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("", MASK),
        ("short", MASK),
        ("123456789012345", MASK),
        ("1234567890123456", MASK + "3456"),
        ("a" * 20 + "\x1b[0m", MASK),
    ],
)
def test_mask(secret: str, shown: str) -> None:
    assert mask(secret) == shown


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("FOO_API_KEY", True),
        ("GITHUB_TOKEN", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("db-password", True),
        ("PGPASSWORD", True),
        ("githubtoken", True),
        ("GH_PAT", True),
        ("SUPABASE_JWT", True),
        ("MAX_TOKENS", False),
        ("PATTERN", False),
        ("MONKEY", False),
        ("KEYBOARD_LAYOUT", False),
        ("PRIME_SSH_KEY_PATH", False),
        ("TOKENIZERS_PARALLELISM", False),
    ],
)
def test_names_that_sound_secret(name: str, secret: bool) -> None:
    assert looks_secret(name) is secret


def test_require_says_how_to_get_one(own_world: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(own_world).require("WANDB_API_KEY")
    assert caught.value.what == "WANDB_API_KEY is not set"
    assert "training metrics" in str(caught.value)
    assert "hudtui settings set WANDB_API_KEY" in str(caught.value)
    assert "wandb.ai/authorize" in str(caught.value)
    assert load(own_world, WANDB_API_KEY="k").require("WANDB_API_KEY") == "k"


def test_platform_addresses(own_world: Path) -> None:
    settings = load(own_world, HUD_MCP_URL="http://127.0.0.1:9/mcp/")
    assert settings.url("mcp") == "http://127.0.0.1:9/mcp"
    assert settings.url("web") == "https://hud.ai"
    assert load(own_world, BUCKEYE).url("web") is None


def test_typed_values(own_world: Path) -> None:
    settings = load(
        own_world,
        HUD_API_KEY="sk-hud-1",
        HUD_TELEMETRY_ENABLED="no",
        HUD_CLIENT_TIMEOUT="2.5",
        PRIME_SSH_KEY_PATH="~/.ssh/prime_key.pem",
        HUD_API_URL="https://api.example/",
    )
    checked = check_settings(settings)
    assert checked.problems == {}
    assert checked.values["HUD_TELEMETRY_ENABLED"] is False
    assert checked.values["HUD_CLIENT_TIMEOUT"] == 2.5
    assert checked.values["PRIME_SSH_KEY_PATH"] == Path.home() / ".ssh" / "prime_key.pem"
    assert checked.values["HUD_API_URL"] == "https://api.example"
    assert "sk-hud-1" not in repr(checked.values) + repr(checked)
    assert "OPENAI_API_KEY" not in checked.values


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("HUD_API_KEY", "your-hud-api-key", "placeholder"),
        ("BUCKEYE_API_KEY", "your-BUCKEYE_API_KEY-api-key", "placeholder"),
        ("OPENAI_API_KEY", "YOUR_API_KEY", "placeholder"),
        ("HF_TOKEN", "two words", "character 4"),
        ("HF_TOKEN", "schlüssel", "character 5"),
        ("HUD_API_URL", "api.hud.ai", "http://"),
        ("HUD_API_URL", "https://", "http://"),
        ("HUD_API_URL", "http://[x", "http://"),
        ("HUD_CLIENT_TIMEOUT", "soon", "number of seconds"),
        ("HUD_CLIENT_TIMEOUT", "0", "more than 0"),
        ("HUD_CLIENT_TIMEOUT", "inf", "finite"),
        ("HUD_TELEMETRY_ENABLED", "maybe", "neither true nor false"),
        ("HUDTUI_BUDGET_RUN", "0", "more than 0"),
        ("HUDTUI_BUDGET_DAY", "nan", "more than 0"),
        ("HUDTUI_MAX_HOURS", "-1", "more than 0"),
        ("HUDTUI_IDLE_MINUTES", "a while", "not a number; none means that there is no limit"),
        ("HUDTUI_ALARM_FLAT_STEPS", "0.5", "at least 1"),
        ("HUDTUI_ALARM_BROKEN_PERCENT", "101", "at most 100; none means that there is no alarm"),
        ("HUDTUI_ALARM_QUIET_MINUTES", "never", "not a number; none means that there is no alarm"),
        ("HUDTUI_ALARM_NAN_STEPS", "-1", "more than 0; none means that there is no alarm"),
    ],
)
def test_values_that_cannot_be_right(own_world: Path, name: str, value: str, words: str) -> None:
    checked = check_settings(load(own_world, **{name: value, "WANDB_API_KEY": "fine"}))
    assert list(checked.problems) == [name]
    assert len(value) < 9 or value not in checked.problems[name]
    assert words in checked.problems[name]
    assert name not in checked.values
    assert "WANDB_API_KEY" not in checked.problems and "HUD_MCP_URL" in checked.values
    key = next(key for key in known_settings(HUD) if key.name == name)
    assert words in (check_setting_value(key, value) or "")


def test_saving(own_world: Path) -> None:
    path = save_project_setting(own_world, "HUD_API_KEY", " k1 \n")
    assert path == own_world / ".env"
    assert path.read_text() == "HUD_API_KEY=k1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    other = save_user_setting("HUD_API_KEY", "k2")
    assert other == user_file() == app_paths().settings_file
    assert stat.S_IMODE(other.stat().st_mode) == 0o600
    assert load(own_world).get("HUD_API_KEY") == "k1"
    assert remove_setting(own_world, "HUD_API_KEY") is True
    assert load(own_world).get("HUD_API_KEY") == "k2"
    assert remove_setting(own_world, "HUD_API_KEY", user=True) is True
    assert remove_setting(own_world, "HUD_API_KEY", user=True) is False
    assert load(own_world).get("HUD_API_KEY") is None


def test_slips_in_names() -> None:
    key = check_setting_name("HF_TOKEN", HUD)
    assert key is not None
    assert key.secret
    assert check_setting_name("MY_OWN_VARIABLE", HUD) is None
    for slip in ("HUD_APIKEY", "hf_token", "WANDB_API_KEYS"):
        with pytest.raises(InputError, match="Did you mean"):
            check_setting_name(slip, HUD)
    with pytest.raises(InputError, match="no setting"):
        check_setting_name("A B", HUD)


def test_home_of_ones_own(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(app_paths().config).startswith(os.environ["XDG_CONFIG_HOME"])
    assert str(app_paths().cache).startswith(os.environ["XDG_CACHE_HOME"])
    monkeypatch.setenv("HUDTUI_HOME", str(own_world / "mine"))
    own = app_paths()
    assert (own.config, own.data, own.state, own.cache) == tuple(
        own_world / "mine" / name for name in ("config", "data", "state", "cache")
    )
    assert own.log_file == own_world / "mine" / "state" / "hudtui.log"


def test_loading_imports_neither_pydantic_nor_http() -> None:
    code = (
        "import sys; from pathlib import Path; from hudtui.core.platform import HUD;from "
        "hudtui.core.settings import load_settings; load_settings(Path.cwd(), "
        "HUD).get('HUD_API_KEY');print([name for name in ('pydantic', 'httpx2', 'mcp', 'textual', "
        "'ruamel') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
