from __future__ import annotations

import json
import resource
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.errors import InputError
from hudtui.core.lockfile import (
    find_lock,
    parse_lock,
    read_lock,
    set_image,
    set_primary_dataset,
)
from hudtui.core.platform import BUCKEYE, HUD
from hudtui.core.yaml_doc import load_yaml

NOW = datetime(2026, 11, 20, 22, 59, 1, 999)

SHORT = """\
image: "my-org/my-env:latest"
primary_dataset:
  name: "my-org/my-tasks"
  task_count: 50
  updated_at: "2024-01-01T00:00:00"
"""

V1_0 = """\
version: '1.0'
image: acme/text-2048:latest@sha256:1111
build:
  generatedAt: '2025-08-20T10:00:00Z'
  hudVersion: 0.4.3
  directory: text_2048
environment:
  initializeMs: 812
  toolCount: 3
  variables:
    _note: filled in by hand
    provided:
      THIRD_PARTY_KEY: tp-0123456789
    required:
    - HUD_API_KEY
tools:
- name: setup
  description: Set up the board
- name: move
push:
  source: acme/text-2048:0.1
  pushedAt: '2025-08-20T11:00:00Z'
  registry: acme
"""

V1_2 = """\
version: '1.2'
images:
  local: text-2048:0.1.4
  full: text-2048:0.1.4@sha256:2222
  pushed: acme/text-2048:0.1.4@sha256:3333
build:
  generatedAt: '2025-12-01T10:00:00.123456+00:00Z'
  hudVersion: 0.4.74
  version: 0.1.4
  sourceHash: abc
  sourceFiles: [a.py, b.py]
  baseImage: python:3.11-slim
  platform: linux/amd64
environment:
  initializeMs: 900.5
  toolCount: 3
  internalToolCount: 3
  runtime: {python: 3.11.9, cuda: null, pytorch: 2}
  variables: {required: [], optional: [DEBUG]}
tools:
- name: setup
  description: Set up
  inputSchema:
    type: object
    properties: {name: {type: string, enum: [board]}, arguments: {type: object}}
  internalTools: [board]
- name: move
  description: |
    Move tiles.

    One direction.
  inputSchema: {type: object, properties: {direction: {type: string}}, required: [direction]}
hubTools:
  setup: [board]
  evaluate: [max_number, efficiency]
"""

V1_3 = V1_2.replace("'1.2'", "'1.3'") + (
    "prompts:\n- {name: p}\nresources:\n- {uri: 'x://y'}\nscenarios:\n- {name: play, arguments: "
    "[]}\n"
)

V2_0 = """\
version: "2.0"
images: {local: env:1, full: null, pushed: null}
build: {generatedAt: "2026-06-01T00:00:00+00:00Z", version: 1.0.0}
environment: {runtime: {python: "3.12"}}
capabilities:
- {kind: mcp, name: main}
tasks:
- {id: play, args: {}}
"""


def write(folder: Path, text: str | bytes, name: str = "hud.lock.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_the_short_form(tmp_path: Path) -> None:
    lock = read_lock(write(tmp_path, SHORT))
    assert lock.version == "1.0"
    assert lock.image == "my-org/my-env:latest"
    assert lock.primary_dataset is not None
    assert (
        lock.primary_dataset.name,
        lock.primary_dataset.task_count,
        lock.primary_dataset.updated_at,
    ) == (
        "my-org/my-tasks",
        50,
        "2024-01-01T00:00:00",
    )
    assert lock.notices == ()


def test_1_0(tmp_path: Path) -> None:
    lock = read_lock(write(tmp_path, V1_0))
    assert lock.image == "acme/text-2048:latest@sha256:1111"
    assert [tool.name for tool in lock.tools] == ["setup", "move"]
    assert lock.tools[0].input_schema is None
    assert lock.initialize_ms == 812.0
    assert lock.variables.required == ("HUD_API_KEY",)
    assert lock.notices == ()


@pytest.mark.parametrize("text", [V1_2, V1_3])
def test_1_2_and_1_3(tmp_path: Path, text: str) -> None:
    lock = read_lock(write(tmp_path, text))
    assert (lock.image_local, lock.image_full, lock.image_pushed) == (
        "text-2048:0.1.4",
        "text-2048:0.1.4@sha256:2222",
        "acme/text-2048:0.1.4@sha256:3333",
    )
    assert lock.image == lock.image_pushed
    assert lock.hubs == {"setup": ("board",), "evaluate": ("max_number", "efficiency")}
    assert lock.tools[0].internal_tools == ("board",)
    assert lock.tools[1].input_schema is not None
    assert lock.tools[1].input_schema["required"] == ["direction"]
    assert "One direction." in lock.tools[1].description
    assert lock.environment_version == "0.1.4"
    assert lock.variables.optional == ("DEBUG",)
    assert lock.notices == ()
    assert [len(part) for part in (lock.prompts, lock.resources, lock.scenarios)] == (
        [1, 1, 1] if "1.3" in lock.version else [0, 0, 0]
    )


def test_2_0(tmp_path: Path) -> None:
    lock = read_lock(write(tmp_path, V2_0))
    assert (lock.version, lock.image, lock.tools) == ("2.0", "env:1", ())
    assert len(lock.tasks) == 1


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("images: {local: l, full: f, pushed: p}\nimage: i\n", "p"),
        ("images: {local: l, full: f, pushed: null}\nimage: i\n", "f"),
        ("images: {local: l}\nimage: i\n", "i"),
        ("images: {local: l, full: ''}\n", "l"),
        ("image: i\n", "i"),
    ],
)
def test_which_image(text: str, image: str) -> None:
    assert parse_lock(text, Path("l")).image == image


