"""The short calls for resources write what a control plane would."""

import pytest

from trxds.resources import protos
from trxds.testing import resources as xds

each_duration = pytest.mark.parametrize("seconds", [0, 0.5, 60, 0.123_456_789, 1_234_567.25, 2_592_000])


def seconds_of(duration):
    return duration.seconds + duration.nanos / 1e9


@each_duration
def test_a_ttl_is_written_to_the_nanosecond(seconds):
    state = xds.stateful_session(ttl=seconds)["typed_config"]["session_state"]["typed_config"]
    assert seconds_of(unpacked(state, protos.CookieBasedSessionState).cookie.ttl) == seconds


@each_duration
def test_an_idle_timeout_is_written_to_the_nanosecond(seconds):
    options = xds.cluster("cart", idle_timeout=seconds)["upstream_config"]["typed_config"]
    options = unpacked(options, protos.HttpProtocolOptions)
    assert seconds_of(options.common_http_protocol_options.idle_timeout) == seconds


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: xds.routes("r", domains="cart"), r"domains is 'cart'; it must be a list, as in \['cart'\]"),
        (lambda: xds.cluster("c", override_statuses="HEALTHY"), "override_statuses is 'HEALTHY'; it must be a list"),
        (lambda: xds.bootstrap("10.0.0.1:1", features="xds_v3"), "features is 'xds_v3'; it must be a list"),
        (lambda: xds.locality(["10.0.0.1:1"]), r"\['10.0.0.1:1'\] is no address .* as in locality\(\*addresses\)"),
    ],
)
def test_one_text_in_place_of_several_and_the_reverse_are_type_errors(make, text):
    with pytest.raises(TypeError, match=text):
        make()


def unpacked(resource, kind):
    message = kind()
    assert protos.from_json(resource).Unpack(message)
    return message
