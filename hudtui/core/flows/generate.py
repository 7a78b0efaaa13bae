"""From an analyzed environment to a written configuration."""

from __future__ import annotations

import asyncio
import glob
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hudtui.core.environment.source import Source, parse_source
from hudtui.core.environment.values import Analysis
from hudtui.core.errors import InputError, Location
from hudtui.core.events import Progress
from hudtui.core.files import write_atomic
from hudtui.core.flows.person import Choice, Person, ask_for_file
from hudtui.core.gym.config import with_dialect
from hudtui.core.gym.environment_name import config_file_name
from hudtui.core.gym.generate import (
    ALL_TOOLS,
    Draft,
    TokenEstimate,
    ToolChoice,
    draft_config,
    estimate_tokens,
    render,
    usable_draft,
)
from hudtui.core.gym.lint.check import lint
from hudtui.core.gym.lint.findings import Finding
from hudtui.core.gym.values import GymConfig
from hudtui.core.project import Project
from hudtui.core.text import clean_line, plural

_MOST_NAMES = 8
"""Actions that a summary names."""
_WRITE = ""
"""Value of the choice that ends the list of tools; no tool has an empty name."""
_ALL = " "
"""Value of the choice that ticks all tools or none; a tool has to have letters in its name."""
_EACH, _ONE = "each", "one"
"""Values of the choices of actions for a tool of few values."""


@dataclass(frozen=True)
class Generated:
    """A configuration, and what lint finds in it."""

    draft: Draft
    text: str
    """The YAML."""
    findings: tuple[Finding, ...]
    tokens: TokenEstimate
    """Tokens of the system prompt and of the tools' schemas."""
    file: Path | None = None
    """File of the configuration, as the user named it: relative to the project, or absolute."""

    @property
    def summary(self) -> str:
        """The actions of the configuration in one line."""
        names = [action.name for action in self.draft.actions]
        listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        return f"{plural(len(names), 'action')}: {listed}, and done"

    @property
    def report(self) -> str:
        """The file, its actions and tokens, and the number of findings in one line."""
        found = f"; lint has {plural(len(self.findings), 'finding')}" if self.findings else ""
        return f"{self.file}: {self.summary}; {self.tokens.line()}{found}"


def default_file(environment: str, *, folder: Path = Path("configs")) -> Path:
    """Return where the configuration of an environment goes by default.

    Args:
        environment: The image of the environment, or its source.
        folder: The folder of the file.
    """
    return folder / config_file_name(environment)


def require_free(project: Project, file: Path) -> None:
    """Check that a configuration replaces no file, nor a link.

    Raises:
        InputError: There is one.
    """
    if _taken(project.folder / file):
        raise InputError(
            "this file exists; it is left as it is",
            fix="Overwrite it with --force, or write another one with -o FILE.",
            where=Location(str(file)),
        )


def make_config(
    project: Project,
    analysis: Analysis,
    *,
    name: str | None = None,
    per_value: bool = False,
    choice: ToolChoice = ALL_TOOLS,
    file: Path | None = None,
    dialect: str = "text",
) -> Generated:
    """Make a configuration for the project's platform. Writes nothing.

    Args:
        project: The project.
        analysis: The analysis of the environment.
        name: The name of the environment; taken from the source by default.
        per_value: Write tools with one small enum parameter as one action for each value.
        choice: Which tools become actions.
        file: The file that findings name.
        dialect: The form of calls that it reads.

    Raises:
        InputError: The environment has no tool for an agent, or none of a name that is chosen.
    """
    with_dialect(GymConfig(), dialect)  # an unknown one is refused
    draft = usable_draft(analysis, name=name, per_value=per_value, choice=choice)
    text = render(draft, platform=project.platform, dialect=dialect)
    findings = lint(
        text, name=str(file or "generated.yaml"), tools={tool.name: tool for tool in analysis.tools}
    )
    tokens = estimate_tokens(draft, analysis.tools)
    return Generated(draft, text, findings, tokens, file)


