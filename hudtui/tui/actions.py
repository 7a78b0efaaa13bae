"""What a user can do, in one place.

Footer, help and command palette are made from the actions that are declared here. A screen or
widget that mixes in `Acting` lists its actions in `ACTIONS`; each becomes a key binding whose id is
the action's id, so that a keymap file of the user can move it. Nothing else binds keys that do
something.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.actions import SkipAction
from textual.binding import Binding
from textual.keys import key_to_character
from textual.worker import ResultType, Worker, WorkType

from hudtui.tui.gaps import never_skipped
from hudtui.tui.texts import takes_text

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.screen import Screen
    from textual.timer import Timer, TimerCallback


Reason = Callable[[Any], str | None]
"""Given who declares an action: why it is not possible now, as a sentence; None if it is."""


def unless(possible: Callable[[Any], object], words: str) -> Reason:
    """Return a reason that holds unless something is so.

    Args:
        possible: Given who declares the action; anything that counts as true makes it possible.
        words: The sentence. `{key:scope.name}` in it becomes the key of an action.
    """
    return lambda node: None if possible(node) else words


@dataclass(frozen=True)
class AppAction:
    """Something the user can do.

    The id is `scope.name`, for example `dataset.convert`; the method that does it is
    `action_convert` of the screen, widget or app that declares the action.
    """

    id: str
    title: str
    """One to three words: the footer and the palette show them."""
    tooltip: str
    """One sentence: help and the palette show it."""
    keys: str = ""
    """Keys, separated by commas, the first one shown; empty for an action that only the palette
    offers."""
    show: bool = True
    """Whether the footer shows it. Help and the palette always do."""
    palette: bool = True
    """False for movements, which mean nothing when picked from a list."""
    priority: bool = False
    """The key works even while a text field has the focus."""
    yields: bool = False
    """Its key belongs to the focused text while the action has nothing to do; needs `priority`."""
    decides: bool = False
    """It writes, starts or leaves at once: a key in the middle of a burst does not carry it out."""
    asks: bool = False
    """It opens a dialog, after some work: what is typed meanwhile waits for that."""
    danger: bool = False
    """It ends or destroys something: the palette finds it by whole words only, never by scattered
    letters."""
    when: tuple[Reason, ...] = ()
    """Reasons for which it may be impossible now; the first that holds is said."""

    @property
    def scope(self) -> str:
        """The part of the id before the point."""
        return self.id.partition(".")[0]

    @property
    def method(self) -> str:
        """Name of the method that carries the action out."""
        return "action_" + self.id.partition(".")[2].replace("-", "_")

    @property
    def binding(self) -> Binding:
        """The action as Textual binds it."""
        return Binding(
            self.keys,
            f"{'act_or_yield' if self.yields else 'act'}('{self.id}')",
            self.title,
            show=self.show,
            tooltip=self.tooltip,
            priority=self.priority,
            id=self.id,
        )


REGISTRY: dict[str, AppAction] = {}
"""Every declared action by its id, as far as the modules that declare them are imported."""


def by_key(
    name: str,
    title: str,
    tooltip: str,
    keys: str,
    *,
    priority: bool = False,
    when: tuple[Reason, ...] = (),
) -> AppAction:
    """An action that only its keys carry out, such as a movement.

    Footer and palette leave it out, help has it.
    """
    return AppAction(
        name, title, tooltip, keys, show=False, palette=False, priority=priority, when=when
    )


def cancel_action(scope: str, tooltip: str, *, when: tuple[Reason, ...] = ()) -> AppAction:
    """The action that ends what a screen waits for."""
    return AppAction(
        f"{scope}.cancel",
        "Cancel",
        tooltip,
        "ctrl+x",
        show=False,
        priority=True,
        yields=True,
        when=when,
    )


def needing(
    reason: Reason, actions: Iterable[AppAction], *, but: Collection[str] = ()
) -> tuple[AppAction, ...]:
    """Return actions that share a first reason; `but` names those that do not have it."""
    return tuple(
        action if action.id in but else replace(action, when=(reason, *action.when))
        for action in actions
    )


def register(action: AppAction) -> None:
    """Add an action.

    Raises:
        ValueError: Another action has this id, or the id is not `scope.name`.
    """
    known = REGISTRY.setdefault(action.id, action)
    if known != action:
        raise ValueError(f"two actions are called {action.id}")
    if not all(action.id.partition(".")):
        raise ValueError(f"an action's id is scope.name, and {action.id!r} is not")


class Acting:
    """Mixin, first in the list of bases, for apps, screens and widgets that declare actions."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = ()
    """The actions of this class itself; those of its bases stay."""

    if (
        TYPE_CHECKING
    ):  # Textual's own property finds the app; what this is mixed into may say of which class it is
        app: Any

    def __init_subclass__(cls, **options: Any) -> None:
        own: tuple[AppAction, ...] = cls.__dict__.get("ACTIONS", ())
        for action in own:
            register(action)
        bindings = [action.binding for action in own if action.keys]
        if bindings:
            cls.BINDINGS = [*cls.__dict__.get("BINDINGS", ()), *bindings]  # type: ignore[attr-defined]
        super().__init_subclass__(**options)

    @classmethod
    def all_actions(cls) -> Iterator[AppAction]:
        """The actions of this class and of its bases, its own first."""
        for base in cls.__mro__:
            yield from base.__dict__.get("ACTIONS", ())

    def why_not(self, action_id: str) -> str | None:
        """Why an action cannot be carried out now, as a sentence; None when it can.

        The action itself says so (`AppAction.when`). Call `refresh_bindings()` when the answer
        changes.
        """
        reasons = REGISTRY[action_id].when
        return next((words for reason in reasons if (words := reason(self)) is not None), None)

    def offers(self, action_id: str) -> bool:
        """Whether the action exists here at all.

        False takes it out of footer, help and palette; its key says why.
        """
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Textual's question whether a key does something."""
        if action in ("act", "act_or_yield") and parameters and not self.offers(str(parameters[0])):
            return False
        return super().check_action(action, parameters)  # type: ignore[misc,no-any-return]

    def has_use(self, action_id: str) -> bool:
        """Whether an action that yields has something to do."""
        return True

    def set_timer(
        self,
        delay: float,
        callback: TimerCallback | None = None,
        *,
        name: str | None = None,
        pause: bool = False,
    ) -> Timer:
        """As Textual's, but the callback is called however late it is.

        Its exceptions are shown.
        """
        shown = self._shown_when_it_fails(callback)
        return never_skipped(super().set_timer(delay, shown, name=name, pause=pause))  # type: ignore[misc]

    def set_interval(
        self,
        interval: float,
        callback: TimerCallback | None = None,
        *,
        name: str | None = None,
        repeat: int = 0,
        pause: bool = False,
    ) -> Timer:
        """As Textual's, but an exception of the callback is shown and ends nothing."""
        shown = self._shown_when_it_fails(callback)
        begin: Callable[..., Timer] = super().set_interval  # type: ignore[misc]
        return begin(interval, shown, name=name, repeat=repeat, pause=pause)

    def _shown_when_it_fails(self, callback: TimerCallback | None) -> TimerCallback | None:
        """The callback of a timer, whose exceptions `HudtuiApp.work_failed` shows.

        An exception that comes again at each tick is shown once.
        """
        failed = getattr(self.app, "work_failed", None)  # only the real app has it
        if callback is None or failed is None:
            return callback
        last = ""

        async def watched() -> None:
            nonlocal last
            try:
                result = callback()
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                words = f"{type(error).__name__}: {error}"
                if words != last:
                    failed(self, error)
                last = words
            else:
                last = ""

        return watched

    def run_worker(
        self,
        work: WorkType[ResultType],
        name: str | None = "",
        group: str = "default",
        description: str = "",
        exit_on_error: bool = True,
        start: bool = True,
        exclusive: bool = False,
        thread: bool = False,
    ) -> Worker[ResultType]:
        """As Textual's, which `@work` calls too, but an exception does not end the app.

        `HudtuiApp.work_failed` shows it. This is the one place that sees the exceptions of all
        work: what a worker tells its widget is lost when that is gone.
        """
        begin: Callable[..., Worker[ResultType]] = super().run_worker  # type: ignore[misc]
        failed = getattr(self.app, "work_failed", None)  # only the real app has it
        if thread or failed is None:
            return begin(work, name, group, description, exit_on_error, start, exclusive, thread)

        async def watched() -> ResultType:
            try:
                return await (work() if callable(work) else work)  # type: ignore[misc, no-any-return]
            except Exception as error:
                failed(self, error)
                raise

        return begin(
            watched,
            name,
            group,
            description or repr(work),
            exit_on_error=False,
            start=start,
            exclusive=exclusive,
        )

    async def action_act_or_yield(self, action_id: str) -> None:
        """Carry out an action that has something to do.

        Otherwise leave its key to the focused text.

        Raises:
            SkipAction: The key is the text's.
        """
        if not self.has_use(action_id) and takes_text(self.app.focused):
            raise SkipAction
        await self.action_act(action_id)

    async def action_act(self, action_id: str) -> None:
        """Carry out an action of this object, or say why it is not possible now.

        Errors are shown, and end nothing.
        """
        shell = self.app
        try:
            if begins := getattr(shell, "begins", None):  # only the real app has a message bar
                begins(REGISTRY[action_id])
            reason = self.why_not(action_id)
            if reason:  # the message bar fills in the keys that a reason names
                shell.say(f"{REGISTRY[action_id].title}: {reason}")
                return
            if REGISTRY[action_id].decides and not shell.typed.deliberate:
                words = "many keys came at once, so it was not done; press its key again"
                shell.say(f"{REGISTRY[action_id].title}: {words}", severity="warning")
                return
            result = getattr(self, REGISTRY[action_id].method)()
            if inspect.isawaitable(result):
                await result
        except SkipAction:
            # nothing to do here, such as a page down where all is shown: Textual passes the key on
            raise
        except Exception as error:
            shell.fail(error)


