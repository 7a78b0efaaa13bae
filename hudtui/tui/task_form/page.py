"""Tasks on one page: prompt, calls, expectations, variables, and the first tasks beside them."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Button, Static

from hudtui.core.environment.form_args import signature
from hudtui.core.environment.values import Tool
from hudtui.core.errors import HudtuiError
from hudtui.core.tasks.draft_form import Block, DraftForm, Row
from hudtui.core.text import clean_line, plural
from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.editor.signed_area import SignedArea
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.dialog import Confirm, Dialog, DialogButton, dialog_title, error_content
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.pick import Pick
from hudtui.tui.widgets.tick import Tick

if TYPE_CHECKING:
    from hudtui.core.flows.trial import Trial
    from hudtui.core.tasks.draft import DraftedTasks
    from hudtui.core.tasks.task import FieldProblem

_PAUSE = 0.2
"""Seconds without a key after which the preview is updated."""
_SHOWN = 3
_LABEL = 14
_NO_TOOLS = (
    "The tools of these servers are not known yet: Esc, then {key:app.open-environment}, looks at "
    "them."
)
_BESIDE = 120
"""Columns from which the preview stands beside the form."""

Save = Callable[["DraftedTasks", str], str]
"""Writes the tasks into a file, and returns a sentence about it; raises `HudtuiError`."""


@dataclass(frozen=True)
class FormContext:
    """What a page of tasks is about."""

    title: str
    form: DraftForm
    save: Save
    tasks: str | None = None
    """The source that names the servers, whose trust is asked for; None if the person does."""
    own_folder: tuple[dict[str, Any], str] | None = None
    """The servers with a folder for each episode, and the folder that is copied."""


class _Prompt(Acting, SignedArea):
    """The prompt, several lines."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = ()
    DEFAULT_CSS = """
    _Prompt, _Prompt:focus { border: none; padding: 0 1; background: $panel; height: 4; }
    """

    async def on_key(self, event: events.Key) -> None:
        """Esc is the page's, and so is down on the last line."""
        page = self.screen
        if not isinstance(page, TaskPage):
            return
        is_last = event.key == "down" and self.cursor_at_last_line
        if event.key != "escape" and not is_last:
            return
        event.stop()
        event.prevent_default()
        if is_last:
            page.focus_next()
        else:
            page.action_cancel()


