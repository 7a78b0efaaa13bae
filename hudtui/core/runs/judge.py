"""The judge of RULER: its model, its endpoint, and the number of its calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hudtui.core import trust
from hudtui.core.environment.servers import mask_url
from hudtui.core.errors import InputError
from hudtui.core.files import read_text
from hudtui.core.http import is_loopback
from hudtui.core.rollouts.chat import DEFAULT_BASE_URL
from hudtui.core.runs.request import RunRequest
from hudtui.core.text import clean_line, plural
from hudtui.core.training.recipe import ART, read_settings, settings_taken

if TYPE_CHECKING:
    from hudtui.core.runs.preflight import PreflightReport
    from hudtui.core.settings import Settings

_KEY = "OPENAI_API_KEY"


def judge_power(judge: str, settings: Settings, file: Path) -> trust.Power:
    """Return what the user must agree to before a judge from a file is used: its endpoint, and the key that is sent to it."""
    endpoint = _endpoint(settings)
    text = f"{endpoint} with {_KEY}, for the judge {judge}: each group of episodes is a paid call"
    return trust.power("address", text, file, "judge", judge, endpoint)


def judge_of(request: RunRequest) -> str | None:
    """Return the judge of a training with ART; None without one."""
    judge = _settings(request).get("ruler") if "ruler" in settings_taken(request.features) else None
    return judge if isinstance(judge, str) else None


def require_judge(request: RunRequest, settings: Settings) -> None:
    """Check that the user has agreed to a judge that a file with settings of the trainer names.

    Raises:
        Untrusted: The user has not agreed.
    """
    judge = judge_of(request)
    if judge is not None and request.training is not None and "ruler" not in request.settings:
        trust.require(settings.folder, [judge_power(judge, settings, request.training)])


def check_judge(request: RunRequest, settings: Settings, report: PreflightReport, *, remote: bool) -> None:
    """Check the judge of a training with ART: its endpoint, its key, and the number of its calls."""
    judge = judge_of(request)
    if judge is None:
        return
    endpoint, name = _endpoint(settings), clean_line(judge, 80)
    here = is_loopback(endpoint)
    if endpoint == DEFAULT_BASE_URL and "/" in judge.removeprefix("openai/"):
        text = f"the judge {name} is not a model of OpenAI's, and OPENAI_BASE_URL names no other endpoint"
        report.add("judge", "missing", text, "Set OPENAI_BASE_URL to the endpoint that has this model, or name another judge.")
        return
    if not settings.get(_KEY) and not here:
        report.lack(settings, _KEY, f", and the judge {name} needs it", check="judge")
        return
    given = _settings(request)
    steps = request.steps or given.get("steps") or ART["steps"]
    calls = plural(steps * (given.get("groups_per_step") or ART["groups_per_step"]), "call")
    key = f" with {_KEY}" if settings.get(_KEY) else ""
    text = f"{name} at {mask_url(endpoint)}{key}: about {calls}, for which its endpoint may charge"
    if here and remote:
        port = urlsplit(endpoint).port or 80
        if port not in report.tunnels:
            report.tunnels.append(port)
        text += "; it is reached through a tunnel: hudtui has to stay open until the run ends"
    report.add("judge", "warning", text)


def _settings(request: RunRequest) -> dict[str, Any]:
    try:
        file = {} if request.training is None else read_settings(read_text(request.training), name=str(request.training))
    except InputError:
        file = {}  # the plan reports the error
    return {**file, **request.settings}


def _endpoint(settings: Settings) -> str:
    return settings.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
