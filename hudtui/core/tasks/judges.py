"""Models that judge tasks: where they are reached, with which key, and what the user agrees to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hudtui.core import trust
from hudtui.core.environment.powers import task_powers
from hudtui.core.errors import InputError, Location
from hudtui.core.http import is_loopback
from hudtui.core.masking import mask_url
from hudtui.core.settings import DEFAULT_BASE_URL
from hudtui.core.tasks.expectation import ModelJudge, Part
from hudtui.core.tasks.expectation_form import read_parts
from hudtui.core.tasks.task import FieldProblem, Task, TaskProblem
from hudtui.core.text import clean_line
from hudtui.core.variables import Lookup

Lacking = Callable[[str], tuple[str, str]]
NO_KEY = "judge-key"
"""Code of the problem with a judge whose key has no value."""
_KEY, _ADDRESS = "OPENAI_API_KEY", "OPENAI_BASE_URL"


@dataclass(frozen=True)
class JudgePlace:
    """The endpoint of a judge, and the key that is sent there and nowhere else."""

    endpoint: str
    """Its base URL."""
    key_name: str | None
    """The variable with the key; None: no key is sent."""
    key: str | None = field(repr=False)
    """The value of the variable; None if it has none."""

    @property
    def lacks_key(self) -> bool:
        """True if a key is named and missing. An endpoint of this computer may do without."""
        return self.key_name is not None and self.key is None

    def words(self) -> str:
        """Return the endpoint and the key's name: `https://host/v1 with NAME`."""
        key = "" if self.key_name is None else f" with {self.key_name}"
        return mask_url(self.endpoint) + key


def judge_place(judge: ModelJudge, lookup: Lookup) -> JudgePlace:
    """Return where a judge is reached: where its task says so, or the settings."""
    endpoint = judge.endpoint or lookup(_ADDRESS) or DEFAULT_BASE_URL
    name = judge.key or (_KEY if judge.endpoint is None else None)
    key = lookup(name) or None if name is not None else None
    if key is None and judge.key is None and is_loopback(endpoint):
        name = None
    return JudgePlace(endpoint, name, key)


def task_judges(tasks: Iterable[Task]) -> Iterator[tuple[Task, int, Part]]:
    """Yield each part of tasks that a model judges, with its task and its number."""
    for task in tasks:
        written = task.extra.get("evaluate")
        for number, part in enumerate(read_parts(written)[0] if written else ()):
            if part.judge is not None:
                yield task, number, part


def judge_places(tasks: Iterable[Task], lookup: Lookup) -> dict[tuple[str, JudgePlace], int]:
    """Return the models that judge and where, each with the number of parts that it judges."""
    counted: dict[tuple[str, JudgePlace], int] = {}
    for _, _, part in task_judges(tasks):
        assert part.judge is not None
        key = part.judge.model, judge_place(part.judge, lookup)
        counted[key] = counted.get(key, 0) + 1
    return counted


def required_powers(
    tasks: Iterable[Task], file: Path, lookup: Lookup, *, servers: bool = True
) -> tuple[trust.Power, ...]:
    """Return what tasks need the user's agreement for: their servers, and the models that judge.

    Args:
        tasks: The tasks; of the same power there is one.
        file: The file that they stand in.
        lookup: The values of settings.
        servers: The tasks are played on their own servers.
    """
    tasks = tuple(tasks)
    configs = [task.mcp_config for task in tasks] if servers else []
    powers = list(task_powers(configs, file))
    for model, place in judge_places(tasks, lookup):
        powers.append(_power(model, place, file))
    return tuple(powers)


def key_problems(
    parts: Iterable[Part], lookup: Lookup, lacking: Lacking | None = None
) -> Iterator[FieldProblem]:
    """Yield the judges of a task whose key has no value here; each is a warning.

    Args:
        parts: The parts of the task.
        lookup: The values of settings.
        lacking: Why a variable has no value, and what mends that; see `Settings.lacking`.
    """
    for number, part in enumerate(parts):
        place = None if part.judge is None else judge_place(part.judge, lookup)
        if place is None or not place.lacks_key:
            continue
        name = place.key_name or ""
        why, fix = (lacking or no_value)(name)
        message = f"{name} {why}, and the judge at {mask_url(place.endpoint)} needs it: {fix}"
        yield FieldProblem(f"evaluate[{number}].judge.key", message, NO_KEY, "warning")


def no_value(name: str) -> tuple[str, str]:
    """Return why a variable has no value, and what mends that, where no settings say so."""
    return "has no value here", "set it in the environment or in .env"


def require_keys(tasks: Iterable[Task], problems: Iterable[TaskProblem]) -> None:
    """Check that the judges of tasks that are to be played have their keys.

    Args:
        tasks: The tasks.
        problems: Those of the file that the tasks were read from.

    Raises:
        InputError: One has none.
    """
    wanted = {task.id for task in tasks}
    for one in problems:
        if one.code == NO_KEY and one.id in wanted:
            where = Location(one.file, one.line, field=one.field) if one.file else None
            raise InputError(f"task {one.id} cannot be judged", why=one.message, where=where)


def judge_lines(task: Task, lookup: Lookup) -> tuple[str, ...]:
    """Return the judges of a task, each on one line, for a question about it."""
    found = judge_places((task,), lookup)
    return tuple(f"judge {clean_line(model, 80)}: {place.words()}" for model, place in found)


def _power(model: str, place: JudgePlace, file: Path) -> trust.Power:
    text = f"{place.words()}, for the judge {model}: it is sent the prompt, what the agent says "
    text += "and what its tools answer, and each episode is a paid call"
    return trust.power("address", text, file, "judge", model, place.endpoint, place.key_name)
