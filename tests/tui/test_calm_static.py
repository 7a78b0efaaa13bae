from __future__ import annotations

from support.waiting import until
from textual.app import App, ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content

from hudtui.tui.widgets.calm_static import CalmStatic, FittedStatic


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


async def test_a_fitted_text_follows_its_own_width() -> None:
    text = FittedStatic()
    text.display = False

    class Shown(App[None]):
        def compose(self) -> ComposeResult:
            with Vertical():
                yield text

    async with Shown().run_test(size=(60, 10)) as pilot:
        text.show(lambda width: Content(f"{width} cells"))
        await pilot.pause()
        assert str(text.content) == "20 cells", "a hidden text has no width yet"
        text.display = True
        await until(pilot, lambda: str(text.content) == "60 cells")
        text.styles.width = 33  # nothing around it changes
        await until(pilot, lambda: str(text.content) == "33 cells")
