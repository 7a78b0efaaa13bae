"""A new task: what is asked, what is refused, what is tested, and what the file holds afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.person import ScriptedPerson

from hudtui.core.environment.discover import analyze
from hudtui.core.environment.form_args import read_form, typed_arguments
from hudtui.core.environment.source import Source, parse_source
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError
from hudtui.core.flows.new_task import NewTask, TaskDraft, new_task, read_call
from hudtui.core.flows.trial import Trial
from hudtui.core.platform import HUD
from hudtui.core.project import Project
from hudtui.core.tasks.read import read_tasks
from hudtui.core.tasks.task import ToolCall

SIZED = {
    "type": "object",
    "properties": {"size": {"type": "integer", "minimum": 2}, "mode": {"enum": ["easy", "hard"]}, "seed": {"type": "integer"}},
    "required": ["size", "mode"],
    "additionalProperties": False,
}
ANALYSIS = Analysis(
    "board",
    tools=(
        Tool("move", "Moves the tiles."),
        Tool("setup", "Sets up.", kind="setup"),
        Tool("evaluate", "Judges.", kind="evaluate"),
        Tool("close", kind="lifecycle"),
        Tool("board", "A new board.", SIZED, "hidden", "setup"),
        Tool("reached", "", None, "hidden", "evaluate"),
    ),
    hubs={"setup": ("board",), "evaluate": ("reached",)},
)
SOURCE = parse_source('{"board": {"command": "board-server"}}')
BOARD = ToolCall("setup", {"name": "board", "arguments": {"size": 4, "mode": "easy"}})
REACHED = ToolCall("evaluate", {"name": "reached", "arguments": {"target": 64}})
DRAFT = TaskDraft("Play.", (BOARD,), (REACHED,), file=Path("t.json"), test=False)


async def make(
    person: ScriptedPerson, draft: TaskDraft | None = None, source: Source = SOURCE, analysis: Analysis = ANALYSIS
) -> list[Any]:
    return [step async for step in new_task(Project(Path.cwd(), HUD), source, analysis, person, draft)]


async def test_everything_is_asked_for_step_by_step() -> None:
    answers = ("Play.", "setup.board", {"size": "x", "mode": "easy"}, {"size": "4", "seed": "7"})
    person = ScriptedPerson(*answers, "evaluate.reached", {"": '{"target": 64}'}, ...)
    (made,) = await make(person, TaskDraft(test=False))
    assert isinstance(made, NewTask) and not person.unasked
    setup = next(question for question in person.questions if question.title == "Which call sets the task up?")
    assert [choice.label for choice in setup.choices] == [
        "setup.board(size, mode, seed?)", "move(…)", "evaluate.reached(…)", "no setup"
    ]  # fmt: skip
    assert any("of type integer" in said for said in person.said)  # the first answer for the size was no number
    (task,) = read_tasks(made.file).tasks
    assert task == made.task and str(made.file) == "board-tasks.json"
    assert task.setup == (ToolCall("setup", {"name": "board", "arguments": {"size": 4, "mode": "easy", "seed": 7}}),)
    assert task.evaluate == (REACHED,) and task.mcp_config == {"board": {"command": "board-server", "args": []}}


FORM = ("P.", "setup.board", {"size": "4", "mode": "easy"}, "evaluate.reached", {"": '{"target": 64}'}, "t.json")
CALLS = (
    "Which call sets the task up?",
    "setup.board: arguments",
    "Evaluator: which call judges the outcome?",
    "evaluate.reached: arguments",
)
TITLES = ["Prompt", *CALLS, "Task file"]


@pytest.mark.parametrize(("given_up", "back"), [(1, 0), (2, 1), (3, 1), (4, 3), (5, 3)])
async def test_who_gives_a_question_up_goes_back_one_and_nothing_is_lost(given_up: int, back: int) -> None:
    again = [... if place < given_up else FORM[place] for place in range(back, len(FORM))]
    person = ScriptedPerson(*FORM[:given_up], None, *again)
    (made,) = await make(person, TaskDraft(test=False))
    assert person.titles == [*TITLES[: given_up + 1], *TITLES[back:]] and not person.unasked
    assert made.task.prompt == "P." and made.task.setup == (BOARD,) and made.task.evaluate == (REACHED,)


async def test_a_form_that_is_left_step_by_step_asks_for_nothing_more() -> None:
    person = ScriptedPerson(*FORM[:-1], None, None, None, None)
    assert await make(person, TaskDraft(test=False)) == [] and list(Path().iterdir()) == []
    assert person.titles[5:] == [
        "Task file",
        "Evaluator: which call judges the outcome?",
        "Which call sets the task up?",
        "Prompt",
    ]


async def test_before_the_first_question_nothing_is_kept() -> None:
    assert await make(ScriptedPerson(None), TaskDraft(test=False)) == []


async def test_what_breaks_the_schema_is_asked_again_with_what_was_typed() -> None:
    person = ScriptedPerson("setup.board", {"size": "1", "mode": "easy"}, {"size": "3", "mode": "hard"})
    (made,) = await make(person, replace(DRAFT, setup=None))
    assert "less than the minimum" in person.said[0] and person.questions[2].fields[0].default == "1"
    assert made.task.setup[0].arguments["arguments"] == {"size": 3, "mode": "hard"}


async def test_calls_on_an_environment_of_others_are_shown_before_they_are_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    async def trial(project: Any, person: Any, task: Any, tasks: str, **_: Any) -> Any:
        called.append(task.id)
        yield Trial(task.id, "works", "success", 0.5, ())

    monkeypatch.setattr("hudtui.core.flows.new_task.try_task", trial)
    person = ScriptedPerson(*FORM, None, "t.json", "write")
    made = (await make(person, None))[-1]
    assert called == [] and isinstance(made, NewTask) and made.trial is None
    question = person.questions[6]
    assert question.title == "Test board-1?" and [choice.value for choice in question.choices] == ["test", "write"]
    shown = "\n".join(question.lines)
    assert 'setup {"name": "board", "arguments": {"size": 4, "mode": "easy"}}' in shown and '"target": 64' in shown
    assert "for real" in shown and person.titles[7] == "Task file", "who does not answer goes back"

    person = ScriptedPerson("setup.board", {"size": "4", "mode": "easy"}, "test")
    made = (await make(person, replace(DRAFT, setup=None, test=True, file=Path("u.json"))))[-1]
    assert called == ["board-1"] and made.trial.reward == 0.5


async def test_a_task_that_cannot_be_added_is_asked_about_again() -> None:
    Path("t.json").write_text(json.dumps([{"id": "mine", "prompt": "P.", "mcp_config": {"b": {"command": "b"}}}]))
    person = ScriptedPerson("t.json", "u.json")
    (made,) = await make(person, replace(DRAFT, file=None, id="mine"))
    assert "has a task mine already" in person.said[0] and str(made.file) == "u.json"


async def test_the_question_before_a_file_is_changed_leads_back_too() -> None:
    Path("t.json").write_text(json.dumps([{"id": "mine", "prompt": "P.", "mcp_config": {"b": {"command": "b"}}}]))
    person = ScriptedPerson("t.json", False, "u.json")
    (made,) = await make(person, replace(DRAFT, file=None))
    assert str(made.file) == "u.json" and len(json.loads(Path("t.json").read_text())) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bored", "did you mean 'board'"),
        ("setup", "is a hub"),
        ("board={}", "'size' is a required property"),
        ('board={"size": 4, "mode": "mad"}', "is not one of"),
        ("board=[4]", "a JSON object"),
        ("board={", "JSON"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_call(text, "setup", ANALYSIS)
    assert said in " ".join(caught.value.lines())


def test_calls_are_named_by_tool_hub_or_function() -> None:
    for text in ("board", "setup.board"):
        assert read_call(text + '={"size": 4, "mode": "easy"}', "setup", ANALYSIS) == BOARD
    assert read_call('setup={"name": "board", "arguments": {"size": 4, "mode": "easy"}}', "setup", ANALYSIS) == BOARD
    assert read_call("move", "evaluate", ANALYSIS) == ToolCall("move", {})
    tools = (*ANALYSIS.tools, Tool("board", "", None, "hidden", "evaluate"))
    both = replace(ANALYSIS, tools=tools, hubs={"setup": ("board",), "evaluate": ("reached", "board")})
    assert read_call('board={"a": 1}', "evaluate", both).name == "evaluate"


@pytest.mark.parametrize(
    ("name", "before", "start"),
    [
        ("t.json", '[{"id": "board-1", "prompt": "a",   "n": 1.0, "mcp_config": {}}]\n', '[{"id": "board-1", "prompt": "a",   '),
        ("t.json", '{"id": "a", "prompt": "a",   "mcp_config": {}}', '[\n{"id": "a", "prompt": "a",   "mcp_config": {}},\n'),
        ("t.json", "[]", "[\n  {"),
        ("t.json", "", "[\n  {"),
        ("t.jsonl", '{"id":"a","prompt":"a","mcp_config":{}}', '{"id":"a","prompt":"a","mcp_config":{}}\n{"id": "board-1"'),
        ("t.jsonl", '\ufeff{"id":"a","prompt":"é","mcp_config":{}}\n', '\ufeff{"id":"a","prompt":"é","mcp_config":{}}\n{'),
    ],
)  # fmt: skip
async def test_a_file_gets_a_further_task_and_keeps_the_rest(name: str, before: str, start: str) -> None:
    encoding = "utf-16-le" if before.startswith("\ufeff") else "utf-8"
    Path(name).write_bytes(before.encode(encoding))
    assert await make(ScriptedPerson(False), replace(DRAFT, file=Path(name))) == []
    assert Path(name).read_bytes() == before.encode(encoding)
    (made,) = await make(ScriptedPerson(True), replace(DRAFT, file=Path(name)))
    assert Path(name).read_bytes().decode(encoding).startswith(start)
    loaded = read_tasks(name)
    assert loaded.total == made.tasks and loaded.tasks[-1] == made.task
    assert made.task.id == ("board-2" if "board-1" in before else "board-1")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.parquet", None, "ends in .json"),
        ("t.json", '{"env": {"name": "a"}, "scenario": "a:b", "id": "x"}', "HUD v5 tasks"),
        ("t.json", "[1]", "holds no tasks"),
        ("t.json", '[{"id": "mine", "prompt": "a", "mcp_config": {}}]', "has a task mine already"),
        ("t.json", '[{"id": "cut', "not valid JSON"),
    ],
)
async def test_other_files_are_left_alone(name: str, content: str | None, said: str) -> None:
    if content is not None:
        Path(name).write_text(content)
    with pytest.raises(InputError) as caught:
        await make(ScriptedPerson(), replace(DRAFT, file=Path(name), id="mine"))
    assert said in " ".join(caught.value.lines())
    assert (Path(name).read_text() if Path(name).exists() else None) == content


async def test_an_asked_file_stays_in_the_project() -> None:
    person = ScriptedPerson("../t.json", "t.txt", "mine.json")
    (made,) = await make(person, replace(DRAFT, file=None))
    assert str(made.file) == "mine.json" and not Path("../t.json").exists()
    assert "outside of the project" in person.said[0] and "ends in .json" in person.said[1]
    assert [question.value for question in person.questions] == ["board-tasks.json", "../t.json", "t.txt"]


async def test_an_empty_prompt_is_asked_for_again_at_once() -> None:
    person = ScriptedPerson(" ", "Play.")
    (made,) = await make(person, replace(DRAFT, prompt=None))
    assert made.task.prompt == "Play." and "the prompt is empty" in person.said[0].lower()


async def test_environments_without_mcp_servers_have_no_such_tasks() -> None:
    with pytest.raises(InputError, match="MCP servers"):
        await make(ScriptedPerson(), DRAFT, parse_source("tcp://localhost:8765"))


async def test_a_doubtful_task_is_written_with_a_warning() -> None:
    person = ScriptedPerson()
    source = parse_source("https://e.example/mcp", headers={"Authorization": "Bearer sk-0123456789abcdef0123"})
    (made,) = await make(person, DRAFT, source)
    assert made.task.prompt == "Play." and "written out" in person.said[0] and person.severities == ["warning"]
    assert "0123456789abcdef" not in person.said[0]


async def test_a_task_that_the_configuration_judges_names_no_evaluate_tool() -> None:
    (made,) = await make(ScriptedPerson(""), replace(DRAFT, evaluate=None))
    assert made.task.evaluate == () and "evaluate_tool" not in json.loads(Path("t.json").read_text())[0]


async def test_the_task_is_tested_before_it_is_written() -> None:
    source = parse_source("text-2048")
    analysis = await analyze(source)
    calls = [
        read_call('board={"board_size": 3, "seed": 2}', "setup", analysis),
        read_call('max_number={"target": 64}', "evaluate", analysis),
    ]
    draft = TaskDraft("Play.", (calls[0],), (calls[1],), file=Path("new/t.jsonl"))
    steps = await make(ScriptedPerson(), draft, source, analysis)
    trial, made = steps[-2:]
    assert isinstance(trial, Trial) and trial.severity == "success" and made.trial == trial
    assert made.to_json()["test"]["ok"] and json.loads(Path("new/t.jsonl").read_text()) == made.to_json()["task"]

    broken = replace(draft, evaluate=(read_call('max_number={"goal": 64}', "evaluate", analysis),), file=Path("b.json"))
    person = ScriptedPerson(None)
    steps = await make(person, broken, source, analysis)
    assert steps[-1].severity == "error" and not Path("b.json").exists()
    (question,) = person.questions
    assert "does not know goal" in question.lines[0] and "write" not in question.value, "nothing is written by Enter alone"
    assert isinstance((await make(ScriptedPerson("write"), broken, source, analysis))[-1], NewTask) and Path("b.json").exists()


async def test_calls_are_corrected_after_a_failed_test() -> None:
    source = parse_source("text-2048")
    analysis = await analyze(source)
    answers = ("Play.", "setup.board", {"": '{"seed": 7}'}, "evaluate.max_number", {"": '{"goal": 64}'}, "far.json")
    person = ScriptedPerson(*answers, ..., ..., None, None, ..., ..., {"": '{"target": 64}'})
    steps = await make(person, None, source, analysis)
    made, trials = steps[-1], [step for step in steps if isinstance(step, Trial)]
    assert isinstance(made, NewTask) and not person.unasked and str(made.file) == "far.json"
    assert [trial.severity for trial in trials] == ["error", "success"]
    failed, tool, arguments = person.questions[6:9]
    assert failed.choices[0].label == "Correct the evaluation" and "goal" in failed.choices[0].help
    assert [choice.label for choice in failed.choices[1:]] == ["Correct the setup", "Write text-2048-1 anyway"]
    assert tool.title == "Evaluator: which call judges the outcome?" and tool.value == "evaluate.max_number"
    assert arguments.fields[0].default == '{"goal": 64}', "what was typed comes back"
    assert person.questions[10] == failed, "who gives a correction up is asked again"
    assert made.task.prompt == "Play." and made.task.setup[0].arguments == {"name": "board", "arguments": {"seed": 7}}
    assert made.task.evaluate[0].arguments == {"name": "max_number", "arguments": {"target": 64}}


async def test_the_call_that_failed_is_the_first_to_be_corrected() -> None:
    source = parse_source("text-2048")
    analysis = await analyze(source)
    setup = tuple(read_call(text, "setup", analysis) for text in ('board={"seed": 2}', 'board={"side": 3}'))
    judge = read_call('max_number={"target": 64}', "evaluate", analysis)
    person = ScriptedPerson(..., ..., {"": '{"board_size": 3}'})
    steps = await make(person, TaskDraft("Play.", setup, (judge,), file=Path("t.json")), source, analysis)
    assert person.questions[0].choices[0].label == "Correct the setup" and "side" in person.questions[0].choices[0].help
    assert len(person.questions[0].choices) == 4 and person.questions[2].fields[0].default == '{"side": 3}'
    assert [call.arguments["arguments"] for call in steps[-1].task.setup] == [{"seed": 2}, {"board_size": 3}]

    person = ScriptedPerson(..., "")
    steps = await make(person, TaskDraft("Play.", setup[1:], (judge,), file=Path("u.json")), source, analysis)
    assert steps[-1].task.setup == (), "a call can be left out"


def test_arguments_are_typed_as_a_form_reads_them() -> None:
    kinds = {"a": "string", "b": "integer", "c": "array", "d": None, "e": None, "f": "string"}
    properties = {name: {} if kind is None else {"type": kind} for name, kind in kinds.items()}
    tool = Tool("t", "", {"type": "object", "properties": properties, "required": ["f"]})
    for arguments in ({"a": "64", "b": 3, "c": ["x"], "d": "64", "e": "plain", "f": ""}, {"f": "é", "d": {"k": None}}):
        assert read_form(tool, typed_arguments(tool, arguments)) == arguments
    assert read_form(ANALYSIS.tools[-1], typed_arguments(ANALYSIS.tools[-1], {"target": 64})) == {"target": 64}
