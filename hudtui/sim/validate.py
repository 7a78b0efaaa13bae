"""What a create request must look like: required fields, no unknown ones, sizes above zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_POD_FIELDS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "cloudId": (str,),
    "gpuType": (str,),
    "socket": (str,),
    "gpuCount": (int,),
    "diskSize": (int,),
    "vcpus": (int,),
    "memory": (int,),
    "image": (str,),
    "dataCenterId": (str,),
    "maxPrice": (int, float),
    "country": (str,),
    "security": (str,),
    "envVars": (list,),
    "jupyterPassword": (str,),
    "sshKeyId": (str,),
    "autoRestart": (bool,),
    "customTemplateId": (str,),
    "prepaidForHr": (int,),
}
_POD_REQUIRED = ("cloudId", "gpuType", "socket", "gpuCount")
_POSITIVE = ("gpuCount", "diskSize", "vcpus", "memory", "prepaidForHr")
_DISK_REQUIRED = ("size",)
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "list"}

Fault422 = dict[str, Any]


def _fault(where: tuple[str | int, ...], text: str, kind: str) -> Fault422:
    return {"loc": ["body", *where], "msg": text, "type": kind}


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _provider_faults(body: Mapping[str, Any]) -> list[Fault422]:
    provider = body.get("provider")
    if not isinstance(provider, Mapping):
        return [_fault(("provider",), "Field required", "missing")]
    if not isinstance(provider.get("type"), str):
        return [_fault(("provider", "type"), "Field required", "missing")]
    return []


def pod_faults(body: Any) -> list[Fault422]:
    """What is wrong with the body of `POST /pods/`, in FastAPI's form; empty when it is valid."""
    if not isinstance(body, Mapping):
        return [_fault((), "Input should be a valid dictionary", "model_attributes_type")]
    pod = body.get("pod")
    if not isinstance(pod, Mapping):
        return [_fault(("pod",), "Field required", "missing"), *_provider_faults(body)]
    found = [
        _fault(("pod", name), "Field required", "missing")
        for name in _POD_REQUIRED
        if pod.get(name) is None
    ]
    for name, value in pod.items():
        kinds = _POD_FIELDS.get(name)
        if kinds is None:
            found.append(_fault(("pod", name), "Extra inputs are not permitted", "extra_forbidden"))
        elif value is not None and not _is(value, kinds):
            found.append(
                _fault(
                    ("pod", name),
                    f"Input should be a valid {_NAMES[kinds[-1]]}",
                    f"{_NAMES[kinds[-1]]}_type",
                )
            )
        elif value is not None and name in _POSITIVE and value <= 0:
            found.append(_fault(("pod", name), "Input should be greater than 0", "greater_than"))
    for index, variable in enumerate(pod.get("envVars") or ()):
        if (
            not isinstance(variable, Mapping)
            or not isinstance(variable.get("key"), str)
            or not isinstance(variable.get("value"), str)
        ):
            found.append(
                _fault(
                    ("pod", "envVars", index), "Input should have a key and a value", "model_type"
                )
            )
    disks = body.get("disks")
    if disks is not None and not (
        isinstance(disks, list) and all(isinstance(item, str) for item in disks)
    ):
        found.append(_fault(("disks",), "Input should be a valid list of strings", "list_type"))
    team = body.get("team")
    if team is not None and not (isinstance(team, Mapping) and isinstance(team.get("teamId"), str)):
        found.append(_fault(("team", "teamId"), "Field required", "missing"))
    return found + _provider_faults(body)


def missing_field(order: Mapping[str, Any], *, max_price: bool, centre: str | None) -> str | None:
    """The refusal of the layer behind the schema, which the published schema does not mention.

    None when there is none.
    """
    if order.get("dataCenterId") is None and centre is not None:
        return "Missing field: data_center_id"
    if max_price and order.get("maxPrice") is None:
        return "Missing field: max_price not specified"
    return None


def disk_faults(body: Any) -> list[Fault422]:
    """What is wrong with the body of `POST /disks/`."""
    if not isinstance(body, Mapping) or not isinstance(body.get("disk"), Mapping):
        return [_fault(("disk",), "Field required", "missing")]
    found = [
        _fault(("disk", name), "Field required", "missing")
        for name in _DISK_REQUIRED
        if not _is(body["disk"].get(name), (int,))
    ]
    if not found and body["disk"]["size"] <= 0:
        found.append(_fault(("disk", "size"), "Input should be greater than 0", "greater_than"))
    return found + _provider_faults(body)


def as_errors(faults: list[Fault422]) -> dict[str, Any]:
    """The same faults in the form that the published schema documents."""
    return {
        "errors": [
            {"param": ".".join(map(str, fault["loc"][1:])), "details": fault["msg"]}
            for fault in faults
        ]
    }
