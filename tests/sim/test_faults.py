"""Requests that go wrong, and situations by name."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from hudtui.sim import SCENARIOS, PrimeSimulator
from hudtui.sim.faults import KINDS


@pytest.mark.parametrize(("kind", "handled"), [("reset_before", False), ("reset_after", True)])
def test_a_creation_whose_answer_is_lost(api, sim, kind, handled):
    order = api.order()
    sim.fail_next("POST", "/api/v1/pods/", kind)
    with pytest.raises(httpx2.NetworkError):
        api.http.post("/pods/", json=order)
    assert len(sim.alive) == handled
    assert (sim.requests[-1].handled, sim.requests[-1].status, sim.requests[-1].fault) == (
        handled,
        None,
        kind,
    )
    assert api.http.post("/pods/", json=order).status_code == 200, "once, and no more"


@pytest.mark.parametrize(("kind", "gone"), [("reset_before", False), ("reset_after", True)])
def test_a_termination_whose_answer_is_lost(api, sim, kind, gone):
    made = api.create()
    sim.fail_next("DELETE", "/api/v1/pods/*", kind)
    with pytest.raises(httpx2.NetworkError):
        api.http.delete(f"/pods/{made['id']}")
    assert not sim.alive if gone else sim.alive


def test_statuses_and_their_forms(api, sim):
    sim.fail_next("*", "/api/v1/*", "status", status=429, retry_after=2)
    answer = api.http.get("/pods/")
    assert (answer.status_code, answer.headers["retry-after"], answer.json()) == (
        429,
        "2",
        {"detail": "Too many requests"},
    )
    sim.fail_next("GET", "/api/v1/pods/", "html503")
    answer = api.http.get("/pods/")
    assert answer.status_code == 503 and answer.text.startswith("<html>")
    sim.fail_next("GET", "/api/v1/pods/", "status", status=422)
    assert isinstance(api.http.get("/pods/").json()["detail"], list)
    sim.fail_next("GET", "/api/v1/pods/", "errors422")
    assert "errors" in api.http.get("/pods/").json()


def test_malformed_json_was_carried_out(api, sim):
    order = api.order()
    sim.fail_next("POST", "/api/v1/pods/", "malformed")
    answer = api.http.post("/pods/", json=order)
    assert answer.status_code == 200 and len(sim.alive) == 1
    with pytest.raises(ValueError):
        answer.json()


def test_no_answer(api, sim):
    sim.fail_next("GET", "/api/v1/pods/", "timeout", seconds=60)
    with pytest.raises(httpx2.TimeoutException):
        api.http.get("/pods/", timeout=0.3)
    assert api.http.get("/pods/").status_code == 200


def test_ends_while_requests_wait(connect):
    with PrimeSimulator() as sim, ThreadPoolExecutor(1) as pool:
        api = connect(sim)
        sim.fail_next("GET", "/api/v1/pods/", "timeout", seconds=60)
        waiting = pool.submit(api.http.get, "/pods/")
        while not sim.requests:
            time.sleep(0.01)
        began = time.monotonic()
        sim.stop()
        with pytest.raises(httpx2.TransportError):
            waiting.result()
        assert time.monotonic() - began < 30, "it does not wait for the request's own time"


def test_a_slow_answer(api, sim):
    sim.fail_next("GET", "/api/v1/pods/", "slow", seconds=0.3)
    began = time.monotonic()
    assert api.http.get("/pods/").status_code == 200
    assert time.monotonic() - began >= 0.3


def test_a_closed_port(api, sim):
    sim.fail_next("GET", "/api/v1/pods/", "refuse", seconds=0.5)
    with pytest.raises(httpx2.NetworkError):
        api.http.get("/pods/")
    with pytest.raises(httpx2.ConnectError):
        api.http.get("/pods/")
    limit = time.monotonic() + 20
    while True:
        try:
            assert api.http.get("/pods/").status_code == 200
            break
        except httpx2.ConnectError:
            assert time.monotonic() < limit
            time.sleep(0.05)


def test_faults_count_and_choose(api, sim):
    sim.fail_next("GET", "/api/v1/pods/status", "status", times=2, after=1)
    ask = [api.http.get("/pods/status", params={"pod_ids": "a"}).status_code for _ in range(4)]
    assert ask == [200, 500, 500, 200]
    assert api.http.get("/pods/").status_code == 200
    sim.fail_next("*", "*", "status")
    sim.heal()
    assert api.http.get("/pods/").status_code == 200
    with pytest.raises(ValueError, match="unknown kind"):
        sim.fail_next("GET", "*", "explode")


def test_control_over_http(api, sim):
    root = httpx2.Client(base_url=sim.url, headers={"Authorization": f"Bearer {sim.api_key}"})
    with root:
        made = api.create()
        assert root.post(
            "/sim/fail",
            json={"method": "GET", "path": "/api/v1/pods/", "kind": "status", "status": 500},
        ).json()["faults"]
        assert api.http.get("/pods/").status_code == 500
        assert (
            root.post(
                "/sim/fail", json={"method": "GET", "path": "/", "kind": "explode"}
            ).status_code
            == 400
        )
        assert (
            root.post("/sim/advance", json={"seconds": 25}).json()["pods"][0]["installationStatus"]
            == "ACTIVE"
        )
        root.post(f"/sim/pods/{made['id']}", json={"status": "SOMETHING_NEW", "ip": None})
        assert api.get(f"/pods/{made['id']}")["status"] == "SOMETHING_NEW"
        assert not root.post(f"/sim/pods/{made['id']}/reclaim").json()["pods"][0]["alive"]
        assert (
            root.post("/sim/scenario", json={"name": "ubuntu-user"}).json()["behaviour"]["user"]
            == "ubuntu"
        )
        assert root.post("/sim/scenario", json={"name": "nothing"}).status_code == 400
        assert root.get("/sim/requests").json()[-1]["path"] == f"/api/v1/pods/{made['id']}"
        assert sim.api_key not in root.get("/sim/state").text


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("unauthorized", 401),
        ("forbidden", 403),
        ("server-error", 500),
        ("html-503", 503),
        ("rate-limited", 429),
    ],
)
def test_situations_of_the_whole_service(api, sim, name, status):
    sim.scenario(name)
    assert api.http.get("/pods/").status_code == status


def test_an_offer_that_is_gone(api, sim):
    order = api.order()
    sim.scenario("offer-gone")
    answer = api.http.post("/pods/", json=order)
    assert answer.status_code == 400 and "No capacity" in answer.json()["detail"]
    assert "1H100.80S" not in {offer["cloudId"] for offer in api.get("/availability/gpus")["items"]}
    assert not sim.pods


@pytest.mark.parametrize(
    ("name", "status", "installation"),
    [
        ("error-pod", "ERROR", "ERROR"),
        ("install-error", "ACTIVE", "ERROR"),
        ("stuck-install", "ACTIVE", "ACTIVE"),
        ("stopped-pod", "STOPPED", "FINISHED"),
    ],
)
def test_pods_that_never_become_ready(api, sim, name, status, installation):
    sim.scenario(name)
    made = api.create()
    sim.clock.advance(10_000)
    pod = api.get(f"/pods/{made['id']}")
    assert (pod["status"], pod["installationStatus"]) == (status, installation)
    assert not pod["sshConnection"] or pod["sshConnection"] == [None]


def test_an_empty_wallet(api, sim):
    sim.scenario("wallet-empty")
    assert api.http.post("/pods/", json=api.order()).status_code == 402
    assert api.get("/billing/wallet")["balance_usd"] == 0


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("plain", "root@127.0.0.1 -p {port}"),
        ("ssh-never-told", None),
        ("ssh-list", ["root@127.0.0.1 -p {port}"]),
        ("ssh-list-nulls", [None, "root@127.0.0.1 -p {port}", None]),
        ("ssh-command", "ssh root@127.0.0.1 -p {port}"),
        ("ssh-colon", "root@127.0.0.1:{port}"),
    ],
)
def test_forms_of_the_connection(api, sim, name, form):
    sim.scenario(name)
    pod = api.ready()
    port = str(sim.pods[pod["id"]].ports[0])

    def fill(value):
        return (
            [fill(item) for item in value]
            if isinstance(value, list)
            else value and value.format(port=port)
        )

    assert pod["sshConnection"] == fill(form)
    assert pod["primePortMapping"][0]["external"] == port
    assert (pod["ip"] == "127.0.0.1") if not isinstance(form, list) else "127.0.0.1" in pod["ip"]


def test_a_max_price_is_demanded(api, sim):
    sim.scenario("max-price")
    refused = api.http.post("/pods/", json=api.order())
    assert (refused.status_code, refused.json()) == (
        400,
        {"detail": "Missing field: max_price not specified"},
    )
    assert api.http.post("/pods/", json=api.order(maxPrice=0)).status_code == 200


def test_values_that_nobody_knows_and_a_forgetful_status(api, sim):
    sim.scenario("unknown-values", "status-omits")
    made = api.create()
    assert made["status"] == "WARMING_UP" and "sustainabilityScore" in made
    assert api.get("/pods/status", pod_ids=made["id"])["data"] == []
    sim.clock.advance(60)
    assert api.get(f"/pods/{made['id']}")["status"] == "ACTIVE"


def test_terminations_that_take_time_or_never_happen(api, sim):
    sim.scenario("slow-delete")
    made = api.create()
    assert api.http.delete(f"/pods/{made['id']}").json() == {"status": "DELETING"}
    assert api.get(f"/pods/{made['id']}")["status"] == "DELETING"
    sim.clock.advance(61)
    assert api.get(f"/pods/{made['id']}")["status"] == "TERMINATED"
    sim.scenario("delete-ignored")
    other = api.ready()
    assert api.http.delete(f"/pods/{other['id']}").json() == {"status": "DELETING"}
    sim.clock.advance(600)
    assert api.get(f"/pods/{other['id']}")["status"] == "ACTIVE" and sim.alive


def test_every_scenario_can_begin_and_end(sim):
    for name in SCENARIOS:
        sim.scenario(name)
    with pytest.raises(ValueError, match="no scenario is called other"):
        sim.scenario("other")
    sim.scenario()
    assert not sim.state()["faults"]
    assert {fault.kind for item in SCENARIOS.values() for fault in item.faults} <= set(KINDS)


async def test_in_an_event_loop():
    async with (
        PrimeSimulator() as sim,
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {sim.api_key}"}) as http,
    ):
        assert (await http.get(f"{sim.url}/api/v1/pods/")).json()["data"] == []
