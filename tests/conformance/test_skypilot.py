"""What SkyPilot 0.14.1 was recorded to ask for, asked again. SkyPilot itself is not run: it brings
a server and 400 MB."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2

from hudtui.sim import PrimeSimulator
from hudtui.sim.catalogue import offer

REQUESTS = json.loads(Path(__file__).with_name("skypilot-requests.json").read_text())["requests"]


def test_its_requests_are_served_in_their_order() -> None:
    place = ("eu_north", "FIN-02", "FI")
    # It always says PCIe.
    market = [
        offer(
            "sim-h100-1",
            "H100_80GB",
            1,
            80,
            2.1,
            place,
            socket="PCIe",
            disk=200,
            vcpus=30,
            ram_gb=180,
        )
    ]
    with (
        PrimeSimulator(offers=market) as sim,
        httpx2.Client(
            base_url=sim.url,
            headers={"Authorization": f"Bearer {sim.api_key}"},
            follow_redirects=True,
        ) as http,
    ):
        for request in REQUESTS:
            answer = http.request(
                request["method"], request["path"], params=request["query"], json=request["body"]
            )
            assert answer.status_code == request["status"], (request, answer.text)
        assert [pod.name for pod in sim.alive] == ["simx-<userhash>-head"]
        assert [pod["name"] for pod in answer.json()["data"]] == ["simx-<userhash>-head"], (
            "the list that follows has the new pod"
        )
        assert sim.alive[0].order["maxPrice"] == 0
