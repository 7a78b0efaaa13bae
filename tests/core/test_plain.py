"""Dataclasses as plain values, from many threads."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import hudtui
from hudtui.core.plain import from_plain, to_plain


@dataclasses.dataclass(frozen=True)
class Inner:
    size: int = 1
    name: str | None = None


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()
    many: tuple[Inner, ...] = ()
    named: dict[str, Any] = dataclasses.field(default_factory=dict)
    limit: float | None = None


CONVERT = """
import dataclasses, sys, threading
from hudtui.core.plain import convert, decode

sys.setswitchinterval(1e-6)
for number in range(100):
    inner = dataclasses.make_dataclass("Inner", [(f"a{n}", "int", 0) for n in range(12)])
    many = dataclasses.field(default_factory=dict)
    fields = [("one", inner), ("many", dict[str, tuple[inner, ...]], many)]
    outer = dataclasses.make_dataclass("Outer", fields)
    begin, wrong = threading.Barrier(4), []

    def work(read, data):
        begin.wait()
        found = read(data, outer)
        if (found.one.a1, found.many["x"][0].a3) != (2, 1):
            wrong.append(found)

    plain = {"one": {"a1": 2}, "many": {"x": [{"a3": 1}]}}
    text = '{"one": {"a1": 2}, "many": {"x": [{"a3": 1}]}}'
    works = ((convert, plain), (decode, text)) * 2
    threads = [threading.Thread(target=work, args=given) for given in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
"""


def test_threads_may_convert_to_the_same_class_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONVERT], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr[-1000:]


def test_nothing_is_converted_to_a_class_around_these_functions() -> None:
    root = Path(hudtui.__file__).parent
    found = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(
            r"msgspec\.convert\(|msgspec\.(json|msgpack)\.decode\([^)]*type="
            r"(?!list\[msgspec\.Raw\])",
            path.read_text(),
        )
    ]
    assert found == ["core/plain.py"]


def test_every_name_is_written_also_of_what_was_read_without_it() -> None:
    read = from_plain({"inner": {"size": 2}, "many": [{}], "named": {"a": [1, None]}}, Outer)
    assert to_plain(read) == {
        "inner": {"size": 2, "name": None},
        "many": [{"size": 1, "name": None}],
        "named": {"a": [1, None]},
        "limit": None,
    }
    assert from_plain(to_plain(read), Outer) == read
    assert list(to_plain(read, without=("named", "many"))) == ["inner", "limit"]
