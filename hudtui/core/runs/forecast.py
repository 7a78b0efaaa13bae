"""The cost of a whole training, before it starts and while it runs.

It follows from its steps and the measured time of a step.

Times are never guessed: without an earlier run of the same work, the forecast says that the time of
a step is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from hudtui.core.compute.budget import RUN_TAIL
from hudtui.core.compute.gpus import split_type
from hudtui.core.compute.limits import Limits
from hudtui.core.compute.values import Price
from hudtui.core.errors import InputError, RunError
from hudtui.core.runs.results import results_folder
from hudtui.core.runs.spec import Rental, RunSpec
from hudtui.core.runs.store import RunRecord, RunStore, results_folder_of
from hudtui.core.runs.values import RunSummary
from hudtui.core.text import clean_line, duration, money
from hudtui.core.training.engines import features_of, find_engine, recipe_for
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.recipe import Recipe

HOUR = 3600.0
_MOST = 16 * 1024 * 1024
"""Largest number of bytes of an earlier run's metrics that are read, from the start."""
_LOOKED = 50
"""Number of the newest earlier runs that are searched."""
_FEWEST = 2
"""Smallest number of steps over which a time must have been measured."""
_WORK = (
    *(
        "batch_size",
        "gradient_accumulation",
        "num_generations",
        "num_iterations",
        "max_tokens",
        "max_seq_len",
        "max_turns",
    ),
    *(
        "lora",
        "lora_rank",
        "gradient_checkpointing",
        "bf16",
        "enforce_eager",
        "gpu_memory_utilization",
    ),
)
"""Settings of the trainer on which the time of a step depends."""


@dataclass(frozen=True)
class StepTime:
    """The time of a step, measured in an earlier run."""

    seconds: float
    """Seconds from one step to the next, including evaluations and checkpoints."""
    steps: int
    """Number of steps over which the time was measured."""
    run: str
    """Id of that run."""
    besides: float | None = None
    """Seconds of paid machine time besides the steps: setup, downloads, results. None if not
    measured."""


@dataclass(frozen=True)
class Forecast:
    """Time and cost of a whole training before it starts."""

    steps: int
    """Number of steps that the training will do."""
    text: str
    """The forecast in one sentence, for people."""
    step: StepTime | None = None
    """The measured time of a step; None if it is not known yet."""
    seconds: float | None = None
    """Expected duration in seconds: of the steps, and of setup and results if that was
    measured."""
    expected: float | None = None
    """Expected cost in `currency`; None if it is not known, or the machine is the user's own."""
    highest: float | None = None
    """The most that the machine can cost before its limits end it; None if no amount is certain."""
    at_limit: float | None = None
    """Cost at which the limits stop the work; None without a limit, or if the price is not
    stated."""
    currency: str = "USD"
    exceeds: bool = False
    """True if a limit ends the machine before the steps are done."""


def forecast(
    spec: RunSpec, store: RunStore, *, ends: bool, host: str = "local", gpu: str = ""
) -> Forecast | None:
    """Return the expected time and cost of a training. Reads the metrics of earlier runs.

    `host` names a machine that is not rented. `ends` says that the machine is ended at its limits
    even if hudtui is closed. `gpu` is the name of the GPUs for sentences; by default that of the
    offer's GPUs.

    Returns:
        None for rollouts and rehearsals.

    Raises:
        InputError: A setting of the training is invalid.
    """
    if spec.rehearse or not features_of(spec.engine).trains:
        return None
    recipe = recipe_for(spec)
    done = 0 if spec.continues is None or spec.continues.step is None else spec.continues.step
    steps = max(recipe.steps - done, 0)
    step = find_step_time(spec, store, host=host)
    rent = spec.rent
    highest = None if rent is None else highest_cost(rent, spec.limits, ends=ends)
    limit = None if rent is None else _limit_hours(rent, spec.limits)
    at_limit = (
        rent.offer.price.for_hours(limit)
        if rent is not None and limit is not None and rent.offer.price.stated
        else None
    )
    currency = "USD" if rent is None else rent.currency
    made = Forecast(steps, "", step, highest=highest, at_limit=at_limit, currency=currency)
    gpu = gpu or (
        f"{rent.offer.gpu_count} x {rent.offer.gpu_type}{rent.offer.spread}"
        if rent is not None
        else "this machine"
    )
    if step is None:
        model = clean_line(recipe.model.rpartition("/")[2], 60)
        unknown = (
            f"The time of a step is not known yet: no run here has trained {model} on "
            f"{clean_line(gpu, 60)} with these settings"
        )
        return replace(made, text=_sentence(unknown, made))
    seconds = steps * step.seconds + ((step.besides or 0.0) if rent is not None else 0.0)
    took = f"{steps:,} steps of {_seconds(step.seconds)} as in run {step.run}"
    if rent is None:
        return replace(made, seconds=seconds, text=f"About {duration(seconds)}: {took}.")
    if not rent.offer.price.stated:
        return replace(
            made,
            seconds=seconds,
            text=f"About {duration(seconds)}: {took}; the price is not known.",
        )
    expected = rent.offer.price.for_hours(seconds / HOUR)
    besides = (
        f", and {duration(step.besides)} for setup and results"
        if step.besides is not None
        else ", without the time of setup"
    )
    made = replace(
        made,
        seconds=seconds,
        expected=expected,
        exceeds=limit is not None and seconds > limit * HOUR,
    )
    return replace(
        made,
        text=_sentence(f"About {money(expected, rent.currency)} in all: {took}{besides}", made),
    )


