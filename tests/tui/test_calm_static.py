from __future__ import annotations

from textual.app import App, ComposeResult
from textual.containers import Container

from hudtui.tui.widgets.calm_static import CalmStatic


class Page(App[None]):
    CSS = "CalmStatic { height: auto; }"

    def compose(self) -> ComposeResult:
        with Container():
            yield CalmStatic("one")


async def test_a_text_that_grows_again_while_a_layout_is_due_gets_its_height() -> None:
    async with Page().run_test() as pilot:
        text = pilot.app.query_one(CalmStatic)
        text.update("one\ntwo")
        # as the screen does for other widgets, before the text has asked for it
        pilot.app.screen._refresh_layout()
        text.update("one\ntwo\nthree\nfour")
        await pilot.pause()
        assert text.size.height == 4
