"""What the xDS test client sends, as flags and as a driver's request say it."""

import pytest

from trxds import Metadata
from trxds.interop.protos import ClientConfigureRequest
from trxds.interop.rpc_config import RpcConfig, RpcType, make_configs, parse_metadata, parse_types, read_request

EMPTY, UNARY = RpcType.EMPTY_CALL, RpcType.UNARY_CALL


def request(types=(), metadata=(), timeout=0):
    entries = [ClientConfigureRequest.Metadata(type=type, key=key, value=value) for type, key, value in metadata]
    return ClientConfigureRequest(types=types, metadata=entries, timeout_sec=timeout)


def test_the_flag_rpc_has_one_or_both_methods():
    assert parse_types("UnaryCall") == (UNARY,)
    assert parse_types("EmptyCall,UnaryCall") == (EMPTY, UNARY)


@pytest.mark.parametrize("text", ["", "unaryCall", "UnaryCall,", "FullDuplexCall"])
def test_another_method_in_the_flag_rpc_is_named(text):
    with pytest.raises(ValueError, match="is neither EmptyCall nor UnaryCall"):
        parse_types(text)


def test_the_flag_metadata_has_pairs_for_each_method():
    assert parse_metadata("EmptyCall:a:1,UnaryCall:b:2,EmptyCall:a:3") == {
        EMPTY: [("a", "1"), ("a", "3")],
        UNARY: [("b", "2")],
    }
    assert parse_metadata("") == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("EmptyCall:a", "entry 1 has 2 parts; write METHOD:KEY:VALUE"),
        ("EmptyCall:a:1,UnaryCall:b:secret:2", "entry 2 has 4 parts"),
        ("Other:a:1", "'Other' is neither EmptyCall nor UnaryCall"),
    ],
)
def test_a_wrong_entry_of_the_flag_metadata_is_named_without_its_value(text, problem):
    with pytest.raises(ValueError, match=problem) as raised:
        parse_metadata(text)
    assert "secret" not in str(raised.value)


def test_each_method_has_its_own_metadata_with_keys_in_lower_case():
    configs = make_configs((EMPTY, UNARY), {UNARY: [("Color", "blue")]}, 20)
    assert configs == (RpcConfig(EMPTY, Metadata(), 20), RpcConfig(UNARY, Metadata([("color", "blue")]), 20))


def test_the_text_of_a_binary_key_is_sent_as_its_bytes():
    [config] = make_configs((UNARY,), {UNARY: [("trace-bin", "é")]}, 20)
    assert config.metadata == (("trace-bin", "é".encode()),)


def test_an_rpc_that_the_server_keeps_open_has_no_deadline():
    configs = make_configs((EMPTY, UNARY), {UNARY: [("rpc-behavior", "keep-open")]}, 20)
    assert [each.timeout for each in configs] == [20, None]


# -- a driver's request


def test_a_request_replaces_types_metadata_and_timeout():
    asked = request([UNARY], [(UNARY, "a", "1"), (EMPTY, "b", "2")], timeout=3)
    assert read_request(asked, 20) == (RpcConfig(UNARY, Metadata([("a", "1")]), 3),)


def test_without_a_timeout_a_request_has_that_of_the_flag():
    [config] = read_request(request([EMPTY]), 20)
    assert config.timeout == 20


def test_a_request_without_types_asks_for_no_rpcs():
    assert read_request(request(), 20) == ()


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (request([UNARY, 7]), "there is no RpcType 7; 0 is EMPTY_CALL"),
        (request([UNARY], [(9, "a", "1")]), "there is no RpcType 9"),
        (request([UNARY], timeout=-1), "timeout_sec is -1; it must be above 0"),
        (request([UNARY], [(UNARY, "grpc-timeout", "1S")]), "'grpc-timeout' belongs to the protocol"),
        (request([UNARY], [(UNARY, "a", "\n")]), "'a': its value has a line end at position 0"),
    ],
)
def test_a_field_of_a_request_that_makes_no_sense_is_named(asked, problem):
    with pytest.raises(ValueError, match=problem):
        read_request(asked, 20)
