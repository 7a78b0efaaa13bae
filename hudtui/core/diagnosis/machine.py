"""Signatures of trouble with a run's machine, its programs and its log."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from math import isfinite
from statistics import median

from hudtui.core.compute.hardware import size
from hudtui.core.diagnosis.facts import Alarm, LogSymptom, RunFacts, StageFacts, seconds
from hudtui.core.diagnosis.symptoms import ANY_SERVER_FIX, ANY_TRAINER_FIX, HOST_FIX
from hudtui.core.diagnosis.table import Finder, watched, words
from hudtui.core.text import clean_line, step_text
from hudtui.core.training.features import Advice

DEAD_QUIET = 60.0
"""Seconds without a log line of the running stage after which it waits for its model server, which
is known to be dead."""
STUCK = 60.0
"""Seconds in which a server has requests but generates no token, after which an alarm is raised."""
DISK_FULL = 512 * 1024**2
"""Free bytes below which a disk is full."""


@watched(
    "heartbeat",
    "The run shows no sign of life",
    "The machine may be gone, or its supervisor killed; it costs money all the same.",
    threshold="heartbeat",
    severity="critical",
    advice=words("The next start of hudtui takes the run up again."),
)
def _heartbeat(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    if facts.active and facts.silent is not None and facts.silent > limit:
        yield Alarm(
            "heartbeat",
            "error",
            f"no sign of life for {seconds(facts.silent)}",
            "The machine may be gone, or its supervisor killed: the next start of hudtui takes the "
            "run up again.",
            mark="" if facts.beat is None else f"{facts.beat:.0f}",
        )


def _memory_fix(sign: LogSymptom, advice: Advice | None) -> str | None:
    """Return the fix of a symptom, in the words of the engine where it is known."""
    if advice is not None and sign.fix == ANY_TRAINER_FIX:
        return advice.trainer
    if advice is not None and sign.fix == ANY_SERVER_FIX:
        return advice.server
    return sign.fix


@watched(
    "memory",
    "Memory has run out, or nearly",
    "A GPU or the machine is full: a stage ends, or the system kills it.",
    threshold="memory",
    severity="critical",
    advice=words("Lower batch_size or max_seq_len, or take a machine with more memory."),
)
def _memory(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    told: set[str] = set()
    for sign in facts.signs:
        if sign.kind == "memory" and sign.stage not in told:
            told.add(sign.stage)
            fix = _memory_fix(sign, facts.advice)
            text = f"{sign.stage} ran out of memory: {sign.line}"
            yield Alarm("memory", "error", text, fix, sign.stage, sign.line, logged=True)
    for stage in facts.stages:
        if stage.state == "ended" and stage.exit == -9 and stage.name not in told and facts.active:
            yield Alarm(
                "memory",
                "error",
                f"{stage.name} was killed (SIGKILL), mostly for want of memory",
                HOST_FIX,
                stage.name,
            )
    used, total = facts.memory_used, facts.memory_total
    if facts.active and used is not None and total and 100 * used >= limit * total:
        text = f"{used / total:.0%} of the machine's memory of {size(int(total))} is in use"
        fix = (
            "Use a machine with more memory, or fewer episodes at once, before the system kills a "
            "process."
        )
        yield Alarm("memory", "warning", text, fix)


@watched(
    "server",
    "A model server is dead, or makes no token",
    "The training waits for it, perhaps in vain.",
    threshold="server",
    severity="critical",
    advice=words("Stop the run and start it again; the cause is in the server's log."),
)
def _server(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    if not facts.active:
        return
    signs = {sign.stage: sign for sign in reversed(facts.signs) if sign.kind == "server"}
    if not facts.stages:  # a session that hudtui did not start: only its lines tell of its servers
        for name, sign in signs.items():
            yield Alarm(
                "server",
                "error",
                f"the server of {name} is dead: {sign.line}",
                None,
                name,
                logged=True,
            )
    working = [
        stage
        for stage in facts.stages
        if not stage.service and stage.state in ("running", "starting")
    ]
    quiet = max((stage.quiet or 0.0 for stage in working), default=0.0)
    for stage in facts.stages:
        reported = signs.get(stage.name)
        how = _trouble(stage, reported, limit)
        if not working or how is None:
            continue
        why = f" ({reported.line})" if reported else ""
        if quiet > DEAD_QUIET:
            who = ", ".join(one.name for one in working)
            text = (
                f"{stage.name} {how}{why}, and {who} has said nothing for {seconds(quiet)}: it "
                "waits in vain"
            )
            yield Alarm(
                "server",
                "error",
                text,
                "Stop the run and start it again; the cause is in the server's log.",
                stage.name,
            )
        else:
            yield Alarm(
                "server",
                "warning",
                f"{stage.name} {how}{why} while the run continues",
                None,
                stage.name,
            )


def _trouble(stage: StageFacts, sign: LogSymptom | None, limit: float) -> str | None:
    """Return the problem of a model server.

    None without a problem, or if the stage is not a server.
    """
    if stage.service and stage.state == "ended":
        return "is dead" if stage.exit is None else f"ended with status {stage.exit}"
    if stage.unanswered > limit:
        return f"has not answered for {seconds(stage.unanswered)}"
    if stage.stuck > STUCK:
        return f"has requests, but has made no token for {seconds(stage.stuck)}"
    return "is dead" if sign else None


@watched(
    "disk",
    "The disk is nearly full",
    "No checkpoint can be written on a full disk.",
    threshold="disk",
    severity="high",
    advice=words("Remove old checkpoints and caches on the machine."),
)
def _disk(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    free = facts.disk_free
    if facts.active and free is not None and isfinite(limit) and free < limit * 2**30:
        full = free < DISK_FULL
        yield Alarm(
            "disk",
            "error" if full else "warning",
            f"the disk{facts.disk_of and f' of {facts.disk_of}'} is "
            f"{'full' if full else 'nearly full'}: {size(free)} left",
            "Remove old checkpoints or downloads on the machine (keep_checkpoints, the caches in "
            "~/.cache).",
        )


@watched(
    "quiet",
    "A stage logs nothing",
    "It may hang: it takes longer than three of its steps.",
    threshold="quiet",
    severity="high",
    advice=words("Look at the end of its log, and at the load of the machine."),
)
def _quiet(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    if not facts.active:
        return
    usual = median(point.y for point in facts.step_times) if facts.step_times else 0.0
    patience = max(60 * limit, 3 * usual)
    for stage in facts.stages:
        if (
            not stage.service
            and stage.state == "running"
            and stage.quiet is not None
            and stage.quiet > patience
        ):
            text = f"{stage.name} has logged nothing for {seconds(stage.quiet)}"
            mark = "" if stage.grew is None else f"{stage.grew:.0f}"
            yield Alarm("quiet", "warning", text, None, stage.name, mark)


def not_finite(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    """Yield an alarm where the newest numbers are not finite."""
    wrong = [streak for streak in facts.wrong if streak.count >= limit]
    if wrong:
        first = min(wrong, key=lambda streak: streak.x)
        names = ", ".join(dict.fromkeys(clean_line(streak.name, 40) for streak in wrong[:4]))
        yield Alarm(
            "not-a-number",
            "error",
            f"{names} {'are' if len(wrong) > 1 else 'is'} NaN or infinite since step "
            f"{step_text(first.x)}",
            "The weights are lost: stop the run, continue from a checkpoint, lower learning_rate "
            "or max_grad_norm.",
            mark=f"{first.x:g}",
        )


def flat_groups(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    """Yield an alarm where the newest steps have equal rewards in each group."""
    count = sum(1 for _ in takewhile(lambda point: abs(point.y) < 1e-9, reversed(facts.spread)))
    if facts.active and count and count >= limit:
        yield Alarm(
            "constant-reward",
            "warning",
            f"zero reward variance within groups for {count} steps: there is no gradient",
            "Tasks that sometimes succeed, a higher temperature, or more num_generations.",
            mark=f"{facts.spread[-count].x:g}",
        )


def broken_episodes(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    """Yield an alarm where many episodes of a step break off."""
    many = tuple(takewhile(lambda point: 100 * point.y >= limit, reversed(facts.broken)))
    if facts.active and many:
        text = (
            f"{many[0].y:.0%} of the episodes of step {step_text(many[0].x)} broke off: nothing is "
            "learned from them"
        )
        yield Alarm(
            "episodes-break",
            "warning",
            text,
            "The log and the results name the reasons.",
            mark=f"{many[-1].x:g}",
        )


def logged(name: str) -> Finder:
    """Return what yields an alarm for each log line with the symptom of a signature."""

    def find(facts: RunFacts, limit: float) -> Iterable[Alarm]:
        signs = dict.fromkeys(sign for sign in facts.signs if sign.kind == name)
        for sign in signs if facts.active else ():
            text = f"{sign.stage}: {sign.line}"
            yield Alarm(name, "warning", text, sign.fix, sign.stage, logged=True)

    return find


watched(
    "server-silent",
    "The training waits for the model's server",
    "The server does not answer, often because the GPU's memory was full.",
    severity="high",
    advice=words(
        "Look at the end of the server's log.", "Lower gpu_memory_utilization or max_seq_len."
    ),
)(logged("server-silent"))
watched(
    "optimizer-lost",
    "The state of the optimizer was lost when the training went on",
    "The next steps are worse than the last ones before, until its averages are built up again.",
    severity="low",
    advice=words("Judge the run by its later steps."),
)(logged("optimizer-lost"))
