"""A gym for verifiers: `vf-eval lights-vf-gym`.

It exports its own class beside hudtui's taskset and environment.
"""

from typing import Any

from hud_vf_gym import HUDEnv, HUDGym, HUDTaskset

__all__ = ["HUDEnv", "HUDTaskset", "LightsGym"]


class LightsGym(HUDGym):
    """Counts repeated presses, and tells the model of them."""

    def setup_state(self, state: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add what is counted; as a number it becomes a metric of the trace."""
        state = super().setup_state(state, **kwargs)
        state["repeated"] = 0
        return state

    async def env_response(
        self, messages: list[dict[str, Any]], state: dict[str, Any], **kwargs: Any
    ) -> list[dict[str, Any]]:
        """Play the reply, and add a hint to the answer where it repeats the last press.

        The hint is for a reply that presses the light that was pressed before it.
        """
        answer = await super().env_response(messages, state, **kwargs)
        calls = [turn.call for turn in state["player"].turns]
        if len(calls) > 1 and calls[-1] is not None and calls[-1] == calls[-2]:
            state["repeated"] += 1
            if answer:
                answer[-1]["content"] += "\nYou pressed this light twice: nothing has changed."
        return answer
