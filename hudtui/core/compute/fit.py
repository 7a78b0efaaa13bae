"""Whether the GPUs of a machine hold the model that will be trained on them.

The verdict, and its words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from hudtui.core.compute.gpus import split_type
from hudtui.core.compute.values import Offer

FitState = Literal["fits", "tight", "unknown", "short", "unable"]
"""`fits` and `tight`: the model fits by the estimate, with or without the estimate's error as a
reserve; `short`: memory is missing; `unable`: the GPUs cannot train it whatever their memory;
`unknown`: the size of the model or the memory is not known."""
ERROR = 4 / 3
"""The estimate of memory is good to about a third. Beyond this factor a model certainly does not
fit."""
_RANKS: dict[str, int] = {"fits": 0, "tight": 1, "unknown": 2, "short": 3, "unable": 4}
_OLD = re.compile(
    r"(?:[vp]100|p40|p4|t4|k80|m[46]0|gtx.*|titan.*|rtx20\d\d.*|20[678]0(?:ti|super)?|16[56]0.*"
    r"|10[678]0.*)"
)
"""GPUs before Ampere, which compute no bfloat16."""
_NO_CUDA = re.compile(r"(?:mi\d+.*|instinct.*|radeon.*|gaudi.*|hl2.*|tpu.*|max1\d+.*)")


@dataclass(frozen=True)
class Fit:
    """Whether the GPUs of a machine hold a model."""

    state: FitState
    why: str
    """One sentence with the estimate."""
    short: float = 0.0
    """GiB that are missing on the fullest GPU."""
    needed: float | None = None
    """Estimated GiB on the fullest GPU; None if the size of the model is not known."""
    memory: float | None = None
    """GiB of one GPU; None if not known."""
    reason: str = ""
    """What speaks against the machine, in a few words: `3 GiB short`; empty if nothing does."""
    fix: str | None = None
    """What to do about it, where that is not a matter of the machine."""

    @property
    def holds(self) -> bool:
        """Whether the model fits by the estimate."""
        return self.state in ("fits", "tight")

    @property
    def hopeless(self) -> bool:
        """Whether the model certainly does not fit, even if the estimate is a third too high."""
        if self.state == "unable":
            return True
        return (
            self.needed is not None
            and self.memory is not None
            and self.needed > self.memory * ERROR
        )

    @property
    def mark(self) -> str:
        """The verdict for a column: `✓`, `✓ tight`, `✗ 3 GiB short`, `?`."""
        if self.holds:
            return "✓" if self.state == "fits" else "✓ tight"
        return "?" if self.state == "unknown" else f"✗ {self.reason}"

    @property
    def rank(self) -> tuple[int, float]:
        """Key of the order in which machines are taken: the better fit first."""
        return _RANKS[self.state], self.short

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui pods offers --model M --json`."""
        return {
            "state": self.state,
            "short_gib": round(self.short, 1),
            "needed_gib": _rounded(self.needed),
            "why": self.why,
        }


def judge_memory(needed: float | None, memory: float | None, *, role: str = "") -> Fit:
    """Compare the memory that a training needs with that of a GPU.

    `needed` is the estimate for the fullest GPU and `memory` what one GPU has, in GiB; None where
    it is not known. `role` names that GPU in the sentence, such as `GPU 1 (train)`.
    """
    if needed is None:
        return Fit(
            "unknown",
            "Whether it fits is not known: the size of the model is not known here.",
            memory=memory,
        )
    who = role or "The fullest GPU"
    if memory is None:
        return Fit(
            "unknown",
            f"{who} needs about {needed:.0f} GiB; its memory is not stated.",
            needed=needed,
        )
    text = f"{who} needs about {needed:.0f} GiB of {memory:.0f}"
    if needed <= memory / ERROR:
        return Fit("fits", f"{text}.", needed=needed, memory=memory)
    if needed <= memory:
        why = f"{text}: it is tight, since the estimate is good to about a third."
        return Fit("tight", why, needed=needed, memory=memory, reason="tight")
    short = needed - memory
    reason = f"{max(short, 1):.0f} GiB short"
    return Fit("short", f"{text}: {reason}.", short, needed, memory, reason)


def unable(offer: Offer, *, bfloat16: bool = True) -> Fit | None:
    """Return the verdict on an offer whose GPUs cannot train at all; None for all others."""
    name = split_type(offer.gpu_type)[0]
    if not offer.gpu_count:
        return Fit("unable", "It has no GPU.", reason="no GPU")
    if _NO_CUDA.fullmatch(name):
        return Fit("unable", "Its GPUs have no CUDA, which the trainer needs.", reason="no CUDA")
    if bfloat16 and _OLD.fullmatch(name):
        return Fit(
            "unable",
            "Its GPUs have no bfloat16: train with --set bf16=false, or take newer ones.",
            reason="no bfloat16",
        )
    return None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
