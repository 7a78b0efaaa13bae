"""What a user writes on runs, and how their settings differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hudtui.core.errors import InputError
from hudtui.core.runs.compare import Difference, differences, value_text
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import FileRef

Make = Callable[..., RunRecord]


def test_a_name_and_a_comment_are_kept(store: RunStore, make: Make) -> None:
    record = make(run="a-1")
    store.add(record)
    before = store.summary("a-1").updated
    store.rename("a-1", "  larger batch ")
    store.comment("a-1", "reward flat\nsince step 40")
    summary = RunStore(store.state_dir).summary("a-1")
    assert (summary.name, summary.comment) == ("larger batch", "reward flat\nsince step 40")
    assert summary.updated == before, "a name is no sign of life"
    assert store.find("larger batch") == "a-1"
    again = store.record("a-1")
    assert again.name == "larger batch" and (again.id, again.folder, again.own) == (record.id, record.folder, record.own)
    store.comment("a-1", " ")
    assert store.summary("a-1").comment == ""


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\x1b[31m", "a\nb"])
def test_what_is_no_name_is_refused(store: RunStore, make: Make, name: str) -> None:
    store.add(make(run="a-1"))
    with pytest.raises(InputError, match="not a name for a run"):
        store.rename("a-1", name)
    with pytest.raises(InputError, match="2,001 characters"):
        store.comment("a-1", "x" * 2001)
    assert len(store.events("a-1")) == 1


def spec(record: RunRecord, **changes: Any) -> RunRecord:
    return replace(record, spec=replace(record.spec, **changes))


def test_settings_that_differ(make: Make) -> None:
    first = spec(make(run="a-1"), training={"rate": 1e-6, "steps": 200}, seed=1)
    second = spec(make(run="b-2"), training={"rate": 1e-5, "steps": 200}, seed=1, name="other", workspace="/elsewhere")
    assert differences([first, second]) == (Difference("training.rate", (1e-6, 1e-5)),)
    assert differences([first, first]) == ()
    assert differences([spec(first, engine="rollouts", gpus=1), spec(first, engine="rollouts", gpus=2)]) == ()
    assert differences([spec(first, engine="trl", gpus=1), spec(first, engine="trl", gpus=2)]) == (Difference("gpus", (1, 2)),)
    third = spec(make(run="c-3"), training={"steps": 200}, seed=1)
    (one,) = differences([first, second, third])
    assert one.values == (1e-6, 1e-5, None) and [value_text(value) for value in one.values] == ["1e-06", "1e-05", "-"]


def test_a_file_differs_by_its_content(make: Make) -> None:
    here, there = FileRef("/a/tasks.json", 10, "a" * 64), FileRef("/b/tasks.json", 10, "a" * 64)
    changed = FileRef("/a/tasks.json", 12, "b" * 64)
    first = spec(make(run="a-1"), tasks=here)
    assert differences([first, spec(first, tasks=there)]) == ()
    found = differences([first, spec(first, tasks=changed)])
    assert [one.field for one in found] == ["tasks.size", "tasks.sha256"]
    assert value_text(found[1].values[0]) == "a" * 12
