"""Prime Intellect as a provider, over its REST API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hudtui.core.compute.prime.client import PREFIX, PrimeApiError, PrimeHttp
from hudtui.core.compute.prime.entry import BASE_URL, prime_title
from hudtui.core.compute.prime.schemas import (
    find_addresses,
    is_ending,
    order_body,
    parse_key,
    parse_offer,
    parse_pod,
    parse_time,
    stage_of,
)
from hudtui.core.compute.provider import (
    AuthError,
    Features,
    OutcomeUnknown,
    OutOfCapacity,
    ProviderError,
)
from hudtui.core.compute.values import Account, Offer, Offers, Order, Pod, SshKey
from hudtui.core.errors import InputError
from hudtui.core.http import Query as Pairs
from hudtui.core.text import clean_line

_PAGE = 100
_MOST_PAGES = 50
_BILL_PAGES = 5
_AT_ONCE = 4
_NO_CAPACITY = (
    "no capacity",
    "out of stock",
    "unavailable",
    "not available",
    "insufficient capacity",
    "no longer available",
    "sold out",
)
_NO_QUOTA = ("quota exceeded", "limit exceeded")


class PrimeProvider:
    """Prime Intellect, or a simulator of it.

    An instance belongs to one event loop. Cancelling a call cancels its request; whether a POST was
    carried out is unclear then, and `acquire` sees to that. The key is in no error, no log and no
    `repr`. `team_id` is the team that pays; None for the account itself. `simulated`: it is a
    simulator, without real money.

    Raises:
        InputError: The key or the address cannot be one.
    """

    def __init__(
        self,
        api_key: str,
        *,
        base_url: str = BASE_URL,
        team_id: str | None = None,
        simulated: bool = False,
        timeout: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.team_id = team_id
        self.features = Features(paid=True, simulated=simulated, clusters=True)
        self._http = PrimeHttp(api_key, base_url, title=self.title, timeout=timeout, sleep=sleep)
        self._known: dict[str, Pod] = {}
        self._poll = _StatusBatch(self._states)

    def __repr__(self) -> str:
        return f"Prime({self.base_url!r})"

    @property
    def name(self) -> str:
        """Always `prime`."""
        return "prime"

    @property
    def title(self) -> str:
        return prime_title(self.features.simulated)

    @property
    def base_url(self) -> str:
        return self._http.base_url

    @property
    def endpoint(self) -> str:
        """Which service it is, for the ledger.

        What is simulated there must never be taken for what is real.
        """
        return self._http.base_url

    async def close(self) -> None:
        await self._http.close()

    # --- offers ---

    async def offers(self) -> Offers:
        """What can be had now; pages that could not be read are named in `warnings`.

        Raises:
            ProviderError: Nothing could be read at all.
        """
        clusters = "clusters"
        kinds = {"single machines": "/availability/gpus", clusters: "/availability/multi-node"}
        parts = await asyncio.gather(
            *map(self._offer_pages, kinds.values()), return_exceptions=True
        )
        found: dict[str, Offer] = {}
        warnings: list[str] = []
        failures: list[BaseException] = []
        for kind, part in zip(kinds, parts, strict=True):
            if isinstance(part, BaseException):
                failures.append(part)
                warnings.append(f"{kind}: {part.what if isinstance(part, ProviderError) else part}")
                continue
            rows, lacking = part
            warnings += [f"{kind}: {text}" for text in lacking]
            for row in rows:
                offer = parse_offer(row, self.name, cluster=kind == clusters)
                if offer is not None:
                    before = found.setdefault(offer.id, offer)
                    cheapest = min(before, offer, key=lambda one: one.price.hourly)
                    # What one of the lists calls a cluster is one: it would train on one machine
                    # of several, at the price of all.
                    nodes = max(before.nodes, offer.nodes)
                    guessed = before.nodes_guessed or offer.nodes_guessed
                    found[offer.id] = replace(cheapest, nodes=nodes, nodes_guessed=guessed)
        fatal = next(
            (
                error
                for error in failures
                if not isinstance(error, ProviderError) or isinstance(error, AuthError)
            ),
            None,
        )
        if fatal is not None or len(failures) == len(kinds):
            raise fatal or failures[0]
        return Offers(
            tuple(sorted(found.values(), key=lambda offer: (offer.price.hourly, offer.id))),
            tuple(warnings),
        )

    async def _offer_pages(self, path: str) -> tuple[list[Any], list[str]]:
        async def page(number: int) -> Mapping[str, Any]:
            return await self._http.send(
                "GET", path, query=[("page", number), ("page_size", _PAGE)]
            )

        first = await page(1)
        rows = list(_rows(first, "items"))
        total = first.get("totalCount")
        pages = min(-(-total // _PAGE), _MOST_PAGES) if isinstance(total, int) else 1
        gate, lacking = asyncio.Semaphore(_AT_ONCE), []

        async def more(number: int) -> list[Any]:
            async with gate:
                try:
                    return list(_rows(await page(number), "items"))
                except AuthError:
                    raise
                except ProviderError as error:
                    lacking.append(f"page {number} of {pages} is missing: {error.what}")
                    return []

        for part in await asyncio.gather(*map(more, range(2, pages + 1))):
            rows += part
        return rows, lacking

    # --- pods ---

    async def create(self, order: Order) -> Pod:
        """Rent a machine; see `Provider.create`.

        Sent again only when it was refused for lacking a highest price.

        Raises:
            InputError: The offer has no such image or disk; nothing was sent.
        """
        if order.offer.provider != self.name:
            raise InputError(
                f"{order.offer.short} is an offer of {order.offer.provider}, not of {self.name}"
            )
        try:
            try:
                raw = await self._http.send(
                    "POST", "/pods/", body=order_body(order, team=self.team_id)
                )
            except PrimeApiError as refusal:
                if refusal.status != 400 or not _names_max_price(refusal.told):
                    raise
                body = order_body(order, team=self.team_id, max_price=order.offer.price.hourly)
                raw = await self._http.send("POST", "/pods/", body=body)
        except PrimeApiError as refusal:
            told = refusal.told.lower()
            if any(words in told for words in _NO_QUOTA):
                raise ProviderError(
                    f"{self.title} gives this account no more machines",
                    why=refusal.why,
                    fix="End one, or ask for a higher limit.",
                ) from None
            if (
                refusal.status < 500
                and "image" not in told
                and any(words in told for words in _NO_CAPACITY)
            ):
                raise OutOfCapacity(
                    f"{order.offer.gpu_type} at {order.offer.cloud} is gone: another customer took "
                    "it",
                    why=refusal.why,
                    fix="Nothing was created. Choose another offer.",
                ) from None
            raise
        try:
            return self._remember(raw)
        except ProviderError as error:
            raise OutcomeUnknown(
                f"{self.title} answered without saying what it created", why=error.why
            ) from None

    async def pods(self) -> tuple[Pod, ...]:
        """All pods that the key can see and that are not gone: the account's, and its teams'."""
        found = {pod.id: pod for pod in [self._remember(row) for row in await self._all("/pods/")]}
        return tuple(pod for pod in found.values() if pod.stage != "gone")

    async def find(self, name: str) -> Pod | None:
        """The pod of that name among `pods`."""
        return next((pod for pod in await self.pods() if pod.name == name), None)

    async def status(self, ids: Sequence[str]) -> tuple[Pod, ...]:
        """The state of many, by one request for a hundred.

        Those who ask at the same moment share it.
        """
        if not ids:
            return ()
        found = await self._poll.ask(ids)
        return tuple(found[pod] for pod in ids if pod in found)

    async def _states(self, ids: tuple[str, ...]) -> Mapping[str, Pod]:
        async def part(some: tuple[str, ...]) -> Sequence[Any]:
            answer = await self._http.send(
                "GET", "/pods/status", query=[("pod_ids", pod) for pod in some]
            )
            return _rows(answer, "data")

        parts = await asyncio.gather(
            *(part(ids[start : start + _PAGE]) for start in range(0, len(ids), _PAGE))
        )
        found, whole = {}, []
        for row in (row for rows in parts for row in rows if isinstance(row, Mapping)):
            pod_id = str(row.get("podId") or "")
            known = self._known.get(pod_id)
            if known is None or (not known.addresses and _wants_address(row)):
                whole.append(pod_id)  # the short answer has no name, no price and no port map
            else:
                found[pod_id] = _updated(known, row)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def ask(pod_id: str) -> Pod | None:
            async with gate:
                return await self.get(pod_id)

        for pod in await asyncio.gather(*map(ask, filter(None, whole))):
            if pod is not None:
                found[pod.id] = pod
        self._known.update(found)
        return found

    async def get(self, pod: str) -> Pod | None:
        """Everything about one pod; None where the service does not know it."""
        try:
            return self._remember(await self._http.send("GET", f"/pods/{_segment(pod)}"))
        except PrimeApiError as refusal:
            if refusal.status == 404:
                return None
            raise

    async def terminate(self, pod: str) -> None:
        """Ask for the end of a pod. An unknown pod is no failure: it has ended."""
        try:
            await self._http.send("DELETE", f"/pods/{_segment(pod)}")
        except PrimeApiError as refusal:
            if refusal.status != 404:
                raise

    def terminate_url(self, pod: str) -> str:
        """The address that a machine's own guard sends its DELETE to."""
        return f"{self._http.base_url}{PREFIX}/pods/{_segment(pod)}"

    async def history(self) -> tuple[Pod, ...]:
        """The hundred pods that ended last, with what they cost."""
        pairs: Pairs = [
            ("offset", 0),
            ("limit", _PAGE),
            ("sort_by", "terminatedAt"),
            ("sort_order", "desc"),
        ]
        rows = _rows(await self._http.send("GET", "/pods/history", query=pairs), "data")
        return tuple(parse_pod(row, self.name, gone=True) for row in rows)

    def _remember(self, raw: Any) -> Pod:
        pod = parse_pod(raw, self.name)
        self._known[pod.id] = pod
        return pod

    # --- the account ---

    async def account(self) -> Account:
        """Whose money it is, and what each pod has cost.

        A key that may not see the wallet gives an account without balance.
        """
        pairs: list[tuple[str, str | int]] = [("teamId", self.team_id)] if self.team_id else []
        who, wallet = await asyncio.gather(
            self._http.send("GET", "/user/whoami", query=pairs),
            self._wallet(pairs),
            return_exceptions=True,
        )
        if isinstance(who, BaseException):
            raise who
        if isinstance(wallet, BaseException):
            if not isinstance(wallet, AuthError):
                raise wallet
            wallet = {}, {}
        person = who.get("data") if isinstance(who.get("data"), Mapping) else who
        balance, spent = wallet
        name = next(
            (person[key] for key in ("name", "email", "slug", "id") if person.get(key)), "?"
        )
        amount = balance.get("balance_usd")
        return Account(
            name=clean_line(str(name), 100),
            team=self.team_id,
            balance=float(amount) if isinstance(amount, int | float) else None,
            currency=str(balance.get("currency") or "USD"),
            spent=spent,
            scopes=_scopes(person.get("scope")),
        )

    async def _wallet(self, pairs: Pairs) -> tuple[Mapping[str, Any], dict[str, float]]:
        spent: dict[str, float] = {}
        first: Mapping[str, Any] = {}
        for page in range(_BILL_PAGES):
            answer = await self._http.send(
                "GET", "/billing/wallet", query=[("limit", _PAGE), ("offset", page * _PAGE), *pairs]
            )
            first = first or answer
            rows = _rows(answer, "recent_billings")
            for row in rows:
                amount = row.get("amount_usd") if isinstance(row, Mapping) else None
                if (
                    isinstance(amount, int | float)
                    and row.get("resource_id")
                    and row.get("resource_type") in ("compute", None)
                ):
                    spent[str(row["resource_id"])] = (
                        spent.get(str(row["resource_id"]), 0.0) + amount
                    )
            total = answer.get("total_billings")
            if len(rows) < _PAGE or (isinstance(total, int) and (page + 1) * _PAGE >= total):
                break
        return first, spent

    async def keys(self) -> tuple[SshKey, ...]:
        """Public keys of the account."""
        return tuple(parse_key(row) for row in await self._all("/ssh_keys/"))

    async def register_key(self, name: str, public_key: str) -> SshKey:
        """Register a public key, and make it the primary one. A registered key is not added again.

        Raises:
            InputError: It is no public key.
        """
        text = " ".join(public_key.split())
        if len(text.split()) < 2 or not text.startswith(("ssh-", "ecdsa-", "sk-")):
            raise InputError(
                "this is not a public SSH key",
                fix="It is one line of a file such as ~/.ssh/id_ed25519.pub.",
            )
        key = await self._find_key(text)
        if key is None:
            try:
                key = parse_key(
                    await self._http.send(
                        "POST", "/ssh_keys/", body={"name": name, "publicKey": text}
                    )
                )
            except OutcomeUnknown:
                key = await self._find_key(text)
                if key is None:
                    raise
        if key.primary:
            return key
        await self._http.send("PATCH", f"/ssh_keys/{_segment(key.id)}", body={"isPrimary": True})
        return replace(key, primary=True)

    async def _find_key(self, public: str) -> SshKey | None:
        return next((key for key in await self.keys() if key.holds(public)), None)

    async def _all(self, path: str) -> list[Any]:
        """Every row of a list, page by page.

        A page that fails fails the whole: half a list of machines is worse than none.
        """
        rows: list[Any] = []
        for _ in range(_MOST_PAGES):
            answer = await self._http.send(
                "GET", path, query=[("offset", len(rows)), ("limit", _PAGE)]
            )
            if not isinstance(answer.get("data"), list):
                raise ProviderError(
                    f"{self.title} answered without a list", why=f"asked for {path}"
                )
            part, total = answer["data"], answer.get("total_count")
            rows += part
            if not part or (len(rows) >= total if isinstance(total, int) else len(part) < _PAGE):
                break
        return rows


