"""What a name turns out to be, and what it must not be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hudtui.core.environment.servers import Secrets, ServerSpec, fill_variables, parse_mcp_config
from hudtui.core.environment.source import container_spec, image_name, parse_source
from hudtui.core.errors import InputError, SourceError
from hudtui.core.masking import mask_text, mask_url

LOCKS = {
    "hud.lock.yaml": """\
version: "1.3"
images:
  local: org/env:dev
  full: org/env:1.0@sha256:{digest}
  pushed: null
environment:
  initializeMs: 1500
  variables:
    provided:
      SECRET_KEY: sk-in-the-file
    required: [HUD_API_KEY]
    optional: [MODE]
tools:
  - name: move
    description: Move
    inputSchema: {{type: object}}
  - name: setup
    inputSchema: {{type: object}}
    internalTools: [board]
""".format(digest="a" * 64),
}


@pytest.mark.parametrize("name", ["text-2048", "text_2048", "Text-2048"])
def test_bundled(name):
    source = parse_source(name)
    assert (source.kind, source.text) == ("bundled", "text-2048")
    assert source.servers[0].command == sys.executable


@pytest.mark.parametrize(
    ("image", "short"),
    [
        ("hudpython/hud-text-2048:latest", "hud-text-2048"),
        ("my-env:latest", "my-env"),
        ("my-env", "my-env"),
        ("localhost:5000/a/b:1.0", "b"),
        ("ghcr.io/org/env_x@sha256:" + "0" * 64, "env_x"),
        ("registry.example.com:443/a/b/c:tag@sha256:" + "f" * 64, "c"),
        ("[::1]:5000/env:1", "env"),
    ],
)
def test_images(image, short, monkeypatch):
    monkeypatch.setenv("HUDTUI_ENGINE", "podman")
    source = parse_source(image)
    assert (source.kind, source.text, source.image) == ("image", image, image)
    spec = source.servers[0]
    never = (
        ("--pull=never",) if image == "my-env" else ()
    )  # a single word is no reason to ask a registry
    assert (spec.name, spec.command, spec.args) == (
        short,
        "podman",
        ("run", "--rm", "-i", *never, image),
    )
    assert image_name(image) == short


def test_a_container_gets_names_of_variables_and_a_name_of_its_own():
    spec = parse_source("org/env:1", env={"HUD_API_KEY": None, "MODE": "fast"}).servers[0]
    assert spec.args == ("run", "--rm", "-i", "-e", "HUD_API_KEY", "-e", "MODE", "org/env:1")
    assert (dict(spec.env), spec.pass_on) == ({"MODE": "fast"}, ("HUD_API_KEY",))
    (first, undo), (second, _) = spec.to_start(), spec.to_start()
    assert first[1:5] == ("run", "--name", first[3], "--rm")
    assert first[3] != second[3]
    assert undo == (spec.command, "rm", "-f", "-v", first[3])
    ready, warnings = fill_variables(spec, {"HUD_API_KEY": "sk-very-secret"}.get, Secrets())
    assert ready.env == {"HUD_API_KEY": "sk-very-secret", "MODE": "fast"}
    assert "sk-very-secret" not in " ".join(ready.args)
    assert warnings == ()


@pytest.mark.parametrize("engines", [("docker",), ("podman",), ("docker", "podman")])
def test_whichever_engine_is_there(engines, tmp_path, monkeypatch):
    for engine in engines:
        (tmp_path / engine).write_text("#!/bin/sh\n")
        (tmp_path / engine).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert container_spec("org/env:1").command == engines[0]


@pytest.mark.parametrize(
    ("url", "sse", "name"),
    [
        ("https://mcp.hud.ai/v3/mcp", False, "mcp.hud.ai"),
        ("http://localhost:8765/mcp", False, "localhost"),
        ("http://localhost:8765/sse", True, "localhost"),
        ("http://localhost:8765/sse/?x=1", True, "localhost"),
        ("HTTP://[::1]:80/mcp", False, "::1"),
    ],
)
def test_urls(url, sse, name):
    source = parse_source(url, headers={"Authorization": "Bearer $KEY"})
    spec = source.servers[0]
    assert (source.kind, spec.url, spec.sse, spec.name) == ("url", url, sse, name)
    assert spec.headers == {"Authorization": "Bearer $KEY"}
    assert parse_source(url, sse=True).servers[0].sse


def test_a_command_is_taken_literally():
    source = parse_source(None, ["sh", "-c", "echo $HOME"])
    ready, warnings = fill_variables(source.servers[0], {"HOME": "/root"}.get, Secrets())
    assert (source.kind, ready.args, warnings) == ("command", ("-c", "echo $HOME"), ())
    assert source.text == "-- sh -c 'echo $HOME'"
    assert parse_source(source.text) == source, "what a source calls itself names it"
    assert parse_source(None, ["serve", "--api-key=sk-1234567"]).text == "-- serve --api-key=***"
    with pytest.raises(SourceError, match="quotes"):
        parse_source("-- sh -c 'x")


def test_v6():
    source = parse_source("tcp://localhost:8765")
    assert (source.kind, source.address) == ("hud-v6", ("localhost", 8765))


@pytest.mark.parametrize("wrapper", ["{}", '{{"mcpServers": {}}}', '{{"mcp_config": {}}}'])
def test_configs_inline_and_from_a_file(wrapper, tmp_path):
    config = {
        "a": {"command": "x", "args": ["1", 2], "env": {"N": 3, "T": True}},
        "b": {"url": "http://h/mcp", "type": "sse"},
    }
    text = wrapper.format(json.dumps(config))
    (tmp_path / "mcp.json").write_bytes(b"\xef\xbb\xbf" + text.replace(",", ",\r\n").encode())
    for source in (parse_source(text), parse_source("mcp.json", folder=tmp_path)):
        assert source.kind == "config"
        first, second = source.servers
        assert (first.name, first.args, first.env) == ("a", ("1", "2"), {"N": "3", "T": "true"})
        assert (second.url, second.sse) == ("http://h/mcp", True)
    assert parse_source(text).mcp_config()["a"]["args"] == ["1", "2"]


def test_a_task_file_stands_for_the_environment_of_its_tasks(tmp_path):
    config = {"hud": {"url": "https://mcp.hud.so/v3/mcp", "headers": {"Mcp-Image": "org/env:2"}}}
    tasks = [{"prompt": "a", "mcp_config": config}, {"prompt": "b", "mcp_config": config}]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    source = parse_source("tasks.json", folder=tmp_path)
    assert source.image == "org/env:2"
    tasks[1]["mcp_config"] = json.dumps(config)
    (tmp_path / "tasks.json").write_text(json.dumps(tasks[1]))
    assert parse_source("tasks.json", folder=tmp_path).servers[0].url == "https://mcp.hud.so/v3/mcp"
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    with pytest.raises(SourceError, match="do not all have the same"):
        parse_source("tasks.json", folder=tmp_path)


@pytest.mark.parametrize("as_folder", [True, False])
def test_locks(tmp_path, as_folder):
    (tmp_path / "hud.lock.yaml").write_text(LOCKS["hud.lock.yaml"])
    source = parse_source("." if as_folder else "hud.lock.yaml", folder=tmp_path)
    assert source.kind == "lock"
    assert source.image == "org/env:1.0@sha256:" + "a" * 64
    spec = source.servers[0]
    assert spec.pass_on == ("HUD_API_KEY", "MODE")
    assert "sk-in-the-file" not in repr(source)
    assert parse_source(None, folder=tmp_path).lock == tmp_path / "hud.lock.yaml"


def test_a_lock_of_another_platform_is_found(tmp_path):
    (tmp_path / "buckeye.lock.yaml").write_text("image: a/b:1\n")
    assert parse_source(".", folder=tmp_path).image == "a/b:1"


def test_a_lock_without_an_image(tmp_path):
    (tmp_path / "hud.lock.yaml").write_text("version: '1.0'\ntools: []\n")
    source = parse_source(".", folder=tmp_path)
    assert (source.servers, source.image) == ((), None)


def test_a_folder_with_tool_hud(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.hud]\nimage = "org/env:dev"\n')
    source = parse_source(str(tmp_path))
    assert (source.kind, source.image, source.text) == ("image", "org/env:dev", str(tmp_path))


def test_a_folder_to_build(tmp_path):
    folder = tmp_path / "My Env"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\n")
    with pytest.raises(SourceError) as caught:
        parse_source("My Env", folder=tmp_path)
    assert "build -t my-env:dev 'My Env'" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("a\0b", "zero byte"),
        ("./missing", "no such file or folder"),
        ("missing.json", "no such file or folder"),
        ("~/missing", "no such file or folder"),
        ("Text 2048", "not an environment that hudtui can find"),
        ("Org/Env:1", "not an environment that hudtui can find"),
        ("x" * 5000 + "/", "no such file or folder"),
        ("ftp://host/mcp", "not an address of an environment"),
        ("http://", "not a URL"),
        ("http://host:99999/mcp", "not a URL"),
        ("http://ho st/mcp", "not a URL"),
        ("http://[::1/mcp", "not a URL"),
        ("tcp://host", "tcp://host:port"),
        ("tcp://host:0", "tcp://host:port"),
        ("tcp://:8765", "tcp://host:port"),
        ("tcp://host:1/x", "tcp://host:port"),
        ("{", "not valid JSON"),
        ("{}", "no MCP servers"),
        ("[]", "do not all have the same"),
        ("[1]", "do not all have the same"),
        ('{"a": 1}', "must be an object"),
        ('{"a": {}}', "needs `command`"),
        ('{"a": {"command": ""}}', "needs `command`"),
        ('{"a": {"command": "x", "url": "http://h"}}', "is an address of another"),
        ('{"a": {"command": "x", "args": "y"}}', "list of texts"),
        ('{"a": {"command": "x", "env": ["y"]}}', "object of texts"),
        ('{"a": {"command": "x", "cwd": 5}}', "must be text"),
        ('{"a": {"url": 5}}', "must be text"),
        ('{"a": {"url": "ftp://h"}}', "begins with http"),
        ('{"a": {"url": "http://h", "headers": {"A B": "x"}}}', "cannot be the name of a header"),
        ('{"a": {"url": "http://h", "headers": {"A": "x\\ny"}}}', "line break"),
        ('{"a": {"command": "x"}, "a": {"command": "y"}}', "duplicate key"),
        ('{"mcp_config": "{"}', "not valid JSON"),
    ],
)
def test_what_is_no_source(text, message, tmp_path):
    with pytest.raises(InputError, match=message) as caught:
        parse_source(text, folder=tmp_path)
    assert caught.value.exit_code == 2


def test_files_and_folders_that_are_no_source(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pyproject.toml").write_text("[tool.hud\n")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "pyproject.toml").write_text('[tool.hud]\nimage = "Not An Image"\n')
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    for name, message in {
        "notes.txt": "neither a lock file",
        "run": "this is a program",
        "empty": "holds no environment",
        "broken": "cannot be read",
        "odd": "not the name of an image",
        "latin.json": "not UTF-8",
    }.items():
        with pytest.raises(InputError, match=message):
            parse_source(name, folder=tmp_path)


def test_two_sources_and_misplaced_options():
    with pytest.raises(SourceError, match="two sources"):
        parse_source("text-2048", ["npx"])
    with pytest.raises(SourceError, match="headers are for"):
        parse_source("text-2048", headers={"A": "b"})
    with pytest.raises(SourceError, match="only to a server that is started"):
        parse_source("http://h/mcp", env={"A": None})
    with pytest.raises(SourceError, match="line break"):
        parse_source("http://h/mcp", headers={"A": "b\r\nC: d"})


def test_keys_tell_sources_apart_and_hold_no_secret(tmp_path):
    texts = ["text-2048", "org/env:1", "org/env:2", "http://h/mcp", "http://h/sse", "tcp://h:1"]
    keys = {parse_source(text).key for text in texts}
    assert len(keys) == len(texts)
    assert parse_source("org/env:1").key == parse_source("org/env:1").key
    assert (
        parse_source(None, ["x"], folder=tmp_path).key
        != parse_source(None, ["x"], folder=Path("/")).key
    )
    config = '{"a": {"command": "x", "args": ["--token=%s"]}}'
    assert parse_source(config % "sk-1111111").key == parse_source(config % "sk-2222222").key


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:pw@h/mcp", "https://u:***@h/mcp"),
        ("https://h/mcp?api_key=abc&n=1", "https://h/mcp?api_key=***&n=1"),
        ("https://h/mcp?token=$KEY", "https://h/mcp?token=$KEY"),
        ("https://h/mcp?x=1#y", "https://h/mcp?x=1#y"),
        ("http://[", "http://["),
    ],
)
def test_urls_are_masked(url, shown):
    assert mask_url(url) == shown


def test_texts_are_masked():
    assert mask_text("run --token abc --api-key=abc HF_TOKEN=hf_x Authorization: Bearer sk-1") == (
        "run --token abc --api-key=*** HF_TOKEN=*** Authorization: ***"
    )
    assert mask_text("KEY=$KEY monkey=1 turkey: 2") == "KEY=$KEY monkey=1 turkey: 2"
    # Long words without an assignment took hours.
    for word in ("a", "secret_", "secret ", "token=", "a.key:"):
        mask_text(word * 100_000)


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("http://elsewhere.example/mcp", {"Authorization": "Bearer $HUD_API_KEY"}),
        ("http://elsewhere.example/mcp", {"X-A": "$HUD_API_KEY"}),
        ("http://elsewhere.example/mcp", {"Authorization": "Bearer sk-literal-1"}),
        ("http://elsewhere.example/mcp?token=$HUD_API_KEY", {}),
        ("http://user:password@elsewhere.example/mcp", {}),
    ],
)
def test_no_key_goes_over_plain_http_to_another_machine(url: str, headers: dict[str, str]):
    values = {"HUD_API_KEY": "sk-not-to-be-shown-1234"}
    with pytest.raises(SourceError) as caught:
        fill_variables(ServerSpec("x", url=url, headers=headers), values.get, Secrets())
    assert "in the clear" in caught.value.what
    assert "https" in (caught.value.fix or "")
    assert "sk-not-to-be" not in str(caught.value)
    for free in (
        url.replace("http://", "https://"),
        url.replace("elsewhere.example", "127.0.0.1:9"),
    ):
        assert fill_variables(ServerSpec("x", url=free, headers=headers), values.get, Secrets())[
            0
        ].url
    assert fill_variables(
        ServerSpec("x", url="http://elsewhere.example/mcp", headers={"Run-Id": "7"}),
        values.get,
        Secrets(),
    )


def test_secrets_are_hidden_everywhere():
    secrets = Secrets(["Bearer sk-12345678", "1", ""])
    assert secrets.hide("saw sk-12345678 1 time") == "saw *** 1 time"
    assert secrets.hide_tree({"a sk-12345678": ["x", {"b": "Bearer sk-12345678"}, 5, None]}) == {
        "a ***": ["x", {"b": "***"}, 5, None]
    }


@pytest.mark.parametrize(
    ("args", "image"),
    [
        (["run", "--rm", "-i", "org/env:1"], "org/env:1"),
        (
            ["run", "-it", "-e", "KEY", "--env=A=b", "-v", "/a:/b", "org/env:1", "serve", "-x"],
            "org/env:1",
        ),
        (["run", "--gpus", "all", "--name", "n", "-p8080:80", "env"], "env"),
        (["--context", "far", "run", "env"], "env"),
        (["ps"], None),
        (["run", "--rm"], None),
    ],
)
def test_the_image_in_a_docker_command(args, image):
    assert parse_mcp_config({"a": {"command": "docker", "args": args}}, "x")[0].image == image
    assert ServerSpec("a", command="ssh", args=("docker", *args)).image is None


@pytest.mark.parametrize(
    "text", ["job: {name: x}\naction_mappings: {}\n", "services: {a: {}}\nversion: '3'\n", "a: 1\n"]
)
def test_a_yaml_file_that_is_no_lock_file(tmp_path, text):
    (tmp_path / "other.yaml").write_text(text)
    with pytest.raises(SourceError, match="this YAML file is not a lock file"):
        parse_source("other.yaml", folder=tmp_path)


def test_a_command_in_one_text_is_told_how_to_be_one(tmp_path):
    with pytest.raises(SourceError) as error:
        parse_source("python3 -m some.server", folder=tmp_path)
    assert (
        error.value.fix
        == "To start it as a server, put -- before the command: -- python3 -m some.server"
    )
    with pytest.raises(SourceError) as error:
        parse_source("nosuch-program -m x", folder=tmp_path)
    assert "put --" not in (error.value.fix or "")


FOREIGN = [
    ("${env:API_KEY}", "${API_KEY}"),
    ("${ENV:API_KEY}", "${API_KEY}"),
    ("${input:api-key}", "${API_KEY}"),
    ("${input:token}", "${TOKEN}"),
    ("${secret:Key}", "${KEY}"),
    ("${config:editor.tool}", "${NAME}"),
    ("${command:pickProcess}", "${NAME}"),
    ("$env:API_KEY", "${API_KEY}"),
    ("%API_KEY%", "${API_KEY}"),
    ("%Token%", "${Token}"),
    ("a${env:HOME}b", "${HOME}"),
]


@pytest.mark.parametrize(("text", "instead"), FOREIGN)
@pytest.mark.parametrize("where", ["url", "headers.A", "command", "args", "env.A", "cwd"])
def test_variables_of_other_programs_are_refused_by_name(tmp_path, text, instead, where):
    server = {"url": "https://x"} if where in ("url", "headers.A") else {"command": "run"}
    name, _, key = where.partition(".")
    server[name] = {key: f"x {text}"} if key else [text] if name == "args" else f"https://x/{text}"
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"odd": server}}))
    with pytest.raises(SourceError) as caught:
        parse_source("mcp.json", folder=tmp_path)
    told = str(caught.value)
    assert text.strip("ab") in told and f"odd.{where}" in told and instead in told, told


@pytest.mark.parametrize(
    "text",
    [
        "${HOME}",
        "${HOME:-/x}",
        "${env}",
        "${environment:-x}",
        "$HOME",
        "date +%Y%m%d",
        "%s%d",
        "100%",
        "$$env",
        "a%20b%20c",
    ],
)
def test_what_is_no_variable_of_others_stays(text):
    (spec,) = parse_mcp_config({"a": {"command": "run", "args": [text]}}, "x")
    assert spec.args == (text,)


def test_an_encoded_address_holds_no_variable():
    (spec,) = parse_mcp_config({"a": {"url": "https://x/%C3%BC%E4BD%20b"}}, "x")
    assert spec.url == "https://x/%C3%BC%E4BD%20b"
