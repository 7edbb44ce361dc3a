"""Metadata on the wire: binary values, percent-coded messages and timeouts, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.core.metadata import (
    Metadata,
    check,
    decode,
    decode_message,
    encode,
    encode_message,
)


def test_keys_are_lowered_and_order_and_repeats_are_kept():
    assert check([("B", "1"), ("a", "2"), ("b", "3")]) == (("b", "1"), ("a", "2"), ("b", "3"))


def test_all_values_of_a_key_can_be_had():
    metadata = Metadata([("a", "1"), ("b", "2"), ("a", "3")])
    assert metadata.all("a") == ["1", "3"]
    assert metadata.first("a") == "1"
    assert metadata.first("none", "default") == "default"


@pytest.mark.parametrize(
    ("pair", "error", "text"),
    [
        (("a b", "1"), ValueError, r"metadata\[0\]: its key has a blank at position 1; use letters"),
        (("", "1"), ValueError, r"metadata\[0\]: its key is empty"),
        (
            ("a", "é"),
            ValueError,
            "'a': its value has a character that is not ASCII at position 0; .* end the key in -bin",
        ),
        (("a", "line\n"), ValueError, "'a': its value has a line end at position 4; strip it"),
        (("a", "a\nb"), ValueError, "'a': its value has a line end at position 1; a value is printable ASCII"),
        (("a", "a\0"), ValueError, "a NUL at position 1"),
        (("a", "a\tb"), ValueError, "a tab at position 1"),
        (("a", "a\x7f"), ValueError, "a control character at position 1"),
        (("a", b"1"), TypeError, "end the key in -bin"),
        (("a-bin", "1"), TypeError, "must be bytes"),
        (("grpc-timeout", "1S"), ValueError, "belongs to the protocol"),
        (("grpc-status", "0"), ValueError, "belongs to the protocol"),
        ((":path", "/"), ValueError, "its key has a punctuation mark at position 0"),
        (("te", "trailers"), ValueError, "belongs to the protocol"),
        (("keep-alive", "1"), ValueError, "belongs to the protocol"),
        (("proxy-connection", "close"), ValueError, "belongs to the protocol"),
        (("transfer-encoding", "chunked"), ValueError, "belongs to the protocol"),
        (("upgrade", "h2c"), ValueError, "belongs to the protocol"),
    ],
)
def test_a_bad_pair_is_named(pair, error, text):
    with pytest.raises(error, match=text):
        check([pair])


SECRET = "s3cr3t-Token"


@pytest.mark.parametrize(
    "pairs",
    [
        *([("authorization", f"{SECRET}{end}")] for end in ("\n", "\r\n", "\0", "\x7f", "ü", "\ud800", "\t")),
        [("authorization", SECRET.encode())],
        [("authorization", [SECRET])],
        [("authorization-bin", SECRET)],
        [(f"{SECRET} ", "authorization")],
        [(SECRET.encode(), "authorization")],
        [("authorization", SECRET, "more")],
        [SECRET],
        [SECRET.encode()],
        [None, SECRET],
        SECRET,
        {"authorization": SECRET},
    ],
)
def test_what_is_wrong_is_said_without_the_value(pairs):
    with pytest.raises((ValueError, TypeError)) as refused:
        check(pairs)
    assert SECRET.lower() not in f"{refused.value!r}".lower()


def test_the_repr_has_keys_and_sizes_and_no_values():
    assert repr(Metadata([("a", SECRET), ("a-bin", b"12")])) == "<Metadata a (12 characters), a-bin (2 bytes)>"
    assert repr(Metadata()) == "<Metadata empty>"


@given(st.binary())
def test_a_binary_value_comes_back_as_it_was(value):
    assert decode(encode(check([("k-bin", value)]))) == (("k-bin", value),)


def test_binary_values_are_sent_without_padding():
    assert encode(check([("k-bin", b"a")])) == [(b"k-bin", b"YQ")]


def test_padded_and_joined_binary_values_are_read():
    assert decode([(b"k-bin", b"YQ==,Yg , YWI")]).all("k-bin") == [b"a", b"b", b"ab"]


def test_a_binary_value_that_is_no_base64_is_left_out():
    assert decode([(b"k-bin", b"?"), (b"a", b"1")]) == (("a", "1"),)


def test_the_protocols_own_headers_are_not_shown():
    headers = [(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-status", b"0"), (b"x", b"1")]
    assert decode(headers) == (("x", "1"),)


@given(st.text())
def test_a_message_comes_back_as_it_was(message):
    try:
        message.encode()
    except UnicodeEncodeError:
        message = message.encode("utf-8", "replace").decode()
    assert decode_message(encode_message(message)) == message


def test_a_message_is_printable_ascii_on_the_wire():
    assert encode_message("50 %\t\n\u20ac") == b"50 %25%09%0A%E2%82%AC"


@given(st.binary())
def test_no_bytes_break_the_reading_of_a_message(value):
    assert isinstance(decode_message(value), str)


def test_metadata_is_encoded_once() -> None:
    metadata = check([("user", "7")])
    assert encode(metadata) is encode(metadata) == [(b"user", b"7")]