@pytest.mark.parametrize(
    ("text", "here"),
    [
        ("image: my-env:latest\n", "my-env:latest"),
        ("image: my-env@sha256:1111\n", "my-env"),
        ("image: 127.0.0.1:5000/me/my-env@sha256:1111\n", "127.0.0.1:5000/me/my-env@sha256:1111"),
        ("image: local/my-env\n", "local/my-env"),
        ("image: localhost/my-env:1\n", "localhost/my-env:1"),
        ("image: localhost:5000/me/my-env:1\n", "localhost:5000/me/my-env:1"),
        ("images: {local: my-env:1}\n", "my-env:1"),
        ("images: {local: my-env:1, full: 'my-env:1@sha256:22', pushed: null}\n", "my-env:1"),
        ("images: {full: 'my-env:1@sha256:22', pushed: null}\n", "my-env:1"),
        (
            "images: {local: org/my-env:1, full: 'org/my-env:1@sha256:22', pushed: null}\n",
            "org/my-env:1",
        ),
        ("images: {full: 'my-env@sha256:22', pushed: null}\n", "my-env"),
        (
            "images: {local: my-env:1, full: 'my-env:1@sha256:22', pushed: "
            "'org/my-env@sha256:33'}\n",
            None,
        ),
        ("images: {local: my-env, full: org/my-env:1}\n", None),
        (
            "images: {local: my-env:1, full: 'my-env:1@sha256:22'}\nimage: "
            "'ghcr.io/org/my-env@sha256:33'\n",
            None,
        ),
        ("image: org/my-env:latest\n", None),
        ("image: ghcr.io/org/my-env\n", None),
        ("tools: []\n", None),
    ],
)
def test_an_image_that_only_this_computer_has(text: str, here: str | None) -> None:
    lock = parse_lock(text, Path("l"))
    assert lock.image_here == here
    assert here is not None or lock.image is None or "org/" in lock.image


def test_versions_that_do_not_say() -> None:
    assert parse_lock("images: {local: x}\n", Path("l")).version == "1.1"
    assert parse_lock("version: 1.0\nimage: x\n", Path("l")).version == "1.0"
    lock = parse_lock("version: '3.7'\nimage: x\n", Path("l"))
    assert lock.version == "3.7"
    assert "3.7" in lock.notices[0]


def test_odd_fields_are_left_out_and_named() -> None:
    text = """\
image: [x]
version: {}
build: text
environment:
  initializeMs: fast
  toolCount: true
  variables: {required: HUD_API_KEY, provided: [A, B]}
tools:
- name: ok
  inputSchema: [1]
- description: nameless
- just-a-name
- 7
primary_dataset: {task_count: 3}
hubTools: [setup]
"""
    lock = parse_lock(text, Path("l.yaml"))
    assert lock.image is None
    assert [tool.name for tool in lock.tools] == ["ok", "just-a-name"]
    assert lock.tools[0].input_schema is None
    assert (lock.initialize_ms, lock.primary_dataset, lock.hubs) == (None, None, {})
    places = [notice.split(" ")[0] for notice in lock.notices]
    for line in (1, 2, 3, 5, 7, 10, 11, 13, 14, 15):
        assert any(place.startswith(f"l.yaml:{line}") for place in places), (line, lock.notices)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["x", "1.0", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "local",
                    "pushed",
                    "variables",
                    "provided",
                    "generatedAt",
                    "inputSchema",
                    "internalTools",
                ]
            ),
            inner,
        )
    ),
    max_leaves=12,
)
tops = st.sampled_from(
    [
        "version",
        "image",
        "images",
        "build",
        "environment",
        "tools",
        "hubTools",
        "prompts",
        "tasks",
        "primary_dataset",
        "own",
    ]
)


