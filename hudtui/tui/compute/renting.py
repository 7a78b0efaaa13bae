"""What the compute screen does with rented machines.

Rent and end them, change limits, log in, set up keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean_line, money

if TYPE_CHECKING:
    from hudtui.core.compute.pod_row import PodRow
    from hudtui.core.compute.values import Offer
    from hudtui.tui.screen import HudtuiScreen

_LIMITS = (
    ("run_budget", "budget for this machine"),
    ("day_budget", "budget for all machines in a day"),
    ("max_hours", "hours until it is ended"),
    ("idle_minutes", "idle minutes until it is ended"),
)


class Renting:
    """The flows of renting, for one screen.

    Args:
        screen: Where messages and questions appear.
        look: Asks the providers what is alive.
    """

    def __init__(self, screen: HudtuiScreen, look: Callable[[], Awaitable[None]]) -> None:
        self._screen, self._look = screen, look
        self.ready: str | None = None
        """Name of the machine that the message bar calls ready."""

    async def rent(
        self, offer: Offer, fit: str, *, created: Callable[[], None], gone: Callable[[], None]
    ) -> None:
        """Rent an offer.

        Args:
            offer: The offer.
            fit: Whether its GPUs hold the model that will be trained, in a sentence; empty without
                a model.
            created: Called when the machine exists.
            gone: Called when the offer turns out to be taken.
        """
        from hudtui.core.compute.provider import OutOfCapacity
        from hudtui.core.flows.rent import Ordered, Rented, RentRequest, rent

        screen, app = self._screen, self._screen.app
        session = await app.spending.open()
        provider, ledger = session.overview.provider_of(offer.provider), session.overview.ledger
        steps = rent(
            app.project,
            RentRequest(offer, (fit,) if fit else ()),
            provider,
            ledger,
            app,
            sleep=app.services.sleep,
        )
        try:
            with ExitStack() as stack:
                async with aclosing(steps):
                    async for step in steps:
                        if isinstance(step, Ordered):
                            ready = stack.enter_context(app.rented.getting_one(step.name))
                            app.run_worker(
                                self._watch(), name="forever", group="rent watch", exclusive=True
                            )
                        elif isinstance(step, Rented):
                            self.ready = step.pod.name
                            keys = (
                                "{key:compute.terminal} opens a terminal on it, "
                                "{key:compute.terminate} ends it."
                            )
                            screen.say(f"{step.pod.name} is ready: {keys} {step.guard}", "success")
                        else:
                            cancel = (
                                "" if step.kind == "ready" else " ({key:compute.cancel} cancels)"
                            )
                            screen.busy(clean_line(step.text) + cancel)
                            app.spending.look_soon()
                            if step.kind in ("created", "adopted"):
                                created()
                            if step.kind == "ready":
                                ready()
                            if step.pod is not None:
                                await self.look_quietly()
        except OutOfCapacity:
            gone()
            raise
        finally:
            app.workers.cancel_group(app, "rent watch")
            if app.is_running:
                app.run_worker(self.look_quietly(), group="look after")

    async def _watch(self) -> None:
        """While a machine is being rented, machines are refreshed more often."""
        while True:
            await asyncio.sleep(5)
            await self.look_quietly()

    async def look_quietly(self) -> None:
        """Check the machines; a failure is only logged."""
        try:
            await self._look()
        except HudtuiError as error:
            self._screen.log.warning(str(error))

    async def end(self, rows: Sequence[PodRow]) -> None:
        """End machines, after a question, and make sure that they are gone."""
        from hudtui.core.flows.rent import Ended, end_pods

        screen, app = self._screen, self._screen.app
        session = await app.spending.open()
        ended: list[str] = []
        try:
            async with aclosing(
                end_pods(rows, session.overview.ledger, app, sleep=app.services.sleep)
            ) as steps:
                async for step in steps:
                    if isinstance(step, Ended):
                        ended.append(step.text)
                    else:
                        screen.busy(step.message)
        except Exception:
            await self.look_quietly()
            raise
        if ended:
            await self.look_quietly()
            screen.say(" ".join(ended), "success")

    async def limits(self, row: PodRow) -> None:
        """Change a limit of a machine: here, and for the watchdog on it."""
        from hudtui.core.compute.limits import Limits, amount, limits_from_settings
        from hudtui.core.flows.rent import change_limits
        from hudtui.tui.widgets.pick import Pick

        app, pod = self._screen.app, row.pod
        session = await app.spending.open()
        limits = row.limits
        if limits is None:
            limits = await asyncio.to_thread(limits_from_settings, session.settings)

        currencies = {"run_budget": pod.currency, "day_budget": "USD"}

        def told(limits: Limits, name: str) -> str:
            value = getattr(limits, name)
            return (
                "none"
                if value is None
                else money(value, currencies[name])
                if name in currencies
                else amount(value)
            )

        options = [(title, told(limits, name)) for name, title in _LIMITS]
        chosen: int | None = await app.push_screen_wait(Pick(f"Limits of {pod.name}", options))
        if chosen is None:
            return
        name, title = _LIMITS[chosen]
        value = getattr(limits, name)
        what = f"An amount in {currencies[name]}" if name in currencies else "A number"
        text = await app.ask(
            title.capitalize(),
            lines=(f"Machine {pod.name}. {what}, or none for no limit.",),
            value="none" if value is None else amount(value),
            check=lambda text: limits.with_value(name, text),
        )
        if text is None:
            return
        changed, overview = limits.with_value(name, text), session.overview
        self._screen.busy(f"Changing the limits of {pod.name}, here and on the machine")
        guard = await change_limits(
            pod,
            changed,
            overview.provider_of(pod.provider),
            overview.ledger,
            session.settings.get,
            run=row.run,
        )
        await self.look_quietly()
        self._screen.say(
            f"{pod.name}: {title} is {told(changed, name)} now. {guard}".rstrip(), "success"
        )

    async def terminal(self, row: PodRow) -> None:
        """Open a terminal on a machine; hudtui steps aside until it is closed."""
        from hudtui.core.compute.registry import pod_ssh_command

        app = self._screen.app
        session = await app.spending.open()
        argv = await pod_ssh_command(row.pod, session.settings.get)
        self._screen.clear_message()
        self._screen.step_aside(argv)
        app.run_worker(self.look_quietly(), group="look after")

    async def history(self) -> None:
        """Show the machines that have ended, with their costs and the reasons."""
        from hudtui.core.compute.known_pods import history_row, pods_history

        app = self._screen.app
        session = await app.spending.open()
        paid = {provider.name: provider for provider in session.overview.paid}
        found, warnings = await pods_history(paid, session.overview.ledger)
        lines = []
        for name, gpus, ended, lasted, price, cost, where, why in map(
            history_row, found
        ):  # a table does not fit 80 columns
            reason = f": {why}" if why else ""  # only machines that hudtui rented have one
            lines += [
                clean_line(f"{name}  {gpus} at {where}"),
                clean_line(f"  {cost} in {lasted} at {price}/h, {ended}{reason}"),
            ]
        app.read(
            "Machines that have ended",
            "\n".join((*warnings, *(lines or ("No machine has ended yet.",)))),
        )

    async def set_up(self) -> bool:
        """Ask for what renting needs: an API key, and an SSH key that the provider knows.

        Returns whether both are there now.
        """
        from hudtui.core.compute.registry import usual_rental
        from hudtui.core.flows.keys import prepare_key

        app = self._screen.app
        session = await app.spending.open()
        if session.problem is not None:
            raise session.problem
        entry = usual_rental(session.settings.get)
        if entry.key is not None and entry.lacking(session.settings.get) is not None:
            if not await self._api_key(entry.key):
                return False
            session = await app.spending.open()
        provider = session.overview.providers.get(entry.name)
        if provider is None:
            return False
        ready = await prepare_key(app.project, provider, app) is not None
        app.reload()
        return ready

    async def _api_key(self, key: str) -> bool:
        """Ask for the provider's key and check that it works. Returns whether it may be used."""
        from hudtui.core.credentials import check_key
        from hudtui.core.flows.prepare import set_key

        screen, app = self._screen, self._screen.app
        if not await set_key(key, app.project, app):
            return False
        screen.busy("Asking whether the key works")
        check = await check_key(key, await asyncio.to_thread(app.project.settings))
        screen.say(check.message, "success" if check.ok else "warning")
        app.reload()
        return check.ok or check.verdict in ("limited", "unclear", "unreachable", "untestable")
