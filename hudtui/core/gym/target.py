"""Which environment a configuration is for, and whether that is the one that was analysed."""

from __future__ import annotations

from collections.abc import Mapping

from hudtui.core.environment.matching import GENERIC_NAMES, EnvironmentIdentity, plain_name
from hudtui.core.environment.values import Analysis
from hudtui.core.gym.names import environment_name
from hudtui.core.gym.values import GymConfig
from hudtui.core.text import did_you_mean


def declared_environment(config: GymConfig) -> str | None:
    """What a configuration says that it is for: `job.metadata.environment`, `job.environment` or `environment`; None without."""
    metadata = config.job.get("metadata")
    for place in (metadata, config.job, config.raw):
        value = place.get("environment") if isinstance(place, Mapping) else None
        if isinstance(value, str) and value.strip():
            return value
    return None


def called_tools(config: GymConfig) -> tuple[str, ...]:
    """The tools that its actions call."""
    return tuple(mapping.tool for mapping in (*config.mappings.values(), *config.partial.values()) if mapping.tool)


def is_config_for(named: str | None, tools: tuple[str, ...], analysis: Analysis, identity: EnvironmentIdentity) -> bool:
    """Whether a configuration is for the analysed environment.

    Args:
        named: What the configuration says that it is for.
        tools: The tools that its actions call.
        analysis: The analysis.
        identity: What its environment is known by.

    Returns:
        True when it is called so or has every tool; for a configuration that does not say, when it has one of them, be it
        misspelled. True as well where no action calls anything.
    """
    known = [tool.name for tool in analysis.tools]
    if all(tool in known for tool in tools):
        return True
    if named is not None:
        names = {*identity.names, *(plain_name(environment_name(text)) for text in (analysis.source, analysis.image) if text)}
        if not names.isdisjoint((plain_name(named), plain_name(environment_name(named)))):
            return True
        if plain_name(named) not in GENERIC_NAMES:
            return False
    return any(did_you_mean(tool, known) for tool in tools)
