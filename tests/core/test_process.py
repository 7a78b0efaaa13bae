"""Marks of machines and processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from hudtui.core.process import is_running, is_this_machine, machine_id, machine_label, process_mark


def test_a_machine_is_known_by_its_id_whatever_its_name_is(monkeypatch: pytest.MonkeyPatch) -> None:
    label, mark, name = machine_label(), machine_id(), socket.gethostname()
    assert label.startswith(name) and is_this_machine(label) and is_this_machine(mark)
    monkeypatch.setattr(socket, "gethostname", lambda: "name-by-another-network")
    assert machine_id() == mark
    if mark != name:
        assert is_this_machine(label) and is_this_machine(mark) and not is_this_machine(name)
    assert (
        not is_this_machine("another")
        and not is_this_machine("another 0123456789abcdef")
        and not is_this_machine("")
    )


def test_a_process_is_known_by_its_number_and_its_start() -> None:
    assert is_running(process_mark())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = process_mark(child.pid)
    assert is_running(mark)
    child.communicate(b"\n")
    assert not is_running(mark)
    if os.path.exists("/proc/self/stat"):
        assert not is_running(f"{os.getpid()}:1"), "another process of the same number"


@pytest.mark.parametrize("mark", ["", ":", "0:", "-1:", "x:1", "99999999999999999999:"])
def test_what_is_not_a_mark_is_not_running(mark: str) -> None:
    assert not is_running(mark)
