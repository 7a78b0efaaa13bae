"""What the compute screen does that costs money or ends what does: renting, ending, limits, logging in."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean_line
from hudtui.tui.compute.core import ComputeCore

if TYPE_CHECKING:
    from hudtui.core.compute.overview import PodRow
    from hudtui.core.compute.values import Offer

_LIMITS = (
    ("run_budget", "budget for this machine"),
    ("day_budget", "budget for all machines in a day"),
    ("max_hours", "hours that it may live"),
    ("idle_minutes", "minutes that it may idle"),
)


class Acts(ComputeCore):
    """The part of the compute screen that changes something."""

    ready: str | None = None
    """Name of the machine that the message line calls ready."""

    @property
    def getting(self) -> bool:
        """A machine is being got."""
        return bool(self.going("rent"))

    # -- getting one -------------------------------------------------------------------------------------------------

    async def refresh_offers(self, *, only_new: bool = False) -> None:
        """Ask all providers for their offers; with `only_new` only when the settings have changed."""
        raise NotImplementedError

    def action_use(self) -> None:
        """On to the launch screen."""
        if self.offer is not None:
            self.app.open_screen("launch", offer=self.offer)

    def action_rent(self) -> None:
        """Rent it."""
        if self.offer is not None:
            offer = self.offer
            self.start(lambda: self._rent(offer), group="rent", exclusive=False)

    async def _rent(self, offer: Offer) -> None:
        from hudtui.core.compute.provider import OutOfCapacity
        from hudtui.core.flows.rent import Ordered, Rented, RentRequest, rent

        session, shell = await self.app.spending.open(), self.app
        provider, ledger = session.overview.provider_of(offer.provider), session.overview.ledger
        steps = rent(shell.project, RentRequest(offer), provider, ledger, shell, sleep=shell.services.sleep)
        try:
            with ExitStack() as stack:
                async with aclosing(steps):
                    async for step in steps:
                        if isinstance(step, Ordered):
                            ready = stack.enter_context(shell.rented.getting_one(step.name))
                            shell.run_worker(
                                self._watch(), name="forever", group="rent watch", exclusive=True, exit_on_error=False
                            )
                        elif isinstance(step, Rented):
                            self.ready = step.pod.name
                            self.say(f"{step.pod.name} is ready: t opens a terminal on it, x ends it. {step.guard}", "success")
                        else:
                            self.busy(clean_line(step.text) + ("" if step.kind == "ready" else " (Ctrl-X cancels)"))
                            shell.spending.look_soon()
                            if step.kind in ("created", "adopted"):
                                self.show_tab("pods")
                            if step.kind == "ready":
                                ready()
                            if step.pod is not None:
                                await self._look_quietly()
        except OutOfCapacity:
            self.start(self.refresh_offers(), group="offers")  # what is gone leaves the list
            raise
        finally:
            shell.workers.cancel_group(shell, "rent watch")
            if shell.is_running:
                shell.run_worker(self._look_quietly(), group="look after", exit_on_error=False)

    async def _watch(self) -> None:
        """While a machine is being rented, machines are refreshed more often."""
        while True:
            await asyncio.sleep(5)
            await self._look_quietly()

    async def _look_quietly(self) -> None:
        try:
            await self.look()
        except HudtuiError as error:
            self.log.warning(str(error))

    def action_cancel(self) -> None:
        """Stop getting it."""
        for worker in self.going("rent"):
            worker.cancel()
            self.busy("Cancelling: what was created is being ended")

    # -- ending ------------------------------------------------------------------------------------------------------

    def action_terminate(self) -> None:
        """End the one under the cursor."""
        if self.holding is not None:
            self.start(self._end((self.holding,)), group="end", exclusive=False)

    def action_orphans(self) -> None:
        """End all that no run owns."""
        if self.holdings is not None:
            orphans = tuple(one for one in self.holdings.pods if one.orphan is not None)
            self.start(self._end(orphans), group="end", exclusive=False)

    async def _end(self, rows: tuple[PodRow, ...]) -> None:
        from hudtui.core.flows.rent import Ended, PodToEnd, end_pods

        session = await self.app.spending.open()
        provider_of = session.overview.provider_of
        pods = [
            PodToEnd(one.pod, provider_of(one.pod.provider), one.run, one.ours, one.spend.text if one.spend else None)
            for one in rows
        ]
        ended: list[str] = []
        try:
            async with aclosing(end_pods(pods, session.overview.ledger, self.app, sleep=self.app.services.sleep)) as steps:
                async for step in steps:
                    if isinstance(step, Ended):
                        ended.append(step.text)
                    else:
                        self.busy(step.message)
        except HudtuiError:
            await self._look_quietly()
            raise
        if ended:
            await self._look_quietly()
            self.say(" ".join(ended), "success")

    # -- limits ------------------------------------------------------------------------------------------------------

    def action_limits(self) -> None:
        """Change the limits of the one under the cursor."""
        if self.holding is not None:
            self.start(self._change(self.holding), group="limits")

    async def _change(self, holding: PodRow) -> None:
        from hudtui.core.compute.limits import amount, limits_from_settings
        from hudtui.core.flows.rent import change_limits
        from hudtui.tui.widgets.pick import Pick

        session = await self.app.spending.open()
        limits = holding.limits
        if limits is None:
            limits = await asyncio.to_thread(limits_from_settings, session.settings)
        values = [getattr(limits, name) for name, _ in _LIMITS]
        options = [
            f"{title}: {'none' if value is None else amount(value)}" for (_, title), value in zip(_LIMITS, values, strict=True)
        ]
        chosen: int | None = await self.app.push_screen_wait(Pick(f"Limits of {holding.pod.name}", options))
        if chosen is None:
            return
        name, title = _LIMITS[chosen]
        value = getattr(limits, name)
        text = await self.app.ask(
            title.capitalize(),
            lines=(f"of {holding.pod.name}. A number, or none for no limit.",),
            value="none" if value is None else amount(value),
        )
        if text is None:
            return
        changed, overview, pod = limits.with_value(name, text), session.overview, holding.pod
        guard = await change_limits(
            pod, changed, overview.provider_of(pod.provider), overview.ledger, session.settings.get, run=holding.run
        )
        await self._look_quietly()
        self.say(f"{pod.name}: {title} is {text.strip()} now. {guard}".rstrip(), "success")

    # -- logging in --------------------------------------------------------------------------------------------------

    def action_terminal(self) -> None:
        """A terminal on it."""
        if self.holding is not None:
            self.start(self._terminal(self.holding), group="terminal", busy=f"Logging in to {self.holding.pod.name}")

    async def _terminal(self, holding: PodRow) -> None:
        from hudtui.core.compute.registry import pod_ssh_command

        session = await self.app.spending.open()
        argv = await pod_ssh_command(holding.pod, session.settings.get)
        self.clear_message()
        self.step_aside(argv)
        self.app.run_worker(self._look_quietly(), group="look after", exit_on_error=False)

    # -- setting up --------------------------------------------------------------------------------------------------

    def action_access(self) -> None:
        """API key and SSH key."""
        self.start(self._access(), group="access")

    async def _access(self) -> None:
        from hudtui.tui.compute.access import set_up

        if await set_up(self):
            self.action_refresh()  # offers can be asked for now, also where nothing but the first step was missing
            self.say("Everything is set up for renting machines.", "success")
