"""The control paths under `/sim`, for tests in other processes. They need a key that may do everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from hudtui.sim.server import PrimeSimulator


def control_routes(sim: PrimeSimulator) -> list[Route]:
    """Everything that `PrimeSimulator` offers in a process of its own, as HTTP."""

    def post(path: str, act: Callable[[Request, dict[str, Any]], Any]) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                body = await request.json() if await request.body() else {}
                told = act(request, body)
                if isinstance(told, Awaitable):
                    await told
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                return JSONResponse({"detail": f"{type(error).__name__}: {error}"}, 400)
            await sim.sync()
            return JSONResponse(sim.state())

        return Route(path, endpoint, methods=["POST"])

    async def state(request: Request) -> Response:
        await sim.sync()
        return JSONResponse(sim.state())

    async def requests(request: Request) -> Response:
        return JSONResponse([seen.to_json() for seen in sim.requests])

    return [
        Route("/sim/state", state),
        Route("/sim/requests", requests),
        post("/sim/advance", lambda request, body: sim.clock.advance(float(body["seconds"]))),
        post("/sim/fail", lambda request, body: sim.fail_next(**body)),
        post("/sim/heal", lambda request, body: sim.heal()),
        post("/sim/scenario", lambda request, body: sim.scenario(*body.get("names", [body.get("name", "plain")]))),
        post("/sim/refuse", lambda request, body: sim.listener.refuse(float(body["seconds"]))),
        post("/sim/tokens", lambda request, body: sim.add_token(body["token"], body.get("scopes"))),
        post("/sim/pods/{pod_id}", lambda request, body: sim.set_pod(request.path_params["pod_id"], **body)),
        post("/sim/pods/{pod_id}/reclaim", lambda request, body: sim.reclaim(request.path_params["pod_id"])),
    ]
