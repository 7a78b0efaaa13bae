"""One pod by its name, and pods that have ended.

What the provider says, with what the ledger knows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from hudtui.core.compute.costs import charge_text
from hudtui.core.compute.pod_row import PodRow, known_row
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.provider import Provider, ProviderError
from hudtui.core.text import clean_line, duration


async def find_pod(
    name: str, providers: Mapping[str, Provider], ledger: Ledger, *, ended: bool = False
) -> PodRow:
    """Return the pod that a name, an id or the beginning of one means.

    `name` may be the name, the id, or what only one living pod's name or id begins with. With
    `ended`, pods of the ledger that have ended are found, too.

    Raises:
        ProviderError: No pod or several pods match, or a provider does not answer and the ledger
            knows of no pod there.
    """
    record = await ledger.run(ledger.get, name)
    provider = next(
        (one for one in providers.values() if record is not None and record.is_at(one)), None
    )
    if record is not None and provider is not None:
        try:
            pod = await provider.get(record.pod) if record.pod else None
        except ProviderError:
            return known_row(record.last_pod(), provider, record, reachable=False)
        if pod is None and (record.pod is None or ended):
            pod = replace(
                record.last_pod(), stage="unknown" if record.open else "gone", status=record.state
            )
        if pod is not None:
            return known_row(pod, provider, record)
    living = [found for one in providers.values() for found in await _living(one, ledger)]
    exact = [one for one in living if name in (one.pod.id, one.pod.name)]
    hits = exact or [
        one
        for one in living
        if name and (one.pod.id.startswith(name) or one.pod.name.startswith(name))
    ]
    if len(hits) == 1:
        return hits[0]
    if len(hits) > 1:
        raise ProviderError(
            f"{clean_line(name, 60)!r} means several machines",
            fix=f"They are: {', '.join(f'{one.pod.name} ({one.pod.id})' for one in hits)}.",
        )
    for provider in providers.values():
        pod = await provider.get(name) if name else None
        if pod is not None:
            return known_row(pod, provider, await ledger.run(ledger.record_of, pod, provider))
    names = ", ".join(clean_line(one.pod.name or one.pod.id, 60) for one in living)
    raise ProviderError(
        f"there is no machine {clean_line(name, 60)!r}",
        fix=f"Alive are: {names}." if names else "None is alive.",
    )


async def ended_pods(provider: Provider, ledger: Ledger) -> list[PodRow]:
    """Return the pods that have ended at a provider, the latest first.

    Also those that the provider's own history lacks.

    Raises:
        ProviderError: The provider does not answer. `ended_by_ledger` still can.
    """
    rows = [
        known_row(pod, provider, await ledger.run(ledger.record_of, pod, provider))
        for pod in await provider.history()
    ]
    told = {one.record.name for one in rows if one.record is not None}
    rows += [
        one
        for one in await ended_by_ledger(provider, ledger)
        if one.record is not None and one.record.name not in told
    ]
    return sorted(rows, key=lambda one: -(one.pod.terminated or 0.0))


async def ended_by_ledger(provider: Provider, ledger: Ledger) -> list[PodRow]:
    """Return the pods that have ended at a provider by the ledger, the latest first."""
    return [
        known_row(
            replace(
                record.last_pod(), terminated=record.ended, billed=record.billed, estimated=False
            ),
            provider,
            record,
        )
        for record in reversed(await ledger.run(partial(ledger.records, alive=False)))
        if record.state == "ended" and record.is_at(provider)
    ]


async def pods_history(
    providers: Mapping[str, Provider], ledger: Ledger
) -> tuple[list[PodRow], tuple[str, ...]]:
    """Return the pods that have ended at these providers, and warnings about silent ones.

    There is a warning for each provider that does not answer.

    What a silent provider's pods were is taken from the ledger.

    Raises:
        ProviderError: A provider does not answer, and the ledger knows of no pod there.
    """
    found: list[PodRow] = []
    warnings = []
    for provider in providers.values():
        try:
            found += await ended_pods(provider, ledger)
        except ProviderError as error:
            known = await ended_by_ledger(provider, ledger)
            if not known:
                raise
            warnings.append(
                f"{'; '.join(error.lines())} Its machines are listed as hudtui's own records have "
                "them."
            )
            found += known
    return found, tuple(warnings)


HISTORY_HEAD = ("MACHINE", "GPUS", "ENDED", "LASTED", "PRICE/H", "COST", "AT", "WHY")


def history_row(one: PodRow) -> tuple[str, ...]:
    """Return the cells of an ended pod, under `HISTORY_HEAD`.

    The time it ended is local; the last cell says why it ended.
    """
    pod = one.pod
    lasted = None if pod.created is None or pod.terminated is None else pod.terminated - pod.created
    return (
        pod.name or pod.id,
        one.gpus_text,
        "–"
        if pod.terminated is None
        else time.strftime("%Y-%m-%d %H:%M", time.localtime(pod.terminated)),
        duration(lasted),
        one.price_text,
        charge_text(pod) or "–",
        one.place_text,
        clean_line(one.record.why or "", 60) if one.record else "",
    )


async def _living(provider: Provider, ledger: Ledger) -> list[PodRow]:
    """The living pods of a provider; as the ledger knows them if the provider does not answer."""
    try:
        pods = await provider.pods()
    except ProviderError:
        records = await ledger.run(ledger.records)
        known = [
            known_row(record.last_pod(), provider, record, reachable=False)
            for record in records
            if record.is_at(provider)
        ]
        if not known:
            raise
        return known
    return [
        known_row(pod, provider, await ledger.run(ledger.record_of, pod, provider)) for pod in pods
    ]
