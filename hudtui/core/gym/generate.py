"""Writing a hud-vf-gym configuration for an analysed environment."""

from __future__ import annotations

from collections.abc import Collection

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError
from hudtui.core.gym.draft import Draft, DraftAction, DraftArgument, SkippedTool, action_for, draft_config, per_value_tools, tidy
from hudtui.core.gym.names import config_file_name, environment_name
from hudtui.core.gym.schema_examples import UNSET, literal
from hudtui.core.gym.values import DEFAULT_MAX_TURNS
from hudtui.core.platform import HUD, Platform
from hudtui.core.text import clean_line
from hudtui.core.yaml_doc import yaml_key, yaml_printable, yaml_quoted, yaml_value

__all__ = [
    "action_snippet",
    "action_yaml",
    "config_file_name",
    "draft_config",
    "environment_name",
    "generate",
    "per_value_tools",
    "prompt_lines",
    "render",
    "usable_draft",
]

DONE_LINES = ("- done(): End the episode when the task is complete.", "  Usage: <tool>done()</tool>")
"""How prompts describe the action that ends an episode."""


def generate(
    analysis: Analysis, *, name: str | None = None, per_value: bool | Collection[str] = False, platform: Platform = HUD
) -> str:
    """The YAML text of a configuration for an environment.

    The same analysis gives the same text.

    Args:
        analysis: What is known of the environment.
        name: What to call it; taken from the source by default.
        per_value: Write tools with one small enum parameter as one action a value: all that allow it, or those named here.
        platform: Whose gym the first comment names.

    Raises:
        InputError: See `usable_draft`.
    """
    return render(usable_draft(analysis, name=name, per_value=per_value), platform=platform)


def usable_draft(analysis: Analysis, *, name: str | None = None, per_value: bool | Collection[str] = False) -> Draft:
    """`draft`, where there is an action to write.

    Raises:
        InputError: The environment has no tool for the agent, as far as is known: a configuration of it could play nothing.
    """
    plan = draft_config(analysis, name=name, per_value=per_value)
    if plan.actions:
        return plan
    if analysis.analyzed_at is None and not analysis.tools:
        raise InputError(
            "the lock file lists no tools, and a configuration is made of them; nothing is written",
            fix="Start the environment and look (hudtui rl init SOURCE --live), or build it anew so that the file lists them.",
        )
    left = "; ".join(f"{clean_line(item.tool, 60)}: {clean_line(item.reason, 100)}" for item in plan.left_out[:6])
    raise InputError(
        "the environment has no tool for the agent, and a configuration is made of them; nothing is written",
        why=f"Left out: {left}." if left else "It lists no tools at all.",
        fix="Name the server that has the agent's tools, or write the configuration by hand (docs/configuration.md).",
    )


def render(plan: Draft, *, platform: Platform = HUD) -> str:
    """A draft as YAML text."""
    return "\n".join(
        [
            *_heading(plan, platform),
            "",
            "job:",
            f"  name: {yaml_quoted('RL Training - ' + plan.name)}",
            "  metadata:",
            f"    environment: {yaml_quoted(plan.environment)}",
            "",
            "# What the agent is told. The parameters of each tool are listed below it.",
            *(_comment("The server's own instructions: " + plan.instructions) if plan.instructions else []),
            "system_prompt: |",
            *(f"  {line}".rstrip() for line in _prompt(plan)),
            "",
            "parser:",
            "  use_thinking: true",
            "  xml_weight: 0.6",
            "  action_weight: 0.4",
            "",
            "# What each action becomes. `done` needs no entry: it ends the episode.",
            *_mappings(plan),
            "",
            "rubric:",
            "  weights:",
            "    task_completion: 0.8",
            "    tool_execution: 0.1",
            "    format_compliance: 0.1",
            "",
            "defaults:",
            f"  max_turns: {DEFAULT_MAX_TURNS}",
            "",
        ]
    )


