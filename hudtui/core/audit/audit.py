"""The audit: its episodes are played, each check is asked, and what follows is left out."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from hudtui.core.audit.checks import CHECKS, Check, Sign
from hudtui.core.audit.facts import Facts, is_one
from hudtui.core.audit.leftovers import marked
from hudtui.core.audit.play import Match, Played, Ring, random_episodes, signal
from hudtui.core.audit.players import WEAK
from hudtui.core.audit.values import UNSOUND, Audit, AuditFinding, Proof, Verdict
from hudtui.core.diagnosis.values import SEVERITIES, Remedy
from hudtui.core.events import Notice, Progress
from hudtui.core.results.baseline import spread_chance, spread_estimate
from hudtui.core.rollouts.evaluate import secrets_of
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.text import clean_line, plural

_MOST_PROOFS = 5
_FEWEST = 12
"""Graded episodes from which there is evidence."""


@dataclass(frozen=True)
class AuditFinished:
    """The audit is over."""

    audit: Audit


async def audit(
    ring: Ring, *, context: int = 4096, recorded: Sequence[Played] = ()
) -> AsyncGenerator[Progress | Notice | AuditFinished, None]:
    """Play the audit of an environment, and judge it; consume it inside `contextlib.aclosing`.

    Args:
        ring: The tasks, and how they are played.
        context: Tokens of a conversation with the model.
        recorded: Episodes of a good player that were played before.

    Raises:
        HudtuiError: The environment cannot be reached.
    """
    began = time.monotonic()
    secrets = {one for task in ring.tasks for one in secrets_of(task.mcp_config, ring.lookup)}
    with marked() as mark:
        tasks = tuple(replace(task, mcp_config=mark.put(task.mcp_config)) for task in ring.tasks)
        match = Match(replace(ring, tasks=tasks))
        async with aclosing(match.play()) as events:
            async for event in events:
                yield event
        leftovers = None if match.broke_off else await mark.leftovers()
    names = {one.player for one in recorded}
    facts = Facts(
        config=ring.config,
        tasks={task.id: task for task in ring.tasks},
        played=(*match.played, *recorded),
        tools=match.tools,
        strong=tuple(dict.fromkeys((*ring.strong, *names))),
        secrets=tuple(one for one in secrets if len(one) >= 8),
        context=context,
        leftovers=leftovers,
    )
    yield AuditFinished(replace(judge(facts, ring), seconds=time.monotonic() - began))


def judge(facts: Facts, ring: Ring) -> Audit:
    """Return what the episodes of an audit say."""
    signs: dict[str, Sign] = {}
    unseen = []
    for name, known in CHECKS.items():
        if not _sees(facts, known.needs):
            unseen.append(name)
        elif (sign := known.test(facts)) is not None:
            signs[name] = sign
    explained = {one for name in signs for one in CHECKS[name].explains}
    findings = [
        _finding(CHECKS[name], sign) for name, sign in signs.items() if name not in explained
    ]
    findings.sort(key=lambda one: SEVERITIES.index(one.severity))
    verdict, why = _verdict(facts, findings, len(CHECKS) - len(unseen))
    drawn = random_episodes(facts.played)
    own = spread_estimate((list(map(facts.points, ones)) for ones in drawn.values()), ring.group)
    return Audit(
        verdict,
        why,
        tuple(findings),
        sum(one.episode.ok for one in facts.played),
        len(facts.tasks),
        signal(facts.played, ring),
        None if own is None else own.value,
        ring.group,
        {
            task: spread_chance([one.episode.scores.reward for one in ones], ring.group)
            for task, ones in drawn.items()
            if len(ones) > 1
        },
        tuple(unseen),
    )


def _sees(facts: Facts, needs: str) -> bool:
    """Return whether the episodes that a check needs were played."""
    return {
        "any": bool(facts.played),
        "weak": bool(facts.of(WEAK)),
        "good": facts.has_good,
        "solution": bool(facts.of((SOLUTION,))),
        "alone": bool(facts.alone),
        "crowd": bool(facts.alone and facts.crowd),
        "others": bool(facts.of(("other-task",))),
        "leftovers": facts.leftovers is not None,
    }[needs]


def _finding(check: Check, sign: Sign) -> AuditFinding:
    proofs = tuple(
        Proof(one.file, one.number, one.player, one.task, clean_line(words, 200))
        for one, words in sign.proofs[:_MOST_PROOFS]
    )
    remedies = tuple(map(Remedy, check.remedies))
    severity = sign.severity or check.severity
    return AuditFinding(check.name, clean_line(sign.title, 300), severity, proofs, remedies)


def _verdict(facts: Facts, findings: Sequence[AuditFinding], made: int) -> tuple[Verdict, str]:
    """Return the verdict, and why, after so many checks were made."""
    bad = [one.signature for one in findings if one.severity in UNSOUND]
    if bad:
        return "unsound", f"what a training would be misled by: {', '.join(bad)}"
    graded = [grade for one in facts.open if (grade := facts.grade(one)) is not None]
    if len(graded) < _FEWEST:
        return "not enough evidence", f"only {len(graded)} episodes came to a graded end"
    if is_one(graded):
        return (
            "not enough evidence",
            f"all players earn {graded[0]:.3g}, and no good one has played: give the tasks a "
            "solution, name a model (-m), or recorded episodes (--episodes)",
        )
    if findings:
        worst = findings[0].severity
        return "sound", f"{plural(len(findings), 'finding')}, none worse than {worst}"
    return "sound", f"none of {made} checks found what would mislead a training"
