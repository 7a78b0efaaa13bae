"""Reading a gym configuration.

From YAML to `GymConfig`, with a finding for everything that is wrong on the way. Whatever
hud-vf-gym 0.1.1 loads and uses without an accident loads here and means the same. What hud-vf-gym
silently ignores, and what a user cannot have meant, is a finding.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import ConfigError, InputError, Location
from hudtui.core.files import read_text
from hudtui.core.gym.dialects.known import DIALECTS, PARALLEL
from hudtui.core.gym.dialects.names import check_dialect
from hudtui.core.gym.json_safe import NotJsonError, to_json_value
from hudtui.core.gym.lint.findings import Finding, FindingLog, Fix, TextEdit, errors_of
from hudtui.core.gym.transform import Transform, TransformError, compile_transform
from hudtui.core.gym.values import (
    DEFAULT_MAX_TURNS,
    DEFAULT_WEIGHTS,
    MISSING,
    OBSERVATIONS,
    ActionMapping,
    ExampleRound,
    FromArg,
    FromArgs,
    GymConfig,
    Parameter,
    ParserSettings,
    Static,
)
from hudtui.core.text import clean_line, did_you_mean

if TYPE_CHECKING:
    from hudtui.core.yaml_doc import YamlDocument, YamlPath

TOP_KEYS = (
    "job",
    "system_prompt",
    "examples",
    "parser",
    "action_mappings",
    "rubric",
    "defaults",
    "allow_unmapped",
    "actions",
    "observations",
)
"""Keys of the document that mean something here."""

_OWN_KEYS = tuple(key for key in TOP_KEYS if key != "examples")
"""Keys by which a configuration is known; other files have `examples` beside keys of their own."""
_ROUND_KEYS = ("user", "assistant")

_PARSER_KEYS = ("use_thinking", "xml_weight", "action_weight", "dialect", "parallel")
_FORMS: Mapping[str, frozenset[str]] = {
    "static": frozenset({"static"}),
    "from_arg": frozenset({"from_arg", "default", "transform", "use_context"}),
    "from_args": frozenset({"from_args", "defaults"}),
}
"""The forms of a parameter, in the order in which they win, and the keys that belong to each."""
_FORM_KEYS = frozenset().union(*_FORMS.values())
_FLAGS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_ACTION = re.compile(r"\w+\Z")
_KEYWORD = re.compile(r"[^\W\d]\w*\Z")
_REWARD = re.compile(r"(?:(?:[\w-]+/)*[\w-]+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):[^\W\d]\w*")
_NUMBERED = re.compile(r"arg(?:0|[1-9][0-9]{0,5})\Z")
"""Names that arguments beyond the listed ones take by their position."""
_DONE = "done"
_KINDS: Mapping[type, str] = {
    dict: "a mapping",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
}
_TASK_KEYS = frozenset(("mcp_config", "setup_tool", "evaluate_tool"))
_OTHER_FILES: Mapping[str, frozenset[str]] = {
    "a DeepSpeed configuration": frozenset(
        ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size")
    ),
    "an accelerate configuration": frozenset(
        ("distributed_type", "compute_environment", "num_processes")
    ),
    "an ART configuration (hudtui art train --config FILE)": frozenset(
        ("environments", "training")
    ),
    "a task": _TASK_KEYS,
    "a lock file": frozenset(("image", "images", "primary_dataset", "build")),
    "settings of another trainer (hudtui rl --training FILE says which setting here stands for "
    "each)": frozenset(
        (
            *(
                "model_name_or_path",
                "per_device_train_batch_size",
                "gradient_accumulation_steps",
                "max_steps",
                "finetuning_type",
            ),
            *(
                "stage",
                "do_train",
                "base_model",
                "micro_batch_size",
                "actor_rollout_ref",
                "max_completion_length",
            ),
        )
    ),
    "settings of a trainer (hudtui rl --training FILE)": frozenset(
        ("model", "learning_rate", "steps", "num_generations")
    ),
    "a compose file": frozenset(("services",)),
}
"""Files that lie beside configurations, and keys by which they are known."""


def parse_config(text: str, *, name: str) -> tuple[GymConfig | None, tuple[Finding, ...]]:
    """Read a configuration as far as possible.

    `name` is what findings call the text, usually the file's path; kept as `GymConfig.path`.

    Returns:
        The configuration, without the mappings that have errors, and all findings in the order of
        their lines. The configuration is None when the text is not YAML, not a mapping, or has no
        key of a configuration.
    """
    from hudtui.core.yaml_doc import load_yaml

    try:
        document = load_yaml(text, name=name)
    except InputError as error:
        where = error.where or Location(name)
        message = ". ".join(part.rstrip(".") for part in (error.what, error.why, error.fix) if part)
        return None, (
            Finding("yaml", "error", clean_line(message), where.line or 1, where.column or 1),
        )
    reader = _ConfigReader(document)
    config = reader.config(name)
    return config, tuple(
        sorted(reader.findings, key=lambda finding: (finding.line, finding.column))
    )


def load_config(path: Path | str) -> GymConfig:
    """Read a configuration that is to be used.

    Raises:
        InputError: The file cannot be read.
        ConfigError: The configuration has errors; `findings` holds all of them, and its warnings.
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
            fix=f"`hudtui config check {name}` shows everything that is wrong with it."
            if more
            else None,
            where=Location(name, first.line, first.column, first.subject or None),
        )
    return config


