"""Files of W&B, TensorBoard and trackio: records that the real libraries wrote, and what they stand
in."""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

WANDB_HISTORY = bytes.fromhex(
    "081d12e7010a0a12026b6c8201034e614e0a131209677261645f6e6f726d820105302e3030310a1d1217636f6d706c6574696f6e732f6d65616e5f6c656e677468820101370a0d120474657874820104226869220a25120a5f74696d657374616d70820116312e37393534323237383434343330333335652b30390a1712085f72756e74696d6582010a302e39303333353633330a0f12066e6573746564120161820101360a0b12055f73746570820101360a24120c747261696e2f726577617264820113302e32313839393535333239303632363330330a0e12046c6f7373820105302e31323512020806"
)
"""A record of wandb 0.31.0: step 6 of a run that logs NaN, a text and a nested number."""

WANDB_RUN = bytes.fromhex(
    "08018a017a0a036162631a0567616d657322610a0c0a026c7282010531652d30350a270a056d6f64656c82011d7b"
    "226e616d65223a202274696e79222c20226c6179657273223a20347d0a130a065f77616e64628201087b2278223a"
    "20317d0a130a047461677382010a5b2261222c202262225d42046c6f6e676a03626f78"
)
WANDB_CONFIG = bytes.fromhex(
    "2a220a2012096f7074696d697a65721205626574617382010b5b302e392c20302e39355d"
)
WANDB_ENVIRONMENT = bytes.fromhex(
    "d201590a074c696e75782d36120e43507974686f6e20332e31312e372a072d2d73746570732a01394a0612046166"
    "30376203626f7880010892010b4e56494449412048313030980102aa010708808080808002b201061a0445505943"
)
WANDB_STATS = bytes.fromhex(
    "3a42120c089ee2cfaa061080cab5ee011a120a096770752e302e67707582010435352e351a100a096770752e312e"
    "67707582010232301a0c0a03637075820104332e3235"
)
"""Records of wandb 0.31.0: a run with settings, more of them, its machine, a sample of its load."""

TENSORBOARDX = bytes.fromhex(
    "1800000000000000a37f4b2209904484"
    "90fec0da411a0d627261696e2e4576656e743a329d7e423c"
    "2000000000000000"
    "29eda950"
    "09c3888590fec0da412a150a130a0c747261696e2f726577617264156e9c8f3e"
    "853636fe"
    "1800000000000000"
    "a37f4b22"
    "094e898590fec0da412a0d0a0b0a046c6f7373150000003f"
    "39cf1488"
)
"""The beginning of a file of tensorboardX 2.6.5: two scalars of step 0, which is not written."""

TENSORBOARD = bytes.fromhex(
    "4800000000000000fe92489d0948187b15ffc0da411a0d627261696e2e4576656e743a32522e0a2c74656e736f72626f6172642e73756d6d6172792e7772697465722e6576656e745f66696c655f7772697465724af116512e00000000000000c5cb57fa09fd1f7b15ffc0da412a230a210a046c6f7373420a080112002a040000803f4a0d0a090a077363616c6172732001c3a05e69300000000000000095f5d05f09ba227b15ffc0da4110012a230a210a046c6f7373420a080112002a040000003f4a0d0a090a077363616c61727320015aa6975c300000000000000095f5d05f093f237b15ffc0da4110022a230a210a046c6f7373420a080112002a04abaaaa3e4a0d0a090a077363616c61727320019b6fd1b2"
)
"""A whole file of tensorboard 2.21.0: three steps, whose values are tensors."""


def wandb_file(records: Iterable[bytes]) -> bytes:
    """The file of a W&B run with these records, cut into chunks at the ends of blocks as LevelDB
    cuts them."""
    made = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        rest, first = record, True
        while first or rest:
            left = 32768 - len(made) % 32768
            if left < 7:
                made += bytes(left)
                continue
            piece, rest = rest[: left - 7], rest[left - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[
                first, not rest
            ]
            made += struct.pack("<IHB", zlib.crc32(bytes([kind]) + piece), len(piece), kind) + piece
            first = False
    return bytes(made)


def history(values: Mapping[str, Any]) -> bytes:
    """A record of W&B with these values, each under 128 bytes as JSON."""
    items = b""
    for name, value in values.items():
        text = json.dumps(value).encode()
        item = b"\x12" + bytes([len(name)]) + name.encode() + b"\x82\x01" + _size(len(text)) + text
        items += b"\x0a" + _size(len(item)) + item
    return b"\x12" + _size(len(items)) + items


def stats(at: int, values: Mapping[str, float]) -> bytes:
    """A record of W&B with a sample of the load of the machine, at a time in seconds."""
    items = (
        field(3, field(1, name.encode()) + field(16, json.dumps(value).encode()))
        for name, value in values.items()
    )
    return field(7, field(2, b"\x08" + _size(at)) + b"".join(items))


def field(number: int, data: bytes) -> bytes:
    """A field of a protobuf message that holds bytes."""
    return _size(number << 3 | 2) + _size(len(data)) + data


def trackio_file(path: Path, rows: Iterable[tuple[str, int, Mapping[str, Any]]]) -> None:
    """Add rows (run, step, values) to a database as trackio 0.43.0 keeps it, in SQLite's
    write-ahead log."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(
            "CREATE TABLE IF NOT EXISTS metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT "
            "NOT NULL, timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL, "
            "metrics TEXT NOT NULL, log_id TEXT, space_id TEXT)"
        )
        moment = "2026-11-23T08:33:10.488935+00:00"
        found = [
            ("id", moment, run, step, json.dumps(values).encode()) for run, step, values in rows
        ]
        database.executemany(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, "
            "?)",
            found,
        )


def _size(number: int) -> bytes:
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])
