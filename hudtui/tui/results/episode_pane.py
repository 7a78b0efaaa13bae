"""A pane for one episode: its turns, its messages, its group, or its whole record."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message

from hudtui.core.results.images import images_by_turn
from hudtui.tui.actions import AppAction, by_key, unless
from hudtui.tui.results.transcript import (
    Beside,
    TranscriptPage,
    episode_name,
    folds,
    head_lines,
    message_page,
    reward_text,
    turn_page,
)
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.json_view import JsonView
from hudtui.tui.widgets.pane import ViewsPane
from hudtui.tui.widgets.pictures import why_no_pictures
from hudtui.tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from hudtui.core.results.queries import EpisodeDiff
    from hudtui.core.results.values import EpisodeEntry, Transcript, TranscriptImage


def _no_picture(image: TranscriptImage) -> Sequence[Content]:
    return ()


_TURNS = unless(lambda pane: pane.turns, "there is no turn to go to in this view")
_MATCHES = unless(lambda pane: pane.matches, "this view has no match")


class EpisodePane(ViewsPane):
    """An episode, read in full.

    Args:
        title: Shown on the border while there is no episode.
    """

    BORDER_TITLE = "Episode"
    HELP = (
        "An episode in full: the opening, every reply with its calls and the answer, and how it "
        "ended. {key:views.next} shows its messages as the model saw them, the numbers of its "
        "group, then the whole record. {key:episode.next-turn} goes to the next turn, "
        "{key:episode.later} to the next episode."
    )
    VIEWS: ClassVar[tuple[str, ...]] = ("turns", "messages", "group", "record")
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "episode.next-turn",
            "Next turn",
            "Scroll to the next turn.",
            "right",
            palette=False,
            when=(_TURNS,),
        ),
        by_key(
            "episode.previous-turn",
            "Turn before",
            "Scroll to the turn before.",
            "left",
            when=(_TURNS,),
        ),
        AppAction(
            "episode.unfold",
            "Whole replies",
            "Show replies and answers whole, with the marks of their calls; again folds them.",
            "enter",
            palette=False,
        ),
        AppAction(
            "episode.later",
            "Next episode",
            "Show the next episode of the list.",
            "J",
            palette=False,
        ),
        by_key("episode.earlier", "Episode before", "Show the episode before.", "K"),
        AppAction(
            "episode.next-match",
            "Next match",
            "Scroll to the next line that matches the search.",
            "n",
            palette=False,
            when=(_MATCHES,),
        ),
        by_key(
            "episode.previous-match",
            "Match before",
            "Scroll to the previous line that matches the search.",
            "N",
            when=(_MATCHES,),
        ),
    )
    DEFAULT_CSS = """
    EpisodePane > .episode-head { height: auto; max-height: 6; padding: 0 1; background: $surface; }
    EpisodePane > Sheet { padding: 0 1; }
    """

    @dataclass
    class AtTurn(Message):
        """Sent when a key has scrolled to another turn."""

        pane: EpisodePane
        turn: int

    @dataclass
    class Turned(Message):
        """Requests another episode of the list."""

        by: int
        """Number of episodes to move down the list; negative to move up."""

    def __init__(self, *, title: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._no_episode = title or self.title
        self.entry: EpisodeEntry | None = None
        """The episode that is shown."""
        self.transcript: Transcript | None = None
        """The episode in full; None while it is being read."""
        self._beside: Beside | None = None
        self._wanted: re.Pattern[str] | None = None
        self._at = 0
        self._place: object = None
        self._group: Callable[[], Sequence[Content]] = tuple
        self._page = TranscriptPage()
        self._folded = True
        self._recorded: Transcript | None = None
        self._head = CalmStatic(classes="episode-head")
        self._sheet = Sheet()
        self._record = JsonView()

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._sheet

    def on_mount(self) -> None:
        self.name_on_border(self._no_episode)
        self.watch(self._sheet, "scroll_y", self._complete, init=False)

    def first_focus(self) -> Sheet | JsonView:
        return self._record if self.view == "record" else self._sheet

    # -- what is shown
    # ----------------------------------------------------------------------------------------------

    def show(
        self,
        entry: EpisodeEntry | None,
        transcript: Transcript | None = None,
        *,
        beside: Beside | None = None,
        wanted: re.Pattern[str] | None = None,
        at: int = 0,
        marked: bool = False,
    ) -> None:
        """Show an episode, or none. An episode that is shown already keeps its scroll position.

        Args:
            entry: The entry of the episode in the index.
            transcript: The episode in full; None while it is being read.
            beside: How it differs from the episode that is shown beside it.
            wanted: The text to mark in the episode.
            at: Number of the turn to begin at; 0 for the beginning.
            marked: Whether other episodes are compared with this episode.
        """
        place = None if entry is None else (entry.run, entry.number, at, wanted, beside is not None)
        other = (
            place is None
            or place != self._place
            or (self.transcript is None and transcript is not None)
        )
        self._place = place
        self.entry, self.transcript, self._beside, self._wanted, self._at = (
            entry,
            transcript,
            beside,
            wanted,
            at,
        )
        if entry is None:
            self.name_on_border(self._no_episode)
            self._head.update("")
        else:
            mark = "◆ " if marked else ""
            self.name_on_border(
                f"{mark}{entry.task} · {episode_name(entry)} · {reward_text(entry.reward)}"
            )
            self._head.update(Content("\n").join(head_lines(entry, transcript)))
        self._head.display = entry is not None and self.view != "group"
        self._draw(home=other)
        self.refresh_bindings()

    async def prepare(self, transcript: Transcript) -> None:
        """Draw the images of an episode before it is shown."""
        images = [
            image.data
            for pairs in images_by_turn(transcript).values()
            for _, image in pairs
            if image.kind
        ]
        if images and why_no_pictures(self.app) is None:
            await self.app.pictures.draw(images, self.width - 2)

    @property
    def images(self) -> list[tuple[int, TranscriptImage]]:
        """The images of the turn at the top with their numbers.

        If that turn has none, the images of all turns.
        """
        found = {} if self.transcript is None else images_by_turn(self.transcript)
        return found.get(self.turn) or [pair for pairs in found.values() for pair in pairs]

    def _picture(self, image: TranscriptImage) -> Sequence[Content]:
        return self.app.pictures.lines(image.data if image.kind else None, self.width - 2)

    def show_group(self, lines: Callable[[], Sequence[Content]]) -> None:
        """Show these lines in the view of the group. The lines are made when the view is shown."""
        self._group = lines
        if self.view == "group":
            self._draw()

    def show_view(self) -> None:
        """Draw the chosen view. If the pane has the focus, it keeps it."""
        focused = self.has_focus_within
        if self.view == "record" and not self._record.is_attached:
            self.mount(self._record)
        self._sheet.display, self._record.display = self.view != "record", self.view == "record"
        self._head.display = self.entry is not None and self.view != "group"
        self._draw(home=True)
        if focused:
            self.first_focus().focus()

    def on_descendant_focus(self) -> None:
        self._complete()

    def on_resize(self) -> None:
        if self.view == "group":
            self._draw()  # its lines are made for a width
        self._complete()

    def _complete(self) -> None:
        """Draw the turns that were left out; see `_draw`."""
        if self._page.more:
            self._draw(whole=True)

    def _draw(self, *, home: bool = False, whole: bool = False) -> None:
        """Draw the view.

        Beside a list in which the cursor moves, an episode of a thousand turns is drawn only as far
        as it is in sight. The rest is drawn when the pane gets the focus or is scrolled.

        Args:
            home: Begin at the first line, or at the requested turn or match.
            whole: Draw all turns.
        """
        transcript = self.transcript
        if self.view == "group":
            self._page = TranscriptPage(
                tuple(self._group())
                or (Content.styled("No group is chosen.", "$foreground-muted"),)
            )
        elif transcript is None:
            words = "No episode is chosen." if self.entry is None else "Reading …"
            self._page = TranscriptPage((Content.styled(words, "$foreground-muted"),))
        elif self.view == "record":
            if self._recorded is not transcript:
                self._recorded = transcript
                self._record.show(transcript)
        elif self.view == "messages":
            self._page = message_page(transcript, self._wanted)
        else:
            why = why_no_pictures(self.app)
            hint = self.app.keys_in(
                f"{{key:results.image}} opens it{'' if why is None else f'; {why}'}"
            )
            picture = self._picture if why is None else _no_picture
            away = self._beside or self._wanted or self._at or (self._sheet.scroll_y and not home)
            most = None if whole or away or self.has_focus_within else 2 * self.app.size.height
            self._page = turn_page(
                transcript,
                beside=self._beside,
                wanted=self._wanted,
                picture=picture,
                hint=hint,
                most=most,
                folded=self._folded,
            )
        if self.view == "record":
            if transcript is None and self._recorded is not None:
                self._recorded = None
                self._record.clear()
            return
        self._sheet.more = self._page.more
        self._sheet.show(self._page.lines)
        if home and self.view != "group":
            if self._page.found:
                begin = (
                    self._page.turns[min(self._at, len(self._page.turns)) - 1]
                    if self._at and self._page.turns
                    else 0
                )
                line = next(
                    (line for line in self._page.found if line >= begin), self._page.found[0]
                )
                self._sheet.go_to(max(line - 2, 0))
            elif self._beside is not None and (first := self._beside.diff.first) is not None:
                self.go_to_turn(first.number)
            else:
                self._sheet.scroll_home(animate=False)

    @property
    def diff(self) -> EpisodeDiff | None:
        """How the episode differs from the episode beside it; None without such an episode."""
        return None if self._beside is None else self._beside.diff

    @property
    def width(self) -> int:
        """Cells of a line."""
        return max(self._sheet.scrollable_content_region.width, 30)

    @property
    def turn(self) -> int:
        """The number of the turn at the top; 0 before the first one."""
        return (
            bisect_right(self._page.turns, self._sheet.top_line)
            if self.view in ("turns", "messages")
            else 0
        )

    def go_to_turn(self, number: int) -> None:
        """Scroll to a turn, by its number from 1; to the last one if there are fewer."""
        self._complete()
        turns = self._page.turns
        if turns and number > 0:
            self._sheet.go_to(turns[min(number, len(turns)) - 1])

    # -- keys
    # ----------------------------------------------------------------------------------------------

    def offers(self, action_id: str) -> bool:
        """Offer the keys for matches only during a search."""
        if action_id in ("episode.next-match", "episode.previous-match"):
            return self._wanted is not None
        if action_id == "episode.unfold":
            return self.view == "turns" and self.transcript is not None and folds(self.transcript)
        return super().offers(action_id)

    @property
    def turns(self) -> Sequence[object]:
        """The places of the turns in this view."""
        return () if self.view == "record" else self._page.turns

    @property
    def matches(self) -> Sequence[object]:
        """The places of the matches in this view."""
        return () if self.view == "record" else self._page.found

    def _move(self, kind: Literal["turns", "found"], by: int) -> None:
        """Scroll to the next or previous line of a kind."""
        self._complete()
        places = getattr(self._page, kind)
        here = self._sheet.top_line
        wanted = [place for place in places if (place > here if by > 0 else place < here)]
        if wanted:
            self._sheet.go_to(wanted[0] if by > 0 else wanted[-1])
        elif by < 0:
            self._sheet.scroll_home(animate=False)

    def action_next_turn(self) -> None:
        self._move("turns", 1)
        self.post_message(self.AtTurn(self, self.turn))

    def action_previous_turn(self) -> None:
        self._move("turns", -1)
        self.post_message(self.AtTurn(self, self.turn))

    def action_next_match(self) -> None:
        self._move("found", 1)

    def action_previous_match(self) -> None:
        self._move("found", -1)

    def action_unfold(self) -> None:
        """Show replies whole, or fold them, at the same turn."""
        turn, self._folded = self.turn, not self._folded
        self._draw(whole=True)
        self.go_to_turn(turn)

    def action_later(self) -> None:
        self.post_message(self.Turned(1))

    def action_earlier(self) -> None:
        self.post_message(self.Turned(-1))