def with_dialect(config: GymConfig, dialect: str | None) -> GymConfig:
    """Return the configuration with another dialect of calls; as it is where None is given.

    Raises:
        InputError: There is no such dialect.
    """
    if dialect is None:
        return config
    check_dialect(dialect)
    written = config.raw.get("parser")
    parser = {**(written if isinstance(written, dict) else {}), "dialect": dialect}
    return replace(
        config,
        parser=replace(config.parser, dialect=dialect),
        raw={**config.raw, "parser": parser},
    )


class _ConfigReader:
    """Reads one document; `findings` collects what is wrong with it."""

    def __init__(self, document: YamlDocument) -> None:
        log = FindingLog(document)
        self.document = document
        self.findings = log.findings
        self.report = log.add

    # -- findings
    # ----------------------------------------------------------------------------------------------

    def rename(self, path: YamlPath, word: str) -> Fix:
        mark = self.document.mark(path)
        return Fix(
            f"rename to `{word}`",
            (TextEdit(mark.line, mark.column, mark.end_line, mark.end_column, word),),
        )

    def is_a(
        self,
        kind: type,
        value: Any,
        path: YamlPath,
        *,
        words: str = "",
        code: str = "type",
        at_value: bool = False,
    ) -> bool:
        """True if a value has a type; reported where it has not."""
        if isinstance(value, kind):
            return True
        message = f"`{path[-1]}` is {words or _KINDS[kind]}, not {_kind(value)}"
        self.report(code, "error", message, path, at_value=at_value)
        return False

    def unknown_keys(
        self, section: Mapping[str, Any], known: Collection[str], path: YamlPath, what: str
    ) -> None:
        """Report keys that mean nothing.

        A misspelt key louder than a key that belongs to another program.
        """
        for key in section:
            if key in known:
                continue
            near = _near(key, known)
            place = (*path, key)
            if near is None:
                message = f"{what} has an unknown key `{_short(key)}`, which is ignored"
                self.report("unknown-key", "info", message, place)
            else:
                message = (
                    f"{what} has a key `{_short(key)}` that means nothing; did you mean `{near}`?"
                )
                self.report(
                    "unknown-key",
                    "warning",
                    message,
                    place,
                    fix=None if near in section else self.rename(place, near),
                )

    # -- the sections
    # ----------------------------------------------------------------------------------------------

    def config(self, name: str) -> GymConfig | None:
        data = self.document.data
        if not isinstance(data, dict):
            these = "; these seem to be tasks" if _seems_tasks(data) else ""
            self.report(
                "shape",
                "error",
                f"a configuration is a mapping with `action_mappings`, not {_kind(data)}{these}",
                (),
            )
            return None
        if data.keys() != {"examples"} and not any(
            key in _OWN_KEYS or _near(key, _OWN_KEYS) for key in data
        ):
            seems = next(
                (what for what, keys in _OTHER_FILES.items() if not keys.isdisjoint(data)), None
            )
            keys = ", ".join(
                f"`{key}`" for key in ("system_prompt", "parser", "action_mappings", "rubric")
            )
            hint = f"it seems to be {seems}" if seems else f"it has none of its keys ({keys}, ...)"
            self.report("shape", "error", f"this is not a gym configuration: {hint}", ())
            return None
        self.unknown_keys(data, TOP_KEYS, (), "the configuration")
        prompt = data.get("system_prompt")
        mappings, invalid, partial = self.mappings(self.section("action_mappings"))
        unmapped = self.flag(data.get("allow_unmapped", False), ("allow_unmapped",))
        actions = self.actions(data.get("actions"), {*mappings, *invalid}, unmapped=unmapped)
        left_out: tuple[str, ...] = ()
        if actions is not None:
            offered = {*actions, _DONE}
            left_out = tuple(name for name in (*mappings, *invalid) if name not in offered)
            mappings = {name: one for name, one in mappings.items() if name in offered}
            invalid = {name: why for name, why in invalid.items() if name in offered}
            partial = {name: one for name, one in partial.items() if name in offered}
        rubric = self.section("rubric")
        return GymConfig(
            system_prompt=prompt
            if prompt is not None and self.is_a(str, prompt, ("system_prompt",))
            else "",
            examples=self.examples(data.get("examples")),
            parser=self.parser(self.section("parser")),
            mappings=mappings,
            invalid=invalid,
            partial=partial,
            weights=self.weights(rubric),
            reward=self.reward(rubric),
            max_turns=self.max_turns(self.section("defaults")),
            allow_unmapped=unmapped,
            actions=actions,
            left_out=left_out,
            observations=self.choice(data, "observations", "text", OBSERVATIONS, ()),
            job=self.job(self.section("job")),
            raw=data,
            path=name,
        )

    def actions(
        self, names: Any, mapped: Collection[str], *, unmapped: bool
    ) -> tuple[str, ...] | None:
        """The names that an agent may call; None where all are. Unknown ones are reported."""
        path: YamlPath = ("actions",)
        if names is None or not self.is_a(list, names, path, words="a list of names"):
            return None
        if not names:
            message = "`actions` is empty: the agent could do nothing; leave it out for all actions"
            self.report("actions", "error", message, path, at_value=True)
        chosen: dict[str, None] = {}
        for index, name in enumerate(names):
            problem = None
            if not isinstance(name, str):
                problem = f"`actions` is a list of names; {_shown(name)} is {_kind(name)}"
            elif name in chosen:
                problem = f"the name `{_short(name)}` appears twice in `actions`"
            elif name not in mapped and name != _DONE and not unmapped:
                near = _near(name, mapped)
                hint = f"; did you mean `{near}`?" if near else ""
                problem = f"`action_mappings` has no action `{_short(name)}`{hint}"
            if problem is not None:
                self.report("actions", "error", problem, (*path, index), at_value=True)
            else:
                chosen[name] = None
        return tuple(chosen)

    def section(self, key: str) -> dict[str, Any]:
        value = self.document.data.get(key)
        return value if value is not None and self.is_a(dict, value, (key,)) else {}

    def job(self, section: dict[str, Any]) -> dict[str, Any]:
        known = ("name", "metadata")
        self.unknown_keys(
            {key: value for key, value in section.items() if _near(key, known)},
            known,
            ("job",),
            "`job`",
        )
        for key, kind in (("name", str | int | float), ("metadata", dict)):
            value = section.get(key)
            if value is not None and not isinstance(value, kind):
                words = "a text" if key == "name" else "a mapping"
                message = f"`{key}` is {words}, not {_kind(value)}; it is not sent to the platform"
                self.report("type", "warning", message, ("job", key), at_value=True)
        return section

    def number(self, value: Any, path: YamlPath, default: float) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value):
            return float(value)
        self.report(
            "type", "error", f"`{path[-1]}` is a number, not {_kind(value)}", path, at_value=True
        )
        return default

    def flag(self, value: Any, path: YamlPath, default: bool = False) -> bool:
        # hud-vf-gym reads YAML 1.1, where `yes` and `on` are booleans; as flags they keep that
        # meaning.
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _FLAGS:
            return _FLAGS[value.lower()]
        self.report(
            "type",
            "error",
            f"`{path[-1]}` is true or false, not {_kind(value)}",
            path,
            at_value=True,
        )
        return default

    def parser(self, section: Mapping[str, Any]) -> ParserSettings:
        self.unknown_keys(section, _PARSER_KEYS, ("parser",), "`parser`")
        plain = ParserSettings()
        weights = {}
        for key, default in (
            ("xml_weight", plain.xml_weight),
            ("action_weight", plain.action_weight),
        ):
            weight = self.number(section.get(key, default), ("parser", key), default)
            if weight < 0:
                self.report(
                    "weight",
                    "error",
                    f"`{key}` must not be negative",
                    ("parser", key),
                    at_value=True,
                )
                weight = default
            weights[key] = weight
        if not any(weights.values()):
            self.report(
                "weight",
                "warning",
                "both weights are 0, so that format_compliance is always 0",
                ("parser",),
            )
        thinking = self.flag(
            section.get("use_thinking", plain.use_thinking),
            ("parser", "use_thinking"),
            plain.use_thinking,
        )
        path = ("parser",)
        dialect = self.choice(section, "dialect", plain.dialect, tuple(DIALECTS), path)
        parallel = self.choice(section, "parallel", plain.parallel, PARALLEL, path)
        return ParserSettings(thinking, **weights, dialect=dialect, parallel=parallel)

    def choice(
        self,
        section: Mapping[str, Any],
        key: str,
        default: str,
        choices: tuple[str, ...],
        above: YamlPath,
    ) -> str:
        """The value of a key that is one of a few words."""
        value, path = section.get(key, default), (*above, key)
        if value in choices:
            return str(value)
        near = _near(value, choices) if isinstance(value, str) else None
        hint = f"; did you mean `{near}`?" if near else ""
        message = f"`{key}` is one of {', '.join(choices)}, not {_shown(value)}{hint}"
        self.report("choice", "error", message, path, at_value=True)
        return default

    def weights(self, rubric: Mapping[str, Any]) -> dict[str, float]:
        self.unknown_keys(rubric, ("weights", "reward"), ("rubric",), "`rubric`")
        weights = rubric.get("weights")
        path = ("rubric", "weights")
        if weights is None or not self.is_a(dict, weights, path):
            return dict(DEFAULT_WEIGHTS)
        if not rubric.get("reward"):  # else the others are weights of the user's own parts
            self.unknown_keys(weights, DEFAULT_WEIGHTS, path, "`rubric.weights`")
        known = {
            key: self.number(weights[key], (*path, key), default) if key in weights else default
            for key, default in DEFAULT_WEIGHTS.items()
        }
        own = {
            key: weight
            for key, weight in weights.items()
            if key not in known and isinstance(weight, int | float)
        }
        return known | {key: float(weight) for key, weight in own.items() if _is_finite(weight)}

    def reward(self, rubric: Mapping[str, Any]) -> str:
        value, path = rubric.get("reward"), ("rubric", "reward")
        if value is None:
            return ""
        if not isinstance(value, str) or not _REWARD.fullmatch(value):
            message = (
                "`reward` is FILE.py:NAME, in this configuration's folder, or "
                f"package.module:NAME, not {_shown(value)}"
            )
            self.report("reward", "error", message, path, at_value=True)
            return ""
        return value

    def max_turns(self, section: Mapping[str, Any]) -> int:
        self.unknown_keys(section, ("max_turns",), ("defaults",), "`defaults`")
        value = section.get("max_turns", DEFAULT_MAX_TURNS)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        message = f"`max_turns` is a whole number from 1, not {_shown(value)}"
        self.report("type", "error", message, ("defaults", "max_turns"), at_value=True)
        return DEFAULT_MAX_TURNS

    def examples(self, rounds: Any) -> tuple[ExampleRound, ...]:
        """The rounds that are whole; what is wrong with the others is reported."""
        if rounds is None or not self.is_a(list, rounds, ("examples",)):
            return ()
        whole_rounds = []
        for number, entry in enumerate(rounds):
            path: YamlPath = ("examples", number)
            if not isinstance(entry, dict):
                message = (
                    f"an example is a round `{{user: ..., assistant: ...}}`; this is {_kind(entry)}"
                )
                self.report("example", "error", message, path, at_value=True)
                continue
            self.unknown_keys(entry, _ROUND_KEYS, path, "an example")
            missing = [key for key in _ROUND_KEYS if key not in entry]
            if missing:
                self.report(
                    "example", "error", f"this example has no `{missing[0]}`", path, at_value=True
                )
            texts = [
                entry[key]
                for key in _ROUND_KEYS
                if key in entry and self.is_message(entry[key], (*path, key))
            ]
            if len(texts) == len(_ROUND_KEYS):
                whole_rounds.append(ExampleRound(*texts))
        return tuple(whole_rounds)

    def is_message(self, value: Any, path: YamlPath) -> bool:
        """True if a value is a text that can be a message; reported where it is not."""
        if not self.is_a(str, value, path, code="example", at_value=True):
            return False
        if not value.strip():
            self.report(
                "example",
                "error",
                f"`{path[-1]}` is empty: no chat has such a message",
                path,
                at_value=True,
            )
        return bool(value.strip())

    # -- mappings, one at a time, so that a bad one hides no other
    # -------------------------------------------------------------

    def mappings(
        self, section: Mapping[str, Any]
    ) -> tuple[dict[str, ActionMapping], dict[str, str], dict[str, ActionMapping]]:
        """The good mappings by action.

        The first error of each of the others, and what can be read of the others all the same.
        """
        good: dict[str, ActionMapping] = {}
        invalid: dict[str, str] = {}
        partial: dict[str, ActionMapping] = {}
        for action, entry in section.items():
            if self.is_comment(action, entry, ("action_mappings", action)):
                continue
            before = len(self.findings)
            mapping = self.mapping(action, entry)
            errors = errors_of(self.findings[before:])
            if mapping is not None and not errors:
                good[action] = mapping
                continue
            invalid[action] = errors[0].message
            if mapping is not None:
                partial[action] = mapping
        return good, invalid, partial

    def mapping(self, action: str, entry: Any) -> ActionMapping | None:
        path: YamlPath = ("action_mappings", action)
        if not isinstance(entry, dict):
            message = (
                f"the mapping of an action holds `_tool` and parameters; this is {_kind(entry)}"
            )
            self.report("shape", "error", message, path)
            return None
        if not _ACTION.match(action):
            message = (
                "no agent can call this action: a name is made of letters, digits and underscores"
            )
            self.report("action-name", "warning", message, path)
        for key in entry:
            if key.startswith("_") and key not in ("_tool", "_parser"):
                near = _near(key, ("_tool", "_parser"))
                hint = (
                    f"; did you mean `{near}`?"
                    if near
                    else "; keys of our own are `_tool` and `_parser`"
                )
                fix = self.rename((*path, key), near) if near and near not in entry else None
                message = f"the key `{_short(key)}` is not known, and is not sent{hint}"
                self.report("unknown-key", "warning", message, (*path, key), fix=fix)
        tool = self.tool(action, entry, path)
        positional = self.positional(entry, path)
        parameters: dict[str, Parameter] = {}
        for key, value in entry.items():
            if not key.startswith("_") and not self.is_comment(key, value, (*path, key)):
                parameter = self.parameter(value, (*path, key))
                if parameter is not None:
                    parameters[key] = parameter
        # A mapping may ask for `arg0` without listing it: further positional arguments take these
        # names.
        used = {
            name
            for parameter in parameters.values()
            for name in _arguments(parameter)
            if _NUMBERED.match(name)
        }
        names = list(positional or ())
        while f"arg{len(names)}" in used and f"arg{len(names)}" not in names:
            names.append(f"arg{len(names)}")
        keywords: dict[str, None] = {}
        for key, parameter in parameters.items():
            if positional is not None:
                keywords.update(dict.fromkeys(self.keywords(parameter, names, (*path, key))))
        return (
            None
            if tool is None
            else ActionMapping(action, tool, tuple(names), parameters, tuple(keywords))
        )

    def is_comment(self, key: str, value: Any, path: YamlPath) -> bool:
        """True if a key was meant as a comment: in quotes, YAML takes it for a key."""
        holds_something = isinstance(value, dict) and not value.keys().isdisjoint(
            ("_tool", *_FORMS)
        )
        if not key.lstrip().startswith(("#", "//")) or holds_something:
            return False
        self.report(
            "comment",
            "warning",
            f"the key `{_short(key)}` looks like a comment, and is not sent",
            path,
        )
        return True

    def tool(self, action: str, entry: Mapping[str, Any], path: YamlPath) -> str | None:
        tool = entry.get("_tool")
        if tool is None and action == _DONE:
            return _DONE  # `done` never reaches a server, so that it needs no tool
        if "_tool" not in entry:
            self.report(
                "tool", "error", "`_tool` is missing: the MCP tool that this action calls", path
            )
            return None
        if isinstance(tool, str) and tool.strip():
            return tool
        message = f"`_tool` is the name of an MCP tool, not {_shown(tool)}"
        self.report("tool", "error", message, (*path, "_tool"), at_value=True)
        return None

    def positional(self, entry: Mapping[str, Any], path: YamlPath) -> tuple[str, ...] | None:
        """The names of positional arguments; None where they cannot be read."""
        parser = entry.get("_parser")
        if parser is None:
            return ()
        path = (*path, "_parser")
        if not self.is_a(
            dict, parser, path, words="a mapping with `positional`", code="positional"
        ):
            return None
        self.unknown_keys(parser, ("positional",), path, "`_parser`")
        path = (*path, "positional")
        names = parser.get("positional")
        if names is None:
            return ()
        if not self.is_a(
            list, names, path, words="a list of names", code="positional", at_value=True
        ):
            return None
        seen: set[str] = set()
        good = True
        for index, argument in enumerate(names):
            problem = None
            if not isinstance(argument, str):
                problem = (
                    f"`positional` is a list of names; {_shown(argument)} is {_kind(argument)}"
                )
            elif not _ACTION.match(argument):
                problem = f"{_shown(argument)} is not a name: letters, digits and underscores"
            elif argument in seen:
                problem = f"the name `{argument}` appears twice in `positional`"
            if problem is not None:
                self.report("positional", "error", problem, (*path, index), at_value=True)
                good = False
            else:
                seen.add(argument)
        return tuple(names) if good else None

    # -- parameters
    # ----------------------------------------------------------------------------------------------

    def parameter(self, value: Any, path: YamlPath) -> Parameter | None:
        if not isinstance(value, dict):
            self.sendable(value, path)
            return Static(value)
        form = next((form for form in _FORMS if form in value), None)
        if form is None:
            key, near = next(
                ((key, near) for key in value if (near := _near(key, _FORMS))), (None, None)
            )
            hint = "a mapping that is to be sent as it is stands below `static`"
            guess = None
            if key is not None and near is not None:
                hint = f"did you mean `{near}` instead of `{_short(key)}`?"
                guess = self.rename((*path, key), near)
            message = f"a parameter is a value, or has `static`, `from_arg` or `from_args`; {hint}"
            self.report("form", "error", message, path, guess=guess)
            return None
        self.form_keys(form, value, path)
        for key in ("static", "default", "defaults"):
            if key in value:
                self.sendable(value[key], (*path, key))
        if form == "static":
            return Static(value["static"])
        return self.from_arg(value, path) if form == "from_arg" else self.from_args(value, path)

    def sendable(self, value: Any, path: YamlPath) -> None:
        try:
            to_json_value(value)
        except NotJsonError as error:
            self.report("value", "error", f"this cannot be sent: {error}", path, at_value=True)

    def form_keys(self, form: str, value: Mapping[str, Any], path: YamlPath) -> None:
        """Report the keys of a parameter that do not belong to its form."""
        for key in value:
            if key in _FORMS[form]:
                continue
            place = (*path, key)
            if key in ("from_arg", "from_args") or (form == "static" and key in _FORM_KEYS):
                self.report(
                    "ignored", "warning", f"`{key}` is ignored, because `{form}` is given", place
                )
            elif key in _FORM_KEYS:
                other = {"default": "defaults", "defaults": "default"}.get(key)
                hint = f"; it is called `{other}` here" if other else ""
                self.report("form", "error", f"`{key}` does not go with `{form}`{hint}", place)
            elif (near := _near(key, _FORMS[form])) is None:
                self.report(
                    "unknown-key", "info", f"unknown key `{_short(key)}`, which is ignored", place
                )
            else:
                message = f"the key `{_short(key)}` is not known; did you mean `{near}`?"
                self.report(
                    "unknown-key",
                    "error",
                    message,
                    place,
                    fix=None if near in value else self.rename(place, near),
                )

    def from_arg(self, value: Mapping[str, Any], path: YamlPath) -> FromArg | None:
        argument = value["from_arg"]
        if not isinstance(argument, str):
            message = f"`from_arg` is the name of an argument, not {_shown(argument)}"
            self.report("from-arg", "error", message, (*path, "from_arg"), at_value=True)
        transform = self.transform(value.get("transform"), (*path, "transform"))
        use_context = self.flag(value.get("use_context") or False, (*path, "use_context"))
        if not isinstance(argument, str) or isinstance(transform, TransformError):
            return None
        return FromArg(argument, value.get("default", MISSING), transform, use_context)

    def transform(self, source: Any, path: YamlPath) -> Transform | TransformError | None:
        if source is None or source == "":
            return None
        if not isinstance(source, str):
            error = TransformError(f"a transform is a lambda in quotes, not {_shown(source)}")
            self.report("transform", "error", error.what, path, at_value=True)
            return error
        try:
            return compile_transform(source)
        except TransformError as error:
            place = self.document.inside(path, error.column - 1)
            self.report(
                "transform",
                "error",
                f"transform, column {error.column}: {error.what}",
                path,
                place=place,
            )
            return error

    def from_args(self, value: Mapping[str, Any], path: YamlPath) -> FromArgs | None:
        arguments = value["from_args"]
        if not isinstance(arguments, list) or not all(
            isinstance(argument, str) for argument in arguments
        ):
            message = "`from_args` is a list of names of arguments"
            self.report("from-arg", "error", message, (*path, "from_args"), at_value=True)
            return None
        defaults = [] if value.get("defaults") is None else value["defaults"]
        place = (*path, "defaults")
        if not self.is_a(list, defaults, place, code="default", at_value=True):
            return None
        if len(defaults) > len(arguments):
            message = (
                f"`defaults` has {len(defaults)} values for {len(arguments)} arguments; the rest "
                "is ignored"
            )
            self.report("default", "warning", message, place)
        return FromArgs(tuple(arguments), tuple(defaults[: len(arguments)]))

    def keywords(
        self, parameter: Parameter, names: Collection[str], path: YamlPath
    ) -> Iterable[str]:
        """The arguments of a parameter that `positional` does not list.

        They are given by name alone.
        """
        for index, argument in enumerate(_arguments(parameter)):
            if argument in names:
                continue
            place = (
                (*path, "from_args", index)
                if isinstance(parameter, FromArgs)
                else (*path, "from_arg")
            )
            unlisted = (
                f"the argument `{_short(argument)}` is not listed in `_parser.positional`, and"
            )
            if not _KEYWORD.match(argument):
                self.report(
                    "from-arg",
                    "error",
                    f"{unlisted} cannot be given by this name",
                    place,
                    at_value=True,
                )
            elif near := _near(argument, names):
                message = f"{unlisted} is given by name alone; did you mean `{near}`?"
                self.report("from-arg", "warning", message, place, at_value=True)
            yield argument


def _arguments(parameter: Parameter) -> tuple[str, ...]:
    if isinstance(parameter, FromArg):
        return (parameter.arg,)
    return parameter.args if isinstance(parameter, FromArgs) else ()


def _near(word: str, known: Iterable[str]) -> str | None:
    return did_you_mean(word, known, cutoff=0.75)


def _short(text: str) -> str:
    return clean_line(text, 60)


def _seems_tasks(data: object) -> bool:
    return isinstance(data, list) and any(
        isinstance(one, dict) and not _TASK_KEYS.isdisjoint(one) for one in data[:1]
    )


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _KINDS.get(type(value), "this")


def _shown(value: Any) -> str:
    """A value for the inside of a message: the value itself when it is short, else its kind."""
    if value is None or isinstance(value, bool | dict | list):
        return _kind(value)
    return _short(f'"{value}"' if isinstance(value, str) else str(value))


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