async def write_config(
    project: Project,
    analysis: Analysis,
    person: Person,
    *,
    file: Path | None = None,
    name: str | None = None,
    per_value: bool | None = None,
    choice: ToolChoice | None = None,
    replace: bool | None = None,
    dialect: str = "text",
) -> Generated | None:
    """Write a configuration for an environment, and ask for what is not given.

    The questions come in this order: the file, whether it replaces an existing file, which of
    several tools the agent gets, whether each value becomes an action.

    Args:
        project: The project.
        analysis: The analysis of the environment.
        person: The user.
        file: Where to write it, in the project folder or anywhere else. A file that the user is
            asked for is in the folder.
        name: The name of the environment; taken from the source by default.
        per_value: See `make_config`.
        choice: See `make_config`; None asks, where there are several tools.
        replace: False refuses to replace a file, True replaces it without a question.
        dialect: See `make_config`.

    Returns:
        The configuration, or None if the user declines. Nothing is written then.

    Raises:
        InputError: The environment has no tool for an agent, or the file cannot be written.
    """
    await asyncio.to_thread(usable_draft, analysis, choice=choice or ALL_TOOLS)
    if file is None:
        file = await ask_for_file(
            person,
            "Save configuration as",
            project.folder,
            default_file(analysis.image or analysis.source),
        )
        if file is None:
            return None
    if replace is None and _taken(project.folder / file):
        lines = ("Its content will be lost.",)
        if not await person.confirm(f"Replace {file}?", lines, yes="Replace", danger=True):
            return None
        replace = True
    if choice is None:
        choice = await _ask_for_tools(person, analysis)
        if choice is None:
            return None
    if per_value is None:
        offered = (await asyncio.to_thread(usable_draft, analysis, choice=choice)).per_value
        per_value = await _ask_for_values(person, offered) if offered else False
        if per_value is None:
            return None
    made = await asyncio.to_thread(
        make_config,
        project,
        analysis,
        name=name,
        per_value=per_value,
        choice=choice,
        file=file,
        dialect=dialect,
    )
    if not replace:
        require_free(project, file)  # the questions took their time
    await asyncio.to_thread(write_atomic, project.folder / file, made.text)
    return made


async def generate_from(
    project: Project,
    text: str,
    person: Person,
    *,
    on_event: Callable[[Progress], None] | None = None,
) -> Generated | None:
    """Analyze an environment, keep the analysis in the project, and write a configuration.

    See `write_config`.

    Args:
        project: The project.
        text: The source of the environment, as the user types it. A lock file is read, everything
            else is started or reached.
        person: The user.
        on_event: Receives the progress of the analysis.

    Raises:
        InputError: The source cannot be used, the environment has no tool for an agent, or the file
            cannot be written.
        ConnectError: The environment cannot be reached.
    """
    from hudtui.core.flows.analyze import analyze_source

    source = await asyncio.to_thread(typed_source, project, text)
    analysis = await analyze_source(source, person, live=False, on_event=on_event)
    return await write_config(project, analysis, person)


def typed_source(project: Project, text: str, *, file: Path | None = None) -> Source:
    """Return the source that a user types; a command follows `--`.

    Args:
        project: The project, whose settings the source may use.
        text: The source.
        file: The file that names the source; None if the user does.

    Raises:
        InputError: The source cannot be understood.
    """
    try:
        command = shlex.split(text[2:]) if text.startswith("--") else []
    except ValueError as error:
        raise InputError(
            "this command cannot be understood", why=str(error), where=Location(text)
        ) from None
    return parse_source(
        None if command else text,
        command,
        folder=project.folder,
        lookup=project.settings().use,
        file=file,
    )


def _taken(path: Path) -> bool:
    return path.exists() or path.is_symlink()


async def _ask_for_tools(person: Person, analysis: Analysis) -> ToolChoice | None:
    """Return which tools become actions, or None if the user declines.

    Deprecated ones are not ticked at the beginning.
    """
    tools = {tool.name: tool for tool in analysis.agent_tools}
    usual = {name for name, tool in tools.items() if ALL_TOOLS.why_not(tool) is None}
    if len(tools) < 2 or not usual:
        return ALL_TOOLS
    ticked, at = set(usual), _WRITE
    while True:
        choice = (
            ALL_TOOLS
            if ticked == usual
            else ToolChoice(tuple(glob.escape(name) for name in tools if name in ticked))
        )
        size = "no tool is ticked"
        if ticked:
            draft = await asyncio.to_thread(draft_config, analysis, choice=choice)
            size = estimate_tokens(draft, analysis.tools).line()
        choices = [
            Choice(_WRITE, f"Write it with {len(ticked)} of {len(tools)} tools", size),
            Choice(_ALL, "Untick all" if ticked else "Tick all"),
        ]
        for name, tool in tools.items():
            tick = "x" if name in ticked else " "
            choices.append(
                Choice(name, f"[{tick}] {clean_line(name, 40)}", clean_line(tool.description, 100))
            )
        chosen = await person.choose("Which tools does the agent get?", choices, value=at)
        if chosen is None:
            return None
        if chosen == _ALL:
            ticked, at = set() if ticked else set(tools), _ALL
        elif chosen != _WRITE:
            ticked, at = ticked ^ {chosen}, chosen
        elif ticked:
            return choice
        else:
            person.say("The agent needs a tool: tick one.", severity="error")


async def _ask_for_values(person: Person, offered: Mapping[str, tuple[str, ...]]) -> bool | None:
    """Return whether each value is an action of its own, or None if the user declines."""
    calls = [f"{action}()" for actions in offered.values() for action in actions]
    tools = ", ".join(clean_line(tool, 40) for tool in offered)
    chosen = await person.choose(
        f"Expand {tools} into {', '.join(calls[:3])}{', …' if len(calls) > 3 else ''}?",
        (
            Choice(_EACH, "Expand", "one action for each value"),
            Choice(_ONE, "Keep as argument", "one action for each tool"),
        ),
        lines=("  ".join(calls[:12]),),
        value=_EACH,
    )
    return None if chosen is None else chosen == _EACH
