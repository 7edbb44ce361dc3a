"""Listener and its HTTP filters: what is refused with which text, and what it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from envoy.extensions.filters.http.cors.v3 import cors_pb2  # noqa: F401 its types are used
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2  # noqa: F401
from envoy.extensions.http.stateful_session.envelope.v3 import envelope_pb2  # noqa: F401

from trxds.client.shared_xds_client import parse_context
from trxds.resources.experiments import OVERRIDE_HOST_VARIABLE
from trxds.resources.filter_config import FilterConfig, HttpFilterType
from trxds.resources.filters import HTTP_FILTERS, HttpFilter, RouterConfig, registry
from trxds.resources.listener import Listener
from trxds.resources.stateful_session import CookieConfig, HeaderConfig, StatefulSessionConfig
from trxds.resources.types import LDS, RDS, ParseContext

T = "type.googleapis.com/"
HCM = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = "envoy.extensions.filters.http.router.v3.Router"
SESSION = "envoy.extensions.filters.http.stateful_session.v3.StatefulSession"
PER_ROUTE = "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute"
COOKIE = "envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState"
HEADER = "envoy.extensions.http.stateful_session.header.v3.HeaderBasedSessionState"
ENVELOPE = "envoy.extensions.http.stateful_session.envelope.v3.EnvelopeSessionState"
WRAPPER = "envoy.config.route.v3.FilterConfig"
UNSUPPORTED = "unsupported filter type; mark it is_optional, or give the channel a filter for it (http_filters)"
RBAC = "envoy.extensions.filters.http.rbac.v3.RBAC"
CORS = "envoy.extensions.filters.http.cors.v3.Cors"

RDS_SOURCE = {"route_config_name": "routes", "config_source": {"ads": {}}}


def http_filter(name: str, kind: str, fields: Mapping[str, Any] = {}, **more: Any) -> dict[str, Any]:
    return {"name": name, "typed_config": {"@type": T + kind, **fields}, **more}


ROUTER_FILTER = http_filter("router", ROUTER)


def lds(*filters: Mapping[str, Any], **manager: Any) -> dict[str, Any]:
    config = {"@type": T + HCM, "rds": RDS_SOURCE, "http_filters": [*filters, ROUTER_FILTER], **manager}
    return {"name": "svc", "api_listener": {"api_listener": config}}


def cookie_state(**cookie: Any) -> dict[str, Any]:
    return {"name": "x", "typed_config": {"@type": T + COOKIE, "cookie": cookie}}


def session(**state: Any) -> dict[str, Any]:
    return http_filter("session", SESSION, {"session_state": state})


STATE = f"http_filters[0].typed_config.value[{SESSION}].session_state"
COOKIE_FIELD = f"{STATE}.typed_config.value[{COOKIE}].cookie"

REFUSED = {
    "no filters": (lds(http_filters=[]), "http_filters error:expected at least one HTTP filter"),
    "only an optional filter nobody knows": (
        lds(http_filters=[http_filter("cors", CORS, is_optional=True)]),
        "http_filters error:expected at least one HTTP filter",
    ),
    "filter without a name": (lds(http_filter("", SESSION)), "http_filters[0].name error:empty filter name"),
    "two filters of a name": (
        lds(http_filter("router", SESSION)),
        "http_filters[1].name error:duplicate HTTP filter name: router",
    ),
    "filter without a config": (lds({"name": "x"}), "http_filters[0].typed_config error:field not present"),
    "unknown filter": (
        lds(http_filter("cors", CORS)),
        f"http_filters[0].typed_config.value[{CORS}] error:{UNSUPPORTED}",
    ),
    "an override's type as a filter": (
        lds(http_filter("session", PER_ROUTE)),
        f"http_filters[0].typed_config.value[{PER_ROUTE}] error:{UNSUPPORTED}",
    ),
    "filter for servers": (
        lds(http_filter("rbac", RBAC)),
        f"http_filters[0].typed_config.value[{RBAC}] error:filter is not supported on clients",
    ),
    "router in the middle": (
        lds(http_filter("first", ROUTER)),
        f"http_filters[0] error:terminal filter for config type {ROUTER} must be the last filter in the chain",
    ),
    "no router": (
        lds(http_filters=[http_filter("session", SESSION)]),
        f"http_filters[0] error:non-terminal filter for config type {SESSION} is the last filter in the chain",
    ),
    "trusted hops": (lds(xff_num_trusted_hops=1), "xff_num_trusted_hops error:must be zero if present"),
    "ip detection": (
        lds(original_ip_detection_extensions=[{"name": "x"}]),
        "original_ip_detection_extensions error:must be empty",
    ),
    "bad max_stream_duration": (
        lds(common_http_protocol_options={"max_stream_duration": "-1s"}),
        "common_http_protocol_options.max_stream_duration.seconds error:value must be in the range [0, 315576000000]",
    ),
    "routes from a file": (
        lds(rds={"route_config_name": "r", "config_source": {"path": "/x"}}),
        "rds.config_source error:ConfigSource does not specify ADS or SELF",
    ),
    "routes from nowhere": (lds(rds={"route_config_name": "r"}), "rds.config_source error:field not present"),
    "bad inline routes": (
        {
            "name": "svc",
            "api_listener": {
                "api_listener": {
                    "@type": T + HCM,
                    "http_filters": [ROUTER_FILTER],
                    "route_config": {"virtual_hosts": [{"name": "v"}]},
                }
            },
        },
        "route_config.virtual_hosts[0].domains error:must be non-empty",
    ),
    "neither routes nor their name": (
        {
            "name": "svc",
            "api_listener": {"api_listener": {"@type": T + HCM, "http_filters": [ROUTER_FILTER]}},
        },
        "error:neither route_config nor rds is set",
    ),
    # StatefulSession
    "session state without a config": (lds(session(name="x")), f"{STATE}.typed_config error:field not present"),
    "session state of another type": (
        lds(session(name="x", typed_config={"@type": T + ENVELOPE})),
        f"{STATE}.typed_config.value[{ENVELOPE}] error:unsupported session state type",
    ),
    "session header without a name": (
        lds(session(name="x", typed_config={"@type": T + HEADER})),
        f"{STATE}.typed_config.value[{HEADER}].name error:field not present",
    ),
    "session header that no metadata can have": (
        lds(session(name="x", typed_config={"@type": T + HEADER, "name": ":path"})),
        f"{STATE}.typed_config.value[{HEADER}].name error:not a name of ASCII metadata",
    ),
    "session header for binary values": (
        lds(session(name="x", typed_config={"@type": T + HEADER, "name": "x-Session-Bin"})),
        f"{STATE}.typed_config.value[{HEADER}].name error:not a name of ASCII metadata",
    ),
    **{
        f"session header {name}": (
            lds(session(name="x", typed_config={"@type": T + HEADER, "name": name})),
            f"{STATE}.typed_config.value[{HEADER}].name error:header {name.lower()!r} has another use; "
            "choose another name, such as x-session",
        )
        for name in [
            "TE",
            "Connection",
            "Content-Type",
            "Content-Length",
            "Host",
            "User-Agent",
            "grpc-timeout",
            "Cookie",
            "Set-Cookie",
        ]
    },
    "no cookie": (
        lds(session(name="x", typed_config={"@type": T + COOKIE})),
        f"{COOKIE_FIELD} error:field not present",
    ),
    "cookie without a name": (lds(session(**cookie_state(name=""))), f"{COOKIE_FIELD}.name error:field not present"),
    "cookie with a ttl below 0": (
        lds(session(**cookie_state(name="c", ttl="-1s"))),
        f"{COOKIE_FIELD}.ttl.seconds error:value must be in the range [0, 315576000000]",
    ),
    "session in a typed struct": (
        lds(http_filter("session", "xds.type.v3.TypedStruct", {"type_url": T + SESSION, "value": {}})),
        f"http_filters[0].typed_config.value[xds.type.v3.TypedStruct].value[{SESSION}] "
        "error:could not parse stateful session filter config",
    ),
    "session state in the older typed struct": (
        lds(session(name="x", typed_config={"@type": T + "udpa.type.v1.TypedStruct", "type_url": T + COOKIE})),
        f"{STATE}.typed_config.value[udpa.type.v1.TypedStruct].value[{COOKIE}] "
        "error:could not parse CookieBasedSessionState",
    ),
    "unsupported filter, and no other": (
        lds(http_filters=[http_filter("cors", CORS)]),
        f"http_filters[0].typed_config.value[{CORS}] error:{UNSUPPORTED}",
    ),
    "session header in the older typed struct": (
        lds(session(name="x", typed_config={"@type": T + "udpa.type.v1.TypedStruct", "type_url": T + HEADER})),
        f"{STATE}.typed_config.value[udpa.type.v1.TypedStruct].value[{HEADER}] "
        "error:could not parse HeaderBasedSessionState",
    ),
}


@pytest.mark.parametrize(("resource", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_listener_is_refused_with_its_field(read: Any, resource: dict[str, Any], error: str) -> None:
    at = f"field:api_listener.api_listener.value[{HCM}]"
    assert read(LDS, resource).errors == (f"{at} {error}" if error.startswith("error:") else f"{at}.{error}",)


def test_an_api_listener_must_be_a_connection_manager(read: Any) -> None:
    assert read(LDS, {"name": "svc", "api_listener": {}}).errors == (
        "field:api_listener.api_listener error:field not present",
    )
    assert read(LDS, {"name": "svc", "api_listener": {"api_listener": {"@type": T + ROUTER}}}).errors == (
        f"field:api_listener.api_listener.value[{ROUTER}] error:unsupported API listener type",
    )


def test_every_error_of_a_listener_is_reported(read: Any) -> None:
    bad = lds(http_filter("", CORS), xff_num_trusted_hops=1, rds={})
    assert len(read(LDS, bad).errors) == 4


# -- what it becomes


def listener(read: Any, resource: dict[str, Any], context: ParseContext | None = None) -> Listener:
    value = read(LDS, resource, context).value
    assert isinstance(value, Listener)
    return value


def test_a_listener_names_its_routes_or_has_them_inline(read: Any) -> None:
    assert listener(read, lds()) == Listener(
        "svc", rds_name="routes", http_filters=(HttpFilter("router", RouterConfig()),)
    )
    inline = lds()
    manager = inline["api_listener"]["api_listener"]
    del manager["rds"]
    manager["route_config"] = {"name": "r", "virtual_hosts": [{"name": "v", "domains": ["*"]}]}
    found = listener(read, inline)
    assert found.rds_name is None and found.route_config == read(RDS, manager["route_config"]).value


def test_an_empty_name_of_routes_is_accepted(read: Any) -> None:
    assert listener(read, lds(rds={"config_source": {"self": {}}})).rds_name == ""


def test_a_listener_that_is_none_for_clients_is_valid(read: Any) -> None:
    address = {"socket_address": {"address": "0.0.0.0", "port_value": 80}}
    assert listener(read, {"name": "server", "address": address}) == Listener("server", api=False)


def test_a_listener_is_either_a_clients_or_a_servers(read: Any) -> None:
    assert read(LDS, {"name": "none"}).errors == ("field: error:Listener has neither address nor ApiListener",)


def test_the_limit_of_the_connection_manager_keeps_unset_and_zero_apart(read: Any) -> None:
    assert listener(read, lds()).max_stream_duration is None
    limited = lds(common_http_protocol_options={"max_stream_duration": "0s"})
    assert listener(read, limited).max_stream_duration == 0.0


def configs(read: Any, *filters: Mapping[str, Any], context: ParseContext | None = None) -> list[FilterConfig]:
    """The configurations of these filters, the router's left out."""
    found = listener(read, lds(*filters), context).http_filters
    assert found[-1] == HttpFilter("router", RouterConfig())
    return [each.config for each in found[:-1]]


