"""Reading `action_mappings`: one mapping at a time, so that a bad one hides no other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hudtui.core.gym.config_base import ReaderBase, Steps, kind_of, nearly, short, shown
from hudtui.core.gym.json_safe import NotJsonError, to_json_value
from hudtui.core.gym.lint.findings import errors_of
from hudtui.core.gym.transform import Transform, TransformError, compile_transform
from hudtui.core.gym.values import MISSING, ActionMapping, FromArg, FromArgs, Parameter, Static

_FORM_KEYS = ("static", "from_arg", "from_args", "default", "defaults", "transform", "use_context")
_BELONGS = {
    "static": frozenset({"static"}),
    "from_arg": frozenset({"from_arg", "default", "transform", "use_context"}),
    "from_args": frozenset({"from_args", "defaults"}),
}
_ACTION = re.compile(r"\w+\Z")
_KEYWORD = re.compile(r"[^\W\d]\w*\Z")
"""What can stand before the sign of equality in a call."""
_NUMBERED = re.compile(r"arg(?:0|[1-9][0-9]{0,5})\Z")
_DONE = "done"
_HELD = ("_tool", "static", "from_arg", "from_args")
"""What a mapping or a parameter holds, whatever its name."""


class MappingReader(ReaderBase):
    """The part of the reader that knows mappings."""

    def mappings(self, section: Mapping[str, Any]) -> tuple[dict[str, ActionMapping], dict[str, str], dict[str, ActionMapping]]:
        """The good mappings by action; of the others the first error, and what can be read of them all the same."""
        found: dict[str, ActionMapping] = {}
        invalid: dict[str, str] = {}
        partial: dict[str, ActionMapping] = {}
        for action, entry in section.items():
            if self._is_comment(action, entry, ("action_mappings", action)):
                continue
            before = len(self.findings)
            mapping = self._mapping(action, entry)
            errors = errors_of(self.findings[before:])
            if mapping is None or errors:
                invalid[action] = errors[0].message
                if mapping is not None:
                    partial[action] = mapping
            else:
                found[action] = mapping
        return found, invalid, partial

    def _mapping(self, action: str, entry: Any) -> ActionMapping | None:
        path: Steps = ("action_mappings", action)
        if not isinstance(entry, dict):
            self.report(
                "shape", "error", f"the mapping of an action holds `_tool` and parameters; this is {kind_of(entry)}", path
            )
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
                nearest = nearly(key, ("_tool", "_parser"))
                hint = f"; did you mean `{nearest}`?" if nearest else "; keys of our own are `_tool` and `_parser`"
                fix = self.rename((*path, key), nearest) if nearest and nearest not in entry else None
                message = f"the key `{short(key)}` is not known, and is not sent{hint}"
                self.report("unknown-key", "warning", message, (*path, key), fix=fix)
        tool = self._tool(action, entry, path)
        positional = self._positional(entry, path)
        parameters: dict[str, Parameter] = {}
        numbered: set[str] = set()
        for key, value in entry.items():
            if not key.startswith("_") and not self._is_comment(key, value, (*path, key)):
                parameter = self._parameter(value, (*path, key))
                if parameter is not None:
                    parameters[key] = parameter
                    numbered.update(name for name in _arguments_of(parameter) if _NUMBERED.match(name))
        names = _with_numbered(positional or (), numbered)
        keywords: dict[str, None] = {}
        for key, parameter in parameters.items():
            if positional is not None:
                keywords.update(dict.fromkeys(self._keywords(parameter, names, (*path, key))))
        if tool is None:
            return None
        return ActionMapping(action, tool, names, parameters, tuple(keywords))

    def _is_comment(self, key: str, value: Any, path: Steps) -> bool:
        """Whether a key was meant as a comment: in quotes, YAML takes it for a key."""
        if not key.lstrip().startswith(("#", "//")) or (isinstance(value, dict) and not value.keys().isdisjoint(_HELD)):
            return False
        self.report("comment", "warning", f"the key `{short(key)}` looks like a comment, and is not sent", path)
        return True

    def _tool(self, action: str, entry: Mapping[str, Any], path: Steps) -> str | None:
        if "_tool" not in entry:
            if action == _DONE:
                return _DONE  # `done` never reaches a server, so that it needs no tool
            self.report("tool", "error", "`_tool` is missing: the MCP tool that this action calls", path)
            return None
        tool = entry["_tool"]
        if tool is None and action == _DONE:
            return _DONE
        if isinstance(tool, str) and tool.strip():
            return tool
        self.report("tool", "error", f"`_tool` is the name of an MCP tool, not {shown(tool)}", (*path, "_tool"), at_value=True)
        return None

    def _positional(self, entry: Mapping[str, Any], path: Steps) -> tuple[str, ...] | None:
        parser = entry.get("_parser")
        if parser is None:
            return ()
        path = (*path, "_parser")
        if not isinstance(parser, dict):
            self.report("positional", "error", f"`_parser` is a mapping with `positional`, not {kind_of(parser)}", path)
            return None
        for key in parser:
            self.unknown(key, ("positional",), path, "`_parser`")
        path = (*path, "positional")
        names = parser.get("positional")
        if names is None:
            return ()
        if not isinstance(names, list):
            self.report("positional", "error", f"`positional` is a list of names, not {kind_of(names)}", path, at_value=True)
            return None
        seen: set[str] = set()
        good = True
        for index, argument in enumerate(names):
            problem = None
            if not isinstance(argument, str):
                problem = f"`positional` is a list of names; {shown(argument)} is {kind_of(argument)}"
            elif not _ACTION.match(argument):
                problem = f"{shown(argument)} is no name: letters, digits and underscores"
            elif argument in seen:
                problem = f"the name `{argument}` stands twice in `positional`"
            if problem is not None:
                self.report("positional", "error", problem, (*path, index), at_value=True)
                good = False
            else:
                seen.add(argument)
        return tuple(names) if good else None

    def _parameter(self, value: Any, path: Steps) -> Parameter | None:
        if not isinstance(value, dict):
            self._sendable(value, path)
            return Static(value)
        form = next((form for form in ("static", "from_arg", "from_args") if form in value), None)
        if form is None:
            near = {key: nearly(key, _FORM_KEYS[:3]) for key in value}
            key, word = next(((key, word) for key, word in near.items() if word), (None, None))
            hint = (
                f"did you mean `{word}` instead of `{short(key)}`?"
                if key is not None
                else "a mapping that is to be sent as it is stands below `static`"
            )
            guess = self.rename((*path, key), word) if key is not None and word is not None else None
            message = f"a parameter is a value, or has `static`, `from_arg` or `from_args`; {hint}"
            self.report("form", "error", message, path, guess=guess)
            return None
        self._form_keys(form, value, path)
        for key in ("static", "default", "defaults"):
            if key in value:
                self._sendable(value[key], (*path, key))
        if form == "static":
            return Static(value["static"])
        return self._from_arg(value, path) if form == "from_arg" else self._from_args(value, path)

    def _sendable(self, value: Any, path: Steps) -> None:
        try:
            to_json_value(value)
        except NotJsonError as error:
            self.report("value", "error", f"this cannot be sent: {error}", path, at_value=True)

    def _form_keys(self, form: str, value: Mapping[str, Any], path: Steps) -> None:
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
                nearest = nearly(key, _BELONGS[form])
                if nearest is None:
                    self.report("unknown-key", "info", f"the key `{short(key)}` is not interpreted", place)
                else:
                    fix = None if nearest in value else self.rename(place, nearest)
                    message = f"the key `{short(key)}` is not known; did you mean `{nearest}`?"
                    self.report("unknown-key", "error", message, place, fix=fix)

    def _from_arg(self, value: Mapping[str, Any], path: Steps) -> FromArg | None:
        argument = value["from_arg"]
        good = True
        if not isinstance(argument, str):
            self.report(
                "from-arg",
                "error",
                f"`from_arg` is the name of an argument, not {shown(argument)}",
                (*path, "from_arg"),
                at_value=True,
            )
            good = False
        transform = self._transform(value.get("transform"), (*path, "transform"))
        use_context = self.flag(value.get("use_context") or False, (*path, "use_context"))
        if not good or isinstance(transform, TransformError):
            return None
        return FromArg(argument, value.get("default", MISSING), transform, use_context)

    def _transform(self, source: Any, path: Steps) -> Transform | TransformError | None:
        if source is None or source == "":
            return None
        if not isinstance(source, str):
            error = TransformError(f"a transform is a lambda in quotes, not {shown(source)}")
            self.report("transform", "error", error.what, path, at_value=True)
            return error
        try:
            return compile_transform(source)
        except TransformError as error:
            place = self.document.inside(path, error.column - 1)
            self.report("transform", "error", f"transform, column {error.column}: {error.what}", path, place=place)
            return error

    def _from_args(self, value: Mapping[str, Any], path: Steps) -> FromArgs | None:
        arguments = value["from_args"]
        place = (*path, "from_args")
        if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
            self.report("from-arg", "error", "`from_args` is a list of names of arguments", place, at_value=True)
            return None
        defaults = value.get("defaults")
        if defaults is None:
            defaults = []
        if not isinstance(defaults, list):
            self.report("default", "error", f"`defaults` is a list, not {kind_of(defaults)}", (*path, "defaults"), at_value=True)
            return None
        if len(defaults) > len(arguments):
            message = f"`defaults` has {len(defaults)} values for {len(arguments)} arguments; the rest is ignored"
            self.report("default", "warning", message, (*path, "defaults"))
        return FromArgs(tuple(arguments), tuple(defaults[: len(arguments)]))

    def _keywords(self, parameter: Parameter, names: tuple[str, ...], path: Steps) -> Iterable[str]:
        """The arguments of a parameter that `positional` does not list: they are given by name alone."""
        for index, argument in enumerate(_arguments_of(parameter)):
            if argument in names:
                continue
            place = (*path, "from_args", index) if isinstance(parameter, FromArgs) else (*path, "from_arg")
            nearest = nearly(argument, names)
            if not _KEYWORD.match(argument):
                message = (
                    f"the argument `{short(argument)}` is not listed in `_parser.positional`, and cannot be given by this name"
                )
                self.report("from-arg", "error", message, place, at_value=True)
            elif nearest:
                message = f"the argument `{argument}` is not listed in `_parser.positional`, and is given by name alone"
                self.report("from-arg", "warning", f"{message}; did you mean `{nearest}`?", place, at_value=True)
            yield argument


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
