"""From an environment to a written configuration: the order of the questions, and what is
written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.person import ScriptedPerson

from hudtui.core.environment.cache import latest_analysis
from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.core.errors import InputError
from hudtui.core.flows.generate import (
    default_file,
    generate_from,
    make_config,
    require_free,
    typed_source,
    write_config,
)
from hudtui.core.gym.generate import ALL_TOOLS
from hudtui.core.platform import BUCKEYE
from hudtui.core.project import Project, open_project

SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string", "enum": ["left", "right"]}},
    "required": ["to"],
}


def found(*tools: Tool) -> Analysis:
    return Analysis(
        "text-2048",
        Server("text-2048", "1.0.0"),
        "2025-11-25",
        tools or (Tool("move", "Push.", SCHEMA),),
    )


@pytest.fixture
def project(own_world: Path) -> Project:
    return open_project(own_world)


async def test_asks_for_the_file_and_for_one_action_a_value(project: Project) -> None:
    person = ScriptedPerson(..., "each")
    made = await write_config(project, found(), person)
    assert made is not None and made.file == Path("configs/text-2048.yaml") == default_file(
        "text-2048"
    )
    assert person.titles == ["Save configuration as", "Expand move into left(), right()?"]
    assert "left()  right()" in person.questions[1].lines
    written = (project.folder / made.file).read_text()
    assert written == made.text and list(yaml.safe_load(written)["action_mappings"]) == [
        "left",
        "right",
    ]
    assert made.summary == "2 actions: left, right, and done" and made.findings == ()
    assert made.report == (
        "configs/text-2048.yaml: 2 actions: left, right, and done; "
        f"about {made.tokens.prompt} tokens of prompt, {made.tokens.schemas} of schemas (estimated)"
    )


async def test_what_is_given_is_not_asked(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    person = ScriptedPerson()
    made = await write_config(
        project, found(), person, file=elsewhere, name="game", per_value=False, replace=False
    )
    assert (
        made is not None
        and yaml.safe_load(elsewhere.read_text())["job"]["name"] == "RL Training - game"
    )
    assert person.questions == []


async def test_an_environment_without_such_values_gets_no_question_about_them(
    project: Project,
) -> None:
    person = ScriptedPerson("a.yaml")
    assert await write_config(
        project, found(Tool("look", "Look.", {"type": "object", "properties": {}})), person
    )
    assert person.titles == ["Save configuration as"]


EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
SEVERAL = (
    Tool("look", "Look.", EMPTY),
    Tool("take*", "Take.", EMPTY),
    Tool("old", "DEPRECATED: look instead.", EMPTY),
)


async def test_which_of_several_tools_the_agent_gets_is_asked(project: Project) -> None:
    person = ScriptedPerson("a.yaml", "look", "take*", "", "take*", "old", "")
    made = await write_config(project, found(*SEVERAL), person)
    assert made is not None and list(yaml.safe_load(made.text)["action_mappings"]) == [
        "take",
        "old",
    ]
    asked = [
        question
        for question in person.questions
        if question.title == "Which tools does the agent get?"
    ]
    ticks = [[choice.label[:3] for choice in question.choices[2:]] for question in asked]
    assert ticks[0] == ["[x]", "[x]", "[ ]"], "what is deprecated is left out, unless it is ticked"
    assert (
        ticks[-1] == ["[ ]", "[x]", "[x]"]
        and "Write it with 2 of 3 tools" in asked[-1].choices[0].label
    )
    assert ticks[2] == ["[ ]", "[ ]", "[ ]"] and asked[2].choices[0].help == "no tool is ticked"
    assert any("tick one" in text for text in person.said), "without a tool nothing is written"
    pattern = r"about (\d+) tokens of prompt, (\d+) of schemas \(estimated\)"
    sizes = [
        [int(number) for number in re.fullmatch(pattern, question.choices[0].help).groups()]
        for question in asked
        if question.choices[0].help != "no tool is ticked"
    ]
    assert sizes[0][0] > sizes[1][0] and sizes[0][1] > sizes[1][1]
    prompt = yaml.safe_load(made.text)["system_prompt"]
    assert abs(sizes[-1][0] - len(prompt) / 4) <= 2
    assert sizes[-1] == [made.tokens.prompt, made.tokens.schemas]


async def test_all_tools_are_unticked_and_ticked_at_once(project: Project) -> None:
    every = ScriptedPerson("a.yaml", " ", " ", "")
    made = await write_config(project, found(*SEVERAL), every)
    assert made is not None and len(made.draft.actions) == 3
    labels = [question.choices[1].label for question in every.questions[1:]]
    assert labels == ["Untick all", "Tick all", "Untick all"]
    one = ScriptedPerson("b.yaml", " ", "old", "")
    made = await write_config(project, found(*SEVERAL), one)
    assert made is not None and [action.tool for action in made.draft.actions] == ["old"]


async def test_who_leaves_the_list_of_tools_writes_nothing(project: Project) -> None:
    assert await write_config(project, found(*SEVERAL), ScriptedPerson("a.yaml", None)) is None
    assert not (project.folder / "a.yaml").exists()
    made = await write_config(
        project,
        found(*SEVERAL),
        ScriptedPerson(),
        file=Path("b.yaml"),
        choice=ALL_TOOLS,
        per_value=False,
    )
    assert made is not None and list(yaml.safe_load(made.text)["action_mappings"]) == [
        "look",
        "take",
    ], "a choice is not asked for"


async def test_nothing_is_written_where_the_last_question_is_left(project: Project) -> None:
    assert await write_config(project, found(), ScriptedPerson("a.yaml", None)) is None
    assert not (project.folder / "a.yaml").exists()


async def test_a_file_is_replaced_only_when_the_user_agrees(project: Project) -> None:
    target = project.folder / "a.yaml"
    target.write_text("mine: 1\n")
    person = ScriptedPerson("a.yaml", False)
    assert await write_config(project, found(), person) is None
    assert (
        person.titles[1] == "Replace a.yaml?"
        and person.questions[1].danger
        and target.read_text() == "mine: 1\n"
    )
    with pytest.raises(InputError, match="this file exists"):
        await write_config(
            project, found(), ScriptedPerson(), file=Path("a.yaml"), per_value=False, replace=False
        )
    assert target.read_text() == "mine: 1\n"
    assert await write_config(project, found(), ScriptedPerson("a.yaml", True, "one"))
    assert "move" in yaml.safe_load(target.read_text())["action_mappings"]


async def test_a_file_that_appears_while_the_user_thinks_is_kept(project: Project) -> None:
    target = project.folder / "a.yaml"

    class Slow(ScriptedPerson):
        async def choose(self, *_: object, **__: object) -> str:
            target.write_text("theirs: 1\n")
            return "each"

    with pytest.raises(InputError, match="this file exists"):
        await write_config(project, found(), Slow("a.yaml"))
    assert target.read_text() == "theirs: 1\n"


def test_a_link_to_nowhere_is_not_free(project: Project) -> None:
    (project.folder / "a.yaml").symlink_to("nowhere.yaml")
    with pytest.raises(InputError):
        require_free(project, Path("a.yaml"))


@pytest.mark.parametrize("answer", [None, "", "  "])
async def test_without_a_file_name_nothing_is_written(project: Project, answer: str | None) -> None:
    assert await write_config(project, found(), ScriptedPerson(answer)) is None
    assert not list(project.folder.rglob("*.yaml"))


async def test_a_file_outside_of_the_project_is_refused(project: Project) -> None:
    with pytest.raises(InputError, match="outside of the project folder"):
        await write_config(project, found(), ScriptedPerson("../outside.yaml"))
    assert not (project.folder.parent / "outside.yaml").exists()


async def test_an_environment_without_tools_is_refused_before_any_question(
    project: Project,
) -> None:
    with pytest.raises(InputError, match="no tool for the agent"):
        await write_config(project, found(Tool("setup", "Begin.", None, "setup")), ScriptedPerson())


def test_a_configuration_is_for_the_gym_of_the_platform(own_world: Path) -> None:
    made = make_config(Project(own_world, BUCKEYE), found())
    assert "buckeye-vf-gym" in made.text.splitlines()[0] and made.file is None


async def test_from_the_name_of_an_environment(project: Project) -> None:
    heard: list[str] = []
    made = await generate_from(
        project,
        "text-2048",
        ScriptedPerson("a.yaml", "one"),
        on_event=lambda event: heard.append(event.stage),
    )
    assert made is not None and list(yaml.safe_load(made.text)["action_mappings"]) == ["move"]
    known = latest_analysis(project.folder)
    assert known is not None and known.source == "text-2048" and "list" in heard


async def test_a_lock_file_is_read_and_nothing_is_started(project: Project) -> None:
    (project.folder / "hud.lock.yaml").write_text(
        "image: org/my-env:1\ntools:\n- name: look\n  description: Look\n"
    )
    made = await generate_from(project, "hud.lock.yaml", ScriptedPerson(...))
    assert made is not None and made.file == Path("configs/my-env.yaml")
    assert latest_analysis(project.folder) is None


def test_a_command_follows_two_dashes(project: Project) -> None:
    assert typed_source(project, "-- python -m 'my server'").servers[0].args == ("-m", "my server")
    with pytest.raises(InputError, match="this command cannot be understood"):
        typed_source(project, "-- python 'open")
