"""An episode as text to read, to keep and to pass on."""

from __future__ import annotations

from hudtui.core.gym.json_safe import dumps
from hudtui.core.rollouts.values import Episode
from hudtui.core.text import clean


def transcript(episode: Episode, *, over: bool = True) -> str:
    """Everything that was said and done in an episode, in full, with its scores at the end.

    Args:
        episode: The episode.
        over: Whether it has ended.
    """
    parts = [f"task {episode.task_id}"]
    for message in episode.messages:
        if message.get("role") != "user":
            continue
        parts.append(f"## opening\n{_text(message.get('content'))}")
        break
    for number, turn in enumerate(episode.turns, 1):
        parts.append(f"## reply {number}\n{clean(turn.reply)}")
        if turn.call is not None:
            parts.append(f"## call {number}\n{turn.call['tool']} {dumps(turn.call['arguments'])}")
        parts.append(f"## answer {number}{' (an error)' if turn.is_error else ''}\n{clean(turn.observation)}")
    scores = episode.scores
    told = f"task_completion {scores.task_completion:.3f}" if scores.reward_found else "task_completion: no reward found"
    stop = f"{episode.stop}{f': {clean(episode.error)}' if episode.error else ''}" if over else "not over yet"
    end = f"## end\n{stop}"
    evaluation = "" if episode.evaluation is None else f"\nevaluation {dumps(episode.evaluation)}"
    parts.append(
        f"{end}{evaluation}\n{told}, tool_execution {scores.tool_execution:.3f}, "
        f"format_compliance {scores.format_compliance:.3f}, reward {scores.reward:.3f}"
    )
    return "\n\n".join(parts) + "\n"


def _text(content: object) -> str:
    parts = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
    return clean("\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts if isinstance(part, dict)))
