"""SkyPilot as a provider.

Many clouds, Kubernetes and Slurm, by its own program in an environment of its own. It is never
imported: it brings a hundred packages and a server. `sky` runs as a child process, reads a task
file that is written here, and answers as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hudtui.core.compute.gpus import split_type
from hudtui.core.compute.provider import Features, OutcomeUnknown, OutOfCapacity, ProviderError
from hudtui.core.compute.skypilot_entry import PROGRAM, TITLE
from hudtui.core.compute.values import (
    Account,
    Address,
    Offer,
    Offers,
    Order,
    Pod,
    PodStage,
    Price,
    SshKey,
)
from hudtui.core.errors import HudtuiError, InputError, MachineError
from hudtui.core.files import temporary_folder
from hudtui.core.remote.host import Completed
from hudtui.core.remote.local import LocalHost
from hudtui.core.text import clean, clean_line

INSTALL = (
    "SkyPilot is not here: install it for your clouds with `uv tool install 'skypilot[aws]'`, or "
    f"set {PROGRAM}=\"uvx --from 'skypilot[aws]' sky\"."
)
IDLE_MINUTES = 10
MAX_HOURS = 24.0
"""How long a machine's task waits where no limit says it: a forgotten machine must not be paid for
without end."""
_QUICK = 180.0
"""Seconds for a question. The first one starts SkyPilot's server, which takes half a minute and
more."""
_SLOW = 600.0
"""Seconds for taking a machine down."""
_FRESH = {"check": 3600.0, "gpus": 3600.0, "cost-report": 120.0, "status": 12.0, "api": 12.0}
"""Seconds for which an answer is good enough: each question costs seconds of a processor, and
prices are those of a catalogue."""
_AT_ONCE = 3
"""So many questions are asked side by side."""
_LAUNCH = ("launch", "--yes", "--async", "--detach-run", "--cluster")
"""How a launch begins; the name of the cluster and the task follow."""
_OVER = ("", "SUCCEEDED", "CANCELLED", "FAILED")
"""Statuses of a launch that nothing comes of any more; the first is that of no launch at all."""


def find_sky(
    lookup: Callable[[str], str | None], which: Callable[[str], str | None] = shutil.which
) -> tuple[str, ...] | None:
    """How SkyPilot is called here; None where it is not.

    Raises:
        InputError: The setting is not a command.
    """
    given = lookup(PROGRAM)
    if given:
        try:
            words = tuple(shlex.split(given))
        except ValueError as error:
            raise InputError(f"{PROGRAM} is not a command", why=str(error)) from None
        return words
    found = which("sky")
    return (found,) if found else None


class SkyPilotProvider:
    """SkyPilot.

    Its prices are those of its catalogue, not of the moment, and it tells nothing of stock. Its
    bills are its own estimates. `program` is the words that call it.
    """

    name = "sky"
    title = TITLE
    endpoint = ""
    features = Features(
        paid=True, brings_ssh_key=True, clusters=True, multiplies=True, terminates_itself=True
    )

    def __init__(
        self, program: Sequence[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._program, self._clock = tuple(program), clock
        self._host = LocalHost()
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._heard: dict[tuple[str, ...], tuple[float, Any]] = {}

    async def _run(self, *words: str, timeout: float = _QUICK) -> Completed:
        try:
            async with self._gate:
                return await self._host.run([*self._program, *words], timeout=timeout)
        except MachineError as error:
            fix = None if shutil.which(self._program[0]) else INSTALL.partition(": ")[2]
            raise ProviderError(
                "SkyPilot did not do it", why="; ".join(error.lines()), fix=fix
            ) from None

    async def _ask(self, *words: str, fresh: bool = False) -> Any:
        """An answer as data, or, unless it is to be fresh, the one from a moment ago."""
        at, answer = self._heard.get(words, (0.0, None))
        if not fresh and words in self._heard and self._clock() - at < _FRESH[words[0]]:
            return answer
        done = await self._run(*words, "-o", "json")
        if not done.ok:
            raise ProviderError(f"SkyPilot refused `sky {' '.join(words)}`", why=_said(done))
        answer = read_json(done.stdout, f"answer to `sky {' '.join(words)}`")
        self._heard[words] = (self._clock(), answer)
        return answer

    async def offers(self) -> Offers:
        """What its catalogue has of the clouds that it may use.

        Prices as they were when that was made; see `Provider.offers`.
        """
        clouds = enabled_clouds(await self._ask("check"))
        if not clouds:
            return Offers(
                warnings=("SkyPilot may use none of its clouds: `sky check` says what they need",)
            )

        async def ask(cloud: str) -> Offers:
            try:
                return Offers(parse_offers(await self._ask("gpus", "list", "--infra", cloud)))
            except ProviderError as error:
                return Offers(warnings=(f"{cloud}: {error.why or error.what}",))

        answers = await asyncio.gather(*map(ask, clouds))
        return Offers(
            tuple(offer for answer in answers for offer in answer.found),
            tuple(warning for answer in answers for warning in answer.warnings),
        )

    async def create(self, order: Order) -> Pod:
        """Begin to launch a cluster, usually of one node; see `Provider.create`.

        Whether that succeeds, `get` tells.
        """
        hours = MAX_HOURS if order.max_hours is None else order.max_hours
        text = task_file(order, idle_minutes=IDLE_MINUTES, max_hours=hours)
        self._heard = {
            words: kept for words, kept in self._heard.items() if words[0] in ("check", "gpus")
        }
        with temporary_folder("hudtui-sky") as folder:
            path = folder / "task.yaml"
            path.write_text(text, encoding="utf-8")
            try:
                done = await self._run(*_LAUNCH, order.name, str(path))
            except ProviderError as error:
                raise OutcomeUnknown(
                    f"it could not be confirmed whether {order.name} is launched",
                    why="; ".join(error.lines()),
                ) from None
        if not done.ok:
            said = _said(done)
            if await self._may_launch(order.name):
                raise OutcomeUnknown(
                    f"it could not be confirmed whether {order.name} is launched", why=said
                )
            if any(
                word in said.lower()
                for word in (
                    "no launchable resource",
                    "not enough resources",
                    "no resource satisfying",
                )
            ):
                raise OutOfCapacity(
                    f"SkyPilot finds no {order.offer.gpu_type} as it was chosen", why=said
                )
            raise ProviderError("SkyPilot refused the task; nothing was created", why=said)
        offer = order.offer
        return Pod(
            "sky", order.name, order.name, "booting", "SUBMITTED",
            gpu_type=offer.gpu_type, gpu_count=offer.gpu_count,
            hourly=offer.price.hourly if offer.price.stated else None,
            cloud=offer.cloud, region=offer.region, spot=offer.spot,
        )  # fmt: skip

    async def pods(self) -> tuple[Pod, ...]:
        rows, costs = await asyncio.gather(self._ask("status", "--refresh"), self._costs())
        return tuple(
            _with_addresses(parse_pod(row, costs.get(str(row.get("name")))), nodes_of(row))
            for row in _rows(rows)
        )

    async def _costs(self) -> Mapping[str, Mapping[str, Any]]:
        """The newest row of the report by cluster; nothing where there is no report."""
        try:
            rows = _rows(await self._ask("cost-report"))
        except ProviderError:
            return {}
        return {
            str(row.get("name")): row
            for row in sorted(rows, key=lambda row: row.get("launched_at") or 0)
        }

    async def find(self, name: str) -> Pod | None:
        """The cluster of that name; see `get`."""
        return await self.get(name)

    async def status(self, ids: Sequence[str]) -> tuple[Pod, ...]:
        found = await asyncio.gather(*map(self.get, ids)) if ids else ()
        return tuple(pod for pod in found if pod is not None)

    async def get(self, pod: str) -> Pod | None:
        """One cluster.

        While it is being launched it is `booting`, and `failed` when its launch has failed.
        """
        row, costs = await asyncio.gather(self._cluster(pod), self._costs())
        if row is None or str(row.get("status")).upper() == "INIT":
            # In this order: a program hands its launch to the server, and that makes a cluster of
            # it, while they are asked.
            submitting = row is None and await asyncio.to_thread(_is_submitting, pod)
            launch = await self._launch(pod, fresh=row is None)
            status = str((launch or {}).get("status") or "")
            failed = (
                await self._why_failed(str(launch["request_id"]))
                if launch and status == "FAILED"
                else None
            )
            if row is not None:
                return parse_pod(row, costs.get(pod), failed=failed)
            if submitting or status not in _OVER:
                return Pod("sky", pod, pod, "booting", clean_line(status, 30) or "SUBMITTING")
            row = await self._cluster(pod, fresh=True)
            if row is None:
                return Pod("sky", pod, pod, "gone", "FAILED", failure=failed) if failed else None
        return _with_addresses(parse_pod(row, costs.get(pod)), nodes_of(row))

    async def _cluster(self, name: str, *, fresh: bool = False) -> Mapping[str, Any] | None:
        """The row of a cluster."""
        rows = _rows(await self._ask("status", "--refresh", fresh=fresh))
        return next((row for row in rows if row.get("name") == name), None)

    async def _launch(self, name: str, *, fresh: bool = False) -> Mapping[str, Any] | None:
        """The newest request that launches that cluster."""
        rows = _rows(
            await self._ask(
                "api", "status", "--all-status", "--verbose", "--cluster", name, fresh=fresh
            )
        )
        found = [
            row
            for row in rows
            # An older server ignores the name, and tells of all clusters.
            if str(row.get("name", "")).endswith("launch")
            and row.get("request_id")
            and row.get("cluster_name") in (None, name)
        ]
        return max(found, key=lambda row: row.get("created_at") or 0, default=None)

    async def _may_launch(self, name: str) -> bool:
        """Its server has a request for that cluster, or does not say so."""
        try:
            return await self._launch(name) is not None
        except ProviderError:
            return True

    async def _why_failed(self, request: str) -> str:
        """The end of what a failed request said."""
        try:
            return _said(await self._run("api", "logs", request))
        except ProviderError:
            return f"`sky api logs {clean_line(request, 40)}` says why"

    async def terminate(self, pod: str) -> None:
        """Take a cluster down, and cancel its launch if that is still running."""
        self._heard.clear()
        launch = await self._launch(pod)
        if launch is not None and launch.get("status") in ("PENDING", "WAITING", "RUNNING"):
            await self._run("api", "cancel", "--yes", str(launch["request_id"]))
        done = await self._run("down", "--yes", pod, timeout=_SLOW)
        self._heard.clear()
        if not done.ok and "not found" not in _said(done).lower():
            raise ProviderError(
                f"SkyPilot did not take {clean_line(pod, 60)} down", why=_said(done)
            )

    def terminate_url(self, pod: str) -> None:
        """None: a cluster takes itself down."""

    async def history(self) -> tuple[Pod, ...]:
        """What its cost report has of clusters that are gone, the newest first.

        Amounts are SkyPilot's own estimates.
        """
        past = [
            pod for pod in map(parse_past, _rows(await self._ask("cost-report"))) if pod is not None
        ]
        return tuple(sorted(past, key=lambda pod: -(pod.terminated or pod.created or 0.0)))

    async def account(self) -> Account:
        """The accounts are the clouds' own: no balance is known.

        What was spent is SkyPilot's estimate.
        """
        costs = await self._costs()
        pods = (parse_pod(row, row) for row in costs.values())
        spent = {pod.id: pod.billed for pod in pods if pod.billed is not None}
        return Account("your clouds' own accounts", spent=spent, estimated=True)

    async def keys(self) -> tuple[SshKey, ...]:
        """None: it keeps a key of its own."""
        return ()

    async def register_key(self, name: str, public_key: str) -> SshKey:
        """Not needed.

        Raises:
            ProviderError: Always.
        """
        raise ProviderError(
            "SkyPilot puts a key of its own onto its machines", fix="There is nothing to register."
        )

    async def close(self) -> None:
        """Nothing is held open. SkyPilot's server stays; `sky api stop` ends it."""


