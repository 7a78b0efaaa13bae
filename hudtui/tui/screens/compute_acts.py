"""What the compute screen does that costs money or ends what does: renting, ending, limits, logging in."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean_line
from hudtui.tui.screens.compute_core import ComputeCore

if TYPE_CHECKING:
    from hudtui.core.compute.limits import Limits
    from hudtui.core.compute.overview import PodRow
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Offer, Pod
    from hudtui.core.remote.host import Host
    from hudtui.tui.purse import Office

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
            self.shell.open_station("launch", offer=self.offer)

    def action_rent(self) -> None:
        """Rent it."""
        if self.offer is not None:
            offer = self.offer
            self.start(lambda: self._rent(offer), group="rent", exclusive=False)

    async def _rent(self, offer: Offer) -> None:
        from hudtui.core.compute.budget import grant_new
        from hudtui.core.compute.lifecycle import acquire, unique_name
        from hudtui.core.compute.limits import estimate, limits_from_settings
        from hudtui.core.compute.provider import OutOfCapacity
        from hudtui.core.compute.registry import pod_login
        from hudtui.core.compute.values import Order
        from hudtui.core.compute.watchdog import watchdog_notice
        from hudtui.core.flows.keys import prepare_key

        office = await self.shell.purse.open()
        office.settings.require_trust()
        provider = office.desk.provider_of(offer.provider)
        key = await prepare_key(self.shell.project, provider, self.shell)
        if key is None:
            return
        office = await self.shell.purse.open()  # another key may have been chosen
        # Nobody measures whether a machine without a run is idle.
        limits = replace(await asyncio.to_thread(limits_from_settings, office.settings), idle_minutes=None)
        # What the day's budget has no room for is refused here, before anything is asked.
        entries = await asyncio.to_thread(office.desk.ledger.records, alive=False)
        most = grant_new("", offer.price, provider.endpoint, limits)(entries)
        gpus = f"{offer.gpu_count} × {offer.gpu_type}" if offer.gpu_count else offer.gpu_type or "no GPU"
        lines = [f"{provider.title}: {offer.cloud or offer.provider} {offer.region} {offer.data_center}".rstrip() + "."]
        if provider.features.simulated:
            lines[0] += " No real money is spent."
        lines += [
            "",
            *estimate(offer, limits.max_hours or 24.0).text.split("; "),
            *([lasts] if (lasts := self.shell.purse.wallet_lasts(offer.provider, offer.price.hourly)) else []),
            "",
            _told(limits),
            *([] if most is None else [watchdog_notice(provider, office.settings.get)]),
            f"SSH key {key.fingerprint}",
        ]
        if not await self.shell.confirm(f"Rent {gpus}?", tuple(lines), yes="Rent", danger=not provider.features.simulated):
            return
        order = Order(unique_name("pod"), offer, ssh_key=key.id)
        self.shell.run_worker(self._watch(), name="forever", group="rent watch", exclusive=True, exit_on_error=False)
        steps = acquire(
            order,
            provider,
            office.desk.ledger,
            login=pod_login(office.settings.get),
            limits=limits,
            workspace=self.shell.folder,
            sleep=self.shell.services.sleep,
            say=self._say_late,
        )
        told = ""
        try:
            with self.shell.tending.getting_one(order.name) as ready:
                async with aclosing(steps):
                    async for step in steps:
                        self.busy(clean_line(step.text) + ("" if step.kind == "ready" else " (Ctrl-X cancels)"))
                        self.shell.purse.look_soon()
                        if step.kind in ("created", "adopted"):
                            self.show_tab("pods")
                        if step.kind == "ready":
                            ready()
                        if step.pod is not None:
                            await self._look_quietly()
                        if step.pod is not None and step.host is not None:
                            told = await self._leave_guard(step.host, step.pod, provider, office)
            self.ready = order.name
            self.say(f"{order.name} is ready: t opens a terminal on it, x ends it. {told}", "success")
        except OutOfCapacity:
            self.start(self.refresh_offers(), group="offers")  # what is gone leaves the list
            raise
        finally:
            self.shell.workers.cancel_group(self.shell, "rent watch")
            if self.shell.is_running:
                self.shell.run_worker(self._look_quietly(), group="look after", exit_on_error=False)

    def _say_late(self, words: str) -> None:
        """Report what became of a cancelled machine, while the screen is still shown."""
        if self.shell.is_running:
            self.shell.say(words, severity="warning")

    async def _leave_guard(self, host: Host, pod: Pod, provider: Provider, office: Office) -> str:
        """What the guard on a machine without a run will do; it is started, or told its limits."""
        from hudtui.core.compute.watchdog import UNLIMITED, start_watchdog

        owned = await asyncio.to_thread(office.desk.ledger.get, pod.name)
        until = owned.until if owned is not None else None
        try:
            told = await start_watchdog(host, until, provider, pod.id, lookup=office.settings.get)
        except HudtuiError as error:
            return f"There is no guard on it: {error.lines()[0]}."
        return f"{told.text} {told.caveat}".strip() if told is not None else UNLIMITED

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

    async def _end(self, holdings: tuple[PodRow, ...]) -> None:
        from hudtui.core.compute.costs import charge_text
        from hudtui.core.compute.lifecycle import terminate_pod

        office = await self.shell.purse.open()
        lines = [line for one in holdings for line in _ending(one)]
        what = holdings[0].pod.name if len(holdings) == 1 else f"{len(holdings)} machines"
        lines += ["", "Everything on it is lost." if len(holdings) == 1 else "Everything on them is lost."]
        if not await self.shell.confirm(f"End {what}?", tuple(lines), yes="End", danger=True):
            return
        ended: list[str] = []
        failed: list[HudtuiError] = []
        for one in holdings:
            self.busy(f"Ending {one.pod.name}, and making sure")
            provider = office.desk.provider_of(one.pod.provider)
            try:
                gone = await terminate_pod(
                    one.pod, provider, office.desk.ledger, why="ended by hand", sleep=self.shell.services.sleep
                )
                cost = charge_text(gone)
                ended.append(f"{one.pod.name} is gone" + (f", {cost} in all" if cost else ""))
            except HudtuiError as error:
                failed.append(error)
        await self._look_quietly()
        if len(failed) == 1 and not ended:
            self.fail(failed[0])
        elif failed:
            self.fail(HudtuiError("; ".join(error.what for error in failed), why=". ".join(ended) or None, fix=failed[0].fix))
        elif ended:
            self.say(". ".join(ended) + ".", "success")

    # -- limits ------------------------------------------------------------------------------------------------------

    def action_limits(self) -> None:
        """Change the limits of the one under the cursor."""
        if self.holding is not None:
            self.start(self._change(self.holding), group="limits")

    async def _change(self, holding: PodRow) -> None:
        from hudtui.core.compute.lifecycle import log_in_to_pod
        from hudtui.core.compute.limits import amount, limits_from_settings
        from hudtui.core.compute.registry import pod_login
        from hudtui.tui.widgets.pick import Pick

        office = await self.shell.purse.open()
        limits = holding.limits
        if limits is None:
            limits = await asyncio.to_thread(limits_from_settings, office.settings)
        values = [getattr(limits, name) for name, _ in _LIMITS]
        options = [
            f"{title}: {'none' if value is None else amount(value)}" for (_, title), value in zip(_LIMITS, values, strict=True)
        ]
        chosen: int | None = await self.app.push_screen_wait(Pick(f"Limits of {holding.pod.name}", options))
        if chosen is None:
            return
        name, title = _LIMITS[chosen]
        value = getattr(limits, name)
        text = await self.shell.ask(
            title.capitalize(),
            lines=(f"of {holding.pod.name}. A number, or none for no limit.",),
            value="none" if value is None else amount(value),
        )
        if text is None:
            return
        changed = limits.with_value(name, text)
        await asyncio.to_thread(office.desk.change_limits, holding.pod.name, changed)
        if holding.run is None and holding.pod.stage == "ready":
            provider = office.desk.provider_of(holding.pod.provider)
            _, host = await log_in_to_pod(holding.pod, pod_login(office.settings.get))
            told = await self._leave_guard(host, holding.pod, provider, office)
            self.say(f"{holding.pod.name}: {title} is {text.strip()} now. {told}", "success")
            return await self._look_quietly()
        await self._look_quietly()
        self.say(f"{holding.pod.name}: {title} is {text.strip()} now.", "success")

    # -- logging in --------------------------------------------------------------------------------------------------

    def action_terminal(self) -> None:
        """A terminal on it."""
        if self.holding is not None:
            self.start(self._terminal(self.holding), group="terminal", busy=f"Logging in to {self.holding.pod.name}")

    async def _terminal(self, holding: PodRow) -> None:
        from hudtui.core.compute.registry import pod_ssh_command

        office = await self.shell.purse.open()
        argv = await pod_ssh_command(holding.pod, office.settings.get)
        self.clear_message()
        self.step_aside(argv)
        self.shell.run_worker(self._look_quietly(), group="look after", exit_on_error=False)

    # -- setting up --------------------------------------------------------------------------------------------------

    def action_access(self) -> None:
        """API key and SSH key."""
        self.start(self._access(), group="access")

    async def _access(self) -> None:
        from hudtui.tui.screens.compute_access import set_up

        if await set_up(self):
            self.action_refresh()  # offers can be asked for now, also where nothing but the first step was missing
            self.say("Everything is set up for renting machines.", "success")


def _told(limits: Limits) -> str:
    from hudtui.core.compute.limits import amount

    bounds = [
        words.format(amount(value))
        for value, words in (
            (limits.run_budget, "when it has cost {}"),
            (limits.max_hours, "after {} hours"),
            (limits.day_budget, "when all machines have cost {} today"),
        )
        if value is not None
    ]
    return f"It is ended {' or '.join(bounds)}." if bounds else "No limit: only x ends it."


def _ending(one: PodRow) -> list[str]:
    from hudtui.core.compute.limits import money

    pod = one.pod
    words = [f"{pod.name} ({pod.id}): {pod.gpu_count} × {pod.gpu_type}" if pod.gpu_count else f"{pod.name} ({pod.id})"]
    if pod.hourly is not None:
        words[0] += f", {money(pod.hourly, pod.currency)}/h"
    if one.spend is not None:
        words[0] += f", {one.spend.text}"
    if one.run is not None:
        words.append(f"! The run {one.run} is at work on it.")
    elif not one.ours:
        words.append("! It was not rented by hudtui: somebody else may be using it.")
    return words
