"""Checking records by the thousand, column by column, with as little Python a record as possible.

The quick way only ever says "all of these are fine, and here they are" or "not sure". What it is not sure of goes through
`check.check_record`, which is precise and slow. Values that repeat (the `mcp_config` of most files) are checked once.

Nothing is lost on the quick way that the precise way would notice: syntax, kinds, names, duplicate keys. The last takes a trick.
An object that is decoded and encoded again loses its duplicate keys, so a text that comes back unchanged has none. (For the top
of a record see `records`.)

Imports msgspec: import this module late.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hudtui.core.errors import InputError
from hudtui.core.files import parse_json
from hudtui.core.tasks.records import Parsed, Parser, compacted
from hudtui.core.tasks.rules import CHARS_PER_TOKEN, FieldProblem, Rules, check_calls, check_config, is_empty, without_nulls
from hudtui.core.tasks.validate import TASK_FIELDS, CheckedTask, check_record, names_in

JSON_FIELDS = ("mcp_config", "setup_tool", "evaluate_tool", "metadata")
FOREIGN = frozenset({"env", "gym", "scenario"})
"""Fields that only tasks of other generations have, unless `mcp_config` stands beside them."""

_EMPTY = frozenset({b"{}", b"[]", b"null", b'""', b'"{}"', b'"[]"', b'"null"', b""})
_PLAIN = frozenset({b"{", b"["})
_REMEMBERED = 50_000


class _Call(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    name: str = ""
    arguments: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


_IDS = msgspec.json.Decoder(list[str | int | None])
_TEXTS = msgspec.json.Decoder(list[str])
_CALLS = msgspec.json.Decoder(list[_Call | list[_Call]])
_OBJECTS = msgspec.json.Decoder(list[dict[str, Any]])
_ANY = msgspec.json.Decoder(list[Any])
_encode = msgspec.json.Encoder().encode
_UNSOUND = (msgspec.DecodeError, RecursionError, OverflowError)
"""Syntax and kinds, depth, and whole numbers of more than 64 bits (which are fine, and written by the precise way)."""


@dataclass(slots=True)
class CheckedRecords:
    """Records after their checks: the usable ones as columns, and what there is to say about any of them."""

    count: int
    """Records that were looked at."""
    ids: list[str | None] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    columns: dict[str, list[bytes | None]] = field(default_factory=dict)
    """JSON text by field: the four of the dataset format and the kept ones; None where a record has no such field."""
    kept: Sequence[int] = ()
    """Position of each usable record among those looked at."""
    remarks: list[tuple[int, str | None, FieldProblem]] = field(default_factory=list)
    """Position, id and remark."""
    inferred: int = 0
    rewritten: dict[str, int] = field(default_factory=dict)
    """How many usable records `Rules.rewrite` changed, by what it did."""
    names: list[tuple[int, str, str]] = field(default_factory=list)
    """Position, servers and evaluators of unusable records, as far as they say."""
    elsewhere: dict[str, int] = field(default_factory=dict)
    """How many usable records run on other servers than the analysed environment, by what they run on."""

    def append(self, other: CheckedRecords) -> None:
        """Add the records of `other` behind one's own."""
        offset, before = self.count, len(self.ids)
        self.count += other.count
        self.kept = [*self.kept, *(offset + place for place in other.kept)]
        self.remarks += [(offset + place, name, remark) for place, name, remark in other.remarks]
        self.names += [(offset + place, servers, evaluators) for place, servers, evaluators in other.names]
        for name in self.columns.keys() | other.columns.keys():
            own = self.columns.setdefault(name, [None] * before)
            own += other.columns.get(name) or [None] * len(other.ids)
        self.ids += other.ids
        self.prompts += other.prompts
        self.inferred += other.inferred
        for what, times in other.rewritten.items():
            self.rewritten[what] = self.rewritten.get(what, 0) + times
        for what, times in other.elsewhere.items():
            self.elsewhere[what] = self.elsewhere.get(what, 0) + times