_BATCH_WINDOW = 0.02
"""Seconds that a question about pods waits for others."""


class _StatusBatch:
    """Collects pod ids for a moment, then asks for all of them in one request."""

    def __init__(self, fetch: Callable[[tuple[str, ...]], Awaitable[Mapping[str, Pod]]]) -> None:
        self._fetch = fetch
        self._ids: dict[str, None] = {}
        self._task: asyncio.Task[Mapping[str, Pod]] | None = None

    async def ask(self, ids: Iterable[str]) -> Mapping[str, Pod]:
        """The pods with these ids, and perhaps others.

        A caller that is cancelled does not disturb the other callers.

        Raises:
            ProviderError: The request failed; every caller that shares it gets the error.
        """
        self._ids |= dict.fromkeys(ids)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
            # Read the error even when every caller was cancelled; asyncio complains about unread
            # errors.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._task)

    async def _run(self) -> Mapping[str, Pod]:
        await asyncio.sleep(_BATCH_WINDOW)
        ids, self._ids, self._task = tuple(self._ids), {}, None
        return await self._fetch(ids)


def _rows(answer: Mapping[str, Any], key: str) -> Sequence[Any]:
    rows = answer.get(key)
    return rows if isinstance(rows, list) else ()


def _segment(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def _names_max_price(told: str) -> bool:
    return "maxprice" in told.lower().replace("_", "").replace(" ", "")


def _wants_address(row: Mapping[str, Any]) -> bool:
    """It is said to be ready, and the short answer does not tell where."""
    return stage_of(row, True)[0] == "ready" and not find_addresses(
        row.get("sshConnection"), None, None
    )


def _updated(known: Pod, row: Mapping[str, Any]) -> Pod:
    """A pod with what the short answer tells."""
    addresses = find_addresses(row.get("sshConnection"), None, None) or known.addresses
    stage, status = stage_of(row, bool(addresses))
    progress, failure = row.get("installationProgress"), row.get("installationFailure")
    ended = parse_time(row.get("terminatedAt")) or known.terminated
    return replace(
        known,
        stage=stage,
        status=status,
        addresses=() if stage == "gone" else addresses,
        progress=int(progress)
        if isinstance(progress, int | float) and not isinstance(progress, bool)
        else None,
        failure=clean_line(failure, 400) if isinstance(failure, str) and failure else None,
        ending=is_ending(status),
        terminated=ended,
    )


def _scopes(scope: Any) -> tuple[str, ...]:
    if not isinstance(scope, Mapping):
        return ()
    return tuple(
        f"{area}:{right}"
        for area, rights in sorted(scope.items())
        if isinstance(rights, Mapping)
        for right in ("read", "write")
        if rights.get(right) is True
    )
