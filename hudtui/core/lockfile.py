"""Lock files.

What an environment's build wrote down about it (`hud.lock.yaml`, `buckeye.lock.yaml`). Formats 1.0
to 2.0 are read, and the short form that holds `image` and `primary_dataset` alone. Reading is
lenient: a field of the wrong kind is left out and named in `LockFile.notices`. Edits change the one
value in place; a file that does not parse is never written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from hudtui.core.errors import InputError
from hudtui.core.files import edit_text, file_lock, read_text
from hudtui.core.platform import Platform
from hudtui.core.yaml_doc import Scalar, YamlDocument, YamlPath, load_yaml, set_values

KNOWN_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "2.0")
_OWN_KEYS = frozenset(
    ("image", "images", "tools", "primary_dataset", "build", "hubTools", "capabilities")
)

ImageKind = Literal["local", "full", "pushed"]


@dataclass(frozen=True)
class LockedTool:
    """A tool as the build saw it."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments; None in the oldest files."""
    internal_tools: tuple[str, ...] = ()
    """Functions that this tool dispatches to."""


@dataclass(frozen=True)
class PrimaryDataset:
    """The dataset made from this environment's tasks."""

    name: str
    task_count: int | None = None
    updated_at: str | None = None
    """ISO time, as written."""


@dataclass(frozen=True)
class LockedVariables:
    """Environment variables of the environment."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class LockFile:
    """A lock file."""

    path: Path
    version: str
    """Version of the format; `1.0` when the file does not say."""
    image: str | None = None
    """The image to run elsewhere: pushed, else full, else `image` of format 1.0, else the local
    one."""
    image_local: str | None = None
    image_full: str | None = None
    image_pushed: str | None = None
    image_here: str | None = None
    """Name of the image in this computer's container engine, if no registry has it."""
    tools: tuple[LockedTool, ...] = ()
    hubs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tools that dispatch to functions -> the functions' names."""
    primary_dataset: PrimaryDataset | None = None
    environment_version: str | None = None
    initialize_ms: float | None = None
    """Milliseconds that the environment took to start."""
    variables: LockedVariables = LockedVariables()
    prompts: tuple[Mapping[str, Any], ...] = ()
    resources: tuple[Mapping[str, Any], ...] = ()
    scenarios: tuple[Mapping[str, Any], ...] = ()
    tasks: tuple[Any, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The whole document. May hold secrets."""
    notices: tuple[str, ...] = ()
    """Oddities of the file, each with its line."""

    @property
    def has_lock_fields(self) -> bool:
        """True if the file has any field of a lock file; other YAML files have none."""
        return not _OWN_KEYS.isdisjoint(self.raw)

    @property
    def images(self) -> frozenset[str]:
        """Every name that the file has for the image."""
        names = (self.image, self.image_local, self.image_full, self.image_pushed, self.image_here)
        return frozenset(name for name in names if name is not None)


def find_lock(folder: Path, platform: Platform) -> Path | None:
    """The platform's lock file in a folder, if it is there."""
    path = folder / platform.lock_name
    return path if path.is_file() else None


def read_lock(path: Path) -> LockFile:
    """Read a lock file of any version.

    Raises:
        InputError: The file cannot be read, is not valid YAML, or its top is not a mapping; with
            the line.
    """
    return parse_lock(read_text(path), path)


def parse_lock(text: str, path: Path) -> LockFile:
    """`read_lock` for a text; errors call it `path`."""
    document = load_yaml(text, name=str(path))
    if not isinstance(document.data, dict):
        what = (
            "this lock file is empty"
            if document.data is None
            else "a lock file is a mapping of fields"
        )
        raise InputError(what, where=document.location())
    return _LockReader(document, path).lock()


def set_primary_dataset(path: Path, name: str, task_count: int, now: datetime) -> None:
    """Record in place which dataset was made from the tasks.

    Args:
        path: An existing lock file.
        name: The dataset, e.g. `my-org/my-tasks`.
        task_count: How many tasks it holds.
        now: When; written to the second.

    Raises:
        InputError: The file cannot be read, parsed, changed without harm, or written. It is then
            unchanged.
    """
    changes: dict[YamlPath, Scalar] = {
        ("primary_dataset", "name"): name,
        ("primary_dataset", "task_count"): task_count,
        ("primary_dataset", "updated_at"): now.isoformat(timespec="seconds"),
    }
    _edit(path, lambda data: changes)


def set_image(path: Path, image: str, kind: ImageKind = "pushed") -> None:
    """Record an image with its digest in place.

    Under `images`, or as `image` in a file of format 1.0.

    Raises:
        InputError: As for `set_primary_dataset`.
    """

    def change(data: Mapping[str, Any]) -> Mapping[YamlPath, Scalar]:
        listed = isinstance(data.get("images"), dict) or "image" not in data
        return {("images", kind) if listed else ("image",): image}

    _edit(path, change)


def _edit(path: Path, change: Callable[[Mapping[str, Any]], Mapping[YamlPath, Scalar]]) -> None:
    def edit(text: str) -> str:
        document = load_yaml(text, name=str(path))
        if document.data is not None and not isinstance(document.data, dict):
            raise InputError(
                "a lock file is a mapping of fields; it is left as it is", where=document.location()
            )
        return set_values(text, change(document.data or {}), name=str(path))

    read_text(path)  # a missing file is an error before the lock below makes its folder
    with file_lock(path):
        edit_text(path, edit)


class _LockReader:
    """Takes fields of the right kind out of a document and notes the others."""

    def __init__(self, document: YamlDocument, path: Path) -> None:
        self.document = document
        self.path = path
        self.notices: list[str] = []

    def lock(self) -> LockFile:
        data = self.document.data
        images = self.mapping(("images",))
        for path in (("build",), ("environment",), ("environment", "variables")):
            self.mapping(path)
        local, full, pushed = (self.text(("images", kind)) for kind in ("local", "full", "pushed"))
        plain = self.text(("image",)) if not isinstance(data.get("image"), Mapping) else None
        image, here = self.image(local, full, pushed, plain)
        if image is None:
            self.notices.append(f"{self.path}: no image is named here")
        version = self.version("images" in data and bool(images))
        tools = tuple(
            tool
            for index, item in enumerate(self.items(("tools",)))
            if (tool := self.tool(index, item))
        )
        hubs = {name: self.texts(("hubTools", name)) for name in self.mapping(("hubTools",))}
        hubs.update(
            {
                tool.name: tool.internal_tools
                for tool in tools
                if tool.internal_tools and tool.name not in hubs
            }
        )
        return LockFile(
            path=self.path,
            version=version,
            image=image,
            image_local=local,
            image_full=full,
            image_pushed=pushed,
            image_here=here,
            tools=tools,
            hubs=hubs,
            primary_dataset=self.dataset(),
            environment_version=self.text(("build", "version")),
            initialize_ms=self.number(("environment", "initializeMs")),
            variables=LockedVariables(
                required=self.texts(("environment", "variables", "required")),
                optional=self.texts(("environment", "variables", "optional")),
            ),
            prompts=self.records(("prompts",)),
            resources=self.records(("resources",)),
            scenarios=self.records(("scenarios",)),
            tasks=tuple(self.items(("tasks",))),
            raw=data,
            notices=tuple(self.notices),
        )

    def image(
        self, local: str | None, full: str | None, pushed: str | None, plain: str | None
    ) -> tuple[str | None, str | None]:
        """Return the image to run elsewhere, and its name in this computer's engine.

        The name is there where no registry has the image.
        """
        if pushed is not None:
            return pushed, None
        # A build writes `pushed: null`: what stands under `full` is then a name and the id of the
        # build, and in no registry.
        candidates = (plain,) if "pushed" in self.mapping(("images",)) else (full, plain, local)
        chosen = next(
            (name for name in candidates if name is not None and not is_local_image(name)), None
        )
        if chosen is not None:
            return chosen, None
        # A registry on this computer knows the digest; without a registry it is the id of a build,
        # which engines do not take.
        here = plain or full or ""
        return full or plain or local, local or (
            here if _REGISTRY_HERE.match(here) else here.partition("@")[0]
        ) or None

    def version(self, has_images: bool) -> str:
        value = self.document.data.get("version")
        if value is None:
            return "1.1" if has_images else "1.0"
        text = str(value) if not isinstance(value, (dict, list)) else "?"
        if text not in KNOWN_VERSIONS:
            self.note(("version",), f"format {text!r} is not known; read as {KNOWN_VERSIONS[-2]}")
        return text

    def tool(self, index: int, item: Any) -> LockedTool | None:
        path = ("tools", index)
        name = (
            self.text((*path, "name"))
            if isinstance(item, Mapping)
            else item
            if isinstance(item, str)
            else None
        )
        if not name:
            self.note(path, "a tool without a name is left out")
            return None
        if isinstance(item, str):
            return LockedTool(name)
        schema = item.get("inputSchema", item.get("input_schema"))
        if schema is not None and not isinstance(schema, Mapping):
            self.note(
                (*path, "inputSchema"), f"the schema of {name} is not a mapping, and is left out"
            )
            schema = None
        return LockedTool(
            name,
            self.text((*path, "description")) or "",
            schema,
            self.texts((*path, "internalTools")),
        )

    def dataset(self) -> PrimaryDataset | None:
        if not self.mapping(("primary_dataset",)):
            return None
        name = self.text(("primary_dataset", "name"))
        if not name:
            self.note(("primary_dataset",), "a primary dataset without a name is left out")
            return None
        updated = self.text(("primary_dataset", "updated_at"))
        return PrimaryDataset(name, self.whole(("primary_dataset", "task_count")), updated)

    def note(self, path: YamlPath, message: str) -> None:
        self.notices.append(f"{self.document.location(path)}: {message}")

    def value(self, path: YamlPath, kinds: type | tuple[type, ...], words: str) -> Any:
        content = self.document.at(path)
        if content is None or (isinstance(content, kinds) and not isinstance(content, bool)):
            return content
        self.note(path, f"this should be {words}, and is left out")
        return None

    def text(self, path: YamlPath) -> str | None:
        content = self.value(path, (str, int, float), "a text")
        return None if content is None or str(content).strip() == "" else str(content)

    def number(self, path: YamlPath) -> float | None:
        content = self.value(path, (int, float), "a number")
        return None if content is None else float(content)

    def whole(self, path: YamlPath) -> int | None:
        content: int | None = self.value(path, int, "a whole number")
        return content

    def mapping(self, path: YamlPath) -> dict[str, Any]:
        return self.value(path, dict, "a mapping") or {}

    def items(self, path: YamlPath) -> list[Any]:
        return self.value(path, list, "a list") or []

    def records(self, path: YamlPath) -> tuple[Mapping[str, Any], ...]:
        return tuple(item for item in self.items(path) if isinstance(item, Mapping))

    def texts(self, path: YamlPath) -> tuple[str, ...]:
        return tuple(str(item) for item in self.items(path) if isinstance(item, (str, int, float)))


_REGISTRY_HERE = re.compile(r"[^/]*:\d+/")


def is_local_image(name: str) -> bool:
    """Return True if only the computer that built an image knows it by this name.

    A registry needs an organisation (`org/name`) or a host (`ghcr.io/org/name`): `my-env:latest`,
    `local/my-env`, and what podman calls `localhost/my-env` have neither, and a registry on this
    computer is reached from no other one.
    """
    first, slash, _ = name.partition("/")
    if not slash:
        return True
    host = first.lower()
    if host.startswith("["):
        return host.startswith("[::1]")
    host = host.partition(":")[0]
    return host in ("local", "localhost", "host.docker.internal", "0.0.0.0") or host.startswith(
        "127."
    )