@dataclass(frozen=True, slots=True, eq=False)
class _Config:
    """One distinct `mcp_config` after its checks."""

    text: bytes
    remarks: tuple[FieldProblem, ...]
    inferred: bool
    rewritten: tuple[str, ...]
    elsewhere: str | None = None


class TaskChecker:
    """Checks records against rules and remembers what it has seen."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._configs: dict[bytes | None, _Config | None] = {}
        self._known: dict[tuple[str, bool], dict[bytes | None, bytes | None]] = {}
        """Final spellings by field, and by whether calls were checked against the analysed environment."""
        self._against = rules.analysis is not None
        """Calls of the records that are looked at now are checked against the analysed environment."""
        self._varied: dict[str, float] = {}
        """By field, how often lately nearly all of its values differed: then looking for equal ones is a waste."""
        self._parser = Parser()

    def parse(self, text: bytes) -> Parsed | None:
        """The records of a JSON array, or None if it is not one of objects, or not UTF-8."""
        return self._parser.parse(text)

    def quick(self, parsed: Parsed, count: int | None = None) -> CheckedRecords | None:
        """Records, or None where one of them needs a closer look.

        Args:
            parsed: From `parse`.
            count: How many they must be, where that is known.
        """
        if not parsed.rows or (count is not None and len(parsed.rows) != count):
            return None
        found = self._parser.columns(parsed)
        if found is None:
            return None
        columns, kind, spaced = found
        if not FOREIGN.isdisjoint(columns) and None in columns.get("mcp_config", [None]):
            return None
        for name, column in columns.items():
            if name not in ("id", "prompt") and kind != "dicts" and self._varied.get(name, 0) <= 2:
                columns[name] = _texts(column)
        if kind == "plain":
            prompts = columns.pop("prompt")
            return self.values(columns.pop("id", [None] * len(prompts)), prompts, columns, spaced=spaced)
        return self._decode_texts(columns, spaced=spaced)

    def _decode_texts(self, columns: dict[str, list[Any]], *, spaced: bool) -> CheckedRecords | None:
        """`values` for columns whose `id` and `prompt` are raw."""
        try:
            prompts = columns.pop("prompt")
            texts = _TEXTS.decode(_array(prompts))
            ids: list[str | int | None] = [None] * len(texts)
            if (given := columns.pop("id", None)) is not None:
                ids = _IDS.decode(_array(given))
        except (msgspec.DecodeError, KeyError, TypeError):  # the last two: records without a prompt
            return None
        return self.values(ids, texts, columns, spaced=spaced)

    def values(
        self,
        ids: list[str | int | None],
        prompts: list[str],
        columns: dict[str, list[bytes | None]],
        *,
        spaced: bool = False,
    ) -> CheckedRecords | None:
        """Records whose `id` and `prompt` are decoded already; None where one of them needs a closer look.

        Args:
            ids: None where a record has none.
            prompts: One of each record.
            columns: The other fields: valid JSON texts, None where absent.
            spaced: The texts may have white space between their tokens.
        """
        rules, count = self.rules, len(prompts)
        part = CheckedRecords(count, prompts=prompts, kept=range(count))
        if "" in prompts or any(map(str.isspace, prompts)):
            return None
        if rules.token_budget is not None and max(map(len, prompts)) > rules.token_budget * CHARS_PER_TOKEN:
            return None
        if rules.same_servers and not self._choose(columns.get("mcp_config") or [None] * count):
            return None
        part.ids = self._ids(ids, part)
        if not _clean(part.ids) or (part.remarks and rules.strict):
            return None
        for name in ("setup_tool", "evaluate_tool", "metadata"):
            column = self._json(name, columns.get(name), count, spaced=spaced)
            if column is None:
                return None
            part.columns[name] = list(column)
        if not self._mcp(columns.get("mcp_config") or [None] * count, part):
            return None
        for name, extra in columns.items():
            if name not in TASK_FIELDS:
                if spaced:
                    extra = _each_compact(extra)
                if b"null" in extra:  # says as little as an absent field, and would spoil a column of text
                    extra = [None if text == b"null" else text for text in extra]
                if not _sound([text for text in extra if text is not None], _ANY):
                    return None
                part.columns[name] = extra
        return part

    def _choose(self, column: list[bytes | None]) -> bool:
        """Decide whether calls are checked; False where they are of some of the records only."""
        entries = self._entries(column)
        if entries is None or self.rules.analysis is None:
            return entries is not None
        found = {entry.elsewhere is None for entry in entries.values()}
        self._against = True in found
        return len(found) == 1

    def _ids(self, ids: list[str | int | None], part: CheckedRecords) -> list[str | None]:
        if set(map(type, ids)) == {str}:
            return [name or None for name in ids] if "" in ids else list(ids)  # type: ignore[misc,arg-type]
        made: list[str | None] = []
        for place, value in enumerate(ids):
            if type(value) is int:
                text = str(value)
                message = f"the id is a number; it is kept as the text {text}"
                part.remarks.append((place, text, FieldProblem("id", message, "id", "warning")))
                made.append(text)
            else:
                made.append(value or None)  # type: ignore[arg-type]
        return made

    def _json(self, name: str, column: list[bytes | None] | None, count: int, *, spaced: bool) -> Sequence[bytes | None] | None:
        """A column of JSON in its final spelling, or None where one of its values needs a closer look."""
        if column is None:
            return None if name == "evaluate_tool" else [b"{}"] * count
        if self._varied.get(name, 0) > 2 and None not in column:
            texts = self._differing(name, column, spaced=spaced)
            if texts is not None:
                self._varied[name] -= 0.1  # now and then it is seen whether the values still differ
                return texts
            column = list(map(bytes, column))  # type: ignore[arg-type]
        known = self._known.setdefault((name, self._against), {})
        distinct = _distinct(column)
        if 2 * len(distinct) > count and len(distinct) > 16:
            self._varied[name] = self._varied.get(name, 0) + 1
            return self._final(name, column, spaced=spaced)
        self._varied[name] = 0
        fresh = [text for text in distinct if text not in known]
        if fresh:
            final = self._final(name, fresh, spaced=spaced)
            if final is None:
                return None
            if len(known) > _REMEMBERED:
                known.clear()
                return self._json(name, column, count, spaced=spaced)
            known.update(zip(fresh, final, strict=True))
        return [known[text] for text in column]

    def _final(self, name: str, texts: Sequence[bytes | None], *, spaced: bool) -> Sequence[bytes | None] | None:
        """Each text in its final spelling: JSON inside JSON text taken out, nothing said as `{}`; None where one is not sound."""
        if spaced and None not in texts:
            texts = _each_compact(texts)
        made = looked = texts
        if not _PLAIN.issuperset({text[:1] if text is not None and text not in _EMPTY else b"" for text in texts}):
            unfolded = self._unfolded(name, texts)
            if unfolded is None:
                return None
            made, looked = unfolded
        return made if not looked or self._fine(name, looked) else None

    def _differing(self, name: str, raws: Sequence[Any], *, spaced: bool) -> list[bytes | None] | None:
        """The final spelling of values that all say something and hardly repeat; None if it takes more than that."""
        if not spaced:
            texts: list[bytes | None] = list(map(bytes, raws))
            return texts if self._fine(name, texts) else None
        joined = compacted(_array(raws))
        assert joined is not None
        values = self._kind(name, joined)
        try:
            texts = list(map(_encode, values)) if values is not None else []
        except OverflowError:
            return None
        # As in `_unchanged`: what comes back unchanged has no key twice.
        return texts if b",".join(texts) == joined[1:-1] else None  # type: ignore[arg-type]

    def _fine(self, name: str, texts: Sequence[bytes | None]) -> bool:
        """Whether every text is of the kind that the field wants, has no duplicate keys, and (calls) names what it calls."""
        try:
            joined = _array(texts)
            values = self._kind(name, joined)
            return values is not None and _unchanged(joined, values)
        except (OverflowError, TypeError):  # TypeError: an absent value
            return False

    def _kind(self, name: str, joined: bytes) -> list[Any] | None:
        """The values in a JSON array, if all are of the kind that the field wants and (calls) name what they call."""
        try:
            if name == "metadata":
                return _OBJECTS.decode(joined)
            calls = _CALLS.decode(joined)
        except (msgspec.DecodeError, RecursionError):
            return None
        for call in calls:
            if type(call) is list:
                if not call or not all(one.name for one in call):
                    return None
            elif not call.name:  # type: ignore[union-attr]
                return None
        if not self._against:
            return calls
        return None if any(check_calls(name, msgspec.to_builtins(call), self.rules) for call in calls) else calls

    def _unfolded(self, name: str, texts: Sequence[bytes | None]) -> tuple[list[bytes], list[bytes]] | None:
        """The texts without JSON text around JSON, and those of them that say something."""
        made: list[bytes] = []
        looked: list[bytes] = []
        for text in texts:
            if text is None or text in _EMPTY:
                if name == "evaluate_tool":
                    return None
                made.append(b"{}")
                continue
            if text[0] == 34:  # a quote
                inner = _unwrapped(text)
                if inner is None or inner in _EMPTY:
                    return None
                text = inner
            made.append(text)
            looked.append(text)
        return made, looked

    def _mcp(self, column: list[bytes | None], part: CheckedRecords) -> bool:
        """Put the column of `mcp_config` into `part`; False where one of its values needs a closer look."""
        known = self._entries(column)
        if known is None:
            return False
        if len(known) == 1:
            (entry,) = known.values()
            part.columns["mcp_config"] = [entry.text] * len(column)
        else:
            part.columns["mcp_config"] = [known[text].text for text in column]
        telling = {text for text, entry in known.items() if entry.remarks or entry.inferred or entry.rewritten or entry.elsewhere}
        if telling:
            for place, text in enumerate(column):
                if text in telling:
                    entry = known[text]
                    part.remarks += [(place, part.ids[place], remark) for remark in entry.remarks]
                    part.inferred += entry.inferred
                    for what in entry.rewritten:
                        part.rewritten[what] = part.rewritten.get(what, 0) + 1
                    if entry.elsewhere is not None:
                        part.elsewhere[entry.elsewhere] = part.elsewhere.get(entry.elsewhere, 0) + 1
            part.remarks.sort(key=lambda item: item[0])
        return True

    def _entries(self, column: list[bytes | None]) -> dict[bytes | None, _Config] | None:
        """Each distinct value of `mcp_config` after its checks, or None where one of them needs a closer look."""
        configs = self._configs
        if len(configs) > _REMEMBERED:
            configs.clear()
        known: dict[bytes | None, _Config] = {}
        for text in _distinct(column):
            if text not in configs:
                configs[text] = self._config(text)
            entry = configs[text]
            if entry is None:
                return None
            known[text] = entry
        return known

    def _config(self, text: bytes | None) -> _Config | None:
        if text is None or text in _EMPTY:
            if self.rules.lock_image is None:
                return None
            inferred = self.rules.platform.mcp_config(self.rules.lock_image, self.rules.lookup)
            made, did = self._rewritten(inferred)
            return _Config(compact(made), (), True, did, self.rules.elsewhere(inferred))
        try:
            value = parse_json(text.decode(), "mcp_config")
            if isinstance(value, str):
                value = parse_json(value, "mcp_config") if not is_empty(value) else {}
        except (InputError, UnicodeDecodeError):
            return None
        value = without_nulls(value)
        if not isinstance(value, dict) or not value:
            return None
        made, did = self._rewritten(value)
        remarks = tuple(check_config(made, self.rules))
        if remarks and (self.rules.strict or any(remark.severity == "error" for remark in remarks)):
            return None
        return _Config(compact(made), remarks, False, did, self.rules.elsewhere(value))

    def _rewritten(self, config: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        return self.rules.rewrite(config) if self.rules.rewrite is not None else (config, ())

    def precise(self, record: Any) -> CheckedRecords:
        """One record that is data already, or a Remark where its text is not JSON."""
        part = CheckedRecords(1)
        checked = CheckedTask(remarks=[record]) if isinstance(record, FieldProblem) else check_record(record, self.rules)
        if not checked.usable:
            if any(names := names_in(record)):
                part.names = [(0, *names)]
            part.remarks = [(0, checked.id, remark) for remark in checked.remarks]
            return part
        try:
            part.columns = {
                "setup_tool": [compact(checked.setup or {})],
                "evaluate_tool": [compact(checked.evaluate)],
                "metadata": [compact(checked.metadata)],
                "mcp_config": [compact(checked.mcp_config)],
                **{name: [compact(value)] for name, value in checked.extra.items() if value is not None},
            }
            checked.prompt.encode()
            (checked.id or "").encode()
        except (UnicodeEncodeError, ValueError, RecursionError) as error:
            part.columns = {}
            why = "half of a surrogate pair" if isinstance(error, UnicodeEncodeError) else str(error)
            part.remarks = [(0, None, FieldProblem(None, f"this cannot be written as JSON: {why}", "json"))]
            return part
        part.ids, part.prompts, part.kept = [checked.id], [checked.prompt], (0,)
        part.remarks = [(0, checked.id, remark) for remark in checked.remarks]
        part.inferred = int(checked.inferred)
        part.rewritten = dict.fromkeys(checked.rewritten, 1)
        part.elsewhere = {checked.elsewhere: 1} if checked.elsewhere is not None else {}
        return part


def compact(value: Any) -> bytes:
    """`value` as JSON without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _texts(raws: list[msgspec.Raw]) -> list[bytes | None]:
    """Raw values as texts. Where all are the same, they are one object."""
    if raws[-1] == raws[0] and raws.count(raws[0]) == len(raws):
        return [bytes(raws[0])] * len(raws)
    return list(map(bytes, raws))


