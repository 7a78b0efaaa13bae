"""The API, path by path: a handler takes a `SimRequest` and returns a `SimResponse`.

HTTP itself is in `web`.
"""

# ruff: noqa: D103 - the route above a handler says what it answers

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.sim import catalogue
from hudtui.sim.account import SimAccount, SimInsufficientFunds, SimOutOfCapacity
from hudtui.sim.clock import stamp
from hudtui.sim.pod import SimPod
from hudtui.sim.validate import as_errors, disk_faults, missing_field, pod_faults


@dataclass(frozen=True)
class SimResponse:
    """JSON and its status."""

    body: Any
    status: int = 200


@dataclass(frozen=True)
class SimRequest:
    """One request to a handler."""

    account: SimAccount
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Any
    origin: str
    """Where the simulator itself is reached."""

    def one(self, name: str) -> str | None:
        """The last value of a query parameter."""
        values = self.query.get(name)
        return values[-1] if values else None

    def number(self, name: str, default: int, low: int, high: int | None = None) -> int:
        """A query parameter that counts.

        Raises:
            SimRefused: It is not a number, or out of range.
        """
        text = self.one(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise refused_query(
                name, "Input should be a valid integer, unable to parse string as an integer"
            ) from None
        if value < low:
            raise refused_query(name, f"Input should be greater than or equal to {low}")
        if high is not None and value > high:
            raise refused_query(name, f"Input should be less than or equal to {high}")
        return value

    def window(self, rows: Sequence[Any]) -> dict[str, Any]:
        """The answer of the paths that page with offset and limit."""
        offset, limit = self.number("offset", 0, 0), self.number("limit", 100, 1, 100)
        return {
            "data": list(rows[offset : offset + limit]),
            "total_count": len(rows),
            "offset": offset,
            "limit": limit,
        }

    def page(self, rows: Sequence[Any]) -> dict[str, Any]:
        """The answer of the paths that page with page and page_size."""
        page, size = self.number("page", 1, 1), self.number("page_size", 100, 1, 100)
        return {"items": list(rows[(page - 1) * size : page * size]), "totalCount": len(rows)}


class SimRefused(Exception):
    """The request is answered with an error."""

    def __init__(self, answer: SimResponse) -> None:
        super().__init__(answer.status)
        self.answer = answer


def refused(status: int, detail: Any) -> SimRefused:
    """An error in the common form."""
    return SimRefused(SimResponse({"detail": detail}, status))


def refused_query(name: str, text: str) -> SimRefused:
    """422 about a query parameter."""
    return refused(422, [{"loc": ["query", name], "msg": text, "type": "value_error"}])


def refused_body(faults: list[dict[str, Any]], *, documented: bool = False) -> SimRefused:
    """422 about a body: FastAPI's form, or the form that the published schema documents."""
    return SimRefused(SimResponse(as_errors(faults) if documented else {"detail": faults}, 422))


Handler = Callable[[SimRequest], SimResponse]
PREFIX = "/api/v1"


@dataclass(frozen=True)
class ApiRoute:
    """A path of the API."""

    method: str
    path: str
    area: str | None
    """Which scope of a key it needs; None needs no key."""
    handler: Handler


ENTRIES: list[ApiRoute] = []
"""All paths; of two that match a request the first one answers it."""


def _route(method: str, path: str, area: str | None) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        ENTRIES.append(ApiRoute(method, PREFIX + path, area, handler))
        return handler

    return add


# --- availability ---


def _beside_disks(call: SimRequest, offers: list[catalogue.SimOffer]) -> list[catalogue.SimOffer]:
    """Offers that every disk of the query can be attached to: the same provider and data centre."""
    wanted = call.query.get("disks", ())
    found = {disk["id"]: disk for disk in call.account.disks}
    places = {
        (found[name]["providerType"], found[name]["info"]["dataCenterId"])
        if name in found
        else None
        for name in wanted
    }
    return [
        item for item in offers if not wanted or places == {(item["provider"], item["dataCenter"])}
    ]


@_route("GET", "/availability/gpus", "availability")
def gpus(call: SimRequest) -> SimResponse:
    return SimResponse(
        call.page(_beside_disks(call, catalogue.matching(call.account.offers, call.query)))
    )


@_route("GET", "/availability/multi-node", "availability")
def multi_node(call: SimRequest) -> SimResponse:
    return SimResponse(
        call.page(_beside_disks(call, catalogue.matching(call.account.clusters, call.query)))
    )


@_route("GET", "/availability/gpu-summary", "availability")
def gpu_summary(call: SimRequest) -> SimResponse:
    return SimResponse(catalogue.summary(call.account.offers))


@_route("GET", "/availability/multi-node-summary", "availability")
def multi_node_summary(call: SimRequest) -> SimResponse:
    return SimResponse(catalogue.summary(call.account.clusters))


@_route("GET", "/availability/disks", "availability")
def disk_offers(call: SimRequest) -> SimResponse:
    return SimResponse(call.page(catalogue.matching(call.account.disk_offers, call.query)))


def _by_type(offers: list[catalogue.SimOffer]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for item in offers:
        table.setdefault(item["gpuType"], []).append(item)
    return table


@_route("GET", "/availability/", "availability")
def legacy_gpus(call: SimRequest) -> SimResponse:
    return SimResponse(_by_type(catalogue.matching(call.account.offers, call.query)))


@_route("GET", "/availability/clusters", "availability")
def legacy_clusters(call: SimRequest) -> SimResponse:
    return SimResponse(_by_type(catalogue.matching(call.account.clusters, call.query)))


# --- pods ---


def _pod(call: SimRequest) -> SimPod:
    pod = call.account.known(call.path["pod_id"])
    if pod is None:
        raise refused(404, "Pod not found")
    return pod


@_route("GET", "/pods/", "instances")
def list_pods(call: SimRequest) -> SimResponse:
    now = call.account.clock.now()
    return SimResponse(
        {**call.window([pod.describe(now) for pod in call.account.listed()]), "status": None}
    )


@_route("POST", "/pods/", "instances")
def create_pod(call: SimRequest) -> SimResponse:
    faults = pod_faults(call.body)
    if faults:
        raise refused_body(faults)
    order, provider, account = dict(call.body["pod"]), call.body["provider"]["type"], call.account
    offer = catalogue.find([*account.offers, *account.clusters], order, provider)
    missing = missing_field(
        order,
        max_price=account.behaviour.max_price_demanded,
        centre=offer["dataCenter"] if offer else "any",
    )
    if missing:
        raise refused(400, missing)
    if offer is not None and order.get("image") not in (None, "custom_template", *offer["images"]):
        raise refused(400, f"Image {order['image']} is not available for this configuration")
    if order.get("prepaidForHr") and offer is not None and offer["isSpot"]:
        raise refused(400, "Reserved instances are not available")
    team = (call.body.get("team") or {}).get("teamId")
    if team is not None and team not in {item["teamId"] for item in account.records["teams"]}:
        raise refused(403, "You are not a member of this team")
    disks = [
        disk
        for disk in account.disks
        if disk["id"] in (call.body.get("disks") or ()) and disk["status"] == "ACTIVE"
    ]
    if len(disks) != len(call.body.get("disks") or ()):
        raise refused(404, "Disk not found")
    if offer is not None and any(
        (disk["providerType"], disk["info"]["dataCenterId"]) != (provider, offer["dataCenter"])
        for disk in disks
    ):
        raise refused(400, "Disk is not available in this location")
    try:
        pod = account.create(order, provider, team, disks)
    except SimOutOfCapacity:
        raise refused(
            400, "No capacity available: the requested configuration is out of stock"
        ) from None
    except SimInsufficientFunds:
        raise refused(402, "Insufficient balance") from None
    return SimResponse(pod.describe(account.clock.now()))


@_route("GET", "/pods/status", "instances")
def pods_status(call: SimRequest) -> SimResponse:
    now, wanted = call.account.clock.now(), call.query.get("pod_ids", ())
    if not wanted:
        raise refused_query("pod_ids", "Field required")
    known = [call.account.known(pod_id) for pod_id in wanted]
    return SimResponse(
        {
            "data": [pod.brief(now) for pod in known if pod and not pod.behaviour.status_forgets],
            "status": None,
        }
    )


@_route("GET", "/pods/history", "instances")
def pods_history(call: SimRequest) -> SimResponse:
    now, key = call.account.clock.now(), call.one("sort_by") or "terminatedAt"
    if key not in ("terminatedAt", "createdAt"):
        raise refused_query("sort_by", "Input should be 'terminatedAt' or 'createdAt'")
    rows = [*(pod.history(now) for pod in call.account.past()), *call.account.records["history"]]
    rows.sort(key=lambda row: row[key] or "", reverse=call.one("sort_order") != "asc")
    return SimResponse(call.window(rows))


@_route("GET", "/pods/{pod_id}", "instances")
def get_pod(call: SimRequest) -> SimResponse:
    return SimResponse(_pod(call).describe(call.account.clock.now()))


@_route("DELETE", "/pods/{pod_id}", "instances")
def delete_pod(call: SimRequest) -> SimResponse:
    pod = call.account.pods.get(call.path["pod_id"])
    if pod is None:
        raise refused(404, "Pod not found")
    return SimResponse({"status": call.account.terminate(pod)})


@_route("GET", "/pods/{pod_id}/log", "instances")
def pod_log(call: SimRequest) -> SimResponse:
    pod, now = _pod(call), call.account.clock.now()
    steps = [
        (pod.created, "provisioning"),
        (pod.active_from, "machine up"),
        (pod.ready_from, "image installed"),
    ]
    lines = [f"{stamp(at)} {text}" for at, text in steps if at <= now]
    if pod.why_ended and not pod.alive(now):
        lines.append(f"{stamp(pod.ended or now)} {pod.why_ended}")
    return SimResponse({"logs": lines[-call.number("tail", 100, 1) :]})


# --- keys, account, money ---


@_route("GET", "/ssh_keys/", "ssh_keys")
def list_keys(call: SimRequest) -> SimResponse:
    return SimResponse(call.window(call.account.ssh_keys))


@_route("POST", "/ssh_keys/", "ssh_keys")
def add_key(call: SimRequest) -> SimResponse:
    body = call.body if isinstance(call.body, dict) else {}
    faults = [
        {"loc": ["body", name], "msg": "Field required", "type": "missing"}
        for name in ("name", "publicKey")
        if not isinstance(body.get(name), str) or not body[name].strip()
    ]
    if faults:
        raise refused_body(faults, documented=True)
    if len(body["publicKey"].split()) < 2 or not body["publicKey"].startswith(
        ("ssh-", "ecdsa-", "sk-")
    ):
        raise refused(400, "Invalid SSH public key")
    return SimResponse(call.account.add_key(body["name"], body["publicKey"]))


def _key(call: SimRequest) -> dict[str, Any]:
    for key in call.account.ssh_keys:
        if key["id"] == call.path["key_id"]:
            return key
    raise refused(404, "SSH key not found")


@_route("PATCH", "/ssh_keys/{key_id}", "ssh_keys")
def change_key(call: SimRequest) -> SimResponse:
    chosen = _key(call)
    if not isinstance(call.body, dict) or call.body.get("isPrimary") is not True:
        raise refused_body(
            [{"loc": ["body", "isPrimary"], "msg": "Input should be true", "type": "missing"}],
            documented=True,
        )
    for key in call.account.ssh_keys:
        key["isPrimary"] = key is chosen
    return SimResponse({"message": "SSH key updated", "updated_fields": ["isPrimary"]})


@_route("DELETE", "/ssh_keys/{key_id}", "ssh_keys")
def remove_key(call: SimRequest) -> SimResponse:
    call.account.ssh_keys.remove(_key(call))
    return SimResponse({"message": "SSH key deleted"})


@_route("GET", "/user/whoami", "user")
def whoami(call: SimRequest) -> SimResponse:
    scopes = call.account.tokens.get(call.path.get("token", "")) or {}
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


@_route("GET", "/user/teams", "user")
def teams(call: SimRequest) -> SimResponse:
    return SimResponse(call.window(call.account.records["teams"]))


@_route("GET", "/teams/{team_id}/members", "user")
def members(call: SimRequest) -> SimResponse:
    if call.path["team_id"] not in {team["teamId"] for team in call.account.records["teams"]}:
        raise refused(404, "Team not found")
    return SimResponse({"data": call.account.records["members"]})


@_route("GET", "/billing/wallet", "billing")
def wallet(call: SimRequest) -> SimResponse:
    account = call.account
    now = account.settle()
    offset, limit = call.number("offset", 0, 0), call.number("limit", 20, 1, 100)
    bills = [
        pod.bill(now) for pod in reversed(account.pods.values()) if pod.cost(now) > 0
    ] + account.records["billings"]
    return SimResponse(
        {
            "wallet_id": "wallet_sim",
            "team_id": call.one("teamId"),
            "balance_usd": round(max(0.0, account.money(now)), 6),
            "currency": "USD",
            "total_billings": len(bills),
            "recent_billings": bills[offset : offset + limit],
        }
    )


# --- disks ---


@_route("GET", "/disks/", "disks")
def list_disks(call: SimRequest) -> SimResponse:
    return SimResponse(
        call.window([disk for disk in call.account.disks if disk["status"] != "TERMINATED"])
    )


@_route("POST", "/disks/", "disks")
def create_disk(call: SimRequest) -> SimResponse:
    faults = disk_faults(call.body)
    if faults:
        raise refused_body(faults, documented=True)
    disk, account = call.body["disk"], call.account
    now = stamp(account.clock.now())
    made = {
        "id": f"simdisk{len(account.disks) + 1:04d}",
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
    account.disks.append(made)
    return SimResponse(made)


def _disk(call: SimRequest) -> dict[str, Any]:
    for disk in call.account.disks:
        if disk["id"] == call.path["disk_id"]:
            return disk
    raise refused(404, "Disk not found")


@_route("GET", "/disks/{disk_id}", "disks")
def get_disk(call: SimRequest) -> SimResponse:
    return SimResponse(_disk(call))


@_route("PATCH", "/disks/{disk_id}", "disks")
def rename_disk(call: SimRequest) -> SimResponse:
    disk = _disk(call)
    if not isinstance(call.body, dict) or not isinstance(call.body.get("name"), str):
        raise refused_body(
            [{"loc": ["body", "name"], "msg": "Field required", "type": "missing"}], documented=True
        )
    disk["name"] = call.body["name"]
    return SimResponse({"message": "Disk updated"})


@_route("DELETE", "/disks/{disk_id}", "disks")
def delete_disk(call: SimRequest) -> SimResponse:
    disk = _disk(call)
    disk.update(status="TERMINATED", terminatedAt=stamp(call.account.clock.now()))
    return SimResponse({"status": "TERMINATED"})


# --- the rest that the real command line asks for ---


@_route("GET", "/environmentshub/{owner}/{name}/@{version}", None)
def environment(call: SimRequest) -> SimResponse:
    found = call.account.records["environments"].get(f"{call.path['owner']}/{call.path['name']}")
    if found is None or call.path["version"] not in ("latest", found["version"]):
        raise refused(404, "Environment not found")
    shown = {
        name: value.replace("{SIM}", call.origin) if isinstance(value, str) else value
        for name, value in found.items()
    }
    return SimResponse({"data": shown})


@_route("POST", "/evaluations/", "evaluations")
def create_evaluation(call: SimRequest) -> SimResponse:
    evaluations = call.account.records["evaluations"]
    name = call.body.get("name") if isinstance(call.body, dict) else None
    if not name:
        raise refused_body([{"loc": ["body", "name"], "msg": "Field required", "type": "missing"}])
    number = len(evaluations)
    made = {
        "evaluation_id": "eval_sim" if not number else f"eval_sim{number + 1}",
        "name": name,
        "status": "PENDING",
    }
    evaluations[made["evaluation_id"]] = {**made, "samples_pushed": 0}
    return SimResponse(made)


def _evaluation(call: SimRequest) -> dict[str, Any]:
    found: dict[str, Any] | None = call.account.records["evaluations"].get(
        call.path["evaluation_id"]
    )
    if found is None:
        raise refused(404, "Evaluation not found")
    return found


@_route("POST", "/evaluations/{evaluation_id}/samples", "evaluations")
def push_samples(call: SimRequest) -> SimResponse:
    found = _evaluation(call)
    found["samples_pushed"] += (
        len(call.body.get("samples", ())) if isinstance(call.body, dict) else 0
    )
    return SimResponse(found)


@_route("POST", "/evaluations/{evaluation_id}/finalize", "evaluations")
def finalize_evaluation(call: SimRequest) -> SimResponse:
    found = _evaluation(call)
    found["status"] = "COMPLETED"
    return SimResponse(found)


@_route("GET", "/rft/runs", "rft")
def runs(call: SimRequest) -> SimResponse:
    page, limit, rows = (
        call.number("page", 1, 1),
        call.number("limit", 20, 1, 100),
        call.account.records["runs"],
    )
    shown = rows[(page - 1) * limit : page * limit]
    return SimResponse(
        {
            "runs": shown,
            "total": len(rows),
            "page": page,
            "limit": limit,
            "total_pages": max(1, -(-len(rows) // limit)),
        }
    )


@_route("GET", "/rft/runs/{run_id}", "rft")
def get_run(call: SimRequest) -> SimResponse:
    for run in call.account.records["runs"]:
        if run["id"] == call.path["run_id"]:
            return SimResponse({"run": run})
    raise refused(404, "Run not found")


@_route("GET", "/rft/runs/{run_id}/logs", "rft")
def run_logs(call: SimRequest) -> SimResponse:
    text = call.account.records["run_logs"].get(call.path["run_id"])
    if text is None:
        raise refused(404, "Run not found")
    return SimResponse(
        {"logs": "\n".join(text.splitlines()[-call.number("tail_lines", 1000, 1) :])}
    )


@_route("GET", "/models", "inference")
def models(call: SimRequest) -> SimResponse:
    return SimResponse({"object": "list", "data": call.account.records["models"]})


@_route("GET", "/sandbox", "sandboxes")
def sandboxes(call: SimRequest) -> SimResponse:
    page, size = call.number("page", 1, 1), call.number("per_page", 50, 1, 100)
    return SimResponse(
        {"sandboxes": [], "total": 0, "page": page, "per_page": size, "has_next": False}
    )