def action_yaml(action: DraftAction) -> list[str]:
    """The entry of one action under `action_mappings`, as lines without indentation."""
    positional = ", ".join(yaml_quoted(argument.name) for argument in action.arguments)
    lines = [f"{yaml_key(action.name)}:"]
    notes = (action.renamed, *action.notes) if action.renamed else action.notes
    lines += (f"  {line}" for note in notes for line in _comment(note))
    lines += [f"  _tool: {yaml_quoted(action.tool)}", "  _parser:", f"    positional: [{positional}]"]
    for parameter, fixed in action.static.items():
        lines += [f"  {yaml_key(parameter)}:", f"    static: {yaml_value(fixed)}"]
    for argument in action.arguments:
        lines += [f"  {yaml_key(argument.parameter)}:", f"    from_arg: {yaml_quoted(argument.name)}"]
        if argument.default is not UNSET:
            lines.append(f"    default: {yaml_value(argument.default)}")
    return lines


def prompt_lines(action: DraftAction) -> list[str]:
    """How the prompt describes one action, as lines without indentation."""
    arguments = ", ".join(argument.name for argument in action.arguments)
    heading = f"- {action.name}({arguments})"
    return [
        f"{heading}: {action.description}" if action.description else heading,
        *(f"      {_described(argument)}" for argument in action.arguments),
        f"  Usage: <tool>{action.usage}</tool>",
    ]


def action_snippet(tool: Tool, taken: Collection[str] = ()) -> tuple[str, str] | SkippedTool:
    """A new action for a tool, ready to be put into a configuration.

    Args:
        tool: The tool.
        taken: Names of the actions that are there already.

    Returns:
        The lines for `action_mappings` and the lines for the prompt, both without indentation; or why there are none.
    """
    action = action_for(tool, taken)
    if isinstance(action, SkippedTool):
        return action
    return "\n".join(action_yaml(action)), "\n".join(prompt_lines(action))


def _heading(plan: Draft, platform: Platform) -> list[str]:
    lines = [
        f"# {tidy(platform.gym_id, 60)} configuration for {tidy(plan.name, 100)}, written by `hudtui rl init`.",
        "# It is yours to edit; `hudtui lint` checks it, `hudtui parse` shows what a reply becomes.",
    ]
    if plan.left_out:
        lines.append("#")
        lines += ["# No action stands for these tools:", *(f"#   {_left_out(item)}" for item in plan.left_out)]
    return lines


def _left_out(item: SkippedTool) -> str:
    name = tidy(item.tool, 80) or '""'
    return f"{name}: {tidy(item.reason, 200)}"


def _prompt(plan: Draft) -> list[str]:
    lines = [
        f"You are an AI agent interacting with {tidy(plan.name, 100)}.",
        "",
        "In every reply, reason inside <think>...</think> tags first, then make exactly one tool call inside",
        "<tool>...</tool> tags. You will see its result before your next reply.",
        "",
        "Available tools:",
    ]
    for action in plan.actions:
        lines += [*prompt_lines(action), ""]
    return [*lines, *DONE_LINES]


def _described(argument: DraftArgument) -> str:
    if argument.required:
        need = "required"
    elif argument.default is UNSET:
        need = "optional"
    else:
        need = f"optional, default {tidy(literal(argument.default), 200)}"
    text = f"{argument.name} ({argument.words}; {need})"
    return f"{text}: {argument.description}" if argument.description else text


def _mappings(plan: Draft) -> list[str]:
    lines: list[str] = []
    if any(not argument.required and argument.default is UNSET for action in plan.actions for argument in action.arguments):
        lines.append("# An optional argument without a `default` is not sent when the agent does not give it.")
    lines.append("action_mappings:")
    for number, action in enumerate(plan.actions):
        lines += [*([""] if number else []), *(f"  {line}" for line in action_yaml(action))]
    return lines


def _comment(text: str) -> list[str]:
    """A comment, folded at about 120 characters."""
    lines, line = [], "#"
    for piece in yaml_printable(clean_line(text)).split(" "):
        if len(line) + len(piece) > 118 and line != "#":
            lines.append(line)
            line = "#"
        line = f"{line} {piece}"
    return [*lines, line]
