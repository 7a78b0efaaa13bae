"""A provider of somebody else's, for a service that speaks like the simulator: a client and
settings of its own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from hudtui.core.compute.entry import Lookup, ProviderEntry
from hudtui.core.compute.provider import (
    AuthError,
    Features,
    InsufficientFunds,
    OutcomeUnknown,
    OutOfCapacity,
    Provider,
    ProviderError,
)
from hudtui.core.compute.values import Account, Address, Offer, Offers, Order, Pod, Price, SshKey
from hudtui.core.credentials import KeyRequest
from hudtui.core.http import HttpAnswer, HttpClient, HttpError
from hudtui.core.settings import Setting

STAGES = {
    "PROVISIONING": "booting",
    "PENDING": "booting",
    "TERMINATED": "gone",
    "ERROR": "failed",
    "STOPPED": "stopped",
}


class Rig:
    """The service as a provider."""

    name, title = "rig", "Rig"
    features = Features(paid=True)

    def __init__(self, key: str, url: str, *, timeout: float = 30.0, sleep: Any = None) -> None:
        self.endpoint = url.rstrip("/")
        self._http = HttpClient(key, timeout=timeout, sleep=sleep)

    async def close(self) -> None:
        await self._http.aclose()

    async def _ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        def again(result: HttpAnswer | HttpError) -> bool:
            if isinstance(result, HttpError):
                return result.kind == "unsent" or method != "POST"
            return result.status == 429 or (
                method != "POST" and (result.status >= 500 or not isinstance(result.data, dict))
            )

        try:
            answer = await self._http.send(
                method, f"{self.endpoint}/api/v1{path}", body=body, again=again
            )
        except HttpError as error:
            if method == "POST" and error.kind != "unsent":
                raise OutcomeUnknown("Rig may or may not have done it", why=error.why) from None
            raise ProviderError("Rig cannot be asked", why=error.why) from None
        if answer.status == 404 and method in ("GET", "DELETE"):
            return None
        if answer.status in (401, 403):
            raise AuthError("Rig refuses the key", fix="Set RIG_LOGIN to a valid one.")
        if answer.status == 402:
            raise InsufficientFunds("the account at Rig is empty")
        if method == "POST" and (
            answer.status >= 500 or (answer.ok and not isinstance(answer.data, dict))
        ):
            raise OutcomeUnknown("Rig may or may not have done it", why=answer.message())
        if not answer.ok and method == "POST" and "no longer available" in answer.message().lower():
            raise OutOfCapacity("the machine is gone", why=answer.message())
        if not answer.ok or not isinstance(answer.data, dict):
            raise ProviderError("Rig refused", why=answer.message() or f"status {answer.status}")
        return answer.data

    async def offers(self) -> Offers:
        rows = (await self._ask("/availability/gpus?page=1&page_size=100") or {})["items"]
        return Offers(tuple(map(self._offer, rows)))

    def _offer(self, row: Any) -> Offer:
        price = Price(row["prices"]["onDemand"] or 0.0, row["prices"]["currency"])
        return Offer(
            self.name,
            f"{row['provider']}/{row['cloudId']}/{row['dataCenter']}",
            row["gpuType"],
            0 if row["gpuType"] == "CPU_NODE" else row["gpuCount"],
            price,
            gpu_memory=row["gpuMemory"] or None,
            cloud=row["provider"],
            cloud_id=row["cloudId"],
            data_center=row["dataCenter"] or "",
            spot=bool(row["isSpot"]),
            images=tuple(row["images"] or ()),
            raw=row,
        )

    async def create(self, order: Order) -> Pod:
        row = order.offer.raw
        wanted = ("cloudId", "gpuType", "socket", "gpuCount")
        pod = {
            "name": order.name,
            "image": order.offer.images[0],
            "maxPrice": order.offer.price.hourly,
        }
        pod |= {name: row[name] for name in wanted} | {
            "dataCenterId": row["dataCenter"],
            "sshKeyId": order.ssh_key,
        }
        body = {
            "pod": {name: value for name, value in pod.items() if value is not None},
            "provider": {"type": order.offer.cloud},
        }
        return self._pod(await self._ask("/pods/", "POST", body))

    def _pod(self, row: Any, *, gone: bool = False) -> Pod:
        words, ready = (
            str(row.get("status") or "TERMINATED"),
            row.get("installationStatus") in ("FINISHED", None),
        )
        target, _, port = str(row.get("sshConnection") or "").partition(" -p ")
        user, at, host = target.partition("@")
        stage: Any = STAGES.get(words, "unknown")
        if words == "ACTIVE":
            stage = (
                "failed"
                if row.get("installationStatus") == "ERROR"
                else "ready"
                if at and ready
                else "installing"
            )
        ended = row.get("terminatedAt")
        return Pod(
            self.name,
            row["id"],
            row["name"],
            "gone" if gone else stage,
            words,
            row["gpuName"],
            row["gpuCount"],
            hourly=row.get("priceHr"),
            created=datetime.fromisoformat(row["createdAt"]).timestamp(),
            terminated=datetime.fromisoformat(ended).timestamp() if ended else None,
            billed=row.get("totalBilledPrice"),
            addresses=(Address(user, host, int(port or 22)),) if at else (),
            failure=row.get("installationFailure"),
            ending=words == "DELETING",
        )

    async def pods(self) -> tuple[Pod, ...]:
        rows = (await self._ask("/pods/?offset=0&limit=100") or {})["data"]
        return tuple(pod for pod in map(self._pod, rows) if pod.stage != "gone")

    async def find(self, name: str) -> Pod | None:
        return next((pod for pod in await self.pods() if pod.name == name), None)

    async def status(self, ids: Sequence[str]) -> tuple[Pod, ...]:
        answers = [await self.get(one) for one in ids]
        return tuple(pod for pod in answers if pod is not None)

    async def get(self, pod: str) -> Pod | None:
        row = await self._ask(f"/pods/{quote(pod, safe='')}")
        return None if row is None else self._pod(row)

    async def terminate(self, pod: str) -> None:
        await self._ask(f"/pods/{quote(pod, safe='')}", "DELETE")

    def terminate_url(self, pod: str) -> str:
        return f"{self.endpoint}/api/v1/pods/{quote(pod, safe='')}"

    async def history(self) -> tuple[Pod, ...]:
        rows = (
            await self._ask("/pods/history?offset=0&limit=100&sort_by=terminatedAt&sort_order=desc")
            or {}
        )["data"]
        return tuple(self._pod(row, gone=True) for row in rows)

    async def account(self) -> Account:
        wallet = await self._ask("/billing/wallet") or {}
        return Account("rig-user", balance=wallet.get("balance_usd"))

    async def keys(self) -> tuple[SshKey, ...]:
        rows = (await self._ask("/ssh_keys/?offset=0&limit=100") or {})["data"]
        return tuple(
            SshKey(row["id"], row["name"], row["publicKey"], bool(row["isPrimary"])) for row in rows
        )

    async def register_key(self, name: str, public_key: str) -> SshKey:
        row = await self._ask("/ssh_keys/", "POST", {"name": name, "publicKey": public_key})
        return SshKey(row["id"], name, public_key, True)


def _make(lookup: Lookup) -> Provider | None:
    key, url = lookup("RIG_LOGIN"), lookup("RIG_URL")
    return Rig(key, url) if key and url else None


def _lacking(lookup: Lookup) -> str | None:
    return None if _make(lookup) else "Rig needs a login: hudtui settings set RIG_LOGIN --user"


RIG = ProviderEntry(
    name="rig",
    label="Rig",
    title=lambda lookup: "Rig",
    make=_make,
    lacking=_lacking,
    key="RIG_LOGIN",
    key_request=lambda: KeyRequest(
        "RIG_URL", "/api/v1/user/whoami", lambda data: str(data["data"]["email"])
    ),
    guard_key="RIG_GUARD",
    settings=(
        Setting(
            "RIG_LOGIN", "Rig: renting machines", "secret", needs="It has to allow everything."
        ),
        Setting("RIG_URL", "address of Rig", "url"),
        Setting(
            "RIG_GUARD", "a login of Rig that may only end machines, for their guard", "secret"
        ),
    ),
)
