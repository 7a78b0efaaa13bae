"""Parts of the reward beside task completion, tool execution and format."""

from typing import ClassVar

from hudtui.gym import Episode, HUDBaseRubric, Task


class Careful(HUDBaseRubric):
    """Wants no call that fails, and a thought before each one."""

    WEIGHTS: ClassVar = {"no_errors": 0.1, "thoughtful": 0.05}

    def parts(self, episode: Episode, task: Task) -> dict[str, float]:
        """Both parts of an episode."""
        thoughts = [
            len(turn.reply.partition("<think>")[2].partition("</think>")[0]) >= 10
            for turn in episode.turns
        ]
        return {
            "no_errors": 0.0 if any(turn.is_error for turn in episode.turns) else 1.0,
            "thoughtful": sum(thoughts) / len(thoughts) if thoughts else 0.0,
        }


def brevity(episode: Episode, task: Task) -> float:
    """1 for two replies or fewer, and less for each further one."""
    return 2 / max(len(episode.turns), 2)