def _is_submitting(name: str) -> bool:
    """Whether a program on this computer launches that cluster.

    A hudtui that was killed leaves its `sky launch` behind.

    Raises:
        ProviderError: The programs cannot be listed.
    """
    try:
        if Path("/proc/self/cmdline").exists():
            commands = []
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(ProcessLookupError, FileNotFoundError, PermissionError):
                    commands.append(path.read_bytes().replace(b"\0", b" "))
        else:
            commands = subprocess.check_output(
                ["ps", "-axww", "-o", "args="], timeout=30
            ).splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        raise ProviderError(
            "it could not be confirmed whether SkyPilot is still launching here", why=str(error)
        ) from None
    launch = f" {' '.join(_LAUNCH)} {name} ".encode()
    return any(launch in command + b" " for command in commands)


def machine_name(cluster: str, node: int) -> str:
    """The name of a machine in the SSH config, where SkyPilot writes the logins.

    Node 0 has the cluster's name.
    """
    return f"{cluster}-worker{node}" if node else cluster


def _with_addresses(pod: Pod, nodes: int) -> Pod:
    """A cluster with the logins of its machines, up to the first that has none yet."""
    if pod.stage != "ready":
        return pod
    from dataclasses import replace

    from hudtui.core.remote.target import parse_target

    found: list[Address] = []
    for name in (machine_name(pod.id, node) for node in range(nodes)):
        try:
            target = parse_target(name)
        except HudtuiError:
            break
        if target.host == name:
            break
        found.append(Address(target.user, target.host, target.port))
    return replace(pod, addresses=tuple(found))


