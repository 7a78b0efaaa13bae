"""What a program reads that imports a part of hudtui without the extra behind it."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import art_integration


@pytest.mark.parametrize("gym", ["hud_vf_gym", "buckeye_vf_gym"])
def test_the_error_of_a_gym_names_the_extra(gym: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, gym, raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"hudtui\[verifiers\]") as caught:
        import_module(gym)
    assert caught.value.name == "verifiers"


def test_the_error_of_the_agent_names_the_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"hudtui\[art\]"):
        _ = art_integration.ARTTrainingAgent
