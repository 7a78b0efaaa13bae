"""Reading a gym configuration: from YAML to `GymConfig`, with a finding for everything that is wrong on the way.

Whatever hud-vf-gym 0.1.1 loads and uses without an accident loads here and means the same. What it silently ignores, and what
a user cannot have meant, is a finding.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import ConfigError, InputError, Location
from hudtui.core.files import read_text
from hudtui.core.gym.config_base import Steps, kind_of, nearly, shown
from hudtui.core.gym.config_mappings import MappingReader
from hudtui.core.gym.lint.findings import Finding, errors_of
from hudtui.core.gym.values import (
    DEFAULT_MAX_TURNS,
    DEFAULT_WEIGHTS,
    MISSING,
    ActionMapping,
    FromArg,
    FromArgs,
    GymConfig,
    MissingType,
    Parameter,
    ParserSettings,
    Static,
)
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    pass

__all__ = [
    "DEFAULT_MAX_TURNS",
    "DEFAULT_WEIGHTS",
    "MISSING",
    "ActionMapping",
    "FromArg",
    "FromArgs",
    "GymConfig",
    "MissingType",
    "Parameter",
    "ParserSettings",
    "Static",
    "load_config",
    "parse_config",
]

TOP_KEYS = ("job", "system_prompt", "parser", "action_mappings", "rubric", "defaults", "allow_unmapped")
"""Keys of the document that mean something here."""

_PARSER_KEYS = ("use_thinking", "xml_weight", "action_weight")


def parse_config(text: str, *, name: str) -> tuple[GymConfig | None, tuple[Finding, ...]]:
    """Read a configuration as far as possible.

    Args:
        text: The YAML.
        name: What findings call it, usually the file's path; kept as `GymConfig.path`.

    Returns:
        The configuration, without the mappings that have errors, and everything that is to say about the text in the order of its
        lines. The configuration is None when the text is not YAML, not a mapping, or has no key of a configuration.
    """
    from hudtui.core.yaml_doc import load_yaml

    try:
        document = load_yaml(text, name=name)
    except InputError as error:
        where = error.where or Location(name)
        message = ". ".join(part.rstrip(".") for part in (error.what, error.why, error.fix) if part)
        return None, (Finding("yaml", "error", clean_line(message), where.line or 1, where.column or 1),)
    reader = _Reader(document)
    config = reader.read(name)
    return config, tuple(sorted(reader.findings, key=lambda finding: (finding.line, finding.column)))


def load_config(path: Path | str) -> GymConfig:
    """Read a configuration that is to be used.

    Raises:
        InputError: The file cannot be read.
        ConfigError: It has errors; `findings` holds all of them, and its warnings.
    """
    name = os.fspath(path)
    config, findings = parse_config(read_text(path), name=name)
    errors = errors_of(findings)
    if errors or config is None:
        first = errors[0]
        more = len(errors) - 1
        raise ConfigError(
            first.message,
            findings=findings,
            why=None if not more else "\n".join(finding.render(name) for finding in errors[1:10]),
            fix=f"`hudtui lint {name}` shows everything that is wrong with it." if more else None,
            where=Location(name, first.line, first.column, first.subject or None),
        )
    return config


class _Reader(MappingReader):
    def read(self, name: str) -> GymConfig | None:
        data = self.document.data
        if not isinstance(data, dict):
            self.report("shape", "error", f"a configuration is a mapping with `action_mappings`, not {kind_of(data)}", ())
            return None
        if not any(key in TOP_KEYS or nearly(key, TOP_KEYS) for key in data):
            self.report("shape", "error", _not_ours(data), ())
            return None
        for key in data:
            self.unknown(key, TOP_KEYS, (), "the configuration")
        mappings, invalid, partial = self.mappings(self._section("action_mappings"))
        return GymConfig(
            system_prompt=self._text("system_prompt"),
            parser=self._parser(),
            mappings=mappings,
            invalid=invalid,
            partial=partial,
            weights=self._weights(),
            max_turns=self._max_turns(),
            allow_unmapped=self.flag(data.get("allow_unmapped", False), ("allow_unmapped",)),
            job=self._section("job"),
            raw=data,
            path=name,
        )

    def _text(self, key: str) -> str:
        value = self.document.data.get(key)
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        self.report("type", "error", f"`{key}` is a text, not {kind_of(value)}", (key,))
        return ""

    def _section(self, key: str) -> dict[str, Any]:
        value = self.document.data.get(key)
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self.report("type", "error", f"`{key}` is a mapping, not {kind_of(value)}", (key,))
        return {}

    def _number(self, value: Any, path: Steps, default: float) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and _finite(value):
            return float(value)
        self.report("type", "error", f"`{path[-1]}` is a number, not {kind_of(value)}", path, at_value=True)
        return default

    def _parser(self) -> ParserSettings:
        section = self._section("parser")
        for key in section:
            self.unknown(key, _PARSER_KEYS, ("parser",), "`parser`")
        plain = ParserSettings()
        weights = {}
        for key, default in (("xml_weight", plain.xml_weight), ("action_weight", plain.action_weight)):
            weight = self._number(section.get(key, default), ("parser", key), default)
            if weight < 0:
                self.report("weight", "error", f"`{key}` must not be negative", ("parser", key), at_value=True)
                weight = default
            weights[key] = weight
        if not any(weights.values()):
            self.report("weight", "warning", "both weights are 0, so that format_compliance is always 0", ("parser",))
        thinking = self.flag(section.get("use_thinking", plain.use_thinking), ("parser", "use_thinking"), plain.use_thinking)
        return ParserSettings(thinking, weights["xml_weight"], weights["action_weight"])

    def _weights(self) -> dict[str, float]:
        rubric = self._section("rubric")
        for key in rubric:
            self.unknown(key, ("weights",), ("rubric",), "`rubric`")
        result = dict(DEFAULT_WEIGHTS)
        weights = rubric.get("weights")
        if weights is None:
            return result
        if not isinstance(weights, dict):
            self.report("type", "error", f"`rubric.weights` is a mapping, not {kind_of(weights)}", ("rubric", "weights"))
            return result
        for key, value in weights.items():
            path = ("rubric", "weights", key)
            self.unknown(key, DEFAULT_WEIGHTS, ("rubric", "weights"), "`rubric.weights`")
            if key in DEFAULT_WEIGHTS:
                result[key] = self._number(value, path, DEFAULT_WEIGHTS[key])
        return result

    def _max_turns(self) -> int:
        section = self._section("defaults")
        for key in section:
            self.unknown(key, ("max_turns",), ("defaults",), "`defaults`")
        if "max_turns" not in section:
            return DEFAULT_MAX_TURNS
        value = section["max_turns"]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        self.report(
            "type",
            "error",
            f"`max_turns` is a whole number from 1, not {shown(value)}",
            ("defaults", "max_turns"),
            at_value=True,
        )
        return DEFAULT_MAX_TURNS


_OTHERS: tuple[tuple[str, frozenset[str]], ...] = (
    ("a DeepSpeed configuration", frozenset(("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"))),
    ("an accelerate configuration", frozenset(("distributed_type", "compute_environment", "num_processes"))),
    ("an ART configuration", frozenset(("environments", "training"))),
    ("a lock file", frozenset(("image", "images", "primary_dataset", "build"))),
    ("settings of a trainer (hudtui rl --training FILE)", frozenset(("model", "learning_rate", "steps", "num_generations"))),
    ("a compose file", frozenset(("services",))),
)
"""Files that lie beside configurations, and keys by which they are known."""


def _not_ours(data: Mapping[str, Any]) -> str:
    """What to say of a file that has none of a configuration's keys."""
    seems = next((what for what, keys in _OTHERS if not keys.isdisjoint(data)), None)
    keys = ", ".join(f"`{key}`" for key in ("system_prompt", "parser", "action_mappings", "rubric"))
    hint = f"it seems to be {seems}" if seems else f"it has none of its keys ({keys}, ...)"
    return f"this is no gym configuration: {hint}"


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