def _each_compact(texts: Sequence[Any]) -> list[bytes | None]:
    """Valid JSON texts without white space between their tokens."""
    compact = msgspec.json.format(_array(texts), indent=-1)
    return list(map(bytes, msgspec.json.decode(compact, type=list[msgspec.Raw])))


def _clean(ids: list[str | None]) -> bool:
    """Whether no id has control characters, or blanks at its ends."""
    present = [name for name in ids if name is not None] if None in ids else ids
    together = "".join(present)  # type: ignore[arg-type]
    return together.isprintable() and (" " not in together or list(map(str.strip, present)) == present)  # type: ignore[arg-type]


def _distinct(column: list[bytes | None]) -> AbstractSet[bytes | None]:
    """Every value once. Where all are the same, finding that out is quicker than hashing them."""
    first = column[0]
    return {first} if column.count(first) == len(column) else set(column)


def _array(texts: Sequence[bytes | None]) -> bytes:
    return b"[%b]" % b",".join(texts)  # type: ignore[arg-type]


def _unwrapped(text: bytes) -> bytes | None:
    """The JSON inside a JSON text, compact; None if it is not valid."""
    try:
        inner: str = msgspec.json.decode(text, type=str)
        return msgspec.json.format(inner, indent=-1).encode() if inner.strip() else b""
    except (msgspec.DecodeError, RecursionError):
        return None


def _sound(texts: Sequence[bytes | None], decoder: msgspec.json.Decoder[Any]) -> bool:
    """Whether all texts are what the decoder wants, without duplicate keys."""
    if not texts:
        return True
    joined = _array(texts)
    try:
        return _unchanged(joined, decoder.decode(joined))
    except _UNSOUND:
        return False


def _unchanged(text: bytes, value: Any) -> bool:
    """Whether `value`, decoded from compact `text`, still has every key that the text has."""
    again = _encode(value)
    return again == text or (b'\\\\":' not in text and _keys(again) == _keys(text))


def _keys(text: bytes) -> int:
    """Keys in a compact text, and the same surplus for texts that begin with a colon on either side of a comparison."""
    return text.count(b'":') - text.count(b'\\":')
