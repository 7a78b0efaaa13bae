"""The text of a configuration while it is edited, and what it means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from hudtui.core.errors import HudtuiError

if TYPE_CHECKING:
    from hudtui.core.environment.matching import EnvironmentIdentity
    from hudtui.core.environment.values import Analysis, Tool
    from hudtui.core.gym.editing.incremental import IncrementalReader
    from hudtui.core.gym.editing.preview import ActionRow
    from hudtui.core.gym.lint.findings import Finding
    from hudtui.core.gym.values import GymConfig

AT_ONCE = 30_000
"""Most characters that are read at each keystroke; longer texts wait for the check."""

Part = Literal["meaning", "findings", "rows"]


class LiveConfig:
    """A configuration as it is typed: its last valid meaning, its findings, and the tools that its calls can reach."""

    def __init__(self) -> None:
        from hudtui.core.gym.editing.incremental import IncrementalReader
        from hudtui.core.gym.editing.preview import ActionTable
        from hudtui.core.gym.lint.worker import LintWorker

        self.lines: list[str] = []
        self.config: GymConfig | None = None
        """The last valid configuration."""
        self.stale: str | None = None
        """Why `config` is not that of the current text; None if it is."""
        self.findings: tuple[Finding, ...] = ()
        self.rows: tuple[ActionRow, ...] = ()
        """Every action with an example of it."""
        self.analysis: Analysis | None = None
        """The environment that was analyzed last."""
        self.tools: Mapping[str, Tool] | None = None
        """Tools that an agent's call can reach."""
        self.all_tools: Mapping[str, Tool] | None = None
        self.foreign: str | None = None
        """The configuration's environment if it is not the analyzed one, whose tools then do not apply."""
        self._identity: EnvironmentIdentity | None = None
        self._aim: tuple[str | None, tuple[str, ...]] | None = None
        """The environment and the tools of the configuration that `foreign` was computed from."""
        self._live = IncrementalReader("")
        self._table = ActionTable()
        self._checker = LintWorker()
        self._version = 0
        self._checked = -1

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_checked(self) -> bool:
        """Whether the findings are those of the current text."""
        return self._checked == self._version

    def begin(self, lines: list[str], live: IncrementalReader, config: GymConfig | None) -> None:
        self.lines, self._live, self.config, self.stale = lines, live, config, None
        self.findings, self.rows, self._aim = (), (), None
        self.choose_tools()

    def edited(self, lines: Sequence[str]) -> None:
        """Take the text after a keystroke, and read it at once if possible."""
        self.lines = list(lines)
        self._version += 1
        config = self._live.read(self.lines, most=AT_ONCE)
        if config is not None:
            self.config, self.stale = config, None
            self.choose_tools()
        elif self.stale is None:
            self.stale = "checking what this means"

    async def check(self, name: str) -> AsyncIterator[Part]:
        """Check the whole text, and yield the parts that have changed. Ends early if the text changes meanwhile."""
        version, text = self._version, self.text
        try:
            findings = await self._checker.check(text, name, self.all_tools)
        except HudtuiError:
            from hudtui.core.gym.lint.check import lint

            findings = await asyncio.to_thread(lint, text, name=name, tools=self.all_tools)
        if version != self._version:
            return
        self._checked = version
        if self.stale is not None or self._live.read(self.lines, most=0) is None:
            if not await self._read_whole(text, name, findings):
                return
            yield "meaning"
        if version == self._version:
            self.findings = findings
            yield "findings"
        if self.config is not None and version == self._version:
            self.rows = await asyncio.to_thread(self._table.rows, self.config, self.tools)
            yield "rows"

    async def _read_whole(self, text: str, name: str, findings: tuple[Finding, ...]) -> bool:
        """Read the whole text, if reading its parts was not enough; False if it has changed meanwhile."""
        wrong = next((finding for finding in findings if finding.code in ("yaml", "shape") and finding.mapping is None), None)
        if wrong is not None and wrong.code == "yaml":
            self.stale = f"line {wrong.line} does not parse: {wrong.message}"
            return True
        from hudtui.core.gym.config import parse_config

        version = self._version
        config = await asyncio.to_thread(self._live.read, self.lines)
        if config is None:
            config, _ = await asyncio.to_thread(parse_config, text, name=name)
        if version != self._version:
            return False
        if config is None:
            self.stale = "this is no configuration" if wrong is None else wrong.message
        else:
            self.config, self.stale = config, None
            self.choose_tools()
        return True

    def take_analysis(self, analysis: Analysis | None, identity: EnvironmentIdentity | None) -> None:
        """Take the environment that was analyzed last, and its names."""
        if analysis != self.analysis:
            self.analysis, self._identity, self._aim = analysis, identity, None
            self.choose_tools()

    def choose_tools(self) -> None:
        """Check calls against the tools of the analyzed environment if the configuration is for it."""
        from hudtui.core.gym.editing.preview import agent_tools
        from hudtui.core.gym.environment_name import called_tools, declared_environment, is_config_for

        analysis, identity = self.analysis, self._identity
        if analysis is None or identity is None:
            self.tools = self.all_tools = self.foreign = None
            return
        aim = (declared_environment(self.config), called_tools(self.config)) if self.config is not None else (None, ())
        if aim == self._aim:
            return
        first, self._aim = self._aim is None, aim
        foreign = None if is_config_for(*aim, analysis, identity) else aim[0] or "another environment"
        if first or (foreign is None) != (self.foreign is None):
            self.tools = None if foreign else agent_tools(analysis)
            self.all_tools = None if foreign else {tool.name: tool for tool in analysis.tools}
            self._version += 1
        self.foreign = foreign

    async def close(self) -> None:
        """End the process that checks."""
        await self._checker.close()
