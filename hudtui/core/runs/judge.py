"""Models that judge the episodes of a run: RULER's, and those of the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hudtui.core import trust
from hudtui.core.http import is_loopback
from hudtui.core.masking import mask_url
from hudtui.core.runs.checks import Check, lacking, missing, warning
from hudtui.core.settings import DEFAULT_BASE_URL
from hudtui.core.tasks.judges import judge_place, judge_places, task_judges
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line, plural
from hudtui.core.training.recipe import ART

if TYPE_CHECKING:
    from hudtui.core.runs.work import Work
    from hudtui.core.settings import Settings

_KEY = "OPENAI_API_KEY"


def judge_power(judge: str, settings: Settings, file: Path) -> trust.Power:
    """Return what the user must agree to before a judge from a file is used.

    Its endpoint, and the key that is sent to it.
    """
    endpoint = _endpoint(settings)
    text = f"{endpoint} with {_KEY}, for the judge {judge}: each group of episodes is a paid call"
    return trust.power("address", text, file, "judge", judge, endpoint)


def judge_checks(work: Work, settings: Settings, *, remote: bool) -> Iterator[Check]:
    """Yield the check of the judge of a training with ART.

    Its endpoint, its key, and the number of its calls.
    """
    if work.judge is None:
        return
    endpoint, name = _endpoint(settings), clean_line(work.judge, 80)
    if endpoint == DEFAULT_BASE_URL and "/" in work.judge.removeprefix("openai/"):
        text = (
            f"the judge {name} is not a model of OpenAI's, and OPENAI_BASE_URL names no other "
            "endpoint"
        )
        fix = "Set OPENAI_BASE_URL to the endpoint that has this model, or name another judge."
        yield missing("judge", text, fix)
        return
    if not settings.get(_KEY) and not is_loopback(endpoint):
        yield lacking(settings, _KEY, f", and the judge {name} needs it", check="judge")
        return
    key = f" with {_KEY}" if settings.get(_KEY) else ""
    text = f"{name} at {mask_url(endpoint)}{key}"
    if work.job is not None:
        recipe = work.job.recipe
        calls = plural(recipe.steps * (recipe.groups_per_step or ART["groups_per_step"]), "call")
        text += f": about {calls}, for which its endpoint may charge"
    if judge_port(work, settings, remote=remote) is not None:
        text += "; it is reached through a tunnel: hudtui has to stay open until the run ends"
    yield warning("judge", text)


def judge_port(work: Work, settings: Settings, *, remote: bool) -> int | None:
    """Return the port of this computer that the judge of a run on another machine listens on.

    None for other judges.
    """
    endpoint = _endpoint(settings)
    if work.judge is None or not remote or not is_loopback(endpoint):
        return None
    return urlsplit(endpoint).port or 80


def task_judge_checks(
    tasks: Sequence[Task], settings: Settings, *, remote: bool
) -> Iterator[Check]:
    """Yield the checks of the models that judge tasks: their endpoints and keys.

    `remote`: the run's machine is another one. It reaches no endpoint of this computer.
    """
    for (model, place), count in judge_places(tasks, settings.lookup).items():
        name, endpoint = clean_line(model, 80), mask_url(place.endpoint)
        if remote and is_loopback(place.endpoint):
            text = (
                f"the judge {name} of {plural(count, 'task')} listens on this computer alone, at "
            )
            text += f"{endpoint}, and the run's machine cannot reach it"
            fix = "Name an endpoint that both reach, or run on this computer."
            yield missing("judge", text, fix)
        elif place.lacks_key and place.key_name is not None:
            why = f", and the judge {name} at {endpoint} needs it"
            yield lacking(settings, place.key_name, why, check="judge")
        else:
            text = (
                f"{name} at {place.words()} judges {plural(count, 'task')}: each episode is sent "
            )
            yield warning("judge", f"{text}there, and is a call for which it may charge")


def task_judge_names(tasks: Iterable[Task], settings: Settings) -> tuple[str, ...]:
    """Return the settings that the judges of tasks are reached with."""
    names: dict[str, None] = {}
    for _, _, part in task_judges(tasks):
        assert part.judge is not None
        key = judge_place(part.judge, settings.lookup).key_name
        names |= dict.fromkeys(filter(None, (key,)))
        if part.judge.endpoint is None:
            names["OPENAI_BASE_URL"] = None
    return tuple(names)


def _endpoint(settings: Settings) -> str:
    return settings.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
