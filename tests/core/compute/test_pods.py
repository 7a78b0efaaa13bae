"""The ledger: what is written before a machine is asked for, and what may follow."""

from __future__ import annotations

import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.values import Address, Offer, Order, Pod, Price
from hudtui.core.errors import InputError, MachineError

OFFER = Offer("prime", "a/b", "H100_80GB", 2, Price(4.2, "EUR"), raw={"cloudId": "a"})


def _order(name: str = "hudtui-a") -> Order:
    return Order(name, OFFER, image="ubuntu")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "deep" / "pods.db")


def test_intent_is_on_disk_with_its_order(ledger: Ledger) -> None:
    assert ledger.records() == ()
    assert not ledger.path.exists()
    made = ledger.reserve(_order(), provider="prime", run="r1", workspace=Path("/w"))
    assert (made.state, made.pod, made.run, made.workspace, made.hourly, made.currency) == (
        *("intended", None, "r1", "/w"),
        *(4.2, "EUR"),
    )
    assert made.open and made.held
    assert made.order == replace(_order(), offer=replace(OFFER, raw={}))
    assert Ledger(ledger.path).records() == (made,)


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"name": "a", "offer": {"price": 3}}'])
def test_an_order_that_cannot_be_read_hides_no_machine(ledger: Ledger, text: str) -> None:
    ledger.reserve(_order(), provider="prime")
    with sqlite3.connect(ledger.path) as database:
        database.execute("UPDATE machines SET order_json = ?", (text,))
    (record,) = ledger.records()
    assert record.open and record.order is None and record.hourly == 4.2
    assert record.last_pod().gpu_type == "" and record.to_json()["order"] is None


def test_only_its_owner_reads_it(ledger: Ledger) -> None:
    ledger.reserve(_order(), provider="prime")
    for file in ledger.path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_name_is_used_once(ledger: Ledger) -> None:
    ledger.reserve(_order(), provider="prime")
    ledger.update("hudtui-a", "never", why="no")
    with pytest.raises(InputError, match="already used"):
        ledger.reserve(_order(), provider="prime")


def test_found_by_name_and_by_id(ledger: Ledger) -> None:
    ledger.reserve(_order(), provider="prime")
    noted = ledger.update("hudtui-a", "created", pod="p1", hourly=5.0)
    assert (noted.state, noted.pod, noted.hourly) == ("created", "p1", 5.0)
    assert ledger.get("p1") == ledger.get("hudtui-a") == noted
    assert ledger.get("other") is None
    assert ledger.update("hudtui-a", hourly=None).hourly == 5.0


def test_what_has_ended_stays_ended_unless_it_is_ended_again(ledger: Ledger) -> None:
    ledger.reserve(_order(), provider="prime")
    ledger.update("hudtui-a", "created", pod="p1")
    ended = ledger.update("hudtui-a", "ended", billed=1.5, why="done")
    assert ended.ended is not None and not ended.open and ended.holder is None
    assert ledger.update("hudtui-a", "ready").state == "ended"
    assert ledger.records() == ()
    assert ledger.records(alive=False) == (ledger.get("hudtui-a"),)
    assert ledger.update("hudtui-a", "ending").state == "ending"


def test_what_was_thought_never_created_may_turn_up(ledger: Ledger) -> None:
    ledger.reserve(_order(), provider="prime")
    assert ledger.update("hudtui-a", "never").state == "never"
    assert ledger.update("hudtui-a", "created", pod="p").state == "created"


def test_unknown_names_and_facts_are_refused(ledger: Ledger) -> None:
    ledger.reserve(_order(), provider="prime")
    with pytest.raises(MachineError, match="ever"):
        ledger.update("other", "ready")
    with pytest.raises(TypeError, match="colour"):
        ledger.update("hudtui-a", colour="red")


def test_a_process_that_is_gone_holds_nothing(ledger: Ledger) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from hudtui.core.compute.pods import Ledger\n"
        "from hudtui.core.compute.values import Offer, Order, Price\n"
        "Ledger(Path(sys.argv[1])).reserve(Order('hudtui-b', Offer('p', 'i', 'G', 1, Price(1.0))), "
        "provider='prime')\n"
        "print('written', flush=True); sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(ledger.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "written\n"
        entry = ledger.get("hudtui-b")
        assert entry is not None and entry.held
        assert not ledger.claim("hudtui-b"), "the other process has it"
    finally:
        child.kill()
        child.communicate()
    entry = ledger.get("hudtui-b")
    assert entry is not None and not entry.held and entry.state == "intended"
    assert ledger.claim("hudtui-b")
    ledger.unclaim("hudtui-b")
    after = ledger.get("hudtui-b")
    assert after is not None and after.holder is None


def test_a_machine_that_is_called_otherwise_today_is_the_same_one(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ledger.reserve(_order(), provider="prime")
    monkeypatch.setattr(socket, "gethostname", lambda: "name-by-another-network")
    assert made.held and ledger.records()[0].held


def test_what_was_seen_last_comes_back(ledger: Ledger) -> None:
    ledger.reserve(_order(), provider="prime")
    pod = Pod(
        "prime",
        "p1",
        "hudtui-a",
        "ready",
        "ACTIVE",
        hourly=3.0,
        addresses=(Address("root", "10.0.0.7", 2222),),
    )
    (owned,) = ledger.update_seen({"hudtui-a": pod}, 1000.0)
    assert (owned.last_pod(), owned.seen, owned.hourly) == (pod, 1000.0, 3.0)
    assert ledger.update("hudtui-a", "ended").last_pod() == replace(pod, stage="gone")


def test_many_write_at_once(ledger: Ledger) -> None:
    def work(index: int) -> None:
        ledger.reserve(_order(f"hudtui-{index}"), provider="prime")
        ledger.update(f"hudtui-{index}", "created", pod=f"p{index}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.pod for entry in ledger.records()} == {f"p{index}" for index in range(8)}


def test_failures_are_told_in_words(ledger: Ledger, tmp_path: Path) -> None:
    ledger.path.parent.mkdir()
    ledger.path.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(MachineError, match="is damaged") as caught:
        ledger.reserve(_order(), provider="prime")
    assert str(ledger.path) in str(caught.value)
    newer = Ledger(tmp_path / "newer.db")
    with sqlite3.connect(newer.path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(MachineError, match="another version of hudtui"):
        newer.reserve(_order(), provider="prime")
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be used"):
        Ledger(tmp_path / "file" / "pods.db").reserve(_order(), provider="prime")
