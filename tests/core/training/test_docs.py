from __future__ import annotations

import re
from pathlib import Path

from hudtui.core.plain import to_plain
from hudtui.core.training.recipe import Recipe, read_recipe, read_settings

PAGE = Path(__file__).parents[3] / "docs" / "training.md"


def test_the_page_shows_every_setting_with_its_default() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert read_recipe(block, name="docs") == Recipe()
    assert list(read_settings(block, name="docs")) == list(to_plain(Recipe()))
