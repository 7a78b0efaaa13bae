"""Who else uses the computer, and the web pages that its user opens, get nothing from a
simulator."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import threading
from pathlib import Path

import httpx2
import pytest

from hudtui.sim import PrimeSimulator
from hudtui.sim.api import ENTRIES

EVIL = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOFh4sSnFDTiTCJWcNJLJNzq1a8cCMLgw9dYDwyBDw3F evil"
CONTROL = [
    ("GET", "/sim/state"),
    ("GET", "/sim/requests"),
    ("POST", "/sim/advance"),
    ("POST", "/sim/fail"),
    ("POST", "/sim/heal"),
    ("POST", "/sim/scenario"),
    ("POST", "/sim/refuse"),
    ("POST", "/sim/tokens"),
    ("POST", "/sim/pods/x"),
    ("POST", "/sim/pods/x/reclaim"),
]
API = [(entry.method, entry.path) for entry in ENTRIES if entry.area is not None]
HEADERS = [
    {},
    {"Authorization": "Bearer sim-key"},
    {"Authorization": "Bearer"},
    {"Authorization": "Basic c2ltLWtleTo="},
]


def told(sim: PrimeSimulator) -> object:
    return (
        sim.account.to_json(),
        sim.account.tokens,
        sim.state()["behaviour"],
        sim.state()["faults"],
        sim.clock.now(),
    )


@pytest.mark.parametrize(
    "headers", HEADERS, ids=lambda headers: headers.get("Authorization", "no key")
)
def test_a_stranger_is_told_nothing_and_changes_nothing(
    sim: PrimeSimulator, headers: dict[str, str]
) -> None:
    before = told(sim)
    body = {
        "name": "x",
        "names": ["no-money"],
        "publicKey": EVIL,
        "seconds": 3600,
        "token": "mine",
        "method": "*",
        "path": "*",
    }
    with httpx2.Client(base_url=sim.url, headers=headers) as http:
        for method, path in [*API, *CONTROL]:
            answer = http.request(
                method,
                path.replace("{", "").replace("}", ""),
                json=body if method != "GET" else None,
            )
            assert (answer.status_code, answer.json()) == (
                401,
                {"detail": "Could not validate credentials"},
            ), (method, path)
    assert told(sim) == before and not sim.alive and not sim.account.ssh_keys


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1@evil.example"}, 421),
        ({"Host": "localhost:{port}:80"}, 421),
        ({"Host": "0.0.0.0:{port}"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 403),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/v1/ssh_keys/"), ("POST", "/sim/tokens"), ("GET", "/sim/state")],
)
def test_a_web_page_is_not_answered_even_with_the_key(
    sim: PrimeSimulator, headers: dict[str, str], status: int, method: str, path: str
) -> None:
    before = told(sim)
    own = {name: value.format(port=sim.url.rpartition(":")[2]) for name, value in headers.items()}
    with httpx2.Client(
        base_url=sim.url, headers={"Authorization": f"Bearer {sim.api_key}"}
    ) as http:
        answer = http.request(
            method, path, headers=own, json={"name": "x", "publicKey": EVIL, "token": "mine"}
        )
    assert answer.status_code == status and "access-control-allow-origin" not in answer.headers
    assert told(sim) == before and not sim.account.ssh_keys


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]:{port}", "127.0.0.1:9"]
)
def test_this_machine_has_several_names(sim: PrimeSimulator, host: str) -> None:
    own = {
        "Authorization": f"Bearer {sim.api_key}",
        "Host": host.format(port=sim.url.rpartition(":")[2]),
    }
    with httpx2.Client(base_url=sim.url, headers=own) as http:
        assert (
            http.get("/api/v1/pods/").status_code == 200
            and http.get("/sim/state").status_code == 200
        )


def test_a_key_with_limits_has_no_control(sim: PrimeSimulator) -> None:
    sim.add_token("some", {"instances": {"read": True, "write": True}})
    with httpx2.Client(base_url=sim.url, headers={"Authorization": "Bearer some"}) as http:
        assert http.get("/api/v1/pods/").status_code == 200
        assert (
            http.post("/sim/tokens", json={"token": "all"}).status_code == 401
            and "all" not in sim.account.tokens
        )


def test_a_body_without_end_is_refused(sim: PrimeSimulator) -> None:
    with httpx2.Client(base_url=sim.url) as http:
        assert http.post("/api/v1/pods/", content=b"[" * (2**20 + 1)).status_code == 413
        assert not sim.requests
        http.headers["Authorization"] = f"Bearer {sim.api_key}"
        assert http.post("/api/v1/pods/", content=b"[" * 2**20).status_code == 422
        assert http.post("/sim/fail", content=b"[" * 2**20).status_code == 400


def test_a_pod_lets_in_registered_keys_alone(api, ssh, tmp_path: Path) -> None:
    way = api.ready()["sshConnection"]
    assert ssh(way, "echo in").stdout == "in\n"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True
    )
    target, _, port = way.partition(" -p ")
    argv = [
        "ssh",
        "-F",
        "none",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "BatchMode=yes",
    ]
    for options in (
        ["-o", "IdentityAgent=none", "-o", "IdentitiesOnly=yes", "-i", str(tmp_path / "other")],
        ["-o", "PubkeyAuthentication=no"],
        [
            "-o",
            "PreferredAuthentications=none,password,keyboard-interactive,hostbased,gssapi-with-mic",
        ],
    ):
        done = subprocess.run(
            [*argv, *options, "-p", port, target, "echo in"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 255 and not done.stdout and "Permission denied" in done.stderr


def test_the_key_is_random_and_lasts_as_long_as_the_state(tmp_path: Path) -> None:
    with PrimeSimulator(state=tmp_path / "a") as one, PrimeSimulator() as other:
        assert one.api_key != other.api_key and len(one.api_key) >= 36
        assert (tmp_path / "a" / "state.json").stat().st_mode & 0o777 == 0o600
    with PrimeSimulator(state=tmp_path / "a") as again:
        assert again.api_key == one.api_key and again.url == one.url


def test_no_other_user_can_read_what_is_kept_at_any_moment(tmp_path: Path) -> None:
    """A wide umask, and somebody who looks all the time."""
    seen: set[int] = set()
    ended = threading.Event()

    def look() -> None:
        over = False
        while not over:
            over = ended.is_set()  # once more when it is
            for path in tmp_path.glob("state/*.json*"):
                with contextlib.suppress(FileNotFoundError):
                    seen.add(stat.S_IMODE(path.stat().st_mode))

    before = os.umask(0)
    looking = threading.Thread(target=look)
    looking.start()
    try:
        with PrimeSimulator(state=tmp_path / "state") as sim:
            for _ in range(20):
                sim.clock.advance(1)
    finally:
        os.umask(before)
        ended.set()
        looking.join()
    assert seen == {0o600}


def test_a_folder_of_another_users_making_is_not_taken_for_the_machines(tmp_path: Path) -> None:
    with PrimeSimulator(state=tmp_path / "state") as sim:
        machines = sim._folder.machines
    assert not machines.exists()
    machines.mkdir(mode=0o777)
    machines.chmod(0o777)
    try:
        with PrimeSimulator(state=tmp_path / "state") as again:
            found = again._folder.machines
            assert found != machines and stat.S_IMODE(found.stat().st_mode) == 0o700
    finally:
        machines.rmdir()


def test_a_port_that_was_taken_meanwhile_is_left_to_its_owner(tmp_path: Path) -> None:
    with PrimeSimulator(state=tmp_path) as sim:
        url, port = sim.url, int(sim.url.rpartition(":")[2])
    with PrimeSimulator(port=port) as squatter, PrimeSimulator(state=tmp_path) as again:
        assert squatter.url == url and again.url != url and again.api_key == sim.api_key
