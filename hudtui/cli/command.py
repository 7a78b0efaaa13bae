"""Parts of all commands of the tree: how `--help` looks, and the options of `hudtui` itself."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NoReturn, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

C = TypeVar("C", bound=Callable[..., Any])

top = typer.Typer()
"""The commands that belong to no group. Modules of this package add theirs when they are
imported."""

_OPTIONS = "Options"
_SHARED = ("workspace", "platform", "trust", "debug")
"""Options of `hudtui` that may also follow a command. They are declared in `hudtui.cli.app`."""
_NUMBERS = {
    **dict.fromkeys(("integer", "int range"), "a whole number"),
    **dict.fromkeys(("float", "float range"), "a number"),
}
"""What the types of options that take numbers want, by the names that Typer gives them."""


class _Shared:
    """A command or group of the tree."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with the options of `hudtui` as hidden ones."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        root = ctx.find_root().command
        if root is not self:
            found = [*found, *(_hidden(one) for one in root.params if one.name in _SHARED)]
        if ctx.resilient_parsing:
            from hudtui.cli.complete import attach

            attach(ctx, found)
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and trust the folder where the user has said so.

        Only the last command of a line trusts it: no further command may follow.
        """
        from hudtui.cli import console

        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except typer.BadParameter as error:
            _fail_in_words(error)
        if console.trusting and not rest and not ctx.resilient_parsing:
            console.trust_folder()
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then each group of options (`rich_help_panel`).

        The groups come in the order of the first option of each.
        """
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                argument = not parameter.opts[0].startswith("-")
                title = (
                    "Arguments"
                    if argument
                    else (getattr(parameter, "rich_help_panel", None) or _OPTIONS)
                )
                groups.setdefault(title, []).append(record)
        titles = sorted(groups, key=lambda title: (title != "Arguments", title == _OPTIONS))
        for title in titles:
            with formatter.section(title):
                formatter.write_dl(groups[title])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write what may cost money, at the end of the help."""
        from hudtui.cli.effects import EFFECTS

        words: list[str] = []
        while ctx.parent is not None:
            words, ctx = [ctx.info_name, *words], ctx.parent
        effect = EFFECTS.get(" ".join(words).removesuffix(" run"))
        if effect is not None and effect.costs:
            formatter.write_paragraph()
            formatter.write_text(f"May cost money: {effect.costs}.")


def _hidden(parameter: Any) -> Any:
    twin = copy(parameter)
    twin.hidden, twin.expose_value = True, False
    return twin


def refusal(error: Any) -> Any:
    """Return the refusal of a command line as an `InputError`."""
    from hudtui.core.errors import InputError

    command = error.ctx.command_path if error.ctx is not None else "hudtui"
    return InputError(
        error.format_message(), fix=getattr(error, "fix", f"{command} --help lists what it takes.")
    )


def _fail_in_words(error: typer.BadParameter) -> NoReturn:
    """Raise the error again; one about a number says which numbers can be given."""
    kind = getattr(error.param, "type", None)
    given, found, _ = error.message.partition(" is not ")
    wanted = _NUMBERS.get(getattr(kind, "name", ""))
    if not found or wanted is None:
        raise error
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if least is not None:
        wanted += f" of at least {least:g}" if most is None else f" from {least:g} to {most:g}"
    elif most is not None:
        wanted += f" of at most {most:g}"
    raise typer.BadParameter(
        f"{given}. Give {wanted}.", error.ctx, error.param, error.param_hint
    ) from None


class HelpCommand(_Shared, TyperCommand):
    """A command with its options in groups."""


class HelpGroup(_Shared, TyperGroup):
    """A group that lists its commands with the first sentence of their help, however long it is."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in their order; none of the commands is made for it."""
        return list(self.commands)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands that are not hidden, in their order."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, summary(command.help))
            for name, command in found
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def summary(text: str | None) -> str:
    """Return the first paragraph of a help text as one line."""
    return " ".join((text or "").partition("\n\n")[0].split())