@given(st.dictionaries(tops, json_like))
@settings(deadline=None, max_examples=150)
def test_no_content_makes_reading_fail(data: dict[str, object]) -> None:
    text = json.dumps(data)
    lock = parse_lock(text, Path("l"))
    assert lock.raw == data
    repr(lock)


def test_values_of_variables_are_not_shown(tmp_path: Path) -> None:
    assert "tp-0123456789" not in repr(read_lock(write(tmp_path, V1_0)))


def test_finding(tmp_path: Path) -> None:
    assert find_lock(tmp_path, HUD) is None
    path = write(tmp_path, SHORT, "buckeye.lock.yaml")
    assert find_lock(tmp_path, BUCKEYE) == path
    assert find_lock(tmp_path, HUD) is None
    (tmp_path / "hud.lock.yaml").mkdir()
    assert find_lock(tmp_path, HUD) is None


# Edits


def test_the_primary_dataset_is_written_as_in_the_short_form(tmp_path: Path) -> None:
    path = write(tmp_path, 'image: "my-org/my-env:latest"\n')
    set_primary_dataset(path, "my-org/my-tasks", 50, datetime(2024, 1, 1))
    assert path.read_text() == SHORT


@pytest.mark.parametrize(
    "text", [SHORT, V1_0, V1_2, V1_3, V2_0], ids=["short", "1.0", "1.2", "1.3", "2.0"]
)
def test_the_primary_dataset_in_every_format(tmp_path: Path, text: str) -> None:
    commented = (
        "# made by the build\n"
        + text.replace("build:", "# how it was made\nbuild:")
        + "# the end\n"
    )
    path = write(tmp_path, commented)
    set_primary_dataset(path, "o/n", 7, NOW)
    lock = read_lock(path)
    assert lock.primary_dataset is not None
    assert (
        lock.primary_dataset.name,
        lock.primary_dataset.task_count,
        lock.primary_dataset.updated_at,
    ) == (
        "o/n",
        7,
        "2026-11-20T22:59:01",
    )
    changed = path.read_text()
    kept = [
        line
        for line in commented.split("\n")
        if "my-tasks" not in line and "50" not in line and "2024-01-01" not in line
    ]
    assert [line for line in changed.split("\n") if line in kept] == kept
    set_primary_dataset(path, "o/n", 7, NOW)
    assert path.read_text() == changed


def test_images(tmp_path: Path) -> None:
    path = write(tmp_path, V1_2)
    set_image(path, "acme/text-2048:0.1.5@sha256:4444")
    assert path.read_text() == V1_2.replace(
        "acme/text-2048:0.1.4@sha256:3333", '"acme/text-2048:0.1.5@sha256:4444"'
    )
    set_image(path, "x:2", "full")
    assert read_lock(path).image_full == "x:2"
    old = write(tmp_path, V1_0, "old.yaml")
    set_image(old, "acme/text-2048:0.2")
    assert old.read_text() == V1_0.replace(
        "acme/text-2048:latest@sha256:1111", '"acme/text-2048:0.2"'
    )
    new = write(tmp_path, V2_0, "new.yaml")
    set_image(new, "acme/env:1")
    assert read_lock(new).image == "acme/env:1"


def test_line_ends_and_marks_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfimage: x  # c\r\nversion: '1.0'\r\n")
    set_primary_dataset(path, "o/n", 1, datetime(2026, 1, 1))
    assert path.read_bytes() == (
        b"\xef\xbb\xbfimage: x  # c\r\nversion: '1.0'\r\n"
        b'primary_dataset:\r\n  name: "o/n"\r\n  task_count: 1\r\n  updated_at: '
        b'"2026-01-01T00:00:00"\r\n'
    )


