"""A simulator of the Prime Intellect API whose pods are real SSH hosts on loopback.

    async with PrimeSimulator() as sim:     # or: with PrimeSimulator() as sim
        ...                                  # a client of sim.url with sim.api_key
        sim.clock.advance(60)                # the machine boots, the wallet pays
        sim.fail_next("POST", "/api/v1/pods/", kind="reset_after")

It imports nothing of `hudtui.core`, so that the two cannot share a mistake. See docs/simulator.md.
"""

from hudtui.sim.clock import SimClock
from hudtui.sim.faults import SCENARIOS, Fault, RecordedRequest, Scenario
from hudtui.sim.server import PrimeSimulator

__all__ = ["SCENARIOS", "Fault", "PrimeSimulator", "RecordedRequest", "Scenario", "SimClock"]