class _Entry(Field):
    """The field of a row."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.text, placeholder=row.hint)
        self.row, self.shown, self.original = row, self.value, self.value
        """A field has one line: the text of the row may have several, and stays until it is
        typed over."""
        self.select_on_focus = False  # a row that is shown anew under the cursor is typed on
        if row.choices:
            self.suggester = SuggestFromList(row.choices, case_sensitive=False)


class _BlockRows(Vertical):
    """The rows of one block."""

    def __init__(self, block: Block) -> None:
        super().__init__(*self._lines(block), classes="block")
        self.block = block

    @staticmethod
    def _lines(block: Block) -> Iterator[Widget]:
        yield Static(Content.styled(clean_line(block.title, 80), "bold"), classes="heading")
        for row in block.rows:
            mark = ("*" if row.required else " ", "bold $accent")
            label = Content.assemble((pad(clean_line(row.label), _LABEL), "$primary"), mark, " ")
            yield Horizontal(Static(label, classes="label"), _Entry(row), classes="row")


class TaskPage(Dialog["str | None"]):
    """Makes tasks of a draft, or changes one. Gives the sentence of `save`, or None."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "tasks.write",
            "Write",
            "Write the tasks into the file.",
            "ctrl+g",
            palette=False,
            priority=True,
            decides=True,
        ),
        AppAction("tasks.setup", "Setup", "Add a call that sets the task up.", "f2", priority=True),
        AppAction("tasks.expect", "Expect", "Add what is expected.", "f3", priority=True),
        AppAction("tasks.variable", "Variable", "Add a variable.", "f4", priority=True),
        AppAction("tasks.solve", "Solution", "Add a step of the solution.", "f5", priority=True),
        AppAction(
            "tasks.test", "Test", "Set the first task up and evaluate it.", "f6", priority=True
        ),
        AppAction("tasks.editor", "Editor", "Write the prompt in $EDITOR.", "f7", priority=True),
        AppAction(
            "tasks.remove",
            "Remove",
            "Remove the call, expectation or variable under the cursor.",
            "f8",
            priority=True,
            decides=True,
        ),
    )
    CSS = """
    TaskPage #tasks-box { width: 100%; max-width: 170; height: 100%; max-height: 100%; }
    TaskPage .dialog-buttons Button { min-width: 0; margin-left: 0; }
    TaskPage.-beside .dialog-buttons Button { margin-left: 1; }
    TaskPage .dialog-title { margin-bottom: 0; }
    TaskPage #tasks-panes { height: 1fr; layout: vertical; }
    TaskPage #tasks-form { height: 1fr; }
    TaskPage #tasks-shown { height: 7; border-top: solid $panel; }
    TaskPage.-beside #tasks-panes { layout: horizontal; }
    TaskPage.-beside #tasks-form { width: 1fr; height: 100%; }
    TaskPage.-beside #tasks-shown {
        width: 1fr; height: 100%; border-top: none; border-left: solid $panel; padding-left: 1;
    }
    TaskPage #tasks-preview { height: auto; }
    TaskPage #tasks-blocks, TaskPage .block { height: auto; }
    TaskPage .row { height: 1; }
    TaskPage .label { width: auto; }
    TaskPage .row Field { width: 1fr; }
    """
    cancelled = None

    def __init__(self, context: FormContext) -> None:
        super().__init__()
        self.context, self.form = context, context.form
        self.made: DraftedTasks | None = None
        """The tasks of what is typed; None while they are not known, or something is wrong."""
        self._touched = False
        self._timer: Any = None
        self._agreed: set[str] = set()
        self._prompt = _Prompt(
            self.form.prompt, soft_wrap=True, tab_behavior="focus", id="tasks-prompt"
        )
        self._prompt.highlight_cursor_line = self._prompt.cursor_blink = False
        self._shared = Tick("the agent may call the setup tools, too", value=self.form.shares)
        own = context.own_folder
        words = "" if own is None else f"each episode has its own copy of {own[1]}"
        self._own = None if own is None else Tick(words, value=True)

    # -- what is on it
    # ----------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="tasks-box"):
            yield dialog_title(self.context.title)
            with Container(id="tasks-panes"):
                with VerticalScroll(id="tasks-form", can_focus=False):
                    heading = "Prompt  ({key:tasks.editor} opens $EDITOR)"
                    yield Static(Content.styled(self.words(heading), "bold"), classes="heading")
                    yield self._prompt
                    yield Vertical(*map(_BlockRows, self.form.blocks()), id="tasks-blocks")
                    yield self._shared
                    if self._own is not None:
                        yield self._own
                with VerticalScroll(id="tasks-shown", can_focus=False):
                    yield CalmStatic(id="tasks-preview")
            with Horizontal(classes="dialog-buttons"):
                for label, name in self._buttons():
                    variant: Any = "primary" if name == "write" else "default"
                    yield DialogButton(self.words(label), name, variant)

    def _buttons(self) -> Iterator[tuple[str, str]]:
        yield "+setup {key:tasks.setup}", "setup"
        yield "+expect {key:tasks.expect}", "expect"
        if not self.form.single:
            yield "+var {key:tasks.variable}", "variable"
        yield "+solve {key:tasks.solve}", "solve"
        yield "remove {key:tasks.remove}", "remove"
        yield "test {key:tasks.test}", "test"
        yield "Write {key:tasks.write}", "write"

    def on_mount(self) -> None:
        self._prompt.focus()
        form = self.query_one("#tasks-form")
        self.call_after_refresh(form.scroll_home, animate=False)  # the heading names a key
        self._soon()

    def on_resize(self) -> None:
        self.set_class(self.app.size.width >= _BESIDE, "-beside")

    async def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        done = getattr(self, f"action_{event.button.id}")()
        if done is not None:
            await done

    def on_key(self, event: events.Key) -> None:
        """Up and down move between rows."""
        if event.key not in ("up", "down") or isinstance(self.focused, _Prompt):
            return
        event.stop()
        (self.focus_previous if event.key == "up" else self.focus_next)()

    def on_input_submitted(self, event: Field.Submitted) -> None:
        """Enter opens the choices of a row that has some, and goes on otherwise."""
        event.stop()
        entry = event.input
        row = self._rows().get(entry.row.key) if isinstance(entry, _Entry) else None
        if row is not None and row.choices:
            choices = row.choices
            at = choices.index(entry.value) if entry.value in choices else 0

            def take(index: int | None) -> None:
                if index is not None:
                    entry.value = choices[index]

            self.app.push_screen(Pick(row.label.strip(), choices, at=at), take)
        else:
            self.focus_next()

    # -- what is typed
    # ----------------------------------------------------------------------------------------------

    async def on_input_changed(self, event: Field.Changed) -> None:
        event.stop()
        entry = event.input
        if not isinstance(entry, _Entry) or entry.value == entry.shown:
            return
        before = self._rows().keys()
        self._take(entry)
        if self._rows().keys() != before:
            await self._rebuild(entry.row.key)

    def _take(self, entry: _Entry) -> None:
        """Take what is typed into a row."""
        entry.shown = entry.value
        same = entry.value == entry.original
        self.form.put(entry.row.key, entry.row.text if same else entry.value)
        self._touch()

    def _take_all(self) -> None:
        """Take what is typed, also where its message is still under way."""
        for entry in self.query(_Entry):
            if entry.value != entry.shown:
                self._take(entry)
        if self._prompt.text != self.form.prompt:
            self.form.prompt = self._prompt.text
            self._touch()
        if self._shared.value != self.form.shares:
            self.form.shares = self._shared.value
            self._touch()
        if self._own is not None and not self._own.value:
            self._touch()

    def _rows(self) -> dict[str, Row]:
        """The rows that there are now, by their keys."""
        return {row.key: row for block in self.form.blocks() for row in block.rows}

    def on_text_area_changed(self, event: Any) -> None:
        event.stop()
        self._take_all()

    def on_checkbox_changed(self, event: Tick.Changed) -> None:
        event.stop()
        self._take_all()
        self._soon()

    def _touch(self) -> None:
        self._touched = True
        self._soon()

    async def _rebuild(self, key: str = "", *, last: str = "") -> None:
        """Show the rows anew; the cursor goes to a row, or to the last block of a kind."""
        box = self.query_one("#tasks-blocks")
        async with self.batch():
            await box.remove_children()
            await box.mount(*map(_BlockRows, self.form.blocks()))
        entries = list(self.query(_Entry))
        wanted = [one for one in entries if one.row.key == key]
        if last:
            rows = [one for one in self.query(_BlockRows) if one.block.kind == last]
            wanted = list(rows[-1].query(_Entry)) if rows else []
        if wanted:
            wanted[0].focus()
            wanted[0].cursor_position = len(wanted[0].value)
        elif self.focused is None:
            self._prompt.focus()
        self._shared.value = self.form.shares
        self._soon()

    # -- adding and removing
    # ----------------------------------------------------------------------------------------------

    def _tools(self, *kinds: str) -> list[Tool]:
        analysis = self.form.analysis
        tools = [tool for tool in analysis.tools if tool.name not in analysis.hubs]
        own = [tool for tool in tools if _serves(tool, kinds)]
        rest = [tool for tool in tools if tool not in own and tool.kind == "agent"]
        return own + sorted(rest, key=lambda tool: tool.deprecated)

    def action_setup(self) -> None:
        tools = self._tools("setup")
        if not tools:
            self._tell_of_tools()
            return

        async def take(index: int | None) -> None:
            if index is not None:
                await self._added("setup", lambda: self.form.add_setup(tools[index]))

        self._pick("Which tool sets the task up?", [_option(tool) for tool in tools], take)

    def action_expect(self) -> None:
        judges = [tool for tool in self._tools("evaluate") if _serves(tool, ("evaluate",))]
        tools = [tool for tool in self._tools() if tool.kind == "agent"]
        options = [
            ("the last reply", "what the agent says at the end"),
            ("the number of turns", "at most so many"),
            ("a model that judges", "gives a score by a rubric, at an endpoint that may charge"),
            *(_option(tool, "reward of ") for tool in judges),
            *(_option(tool, "answer of ") for tool in tools),
        ]

        async def take(index: int | None) -> None:
            if index is None:
                return
            if index < 3:
                subject = ("reply", "turns", "judge")[index]
                await self._added("part", lambda: self.form.add_part(subject))
            elif index < 3 + len(judges):
                judge = judges[index - 3]
                await self._added("evaluator", lambda: self.form.add_evaluator(judge))
            else:
                tool = tools[index - 3 - len(judges)]
                await self._added("part", lambda: self.form.add_part("call", tool))

        if not judges and not tools:
            self._tell_of_tools()
        self._pick("What is looked at after the last turn?", options, take)

    def action_solve(self) -> None:
        """Add a step of the solution: a call, or what is said at the end."""
        tools = [tool for tool in self._tools() if tool.kind == "agent"]

        async def take(index: int | None) -> None:
            if index is not None:
                tool = tools[index - 1] if index else None
                await self._added("step", lambda: self.form.add_step(tool))

        if not tools:
            self._tell_of_tools()
        said = ("the last reply", "what is said at the end")
        self._pick("What solves the task next?", [said, *map(_option, tools)], take)

    def _tell_of_tools(self) -> None:
        told = Content.styled(f"! {self.words(_NO_TOOLS)}", "$warning")
        self.query_one("#tasks-preview", Static).update(told)
        self.query_one("#tasks-shown").scroll_home(animate=False)

    async def action_variable(self) -> None:
        if not self.form.single and self.is_current:
            await self._added("variable", self.form.add_variable)

    def _pick(
        self,
        title: str,
        options: list[tuple[str, str]],
        take: Callable[[int | None], Awaitable[None]],
    ) -> None:
        if self.is_current:
            self.app.push_screen(Pick(title, options), take)

    async def _added(self, kind: str, add: Callable[[], None]) -> None:
        add()
        self._shared.value = self.form.shares  # a setup call may tick it
        self._touch()
        await self._rebuild(last=kind)

    async def action_remove(self) -> None:
        focused = self.focused
        if focused is None or not self.is_current:
            return
        for node in focused.ancestors_with_self:
            if isinstance(node, _BlockRows) and node.block.kind != "task":
                self.form.remove(node.block)
                self._touch()
                await self._rebuild()
                return
        self.notify("Go to a call, an expectation or a variable first.", severity="warning")

    def action_editor(self) -> None:
        """Write the prompt in the user's editor."""
        if not self.is_current:
            return
        command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        with tempfile.TemporaryDirectory(prefix="hudtui-") as folder:
            path = Path(folder, "prompt.md")
            path.write_text(self._prompt.text)
            try:
                with self.app.suspend():
                    ended = subprocess.run([*shlex.split(command), str(path)], check=False)
            except (OSError, ValueError) as error:
                self.notify(f"{command} cannot be started: {error}. Set EDITOR.", severity="error")
                return
            if ended.returncode == 0:
                self._prompt.text = path.read_text(errors="replace").removesuffix("\n")
        self.app.refresh(layout=True)

    # -- the preview
    # ----------------------------------------------------------------------------------------------

    def _soon(self) -> None:
        self.made = None
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_PAUSE, self._preview, name="preview")

    @work(group="preview", exclusive=True)
    async def _preview(self) -> None:
        shown = self.query_one("#tasks-preview", Static)
        try:
            made = await self._make()
            shown.update(_told(made))
        except HudtuiError as error:
            shown.update(error_content(error))

    async def _make(self) -> DraftedTasks:
        """Return the tasks of what is typed.

        Raises:
            InputError: A row cannot be read.
        """
        data = self.form.data()
        if self._own is not None and self._own.value and self.context.own_folder is not None:
            data["mcp_config"] = self.context.own_folder[0]
        made = await asyncio.to_thread(_drafted, data, self.form)
        self.made = made
        return made

    async def _sound(self) -> DraftedTasks | None:
        """Return the tasks if nothing is wrong with them; otherwise say what has to be mended."""
        self._take_all()
        if self._timer is not None:
            self._timer.stop()  # what is said here stands in place of the preview
        try:
            made = await self._make()
        except HudtuiError as error:
            wrong = error_content(error)
        else:
            if not made.errors:
                return made
            wrong = _told(made)
        head = Content.styled("Nothing was done: mend what is marked ✗ first.", "bold $error")
        self.query_one("#tasks-preview", Static).update(Content("\n").join((head, wrong)))
        self.query_one("#tasks-shown").scroll_home(animate=False)
        return None

    # -- testing and writing
    # ----------------------------------------------------------------------------------------------

    def action_test(self) -> None:
        if self.is_current:
            self._test()

    @work(group="test", exclusive=True)
    async def _test(self) -> None:
        from hudtui.core.flows.new_task import first_task
        from hudtui.core.flows.trial import Trial, try_task
        from hudtui.tui.dataset.detail import trial_content

        made = await self._sound()
        if made is None:
            return
        shown, app = self.query_one("#tasks-preview", Static), self.app
        task = first_task(made)
        outcome: Trial | None = None
        try:
            steps = try_task(app.project, app, task, self.context.tasks, agreed=self._agreed)
            async for step in steps:
                if isinstance(step, Trial):
                    outcome = step
                else:
                    told = f"Testing {clean_line(task.id, 60)} …"
                    shown.update(Content.styled(told, "$foreground-muted"))
        except HudtuiError as error:
            shown.update(error_content(error))
            return
        if outcome is not None:
            shown.update(trial_content(outcome))
            self.query_one("#tasks-shown").scroll_home(animate=False)

    def action_write(self) -> None:
        if self.is_current and self.decides(self.words("{key:tasks.write}")):
            self._write()

    @work(group="write", exclusive=True)
    async def _write(self) -> None:
        made = await self._sound()
        if made is None:
            return
        file = self.form.texts.get("file", "").strip()
        try:
            self.dismiss(await asyncio.to_thread(self.context.save, made, file))
        except HudtuiError as error:
            self.query_one("#tasks-preview", Static).update(error_content(error))

    def action_cancel(self) -> None:
        """Close; ask first if something was typed."""
        self._take_all()
        if not self._touched:
            self.dismiss(None)
            return

        def leave(agreed: bool | None) -> None:
            if agreed:
                self.dismiss(None)

        lines = ("What you typed on this page is lost then.",)
        question = Confirm("Leave without writing?", lines, yes="Leave", no="Stay", danger=True)
        self.app.push_screen(question, leave)


