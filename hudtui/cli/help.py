"""How `--help` looks: options in groups, and whole summaries of the commands."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

_OPTIONS = "Options"


class _Grouped:
    """Lists options under the titles of their groups (`rich_help_panel`), in the order of the first option of each."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then each group of options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            record = parameter.get_help_record(ctx)
            if record is not None:
                argument = not parameter.opts[0].startswith("-")
                title = "Arguments" if argument else (getattr(parameter, "rich_help_panel", None) or _OPTIONS)
                groups.setdefault(title, []).append(record)
        titles = sorted(groups, key=lambda title: (title != "Arguments", title == _OPTIONS))
        for title in titles:
            with formatter.section(title):
                formatter.write_dl(groups[title])


class HelpCommand(_Grouped, TyperCommand):
    """A command with its options in groups."""


class HelpGroup(_Grouped, TyperGroup):
    """A group that lists its commands with the first sentence of their help, however long it is."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands that are not hidden, in their order."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, summary(command.help)) for name, command in found if command is not None and not command.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def summary(text: str | None) -> str:
    """Return the first paragraph of a help text as one line."""
    return " ".join((text or "").partition("\n\n")[0].split())