def test_the_encoding_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "image: ü  # c\r\n".encode("utf-16"))
    set_image(path, "x:2")
    assert path.read_bytes() == 'image: "x:2"  # c\r\n'.encode("utf-16")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("image: x\nimage: y\n", 2),
        ("image: [x\n", 1),
        ("image: x\n\tversion: 1\n", 2),
        ("- a list\n", 1),
        ("just text\n", 1),
        ("image: x\nprimary_dataset: text\n", 2),
        (b"image: \xff\n", 1),
    ],
)
def test_a_broken_file_is_never_overwritten(tmp_path: Path, text: str | bytes, line: int) -> None:
    path = write(tmp_path, text)
    before = path.read_bytes()
    for edit in (lambda: set_primary_dataset(path, "o/n", 1, NOW), lambda: set_image(path, "x")):
        if b"primary_dataset" in before and "image" in str(edit):
            continue
        with pytest.raises(InputError) as caught:
            edit()
        assert path.read_bytes() == before
        assert caught.value.where is not None
        assert (caught.value.where.file, caught.value.where.line) == (str(path), line)
        if b"primary_dataset" in before:
            break


def test_reading_what_is_no_lock(tmp_path: Path) -> None:
    for text, words in (
        ("", "empty"),
        ("# only\n", "empty"),
        ("- a\n", "mapping"),
        ("a: [", "ends in the middle"),
    ):
        with pytest.raises(InputError, match=words):
            read_lock(write(tmp_path, text))


def test_a_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        set_image(tmp_path / "nowhere" / "hud.lock.yaml", "x")
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk(tmp_path: Path) -> None:
    path = write(tmp_path, V1_2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1]))
    try:
        with pytest.raises(InputError, match="unchanged"):
            set_primary_dataset(path, "o/n", 1, NOW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == V1_2
    assert [item.name for item in tmp_path.iterdir()] == ["hud.lock.yaml"]


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(words, st.integers(0, 10**9), st.sampled_from([SHORT, V1_0, V1_2, V1_3, V2_0]))
@settings(deadline=None, max_examples=100)
def test_any_name_comes_back(
    tmp_path_factory: pytest.TempPathFactory, name: str, count: int, text: str
) -> None:
    path = tmp_path_factory.mktemp("lock") / "l.yaml"
    path.write_text(text)
    set_primary_dataset(path, name, count, NOW)
    after = load_yaml(path.read_bytes().decode(), name="l").data
    assert after.pop("primary_dataset") == {
        "name": name,
        "task_count": count,
        "updated_at": "2026-11-20T22:59:01",
    }
    before = load_yaml(text, name="l").data
    before.pop("primary_dataset", None)
    assert after == before
    assert list(after) == list(before)


@pytest.mark.parametrize("name", [" #", "a # b", "it's # 1", 'say "#" # 2'])
def test_a_name_with_the_sign_of_a_comment_comes_back_and_no_comment_is_lost(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "l.yaml"
    path.write_text(SHORT.replace("\n", "  # kept\n", 1) + "# the end\n")
    set_primary_dataset(path, name, 3, NOW)
    text = path.read_text()
    assert load_yaml(text, name="l").data["primary_dataset"]["name"] == name
    assert "  # kept\n" in text and text.count("# the end\n") == 1


EDIT_MANY = """
import sys
from datetime import datetime
from pathlib import Path
from hudtui.core.lockfile import set_image, set_primary_dataset
for number in range(8):
    if sys.argv[1] == "dataset":
        set_primary_dataset(Path("hud.lock.yaml"), "o/n", number, datetime(2026, 1, 1))
    else:
        set_image(Path("hud.lock.yaml"), f"{sys.argv[1]}:{number}", sys.argv[1])
"""


def test_programs_edit_one_file(tmp_path: Path) -> None:
    path = write(tmp_path, "# keep\n" + V1_2)
    kinds = ("dataset", "pushed", "full")
    children = [
        subprocess.Popen([sys.executable, "-c", EDIT_MANY, kind], cwd=tmp_path) for kind in kinds
    ]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    lock = read_lock(path)
    assert lock.primary_dataset is not None
    assert (lock.primary_dataset.task_count, lock.image_pushed, lock.image_full) == (
        7,
        "pushed:7",
        "full:7",
    )
    assert path.read_text().startswith("# keep\n")
