"""Secrets that are written out in a task, masked for display."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

from hudtui.core.masking import looks_secret
from hudtui.core.platform import Platform
from hudtui.core.tasks.servers import masked, without_secrets

_PAIR = re.compile(r'("([^"\\\n]{1,80})"\s*:\s*")((?:[^"\\]|\\.)*)"')


def masked_config(config: Any, platform: Platform) -> Any:
    """Return a copy of an `mcp_config` with every literal secret masked."""
    if not isinstance(config, Mapping):
        return masked_text(config) if isinstance(config, str) else config
    return _masked(copy.deepcopy(dict(config)), without_secrets(config, platform))


def _masked(value: Any, without: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        other = without if isinstance(without, Mapping) else {}
        return {key: _masked(item, other.get(key, item), str(key)) for key, item in value.items()}
    if isinstance(value, list):
        others = without if isinstance(without, list) and len(without) == len(value) else value
        return [_masked(item, other, name) for item, other in zip(value, others, strict=True)]
    if (
        isinstance(value, str)
        and "$" not in value
        and value
        and (value != without or looks_secret(name))
    ):
        head, blank, secret = value.rpartition(" ")
        if "=" in value and value != without:
            head, blank, secret = value.rpartition("=")
        return f"{head}{blank}{masked(secret)}"
    if isinstance(value, str) and value != without:
        return masked(value)
    return value


def masked_json(text: str, platform: Platform) -> str:
    """Return the JSON text of an `mcp_config` with every literal secret masked."""
    return json.dumps(masked_config(json.loads(text), platform), ensure_ascii=False)


def masked_text(text: str) -> str:
    """Return text with the values of keys that sound like secrets masked.

    The text may be damaged JSON.
    """

    def hide(match: re.Match[str]) -> str:
        if "$" in match[3] or not match[3] or not looks_secret(match[2]):
            return match[0]
        return f'{match[1]}{masked(match[3])}"'

    return _PAIR.sub(hide, text)
