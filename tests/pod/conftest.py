from __future__ import annotations

from support import tmux_world

own_tmux = tmux_world.own_tmux
