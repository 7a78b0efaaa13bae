"""Playing: one task turn by turn, by a policy, by hand, or by both in turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, replace
from functools import partialmethod
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, TextArea

from hudtui.core.errors import InputError
from hudtui.core.events import Notice, Progress
from hudtui.core.knobs import knob, knobs_of, text_of, values_from
from hudtui.core.rollouts.options import PlayTaskOptions
from hudtui.core.text import clean_line, plural
from hudtui.tui.actions import AppAction, by_key, cancel_action, unless
from hudtui.tui.editor.reply_editor import ReplyEditor
from hudtui.tui.facts import Facts
from hudtui.tui.playing.panes import ActionsPane, ReplyPane, SetupPane, TranscriptPane
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.field_rows import FieldRow
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.pick import Pick, pick_file

if TYPE_CHECKING:
    from hudtui.core.flows.playing import PlayedTurn, PlayEnded, PlayEvent, Playing, PlayRequest
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.rollouts.values import KeptImage, Scores
    from hudtui.core.workspace import Workspace

PACE = 0.2
"""Seconds between two turns of a policy that takes less: they can be followed, and paused."""
_SCRIPTED = {
    "greedy": "greedy: 2048, the move with the most points at once",
    "random": "random: any of the calls that the configuration allows",
    "solution": "solution: the calls of the task's own solution",
}
_MOST_TASKS = 1_000
_LATE = (
    "hudtui.core.flows.playing",
    "hudtui.tui.playing.view",
    "hudtui.tui.mapping.view",
    "hudtui.core.gym.editing.preview",
)
"""What the screen imports when it is open."""
_ENDPOINT = "http://127.0.0.1:8000/v1"


@dataclass(frozen=True)
class PlayChoice(PlayTaskOptions):
    """The choices for the next episode."""

    tasks: str | None = knob(None, "File of tasks.", label="file", unset="no task file here")
    config: str | None = knob(None, "Configuration.", unset="no configuration here")


_ROWS = ("task", "tasks", "config", "policy", "base_url", "seed", "max_turns")
"""The choices of the form, in their order."""


_BEGUN = unless(lambda screen: screen.begun, "nothing was played yet")
_GOING = unless(
    lambda screen: screen.begun and not screen.over,
    "no episode is being played; {key:playing.start} starts one",
)
_POLICY = unless(
    lambda screen: screen.playing.policy is not None,
    "no policy is chosen; {key:playing.policy} chooses one",
)


def _missing(screen: PlayingScreen) -> str | None:
    if screen.going("choose"):
        return None
    if screen.choice.tasks is None:
        return (
            "there is no task file; {key:app.open-environment}, then {key:environment.new-task}, "
            "makes a task"
        )
    if screen.choice.config is None:
        return (
            "there is no configuration; {key:app.open-environment}, then "
            "{key:environment.generate}, generates one"
        )
    return None


class PlayingScreen(HudtuiScreen):
    """Choose a task and who plays it, watch the turns arrive, and take part in them."""

    NAME = "playing"
    TITLE = "playing"
    AUTO_FOCUS = ""
    CSS_PATH = "playing.tcss"
    HELP = (
        "One task, turn by turn, in an environment of its own. {key:playing.start} begins with the "
        "chosen task and policy. {key:playing.pause} pauses the policy and gives the episode back "
        "to it; {key:playing.write} takes over: write a reply, and {key:playing.send} plays it. At "
        "its end the episode is evaluated and kept in outputs/played/traces.jsonl."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "playing.start",
            "Start",
            "Set the task up in a fresh environment and play it.",
            "ctrl+g",
            priority=True,
            decides=True,
            when=(_missing,),
        ),
        AppAction(
            "playing.pause",
            "Pause / continue",
            "Let the policy pause, or give the episode back to it.",
            "p",
            when=(_GOING, _POLICY),
        ),
        AppAction(
            "playing.step",
            "One turn",
            "Let the policy play one turn.",
            "full_stop",
            when=(_GOING, _POLICY),
        ),
        AppAction(
            "playing.write",
            "Write reply",
            "Take over: let the policy pause, and write the next reply.",
            "w",
        ),
        AppAction(
            "playing.send",
            "Send",
            "Play the reply.",
            "f8",
            priority=True,
            decides=True,
            when=(
                _GOING,
                unless(
                    lambda screen: screen.answer.editor.text.strip(),
                    "the reply is empty; {key:playing.write} writes one",
                ),
            ),
        ),
        AppAction(
            "playing.end",
            "End",
            "End the episode: evaluate it, and end its environment.",
            "x",
            danger=True,
            when=(_GOING,),
        ),
        AppAction(
            "playing.evaluate",
            "Evaluate",
            "Evaluate the episode as it stands.",
            "J",
            show=False,
            decides=True,
            when=(_GOING,),
        ),
        AppAction("playing.task", "Task", "Choose the task.", "a", show=False, asks=True),
        AppAction(
            "playing.tasks",
            "Task file",
            "Choose the file that the task is from.",
            "o",
            show=False,
            asks=True,
        ),
        AppAction(
            "playing.config",
            "Configuration",
            "Choose the configuration.",
            "c",
            show=False,
            asks=True,
        ),
        AppAction(
            "playing.policy",
            "Policy",
            "Choose who plays: a policy, a model, or you.",
            "P",
            asks=True,
        ),
        AppAction(
            "playing.copy",
            "Copy transcript",
            "Copy what was played so far.",
            "y",
            show=False,
            when=(_BEGUN,),
        ),
        AppAction(
            "playing.transcript",
            "Save transcript",
            "Write what was played so far into a file.",
            "W",
            show=False,
            when=(_BEGUN,),
        ),
        AppAction(
            "playing.keep",
            "Keep replies",
            "Keep replies as examples in the configuration.",
            "K",
            show=False,
            asks=True,
            when=(_BEGUN, unless(lambda screen: screen.turns, "no reply was played yet")),
        ),
        cancel_action(
            "playing", "End the environment at once; the episode is kept without an evaluation."
        ),
        by_key("playing.back", "Back", "Go to the transcript; from there, back.", "escape"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.playing: Playing | None = None
        """The episode that is played, or the last one."""
        self.over = True
        """No episode is being played."""
        self.pace = PACE
        self.choice = PlayChoice()
        self._chosen_config: GymConfig | None = None
        """What replies mean before an episode begins."""
        self.turns: list[PlayedTurn] = []
        self._opening = ""
        self._scores: Scores | None = None
        self._before: Scores | None = None
        self._judged = False
        self._waits = False
        """The episode waits for a reply by hand."""
        self._setup = SetupPane(id="play-setup")
        self._transcript = TranscriptPane(id="play-transcript")
        self.answer = ReplyPane(id="play-answer")
        self._actions = ActionsPane(id="play-help")

    # -- what is on it
    # ----------------------------------------------------------------------------------------------

    def content(self) -> Iterable[Widget]:
        with Panes():
            yield self._transcript
            with Vertical(id="play-right"):
                yield self._setup
                yield self.answer
                yield self._actions

    def on_mount(self) -> None:
        self._transcript.hint(
            "No episode yet: {key:playing.start} plays what the pane Episode names."
        )
        self._show_setup()

    def opened(self, **given: Any) -> None:
        """Take the given choices; the others stay, or come from the project."""
        if "tasks" in given:
            self._choose(tasks=given["tasks"], task=given.get("task"))
        if "config" in given:
            self._choose(config=given["config"])
        self.start(self._choose_defaults, group="choose")
        if self.over and (self.playing is None or given):
            self.query_one(Panes).open(self._setup)
        if note := given.get("note"):
            self.say(note, "warning")

    def facts_changed(self, facts: Facts) -> None:
        if self.is_current:
            self.start(self._choose_defaults, group="choose")

    async def on_unmount(self) -> None:
        await self.stop("play")

    @property
    def begun(self) -> bool:
        """Whether an episode was begun."""
        return self.playing is not None and self.playing.player is not None

    def has_use(self, action_id: str) -> bool:
        return bool(self.going("play"))

    # -- choices
    # ----------------------------------------------------------------------------------------------

    async def _choose_defaults(self) -> None:
        for module in _LATE:
            await asyncio.to_thread(import_module, module)  # not in the middle of the first key
        workspace: Workspace = await asyncio.to_thread(lambda: self.app.workspace)
        if self.choice.tasks is None and workspace.task_files:
            self._choose(tasks=workspace.relative(workspace.task_files[0]))
        configs = [workspace.relative(path) for path in workspace.configs]
        if self.choice.config is None and configs:
            last = self.app.last_config()
            self._choose(config=last if last in configs else configs[0])
        await self._read_config()
        self._show_setup()

    async def _read_config(self) -> None:
        from hudtui.core.gym.config import load_config

        self._chosen_config = None
        if self.choice.config is not None:
            with suppress(InputError):  # the start says what is wrong with it
                self._chosen_config = await asyncio.to_thread(
                    load_config, self.app.folder / self.choice.config
                )
        self._show_actions()
        self._show_meaning()

    def _choose(self, **changes: Any) -> None:
        self.choice = replace(self.choice, **changes)
        self._show_setup()

    def _show_setup(self) -> None:
        texts = {name: text_of(getattr(self.choice, name)) for name in _ROWS}
        knobs = knobs_of(PlayChoice)
        fields = [
            FieldRow(name, knobs[name].title(name), texts[name], knobs[name].unset)
            for name in _ROWS
            if knobs[name].counts(texts)
        ]
        self._setup.show(fields)
        self.refresh_bindings()

    @on(OptionList.OptionSelected, "#play-rows")
    def _change(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._ask(str(event.option.id))

    def _ask(self, name: str) -> None:
        self.start(getattr(self, f"_ask_{name}"), group="ask")

    action_task = partialmethod(_ask, "task")
    action_tasks = partialmethod(_ask, "tasks")
    action_config = partialmethod(_ask, "config")
    action_policy = partialmethod(_ask, "policy")

    async def _ask_tasks(self) -> None:
        chosen = await pick_file(self.app, "task_files", self.choice.tasks)
        if chosen is not None and chosen != self.choice.tasks:
            self._choose(tasks=chosen, task=None)

    async def _ask_task(self) -> None:
        from hudtui.core.lockfile import find_lock, read_lock
        from hudtui.core.tasks.read import read_tasks

        if self.choice.tasks is None:
            self.say("There is no task file.", "warning")
            return
        source, folder, platform = self.choice.tasks, self.app.folder, self.app.platform

        def read() -> Any:
            image = None
            with suppress(InputError):
                lock = find_lock(folder, platform)
                image = None if lock is None else read_lock(lock).image
            return read_tasks(source, platform=platform, folder=folder, lock_image=image)

        self.busy(f"Reading {source}")
        found = await asyncio.to_thread(read)
        self.clear_message()
        tasks = found.tasks[:_MOST_TASKS]
        if not tasks:
            raise InputError(
                f"no task of {source} can be played",
                why=str(found.problems[0]) if found.problems else None,
            )
        lines = [(clean_line(task.id, 40), clean_line(task.prompt, 200)) for task in tasks]
        at = next((place for place, task in enumerate(tasks) if task.id == self.choice.task), 0)
        index = await self.app.push_screen_wait(Pick("Which task?", lines, at=at))
        if index is not None:
            self._choose(task=tasks[index].id)

    async def _ask_config(self) -> None:
        if (chosen := await pick_file(self.app, "configs", self.choice.config)) is not None:
            self._choose(config=chosen)
            await self._read_config()

    async def _ask_policy(self) -> None:
        from hudtui.core.rollouts.policy import policy_names

        scripted = policy_names(self._chosen_config)
        choices = (
            "you, by hand",
            *(_SCRIPTED[name] for name in scripted),
            "a model behind an OpenAI-compatible endpoint …",
            "the replies of a recorded episode …",
        )
        index = await self.app.push_screen_wait(Pick("Who plays?", choices))
        if index is None:
            return
        policy: str | None = (None, *scripted, "openai:", "replay:")[index]
        if policy == "openai:":
            kind, _, before = (self.choice.policy or "").partition(":")
            before = before if kind == "openai" else ""
            model = (
                await self.app.ask(
                    "Name of the model", value=before, placeholder="Qwen/Qwen2.5-3B-Instruct"
                )
                or ""
            ).strip()
            if not model:
                return
            policy = f"openai:{model}"
            await self._ask_base_url()
        elif policy == "replay:":
            if (trace := await self._ask_trace()) is None:
                return
            policy = f"replay:{trace}"
        self._choose(policy=policy)
        if not self.over and self.playing is not None and policy is not None:
            self.playing.request = replace(self.playing.request, base_url=self.choice.base_url)
            await self.playing.choose_policy(policy)
            self._show_turn()

    async def _ask_base_url(self) -> None:
        given = await self.app.ask(
            "Base URL of the endpoint",
            lines=(
                "Empty: the setting OPENAI_BASE_URL, else OpenAI. The key is the setting "
                "OPENAI_API_KEY.",
            ),
            value=self.choice.base_url or "",
            placeholder=_ENDPOINT,
        )
        if given is not None:
            self._choose(base_url=given.strip() or None)

    async def _ask_trace(self) -> str | None:
        folder = self.app.folder
        found = await asyncio.to_thread(
            lambda: sorted(folder.glob("outputs/*/traces.jsonl"), reverse=True)
        )
        names = [str(path.relative_to(folder)) for path in found]
        index: int | None = await self.app.push_screen_wait(
            Pick("Which recorded episodes?", [*names, "another file …"])
        )
        if index is None:
            return None
        if index < len(names):
            return names[index]
        named: str | None = await self.app.ask(
            "File with recorded episodes", placeholder="traces.jsonl"
        )
        return (named or "").strip() or None

    async def _ask_number(self, name: str) -> None:
        about = knobs_of(PlayChoice)[name]
        given = await self.app.ask(
            about.help,
            value=text_of(getattr(self.choice, name)),
            placeholder=f"empty: {about.unset}",
            check=lambda text: values_from(PlayChoice, {name: text.strip()}),
        )
        if given is not None:
            self._choose(**{name: values_from(PlayChoice, {name: given.strip()}).get(name)})

    _ask_seed = partialmethod(_ask_number, "seed")
    _ask_max_turns = partialmethod(_ask_number, "max_turns")

    # -- an episode
    # ----------------------------------------------------------------------------------------------

    @started("begin")
    async def action_start(self) -> None:
        await self.finish("choose")
        if reason := self.why_not("playing.start"):
            self.say(f"Start: {reason}")
            return
        await self._begin(self._request())

    def _request(self) -> PlayRequest:
        from hudtui.core.flows.playing import PlayRequest

        choice = self.choice
        assert choice.tasks is not None and choice.config is not None
        return PlayRequest(**{**vars(choice), "config": Path(choice.config)})

    async def _begin(self, request: PlayRequest) -> None:
        from hudtui.core.flows.playing import prepare_playing

        self.busy("Reading the task")
        async with AsyncExitStack() as unless_played:
            playing = await prepare_playing(self.app.project, request)
            unless_played.push_async_callback(playing.aclose)
            if not self.over and not await self.app.confirm(
                "End the episode that is being played?",
                ("It is kept in outputs/played/traces.jsonl, without an evaluation.",),
                yes="End it",
            ):
                self.clear_message()
                return
            await self.stop("play")
            unless_played.pop_all()
        self.start(lambda: self._play(playing), group="play")

    async def _play(self, playing: Playing) -> None:
        self.playing, self.over, self._waits = playing, False, False
        self.turns, self._scores, self._before, self._judged = [], None, None, False
        self._choose(task=playing.task.id)
        self._transcript.hint("The environment is being started …")
        self.query_one(Panes).open(self._transcript)
        try:
            async with aclosing(playing), aclosing(playing.play()) as events:
                async for event in events:
                    began = time.monotonic()
                    await self._draw_images(event)
                    self._take(event)
                    if playing.running and self.turns:
                        await asyncio.sleep(max(self.pace - (time.monotonic() - began), 0))
        except asyncio.CancelledError:
            if self.is_attached and self.app.is_running:
                kept = " It is kept without an evaluation." if self.turns else ""
                self.say(f"Cancelled: the environment has ended.{kept}")
            raise
        finally:
            self.over, self._waits = True, False
            if self.is_attached and self.app.is_running:
                if playing.player is None:
                    self._transcript.hint(
                        "The episode did not begin: {key:playing.start} tries again."
                    )
                self._show_turn()

    async def _draw_images(self, event: PlayEvent) -> None:
        from hudtui.core.flows.playing import PlayedTurn, PlayStarted

        images = (
            event.turn.images
            if isinstance(event, PlayedTurn)
            else event.images
            if isinstance(event, PlayStarted)
            else ()
        )
        if images:
            await self.app.pictures.draw(
                [image.data for image in images], self._transcript.picture_width
            )

    def _picture(self, image: KeptImage) -> Sequence[Content]:
        return self.app.pictures.lines(image.data, self._transcript.picture_width)

    def _take(self, event: PlayEvent) -> None:
        from hudtui.core.flows.playing import PlayedTurn, PlayEnded, PlayScored, PlayStarted
        from hudtui.tui.playing.view import opening_lines, turn_lines

        if isinstance(event, Progress) and event.stage == "reply" and not self._slow:
            self.clear_message()  # a scripted policy needs no time to speak of
        elif isinstance(event, Progress):
            self.busy(f"{event.message.capitalize()} ({{key:playing.cancel}} cancels)")
        elif isinstance(event, Notice):
            self.say(event.message, "information" if event.severity == "info" else event.severity)
        elif isinstance(event, PlayStarted):
            self.clear_message()
            self._opening = event.opening
            self._transcript.begin(opening_lines(event, self._picture))
            if self.is_current:
                self.query_one(Panes).open(self._transcript)
            self._show_actions()
            self._show_meaning()
        elif isinstance(event, PlayedTurn):
            self.turns.append(event)
            self._before, self._scores = self._scores, event.scores
            self._transcript.add(turn_lines(event, self._picture))
            self._waits = False
        elif isinstance(event, PlayScored):
            self._before, self._scores, self._judged = self._scores, event.scores, True
            self.clear_message()
            if event.error:
                self.say(f"The evaluation failed: {event.error}", "error")
        elif isinstance(event, PlayEnded):
            self._ended(event)
        else:
            self._waits = True
            if event.error is not None:
                self.fail(event.error)
            elif self.is_busy:
                self.clear_message()
            by_hand = self.playing is not None and self.playing.policy is None
            if (
                by_hand
                and self.focused is self._transcript.rows
                and not self.query_one(Panes).alone
                and self.is_current
            ):
                self.answer.editor.focus()
        self._show_turn()

    @property
    def _slow(self) -> bool:
        """The policy is a model, whose replies take time."""
        return self.playing is not None and (self.playing.policy or "").startswith("openai:")

    def _ended(self, event: PlayEnded) -> None:
        from hudtui.core.gym.rubric import reward_warning
        from hudtui.tui.playing.view import end_lines

        episode = event.episode
        self._before, self._scores, self._judged = self._scores, episode.scores, True
        self._transcript.end(end_lines(episode))
        kept = (
            ""
            if event.file is None
            else (
                f" Kept in {self.app.workspace.relative(event.file)}: {{key:app.open-run}}, then "
                "{key:run.results}, shows it."
            )
        )
        if episode.error:
            self.say(f"{episode.error}{'' if episode.error.endswith('.') else '.'}{kept}", "error")
        else:
            scores = episode.scores
            told = (
                reward_warning(scores.task_completion)
                if scores.reward_found
                else "the evaluator gave no reward"
            )
            found = "" if told is None else f" {told[0].upper()}{told[1:]}."
            self.say(
                f"The episode is over: reward {episode.scores.reward:.3f}.{found}{kept}",
                "success" if not found else "warning",
            )

    def _show_turn(self) -> None:
        """Show whose turn it is, the number of turns, and the scores."""
        from hudtui.tui.playing.view import score_lines

        playing = self.playing
        if playing is None:
            return
        player = playing.player
        if player is not None:
            scores = self._scores or player.scores
            reward = f" · {scores.reward:.3f}"
            self._transcript.name_on_border(
                f"{clean_line(playing.task.id, 24)} · turn "
                f"{len(self.turns)}/{player.max_turns}{reward}"
            )
            key = self.app.keys_in("{key:playing.evaluate}")
            self._setup.show_scores(
                score_lines(scores, playing.config, self._before, judged=self._judged, key=key)
            )
        if self.over:
            words = "over" if player is not None else ""
        elif playing.running:
            words = f"{clean_line(playing.policy or '', 30)} plays; {{key:playing.pause}} pauses"
        elif self._waits:
            words = "your turn: {key:playing.send} sends" + (
                "" if playing.policy is None else ", {key:playing.pause} gives it back"
            )
        else:
            words = "waiting for the environment; {key:playing.cancel} cancels"
        self.answer.note_on_border(words, "bold $accent" if self._waits else "")
        self.refresh_bindings()

    def _show_actions(self) -> None:
        """What can be called: by the episode, or by the configuration alone."""
        from hudtui.core.environment.form_args import signature

        config = self._config()
        if config is None:
            self._actions.show((), "")
            return
        player = self.playing.player if self.playing is not None and not self.over else None
        if player is not None:
            actions = [(tool.name, signature(tool), tool.description) for tool in player.actions]
        else:
            actions = [
                (name, f"{name}({', '.join(one.arguments)})", f"calls {one.tool}")
                for name, one in config.mappings.items()
            ]
        self._actions.show(actions, config.system_prompt)

    def _config(self) -> GymConfig | None:
        return (
            self.playing.config
            if self.playing is not None and not self.over
            else self._chosen_config
        )

    # -- steering
    # ----------------------------------------------------------------------------------------------

    def action_pause(self) -> None:
        assert self.playing is not None
        if self._waits:
            self._waits = False
            self.playing.resume()
        else:
            self.playing.pause()

    def action_step(self) -> None:
        assert self.playing is not None
        self._waits = False
        self.playing.step()

    def action_write(self) -> None:
        if self.playing is not None and self.playing.running:
            self.playing.pause()
        self.query_one(Panes).open(self.answer)

    def action_send(self) -> None:
        from hudtui.core.flows.playing import in_tags

        assert self.playing is not None
        self.playing.reply(in_tags(self.answer.editor.text, self.playing.config))
        self._waits = False
        self.answer.write("")
        self._show_turn()
        if self.query_one(Panes).alone:
            self.query_one(Panes).open(self._transcript)

    def action_evaluate(self) -> None:
        assert self.playing is not None
        if self.playing.running:
            self.say("The task is evaluated after this turn.")
        self.playing.evaluate()

    def action_end(self) -> None:
        assert self.playing is not None
        self.playing.end()

    def action_cancel(self) -> None:
        if self.going("play"):
            for worker in self.going("play", "begin"):
                worker.cancel()
        else:
            self.say("No episode is being played.")

    def action_back(self) -> None:
        if self._transcript.first_focus() is None or not self.query_one(Panes).back():
            self.leave()

    # -- the reply
    # ----------------------------------------------------------------------------------------------

    @on(TextArea.Changed, "#play-reply")
    def _edited(self, event: TextArea.Changed) -> None:
        event.stop()
        self._show_meaning()
        self.refresh_bindings()

    def _show_meaning(self) -> None:
        from hudtui.core.flows.playing import in_tags
        from hudtui.core.gym.interpreter import Interpreter

        config, text = self._config(), self.answer.editor.text
        if config is None or not text.strip():
            self.answer.show_meaning(None, None, text)
            return
        played = in_tags(text, config)
        player = self.playing.player if self.playing is not None and not self.over else None
        meaning = (
            player.interpret(played)
            if player is not None
            else Interpreter(config, None).interpret(played)
        )
        self.answer.show_meaning(meaning, config, played)

    def on_reply_editor_left(self, event: ReplyEditor.Left) -> None:
        event.stop()
        self.query_one(Panes).open(self._transcript)

    @on(OptionList.OptionSelected, "#play-actions")
    def _take_action(self, event: OptionList.OptionSelected) -> None:
        from hudtui.core.gym.editing.preview import example_call, prompt_examples
        from hudtui.core.gym.interpreter import reply_in

        event.stop()
        config, action = self._config(), str(event.option.id)
        if config is None:
            return
        player = self.playing.player if self.playing is not None and not self.over else None
        mapping = config.mappings.get(action)
        told = prompt_examples(config).get(action)
        made = (
            example_call(mapping, None if player is None else player.session.tools)
            if mapping is not None
            else f"{action}()"
        )
        self.answer.write(reply_in(config, told[0] if told else made))
        self.action_write()

    # -- what becomes of it
    # ------------------------------------------------------------------------------------------

    @on(OptionList.OptionSelected, "#play-turns")
    def _open_turn(self, event: OptionList.OptionSelected) -> None:
        from hudtui.core.rollouts.trace import turn_text

        event.stop()
        turn = event.option_index
        if turn == 0:
            self.app.read("What the agent sees first", self._opening)
        elif turn <= len(self.turns):
            one = self.turns[turn - 1]
            self.app.read(f"Turn {one.number}, {one.by}", turn_text(one.number, one.turn))

    def action_copy(self) -> None:
        from hudtui.core.rollouts.trace import transcript

        assert self.playing is not None
        self.app.copy(transcript(self.playing.record(), over=self.over))

    @started("save")
    async def action_transcript(self) -> None:
        from hudtui.core.flows.playing import save_transcript

        assert self.playing is not None
        name = await save_transcript(
            self.app.project, self.app, self.playing.record(), over=self.over
        )
        if name is None:
            self.say("Nothing was written.")
        else:
            self.say(f"Wrote {name}.", "success")

    @started("save")
    async def action_keep(self) -> None:
        from hudtui.core.flows.person import Choice
        from hudtui.core.flows.playing import keep_examples

        assert self.playing is not None
        request, turn = self.playing.request, min(self._transcript.turn or 0, len(self.turns))
        choices = [
            *(
                [Choice("turn", f"Turn {turn}", f"in examples: of {request.config}")]
                if turn
                else ()
            ),
            Choice("all", "All turns without an error", f"in examples: of {request.config}"),
        ]
        wanted = await self.app.choose("Keep what as examples?", choices)
        if wanted is None:
            return
        turns = [turn] if wanted == "turn" else None
        count = await asyncio.to_thread(
            keep_examples, self.app.project, request.config, self.playing.redacted(), turns
        )
        if count:
            self.say(f"{plural(count, 'example')} added to {request.config}.", "success")
        else:
            self.say(
                "No example was added: turns with an error are left out, and so are examples that "
                "are there already."
            )
