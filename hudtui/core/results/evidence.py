"""What the episodes of a run say about its health, as numbers by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hudtui.core.results.values import EpisodeEntry
from hudtui.core.training.metrics import MetricsReader


def episode_numbers(entries: Iterable[EpisodeEntry]) -> MetricsReader:
    """Return the shares of a run's episodes that went wrong, and their mean tokens, for each step.

    Episodes of an evaluation, and those without a step, are left out.
    """
    steps: dict[int, list[EpisodeEntry]] = defaultdict(list)
    for entry in entries:
        if entry.step is not None and entry.split in ("", "train"):
            steps[entry.step].append(entry)
    numbers = MetricsReader()
    for step in sorted(steps):
        numbers.add({"step": step, **_shares(steps[step])})
    return numbers


def _shares(entries: Sequence[EpisodeEntry]) -> dict[str, float]:
    """Return the shares and means of one step, by the names in `diagnosis.signals`."""
    ended = [one for one in entries if not one.failed]
    shares = {"episodes/broken": 1 - len(ended) / len(entries)}
    turns = sum(one.turns for one in entries)
    if turns:
        slips = sum(count for one in entries for _, count in one.slips)
        shares["episodes/failed_turns"] = slips / turns
    tokens = [one.completion_tokens for one in entries if one.completion_tokens is not None]
    if tokens:
        shares["episodes/completion_tokens"] = sum(tokens) / len(tokens)
    if ended:
        at_once = sum(one.stop == "done" and one.turns <= 1 for one in ended)
        shares["episodes/turn_limit"] = sum(one.stop == "max_turns" for one in ended) / len(ended)
        shares["episodes/context_full"] = sum(one.stop == "context" for one in ended) / len(ended)
        shares["episodes/done_at_once"] = at_once / len(ended)
    return shares
