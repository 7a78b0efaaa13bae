"""The entry of a provider in the registry: all that hudtui has to know before it opens one.

Settings are made of the entries, and so each command reads them: an entry's module imports its
provider when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Pod
    from hudtui.core.credentials import KeyRequest
    from hudtui.core.remote.target import SshTarget
    from hudtui.core.settings import Setting

Lookup = Callable[[str], str | None]
"""Returns the value of a setting by its name, as `Settings.get` does."""


@dataclass(frozen=True, kw_only=True)
class ProviderEntry:
    """A provider that machines are rented from. Each function takes a `Lookup` and asks nobody."""

    name: str
    """As users type it; also `Provider.name`."""
    label: str
    """Short name for the user, such as `Prime`."""
    title: Callable[[Lookup], str]
    """Returns `Provider.title` before the provider is opened."""
    make: Callable[[Lookup], Provider | None]
    """Opens the provider; None where something is lacking.

    Raises InputError for an invalid setting, and ProviderError where it cannot be asked now.
    """
    lacking: Callable[[Lookup], str | None]
    """Returns what is lacking and what to do, as `WHAT: FIX`; None if it can be opened."""
    settings: tuple[Setting, ...] = ()
    """Settings that it reads. Their secrets never go to a machine."""
    key: str | None = None
    """The setting with the user's key."""
    key_request: Callable[[], KeyRequest] | None = None
    """Returns the question to the service whose key it is."""
    guard_key: str | None = None
    """The setting with a key that may only end machines, for the guard on a machine; None if there
    are no such keys."""
    on_demand: Callable[[Lookup], bool] | None = None
    """Opened only where this returns True, where it is named, or where a machine of it may be
    alive; None: always."""
    target: Callable[[Pod, int], SshTarget | None] | None = None
    """Returns the login of a machine of a pod, by its number; None where its address and the user's
    SSH key are the login."""
