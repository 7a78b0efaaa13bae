"""The records of trackers' files as values: what the real libraries wrote, junk, secrets, size."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.tracker_files import (
    TENSORBOARD,
    WANDB_ENVIRONMENT,
    WANDB_HISTORY,
    WANDB_RUN,
    WANDB_STATS,
    field,
    wandb_file,
)

from hudtui.core.runs.records import record_line
from hudtui.core.training.tracker_records import EventRecords, Record, WandbRecords


def wandb(*records: bytes) -> list[Record]:
    reader = WandbRecords()
    for byte in wandb_file(records):
        assert reader.feed(bytes([byte])) == []
    return reader.records


def setting(name: str, value: Any) -> bytes:
    """A record of W&B that sets a value."""
    item = field(1, name.encode()) + field(16, json.dumps(value).encode())
    return field(5, field(1, item))


def test_records_of_a_run_of_wandb() -> None:
    run, stats, history, about = wandb(WANDB_RUN, WANDB_STATS, WANDB_HISTORY, WANDB_ENVIRONMENT)
    assert (run.number, run.kind, run.value["display_name"]) == (1, "run", "long")
    assert run.value["config"]["update"]["model"] == {"name": "tiny", "layers": 4}
    assert stats.value["item"]["gpu.1.gpu"] == 20
    assert stats.value["timestamp"] == 1700000030.5
    assert history.value["item"]["train/reward"] == 0.21899553290626303
    assert history.value["item"]["nested/a"] == 6 and history.value["item"]["text"] == "hi"
    assert (about.number, about.value["os"], about.value["cpu"]["model"]) == (4, "Linux-6", "EPYC")


def test_records_of_tensorboard() -> None:
    reader = EventRecords()
    reader.feed(TENSORBOARD)
    first, *steps = reader.records
    assert first.value["file_version"] == "brain.Event:2"
    assert [one.value.get("step", 0) for one in steps] == [0, 1, 2]
    assert steps[0].value["summary"]["value"]["tag"] == "loss"


def test_secrets_are_masked_and_long_texts_cut() -> None:
    secret, long, deep = wandb(
        setting("api_key", "sk-very-secret"),
        setting("note", "x" * 1_000_000),
        setting("deep", [[["y" * 100] * 100] * 100] * 2),
    )
    assert "very-secret" not in record_line(secret)
    assert "996,000 characters more" in long.value["update"]["note"]
    assert len(json.dumps(deep.value)) < 1_000_000


def test_what_a_terminal_would_obey_is_text() -> None:
    (record,) = wandb(field(13, field(3, b"\x1b]0;evil\x07\x1b[2J")))
    assert record.kind == "output_raw" and "\x1b" not in record_line(record)


def test_what_is_not_known_is_counted() -> None:
    unknown, broken = wandb(field(90, b"abc"), b"\xff\xff\xff")
    assert (unknown.kind, unknown.value) == ("unknown", "<6 bytes>")
    assert (broken.kind, broken.number) == ("unreadable", 2)
    assert wandb(field(4, field(3, b"\xff\x00")))[0].value == {"line": "<2 bytes>"}


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 120))
def test_any_record_is_one_line(pieces: list[bytes], number: int) -> None:
    for record in wandb(*pieces, *(field(number, piece) for piece in pieces)):
        assert "\n" not in record_line(record) and record_line(record).isprintable()
        json.loads(json.dumps(record.to_json(), allow_nan=False))


def test_a_field_that_is_repeated_is_a_list_however_often() -> None:
    tags = [f"tag {number}" for number in range(100_000)]
    run, alone = wandb_at_once(
        field(17, b"".join(field(10, tag.encode()) for tag in tags)), field(17, field(10, b"one"))
    )
    assert run.value["tags"][:3] == tags[:3] and "values more" in run.value["tags"][-1]
    assert alone.value["tags"] == "one"


def test_a_number_in_the_place_of_an_item_is_a_number() -> None:
    item = field(1, field(1, b"a") + field(16, b"1"))
    (record,) = wandb(field(5, item + b"\x08\x05" + item))
    assert record.value == {"update": {"a": 1}, "1": 5}


def wandb_at_once(*records: bytes) -> list[Record]:
    reader = WandbRecords()
    reader.feed(wandb_file(records))
    return reader.records
