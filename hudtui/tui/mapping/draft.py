"""The text of a configuration while it is edited, and what it means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hudtui.core.environment.matching import EnvironmentIdentity
    from hudtui.core.environment.values import Analysis, Tool
    from hudtui.core.gym.editing.preview import ActionRow
    from hudtui.core.gym.lint.findings import Finding
    from hudtui.core.gym.values import GymConfig

LONG = 100_000
"""Characters from which reading takes so long that the meaning on screen is marked as old
meanwhile."""

Part = Literal["meaning", "findings", "rows"]


class LiveConfig:
    """A configuration as it is typed.

    Its last valid meaning, its findings, and the tools that its calls can reach.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.config: GymConfig | None = None
        """The last valid configuration."""
        self.stale: str | None = None
        """Why `config` is not that of the text; None if it is, or will be in a moment."""
        self.findings: tuple[Finding, ...] = ()
        self.rows: tuple[ActionRow, ...] = ()
        """Every action with an example of it."""
        self.analysis: Analysis | None = None
        """The environment that was analyzed last."""
        self.tools: Mapping[str, Tool] | None = None
        """Tools that an agent's call can reach."""
        self.all_tools: Mapping[str, Tool] | None = None
        self.foreign: str | None = None
        """The configuration's environment if it is not the analyzed one, whose tools then do not
        apply."""
        self._identity: EnvironmentIdentity | None = None
        self._aim: tuple[str | None, tuple[str, ...]] | None = None
        """The environment and the tools of the configuration that `foreign` was computed from."""
        self._edits = 0
        self._read = 0
        """The number of edits in the text that was read last."""
        self._check = 0
        """Counts everything that findings depend on: texts, and changes of the tools."""
        self._checked = -1

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_read(self) -> bool:
        """True if `config` and `stale` are those of the current text."""
        return self._read == self._edits

    @property
    def is_checked(self) -> bool:
        """True if the findings are those of the current text."""
        return self._checked == self._check

    def begin(
        self, lines: list[str], config: GymConfig | None, findings: Sequence[Finding]
    ) -> None:
        """Start with the text of another file, and what `parse_config` made of it."""
        self.edited(lines)
        self.config = None
        self.findings, self.rows, self._aim = (), (), None
        self._take(self._edits, config, findings)
        self.choose_tools()

    def edited(self, lines: Sequence[str]) -> None:
        """Take the text after a keystroke; `read` follows."""
        self.lines = list(lines)
        self._edits += 1
        self._check += 1
        if self.stale is None and sum(map(len, self.lines)) > LONG:
            self.stale = "checking what this means"

    async def read(self, name: str) -> None:
        """Read the text in a thread.

        The result counts unless that of a newer text has come before it.
        """
        from hudtui.core.gym.config import parse_config

        edits, text = self._edits, self.text
        self._take(edits, *await asyncio.to_thread(parse_config, text, name=name))

    def _take(self, edits: int, config: GymConfig | None, findings: Sequence[Finding]) -> None:
        if edits < self._read:
            return
        self._read = edits
        if config is not None:
            self.config, self.stale = config, None
            self.choose_tools()
            return
        reason = findings[0]
        self.stale = (
            reason.message
            if reason.code != "yaml"
            else f"line {reason.line} does not parse: {reason.message}"
        )

    async def check(self, name: str) -> AsyncIterator[Part]:
        """Check the whole text, and yield the parts that have changed.

        Ends early if the text changes meanwhile.
        """
        from hudtui.core.gym.editing.preview import action_rows
        from hudtui.core.gym.lint.check import lint

        if not self.is_read:
            await self.read(name)
            yield "meaning"
            if not self.is_read:
                return
        check = self._check
        findings = await asyncio.to_thread(lint, self.text, name=name, tools=self.all_tools)
        if check != self._check:
            return
        self._checked, self.findings = check, findings
        yield "findings"
        if self.config is None:
            return
        rows = await asyncio.to_thread(action_rows, self.config, self.tools)
        if check == self._check:
            self.rows = rows
            yield "rows"

    def take_analysis(
        self, analysis: Analysis | None, identity: EnvironmentIdentity | None
    ) -> None:
        """Take the environment that was analyzed last, and its names."""
        if analysis != self.analysis:
            self.analysis, self._identity, self._aim = analysis, identity, None
            self.choose_tools()

    def choose_tools(self) -> None:
        """Check calls against the analyzed environment's tools if the configuration is for it."""
        from hudtui.core.gym.editing.preview import agent_tools
        from hudtui.core.gym.environment_name import (
            called_tools,
            declared_environment,
            is_config_for,
        )

        analysis, identity = self.analysis, self._identity
        if analysis is None or identity is None:
            self.tools = self.all_tools = self.foreign = None
            return
        aim = (
            (declared_environment(self.config), called_tools(self.config))
            if self.config is not None
            else (None, ())
        )
        if aim == self._aim:
            return
        first, self._aim = self._aim is None, aim
        foreign = (
            None if is_config_for(*aim, analysis, identity) else aim[0] or "another environment"
        )
        if first or (foreign is None) != (self.foreign is None):
            self.tools = None if foreign else agent_tools(analysis)
            self.all_tools = None if foreign else {tool.name: tool for tool in analysis.tools}
            self._check += 1
        self.foreign = foreign
