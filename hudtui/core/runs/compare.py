"""How the settings of runs differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.core.runs.store import RunRecord
from hudtui.core.text import clean_line

_OF_EVERY_RUN = frozenset({"name", "workspace", "remarks", "continues"})
"""Fields of a spec that say nothing about what the run does."""


@dataclass(frozen=True)
class Difference:
    """A setting that is not the same in all runs."""

    field: str
    """Dotted name in the spec, such as `training.learning_rate`."""
    values: tuple[Any, ...]
    """The value in each run, in the order of the runs; None where a run leaves it to the engine."""


def differences(records: Sequence[RunRecord]) -> tuple[Difference, ...]:
    """Return the settings in which runs differ, in the order of the spec's fields.

    A file counts as different if its content is (`sha256`), wherever it lies.
    """
    flat = [dict(_settings(record)) for record in records]
    names = list(dict.fromkeys(name for fields in flat for name in fields))
    found = []
    for name in names:
        values = tuple(fields.get(name) for fields in flat)
        if any(value != values[0] for value in values[1:]):
            found.append(Difference(name, values))
    changed = {one.field.rpartition(".")[0] for one in found if one.field.endswith(".sha256")}
    return tuple(one for one in found if not _same_file(one.field, flat[0], changed))


def _same_file(name: str, fields: Mapping[str, Any], changed: set[str]) -> bool:
    """Whether a field is the path or size of a file with the same content in all runs."""
    owner, _, part = name.rpartition(".")
    return part in ("path", "size") and f"{owner}.sha256" in fields and owner not in changed


def _settings(record: RunRecord) -> Iterator[tuple[str, Any]]:
    """The settings of a run by dotted name. Of a rented machine, only what decides about speed and price."""
    for key, value in record.spec.to_json().items():
        if key == "rent" and record.spec.rent is not None:
            offer = record.spec.rent.offer
            yield "machine.provider", offer.provider
            yield "machine.gpus", f"{offer.gpu_count}x{offer.gpu_type}"
            yield "machine.cloud", offer.cloud
            yield "machine.spot", offer.spot
            yield "machine.hourly", offer.price.hourly
        elif key not in _OF_EVERY_RUN and (key != "gpus" or record.spec.engine != "rollouts"):  # rollouts use none
            yield from _flat(value, key)


def _flat(data: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _flat(value, f"{name}.{key}")
    else:
        yield name, data


def value_text(value: Any) -> str:
    """Return a value of a setting as text; a dash where the run leaves it to the engine. Digests are cut."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value[:12] if len(value) == 64 and set(value) <= set("0123456789abcdef") else clean_line(value)
    return clean_line(json.dumps(value))
