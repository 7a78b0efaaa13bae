"""What can go wrong, or merely differently, on the real service.

Faults of requests, behaviour of pods, and both by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any

KINDS = (
    "refuse",
    "reset_before",
    "reset_after",
    "status",
    "html503",
    "errors422",
    "timeout",
    "malformed",
    "slow",
)
"""How a request can fail.

- `refuse`: its connection is dropped before it is handled, and the port refuses connections for
  `seconds`;
- `reset_before`, `reset_after`: the connection is reset before, or after, the request was carried
  out;
- `status`: this status with a `detail` in JSON, nothing carried out; `html503` and `errors422` are
  its other forms;
- `timeout`: no answer for `seconds`, nothing carried out, then the connection closes;
- `malformed`: carried out, and the answer stops in the middle of its JSON;
- `slow`: carried out, and answered after `seconds`.
"""

DETAILS: Mapping[int, str] = {
    400: "Missing field: simulated",
    401: "Could not validate credentials",
    402: "Insufficient balance",
    403: "Insufficient permissions",
    404: "Not found",
    409: "Conflict",
    429: "Too many requests",
    500: "Internal server error",
    502: "Bad gateway",
    503: "Service unavailable",
    504: "Gateway timeout",
}


@dataclass(frozen=True)
class Fault:
    """The next `times` requests that fit go wrong.

    `path` is a glob over the path in its canonical form (`/api/v1/pods/`), `method` a method or
    `*`.
    """

    method: str
    path: str
    kind: str
    times: int = 1
    status: int = 500
    detail: str | None = None
    retry_after: float | None = None
    """Seconds of a Retry-After header."""
    seconds: float = 30.0
    """Real seconds, for `refuse`, `timeout` and `slow`."""
    after: int = 0
    """Requests that fit and are let through first."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of fault {self.kind!r}; there are: {', '.join(KINDS)}")
        if self.times < 1 or self.seconds < 0 or self.after < 0 or not 400 <= self.status <= 599:
            raise ValueError(
                "a fault needs times >= 1, seconds >= 0, after >= 0 and a status from 400 to 599"
            )

    def fits(self, method: str, path: str) -> bool:
        """Return True if it is about such a request."""
        return self.method in ("*", method) and fnmatchcase(path, self.path)

    def body(self) -> Any:
        """The JSON of a failing answer."""
        if self.kind == "errors422":
            return {
                "errors": [
                    {"param": "pod.socket", "details": self.detail or "Input should be PCIe"}
                ]
            }
        if self.status == 422:
            return {
                "detail": [
                    {
                        "loc": ["body", "pod", "socket"],
                        "msg": self.detail or "Input should be PCIe",
                        "type": "enum",
                    }
                ]
            }
        return {"detail": self.detail or DETAILS.get(self.status, "Simulated failure")}


class FaultList:
    """The faults that are still to come, oldest first."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, *faults: Fault) -> None:
        """Let these happen after those already waiting."""
        self._waiting.extend(faults)

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        self._waiting.clear()

    def waiting(self) -> tuple[Fault, ...]:
        """The faults that are still to come."""
        return tuple(self._waiting)

    def take(self, method: str, path: str) -> Fault | None:
        """The fault of this request, counted down; None when it shall go well."""
        for index, fault in enumerate(self._waiting):
            if not fault.fits(method, path):
                continue
            if fault.after:
                self._waiting[index] = replace(fault, after=fault.after - 1)
                continue
            if fault.times == 1:
                del self._waiting[index]
            else:
                self._waiting[index] = replace(fault, times=fault.times - 1)
            return fault
        return None


@dataclass(frozen=True)
class RecordedRequest:
    """A request that came, as it came. Its headers, and with them the key, are not kept."""

    at: float
    """Simulated seconds."""
    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    body: Any
    """Parsed JSON; the text itself where it is not JSON; None without a body."""
    status: int | None = None
    """None when no answer was sent."""
    fault: str | None = None
    handled: bool = False
    """It was carried out, whatever the client received."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Behaviour:
    """How the service treats a pod that is created now.

    Times are simulated seconds after creation unless said otherwise.
    """

    boot: float = 20.0
    """PROVISIONING until then, ACTIVE after it."""
    install: float = 20.0
    """From ACTIVE until the installation is FINISHED."""
    ends: str = "ready"
    """`ready`, `error` (ERROR at the end of the boot), `stuck` (installing at 40 % for ever),
    `install_error`, `stopped`."""
    key_delay: float = 0.0
    """From FINISHED until a login succeeds."""
    reclaimed: float | None = None
    """When the provider takes the machine back."""
    delete: float = 0.0
    """From DELETE until TERMINATED; DELETING in between."""
    delete_ignored: bool = False
    """DELETE is answered with DELETING, and nothing happens."""
    keep: float = 300.0
    """How long GET still knows a terminated pod; 404 afterwards."""
    user: str = "root"
    """The login user."""
    connection: str = "{user}@{host} -p {port}"
    """How sshConnection is written."""
    shape: str = "text"
    """`text`, `list`, `nulls` (a list with nulls at both ends), `none` (never set: only address and
    port map are set)."""
    recycle: bool = False
    """Take the address and port of the pod terminated last, with a new host key."""
    rekey: float | None = None
    """When the host key changes under a living pod."""
    offer_gone: bool = False
    """The offer is listed, and gone when it is asked for."""
    max_price_demanded: bool = False
    """A body without a maxPrice is refused with 400."""
    strange_values: bool = False
    """Status and installation status that no list names, and keys that no client knows."""
    gpus_a_node: int = 8
    """GPUs that a machine has at most; a pod with more is a cluster."""
    status_forgets: bool = False
    """The status of many leaves this pod out."""

    def to_json(self) -> dict[str, Any]:
        """The form that the state file holds."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Behaviour:
        """Read `to_json` back; names that are not known (any more) are left out."""
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})


@dataclass(frozen=True)
class Scenario:
    """A named situation: how pods behave from now on, and which requests fail."""

    name: str
    title: str
    behaviour: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    balance: float | None = None
    """The wallet's new balance in USD."""

    def apply(self, behaviour: Behaviour) -> Behaviour:
        """`behaviour` as it is in this situation."""
        return replace(behaviour, **self.behaviour)


