"""Reading a gym configuration: from YAML to `GymConfig`, with a finding for everything that is wrong on the way.

Whatever hud-vf-gym 0.1.1 loads and uses without an accident loads here and means the same. What it silently ignores, and what
a user cannot have meant, is a finding.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import ConfigError, InputError, Location
from hudtui.core.files import read_text
from hudtui.core.gym.findings import Edit, Finding, Fix, Severity, errors_of
from hudtui.core.gym.jsonvalues import NotSendableError, plain
from hudtui.core.gym.transform import Transform, TransformError, compile_transform
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
    from hudtui.core.yamltext import Document

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
_FORM_KEYS = ("static", "from_arg", "from_args", "default", "defaults", "transform", "use_context")
_BELONGS = {
    "static": frozenset({"static"}),
    "from_arg": frozenset({"from_arg", "default", "transform", "use_context"}),
    "from_args": frozenset({"from_args", "defaults"}),
}
_WORDS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_ACTION = re.compile(r"\w+\Z")
_NUMBERED = re.compile(r"arg(?:0|[1-9][0-9]{0,5})\Z")
_DONE = "done"

Path_ = tuple[str | int, ...]


def parse_config(text: str, *, name: str) -> tuple[GymConfig | None, tuple[Finding, ...]]:
    """Read a configuration as far as possible.

    Args:
        text: The YAML.
        name: What findings call it, usually the file's path; kept as `GymConfig.path`.

    Returns:
        The configuration, without the mappings that have errors, and everything that is to say about the text in the order of its
        lines. The configuration is None when the text is not YAML, or not a mapping.
    """
    from hudtui.core.yamltext import load_yaml

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


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.findings: list[Finding] = []

    def read(self, name: str) -> GymConfig | None:
        data = self.document.data
        if not isinstance(data, dict):
            self.report("shape", "error", f"a configuration is a mapping with `action_mappings`, not {_kind(data)}", ())
            return None
        for key in data:
            self._unknown(key, TOP_KEYS, (), "the configuration")
        mappings, broken = self._mappings()
        return GymConfig(
            system_prompt=self._text("system_prompt"),
            parser=self._parser(),
            mappings=mappings,
            broken=broken,
            weights=self._weights(),
            max_turns=self._max_turns(),
            allow_unmapped=self._flag(data.get("allow_unmapped", False), ("allow_unmapped",)),
            job=self._section("job"),
            raw=data,
            path=name,
        )

    def report(
        self,
        code: str,
        severity: Severity,
        message: str,
        path: Path_,
        *,
        at_value: bool = False,
        mapping: str | None = None,
        parameter: str | None = None,
        place: tuple[int, int] | None = None,
        fix: Fix | None = None,
    ) -> None:
        """Add a finding at the key of `path`, at its value, or at a place given as line and column."""
        mark = self.document.value_mark(path) if at_value else self.document.mark(path)
        line, column = place or (mark.line, mark.column)
        if mapping is None and len(path) >= 2 and path[0] == "action_mappings":
            mapping = str(path[1])
            parameter = str(path[2]) if len(path) >= 3 and not str(path[2]).startswith("_") else parameter
        end = mark.end_column if place is None and mark.end_line == line else None
        self.findings.append(Finding(code, severity, clean_line(message, 400), line, column, end, mapping, parameter, fix))

    def _rename(self, path: Path_, word: str) -> Fix:
        mark = self.document.mark(path)
        return Fix(f"rename to `{word}`", (Edit(mark.line, mark.column, mark.end_line, mark.end_column, word),))

    def _unknown(self, key: str, known: Collection[str], path: Path_, what: str) -> None:
        """Report a key that means nothing; a misspelt one louder than one that belongs to another program."""
        if key in known:
            return
        nearest = _nearest(key, known)
        if nearest is None:
            self.report("unknown-key", "info", f"{what} has a key `{_short(key)}` that is not interpreted", (*path, key))
        else:
            self.report(
                "unknown-key",
                "warning",
                f"{what} has a key `{_short(key)}` that means nothing; did you mean `{nearest}`?",
                (*path, key),
                fix=None if nearest in self._at(path) else self._rename((*path, key), nearest),
            )

    def _at(self, path: Path_) -> Any:
        value = self.document.data
        for step in path:
            value = value[step]
        return value

    def _text(self, key: str) -> str:
        value = self.document.data.get(key)
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        self.report("type", "error", f"`{key}` is a text, not {_kind(value)}", (key,))
        return ""

    def _section(self, key: str) -> dict[str, Any]:
        value = self.document.data.get(key)
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self.report("type", "error", f"`{key}` is a mapping, not {_kind(value)}", (key,))
        return {}

    def _flag(self, value: Any, path: Path_, default: bool = False) -> bool:
        # hud-vf-gym reads YAML 1.1, where `yes` and `on` are booleans; as flags they keep that meaning.
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _WORDS:
            return _WORDS[value.lower()]
        self.report("type", "error", f"`{path[-1]}` is true or false, not {_kind(value)}", path, at_value=True)
        return default

    def _number(self, value: Any, path: Path_, default: float) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and _finite(value):
            return float(value)
        self.report("type", "error", f"`{path[-1]}` is a number, not {_kind(value)}", path, at_value=True)
        return default

    def _parser(self) -> ParserSettings:
        section = self._section("parser")
        for key in section:
            self._unknown(key, _PARSER_KEYS, ("parser",), "`parser`")
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
        thinking = self._flag(section.get("use_thinking", plain.use_thinking), ("parser", "use_thinking"), plain.use_thinking)
        return ParserSettings(thinking, weights["xml_weight"], weights["action_weight"])

    def _weights(self) -> dict[str, float]:
        rubric = self._section("rubric")
        for key in rubric:
            self._unknown(key, ("weights",), ("rubric",), "`rubric`")
        result = dict(DEFAULT_WEIGHTS)
        weights = rubric.get("weights")
        if weights is None:
            return result
        if not isinstance(weights, dict):
            self.report("type", "error", f"`rubric.weights` is a mapping, not {_kind(weights)}", ("rubric", "weights"))
            return result
        for key, value in weights.items():
            path = ("rubric", "weights", key)
            self._unknown(key, DEFAULT_WEIGHTS, ("rubric", "weights"), "`rubric.weights`")
            if key in DEFAULT_WEIGHTS:
                result[key] = self._number(value, path, DEFAULT_WEIGHTS[key])
        return result

    def _max_turns(self) -> int:
        section = self._section("defaults")
        for key in section:
            self._unknown(key, ("max_turns",), ("defaults",), "`defaults`")
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
            f"`max_turns` is a whole number from 1, not {_shown(value)}",
            ("defaults", "max_turns"),
            at_value=True,
        )
        return DEFAULT_MAX_TURNS

    def _mappings(self) -> tuple[dict[str, ActionMapping], dict[str, str]]:
        found: dict[str, ActionMapping] = {}
        broken: dict[str, str] = {}
        for action, entry in self._section("action_mappings").items():
            before = len(self.findings)
            mapping = self._mapping(action, entry)
            errors = errors_of(self.findings[before:])
            if mapping is None or errors:
                broken[action] = errors[0].message
            else:
                found[action] = mapping
        return found, broken

    def _mapping(self, action: str, entry: Any) -> ActionMapping | None:
        path: Path_ = ("action_mappings", action)
        if not isinstance(entry, dict):
            self.report("shape", "error", f"the mapping of an action holds `_tool` and parameters; this is {_kind(entry)}", path)
            return None
        if not _ACTION.match(action):
            self.report(
                "action-name",
                "warning",
                "no agent can call this action: a name is made of letters, digits and underscores",
                path,
            )
        for key in entry:
            if key.startswith("_") and key not in ("_tool", "_parser"):
                nearest = _nearest(key, ("_tool", "_parser"))
                hint = f"; did you mean `{nearest}`?" if nearest else "; keys of our own are `_tool` and `_parser`"
                fix = self._rename((*path, key), nearest) if nearest and nearest not in entry else None
                self.report("unknown-key", "error", f"the key `{_short(key)}` is not known{hint}", (*path, key), fix=fix)
        tool = self._tool(action, entry, path)
        positional = self._positional(entry, path)
        parameters: dict[str, Parameter] = {}
        numbered: set[str] = set()
        for key, value in entry.items():
            if not key.startswith("_"):
                parameter = self._parameter(value, (*path, key))
                if parameter is not None:
                    parameters[key] = parameter
                    numbered.update(name for name in _arguments_of(parameter) if _NUMBERED.match(name))
        names = _with_numbered(positional or (), numbered)
        for key, parameter in parameters.items():
            if positional is not None:
                self._check_names(parameter, names, (*path, key))
        if tool is None or positional is None:
            return None
        return ActionMapping(action, tool, names, parameters)

    def _tool(self, action: str, entry: Mapping[str, Any], path: Path_) -> str | None:
        if "_tool" not in entry:
            if action == _DONE:
                return _DONE  # `done` never reaches a server, so that it needs no tool
            self.report("tool", "error", "`_tool` is missing: the MCP tool that this action calls", path)
            return None
        tool = entry["_tool"]
        if isinstance(tool, str) and tool.strip():
            return tool
        self.report("tool", "error", f"`_tool` is the name of an MCP tool, not {_shown(tool)}", (*path, "_tool"), at_value=True)
        return None

    def _positional(self, entry: Mapping[str, Any], path: Path_) -> tuple[str, ...] | None:
        parser = entry.get("_parser")
        if parser is None:
            return ()
        path = (*path, "_parser")
        if not isinstance(parser, dict):
            self.report("positional", "error", f"`_parser` is a mapping with `positional`, not {_kind(parser)}", path)
            return None
        for key in parser:
            self._unknown(key, ("positional",), path, "`_parser`")
        path = (*path, "positional")
        names = parser.get("positional")
        if names is None:
            return ()
        if not isinstance(names, list):
            self.report("positional", "error", f"`positional` is a list of names, not {_kind(names)}", path, at_value=True)
            return None
        seen: set[str] = set()
        good = True
        for index, argument in enumerate(names):
            problem = None
            if not isinstance(argument, str):
                problem = f"`positional` is a list of names; {_shown(argument)} is {_kind(argument)}"
            elif not _ACTION.match(argument):
                problem = f"{_shown(argument)} is no name: letters, digits and underscores"
            elif argument in seen:
                problem = f"the name `{argument}` stands twice in `positional`"
            if problem is not None:
                self.report("positional", "error", problem, (*path, index), at_value=True)
                good = False
            else:
                seen.add(argument)
        return tuple(names) if good else None

    def _parameter(self, value: Any, path: Path_) -> Parameter | None:
        if not isinstance(value, dict):
            self._sendable(value, path)
            return Static(value)
        form = next((form for form in ("static", "from_arg", "from_args") if form in value), None)
        if form is None:
            near = {key: _nearest(key, _FORM_KEYS[:3]) for key in value}
            key, word = next(((key, word) for key, word in near.items() if word), (None, None))
            hint = (
                f"did you mean `{word}` instead of `{_short(key)}`?"
                if key is not None
                else "a mapping that is to be sent as it is stands below `static`"
            )
            self.report("form", "error", f"a parameter is a value, or has `static`, `from_arg` or `from_args`; {hint}", path)
            return None
        self._form_keys(form, value, path)
        for key in ("static", "default", "defaults"):
            if key in value:
                self._sendable(value[key], (*path, key))
        if form == "static":
            return Static(value["static"])
        return self._from_arg(value, path) if form == "from_arg" else self._from_args(value, path)

    def _sendable(self, value: Any, path: Path_) -> None:
        try:
            plain(value)
        except NotSendableError as error:
            self.report("value", "error", f"this cannot be sent: {error}", path, at_value=True)

    def _form_keys(self, form: str, value: Mapping[str, Any], path: Path_) -> None:
        for key in value:
            if key in _BELONGS[form]:
                continue
            place = (*path, key)
            if form == "static" and key in _FORM_KEYS:
                self.report("ignored", "warning", f"`{key}` is ignored, because `static` is given", place)
            elif key in ("from_arg", "from_args"):
                self.report("ignored", "warning", f"`{key}` is ignored, because `{form}` is given", place)
            elif key in _FORM_KEYS:
                other = {"default": "defaults", "defaults": "default"}.get(key)
                hint = f"; it is called `{other}` here" if other else ""
                self.report("form", "error", f"`{key}` does not go with `{form}`{hint}", place)
            else:
                nearest = _nearest(key, _BELONGS[form])
                if nearest is None:
                    self.report("unknown-key", "info", f"the key `{_short(key)}` is not interpreted", place)
                else:
                    fix = None if nearest in value else self._rename(place, nearest)
                    message = f"the key `{_short(key)}` is not known; did you mean `{nearest}`?"
                    self.report("unknown-key", "error", message, place, fix=fix)

    def _from_arg(self, value: Mapping[str, Any], path: Path_) -> FromArg | None:
        argument = value["from_arg"]
        good = True
        if not isinstance(argument, str):
            self.report(
                "from-arg",
                "error",
                f"`from_arg` is the name of an argument, not {_shown(argument)}",
                (*path, "from_arg"),
                at_value=True,
            )
            good = False
        transform = self._transform(value.get("transform"), (*path, "transform"))
        use_context = self._flag(value.get("use_context") or False, (*path, "use_context"))
        if not good or isinstance(transform, TransformError):
            return None
        return FromArg(argument, value.get("default", MISSING), transform, use_context)

    def _transform(self, source: Any, path: Path_) -> Transform | TransformError | None:
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
            self.report("transform", "error", f"transform, column {error.column}: {error.what}", path, place=place)
            return error

    def _from_args(self, value: Mapping[str, Any], path: Path_) -> FromArgs | None:
        arguments = value["from_args"]
        place = (*path, "from_args")
        if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
            self.report("from-arg", "error", "`from_args` is a list of names of arguments", place, at_value=True)
            return None
        defaults = value.get("defaults")
        if defaults is None:
            defaults = []
        if not isinstance(defaults, list):
            self.report("default", "error", f"`defaults` is a list, not {_kind(defaults)}", (*path, "defaults"), at_value=True)
            return None
        if len(defaults) > len(arguments):
            message = f"`defaults` has {len(defaults)} values for {len(arguments)} arguments; the rest is ignored"
            self.report("default", "warning", message, (*path, "defaults"))
        return FromArgs(tuple(arguments), tuple(defaults[: len(arguments)]))

    def _check_names(self, parameter: Parameter, names: tuple[str, ...], path: Path_) -> None:
        if isinstance(parameter, FromArg):
            if parameter.arg not in names:
                self.report("from-arg", "error", _unlisted(parameter.arg, names), (*path, "from_arg"), at_value=True)
        elif isinstance(parameter, FromArgs):
            for index, argument in enumerate(parameter.args):
                if argument not in names:
                    self.report("from-arg", "error", _unlisted(argument, names), (*path, "from_args", index), at_value=True)


def _unlisted(argument: str, names: tuple[str, ...]) -> str:
    nearest = _nearest(argument, names)
    known = f"; did you mean `{nearest}`?" if nearest else f": {', '.join(names)}" if names else ", which is empty"
    return f"the argument `{_short(argument)}` is not listed in `_parser.positional`{known}"


def _arguments_of(parameter: Parameter) -> tuple[str, ...]:
    if isinstance(parameter, FromArg):
        return (parameter.arg,)
    return parameter.args if isinstance(parameter, FromArgs) else ()


def _with_numbered(positional: tuple[str, ...], used: set[str]) -> tuple[str, ...]:
    """The positional names, and those that further arguments take anyhow: a mapping may ask for `arg0` without listing it."""
    names = list(positional)
    while f"arg{len(names)}" in used and f"arg{len(names)}" not in names:
        names.append(f"arg{len(names)}")
    return tuple(names)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _nearest(word: str, known: Iterable[str]) -> str | None:
    if len(word) > 60:
        return None
    found = difflib.get_close_matches(word.lower(), list(known), 1, 0.75)
    return found[0] if found else None


def _short(text: str) -> str:
    return clean_line(text, 60)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return {dict: "a mapping", list: "a list", str: "a text", int: "a number", float: "a number"}.get(type(value), "this")


def _shown(value: Any) -> str:
    if isinstance(value, dict | list) or value is None:
        return _kind(value)
    return _short(
        f'"{value}"' if isinstance(value, str) else "true" if value is True else "false" if value is False else str(value)
    )