@pytest.mark.parametrize(
    ("cookie", "expected"),
    [
        ({"name": "c"}, CookieConfig("c", "", 0.0)),
        ({"name": "c", "path": "/x", "ttl": "1.5s"}, CookieConfig("c", "/x", 1.0)),
        ({"name": "c", "ttl": "0.5s"}, CookieConfig("c", ttl=0.5)),
        ({"name": "c", "ttl": "16777216.999999999s"}, CookieConfig("c", ttl=16777216.0)),
        ({"name": "c", "attributes": [{"name": "Secure"}]}, CookieConfig("c")),
    ],
)
def test_a_session_filter_has_its_cookie(read: Any, cookie: dict[str, Any], expected: CookieConfig) -> None:
    assert configs(read, session(**cookie_state(**cookie))) == [StatefulSessionConfig(expected)]


def test_a_cookie_of_many_seconds_is_shown_with_all_their_digits() -> None:
    assert str(CookieConfig("c", "/x", 2_592_000.0)) == "cookie 'c' for path /x, for 2592000 s"


def test_a_session_may_travel_in_a_header_of_its_own(read: Any) -> None:
    state = {"name": "x", "typed_config": {"@type": T + HEADER, "name": "X-Session"}}
    assert configs(read, session(**state)) == [StatefulSessionConfig(HeaderConfig("x-session"))]


