"""Trust: what the files of a project folder may make hudtui do. Nothing, until the user agrees.

The files of a cloned or unpacked folder can cause actions: `.env` names keys and addresses, a lock
file an image to run, a task file servers to start or to send keys to, a configuration code that
scores, `.hudtui/runs.db` runs to continue. Each such action is a `Power`. Reading a folder uses no
power. Code that uses one calls `require` first, which raises `Untrusted` with the powers that the
user has not agreed to; commands and screens show them, ask once, and call `agree`.

Agreements are kept in the user's state folder, one file for each project, with a digest of exactly
what each power does. If a file changes so that it does something else, hudtui asks again, and only
about the change.

Runs are marked separately: a run belongs to this user if `mark_run` has recorded it with a digest
of its plan. Anyone who opens a folder can read its runs, but hudtui acts on marked runs only.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hudtui.core.errors import InputError, Location
from hudtui.core.files import file_lock, write_atomic
from hudtui.core.paths import app_paths, private_folder
from hudtui.core.text import clean_line, in_full

Kind = Literal["command", "code", "address", "key", "setting", "variable", "limit", "run"]

VARIABLE = "HUDTUI_TRUST"
"""Environment variable: folders, separated as in PATH, below which every file is trusted; for
containers and CI."""
RUN_VARIABLE = "HUDTUI_TRUST_RUN"
"""The same for the programs of a run: the folder with its own files, which were agreed to when it
was started."""

_IN_AN_ERROR = 300
"""Characters of an action in an error, which is not the question about it."""
_NAMED = 5
_HEADINGS: Mapping[Kind, str] = {
    "command": "start a program",
    "code": "run Python code",
    "address": "connect to",
    "key": "use a key of this folder",
    "setting": "take a setting of this folder",
    "variable": "put a value of this folder into commands and addresses that name it",
    "limit": "obey a limit of this folder",
    "run": "act on a run that was not started here by you",
}


@dataclass(frozen=True)
class Power:
    """One action that a file of a project folder asks for."""

    kind: Kind
    text: str
    """The whole action in one line for people. Only known secrets are masked, and what a terminal
    would not show is escaped."""
    file: Path
    """The file that asks for it."""
    token: str
    """Digest of exactly what would be done: equal tokens mean equal powers."""
    line: int | None = None
    """Line of the file, counting from 1, if it is known."""
    secret: str | None = field(default=None, repr=False, compare=False)
    """The value of a key. It is not in the token, which anyone could try values against."""

    @property
    def heading(self) -> str:
        """The kind, as the end of the sentence "this folder would have hudtui ..."."""
        return _HEADINGS[self.kind]

    def to_json(self) -> dict[str, str]:
        """The form of `hudtui trust --json`."""
        return {"kind": self.kind, "text": self.text, "file": str(self.file)}


@dataclass(frozen=True)
class Agreement:
    """A power that the user agreed to, as it was shown then."""

    kind: str
    text: str
    file: str
    seal: str = ""
    """For a key: a salt, and a digest of the salt and the value; empty for other powers."""

    def covers(self, one: Power) -> bool:
        """Return True if this is about the same value of a key. The tokens are equal."""
        return one.secret is None or secrets.compare_digest(
            self.seal, _seal(one.secret, self.seal.partition(":")[0])
        )


class Untrusted(InputError):
    """The user has not agreed to an action that this folder's files ask for. None of it was done.

    Args:
        folder: The project folder.
        powers: What the user has not agreed to.
    """

    def __init__(self, folder: Path, powers: Sequence[Power]) -> None:
        first, more = powers[0], len(powers) - 1
        text = clean_line(first.text, _IN_AN_ERROR)
        why = f"{in_full(first.file.name)} would have hudtui {first.heading}: {text}"
        if first.kind == "key" and first.line is not None:
            ours = [
                one for one in powers if one.kind == "key" and one.line and one.file == first.file
            ]
            keys = {
                one.text.partition(",")[0]: one.line or 0 for one in ours
            }  # behind a comma: what it takes from elsewhere
            why, more = standing(keys, first.file.name), len(powers) - len(keys)
        super().__init__(
            "this folder is not trusted, and this needs something that its files ask for",
            why=why + (f" (and {more} more)" if more else ""),
            fix=(
                "See all of it with `hudtui trust --show`; agree with `hudtui trust`, or with "
                "`hudtui --trust ...` in a script."
            ),
            where=Location(str(folder)),
        )
        self.folder = folder
        self.powers = tuple(powers)


def standing(lines: Mapping[str, int], file: str) -> str:
    """A sentence that says where variables stand which do not count.

    Args:
        lines: Line of each variable. Of more than five, the first are named.
        file: Name of the file.
    """
    if len(lines) == 1:
        ((name, line),) = lines.items()
        return f"{name} stands in {file}, line {line}, which is not trusted"
    named = [f"{name} (line {line})" for name, line in lines.items()]
    some = (
        named if len(named) <= _NAMED else [*named[: _NAMED - 1], f"{len(named) - _NAMED + 1} more"]
    )
    return f"{', '.join(some[:-1])} and {some[-1]} stand in {file}, which is not trusted"


def power(
    kind: Kind,
    text: str,
    file: Path,
    *exact: Any,
    line: int | None = None,
    secret: str | None = None,
) -> Power:
    """A power, with the digest of `exact` as its token.

    Args:
        kind: Its kind.
        text: What it does, whole: what a user agrees to is what is shown. Values that equal known
            secrets are masked already, and nothing else: what follows a word such as `token=` may
            be a command.
        file: The file that asks for it.
        exact: Everything that decides what it does, as JSON values.
        line: See `Power`, as the next.
        secret: The value of a key.
    """
    action = json.dumps([kind, *exact], sort_keys=True, default=str)
    return Power(
        kind,
        in_full(text),
        file,
        hashlib.sha256(action.encode("utf-8", "surrogatepass")).hexdigest(),
        line,
        secret,
    )


def agreed(folder: Path) -> Mapping[str, Agreement]:
    """The powers that the user has agreed to in this folder, by token.

    Empty for a folder that is not trusted.
    """
    try:
        data = json.loads(agreements_file(folder).read_bytes())
        return {
            str(token): Agreement(
                str(item["kind"]), str(item["text"]), str(item["file"]), str(item.get("seal", ""))
            )
            for token, item in data["agreed"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def missing(folder: Path, powers: Iterable[Power]) -> tuple[Power, ...]:
    """Return the powers that the user has not agreed to, each once."""
    known = agreed(folder)
    always = _always()
    by_token: dict[str, Power] = {}
    for one in powers:
        if not (one.token in known and known[one.token].covers(one)) and not _below(
            one.file, always
        ):
            by_token.setdefault(one.token, one)
    return tuple(by_token.values())


def require(folder: Path, powers: Iterable[Power]) -> None:
    """Raise unless the user has agreed to all `powers` in this folder.

    Raises:
        Untrusted: The user has not agreed to some of them.
    """
    if lacking := missing(folder, powers):
        raise Untrusted(folder, lacking)


def agree(folder: Path, powers: Iterable[Power]) -> None:
    """Record that the user agrees to `powers` in this folder, in addition to earlier agreements.

    Raises:
        InputError: The state folder cannot be written.
    """
    path = agreements_file(folder)
    try:
        private_folder(path.parent)
        with file_lock(path):
            kept = {token: vars(item) for token, item in agreed(folder).items()}
            kept |= {one.token: _agreement(one) for one in powers}
            data = {"version": 1, "folder": _real(folder), "agreed": kept}
            write_atomic(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n", mode=0o600)
    except OSError as error:
        raise InputError(
            "this agreement cannot be kept",
            why=error.strerror or str(error),
            where=Location(str(path)),
        ) from None


def _agreement(one: Power) -> dict[str, str]:
    return {
        **one.to_json(),
        **({} if one.secret is None else {"seal": _seal(one.secret, secrets.token_hex(16))}),
    }


def _seal(value: str, salt: str) -> str:
    return (
        f"{salt}:{hashlib.sha256(f'{salt}:{value}'.encode('utf-8', 'surrogatepass')).hexdigest()}"
    )


def revoke(folder: Path) -> bool:
    """Delete every agreement about this folder and the marks of its runs.

    Returns whether there were any.
    """
    path, marks = agreements_file(folder), _marks(folder / ".hudtui" / "runs.db")
    existed = path.exists() or marks.exists()
    path.unlink(missing_ok=True)
    shutil.rmtree(marks, ignore_errors=True)
    return existed


def replaced(folder: Path, powers: Iterable[Power]) -> tuple[Agreement, ...]:
    """Agreements about the files of `powers` that no power matches any more.

    The old half of a change.
    """
    by_token = {one.token: one for one in powers}
    files = {str(one.file) for one in powers}
    runs = []
    for token, item in agreed(folder).items():
        if item.file in files and token not in by_token:
            runs.append(item)
        elif token in by_token and not item.covers(by_token[token]):
            runs.append(replace(item, text=f"{item.text}, with another value"))
    return tuple(runs)


# --- runs -----------------------------------------------------------------------------------------


def mark_run(store: Path, run: str, content: str) -> None:
    """Record that this user has started a run or takes it over: from now on hudtui may act on it.

    Args:
        store: The file that keeps the run.
        run: Its id.
        content: All that decides what it does; any change of it makes the mark invalid.

    Raises:
        InputError: The state folder cannot be written.
    """
    path = _marks(store) / _name(run)
    try:
        private_folder(path.parent)
        write_atomic(path, hashlib.sha256(content.encode()).hexdigest(), mode=0o600)
    except OSError as error:
        raise InputError(
            "this run cannot be marked as yours",
            why=error.strerror or str(error),
            where=Location(str(path)),
        ) from None


def owns_run(store: Path, run: str, content: str) -> bool:
    """Return True if `mark_run` was called for this run with the same content."""
    try:
        return (_marks(store) / _name(run)).read_text() == hashlib.sha256(
            content.encode()
        ).hexdigest()
    except (OSError, ValueError):
        return False


def _name(run: str) -> str:
    return hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(_real(path))).hexdigest()[:32]


def agreements_file(folder: Path) -> Path:
    """The file that keeps what the user has agreed to in a folder. It need not exist."""
    return app_paths().state / "trust" / f"{_digest(folder)}.json"


def _marks(store: Path) -> Path:
    return app_paths().state / "runs" / _digest(store)


def _always() -> tuple[Path, ...]:
    names = [
        name
        for one in (VARIABLE, RUN_VARIABLE)
        for name in os.environ.get(one, "").split(os.pathsep)
    ]
    return tuple(Path(_real(Path(name))) for name in names if name)


def _below(file: Path, folders: Sequence[Path]) -> bool:
    real = Path(_real(file.parent)) / file.name
    return any(real.is_relative_to(folder) for folder in folders)
