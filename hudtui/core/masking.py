"""Texts that can be shown: logins, and what stands behind the name of a secret, are masked."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from hudtui.core.text import MASK as DOTS

MASK = "***"
"""Stands in addresses and commands, where `text.MASK` would be encoded or quoted."""
_LONGEST_WORD = 20
_SECRET_WORD = (
    r"(?:api[-_]?key|apikey|access[-_]?key|token|secret|password|passwd|authorization"
    r"|auth|credential|cookie)s?"
)
_SECRET_NAME = re.compile(rf"(?i)(?:^|[-_.]){_SECRET_WORD}$")
_ASSIGNED = re.compile(
    r"(?<![\w.-])(?P<name>[\w.-]++)(?P<sign>\s*+[=:]\s*+)"
    r"(?P<value>(?i:bearer)\s++[^\s'\",;&]++|(?!(?i:bearer)\s)[^\s'\",;&]++)"
)
_ENDS_SECRET = re.compile(rf"(?i)(?:{_SECRET_WORD}|[-_]key)$")


def looks_secret(name: str) -> bool:
    """Return True if the name of a variable is that of a secret.

    `..._KEY`, `..._TOKEN` and the like.
    """
    parts = name.upper().replace("-", "_").split("_")
    words = {
        "KEY",
        "APIKEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "CREDENTIALS",
        "AUTHORIZATION",
        "PAT",
        "JWT",
    }
    joined = any(
        part.endswith(("APIKEY", "TOKEN", "SECRET", "PASSWORD")) for part in parts
    )  # as in PGPASSWORD
    return (joined or not words.isdisjoint(parts)) and parts[-1] not in (
        "PATH",
        "FILE",
        "DIR",
        "ID",
        "URL",
        "NAME",
    )


def mask_url(url: str) -> str:
    """Return a URL that can be shown: a password and the values of secret query fields masked.

    Variables stay.
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")
        user = host[0].partition(":")
        netloc = f"{user[0]}:{MASK}@{host[2]}" if user[1] else parts.netloc
        query = parts.query
        if query:
            pairs = parse_qsl(query, keep_blank_values=True)
            if any(_is_secret(key, value) for key, value in pairs):
                query = urlencode(
                    [(key, MASK if _is_secret(key, value) else value) for key, value in pairs],
                    safe="*$",
                )
        return urlunsplit(parts._replace(netloc=netloc, query=query))
    except ValueError:
        return mask_text(url)


def mask_text(text: str) -> str:
    """Return a command line that can be shown.

    What follows `token=`, `--api-key:` and the like is masked. Variables stay.
    """

    def hidden(match: re.Match[str]) -> str:
        if match["value"].startswith("$") or not _ENDS_SECRET.search(
            match["name"][-_LONGEST_WORD:]
        ):
            return match[0]
        return match["name"] + match["sign"] + MASK

    return _ASSIGNED.sub(hidden, text)


def names_secret(name: str) -> bool:
    """Return whether a name of a variable, a header or a setting is that of a secret."""
    return looks_secret(name) or bool(_SECRET_NAME.search(name))


def _is_secret(key: str, value: str) -> bool:
    return names_secret(key) and not value.startswith("$")


def without_login(value: str) -> str:
    """Return an address with the login in it masked."""
    return re.sub(r"//[^/@\s]*@", f"//{DOTS}@", value)
