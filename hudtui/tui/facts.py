"""The facts of the project that the app shows, as frozen values.

The core fills them in after the first paint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.tui.steps import STEPS, State

if TYPE_CHECKING:
    from hudtui.core.workspace import Workspace


@dataclass(frozen=True)
class StepFact:
    """The state of one step."""

    state: State
    detail: str = ""
    """One line: the files that exist, or those that are missing."""
    what_next: str = ""
    """One sentence: what can be done there now."""
    errors: int = 0
    """How many the check of its files has found."""


@dataclass(frozen=True)
class RunFact:
    """A run in a list."""

    id: str
    title: str
    state: str
    """The store's word: `running`, `done`, `failed`, ..."""
    running: bool
    """It has not ended."""
    glyph: str = "●"
    started_at: float | None = None
    """Unix time."""
    seconds: float | None = None
    """How long it took; None while it is going."""
    hidden: bool = False
    """It is archived: lists leave it out."""


@dataclass(frozen=True)
class WalletFact:
    """The key of the platform: whether it is there, never what it is."""

    variable: str
    """Name of the setting, for example `HUD_API_KEY`."""
    origin: str | None
    """Where the value comes from; None when there is none."""


@dataclass(frozen=True)
class Money:
    """What rented machines cost, as the header shows it. Amounts are texts with their currency."""

    machines: int
    """Machines that are alive, may be alive, or are being rented."""
    per_hour: str
    today: str
    budget: str = ""
    """Of the day; empty for none."""
    orphans: int = 0
    """Machines without a run."""
    warn: bool = False
    """A limit is near, or reached."""
    simulated: bool = False
    """No real money is spent."""
    as_of: str = ""
    """Time of the oldest figure, such as `14:05`, while a provider does not answer."""
    taken: int = 0
    """Machines that their provider took back, until the user dismisses the notice."""


@dataclass(frozen=True)
class Facts:
    """Everything that the app shows of the project at one moment."""

    folder: Path
    platform: str
    """Title of the platform, for example `HUD`."""
    workspace: Workspace | None = None
    """What the core found in the folder."""
    account: WalletFact | None = None
    steps: Mapping[str, StepFact] = field(default_factory=dict)
    configs: tuple[Path, ...] = ()
    task_files: tuple[Path, ...] = ()
    lock: Path | None = None
    image: str | None = None
    """Environment image that the lock file names."""
    dataset: str | None = None
    """Primary dataset that the lock file names; without a lock file, the dataset that was made
    last."""
    runs: tuple[RunFact, ...] = ()
    """Newest first."""
    trusted: bool = True
    """The user has agreed to all that the folder's files ask for, as far as was looked; see
    `core.flows.trust`."""
    rented: tuple[str, ...] = ()
    """Ids of the runs whose rented machines may still be there, or whose results are still to be
    fetched."""
    warnings: tuple[str, ...] = ()
    """What could not be read, one line each; everything else is still shown."""

    @property
    def empty(self) -> bool:
        """There is nothing of ours in the folder yet."""
        return not (self.configs or self.task_files or self.lock or self.runs)

    @property
    def untouched(self) -> bool:
        """There is nothing of ours in the folder, and no environment was analyzed in it."""
        return self.empty and self.step("environment").state != "done"

    @property
    def running(self) -> tuple[RunFact, ...]:
        """The runs that are going."""
        return tuple(run for run in self.runs if run.running)

    @property
    def listed(self) -> tuple[RunFact, ...]:
        """The runs that are not archived."""
        return tuple(run for run in self.runs if not run.hidden)

    @property
    def next_step(self) -> str | None:
        """Name of the step to go to next.

        A failed step, else the first open one; None when all are done.
        """
        for state in ("failed", "next"):
            for step in STEPS:
                if self.step(step.name).state == state:
                    return step.name
        return None

    def step(self, name: str) -> StepFact:
        """State of a step; `unknown` before it was checked."""
        return self.steps.get(name, StepFact("unknown"))
