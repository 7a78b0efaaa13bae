"""What the compute screen is about: the offer and the machine under the cursor, and the overview behind both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import TabbedContent

from hudtui.core.compute.offer_filter import OfferList
from hudtui.tui.compute.pods import row_key
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.widgets.virtual_table import VirtualTable

if TYPE_CHECKING:
    from hudtui.core.compute.overview import PodRow, PodsSnapshot
    from hudtui.core.compute.pods import PodRecord
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Offer
    from hudtui.tui.spending import ComputeSession


class ComputeCore(HudtuiScreen):
    """Two tables, what is chosen in them, and whom to ask."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = OfferList()
        """The offers that are shown."""
        self._offer: str | None = None
        self._pod: str | None = None
        self._asked_pods: float | None = None

    @property
    def session(self) -> ComputeSession | None:
        """The overview with its settings, once it is open."""
        return self.app.spending.session

    @property
    def holdings(self) -> PodsSnapshot | None:
        """What was seen alive last."""
        return self.app.spending.holdings

    def provider_of(self, name: str) -> Provider | None:
        """The provider of that name, where it is at hand."""
        return self.session.overview.providers.get(name) if self.session is not None else None

    @property
    def table(self) -> VirtualTable:
        """The table of offers."""
        return self.query_one("#cp-offers", VirtualTable)

    @property
    def pods_table(self) -> VirtualTable:
        """The table of what is alive."""
        return self.query_one("#cp-pods", VirtualTable)

    @property
    def tab(self) -> str:
        """`offers` or `pods`."""
        return str(self.query_one(TabbedContent).active).removeprefix("cp-tab-") or "offers"

    @property
    def offer(self) -> Offer | None:
        """The offer under the cursor."""
        return next((offer for offer in self.listed.offers if key_of(offer) == self._offer), None)

    @property
    def holding(self) -> PodRow | None:
        """The machine under the cursor."""
        pods = self.holdings.pods if self.holdings is not None else ()
        return next((one for one in pods if row_key(one) == self._pod), None)

    @property
    def gone(self) -> PodRecord | None:
        """The machine under the cursor, if its provider took it back."""
        taken = self.holdings.taken if self.holdings is not None else ()
        return next((one for one in taken if row_key(one) == self._pod), None)

    def show_tab(self, name: str) -> None:
        """Show the offers or what is alive."""
        self.query_one(TabbedContent).active = f"cp-tab-{name}"
        self.call_after_refresh((self.table if name == "offers" else self.pods_table).focus)

    def _age(self, at: float | None) -> float:
        return float("inf") if at is None else max(self.app.services.now().timestamp() - at, 0.0)

    def action_refresh(self) -> None:
        """Ask all providers again."""
        raise NotImplementedError

    async def look(self) -> None:
        """See what is alive."""
        self._asked_pods = self.app.services.now().timestamp()
        await self.app.spending.look()


def key_of(offer: Offer) -> str:
    """By what an offer is known again in another answer."""
    return f"{offer.provider} {offer.id}"
