"""Output of all commands: data on standard output, talk on standard error, exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from hudtui.core.errors import HudtuiError, MachineError
from hudtui.core.events import Notice, Progress
from hudtui.core.text import clean, dump_json
from hudtui.core.trust import Untrusted, agree

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])

FOUND = 1
"""Exit code of a command that has done its work and found problems, and of one whose user declined.
Errors have their own."""

debug = False
"""Set by `--debug`: tracebacks are shown."""
trusting = False
"""Set by `--trust`: the user agrees to what the folder asks for, unasked."""


def trust_folder() -> None:
    """Agree to what the current folder asks for, unasked."""
    from hudtui.core.flows.trust import survey

    folder = Path.cwd()
    with failures():
        agree(folder, survey(folder))


class Again(Exception):
    """The user has just agreed to what the folder asks for.

    The command is to be carried out from its beginning.
    """


def say(message: str = "") -> None:
    """A line for the person, on standard error."""
    typer.echo(clean(message), err=True)


def out(text: str = "") -> None:
    """A line of the result, on standard output."""
    typer.echo(clean(text))


def out_text(text: str, *, indent: int) -> None:
    """A text of the result behind blanks; on a terminal its lines break between words."""
    if not sys.stdout.isatty():
        out(" " * indent + text)
        return
    room = max(shutil.get_terminal_size().columns - indent, 20)
    wrapper = textwrap.TextWrapper(room, subsequent_indent="  ", break_on_hyphens=False)
    for line in wrapper.wrap(clean(text)):
        out(" " * indent + line)


def shown(path: Path) -> str:
    """A path for messages: relative to the current folder if it is inside."""
    short = os.path.relpath(path)
    return str(path) if short.startswith("..") else short


def config_file(path: Path) -> Path:
    """Return the configuration that a user has named.

    Hudtui's own example where there is no such file here, which is said.
    """
    from hudtui.core.gym.shipped import shipped_config

    found, told = shipped_config(path, Path.cwd())
    if told is not None:
        say(f"note: {told}")
    return found


def columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Return rows of cells as lines, with the cells of a column below one another.

    In the columns `right` their ends are.
    """
    from rich.cells import cell_len  # CJK letters and emoji take two cells

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        blanks = (" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        cells = (
            blank + cell if at in right else cell + blank
            for at, (cell, blank) in enumerate(zip(row, blanks, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return lines


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    titles: Sequence[tuple[str, int]] | None = None,
) -> None:
    """Print rows of cells in columns under a head.

    Args:
        head: Titles of the columns.
        rows: The cells.
        right: Columns whose cells are aligned to the right.
        titles: Titles of groups of rows, each with its number of rows, in their order.
    """
    first, *lines = columns([head, *rows], right=right)
    out(first)
    for title, count in titles or [("", len(lines))]:
        if title:
            out(title)
        for line in lines[:count]:
            out(line)
        del lines[:count]


def out_json(value: Any, *, compact: bool = False) -> None:
    """The result as one JSON document (one line when `compact`), on standard output."""
    typer.echo(dump_json(value, indent=None if compact else 2))


def by_default(app: typer.Typer) -> Callable[[C], C]:
    """Make a command the default of its group: `hudtui runs --json` is `hudtui runs list --json`.

    A `--json` of the group belongs to the command that follows it: `hudtui runs --json show` is
    `hudtui runs show --json`.
    """

    def decorate(command: C) -> C:
        @app.callback()
        def group(
            context: typer.Context,
            as_json: Annotated[
                bool, typer.Option("--json", help="Print one JSON document.")
            ] = False,
        ) -> None:
            if context.invoked_subcommand is None:
                command(as_json=as_json)
            elif as_json:
                _hand_down_json(context, context.invoked_subcommand)

        return command

    return decorate


def _hand_down_json(context: typer.Context, name: str) -> None:
    commands: Any = context.command
    if not any(
        parameter.name == "as_json" for parameter in commands.get_command(context, name).params
    ):
        raise typer.BadParameter(f"{name} prints no JSON", param_hint="--json")
    context.default_map = {**(context.default_map or {}), name: {"as_json": True}}


@contextlib.contextmanager
def failures(*, as_json: bool = False, compact: bool = False) -> Iterator[None]:
    """Turn what goes wrong inside into a message and an exit code.

    Args:
        as_json: Also print `{"error": ...}` on standard output, for the program that asked for
            JSON.
        compact: On one line, where each line is an object.
    """
    try:
        yield
    except (HudtuiError, MemoryError) as failure:
        error = (
            _full()
            if isinstance(failure, MemoryError)
            else failure
            if failure.lacks is None
            else _with_reason(failure)
        )
        if isinstance(error, Untrusted) and agrees(error):
            raise Again from None
        if debug:
            raise
        if isinstance(error, Untrusted):
            from hudtui.core.flows.trust import advice

            with contextlib.suppress(HudtuiError):
                error.fix = advice(error.folder, error.powers)
        first, *rest = error.lines()
        say(f"error: {first}")
        for line in rest:
            say(f"  {line}")
        if as_json:
            out_json(error.to_json(), compact=compact)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        say("stopped")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # The reader went away (`| head`): nothing more can be written to standard output, not even
        # by the last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None


def _full() -> HudtuiError:
    return MachineError(
        "the memory of this computer is not enough for this",
        fix="End other programs, or work on less at once.",
    )


def _with_reason(error: HudtuiError) -> HudtuiError:
    from hudtui.core.flows.trust import with_reason

    return with_reason(error, Path.cwd())


def agrees(error: Untrusted) -> bool:
    """List what a folder asks for, and ask in a terminal whether to trust it.

    Returns whether the user agrees.
    """
    if not (trusting or interactive()):
        return False
    from hudtui.core.flows.trust import listing, question

    powers, before = question(error.folder, error.powers)
    if not trusting:
        say(f"{error.folder} is not trusted. Its files would have hudtui")
        for line in listing(powers, error.folder):
            say(f"  {line}")
        if before:
            say("  instead of what you agreed to before:")
            for line in before:
                say(f"  {line}")
        try:
            if not confirm("Trust these files?"):
                return False
        except (typer.Abort, KeyboardInterrupt):
            return False
    agree(error.folder, powers)
    return True


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""They end the work, and let it clean up."""


class _Ended(Exception):
    """A signal asked for the end."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


def run(
    work: Coroutine[Any, Any, T],
    *,
    as_json: bool = False,
    compact: bool = False,
    when_ended: str = "",
) -> T:
    """Carry out async work of the core inside `failures`.

    Ctrl-C, SIGTERM and SIGHUP cancel the work and let it clean up.

    Args:
        work: What to do.
        as_json: See `failures`.
        compact: See `failures`.
        when_ended: Printed when a signal ends the work.
    """
    with failures(as_json=as_json, compact=compact):
        try:
            return asyncio.run(_until_ended(work))
        except _Ended as end:
            how = "stopped" if end.number is signal.SIGINT else f"stopped by {end.number.name}"
            say(f"{how}; {when_ended}" if when_ended else how)
            raise typer.Exit(128 + end.number) from None
    raise AssertionError("unreachable")  # pragma: no cover


def run_async(
    *, compact: bool = False, when_ended: str = ""
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, T]]:
    """Make a command of an async function.

    `run` carries it out, with the value of its own `as_json`.
    """

    def decorate(command: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
        @functools.wraps(command)
        def carry_out(*args: P.args, **kwargs: P.kwargs) -> T:
            return run(
                command(*args, **kwargs),
                as_json=bool(kwargs.get("as_json")),
                compact=compact,
                when_ended=when_ended,
            )

        return carry_out

    return decorate


async def outcome(steps: Any, kind: type[T], tell: Callable[[Any], object]) -> T:
    """The value of this kind that async steps end with.

    Steps before it, such as progress, go to `tell`.
    """
    async with contextlib.aclosing(steps):
        async for step in steps:
            if isinstance(step, kind):
                return step
            tell(step)
    raise AssertionError(f"the steps end with a {kind.__name__}")


async def _until_ended(work: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        received.append(number)
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise _Ended(received[0]) from None
        raise


def tell(event: Progress | Notice) -> None:
    """Show a notice, and progress where stderr is a terminal."""
    if isinstance(event, Notice):
        say(f"{event.severity}: {event.message}")
    elif interactive() and event.message:
        say(event.message)


def interactive() -> bool:
    """Return True if questions can be asked: standard input and error are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def at_terminal() -> bool:
    """Return True if the app can be shown: input, output and messages are a terminal."""
    return interactive() and sys.stdout.isatty()


def confirm(question: str, *, default: bool = False) -> bool:
    """Ask a question on standard error that is answered with y or n; Enter is the default.

    Raises:
        Abort: The person wants to go no further.
    """
    answers = {"y": True, "yes": True, "n": False, "no": False}

    def meant(answer: str) -> bool:
        try:
            return answers[answer.strip().lower()]
        except KeyError:
            raise typer.BadParameter("answer y or n") from None

    return bool(
        typer.prompt(
            question,
            default="y" if default else "n",
            show_default=False,
            prompt_suffix=f" [{'Y/n' if default else 'y/N'}]: ",
            value_proc=meant,
            err=True,
        )
    )


async def ask(question: Callable[[], T]) -> T:
    """Ask the person, inside `run`.

    The work pauses meanwhile; the signals that end the work end the question, too.

    Args:
        question: Asks at the terminal, and waits for the answer.

    Raises:
        Abort: The person wants to go no further.
    """
    interrupted = False

    def interrupt(*_: Any) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    before = [(number, signal.signal(number, interrupt)) for number in _SIGNALS]
    try:
        # click writes the last blank of a prompt to standard output, also where the prompt is on
        # standard error.
        with (
            contextlib.nullcontext()
            if sys.stdout.isatty()
            else contextlib.redirect_stdout(sys.stderr)
        ):
            return question()
    except (KeyboardInterrupt, typer.Abort):
        if not interrupted:
            raise
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    say()  # the question stands there without an end
    await asyncio.sleep(1.0)  # the loop has heard the signal as well, and cancels the work now
    raise typer.Abort


async def ask_until(until: asyncio.Event, prompt: str) -> str | None:
    """Wait for an event, or for a line that the person types meanwhile.

    Returns:
        The line; empty when the event came first; None at the end of the input. Without a terminal
        only the event counts.
    """
    waiting = asyncio.ensure_future(until.wait())
    loop, line = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    typing = interactive()

    def read() -> None:
        text = sys.stdin.readline()
        if not line.done():
            line.set_result(text.strip() if text else None)

    if typing:
        typer.echo(clean(prompt), nl=False, err=True)
        loop.add_reader(sys.stdin.fileno(), read)
    try:
        await asyncio.wait({waiting, line}, return_when=asyncio.FIRST_COMPLETED)
        if line.done():
            answer: str | None = line.result()
            return answer
        if typing:
            say()  # the question stands there without an end
        return ""
    finally:
        waiting.cancel()
        line.cancel()
        if typing:
            loop.remove_reader(sys.stdin.fileno())


def host_prompts() -> dict[str, Any]:
    """Questions of connections to machines: pass-phrases in a terminal, new host keys."""
    return {"ask": ask_secret if interactive() else None, "say": lambda notice: say(notice.message)}


async def ask_secret(prompt: str) -> str | None:
    """Ask for something that is not shown, such as a pass-phrase; None for an empty answer.

    See `ask`.
    """
    import getpass

    try:
        return await ask(lambda: getpass.getpass(prompt)) or None
    except EOFError:
        return None
