"""The end of machines without a run that have reached a limit.

Those of runs are ended by whoever manages the run.
"""

from __future__ import annotations

from hudtui.core.compute.lifecycle import Sleep, terminate_pod
from hudtui.core.compute.overview import Overview, PodsSnapshot
from hudtui.core.compute.pod_row import PodRow


class LimitGuard:
    """Watches the limits of machines without a run, from one look at the machines to the next."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, ...]] = set()
        self._ending: set[str] = set()

    def warnings(self, snapshot: PodsSnapshot) -> tuple[str, ...]:
        """Return a sentence for each machine that is near a limit, once for each limit."""
        sentences = []
        for row in snapshot.pods:
            verdict = row.verdict
            if verdict is None or verdict.level != "warn" or row.run is not None:
                continue
            key = (row.pod.name, *verdict.reasons)
            if key not in self._warned:
                self._warned.add(key)
                sentences.append(f"{row.pod.name}: {'; '.join(verdict.reasons)}")
        return tuple(sentences)

    def due(self, snapshot: PodsSnapshot) -> tuple[PodRow, ...]:
        """Return the machines that have reached a limit and are not being ended yet.

        The caller ends each of them.
        """
        rows = [
            row
            for row in snapshot.pods
            if row.verdict is not None
            and row.verdict.level == "end"
            and row.run is None
            and row.pod.name not in self._ending
        ]
        self._ending.update(row.pod.name for row in rows)
        return tuple(rows)

    async def end(self, row: PodRow, overview: Overview, *, sleep: Sleep) -> str:
        """End a machine, verify its end, and return a sentence that says so.

        After a failure it is due again.

        Raises:
            HudtuiError: As `lifecycle.terminate_pod`, and if the machine's provider is not set up
                any more.
        """
        try:
            provider = overview.provider_of(row.pod.provider)
            await terminate_pod(
                row.pod, provider, overview.ledger, why=f"guard: {reasons_of(row)}", sleep=sleep
            )
        except BaseException:
            self._ending.discard(row.pod.name)  # the next look tries again
            raise
        return f"{row.pod.name} has ended, verified: {reasons_of(row)}."


def reasons_of(row: PodRow) -> str:
    """Return which limits a machine has reached, as text."""
    return "; ".join(row.verdict.reasons if row.verdict is not None else ())