def test_a_session_may_be_strict(read: Any) -> None:
    fields = {"session_state": cookie_state(name="c"), "strict": True}
    assert configs(read, http_filter("session", SESSION, fields)) == [StatefulSessionConfig(CookieConfig("c"), True)]
    assert overridden(read, {"@type": T + PER_ROUTE, "stateful_session": fields}) == {
        "session": StatefulSessionConfig(CookieConfig("c"), strict=True)
    }


def test_a_session_filter_without_a_state_is_there_but_off(read: Any) -> None:
    assert configs(read, http_filter("session", SESSION, {"strict": True})) == [StatefulSessionConfig(None)]


def test_two_session_filters_keep_their_order(read: Any) -> None:
    filters = [http_filter(name, SESSION, {"session_state": cookie_state(name=name)}) for name in "ab"]
    assert configs(read, *filters) == [StatefulSessionConfig(CookieConfig(name)) for name in "ab"]


@pytest.mark.parametrize("kind", [RBAC, CORS, "xds.type.v3.TypedStruct"])
def test_an_optional_filter_that_cannot_run_is_left_out(read: Any, kind: str) -> None:
    fields = {"type_url": T + CORS} if kind.endswith("TypedStruct") else {}
    assert configs(read, http_filter("x", kind, fields, is_optional=True)) == []


