"""Secrets of a task are masked wherever it is shown."""

from __future__ import annotations

import json

from hudtui.core.platform import HUD
from hudtui.core.tasks.masking import masked_config, masked_json, masked_text


def test_secrets_are_masked_wherever_they_stand() -> None:
    config = {
        "a": {
            "url": "https://x",
            "headers": {"Authorization": "Bearer sk-live-0123456789abcdef", "X-Api-Key": "${KEY}"},
            "env": {"TOKEN": "abcdefghijklmnopqrst", "MODE": "fast"},
            "args": ["-e", "API_KEY=zyxwvutsrqponmlkjihg"],
        }
    }
    shown = json.dumps(masked_config(config, HUD), ensure_ascii=False)
    assert masked_json(json.dumps(config), HUD) == shown
    assert not any(secret in shown for secret in ("0123456789", "abcdefghijkl", "zyxwvuts"))
    assert (
        "Bearer …cdef" in shown and "${KEY}" in shown and "fast" in shown and "API_KEY=…" in shown
    )
    broken = '{"Authorization": "Bearer sk-live-0123456789abcdef", "prompt": "x", '
    assert "0123456789" not in masked_text(broken) and '"prompt": "x"' in masked_text(broken)