@dataclass(frozen=True)
class ActiveKey:
    """An action that the current focus can reach, as footer and help show it."""

    action: AppAction
    node: DOMNode
    key: str
    """As shown to the user."""
    why_not: str | None
    keys: tuple[str, ...] = ()
    """All keys that reach it now, as shown; those that the focused text takes for itself are not
    among them."""


def in_reach(screen: Screen[Any]) -> list[DOMNode]:
    """The focused widget and what it lies in, up to the app or the open dialog.

    A dialog keeps keys from what is behind it.
    """
    focused = screen.focused
    first = screen if focused is None or focused.loading else focused
    nodes: list[DOMNode] = list(first.ancestors_with_self)
    last = next((place for place, node in enumerate(nodes) if node.is_modal), len(nodes))
    return nodes[: last + 1]


def chain_actions(nodes: list[DOMNode]) -> Iterator[tuple[AppAction, DOMNode]]:
    """The actions of a chain of nodes (focused widget first), each once."""
    seen: set[str] = set()
    for node in nodes:
        if isinstance(node, Acting):
            for action in node.all_actions():
                if action.id not in seen:
                    seen.add(action.id)
                    yield action, cast("DOMNode", node)


_SHOWN = {
    "slash": "/",
    "plus": "+",
    "minus": "-",
    "underscore": "_",
    "backslash": "\\",
    "enter": "Enter",
    "escape": "Esc",
    "space": "Space",
    "tab": "Tab",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "home": "Home",
    "end": "End",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "delete": "Del",
    "backspace": "⌫",
}
"""Keys that are shown by another name than Textual's, and not by their character."""


