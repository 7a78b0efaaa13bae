"""The preferences that the app keeps, and the keymap file that the user writes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

FILE = "tui.json"
KEYMAP_FILE = "keymap.toml"
KEPT = 100


@dataclass(frozen=True)
class Preferences:
    """Kept from one start to the next."""

    theme: str = ""
    """Empty for the default."""
    mouse: bool = True
    """Whether the app takes the mouse."""
    bell: bool = True
    """Whether the terminal's bell rings when a run ends or has an alarm."""
    desktop: bool = False
    """Whether the terminal shows a desktop notification then."""
    configs: tuple[tuple[str, str], ...] = ()
    """Project folder and the configuration that was open there last; the newest last, no more than
    `KEPT`."""
    noted: tuple[str, ...] = ()
    """Machines of which the user has noted that they were taken back; the newest last, no more than
    `KEPT`."""
    places: tuple[tuple[str, str, Mapping[str, str]], ...] = ()
    """Project folder, the screen that was open there last, and the place on it; the newest last, no
    more than `KEPT`."""
    pinned: tuple[str, ...] = ()
    """Charts that come first, by their keys; no more than `KEPT`."""
    followed: tuple[tuple[str, Mapping[str, str]], ...] = ()
    """Project folder and an external run that is listed there (`ExternalPlace.fields`); the newest
    last, no more than `KEPT`."""


def load(path: Path) -> Preferences:
    """Read the file; missing and invalid values have their defaults.

    What `from_environment` returns takes precedence.
    """
    return replace(_saved(path), **from_environment())


def _saved(path: Path) -> Preferences:
    """What the file says.

    A change is made to this, since the environment of one start is not for the next.
    """
    try:
        data = _read(path)
    except ValueError:
        data = {}
    theme, mouse = data.get("theme"), data.get("mouse")
    return Preferences(
        theme if isinstance(theme, str) else "",
        mouse if isinstance(mouse, bool) else True,
        data.get("bell") is not False,
        data.get("desktop") is True,
        _rows(data.get("configs"), str, str),
        _names(data.get("noted")),
        _rows(data.get("places"), str, str, dict),
        _names(data.get("pinned")),
        _rows(data.get("followed"), str, dict),
    )


def from_environment(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the preferences that `HUDTUI_MOUSE` and `HUDTUI_THEME` decide, for this start alone.

    They are never written down.
    """
    found: dict[str, Any] = {}
    word = environ.get("HUDTUI_MOUSE", "").lower()
    if word in ("off", "0", "no", "false"):
        found["mouse"] = False
    elif word in ("on", "1", "yes", "true"):
        found["mouse"] = True
    if theme := environ.get("HUDTUI_THEME"):
        found["theme"] = theme
    return found


def _read(path: Path) -> dict[str, Any]:
    """The object of the file, empty where there is no text.

    ValueError if the text is no JSON object.
    """
    try:
        raw = path.read_text(encoding="utf-8")
    except OSError:
        raw = ""
    if not raw:
        return {}
    import json

    data = json.loads(raw)
    if not isinstance(data, dict):
        raise ValueError("not an object")
    return data


def set_aside(path: Path) -> tuple[str, ...]:
    """Rename a file that holds no JSON object, before a change replaces it.

    Returns notices for the user.
    """
    try:
        _read(path)
    except ValueError:
        other = path.with_name(path.name + ".broken")
        try:
            os.replace(path, other)
        except OSError as error:
            return (
                f"{path} is not readable and cannot be renamed ({error.strerror}); the next change "
                "replaces it",
            )
        return (
            f"{path.name} was not readable and is now {other}; theme, mouse, bell and places have "
            "their defaults",
        )
    return ()


def _names(found: object) -> tuple[str, ...]:
    names = found if isinstance(found, list) else []
    return tuple(name for name in names if isinstance(name, str))[-KEPT:]


def _rows(found: object, *kinds: type) -> tuple[Any, ...]:
    """The rows of a list whose values are of these kinds; the values of a mapping are texts."""
    rows = (
        [row for row in found if isinstance(row, list) and len(row) == len(kinds)]
        if isinstance(found, list)
        else []
    )
    return tuple(
        tuple(row)
        for row in rows
        if all(map(isinstance, row, kinds))
        and all(
            isinstance(text, str)
            for value in row
            if isinstance(value, dict)
            for text in value.values()
        )
    )[-KEPT:]


def row_of(rows: Iterable[tuple[Any, ...]], folder: Path) -> tuple[Any, ...] | None:
    """What is remembered of a folder, without its name."""
    return next((row[1:] for row in rows if row[0] == str(folder)), None)


def with_row(rows: Iterable[tuple[Any, ...]], folder: Path, *row: Any) -> tuple[Any, ...]:
    """The rows with another one for a folder; with none for it where nothing is given."""
    others = [one for one in rows if one[0] != str(folder)]
    return tuple([*others, (str(folder), *row)] if row else others)[-KEPT:]


def change(path: Path, **changes: Any) -> Preferences:
    """Write changed preferences, and return what is kept now.

    In a folder that cannot be written they last until the app ends.
    """
    import contextlib
    import json

    from hudtui.core.errors import HudtuiError
    from hudtui.core.files import write_atomic

    set_aside(path)
    new = replace(_saved(path), **changes)
    with contextlib.suppress(HudtuiError):
        write_atomic(path, json.dumps(asdict(new), indent=2) + "\n", mode=0o600)
    return new


def load_keymap(path: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """The user's keys by action id, and what is wrong with the file, one sentence each.

    What is right in it counts all the same.
    """
    if not path.is_file():
        return {}, ()
    import tomllib

    from hudtui.core.errors import HudtuiError
    from hudtui.core.files import read_text
    from hudtui.core.text import did_you_mean
    from hudtui.tui.actions import REGISTRY, load_all_actions

    try:
        data = tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, HudtuiError) as error:
        return {}, (f"{path.name} is not used: {error}",)
    load_all_actions()
    keymap: dict[str, str] = {}
    complaints: list[str] = []
    for name, keys in _flat(data):
        if name not in REGISTRY:
            near = did_you_mean(name, REGISTRY)
            complaints.append(
                f"{path.name}: there is no action {name!r}"
                + (f"; did you mean {near!r}?" if near else "")
            )
        elif not isinstance(keys, str) or not keys.strip():
            complaints.append(f'{path.name}: {name} needs a text with keys, as in "ctrl+g,f5"')
        else:
            given = [key.strip() for key in keys.split(",") if key.strip()]
            complaints += [
                f"{path.name}: {name}: there is no key {key!r}" for key in given if not _is_key(key)
            ]
            if known := [key for key in given if _is_key(key)]:
                keymap[name] = ",".join(known)
    return keymap, tuple(complaints)


def _is_key(key: str) -> bool:
    """Whether Textual knows a key.

    A character or its name, or the name of another key, such as `pagedown` or `ctrl+f5`.
    """
    from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

    name = key.rpartition("+")[2] or "+"
    names = {one.value.rpartition("+")[2] for one in Keys} | set(KEY_NAME_REPLACEMENTS.values())
    return len(name) == 1 or name in names or key_to_character(name) is not None


def _flat(data: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Both spellings: `"home.next" = "n"`, and `next = "n"` below `[home]`."""
    found: list[tuple[str, Any]] = []
    for name, value in data.items():
        found += (
            _flat(value, f"{prefix}{name}.")
            if isinstance(value, dict)
            else [(prefix + name, value)]
        )
    return found
