from __future__ import annotations

import io
import os
import re
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from dotenv import dotenv_values
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.dotenv import MAX_BYTES, MAX_REFERENCES, read_env, set_value, unset_value
from hudtui.core.errors import InputError

SAMPLE = """\
# Keys. Do not commit.

export HUD_API_KEY = "old one" # mine
WANDB_API_KEY=abc  # w
  'QUOTED'='x'
# PRIME_API_KEY=pit_...
HF_TOKEN= # get it at the web site
MULTI='line one
line two'
WANDB_API_KEY=second

not a line of this kind
LAST=1"""


def with_value(text: str, name: str, value: str, folder: Path) -> str:
    """The text of a file after a value was set in it; a file that must not change does not."""
    path = folder / ".env"
    path.write_bytes(text.encode())
    try:
        set_value(path, name, value)
    except InputError:
        assert path.read_bytes() == text.encode()
        raise
    return path.read_bytes().decode()


def without_value(text: str, name: str, folder: Path) -> str:
    path = folder / ".env"
    path.write_bytes(text.encode())
    assert unset_value(path, name) is (path.read_bytes() != text.encode())
    return path.read_bytes().decode()


def values(text: str, tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "x.env"
    path.write_bytes(text.encode())
    return {name: entry.value for name, entry in read_env(path).entries.items()}


def test_reading(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(SAMPLE)
    file = read_env(path)
    assert {name: (entry.value, entry.line) for name, entry in file.entries.items()} == {
        "HUD_API_KEY": ("old one", 3),
        "WANDB_API_KEY": ("second", 10),
        "QUOTED": ("x", 5),
        "HF_TOKEN": ("", 7),
        "MULTI": ("line one\nline two", 8),
        "LAST": ("1", 13),
    }
    again, bad = file.notices
    assert ":10:" in again
    assert "line 4" in again
    assert ":12:" in bad
    assert "abc" not in str(file)
    assert "abc" not in "".join(file.notices)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('A=1\n\nB="abc # x\nC=2\n', 3, 'the quote " is not closed'),
        ("export B='abc\nC=2\n", 1, "the quote ' is not closed"),
        ('B="abc\nD="x"\nC=2\n', 1, 'the quote " is not closed'),
        ('B="abc" abc\nC=2\n', 1, "text follows the closing quote"),
        ("B abc\nC=2\n", 1, "this is not NAME=value"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    path = tmp_path / ".env"
    path.write_text(text)
    file = read_env(path)
    (notice,) = file.notices
    assert f":{line}: {said}" in notice and "abc" not in notice
    assert file.entries["C"].value == "2" and "B" not in file.entries


def test_references_are_replaced_as_python_dotenv_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTSIDE", "o")
    assert values("A=1\nB=${A}x\nC=${OUTSIDE}\nD=${NOPE:-d}\nE=$A\n", tmp_path) == {
        "A": "1",
        "B": "1x",
        "C": "o",
        "D": "d",
        "E": "$A",
    }


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert read_env(tmp_path / "missing").entries == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A=xxxxxxxx\n" + "A=${A}${A}\n" * 60, "references in this file make it larger"),
        ("A=1\n" * 100_000, "too large: at most 100,000 bytes"),
        ("A=" + "${" * 40_000, "too many references"),
        ("A=x" + " " * 40_000 + "y", "a thousand blanks in a row"),
    ],
)
def test_a_small_file_does_not_take_all_memory_or_time(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / ".env").write_text(text)
    with pytest.raises(InputError, match=words):
        read_env(tmp_path / ".env")


def test_many_values_that_build_on_one_another(tmp_path: Path) -> None:
    text = "V0=start\n" + "".join(f"V{n}=${{V{n - 1}}}\n" for n in range(1, MAX_REFERENCES))
    assert values(text, tmp_path)[f"V{MAX_REFERENCES - 1}"] == "start"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, words in (
        (".", "this is a folder"),
        ("pipe", "not a regular file"),
        ("zero", "not a regular file"),
    ):
        with pytest.raises(InputError, match=words):
            read_env(tmp_path / name)
    (tmp_path / "big").write_bytes(b"A=1\n" * (MAX_BYTES // 4 + 1))
    with pytest.raises(InputError, match="too large"):
        read_env(tmp_path / "big")
    (tmp_path / "latin").write_bytes("A=\xfc\n".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8"):
        read_env(tmp_path / "latin")


@pytest.mark.parametrize(
    ("name", "value", "old", "new"),
    [
        ("HUD_API_KEY", "new", 'export HUD_API_KEY = "old one" # mine', "export HUD_API_KEY=new"),
        (
            "HUD_API_KEY",
            "it's",
            'export HUD_API_KEY = "old one" # mine',
            'export HUD_API_KEY="it\'s"',
        ),
        ("QUOTED", "z", "  'QUOTED'='x'", "QUOTED=z"),
        ("QUOTED", "", "  'QUOTED'='x'", "QUOTED="),
        ("HF_TOKEN", "hf_1", "HF_TOKEN= # get it at the web site", "HF_TOKEN=hf_1"),
        ("MULTI", "one", "MULTI='line one\nline two'", "MULTI=one"),
        ("LAST", "", "LAST=1", "LAST=\n"),
        ("LAST", "$A#'x\\", "LAST=1", 'LAST="$A#\'x\\\\"\n'),
        ("last", "a b", "LAST=1", "LAST='a b'\n"),
        ("NEW", "1", "LAST=1", "LAST=1\nNEW=1\n"),
        ("NEW", "two\nlines", "LAST=1", 'LAST=1\nNEW="two\\nlines"\n'),
    ],
)
def test_only_the_value_changes(name: str, value: str, old: str, new: str, tmp_path: Path) -> None:
    changed = with_value(SAMPLE, name, value, tmp_path)
    assert changed == SAMPLE.replace(old, new)
    assert values(changed, tmp_path)[name.upper()] == value


def test_each_assignment_of_a_name_is_changed(tmp_path: Path) -> None:
    changed = with_value(SAMPLE, "WANDB_API_KEY", "third", tmp_path)
    assert changed.count("WANDB_API_KEY=third\n") == 2 and "second" not in changed


def test_a_name_in_another_case_is_the_same_name(tmp_path: Path) -> None:
    text = "hud_api_key=old\nOther=1\n"
    assert with_value(text, "HUD_API_KEY", "new", tmp_path) == "hud_api_key=new\nOther=1\n"
    assert without_value(text, "HUD_API_KEY", tmp_path) == "Other=1\n"
    both = text + "HUD_API_KEY=mine\n"
    assert with_value(both, "HUD_API_KEY", "new", tmp_path) == text + "HUD_API_KEY=new\n"


def test_line_ends_are_kept(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"\xef\xbb\xbf# c\r\nA=1\r\nB='x'\r\n")
    set_value(path, "A", "2")
    set_value(path, "C", "3")
    assert path.read_bytes() == b"\xef\xbb\xbf# c\r\nA=2\r\nB='x'\r\nC=3\r\n"


def test_removal(tmp_path: Path) -> None:
    assert without_value(SAMPLE, "WANDB_API_KEY", tmp_path) == SAMPLE.replace(
        "WANDB_API_KEY=abc  # w\n", ""
    ).replace("WANDB_API_KEY=second\n", "")
    assert without_value(SAMPLE, "MULTI", tmp_path) == SAMPLE.replace(
        "MULTI='line one\nline two'\n", ""
    )
    assert without_value(SAMPLE, "NOPE", tmp_path) == SAMPLE
    assert without_value("# c\n\nA=1\n", "A", tmp_path) == "# c\n\n"


def test_files_get_mode_600(tmp_path: Path) -> None:
    path = tmp_path / "sub" / ".env"
    set_value(path, "A", "1")
    assert path.read_text() == "A=1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    set_value(path, "A", "1")  # nothing changes but the mode
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_links_are_followed(tmp_path: Path) -> None:
    real = tmp_path / "real" / "keys"
    real.parent.mkdir()
    real.write_text("A=1\n")
    (tmp_path / ".env").symlink_to(real)
    set_value(tmp_path / ".env", "A", "2")
    assert (tmp_path / ".env").is_symlink()
    assert real.read_text() == "A=2\n"


def test_unset_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    assert unset_value(path, "A") is False
    assert not path.exists()
    path.write_text("A=1\nB=2\n")
    assert unset_value(path, "A") is True
    assert unset_value(path, "A") is False
    assert path.read_text() == "B=2\n"


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=", "Ä", "A\n"])
def test_names_that_cannot_be(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name of a variable"):
        set_value(tmp_path / ".env", name, "1")
    assert not (tmp_path / ".env").exists()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a\x00b", "U+0000"),
        ("\x1b[0m", "U+001B"),
        ("\ud800", "half"),
        ("a${B}c", "reference to another variable"),
    ],
)
def test_values_that_cannot_be_kept(value: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("A=old\n")
    with pytest.raises(InputError) as caught:
        set_value(path, "A", value)
    assert words in str(caught.value)
    assert path.read_text() == "A=old\n"


def test_a_file_in_another_encoding_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    data = "A=1\n".encode("utf-16")
    path.write_bytes(data)
    assert read_env(path).entries["A"].value == "1"
    with pytest.raises(InputError, match="not UTF-8"):
        set_value(path, "A", "2")
    assert path.read_bytes() == data


def test_an_open_quote_is_not_made_worse(tmp_path: Path) -> None:
    broken = 'A="never closed\nB=1\n'
    assert with_value(broken, "B", "2", tmp_path) == 'A="never closed\nB=2\n'
    with pytest.raises(InputError, match="without harm"):
        # It would close the open quote of the first line.
        with_value('X="open\n', "B", 'say "hi"', tmp_path)


names = st.sampled_from(["A", "B", "LONG_NAME", "export_me"])
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    [
        "a b",
        "#x",
        "it's",
        'say "x"',
        "a\\b",
        "\n",
        "x\ny",
        " lead",
        "$A",
        "`x`",
        "a=b",
        "\\n",
        "'",
        '"',
        "\\",
        "é",
        "\u2028",
    ]
)
lines = st.one_of(
    st.builds(
        "{}={}".format,
        names,
        st.sampled_from(["", "x", "'q'", '"d"', "a # c", "'a b' # c", '"x\\ny"', "'two\nlines'"]),
    ),
    st.builds("export {} = {}".format, names, st.sampled_from(["x", "'q'", '"d"'])),
    st.sampled_from(["", "# comment", "#A=1", "  # B=x", "junk line", "FLAG", "\t"]),
)
files = st.lists(lines, max_size=8).flatmap(
    lambda rows: st.builds(
        lambda end, last: end.join(rows) + last,
        st.sampled_from(["\n", "\r\n"]),
        st.sampled_from(["", "\n"]),
    )
)


def plain(text: str) -> dict[str, str | None]:
    return dict(dotenv_values(stream=io.StringIO(text, newline=""), interpolate=False))


@given(files, names, texts)
@settings(max_examples=300, deadline=None)
def test_a_saved_value_comes_back_and_all_else_stays(text: str, name: str, value: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            changed = with_value(text, name, value, Path(folder))
        except InputError as error:
            assert (
                "${" in value or "without harm" in error.what or "control character" in error.what
            )
            return
        before, after = plain(text), plain(changed)
        assert after[name] == value
        rest = {key: item for key, item in before.items() if key != name}
        assert rest == {key: item for key, item in after.items() if key != name}
        lines = re.compile(r"^#[^\r\n]*", re.MULTILINE)
        assert set(lines.findall(text)) <= set(lines.findall(changed))
        assert with_value(changed, name, value, Path(folder)) == changed
        assert plain(without_value(changed, name, Path(folder))) == rest


@given(files, names)
@settings(max_examples=100, deadline=None)
def test_ordinary_keys_can_always_be_saved(text: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert plain(with_value(text, name, "sk-Ab1_9.x", Path(folder)))[name] == "sk-Ab1_9.x"


SAVE_MANY = """
import sys
import tempfile
from pathlib import Path
from hudtui.core.dotenv import set_value
for number in range(15):
    set_value(Path(".env"), sys.argv[1], str(number))
"""


def test_programs_edit_one_file(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# keep\nZ=1\n")
    children = [
        subprocess.Popen([sys.executable, "-c", SAVE_MANY, name], cwd=tmp_path)
        for name in ("A", "B", "C")
    ]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert sorted(path.read_text().splitlines()) == ["# keep", "A=14", "B=14", "C=14", "Z=1"]
    assert [item.name for item in tmp_path.iterdir()] == [".env"]
