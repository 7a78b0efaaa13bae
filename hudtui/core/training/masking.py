"""Settings and arguments of a run, as they may be shown: what looks like a secret is masked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hudtui.core.masking import MASK, mask_text, names_secret, without_login

_TOKENIZER = re.compile(r"<[^<>]*>|\[[A-Z]+\]|\s*")
"""What a tokenizer's own tokens look like, such as `<pad>` and `[SEP]`."""
_COUNT = re.compile(r"[-+]?\d[\d_]{0,8}")
"""A count of tokens, as in `--max-tokens 4096`."""
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")


def mask_setting(name: str, value: Any, *, secret: bool = False) -> Any:
    """Return a setting that can be shown.

    Texts below a name of secrets (`api_key`, `hub_token`, `credentials`) are masked, at any depth;
    in others, logins of addresses and what follows `token=` and the like. Numbers stay.

    Args:
        name: Its name.
        value: A value of JSON.
        secret: A name above it is that of a secret.
    """
    secret = secret or names_secret(name)
    if isinstance(value, dict):
        return {key: mask_setting(str(key), one, secret=secret) for key, one in value.items()}
    if isinstance(value, list):
        if not secret and all(isinstance(one, str) for one in value):
            return mask_arguments(value)
        return [mask_setting(name, one, secret=secret) for one in value]
    if not isinstance(value, str):
        return value
    if not secret:
        if value.startswith(("{", "[")) and (inner := _parsed(value)) is not None:
            return json.dumps(mask_setting(name, inner), ensure_ascii=False)
        text = mask_text(without_login(value))
        return " ".join(mask_arguments(text.split(" "))) if " -" in text else text
    if _TOKENIZER.fullmatch(value) or (name.endswith("tokens") and _COUNT.fullmatch(value)):
        return value
    return MASK


def _parsed(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command, with what follows `--api-key` and the like masked."""
    shown: list[str] = []
    flag = ""
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if sign and _FLAG.fullmatch(name):
            shown.append(f"{name}={mask_setting(name, value)}")
        else:
            shown.append(mask_setting(flag, argument))
        flag = argument if not sign and _FLAG.fullmatch(argument) else ""
    return shown