def _sentence(text: str, made: Forecast) -> str:
    if made.highest is not None:
        text += f"; at most about {money(made.highest, made.currency)} by its limits"
    elif made.at_limit is not None:
        text += f"; its limits stop the work at about {money(made.at_limit, made.currency)}"
    if made.exceeds:
        text += "; its limits end it before the last step"
    return f"{text}."


def highest_cost(rent: Rental, limits: Limits, *, ends: bool) -> float | None:
    """Return the most that a rented machine can cost before its limits end it.

    `ends` says that the machine is ended at its limits even if hudtui is closed.

    Returns:
        The amount, or None if no amount is certain: without a limit, with a price that may change
            or is not stated, if only
        hudtui could end the machine, or if the machine of a failed run is kept.
    """
    price, hours = rent.offer.price, _limit_hours(rent, limits)
    if hours is None or not ends or not price.stated or price.variable or rent.keep_on_failure:
        return None
    return price.for_hours(hours + RUN_TAIL / HOUR)


def _limit_hours(rent: Rental, limits: Limits) -> float | None:
    """Return the hours after which the limits of a machine stop the work on it.

    None without a limit.
    """
    bounds = [] if limits.max_hours is None else [limits.max_hours]
    if limits.run_budget is not None and rent.hourly > 0:
        bounds.append(limits.run_budget / rent.hourly)
    return min(bounds, default=None)


def expected_cost(
    spec: RunSpec, summary: RunSummary, left: float | None, now: float
) -> float | None:
    """Return the expected total cost of a run that is active on a rented machine.

    `left` is the estimated number of seconds until the last step.

    Returns:
        The cost until the last step, in `summary.currency`; None if it is not known.
    """
    if (
        spec.rent is None
        or left is None
        or not summary.holds_machine
        or summary.hourly is None
        or summary.held_since is None
    ):
        return None
    hours = (max(now - summary.held_since, 0.0) + left) / HOUR
    prepaid = spec.rent.offer.price.prepaid_hours
    return Price(summary.hourly, prepaid_hours=prepaid).for_hours(hours)


# --- earlier runs ---------------------------------------------------------------------------------


def find_step_time(spec: RunSpec, store: RunStore, *, host: str = "local") -> StepTime | None:
    """Return the time of a step, measured in the newest run of the same work.

    None without such a run. The same work means the same engine, model, kind and number of GPUs,
    and settings on which the time of a step depends. `host` names a machine that is not rented.
    """
    wanted = _work(spec, host)
    for summary in [one for one in reversed(store.runs()) if one.engine == spec.engine][:_LOOKED]:
        try:
            record = store.record(summary.id)
            if not record.own or record.spec.rehearse or _work(record.spec, record.host) != wanted:
                continue
            found = measure_steps(record, summary, store)
        except (InputError, RunError):
            continue
        if found is not None:
            return found
    return None


def _work(spec: RunSpec, host: str) -> tuple[Any, ...]:
    recipe: Recipe = recipe_for(spec)
    rent = spec.rent
    place = (
        (host, spec.gpus, spec.gpu_memory) if rent is None else (*_gpu(rent), rent.offer.node_gpus)
    )
    settings = tuple(getattr(recipe, name) for name in _WORK)
    return spec.engine, recipe.model, place, spec.nodes, settings


def _gpu(rent: Rental) -> tuple[str, float | None]:
    """Return the kind of a GPU independently of the provider.

    Its plain name, and its memory in GB.
    """
    name, memory = split_type(rent.offer.gpu_type)
    return name, rent.offer.gpu_memory or memory


def measure_steps(record: RunRecord, summary: RunSummary, store: RunStore) -> StepTime | None:
    """Return the time of a step in a run, from its metrics on this computer.

    None if they do not contain it.
    """
    output = record.plan.output("metrics")
    if output is None:
        return None
    folder = Path(results_folder_of(summary) or results_folder(record, store))
    try:
        with open(folder / output.path, "rb") as stream:
            data = stream.read(_MOST)
    except OSError:
        return None
    reader = find_engine(record.engine).reader()
    reader.feed(data)
    found = _pace(reader)
    if found is None:
        return None
    seconds, steps, first, last = found
    besides = None
    if (
        summary.state == "finished"
        and summary.released is not None
        and summary.held_since is not None
    ):
        carried_out = last - first + 1
        besides = max(summary.released - summary.held_since - carried_out * seconds, 0.0)
    return StepTime(seconds, steps, record.id, besides)


def _pace(reader: MetricsReader) -> tuple[float, int, float, float] | None:
    """Return the seconds of a step, the steps measured, and the first and last step.

    The steps measured are a number.
    """
    points = [point for point in reader.quantity("reward") if point.at is not None]
    if len(points) > _FEWEST:
        spans = [
            (after.x - before.x, (after.at or 0.0) - (before.at or 0.0))
            for before, after in pairwise(points)
        ]
        # The mean includes evaluations and checkpoints, but not the pause between two attempts.
        usual = median(span / steps for steps, span in spans if steps > 0)
        good = [
            (steps, span) for steps, span in spans if steps > 0 and 0 < span < 20 * usual * steps
        ]
        if good:
            count = sum(steps for steps, _ in good)
            return sum(span for _, span in good) / count, int(count), points[0].x, points[-1].x
    times = [point.y for point in reader.quantity("step_time") if point.y > 0]
    steps_of = [point.x for point in reader.quantity("step_time")]
    if len(times) < _FEWEST:
        return None
    return median(times), len(times), steps_of[0], steps_of[-1]


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s" if value < 600 else duration(value)