def test_an_optional_filter_that_is_known_must_still_be_right(read: Any) -> None:
    assert read(LDS, lds({**session(**cookie_state(name="")), "is_optional": True})).errors


def test_a_disabled_filter_is_marked(read: Any) -> None:
    found = listener(read, lds({**session(**cookie_state(name="c")), "disabled": True}))
    assert [each.disabled for each in found.http_filters] == [True, False]


def test_the_session_filter_is_unknown_without_session_affinity(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERRIDE_HOST_VARIABLE, "false")
    off = parse_context(frozenset(), {}, HTTP_FILTERS)
    assert "unsupported filter type" in read(LDS, lds(http_filter("session", SESSION)), off).errors[0]
    assert configs(read, http_filter("session", SESSION, is_optional=True), context=off) == []


def test_a_users_own_filter_is_one_more_entry_in_the_registry(read: Any) -> None:
    class Mine(FilterConfig):
        pass

    own = HttpFilterType(config_type=CORS, parse=lambda config: Mine())
    context = ParseContext(http_filters={**HTTP_FILTERS, **registry([own])})
    (config,) = configs(read, http_filter("cors", CORS), context=context)
    assert isinstance(config, Mine)


# -- overrides


def override(config: Mapping[str, Any], name: str = "session") -> dict[str, Any]:
    host = {"name": "v", "domains": ["*"], "typed_per_filter_config": {name: config}}
    return {"name": "routes", "virtual_hosts": [host]}


