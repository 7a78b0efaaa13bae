"""What hud-vf-gym 0.1.1 asks of a configuration and makes of an action, in our own words.

It reads YAML 1.1 by `yaml.safe_load`, takes some keys for granted, and fills a call from the
entries of `action_mappings`. Only what well-formed configurations rely on is modelled.
"""

from __future__ import annotations

from typing import Any

import yaml


def loads(text: str) -> dict[str, Any]:
    """The configuration as that program sees it; an AssertionError says what it would stumble
    over."""
    config = yaml.safe_load(text)
    assert isinstance(config, dict), "the document is no mapping"
    assert isinstance(config["defaults"]["max_turns"], int), "the bound of the episode"
    assert isinstance(config["system_prompt"], str), "the prompt"
    assert isinstance(config["parser"]["use_thinking"], bool), "which tags are expected"
    for weight in ("xml_weight", "action_weight"):
        assert isinstance(config["parser"].get(weight, 0.5), int | float), weight
    job = config.get("job", {})
    assert isinstance(job.get("name", ""), str) and isinstance(job.get("metadata", {}), dict), (
        "the job"
    )
    weights = (config.get("rubric") or {}).get("weights") or {}
    assert all(isinstance(weight, int | float) for weight in weights.values()), "the weights"
    actions = config.get("action_mappings", {})
    assert isinstance(actions, dict), "the mappings"
    for action, entry in actions.items():
        assert isinstance(action, str), f"the action {action!r} is no text in YAML 1.1"
        assert isinstance(entry["_tool"], str), f"the tool of {action}"
        positional = entry.get("_parser", {}).get("positional", [])
        assert isinstance(positional, list) and all(isinstance(name, str) for name in positional), (
            f"the arguments of {action}"
        )
        for parameter, source in entry.items():
            assert isinstance(parameter, str), (
                f"{action}: the parameter {parameter!r} is no text in YAML 1.1"
            )
            if isinstance(source, dict) and not parameter.startswith("_"):
                assert {"static", "from_arg", "from_args"} & set(source), (
                    f"{action}.{parameter} would be dropped silently"
                )
    return config


def call(config: dict[str, Any], action: str, *values: Any) -> tuple[str, dict[str, Any]]:
    """The tool and the arguments that an action with positional values becomes there."""
    entry = config["action_mappings"][action]
    names = entry.get("_parser", {}).get("positional", [])
    given = dict(zip(names, values, strict=False))
    sent: dict[str, Any] = {}
    for parameter, source in entry.items():
        if parameter.startswith("_"):
            continue
        if not isinstance(source, dict):
            sent[parameter] = source
        elif "static" in source:
            sent[parameter] = source["static"]
        elif "from_arg" in source:
            value = given.get(source["from_arg"], source.get("default"))
            if "transform" in source and value is not None:
                value = _run(
                    source["transform"], value, given if source.get("use_context") else None
                )
            sent[parameter] = value
        else:
            sent[parameter] = [given.get(name) for name in source["from_args"]]
    return entry["_tool"], sent


def _run(source: str, value: Any, context: dict[str, Any] | None) -> Any:
    names = {function.__name__: function for function in (int, float, str, len, abs, min, max)}
    function = eval(source, {"__builtins__": {}, **names}, {})  # noqa: S307 - the tests' own lambdas, read as that program does
    return function(value) if context is None else function(value, context)
