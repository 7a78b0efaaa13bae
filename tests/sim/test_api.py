"""Paths, shapes, refusals and money, asked for by a client that knows nothing but HTTP."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hudtui.sim import PrimeSimulator


def test_starts_quickly_and_answers(sim, api):
    assert api.get("/pods/") == {
        "data": [],
        "total_count": 0,
        "offset": 0,
        "limit": 100,
        "status": None,
    }
    assert sim.url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    "path",
    [
        "/pods",
        "/ssh_keys",
        "/disks",
        "/pods/status/",
        "/pods/history/",
        "/availability/gpus/",
        "/availability",
    ],
)
def test_the_other_slash_is_redirected_with_307(api, path):
    answer = api.http.get(path)
    assert answer.status_code == 307
    other = path.removesuffix("/") if path.endswith("/") else path + "/"
    assert answer.headers["location"] == f"{api.sim.url}/api/v1{other}"


def test_a_redirected_post_keeps_method_and_body(api):
    answer = api.http.post("/pods", json=api.order(), follow_redirects=True)
    assert answer.status_code == 200
    assert [(seen.method, seen.path, seen.status) for seen in api.sim.requests[-2:]] == [
        ("POST", "/api/v1/pods", 307),
        ("POST", "/api/v1/pods/", 200),
    ]
    assert len(api.sim.alive) == 1


def test_the_market_has_every_kind_of_offer(api):
    offers = api.get("/availability/gpus")["items"]
    demanded = {
        "cloudId",
        "gpuType",
        "socket",
        "provider",
        "country",
        "gpuCount",
        "gpuMemory",
        "disk",
        "vcpu",
        "memory",
    }
    demanded |= {
        "interconnect",
        "stockStatus",
        "security",
        "prices",
        "images",
        "isSpot",
        "prepaidTime",
        "provisioningTime",
    }
    assert all(demanded <= set(offer) for offer in offers)
    assert all("step" in offer[size] for offer in offers for size in ("disk", "vcpu", "memory"))
    assert {offer["gpuCount"] for offer in offers if offer["gpuType"] == "H100_80GB"} == {
        1,
        2,
        4,
        8,
    }
    assert any(offer["isSpot"] for offer in offers) and not any(
        offer["isSpot"] is False for offer in offers
    )
    assert {offer["prices"]["currency"] for offer in offers} == {"USD", "EUR"}
    assert any(offer["prices"]["isVariable"] for offer in offers) and any(
        offer["prepaidTime"] for offer in offers
    )
    assert any(offer["gpuType"] == "CPU_NODE" for offer in offers)
    ids = [offer["cloudId"] for offer in offers]
    assert len(ids) > len(set(ids)), "one cloudId stands in two data centres"


def test_filters_and_pages(api):
    found = api.get(
        "/availability/gpus", gpu_type="H100_80GB", gpu_count=1, regions=["canada", "united_states"]
    )
    assert {offer["region"] for offer in found["items"]} == {"canada", "united_states"} and found[
        "totalCount"
    ] == 2
    total = api.get("/availability/gpus")["totalCount"]
    pages = [
        api.get("/availability/gpus", page=number, page_size=5)
        for number in range(1, total // 5 + 2)
    ]
    assert sum(len(page["items"]) for page in pages) == total and all(
        page["totalCount"] == total for page in pages
    )
    assert api.http.get("/availability/gpus", params={"page_size": 101}).status_code == 422
    assert api.http.get("/pods/", params={"limit": "many"}).json()["detail"][0]["loc"] == [
        "query",
        "limit",
    ]


def test_the_summary_sets_spot_beside_the_others(api):
    row = api.get("/availability/gpu-summary")["A100_80GB"]["1"]
    assert (
        row["cheapest"]
        == {"onDemand": 1.29, "communityPrice": None, "spotPrice": 0.65}
        == row["eu_north"]
    )


def test_life_of_a_pod(api, sim):
    made = api.create()
    assert (
        made["status"] == "PROVISIONING"
        and made["sshConnection"] is None
        and made["createdAt"] == "2026-11-20T21:00:00.000000Z"
    )
    sim.clock.advance(30)
    assert api.get(f"/pods/{made['id']}")["installationStatus"] == "ACTIVE"
    sim.clock.advance(30)
    brief = api.get("/pods/status", pod_ids=[made["id"], "nobody"])["data"]
    assert [item["podId"] for item in brief] == [made["id"]], "unknown ids are left out"
    assert (brief[0]["status"], brief[0]["installationStatus"]) == ("ACTIVE", "FINISHED")
    pod = api.get(f"/pods/{made['id']}")
    assert pod["sshConnection"] == f"root@127.0.0.1 -p {pod['primePortMapping'][0]['external']}"
    assert api.http.delete(f"/pods/{made['id']}").json() == {"status": "TERMINATED"}
    assert api.http.delete(f"/pods/{made['id']}").json() == {"status": "TERMINATED"}, (
        "a second time is harmless"
    )
    assert api.get("/pods/")["data"] == []
    assert api.get(f"/pods/{made['id']}")["status"] == "TERMINATED"
    assert api.get("/pods/history")["data"][0]["id"] == made["id"]
    sim.clock.advance(301)
    assert api.http.get(f"/pods/{made['id']}").status_code == 404


def test_a_create_request_is_looked_at_closely(api):
    def refuse(change):
        order = api.order()
        change(order)
        answer = api.http.post("/pods/", json=order)
        return answer.status_code, answer.json()["detail"]

    status, detail = refuse(lambda order: order["pod"].update(gpus=1))
    assert status == 422 and detail == [
        {
            "loc": ["body", "pod", "gpus"],
            "msg": "Extra inputs are not permitted",
            "type": "extra_forbidden",
        }
    ]
    status, detail = refuse(lambda order: order["pod"].pop("socket"))
    assert status == 422 and detail[0]["loc"] == ["body", "pod", "socket"]
    assert refuse(lambda order: order["pod"].update(diskSize=0))[0] == 422
    assert refuse(lambda order: order["pod"].update(gpuCount="1"))[0] == 422
    assert refuse(lambda order: order.pop("provider"))[1][0]["loc"] == ["body", "provider"]
    assert refuse(lambda order: order["pod"].pop("dataCenterId")) == (
        400,
        "Missing field: data_center_id",
    )
    assert "not available" in refuse(lambda order: order["pod"].update(image="flux"))[1]
    assert "out of stock" in refuse(lambda order: order["pod"].update(cloudId="nothing"))[1]
    assert refuse(lambda order: order.update(team={"teamId": "others"}))[0] == 403
    assert (
        api.http.post(
            "/pods/", content=b"{", headers={"content-type": "application/json"}
        ).status_code
        == 422
    )
    assert not api.sim.pods


def test_the_other_422(api):
    answer = api.http.post("/ssh_keys/", json={"name": "laptop"})
    assert answer.status_code == 422 and answer.json() == {
        "errors": [{"param": "publicKey", "details": "Field required"}]
    }


def test_keys_and_scopes(api, sim, connect):
    assert connect(sim, "wrong").http.get("/pods/").status_code == 401
    sim.add_token(
        "reader",
        {
            "availability": {"read": True, "write": False},
            "instances": {"read": True, "write": False},
        },
    )
    reader = connect(sim, "reader")
    assert reader.http.get("/pods/").status_code == 200
    assert reader.http.post("/pods/", json=api.order()).status_code == 403
    assert reader.http.get("/billing/wallet").status_code == 403
    assert connect(sim, "").http.get("/environmentshub/sim/tiny-env/@latest").status_code == 200


def test_ssh_keys(api):
    second = api.http.post(
        "/ssh_keys/", json={"name": "two", "publicKey": "ssh-ed25519 AAAA two"}
    ).json()
    assert [key["isPrimary"] for key in api.get("/ssh_keys/")["data"]] == [True, False]
    assert api.http.patch(f"/ssh_keys/{second['id']}", json={"isPrimary": True}).json()[
        "updated_fields"
    ] == ["isPrimary"]
    assert [key["isPrimary"] for key in api.get("/ssh_keys/")["data"]] == [False, True]
    assert api.http.delete(f"/ssh_keys/{second['id']}").status_code == 200
    assert api.http.delete(f"/ssh_keys/{second['id']}").status_code == 404
    assert (
        api.http.post("/ssh_keys/", json={"name": "three", "publicKey": "nonsense"}).status_code
        == 400
    )


def test_money_follows_the_clock(api, sim):
    made = api.create("8H100.80S")
    sim.clock.advance(20)
    assert api.get("/billing/wallet")["balance_usd"] == 100, "booting is free"
    sim.clock.advance(3600)
    wallet = api.get("/billing/wallet")
    assert wallet["balance_usd"] == pytest.approx(100 - 16.8)
    assert [(bill["resource_id"], bill["amount_usd"]) for bill in wallet["recent_billings"]] == [
        (made["id"], 16.8)
    ]
    assert made["priceHr"] == 16.8


def test_the_price_has_disk_and_currency_in_it(api):
    assert api.create("a100-pcie-x2", diskSize=200)["priceHr"] == pytest.approx(2.7 + 200 * 0.00014)
    assert api.create("scw-h100")["priceHr"] == pytest.approx(2.52 * 1.1)


def test_prepaid_hours_are_charged_at_once():
    from hudtui.sim.account import SimAccount, SimInsufficientFunds
    from hudtui.sim.catalogue import default_offers
    from hudtui.sim.clock import SimClock

    offer = next(item for item in default_offers() if item["prepaidTime"])
    order = {
        "cloudId": offer["cloudId"],
        "gpuType": offer["gpuType"],
        "socket": offer["socket"],
        "gpuCount": offer["gpuCount"],
    }
    with pytest.raises(SimInsufficientFunds):
        SimAccount(SimClock(), "key", balance=100).create(order, offer["provider"], None)
    rich = SimAccount(SimClock(), "key", balance=1000)
    rich.create(order, offer["provider"], None)
    assert rich.money(0) == pytest.approx(1000 - 24 * 22.4)


def test_an_empty_wallet_ends_pods_at_the_moment_it_is_empty(connect):
    with PrimeSimulator(balance=2.1) as sim:
        api = connect(sim)
        made = api.create("1H100.80S")  # 2.10 an hour, from the 20th second on
        sim.clock.advance(10_000)
        row = api.get("/pods/history")["data"][0]
        assert row["id"] == made["id"] and row["totalBilledPrice"] == pytest.approx(2.1, abs=1e-4)
        assert row["terminatedAt"].startswith("2026-11-20T22:00:20")
        assert api.http.post("/pods/", json=api.order()).status_code == 402
        assert api.get("/billing/wallet")["balance_usd"] == 0


def test_disks(api):
    body = {
        "disk": {"size": 500, "name": "ckpt", "country": "CA", "dataCenterId": "CANADA-1"},
        "provider": {"type": "hyperstack"},
    }
    made = api.http.post("/disks/", json=body).json()
    assert made["priceHr"] == 0.0485 and api.get("/disks/")["data"] == [made]
    assert api.http.patch(f"/disks/{made['id']}", json={"name": "other"}).status_code == 200
    assert api.get(f"/disks/{made['id']}")["name"] == "other"
    assert api.http.delete(f"/disks/{made['id']}").json() == {"status": "TERMINATED"}
    assert api.get("/disks/")["total_count"] == 0


def test_a_disk_is_attached_where_it_lies(api):
    body = {"disk": {"size": 500, "dataCenterId": "CANADA-1"}, "provider": {"type": "hyperstack"}}
    disk = api.http.post("/disks/", json=body).json()
    near = api.get("/availability/gpus", disks=disk["id"])["items"]
    assert {offer["cloudId"] for offer in near} == {"a100-pcie-x2", "gpu-h100"}
    assert api.get("/availability/gpus", disks="nothing")["items"] == []
    far = api.http.post("/pods/", json={**api.order(), "disks": [disk["id"]]})
    assert far.status_code == 400
    assert api.http.post("/pods/", json={**api.order(), "disks": ["nothing"]}).status_code == 404
    assert api.http.post("/pods/", json={**api.order(), "disks": "nothing"}).status_code == 422
    pod = api.http.post("/pods/", json={**api.order("a100-pcie-x2"), "disks": [disk["id"]]}).json()
    assert [(item["id"], item["status"]) for item in pod["attachedResources"]] == [
        (disk["id"], "ATTACHED")
    ]
    assert api.get(f"/disks/{disk['id']}")["pods"] == [pod["id"]]
    api.http.delete(f"/pods/{pod['id']}")
    assert api.get(f"/disks/{disk['id']}")["pods"] == []


def test_it_stands_alone():
    code = (
        "import sys, hudtui.sim, hudtui.sim.__main__; print([name for name in sys.modules if "
        "name.startswith('hudtui.core')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_requests_are_recorded_without_the_key(api, sim):
    api.create()
    seen = sim.requests[-1]
    assert (seen.method, seen.path, seen.status, seen.handled) == (
        "POST",
        "/api/v1/pods/",
        200,
        True,
    )
    assert seen.body["pod"]["cloudId"] == "1H100.80S"
    assert sim.api_key not in repr(sim.requests)


def test_two_simulators_with_one_seed_tell_the_same(connect):
    def tell() -> object:
        with PrimeSimulator(seed=7) as sim:
            api = connect(sim)
            made = api.create()
            sim.clock.advance(25)
            key = api.http.post(
                "/ssh_keys/", json={"name": "one", "publicKey": "ssh-ed25519 AAAA one"}
            ).json()
            return made, key["id"], api.get("/pods/"), api.get("/billing/wallet")

    assert tell() == tell()


def test_each_request_may_take_its_time(connect):
    with PrimeSimulator(step=10) as sim:
        api = connect(sim)
        made = api.create()
        states = [api.get(f"/pods/{made['id']}")["installationStatus"] for _ in range(5)]
        assert states == ["PENDING", "ACTIVE", "ACTIVE", "FINISHED", "FINISHED"]
