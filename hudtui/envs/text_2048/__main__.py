"""`python -m hudtui.envs.text_2048 [--http] [--host H] [--port N] [--path P] [--seed N]`."""

from __future__ import annotations

import argparse
import contextlib
import sys


def main() -> int:
    """Serve the environment; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m hudtui.envs.text_2048",
        description=(
            "The game 2048 as an MCP server, over standard input and output unless --http is given."
        ),
    )
    parser.add_argument("--http", action="store_true", help="serve streamable HTTP instead")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8765,
        help="port to listen on, 0 for any free one (default: %(default)s)",
    )
    parser.add_argument(
        "--path", default="/mcp", help="path of the endpoint (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, help="seed of the games that begin without a setup")
    options = parser.parse_args()

    if not options.http:
        from hudtui.envs.text_2048.stdio import serve

        with contextlib.suppress(KeyboardInterrupt):
            serve(options.seed)
        return 0
    import asyncio
    import socket

    try:
        listener = socket.create_server((options.host, options.port), backlog=512)
    except (OSError, OverflowError) as error:
        print(f"cannot listen on {options.host}:{options.port}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    from hudtui.envs.text_2048.server import serve_http

    port = listener.getsockname()[1]
    url = f"http://{options.host}:{port}{options.path}"
    print(f"text-2048 listens on {url}", file=sys.stderr, flush=True)  # noqa: T201
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve_http(listener, host=options.host, path=options.path, seed=options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