def _drafted(data: dict[str, Any], form: DraftForm) -> DraftedTasks:
    from hudtui.core.tasks.draft import DraftedTasks, draft_tasks, read_draft, record_problems
    from hudtui.core.tasks.validate import Rules

    known = form.analysis if form.analysis.tools else None
    if form.single:
        problems = record_problems([data], Rules(analysis=known))
        return DraftedTasks((data,), (), tuple(problems))
    draft, wrong = read_draft(data)
    if any(problem.severity == "error" for problem in wrong):
        return DraftedTasks(problems=tuple(wrong))
    return draft_tasks(draft, analysis=known)


def _serves(tool: Tool, kinds: tuple[str, ...]) -> bool:
    return tool.kind in kinds or tool.hub in kinds


def _option(tool: Tool, before: str = "") -> tuple[str, str]:
    name = f"{tool.hub}.{tool.name}" if tool.hub else tool.name
    return f"{before}{signature(tool, name)}", clean_line(tool.description, 100)


def _told(made: DraftedTasks) -> Content:
    """The problems of tasks, then the first of them."""
    from hudtui.core.flows.new_task import task_lines

    lines = [_problem_line(problem) for problem in made.problems[:12]]
    tasks = (*made.train, *made.held_out)
    if tasks:
        apart = f", {len(made.held_out):,} of them held out" if made.held_out else ""
        mark = ("✓ ", "bold $success") if not made.errors else ("✗ ", "bold $error")
        lines.append(Content.assemble(mark, (f"{plural(len(tasks), 'task')}{apart}", "bold")))
    for record in tasks[:_SHOWN]:
        first, *rest = task_lines(record)
        lines += [Content(""), Content.styled(first, "$primary"), *map(Content, rest)]
    return Content("\n").join(lines)


def _problem_line(problem: FieldProblem) -> Content:
    mark = ("✗ ", "bold $error") if problem.severity == "error" else ("! ", "bold $warning")
    place = f"{clean_line(problem.field, 60)}: " if problem.field else ""
    return Content.assemble(mark, (place, "bold"), clean_line(problem.message, 400))
