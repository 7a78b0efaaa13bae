"""What the service answers to, path by path. A handler takes a `SimRequest` and returns a `SimResponse`; HTTP is elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hudtui.sim import catalogue
from hudtui.sim.account import SimInsufficientFunds, SimOutOfCapacity
from hudtui.sim.call import SimRequest, SimResponse, refused, refused_body, refused_query
from hudtui.sim.clock import stamp
from hudtui.sim.order import disk_faults, missing_field, pod_faults
from hudtui.sim.pod import SimPod

Handler = Callable[[SimRequest], SimResponse]


@dataclass(frozen=True)
class ApiRoute:
    """A path of the API."""

    method: str
    path: str
    area: str | None
    """Which scope of a key it needs; None needs no key."""
    handler: Handler


# --- availability ---


def _beside_disks(call: SimRequest, offers: list[catalogue.SimOffer]) -> list[catalogue.SimOffer]:
    """Offers that every disk of the query can be attached to: the same provider and data centre."""
    wanted = call.query.get("disks", ())
    found = {disk["id"]: disk for disk in call.world.disks}
    places = {(found[name]["providerType"], found[name]["info"]["dataCenterId"]) if name in found else None for name in wanted}
    return [item for item in offers if not wanted or places == {(item["provider"], item["dataCenter"])}]


def gpus(call: SimRequest) -> SimResponse:
    """`GET /availability/gpus`."""
    return SimResponse(call.page(_beside_disks(call, catalogue.matching(call.world.offers, call.query))))


def multi_node(call: SimRequest) -> SimResponse:
    """`GET /availability/multi-node`."""
    return SimResponse(call.page(_beside_disks(call, catalogue.matching(call.world.clusters, call.query))))


def gpu_summary(call: SimRequest) -> SimResponse:
    """`GET /availability/gpu-summary`."""
    return SimResponse(catalogue.summary(call.world.offers))


def multi_node_summary(call: SimRequest) -> SimResponse:
    """`GET /availability/multi-node-summary`."""
    return SimResponse(catalogue.summary(call.world.clusters))


def disk_offers(call: SimRequest) -> SimResponse:
    """`GET /availability/disks`."""
    return SimResponse(call.page(catalogue.matching(call.world.disk_offers, call.query)))


def _by_type(offers: list[catalogue.SimOffer]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for item in offers:
        table.setdefault(item["gpuType"], []).append(item)
    return table


def legacy_gpus(call: SimRequest) -> SimResponse:
    """`GET /availability/`."""
    return SimResponse(_by_type(catalogue.matching(call.world.offers, call.query)))


def legacy_clusters(call: SimRequest) -> SimResponse:
    """`GET /availability/clusters`."""
    return SimResponse(_by_type(catalogue.matching(call.world.clusters, call.query)))


# --- pods ---


def _pod(call: SimRequest) -> SimPod:
    pod = call.world.known(call.path["pod_id"])
    if pod is None:
        raise refused(404, "Pod not found")
    return pod


def list_pods(call: SimRequest) -> SimResponse:
    """`GET /pods/`."""
    now = call.world.clock.now()
    return SimResponse({**call.window([pod.describe(now) for pod in call.world.listed()]), "status": None})


def create_pod(call: SimRequest) -> SimResponse:
    """`POST /pods/`."""
    faults = pod_faults(call.body)
    if faults:
        raise refused_body(faults)
    order, provider, world = dict(call.body["pod"]), call.body["provider"]["type"], call.world
    offer = catalogue.find([*world.offers, *world.clusters], order, provider)
    missing = missing_field(order, max_price=world.behaviour.max_price_demanded, centre=offer["dataCenter"] if offer else "any")
    if missing:
        raise refused(400, missing)
    if offer is not None and order.get("image") not in (None, "custom_template", *offer["images"]):
        raise refused(400, f"Image {order['image']} is not available for this configuration")
    if order.get("prepaidForHr") and offer is not None and offer["isSpot"]:
        raise refused(400, "Reserved instances are not available")
    team = (call.body.get("team") or {}).get("teamId")
    if team is not None and team not in {item["teamId"] for item in world.records["teams"]}:
        raise refused(403, "You are not a member of this team")
    disks = [disk for disk in world.disks if disk["id"] in (call.body.get("disks") or ()) and disk["status"] == "ACTIVE"]
    if len(disks) != len(call.body.get("disks") or ()):
        raise refused(404, "Disk not found")
    if offer is not None and any(
        (disk["providerType"], disk["info"]["dataCenterId"]) != (provider, offer["dataCenter"]) for disk in disks
    ):
        raise refused(400, "Disk is not available in this location")
    try:
        pod = world.create(order, provider, team, disks)
    except SimOutOfCapacity:
        raise refused(400, "No capacity available: the requested configuration is out of stock") from None
    except SimInsufficientFunds:
        raise refused(402, "Insufficient balance") from None
    return SimResponse(pod.describe(world.clock.now()))


def pods_status(call: SimRequest) -> SimResponse:
    """`GET /pods/status`."""
    now, wanted = call.world.clock.now(), call.query.get("pod_ids", ())
    if not wanted:
        raise refused_query("pod_ids", "Field required")
    known = [call.world.known(pod_id) for pod_id in wanted]
    return SimResponse({"data": [pod.brief(now) for pod in known if pod and not pod.behaviour.status_forgets], "status": None})


def get_pod(call: SimRequest) -> SimResponse:
    """`GET /pods/{pod_id}`."""
    return SimResponse(_pod(call).describe(call.world.clock.now()))


def delete_pod(call: SimRequest) -> SimResponse:
    """`DELETE /pods/{pod_id}`."""
    pod = call.world.pods.get(call.path["pod_id"])
    if pod is None:
        raise refused(404, "Pod not found")
    return SimResponse({"status": call.world.terminate(pod)})


def pods_history(call: SimRequest) -> SimResponse:
    """`GET /pods/history`."""
    now, key = call.world.clock.now(), call.one("sort_by") or "terminatedAt"
    if key not in ("terminatedAt", "createdAt"):
        raise refused_query("sort_by", "Input should be 'terminatedAt' or 'createdAt'")
    rows = [*(pod.history(now) for pod in call.world.past()), *call.world.records["history"]]
    rows.sort(key=lambda row: row[key] or "", reverse=call.one("sort_order") != "asc")
    return SimResponse(call.window(rows))


def pod_log(call: SimRequest) -> SimResponse:
    """`GET /pods/{pod_id}/log`."""
    pod, now = _pod(call), call.world.clock.now()
    steps = [(pod.created, "provisioning"), (pod.active_from, "machine up"), (pod.ready_from, "image installed")]
    lines = [f"{stamp(at)} {text}" for at, text in steps if at <= now]
    if pod.why_ended and not pod.alive(now):
        lines.append(f"{stamp(pod.ended or now)} {pod.why_ended}")
    return SimResponse({"logs": lines[-call.number("tail", 100, 1) :]})


# --- keys, account, money ---


def list_keys(call: SimRequest) -> SimResponse:
    """`GET /ssh_keys/`."""
    return SimResponse(call.window(call.world.ssh_keys))


def add_key(call: SimRequest) -> SimResponse:
    """`POST /ssh_keys/`."""
    body = call.body if isinstance(call.body, dict) else {}
    faults = [
        {"loc": ["body", name], "msg": "Field required", "type": "missing"}
        for name in ("name", "publicKey")
        if not isinstance(body.get(name), str) or not body[name].strip()
    ]
    if faults:
        raise refused_body(faults, documented=True)
    if len(body["publicKey"].split()) < 2 or not body["publicKey"].startswith(("ssh-", "ecdsa-", "sk-")):
        raise refused(400, "Invalid SSH public key")
    return SimResponse(call.world.add_key(body["name"], body["publicKey"]))


def _key(call: SimRequest) -> dict[str, Any]:
    for key in call.world.ssh_keys:
        if key["id"] == call.path["key_id"]:
            return key
    raise refused(404, "SSH key not found")


def change_key(call: SimRequest) -> SimResponse:
    """`PATCH /ssh_keys/{key_id}`."""
    chosen = _key(call)
    if not isinstance(call.body, dict) or call.body.get("isPrimary") is not True:
        raise refused_body([{"loc": ["body", "isPrimary"], "msg": "Input should be true", "type": "missing"}], documented=True)
    for key in call.world.ssh_keys:
        key["isPrimary"] = key is chosen
    return SimResponse({"message": "SSH key updated", "updated_fields": ["isPrimary"]})


def remove_key(call: SimRequest) -> SimResponse:
    """`DELETE /ssh_keys/{key_id}`."""
    call.world.ssh_keys.remove(_key(call))
    return SimResponse({"message": "SSH key deleted"})


def whoami(call: SimRequest) -> SimResponse:
    """`GET /user/whoami`."""
    scopes = call.world.tokens.get(call.path.get("token", "")) or {}
    full = {"read": True, "write": True}
    areas = {"instances": full, "availability": {"read": True, "write": False}, **scopes}
    person: dict[str, Any] = {
        "id": "user_sim",
        "name": "Sim User",
        "email": "sim@example.invalid",
        "slug": "sim",
        "role": "USER",
        "createdAt": stamp(0),
        "image": None,
        "emailVerified": True,
        "hasBetaAccess": False,
        "isBanned": False,
        "skipPrepay": False,
        "blacklist": [],
        "scope": areas,
        "account_limits": None,
        "key_limits": None,
    }
    return SimResponse({"data": person, "status": None})


def teams(call: SimRequest) -> SimResponse:
    """`GET /user/teams`."""
    return SimResponse(call.window(call.world.records["teams"]))


def members(call: SimRequest) -> SimResponse:
    """`GET /teams/{team_id}/members`."""
    if call.path["team_id"] not in {team["teamId"] for team in call.world.records["teams"]}:
        raise refused(404, "Team not found")
    return SimResponse({"data": call.world.records["members"]})


def wallet(call: SimRequest) -> SimResponse:
    """`GET /billing/wallet`."""
    world = call.world
    now = world.settle()
    offset, limit = call.number("offset", 0, 0), call.number("limit", 20, 1, 100)
    bills = [pod.bill(now) for pod in reversed(world.pods.values()) if pod.cost(now) > 0] + world.records["billings"]
    return SimResponse(
        {
            "wallet_id": "wallet_sim",
            "team_id": call.one("teamId"),
            "balance_usd": round(max(0.0, world.money(now)), 6),
            "currency": "USD",
            "total_billings": len(bills),
            "recent_billings": bills[offset : offset + limit],
        }
    )


# --- disks ---


def list_disks(call: SimRequest) -> SimResponse:
    """`GET /disks/`."""
    return SimResponse(call.window([disk for disk in call.world.disks if disk["status"] != "TERMINATED"]))


def create_disk(call: SimRequest) -> SimResponse:
    """`POST /disks/`."""
    faults = disk_faults(call.body)
    if faults:
        raise refused_body(faults, documented=True)
    disk, world = call.body["disk"], call.world
    now = stamp(world.clock.now())
    made = {
        "id": f"simdisk{len(world.disks) + 1:04d}",
        "name": disk.get("name") or "disk",
        "createdAt": now,
        "updatedAt": now,
        "terminatedAt": None,
        "status": "ACTIVE",
        "providerType": call.body["provider"]["type"],
        "size": disk["size"],
        "info": {
            "country": disk.get("country"),
            "dataCenterId": disk.get("dataCenterId"),
            "cloudId": disk.get("cloudId"),
            "isMultinode": True,
        },
        "priceHr": round(disk["size"] * 9.7e-05, 6),
        "stoppedPriceHr": None,
        "provisioningPriceHr": 0.0,
        "userId": "user_sim",
        "teamId": (call.body.get("team") or {}).get("teamId"),
        "walletId": "wallet_sim",
        "pods": [],
        "clusters": [],
    }
    world.disks.append(made)
    return SimResponse(made)


def _disk(call: SimRequest) -> dict[str, Any]:
    for disk in call.world.disks:
        if disk["id"] == call.path["disk_id"]:
            return disk
    raise refused(404, "Disk not found")


def get_disk(call: SimRequest) -> SimResponse:
    """`GET /disks/{disk_id}`."""
    return SimResponse(_disk(call))


def rename_disk(call: SimRequest) -> SimResponse:
    """`PATCH /disks/{disk_id}`."""
    disk = _disk(call)
    if not isinstance(call.body, dict) or not isinstance(call.body.get("name"), str):
        raise refused_body([{"loc": ["body", "name"], "msg": "Field required", "type": "missing"}], documented=True)
    disk["name"] = call.body["name"]
    return SimResponse({"message": "Disk updated"})


def delete_disk(call: SimRequest) -> SimResponse:
    """`DELETE /disks/{disk_id}`."""
    disk = _disk(call)
    disk.update(status="TERMINATED", terminatedAt=stamp(call.world.clock.now()))
    return SimResponse({"status": "TERMINATED"})


# --- the rest that the real command line asks for ---


def environment(call: SimRequest) -> SimResponse:
    """`GET /environmentshub/{owner}/{name}/@{version}`."""
    found = call.world.records["environments"].get(f"{call.path['owner']}/{call.path['name']}")
    if found is None or call.path["version"] not in ("latest", found["version"]):
        raise refused(404, "Environment not found")
    told = {name: value.replace("{SIM}", call.origin) if isinstance(value, str) else value for name, value in found.items()}
    return SimResponse({"data": told})


def create_evaluation(call: SimRequest) -> SimResponse:
    """`POST /evaluations/`."""
    evaluations = call.world.records["evaluations"]
    name = call.body.get("name") if isinstance(call.body, dict) else None
    if not name:
        raise refused_body([{"loc": ["body", "name"], "msg": "Field required", "type": "missing"}])
    number = len(evaluations)
    made = {"evaluation_id": "eval_sim" if not number else f"eval_sim{number + 1}", "name": name, "status": "PENDING"}
    evaluations[made["evaluation_id"]] = {**made, "samples_pushed": 0}
    return SimResponse(made)


def _evaluation(call: SimRequest) -> dict[str, Any]:
    found: dict[str, Any] | None = call.world.records["evaluations"].get(call.path["evaluation_id"])
    if found is None:
        raise refused(404, "Evaluation not found")
    return found


def push_samples(call: SimRequest) -> SimResponse:
    """`POST /evaluations/{evaluation_id}/samples`."""
    found = _evaluation(call)
    found["samples_pushed"] += len(call.body.get("samples", ())) if isinstance(call.body, dict) else 0
    return SimResponse(found)


def finalize_evaluation(call: SimRequest) -> SimResponse:
    """`POST /evaluations/{evaluation_id}/finalize`."""
    found = _evaluation(call)
    found["status"] = "COMPLETED"
    return SimResponse(found)


def runs(call: SimRequest) -> SimResponse:
    """`GET /rft/runs`."""
    page, limit, rows = call.number("page", 1, 1), call.number("limit", 20, 1, 100), call.world.records["runs"]
    shown = rows[(page - 1) * limit : page * limit]
    return SimResponse(
        {"runs": shown, "total": len(rows), "page": page, "limit": limit, "total_pages": max(1, -(-len(rows) // limit))}
    )


def get_run(call: SimRequest) -> SimResponse:
    """`GET /rft/runs/{run_id}`."""
    for run in call.world.records["runs"]:
        if run["id"] == call.path["run_id"]:
            return SimResponse({"run": run})
    raise refused(404, "Run not found")


def run_logs(call: SimRequest) -> SimResponse:
    """`GET /rft/runs/{run_id}/logs`."""
    text = call.world.records["run_logs"].get(call.path["run_id"])
    if text is None:
        raise refused(404, "Run not found")
    return SimResponse({"logs": "\n".join(text.splitlines()[-call.number("tail_lines", 1000, 1) :])})


def models(call: SimRequest) -> SimResponse:
    """`GET /models`."""
    return SimResponse({"object": "list", "data": call.world.records["models"]})


def sandboxes(call: SimRequest) -> SimResponse:
    """`GET /sandbox`."""
    page, size = call.number("page", 1, 1), call.number("per_page", 50, 1, 100)
    return SimResponse({"sandboxes": [], "total": 0, "page": page, "per_page": size, "has_next": False})


PREFIX = "/api/v1"
ENTRIES: tuple[ApiRoute, ...] = tuple(
    ApiRoute(method, PREFIX + path, area, handler)
    for method, path, area, handler in (
        ("GET", "/availability/gpus", "availability", gpus),
        ("GET", "/availability/multi-node", "availability", multi_node),
        ("GET", "/availability/gpu-summary", "availability", gpu_summary),
        ("GET", "/availability/multi-node-summary", "availability", multi_node_summary),
        ("GET", "/availability/disks", "availability", disk_offers),
        ("GET", "/availability/clusters", "availability", legacy_clusters),
        ("GET", "/availability/", "availability", legacy_gpus),
        ("GET", "/pods/", "instances", list_pods),
        ("POST", "/pods/", "instances", create_pod),
        ("GET", "/pods/status", "instances", pods_status),
        ("GET", "/pods/history", "instances", pods_history),
        ("GET", "/pods/{pod_id}", "instances", get_pod),
        ("DELETE", "/pods/{pod_id}", "instances", delete_pod),
        ("GET", "/pods/{pod_id}/log", "instances", pod_log),
        ("GET", "/ssh_keys/", "ssh_keys", list_keys),
        ("POST", "/ssh_keys/", "ssh_keys", add_key),
        ("PATCH", "/ssh_keys/{key_id}", "ssh_keys", change_key),
        ("DELETE", "/ssh_keys/{key_id}", "ssh_keys", remove_key),
        ("GET", "/user/whoami", "user", whoami),
        ("GET", "/user/teams", "user", teams),
        ("GET", "/teams/{team_id}/members", "user", members),
        ("GET", "/billing/wallet", "billing", wallet),
        ("GET", "/disks/", "disks", list_disks),
        ("POST", "/disks/", "disks", create_disk),
        ("GET", "/disks/{disk_id}", "disks", get_disk),
        ("PATCH", "/disks/{disk_id}", "disks", rename_disk),
        ("DELETE", "/disks/{disk_id}", "disks", delete_disk),
        ("GET", "/environmentshub/{owner}/{name}/@{version}", None, environment),
        ("POST", "/evaluations/", "evaluations", create_evaluation),
        ("POST", "/evaluations/{evaluation_id}/samples", "evaluations", push_samples),
        ("POST", "/evaluations/{evaluation_id}/finalize", "evaluations", finalize_evaluation),
        ("GET", "/rft/runs", "rft", runs),
        ("GET", "/rft/runs/{run_id}", "rft", get_run),
        ("GET", "/rft/runs/{run_id}/logs", "rft", run_logs),
        ("GET", "/models", "inference", models),
        ("GET", "/sandbox", "sandboxes", sandboxes),
    )
)
