"""Recognises chunks of tasks that are certainly fine, a column at a time.

It is several times as fast as `TaskChecker`.

It decides nothing on its own: whatever it does not recognise goes to `TaskChecker`, and what it
recognises is what `TaskChecker` would return.

Imports msgspec: import this module late.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from types import NoneType
from typing import Any

from hudtui.core.tasks.validate import TASK_FIELDS, TODO, CheckedTask, TaskChecker

_columns_of = itemgetter(*TASK_FIELDS)


def check_fine(
    records: Sequence[Any], start: int, checker: TaskChecker
) -> list[CheckedTask] | None:
    """Return the tasks of a chunk if all of them have the usual form and no problem.

    None if that is not certain. The usual form has the six fields of the dataset format and no
    other, an id and a prompt of plain text, at most one call for `setup_tool`, and exactly one for
    `evaluate_tool`. Calls and metadata are data, not JSON text.

    Args:
        records: Data that is known to be free of what JSON cannot hold, e.g. NaN.
        start: Index of the first record.
        checker: Knows the rules, and checks each distinct `mcp_config`.
    """
    rules = checker.rules
    if rules.analysis is not None or rules.token_budget is not None:
        return None
    if set(map(type, records)) != {dict} or set(map(len, records)) != {len(TASK_FIELDS)}:
        return None
    try:
        ids, prompts, values, setups, evaluations, metadata = zip(
            *map(_columns_of, records), strict=True
        )
    except KeyError:
        return None
    if not (
        _plain_ids(ids)
        and _plain_prompts(prompts)
        and _plain_calls(evaluations)
        and _plain_calls([call for call in setups if call is not None])
        and set(map(type, metadata)) <= {dict, NoneType}
    ):
        return None
    # Equal configurations are mostly the same object. They come last, because to compare distinct
    # ones takes longest.
    configs = {
        id(value): checker.check_config(value)
        for value in {id(value): value for value in values}.values()
    }
    if any(config.problems for config in configs.values()):
        return None
    rows = zip(
        records,
        ids,
        prompts,
        map(configs.__getitem__, map(id, values)),
        setups,
        evaluations,
        metadata,
        strict=True,
    )
    return [
        CheckedTask(
            record,
            index,
            name,
            prompt,
            config.config,
            setup or {},
            evaluation,
            data or {},
            {},
            config.other_servers,
            config.inferred,
            config.rewritten,
        )
        for index, (record, name, prompt, config, setup, evaluation, data) in enumerate(rows, start)
    ]


def _plain_ids(ids: Sequence[Any]) -> bool:
    return (
        set(map(type, ids)) == {str}
        and all(ids)
        and "".join(ids).isprintable()
        and tuple(map(str.strip, ids)) == ids
    )


def _plain_prompts(prompts: Sequence[Any]) -> bool:
    if set(map(type, prompts)) != {str} or not all(prompts) or any(map(str.isspace, prompts)):
        return False
    return not any(prompt.startswith(TODO) for prompt in prompts)


def _plain_calls(calls: Sequence[Any]) -> bool:
    """Return whether each is an object with the name of a tool.

    Its arguments, if there are any, are an object.
    """
    if not set(map(type, calls)) <= {dict}:
        return False
    names = [call.get("name") for call in calls]
    arguments = [call.get("arguments") for call in calls]
    return (
        set(map(type, names)) <= {str}
        and all(names)
        and set(map(type, arguments)) <= {dict, NoneType}
    )
