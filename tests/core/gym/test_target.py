from __future__ import annotations

from pathlib import Path

import pytest

from hudtui.core.environment.matching import identity_of
from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.environment_name import called_tools, declared_environment, is_config_for
from hudtui.core.gym.generate import generate


def analysis_of(source: str, name: str, *tools: str, image: str | None = None) -> Analysis:
    return Analysis(
        source, Server(name, "1"), tools=tuple(Tool(tool) for tool in tools), image=image
    )


@pytest.mark.parametrize(
    ("environment", "tools", "same"),
    [
        ("text_2048", ["nothing"], True),
        ("deepresearch", ["search", "fetch"], False),
        (
            "deepresearch",
            ["move"],
            True,
        ),  # whatever it is called, the environment has all of its tools
        ("deepresearch", ["move", "search"], False),
        (None, ["mvoe"], True),  # misspelled
        (None, ["search", "fetch"], False),
        (None, ["move", "search"], True),
        ("local", ["search"], False),
        ("local", ["mvoe"], True),
        (None, [], True),
    ],
)
def test_a_configuration_that_is_for_the_analysed_environment(
    tmp_path: Path, environment: str | None, tools: list[str], same: bool
) -> None:
    analysis = analysis_of("text-2048", "text-2048", "move", "setup", "evaluate")
    assert (
        is_config_for(environment, tuple(tools), analysis, identity_of(analysis, tmp_path)) is same
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("job: {metadata: {environment: deepresearch}}", "deepresearch"),
        ("job: {environment: browser}", "browser"),
        ("environment: desk\naction_mappings: {}", "desk"),
        ("job: {metadata: {environment: ''}}", None),
        ("job: {metadata: [1], environment: 3}", None),
    ],
)
def test_what_a_configuration_says_it_is_for(text: str, named: str | None) -> None:
    config, _ = parse_config(text, name="c.yaml")
    assert config is not None and declared_environment(config) == named


@pytest.mark.parametrize(
    ("source", "image"),
    [
        ("text-2048", None),
        (
            "hudevals/hud-browser:0.1@sha256:" + "0" * 64,
            "hudevals/hud-browser:0.1@sha256:" + "0" * 64,
        ),
        ("-- npx -y @org/server-everything", None),
        ("https://user:pass@host.example/mcp", None),
        ('{"local": {"command": "x"}}', None),
    ],
)
def test_a_generated_configuration_is_for_what_it_was_generated_from(
    tmp_path: Path, source: str, image: str | None
) -> None:
    analysis = analysis_of(source, "s", "move", image=image)
    config, _ = parse_config(
        generate(analysis).replace('_tool: "move"', '_tool: "wrong"'), name="c.yaml"
    )
    assert config is not None and called_tools(config) == ("wrong",)
    assert is_config_for(
        declared_environment(config), ("wrong",), analysis, identity_of(analysis, tmp_path)
    )
