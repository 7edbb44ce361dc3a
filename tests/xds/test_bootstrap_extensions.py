"""What a bootstrap says to trxds alone: files in place of a server, and the cache on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from trxds.cli.check import check, check_servers
from trxds.core.status import BootstrapError
from trxds.testing import MemoryNetwork
from trxds.testing import resources as xds
from trxds.xds.bootstrap import CacheSettings, ServerConfig, parse

SERVER = {"server_uri": "10.0.0.5:18000", "channel_creds": [{"type": "tls"}]}


def problem(document: Any) -> str:
    with pytest.raises(BootstrapError) as caught:
        parse(document)
    return str(caught.value)


def warnings(document: Any) -> list[str]:
    report = check(json.dumps({"node": {"id": "web-1"}, **document}))
    assert report.bootstrap is not None
    return [f"{finding.path}: {finding.text}" for finding in report.findings]


# -- files


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///etc/mesh", "/etc/mesh"),
        ("file:/etc/mesh.yaml", "/etc/mesh.yaml"),
        ("file://localhost/etc/a%20b", "/etc/a b"),
    ],
)
def test_a_server_may_be_a_path(uri: str, path: str) -> None:
    (server,) = parse({"xds_servers": [{"server_uri": uri}]}).servers
    assert (server, server.files) == (ServerConfig(uri), path)


def test_a_server_with_an_address_has_no_files() -> None:
    (server,) = parse({"xds_servers": [SERVER]}).servers
    assert server.files == ""


@pytest.mark.parametrize(
    "uri",
    ["file://etc/mesh", "file:mesh.yaml", "file:///etc/mesh?x", "file:///etc/mesh#x", "file:///etc/a%00b", "file:"],
)
def test_a_file_uri_that_is_no_absolute_path_is_an_error(uri: str) -> None:
    text = f"bootstrap: xds_servers[0].server_uri: {uri!r} is no absolute path; write for example file:///etc/mesh"
    assert problem({"xds_servers": [{"server_uri": uri}]}) == text


def test_the_check_of_a_bootstrap_reads_its_files(tmp_path: Path) -> None:
    server = {"server_uri": f"file://{tmp_path}"}
    (tmp_path / "good.yaml").write_text("[]")
    assert warnings({"xds_servers": [server]}) == []
    (tmp_path / "bad.yaml").write_text("- '@type': x\n- 7\n")
    assert warnings({"xds_servers": [server]}) == [
        f"xds_servers[0].server_uri: {tmp_path}/bad.yaml: line 1: @type: unknown type 'x' (on this machine)",
        f"xds_servers[0].server_uri: {tmp_path}/bad.yaml: line 2: must be a mapping with '@type' (on this machine)",
    ]


def test_credentials_for_files_have_no_effect_and_the_check_says_so(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("[]")
    server = {"server_uri": f"file://{tmp_path}", "channel_creds": [{"type": "insecure"}], "call_creds": []}
    assert warnings({"xds_servers": [server]}) == [
        "xds_servers[0].call_creds: has no effect: nobody connects to a file",
        "xds_servers[0].channel_creds: has no effect: nobody connects to a file",
    ]


async def test_a_check_that_connects_lists_the_listeners_of_files(autojump_clock: Any, tmp_path: Path) -> None:
    async def answer(target: str | None = None) -> tuple[bool, str]:
        bootstrap = parse({"xds_servers": [{"server_uri": f"file://{tmp_path}"}]})
        (result,) = (await check_servers(bootstrap, MemoryNetwork(), target, 10.0)).values()
        return result.is_good, result.text

    file = tmp_path / "mesh.json"
    file.write_text(json.dumps([xds.listener("shop", routes="r"), xds.cluster("cart")]))
    assert await answer() == (True, "the files have 1 Listener: shop")
    assert await answer("xds:///cart") == (False, 'the files have 1 Listener: shop; "cart" is not there')
    file.write_text(json.dumps([{**xds.cluster("cart"), "lb_policy": "MAGLEV"}]))
    is_good, text = await answer()
    assert not is_good
    assert text.startswith(f"the files have no Listeners; {file}: line 1: cart: errors validating Cluster resource: [")
    file.unlink()
    is_good, text = await answer()
    assert (is_good, text) == (False, f"{tmp_path}: no file ends in .yaml, .yml or .json")
    await trio.lowlevel.checkpoint()


async def test_a_check_of_files_knows_what_a_client_with_this_bootstrap_knows(
    autojump_clock: Any, tmp_path: Path
) -> None:
    """The bootstrap's certificate providers, and trxds's own policies by their names."""
    provider = {"plugin_name": "file_watcher", "config": {"ca_certificate_file": "/ca.pem"}}
    bootstrap = parse(
        {"xds_servers": [{"server_uri": f"file://{tmp_path}"}], "certificate_providers": {"mesh": provider}}
    )
    validation = {"ca_certificate_provider_instance": {"instance_name": "mesh"}}
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {"validation_context": validation},
    }
    policy = {"@type": "type.googleapis.com/xds.type.v3.TypedStruct", "type_url": "type.googleapis.com/round_robin"}
    cluster = {
        **xds.cluster("cart"),
        "transport_socket": {"name": "tls", "typed_config": tls},
        "load_balancing_policy": {"policies": [{"typed_extension_config": {"name": "p", "typed_config": policy}}]},
    }
    (tmp_path / "mesh.json").write_text(json.dumps([cluster]))
    (result,) = (await check_servers(bootstrap, MemoryNetwork(), None, 10.0)).values()
    assert (result.is_good, result.text) == (True, "the files have no Listeners")


# -- the cache


def test_the_settings_of_the_cache_are_read() -> None:
    cache = {"directory": "/var/cache/shop", "max_age": "60s"}
    assert parse({"xds_servers": [SERVER], "trxds.cache": cache}).cache == CacheSettings("/var/cache/shop", 60.0)


def test_without_settings_there_is_no_cache_and_its_age_is_a_day() -> None:
    assert parse({"xds_servers": [SERVER]}).cache == CacheSettings("", 86400.0)


@pytest.mark.parametrize(
    ("cache", "text"),
    [
        ({"directory": "cache"}, "trxds.cache.directory: is 'cache'; write an absolute path"),
        ({"directory": "/a\0b"}, "trxds.cache.directory: is '/a\\x00b'; write an absolute path"),
        ({"directory": 7}, "trxds.cache.directory: is a number; write a string"),
        ({"max_age": "0s"}, "trxds.cache.max_age: is '0s'; write seconds such as \"600s\""),
        ("/var/cache", "trxds.cache: is a string; write an object"),
    ],
)
def test_wrong_settings_of_the_cache_are_errors(cache: Any, text: str) -> None:
    assert problem({"xds_servers": [SERVER], "trxds.cache": cache}) == f"bootstrap: {text}"


def test_the_check_of_a_bootstrap_knows_the_fields_of_the_cache() -> None:
    document = {"xds_servers": [SERVER], "trxds.cache": {"directory": "/x", "max_age": "60s"}}
    assert warnings(document) == []
    assert warnings({"xds_servers": [SERVER], "trxds.cache": {"directry": "/x"}}) == [
        "trxds.cache.directry: is not known, and has no effect; did you mean 'directory'?"
    ]