def overridden(read: Any, config: Mapping[str, Any]) -> Mapping[str, FilterConfig]:
    parsed = read(RDS, override(config))
    assert parsed.errors == ()
    return dict(parsed.value.virtual_hosts[0].filter_overrides)


PER_ROUTE_COOKIE = {"@type": T + PER_ROUTE, "stateful_session": {"session_state": cookie_state(name="c")}}
OFF = {"session": StatefulSessionConfig(None)}
ON = {"session": StatefulSessionConfig(CookieConfig("c"))}


@pytest.mark.parametrize("fields", [{}, {"disabled": False}, {"disabled": True}, {"stateful_session": {}}])
def test_an_override_without_a_cookie_switches_the_session_off(read: Any, fields: dict[str, Any]) -> None:
    assert overridden(read, {"@type": T + PER_ROUTE, **fields}) == OFF


def test_an_override_with_a_cookie_switches_the_session_on(read: Any) -> None:
    assert overridden(read, PER_ROUTE_COOKIE) == ON


def test_an_override_may_come_in_a_wrapper(read: Any) -> None:
    assert overridden(read, {"@type": T + WRAPPER, "config": PER_ROUTE_COOKIE}) == ON


def optional(config: Mapping[str, Any]) -> dict[str, Any]:
    return {"@type": T + WRAPPER, "is_optional": True, "config": config}


def test_an_optional_override_that_nobody_knows_is_left_out(read: Any) -> None:
    assert overridden(read, optional({"@type": T + CORS})) == {}


def test_an_optional_override_that_is_known_must_still_be_right(read: Any) -> None:
    assert read(RDS, override(optional({"@type": T + ROUTER}))).errors


def test_overrides_of_filters_that_only_servers_run_are_left_out(read: Any) -> None:
    assert overridden(read, {"@type": T + RBAC + "PerRoute"}) == {}


AT = "field:virtual_hosts[0].typed_per_filter_config"


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (override({"@type": T + CORS}), f"{AT}[session].value[{CORS}] error:{UNSUPPORTED}"),
        (override(PER_ROUTE_COOKIE, name=""), f"{AT}[] error:filter name must be non-empty"),
        (
            override({"@type": T + WRAPPER, "disabled": True}),
            f"{AT}[session].value[{WRAPPER}].config error:field not present",
        ),
        (
            override({"@type": T + WRAPPER, "config": {"@type": T + CORS}}),
            f"{AT}[session].value[{WRAPPER}].config.value[{CORS}] error:{UNSUPPORTED}",
        ),
        (
            override({"@type": T + SESSION}),
            f"{AT}[session].value[{SESSION}] error:an override of this filter is a {PER_ROUTE}",
        ),
        (override({"@type": T + ROUTER}), f"{AT}[session].value[{ROUTER}] error:{ROUTER} does not support overrides"),
        (
            override({"@type": T + PER_ROUTE, "stateful_session": {"session_state": cookie_state(name="")}}),
            f"{AT}[session].value[{PER_ROUTE}].stateful_session.session_state.typed_config"
            f".value[{COOKIE}].cookie.name error:field not present",
        ),
    ],
)
def test_a_bad_override_is_refused_with_its_field(read: Any, resource: dict[str, Any], error: str) -> None:
    assert read(RDS, resource).errors == (error,)