_WHOLE = {"ctrl+underscore": "^/", "ctrl+@": "^Space"}
"""Keys that a terminal sends under another name than the one on the keyboard."""


def shown(key: str) -> str:
    """A key as people write it: `^p`, `?`, `Esc`, `F2`."""
    if key in _WHOLE:
        return _WHOLE[key]
    *modifiers, name = key.split("+") if key != "+" else [key]
    name = _SHOWN.get(name) or key_to_character(name) or name
    if len(name) > 1 and name[0] == "f" and name[1:].isdigit():
        name = name.upper()
    prefix = "".join(
        {"ctrl": "^", "shift": "⇧", "alt": "Alt-"}.get(modifier, modifier + "+")
        for modifier in modifiers
    )
    return prefix + name


def keys_of(action: AppAction, keymap: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of an action under the user's keymap."""
    keys = keymap.get(action.id) or action.keys
    return tuple(key.strip() for key in keys.split(",") if key.strip())


@lru_cache(maxsize=1024)
def named_key(key: str) -> str:
    """The name that Textual gives a key that may be written as its character.

    `question_mark` for `?`.
    """
    (binding,) = Binding.make_bindings([(key, "", "")])
    return binding.key


def keymap_of(app: object) -> Mapping[str, str]:
    """The user's keys by the ids of their actions; only the real app has any."""
    found: Mapping[str, str] = getattr(app, "keymap", {})
    return found


def _declared_by_a_screen(name: str) -> AppAction | None:
    """An action of a screen that is not imported yet."""
    from hudtui.tui.steps import SCREENS, screen_class

    scope = name.partition(".")[0]
    if scope in SCREENS:
        screen_class(scope)
    return REGISTRY.get(name)


_KEY = re.compile(r"\{key:([\w.-]+)\}")


def with_keys(text: str, keymap: Mapping[str, str]) -> str:
    """Return a text with `{key:scope.name}` replaced by the action's key.

    The key is the one under the user's keymap.

    An action without a key is named by its title, as the command palette shows it.
    """

    def key(match: re.Match[str]) -> str:
        action = REGISTRY.get(match[1]) or _declared_by_a_screen(match[1])
        if action is None:
            return match[1]
        keys = keys_of(action, keymap)
        return shown(keys[0]) if keys else action.title

    return _KEY.sub(key, text) if "{key:" in text else text


def load_all_actions() -> None:
    """Import every screen, so that `REGISTRY` is complete."""
    from hudtui.tui.steps import SCREENS, screen_class

    for name in SCREENS:
        screen_class(name)
