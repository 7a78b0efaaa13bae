"""What the screen of an episode shows of turns and scores, as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from textual.content import Content

from hudtui.core.flows.playing import PlayedTurn, PlayStarted
from hudtui.core.gym.json_safe import dumps
from hudtui.core.gym.schema_examples import literal
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.values import ENDED_BY_HAND, Episode, KeptImage, Scores, own_line
from hudtui.core.text import clean, clean_line
from hudtui.tui.widgets.fit import cut, pad

_MUTED = "$foreground-muted"
_MOST_LINES = 14
"""Lines of one answer; Enter shows all."""
_BAR = 10
"""Cells of a bar."""
_TITLE = 14
"""Cells of a bar's title."""
_LONGEST = 500
"""Characters of a line."""


Picture = Callable[[KeptImage], Sequence[Content]]
"""Returns an image as lines; none where it is not shown."""


def opening_lines(started: PlayStarted, picture: Picture) -> Content:
    """What the agent is shown first."""
    lines = [
        Content.styled("the agent sees", "bold $primary"),
        *_answer(started.opening),
        *_images(started.images, picture),
    ]
    return Content("\n").join(lines)


def _images(images: Sequence[KeptImage], picture: Picture) -> Iterator[Content]:
    for image in images:
        kept = "" if image.data is not None else ", not kept"
        yield Content.styled(
            f"    [{clean_line(image.kind, 60)}, {image.size / 1000:.1f} kB{kept}]", _MUTED
        )
        yield from (Content("    ") + line for line in picture(image))


def turn_lines(event: PlayedTurn, picture: Picture) -> Content:
    """One turn: who played it, what was said, the call or the error, and the answer."""
    turn = event.turn
    call, error = turn.call, turn.interpretation.get("error")
    think = clean_line(str(turn.interpretation.get("think") or ""), 300)
    said = turn.interpretation.get("tool")
    head = Content.assemble(
        (f"{event.number:>3} ", "bold $accent"),
        (
            clean_line(str(said), 200)
            if said is not None
            else cut(clean_line(turn.reply, 300), 200) or "(an empty reply)",
            "bold",
        ),
        (f"  {clean_line(event.by, 40)}", _MUTED),
    )
    lines = [head]
    if think:
        lines.append(Content.styled(f"    {think}", "italic $secondary"))
    if call is not None:
        arguments = ", ".join(
            f"{clean_line(str(name), 60)}={literal(value)}"
            for name, value in call["arguments"].items()
        )
        lines.append(
            Content.styled("    → " + clean_line(f"{call['tool']}({arguments})", 400), _MUTED)
        )
    if error:
        words, column = (
            clean_line(f"{error['stage']}: {error['message']}", 400),
            error.get("column"),
        )
        place = "" if column is None or f"column {column}" in words else f" (column {column})"
        lines.append(Content.assemble(("    ✗ ", "bold $error"), words, (place, _MUTED)))
    elif not turn.interpretation.get("done"):
        lines += _answer(turn.observation, "$error" if turn.is_error else "")
    lines += _images(turn.images, picture)
    return Content("\n").join(lines)


def end_lines(episode: Episode) -> Content:
    """Why the episode is over, and how its parts came out; without a reward, the answer."""
    why = f": {clean_line(episode.error, 400)}" if episode.error else ""
    stop = (
        "Ended by you" if episode.stop == ENDED_BY_HAND else f"the episode is over ({episode.stop})"
    )
    lines = [Content.assemble((" ■  ", "bold $accent"), (f"{stop}{why}", "bold"))]
    scores = episode.scores
    lines += [Content(f"    {part.line()}") for part in scores.parts]
    lines += [Content(f"    {own_line(*part)}") for part in scores.of_reward_code.items()]
    failed = episode.info.get("evaluation_error")
    if failed:
        lines.append(
            Content.assemble(
                ("    ✗ ", "bold $error"), "the evaluator failed: ", clean_line(str(failed), 400)
            )
        )
    elif not episode.scores.reward_found and episode.evaluation is not None:
        answer = (
            episode.evaluation if isinstance(episode.evaluation, str) else dumps(episode.evaluation)
        )
        lines.append(
            Content.styled("    ! no reward in what the evaluator answered:", "bold $warning")
        )
        lines += _answer(answer)
    return Content("\n").join(lines)


def _answer(text: str, style: str = "") -> list[Content]:
    lines = clean(text).split("\n")
    shown = [Content.styled("    " + cut(line, _LONGEST), style) for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(
            Content.styled(f"    … {len(lines) - _MOST_LINES} more lines (Enter shows all)", _MUTED)
        )
    return shown


def score_lines(
    scores: Scores, config: GymConfig, before: Scores | None, *, judged: bool, key: str
) -> Content:
    """The components of the reward, each with its weight and how it moved.

    Args:
        scores: As they stand.
        config: Has the weights.
        before: The scores before the last turn or evaluation.
        judged: Whether the task was evaluated.
        key: The key that evaluates.
    """
    lines = []
    for name, title in (
        ("task_completion", "task"),
        ("tool_execution", "tool calls ok"),
        ("format_compliance", "format"),
    ):
        value = getattr(scores, name)
        note = _weight(config.weights[name])
        if name == "task_completion" and not judged:
            note += f"  {key} evaluates"
        elif name == "task_completion" and not scores.reward_found:
            note += "  no reward found"
        lines.append(
            _bar(title, value, note, None if before is None else value - getattr(before, name))
        )
    for name, value in scores.own.items():
        weight = 1.0 if config.own_parts is None else config.own_parts.weight(name)
        moved = None if before is None or name not in before.own else value - before.own[name]
        note = " of task" if name in scores.completion_parts else _weight(weight)
        lines.append(_bar(clean_line(name, 60), value, note, moved))
    moved = None if before is None else scores.reward - before.reward
    lines.append(_bar("reward", scores.reward, "", moved, bold=True))
    return Content("\n").join(lines)


def _weight(weight: float) -> str:
    return f" x {weight:g}" if weight else " (weight 0)"


def _bar(
    title: str, value: float, note: str, moved: float | None, *, bold: bool = False
) -> Content:
    full = round(min(max(value, 0.0), 1.0) * _BAR)
    change = (
        "" if not moved or abs(moved) < 0.0005 else f"  {'▲' if moved > 0 else '▼'} {moved:+.3f}"
    )
    return Content.assemble(
        (pad(cut(title, _TITLE - 1), _TITLE), "bold $primary" if bold else "$primary"),
        ("█" * full, "$success"),
        ("░" * (_BAR - full), _MUTED),
        (f" {value:.3f}", "bold" if bold else ""),
        (note, _MUTED),
        (change, "$success" if (moved or 0) > 0 else "$error"),
    )
