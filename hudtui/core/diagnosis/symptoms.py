"""Log lines that tell of trouble."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hudtui.core.diagnosis.facts import LogSymptom
from hudtui.core.text import clean_line
from hudtui.core.training.features import ANY_MODEL, ANY_SERVER

ANY_TRAINER_FIX = f"{ANY_MODEL} With ART: max_seq_length or rollouts_per_group."
ANY_SERVER_FIX = f"{ANY_SERVER} With ART: gpu_memory_utilization or max_seq_length."
"""Fixes in the words of every engine: a log line alone tells none."""
HOST_FIX = "The machine's own memory was full: a machine with more, or fewer episodes at once."

_SYMPTOMS: tuple[tuple[str, str, str | None, str | None], ...] = (
    (
        "memory",
        r"(?:CUDA|HIP|XPU) out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED",
        None,
        ANY_TRAINER_FIX,
    ),
    (
        "memory",
        r"No available memory for the cache blocks|KV cache .{0,80}(?:larger than|exceed)|"
        r"Free memory on device .{0,120}less than desired"
        r"|max seq len .{0,60}is larger than the maximum number of tokens",
        None,
        ANY_SERVER_FIX,
    ),
    (
        "memory",
        r"\bOut of memory: Killed process\b|\boom-kill\b|MemoryError(?:$|:)|Cannot allocate memory",
        None,
        HOST_FIX,
    ),
    (
        "server",
        r"EngineDeadError|EngineCore (?:died|encountered a fatal error|failed to start)"
        r"|Engine core initialization failed|"
        r"Engine core proc .{0,60}died unexpectedly|MQLLMEngine terminated"
        r"|Background loop has errored",
        None,
        None,
    ),
    (
        "no-spread",
        r"Skipping tuning as there is no suitable data|the rewards of each group are equal",
        "a step had equal rewards in each group, and nothing was learned from it",
        "Tasks that sometimes succeed, a higher temperature, more episodes a task, or a judge "
        "(--ruler).",
    ),
    (
        "optimizer-lost",
        r"the state of the optimizer is not kept",
        "the training was started again: the adapter was kept, the state of the optimizer was lost",
        "The next steps may be worse than the last ones before.",
    ),
    (
        "context-full",
        r"longer than the model's \d+ tokens|maximum context length is \d+ tokens",
        "conversations are longer than the model's context, and their episodes break off",
        "Raise max_seq_len, or lower max_turns or what a tool answers.",
    ),
    (
        "server-silent",
        r"the model's server (?:has not answered for|does NOT answer)",
        "the model's server does not answer, and the episodes wait for it",
        "Look at the end of its log; often the GPU's memory was full: lower gpu_memory_utilization "
        "or max_seq_len.",
    ),
)
"""Signature, pattern, meaning (None: the line itself is shown) and fix of each symptom. The first
matching pattern counts. The symptoms of a training are from issues of ART: #346, #377, #395, #469,
#472."""
_WORDS = (
    *(
        "emory",
        "ALLOC_FAILED",
        "KV cache",
        "max seq len",
        "oom-kill",
        "Engine",
        "Background loop",
        "Skipping tuning",
    ),
    *(
        "rewards of each group",
        "optimizer is not kept",
        "longer than the model",
        "maximum context",
        "model's server",
    ),
)
"""Every symptom contains one of these words, so most lines are ruled out by this cheap test."""


def find_symptom(stage: str, line: str) -> LogSymptom | None:
    """Return the symptom in a log line, or None."""
    if not any(word in line for word in _WORDS):
        return None
    for kind, pattern, meaning, fix in _SYMPTOMS:
        if re.search(pattern, line):
            return LogSymptom(kind, stage, meaning or clean_line(line, 200), fix)
    return None


def find_symptoms(stage: str, lines: Sequence[str]) -> tuple[LogSymptom, ...]:
    """Return the symptoms in log lines, as `find_symptom` finds them at the start of each line.

    Fast without symptoms.
    """
    text = "\n".join(lines)
    if not any(word in text for word in _WORDS):
        return ()
    return tuple(sign for line in lines if (sign := find_symptom(stage, line[:2000])) is not None)