_ALWAYS = 10**9
_API = "/api/v1/*"
_PODS = "/api/v1/pods/"
_POD = "/api/v1/pods/*"


def _everything(kind: str, **more: Any) -> tuple[Fault, ...]:
    return (Fault("*", _API, kind, times=_ALWAYS, **more),)


SCENARIOS: Mapping[str, Scenario] = {
    item.name: item
    for item in (
        Scenario("plain", "everything goes well"),
        Scenario("offer-gone", "an offer is gone between list and create", {"offer_gone": True}),
        Scenario("error-pod", "the machine fails to boot: status ERROR", {"ends": "error"}),
        Scenario(
            "install-error",
            "the image fails to install: installation ERROR",
            {"ends": "install_error"},
        ),
        Scenario("stuck-install", "the installation stays at 40 % for ever", {"ends": "stuck"}),
        Scenario("stopped-pod", "the machine stops after its boot", {"ends": "stopped"}),
        Scenario(
            "key-late",
            "the key is accepted 90 s after the pod says it is ready",
            {"key_delay": 90.0},
        ),
        Scenario(
            "spot-reclaim",
            "the provider takes the machine back after five minutes",
            {"reclaimed": 300.0},
        ),
        Scenario("quick", "two seconds to boot and two to install", {"boot": 2.0, "install": 2.0}),
        Scenario(
            "slow-boot",
            "twelve minutes to boot and eight to install",
            {"boot": 720.0, "install": 480.0},
        ),
        Scenario("wallet-empty", "402: no money", balance=0.0),
        Scenario(
            "wallet-nearly-empty",
            "the wallet lasts for a few minutes; pods end with it",
            balance=0.05,
        ),
        Scenario("unauthorized", "401 to every request", faults=_everything("status", status=401)),
        Scenario(
            "forbidden",
            "403 to whatever touches pods",
            faults=(Fault("*", _POD, "status", times=_ALWAYS, status=403),),
        ),
        Scenario(
            "rate-limited",
            "429 with Retry-After, three times",
            faults=(Fault("*", _API, "status", times=3, status=429, retry_after=1.0),),
        ),
        Scenario("server-error", "500 to every request", faults=_everything("status", status=500)),
        Scenario("html-503", "a proxy's page instead of JSON", faults=_everything("html503")),
        Scenario("timeout", "requests are never answered", faults=_everything("timeout")),
        Scenario(
            "malformed-json", "answers that end in the middle", faults=_everything("malformed")
        ),
        Scenario(
            "unprocessable",
            "422 in FastAPI's form to the next creation",
            faults=(Fault("POST", _PODS, "status", status=422),),
        ),
        Scenario(
            "unprocessable-errors",
            "422 in the form of the published schema",
            faults=(Fault("POST", _PODS, "errors422"),),
        ),
        Scenario(
            "create-answer-lost",
            "a pod is created, and its answer lost",
            faults=(Fault("POST", _PODS, "reset_after"),),
        ),
        Scenario(
            "create-lost",
            "the creation is lost on its way",
            faults=(Fault("POST", _PODS, "reset_before"),),
        ),
        Scenario(
            "delete-answer-lost",
            "a pod is terminated, and the answer lost",
            faults=(Fault("DELETE", _POD, "reset_after"),),
        ),
        Scenario(
            "delete-lost",
            "the termination is lost on its way",
            faults=(Fault("DELETE", _POD, "reset_before"),),
        ),
        Scenario(
            "delete-ignored",
            "the termination is acknowledged and never done",
            {"delete_ignored": True},
        ),
        Scenario("slow-delete", "DELETING for a minute", {"delete": 60.0}),
        Scenario(
            "recycled-address",
            "a new pod at the address of the last one, with another host key",
            {"recycle": True},
        ),
        Scenario(
            "host-key-changes", "the host key changes two minutes after creation", {"rekey": 120.0}
        ),
        Scenario("ubuntu-user", "the login is ubuntu, root is refused", {"user": "ubuntu"}),
        Scenario(
            "ssh-never-told",
            "sshConnection stays null; address and port map are right",
            {"shape": "none"},
        ),
        Scenario("ssh-list", "sshConnection is a list", {"shape": "list"}),
        Scenario("ssh-list-nulls", "sshConnection is a list with nulls", {"shape": "nulls"}),
        Scenario(
            "ssh-command",
            "sshConnection is `ssh user@host -p port`",
            {"connection": "ssh {user}@{host} -p {port}"},
        ),
        Scenario(
            "ssh-colon", "sshConnection is `user@host:port`", {"connection": "{user}@{host}:{port}"}
        ),
        Scenario(
            "large-nodes",
            "a machine of a cluster has 16 GPUs, so that there are fewer of them",
            {"gpus_a_node": 16},
        ),
        Scenario("max-price", "a body without maxPrice is refused", {"max_price_demanded": True}),
        Scenario("unknown-values", "status values and unknown keys", {"strange_values": True}),
        Scenario("status-omits", "the status of many leaves pods out", {"status_forgets": True}),
    )
}
