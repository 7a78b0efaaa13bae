"""Actions as the one source of footer, help and palette; the user's keymap file; what is remembered
of taste."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.screen import ModalScreen
from textual.widgets import OptionList

from hudtui.core.paths import app_paths
from hudtui.tui import preferences, steps
from hudtui.tui.actions import REGISTRY, Acting, AppAction, load_all_actions, shown
from hudtui.tui.facts import Facts
from hudtui.tui.log.view import LogView
from hudtui.tui.palette import ActionProvider
from hudtui.tui.services import Services
from hudtui.tui.widgets.dialog import Ask, Confirm, TextDialog
from hudtui.tui.widgets.keybar import active_keys
from hudtui.tui.widgets.pick import Pick
from hudtui.tui.widgets.unsaved import Unsaved


async def _quiet(folder: Path, first: bool) -> tuple[str, ...]:
    return ()


SERVICES = Services(load_facts=lambda folder: Facts(folder, "HUD"), sync_runs=_quiet)
TMUX_EATS = {"ctrl+m", "ctrl+i", "ctrl+j", "ctrl+h", "ctrl+b", "ctrl+s", "ctrl+left_square_bracket"}


def test_every_action_is_complete_and_can_be_carried_out() -> None:
    import hudtui.tui.help  # noqa: F401  # its actions belong to the registry as soon as somebody asks for help

    load_all_actions()
    classes = list(_acting(Acting))
    for action in REGISTRY.values():
        assert action.title and action.tooltip.endswith((".", "?", "…")), action
        owners = [one for one in classes if action in one.__dict__.get("ACTIONS", ())]
        assert owners, action.id
        assert all(callable(getattr(owner, action.method, None)) for owner in owners), (
            f"{action.id} needs {action.method}"
        )


GRAMMAR = {
    "slash": ("Filter", "Search", "Find"),
    "s": ("Sort",),
    "S": ("Reverse",),
    "r": ("Refresh",),
    "n": ("New", "Rent", "Start", "Next match", "Next sample"),
    "e": ("Edit", "Set in .env", "Rename"),
    "x": ("End", "Stop", "Remove", "Delete", "Disconnect"),
    "t": ("Terminal",),
    "T": ("Test",),
    "y": ("Copy",),
    "m": ("Metrics",),
    "z": ("Zoom",),
    "ctrl+x": ("Cancel",),
    "ctrl+g": ("Start", "Go"),
    "tab": ("Next pane",),
    "shift+tab": ("Previous pane", "Dedent"),
    "less_than_sign": ("Smaller",),
    "greater_than_sign": ("Larger",),
    "right_square_bracket": ("Next",),
    "left_square_bracket": ("Previous", "Tab before"),
}
"""What a key means on every screen: the titles of its actions begin with one of these."""


def test_a_key_means_the_same_on_every_screen() -> None:
    load_all_actions()
    broken = []
    owners = [
        one
        for one in _acting(Acting)
        if one.__module__.startswith("hudtui.") and not issubclass(one, ModalScreen)
    ]
    for action in {
        action.id: action for owner in owners for action in owner.__dict__.get("ACTIONS", ())
    }.values():
        for key in filter(None, action.keys.split(",")):
            if key in GRAMMAR and not action.title.startswith(GRAMMAR[key]):
                broken.append(f"{key}: {action.id} ({action.title})")
    assert not broken


MOVES = {"j", "k", "g", "G"}
"""Letters that move in what has the focus: down, up, to its beginning, to its end. No screen uses
them for anything else."""
OF_THE_PANE = {*MOVES, "n", "N", "y"}
"""Also: the next match, the one before, and copying. They are about the pane that has the focus."""


async def test_a_focused_pane_takes_no_letter_of_its_screen(
    open_app: Callable[..., Any], settle: Any, project: Path
) -> None:
    """A letter does on a screen what it does there, wherever the focus is; and the same in all
    panes of the screen."""
    taken = []
    async with open_app(project, services=SERVICES) as (app, pilot):
        for name in steps.SCREENS:
            app.open_screen(name)
            await settle(pilot)
            screen = app.screen
            letters: dict[str, AppAction] = {}
            assert not MOVES & {
                key for action in screen.all_actions() for key in action.keys.split(",")
            }, name
            for node in (screen, *(one for one in screen.query("*") if isinstance(one, Acting))):
                for action in node.all_actions():
                    for key in filter(
                        lambda key: len(key) == 1 and key not in OF_THE_PANE, action.keys.split(",")
                    ):
                        known = letters.setdefault(key, action)
                        if known.title != action.title:
                            taken.append(
                                f"{name}: {key} is {known.id} ({known.title}), and {action.id} "
                                f"({action.title})"
                            )
    assert not taken


HINT = re.compile(
    r"\bCtrl-[A-Z]\b|\bF\d{1,2}\b|\b[Pp]ress [a-zA-Z]\b"
    r"|(?:^|[\s(.;:,])[b-zB-HJ-Z] (?:ends?|shows?|opens?|starts?|chooses?|sets?|goes|leads)\b"
    r"|(?:^|[\s(.;:,])[b-zB-HJ-Z] (?:writes|filters?|makes|brings|copies)\b"
    r"|(?:^|[\s(.;:,])[b-zB-HJ-Z] (?:saves|cancels|names|lists|dismisses|renames)\b"
)


def test_texts_take_their_keys_from_the_keymap() -> None:
    import hudtui.tui

    plain = []
    for path in Path(hudtui.tui.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
        }
        texts = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        plain += [
            f"{path.name}:{node.lineno}: {node.value}"
            for node in texts
            if id(node) not in docs and HINT.search(node.value)
        ]
    allowed = (
        "Press Ctrl-C again",
        "Ctrl-B d",
    )  # Ctrl-C is bound by no keymap, and Ctrl-B is tmux's own
    assert not [
        text for text in plain if not any(one in text for one in allowed) and ".-w" not in text
    ]


def test_every_action_has_a_key_that_terminals_and_tmux_let_through() -> None:
    load_all_actions()
    for action in REGISTRY.values():
        keys = {key.strip() for key in action.keys.split(",") if key.strip()}
        assert not keys or keys - TMUX_EATS, f"{action.id} has no key that arrives everywhere"


def test_no_screen_takes_a_key_twice_or_one_of_the_app() -> None:
    load_all_actions()
    from hudtui.tui.app import HudtuiApp

    general = {
        key: action.id for action in HudtuiApp.ACTIONS for key in action.keys.split(",") if key
    }
    for name in steps.SCREENS:
        taken: dict[str, str] = {}
        for action in steps.screen_class(name).all_actions():
            for key in filter(None, action.keys.split(",")):
                assert key not in taken, f"{name}: {key} is both {taken.get(key)} and {action.id}"
                taken[key] = action.id
                assert key == "escape" or key not in general, (
                    f"{name}: {key} hides {general.get(key)}"
                )


def _acting(base: type) -> Any:
    for one in base.__subclasses__():
        yield one
        yield from _acting(one)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ctrl+p", "^p"),
        ("question_mark", "?"),
        ("f2", "F2"),
        ("escape", "Esc"),
        ("shift+tab", "⇧Tab"),
        ("plus", "+"),
        ("G", "G"),
    ],
)
def test_keys_are_shown_as_people_write_them(key: str, text: str) -> None:
    assert shown(key) == text


def keymap(text: str) -> Path:
    path = app_paths().config / preferences.KEYMAP_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def test_a_keymap_moves_keys_everywhere(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, project: Path
) -> None:
    keymap('"app.help" = "f9"\n[app]\nsettings = "ctrl+g,S"\n')
    async with open_app(project, services=SERVICES) as (app, pilot):
        assert "F9 Help" in screen_text(app)
        await pilot.press("question_mark")
        await settle(pilot)
        assert app.screen.NAME == "home"
        await pilot.press("f9")
        await settle(pilot)
        assert "^g, S" in screen_text(app)
        await pilot.press("escape", "S")
        await settle(pilot)
        assert app.screen.NAME == "settings"


async def test_while_a_text_is_typed_no_key_is_shown_that_the_field_takes(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, project: Path
) -> None:
    async with open_app(project, services=SERVICES) as (app, pilot):
        await pilot.press("comma")
        await settle(pilot)
        assert "/ Filter" in screen_text(app).splitlines()[-1]
        await pilot.press("slash", "slash")
        await settle(pilot)
        assert app.screen.query_one("FilterField").value == "/", "the field takes it"
        assert "/ Filter" not in screen_text(app).splitlines()[-1]
        assert not [
            key.key for key in active_keys(app.screen) if len(key.key) == 1 and key.key.isascii()
        ], "nor does help"


MOVED = {
    "confirm.yes": "1",
    "confirm.no": "2",
    "dialog.cancel": "f4",
    "pick.take": "f5",
    "text.copy": "f6",
    "unsaved.save": "f7",
    "unsaved.leave": "f8",
    "unsaved.stay": "f9",
    "help.filter": "f11",
    "app.open-dataset": "E",
    "log.now": "f12",
    "log.search": "T",
}


@pytest.mark.parametrize(
    ("dialog", "words"),
    [
        (lambda: Confirm("Sure?"), ("Yes (1)", "Cancel (2)")),
        (lambda: Ask("Name"), ("Cancel (F4)",)),
        (lambda: Pick("Which?", ["a", "b"]), ("F5 chooses", "F4 closes")),
        (lambda: TextDialog("Text", "words"), ("F6 copy", "F4 close")),
        (
            lambda: Unsaved("Quit?", (), leave="Quit", lost=False),
            ("Save (F7)", "Quit (F8)", "Stay (F9)"),
        ),
    ],
)
async def test_dialogs_name_the_keys_of_the_user(
    open_app: Callable[..., Any],
    screen_text: Any,
    project: Path,
    dialog: Callable[[], Any],
    words: tuple[str, ...],
) -> None:
    keymap("".join(f'"{name}" = "{key}"\n' for name, key in MOVED.items()))
    async with open_app(project, services=SERVICES) as (app, pilot):
        assert "E " in screen_text(app).splitlines()[1], "the bar of steps names them too"
        app.push_screen(dialog())
        await pilot.pause()
        shown = screen_text(app)
        assert all(word in shown for word in words), shown
        assert not re.search(r"\bEsc\b|\(y\)|\(n\)", shown)


async def test_a_log_names_the_keys_of_the_user(
    open_app: Callable[..., Any], project: Path
) -> None:
    keymap("".join(f'"{name}" = "{key}"\n' for name, key in MOVED.items()))
    async with open_app(project, services=SERVICES) as (app, _):
        pane = LogView()
        await app.screen.mount(pane)
        assert app.keys_in(pane.why_not("log.next") or "") == "search first, with T"


async def test_mistakes_in_a_keymap_are_said_and_the_rest_counts(
    open_app: Callable[..., Any], screen_text: Any, project: Path
) -> None:
    keymap(
        '"app.hlep" = "f9"\n"app.settings" = "f8, zzz"\n"app.home" = 3\n"app.help" = "ctrl+nokey"\n'
    )
    async with open_app(project, services=SERVICES) as (app, pilot):
        found, complaints = preferences.load_keymap(app_paths().config / preferences.KEYMAP_FILE)
        assert found == {"app.settings": "f8"}
        assert (
            complaints[0] == "keymap.toml: there is no action 'app.hlep'; did you mean 'app.help'?"
        )
        assert complaints[1] == "keymap.toml: app.settings: there is no key 'zzz'"
        assert (
            "app.home needs a text with keys" in complaints[2] and "'ctrl+nokey'" in complaints[3]
        )
        assert "keymap.toml" in screen_text(app)
        await pilot.press("f8")
        await pilot.pause()
        assert app.screen.NAME == "settings"


def test_every_key_that_is_declared_may_stand_in_a_keymap(project: Path) -> None:
    load_all_actions()
    declared = {name: action.keys for name, action in REGISTRY.items() if action.keys}
    path = keymap(
        "".join(f"{json.dumps(name)} = {json.dumps(keys)}\n" for name, keys in declared.items())
    )
    assert preferences.load_keymap(path) == ({name: keys for name, keys in declared.items()}, ())


def test_a_keymap_that_is_no_toml_is_not_used(project: Path) -> None:
    path = keymap("this is = = no toml")
    found, complaints = preferences.load_keymap(path)
    assert found == {} and len(complaints) == 1 and "is not used" in complaints[0]


async def test_the_palette_offers_every_action_of_every_screen(
    open_app: Callable[..., Any], settle: Any, project: Path
) -> None:
    async with open_app(project, services=SERVICES) as (app, pilot):
        await pilot.press("ctrl+p")
        for _ in range(400):
            text = "\n".join(option.prompt.plain for option in _options(app))
            if "Copy name" in text:  # the last one of the last screen
                break
            await pilot.pause(0.02)
        for name in steps.SCREENS:
            for action in steps.screen_class(name).all_actions():
                if action.palette and action.id != "home.demo":
                    assert action.title in text, action.id


def _options(app: Any) -> Any:
    found = app.screen.query_one(OptionList)
    return [found.get_option_at_index(index) for index in range(found.option_count)]


async def pick(pilot: Any, typed: str, title: str) -> None:
    """Type into the open palette, wait until it has found `title`, and take it."""
    await pilot.press(*typed)
    for _ in range(400):
        found = _options(pilot.app) if type(pilot.app.screen).__name__ == "Palette" else []
        if found and title in found[0].prompt.plain:
            break
        await pilot.pause(0.02)
    await pilot.press("enter")


async def test_picking_an_action_of_another_screen_opens_it_and_does_it(
    open_app: Callable[..., Any], settle: Any, project: Path
) -> None:
    async with open_app(project, services=SERVICES) as (app, pilot):
        await pilot.press("ctrl+p")
        await settle(pilot)
        await pick(pilot, "set in .env", "Set in .env")
        for _ in range(400):
            if type(app.screen).__name__ == "Ask":
                break
            await pilot.pause(0.02)
        assert app._opened["settings"].is_attached
        assert type(app.screen).__name__ == "Ask", app.screen.message


@pytest.mark.parametrize("found", [False, True])
async def test_a_search_of_the_palette_may_end_while_the_app_does(
    open_app: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch, found: bool
) -> None:
    searched = ActionProvider.search

    async def slow(self: ActionProvider, query: str) -> Any:
        """Find nothing, or one action, once the list is gone."""
        while palette.query(OptionList):  # noqa: ASYNC110 - Textual tells of it by no event
            await asyncio.sleep(0)
        async for hit in searched(self, "doctor" if found else "no action has this name"):
            yield hit

    async with open_app(project, services=SERVICES) as (app, pilot):
        await pilot.press("ctrl+p")
        palette = app.screen
        while not _options(app):
            await pilot.pause(0.02)
        monkeypatch.setattr(ActionProvider, "search", slow)
        await pilot.press("z")
    assert not palette.is_attached


async def test_a_theme_is_kept_for_the_next_start(
    open_app: Callable[..., Any], settle: Any, project: Path
) -> None:
    async with open_app(project, services=SERVICES) as (app, pilot):
        app.action_theme()
        await settle(pilot)
        await pilot.press("down")
        await settle(pilot)
        assert app.theme == "hudtui-light", "the theme under the cursor is shown"
        await pilot.press("escape")
        await settle(pilot)
        assert app.theme == "hudtui", "and is not taken by leaving"
        app.action_theme()
        await pilot.press(*"hudtui-light", "enter")
        await settle(pilot)
        assert app.theme == "hudtui-light"
    assert json.loads((app_paths().state / preferences.FILE).read_text())["theme"] == "hudtui-light"
    async with open_app(project, services=SERVICES) as (app, pilot):
        assert app.theme == "hudtui-light"


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", '{"theme": 3, "mouse": "x"}', '{"theme": "gone"}']
)
async def test_nonsense_in_the_preferences_is_the_default(
    open_app: Callable[..., Any], settle: Any, project: Path, text: str
) -> None:
    path = app_paths().state / preferences.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    async with open_app(project, services=SERVICES) as (app, pilot):
        assert app.theme == "hudtui" and app.preferences.mouse is True
        aside = path.with_name(path.name + ".broken")
        if text in ("no json", "[]"):
            await settle(pilot)
            assert aside.read_text() == text and str(aside) in app.screen.message
            path.write_text("broken again")  # by another program, while hudtui is open
            app.action_ring()
            assert aside.read_text() == "broken again" and preferences.load(path).bell is False
        else:
            assert not aside.exists() and not app.screen.message


def test_the_environment_wins_over_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    path = app_paths().state / preferences.FILE
    preferences.change(path, mouse=True, theme="nord")
    monkeypatch.setenv("HUDTUI_MOUSE", "off")
    monkeypatch.setenv("HUDTUI_THEME", "monochrome")
    assert preferences.load(path) == preferences.Preferences("monochrome", False)


@pytest.mark.parametrize(
    ("name", "word", "field", "kept"),
    [
        ("HUDTUI_MOUSE", "off", "mouse", True),
        ("HUDTUI_MOUSE", "on", "mouse", False),
        ("HUDTUI_THEME", "monochrome", "theme", "hudtui-light"),
        ("HUDTUI_THEME", "hudtui", "theme", ""),
    ],
)
async def test_the_environment_of_one_start_is_not_kept_for_the_next(
    open_app: Callable[..., Any],
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    word: str,
    field: str,
    kept: Any,
) -> None:
    path = app_paths().state / preferences.FILE
    preferences.change(path, **{field: kept})
    with monkeypatch.context() as patch:
        patch.setenv(name, word)
        async with open_app(project, services=SERVICES) as (app, _):
            imposed = getattr(app.preferences, field)
            app.action_ring()
            assert getattr(app.preferences, field) == imposed != kept, "it counts until the end"
        assert not preferences.load(path).bell
    assert getattr(preferences.load(path), field) == kept


async def test_what_the_user_chooses_counts_and_is_kept_whatever_the_environment_says(
    open_app: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = app_paths().state / preferences.FILE
    with monkeypatch.context() as patch:
        patch.setenv("HUDTUI_MOUSE", "off")
        async with open_app(project, services=SERVICES) as (app, _):
            app.prefer(mouse=True)
            app.action_ring()
            assert app.preferences.mouse is True
    assert preferences.load(path).mouse is True


async def test_the_doctor_looks_from_within(
    open_app: Callable[..., Any],
    settle: Any,
    screen_text: Any,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_app(project, services=SERVICES, size=(100, 50)) as (app, pilot):
        monkeypatch.setenv("PATH", str(tmp_path))  # no program is there
        app.action_doctor()
        await settle(pilot)
        assert isinstance(app.screen, TextDialog)
        assert "hudtui.log" in screen_text(app) and "tmux     " in screen_text(app)
        await pilot.press("escape")
        await settle(pilot)
        assert not app.screen.message


async def test_long_text_can_be_read_and_copied(
    open_app: Callable[..., Any],
    settle: Any,
    screen_text: Any,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[str] = []
    async with open_app(project, services=SERVICES, size=(80, 24)) as (app, pilot):
        monkeypatch.setattr(app, "copy", copied.append)
        app.read("Title [b]", "\n".join(f"line {n} \x1b[31m[red]" for n in range(100)))
        await settle(pilot)
        assert isinstance(app.screen, TextDialog)
        assert "Title [b]" in screen_text(app) and "line 1 [red]" in screen_text(app)
        await pilot.press("end")
        await settle(pilot)
        assert "line 99 [red]" in screen_text(app)
        await pilot.press("y", "q")
        await settle(pilot)
        assert copied and copied[0].count("\n") == 99 and "\x1b" not in copied[0]
        assert app.screen.NAME == "home"


@pytest.mark.parametrize(
    ("step", "page"),
    [
        ("environment", "environments.md"),
        ("mapping", "configuration.md"),
        ("dataset", "tasks.md"),
        ("playing", "playing.md"),
        ("compute", "compute.md"),
        ("launch", "runs.md"),
        ("run", "monitor.md"),
        ("results", "results.md"),
        ("settings", "settings.md"),
    ],
)
def test_every_key_of_a_screen_is_in_the_reference_that_its_guide_names(
    step: str, page: str
) -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert f"reference/keys.md#{step}" in (docs / page).read_text(encoding="utf-8")
    reference = (docs / "reference" / "keys.md").read_text(encoding="utf-8")
    lines = reference.splitlines()
    for action in steps.screen_class(step).all_actions():
        (line,) = [one for one in lines if f"`{action.id}`" in one]
        for key in filter(None, action.keys.split(",")):
            forms = {key, shown(key), shown(key).lower()}
            assert any(f"`{form}`" in line for form in forms), f"{action.id}: {forms} not in {line}"


async def test_all_mistakes_in_a_keymap_are_seen(
    open_app: Callable[..., Any], settle: Any, project: Path
) -> None:
    keymap('"app.hlep" = "f9"\n"app.home" = 3\n"no.such" = "x"\n')
    async with open_app(project, services=SERVICES) as (app, _):
        for name in ("app.hlep", "app.home", "no.such"):
            assert name in app.screen.message


async def test_what_ends_something_is_found_by_its_words_only(
    open_app: Callable[..., Any], settle: Any, project: Path
) -> None:
    from hudtui.tui.palette import ActionProvider

    async with open_app(project, services=SERVICES) as (app, _):
        provider = ActionProvider(app.screen)

        async def found(query: str) -> list[str]:
            return [str(hit.text) for hit in [one async for one in provider.search(query)]]

        assert not [text for text in await found("undo") if "unclaimed" in text]
        assert [text for text in await found("unclaimed") if "End unclaimed" in text]
        assert [text for text in await found("hlp") if "Help" in text], (
            "all others are found by letters in order"
        )


async def test_the_palette_offers_first_what_was_chosen_last(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, project: Path
) -> None:
    async with open_app(project, services=SERVICES) as (app, pilot):
        await pilot.press("ctrl+p")
        await settle(pilot)
        await pick(pilot, "screenshot", "Screenshot")
        for _ in range(400):
            if "The picture is in" in app.screen.message:
                break
            await pilot.pause(0.02)
        (picture,) = project.glob("hudtui-home-*.svg")
        assert "hudtui" in picture.read_text() and "Search for" not in picture.read_text(), (
            "the screen, and not the palette"
        )
        await pilot.press("ctrl+p")
        await settle(pilot)
        assert _options(app)[0].prompt.plain.startswith("Screenshot")


async def test_help_is_filtered(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, project: Path
) -> None:
    async with open_app(project, services=SERVICES) as (app, pilot):
        await pilot.press("question_mark")
        await settle(pilot)
        await pilot.press("slash", *"leave hud")
        await settle(pilot)
        text = screen_text(app)
        assert "Leave hudtui." in text and "Go to the overview" not in text


async def test_help_in_a_text_lists_the_keys_of_the_text_and_none_that_is_typed(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, project: Path
) -> None:
    async with open_app(project, size=(120, 60), services=SERVICES) as (app, pilot):
        await pilot.press("comma")
        await settle(pilot)
        await pilot.press("slash", "f1")
        await settle(pilot)
        lines = [
            line
            for line in screen_text(app).splitlines()
            if "Help " in line or "Quit " in line or "Paste" in line
        ]
        assert any("^v" in line and "Paste" in line for line in lines)
        assert not any("?" in line for line in lines if "app.help" in line)
        assert any("F1" in line for line in lines if "app.help" in line)