def _rows(data: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(row for row in data if isinstance(row, Mapping)) if isinstance(data, list) else ()


def _said(done: Completed) -> str:
    """The end of what it said: the reason stands there."""
    text = clean(done.stderr.strip() or done.stdout.strip())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return clean_line(" ".join(lines[-4:]), 400) or f"it ended with status {done.exit_status}"


_STAGES: dict[str, PodStage] = {
    "PENDING": "booting",
    "INIT": "booting",
    "UP": "ready",
    "AUTOSTOPPING": "unknown",
    "STOPPED": "stopped",
}
"""A machine that is shutting itself down is no longer ready and not yet gone."""
_FREE = ("kubernetes", "slurm", "ssh")
"""Infrastructure of the user's own: its price of 0 is not a stated price."""


def task_file(order: Order, *, idle_minutes: int, max_hours: float) -> str:
    """The task that holds the machine that was chosen, and no other, for so many hours at most.

    The task only waits: what is to be done there is done over SSH. When it has ended and no user is
    logged in, the machine is idle, and SkyPilot, which watches from the machine itself, takes it
    down.
    """
    import yaml

    raw = order.offer.raw
    resources: dict[str, Any] = {
        "infra": "/".join(word for word in (raw["cloud"].lower(), order.offer.region) if word),
        "accelerators": f"{order.offer.gpu_type}:{order.offer.node_gpus}",
        "use_spot": order.offer.spot,
        "autostop": {"idle_minutes": idle_minutes, "down": True},
    }
    if raw.get("instance_type"):
        resources["instance_type"] = raw["instance_type"]
    if order.disk_gb is not None:
        resources["disk_size"] = round(order.disk_gb)
    if order.image is not None:
        resources["image_id"] = order.image
    task = {
        "name": order.name,
        "resources": resources,
        "num_nodes": order.offer.nodes,
        "run": f"sleep {round(max_hours * 3600)}\n",
    }
    return yaml.safe_dump(task, sort_keys=False, width=1000)


def read_json(text: str, what: str) -> Any:
    """The JSON in what the program printed: it may say other things before.

    Raises:
        ProviderError: There is none.
    """
    for match in re.finditer(r"^[\[{]", text, re.MULTILINE):
        try:
            return json.JSONDecoder().raw_decode(text, match.start())[0]
        except ValueError:
            continue
    raise ProviderError(
        f"SkyPilot's {what} cannot be understood", why=clean_line(text, 300) or "it said nothing"
    )


def enabled_clouds(data: Any) -> tuple[str, ...]:
    """The clouds that may be computed on, by `sky check -o json`.

    By workspace, what each may be used for. Prime Intellect is left out: SkyPilot cannot make its
    machines take themselves down, and it is a provider here.
    """
    found: dict[str, None] = {}
    for clouds in data.values() if isinstance(data, Mapping) else ():
        for cloud, uses in clouds.items() if isinstance(clouds, Mapping) else ():
            if (
                isinstance(uses, list)
                and "compute" in uses
                and str(cloud).lower() != "primeintellect"
            ):
                found.setdefault(clean_line(str(cloud).lower(), 40))
    return tuple(found)


def parse_offers(data: Any) -> tuple[Offer, ...]:
    """The offers in `sky gpus list -o json`; with a spot price, each is two.

    Rows of another form are left out.
    """
    rows = (
        row
        for rows in (data.values() if isinstance(data, Mapping) else ())
        for row in (rows or ())
        if isinstance(row, Mapping)
    )
    return tuple(offer for row in rows for offer in _offers(row))


def _offers(row: Mapping[str, Any]) -> Iterable[Offer]:
    cloud, name, count = (
        row.get("cloud"),
        row.get("accelerator_name"),
        _number(row.get("accelerator_count")),
    )
    if (
        not isinstance(cloud, str)
        or not isinstance(name, str)
        or count is None
        or count != int(count)
        or count < 1
    ):
        return
    own = cloud.lower() in _FREE
    region = row.get("region")
    for spot, price in ((False, _number(row.get("price"))), (True, _number(row.get("spot_price")))):
        if price is None and (spot or not own):
            continue
        kind = row.get("instance_type")
        memory = _number(row.get("device_memory"))
        vcpus = _number(row.get("cpu_count"))
        yield Offer(
            "sky",
            "/".join(
                str(part or "")
                for part in (cloud, region, kind, f"{name}:{int(count)}", "spot" if spot else "")
            ),
            clean_line(name, 60),
            int(count),
            Price(0.0 if own else price or 0.0, stated=not own),
            gpu_memory=memory or split_type(name)[1],
            cloud=clean_line(cloud.lower(), 40),
            cloud_id=clean_line(str(kind or ""), 60),
            region=clean_line(str(region or ""), 60),
            spot=spot,
            vcpus=None if vcpus is None else int(vcpus),
            memory_gb=_number(row.get("memory")),
            raw={"cloud": cloud, "instance_type": kind},
        )


def parse_pod(
    row: Mapping[str, Any], cost: Mapping[str, Any] | None, *, failed: str | None = None
) -> Pod:
    """A cluster in `sky status -o json`, with its row of `sky cost-report -o json`.

    `cost` is what the report says of it, and `failed` why its launch failed, where it did.
    """
    status = str(row.get("status") or "").upper()
    stage = _STAGES.get(status, "unknown")
    name, count = _accelerators(row.get("accelerators"))
    reason = row.get("init_status_reason")
    if stage == "booting" and row.get("init_kind") == "unhealthy":
        failed = failed or clean_line(str(reason or "it does not answer"), 300)
    if failed and stage == "booting":
        stage = "failed"
    return Pod(
        "sky",
        str(row.get("name") or ""),
        clean_line(str(row.get("name") or ""), 60),
        stage,
        clean_line(status, 30),
        gpu_type=name,
        gpu_count=count * nodes_of(row),
        hourly=hourly_of(cost),
        created=_number(row.get("launched_at")),
        billed=_number((cost or {}).get("total_cost")),
        estimated=True,
        cloud=clean_line(str(row.get("cloud") or "").lower(), 40),
        region=clean_line(str(row.get("region") or ""), 60),
        failure=failed,
    )


def parse_past(row: Mapping[str, Any]) -> Pod | None:
    """A cluster of `sky cost-report -o json` that has ended; None for a running cluster."""
    if str(row.get("status") or "").upper() not in ("", "TERMINATED") or not row.get("name"):
        return None
    name, count = _accelerators(row.get("accelerators"))
    ends = [
        pair[1]
        for pair in row.get("usage_intervals") or ()
        if isinstance(pair, list) and len(pair) == 2 and _number(pair[1])
    ]
    return Pod(
        "sky",
        str(row["name"]),
        clean_line(str(row["name"]), 60),
        "gone",
        "TERMINATED",
        gpu_type=name,
        gpu_count=count,
        hourly=hourly_of(row),
        created=_number(row.get("launched_at")),
        terminated=max(map(float, ends), default=None),
        billed=_number(row.get("total_cost")),
        estimated=True,
        cloud=clean_line(str(row.get("cloud") or "").lower(), 40),
        region=clean_line(str(row.get("region") or ""), 60),
    )


def hourly_of(cost: Mapping[str, Any] | None) -> float | None:
    """The price of an hour that a row of the cost report stands for.

    Its estimate, divided by the time.
    """
    total, seconds = _number((cost or {}).get("total_cost")), _number((cost or {}).get("duration"))
    return round(total * 3600 / seconds, 4) if total is not None and seconds else None


def nodes_of(row: Mapping[str, Any]) -> int:
    """The machines of a cluster in `sky status -o json`; its accelerators are those of each."""
    return max(int(_number(row.get("nodes")) or 1), 1)


def _accelerators(value: Any) -> tuple[str, int]:
    """`{'H100': 4}`, as text or not, and `H100:4`."""
    match = re.search(r"([A-Za-z][\w .-]*?)['\"]?\s*:\s*(\d+)", str(value or ""))
    return (match[1], int(match[2])) if match else ("", 0)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
