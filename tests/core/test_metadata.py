"""Metadata and messages are checked, encoded and decoded by gRPC's PROTOCOL-HTTP2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.core.metadata import (
    Metadata,
    as_text,
    check,
    decode,
    decode_message,
    encode,
    encode_message,
    from_text,
)


def test_metadata_keys_are_lowered_and_order_and_repeats_are_kept():
    assert check([("B", "1"), ("a", "2"), ("b", "3")]) == (("b", "1"), ("a", "2"), ("b", "3"))


def test_metadata_all_returns_every_value_of_a_key():
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
        (("Content-Length", "7"), ValueError, "belongs to the protocol"),
        (("grpc-previous-rpc-attempts", "1"), ValueError, "belongs to the protocol"),
    ],
)
def test_a_bad_pair_of_metadata_is_named(pair, error, text):
    with pytest.raises(error, match=text):
        check([pair])


def test_metadata_that_is_not_sent_may_have_a_content_length():
    assert check([("content-length", "0")], is_sent=False) == (("content-length", "0"),)


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
def test_errors_about_metadata_do_not_show_the_value(pairs):
    with pytest.raises((ValueError, TypeError)) as refused:
        check(pairs)
    assert SECRET.lower() not in f"{refused.value!r}".lower()


def test_the_repr_of_metadata_has_keys_and_sizes_and_no_values():
    assert repr(Metadata([("a", SECRET), ("a-bin", b"12")])) == "<Metadata a (12 characters), a-bin (2 bytes)>"
    assert repr(Metadata()) == "<Metadata empty>"


def test_the_repr_of_metadata_shows_no_key_of_a_peer_that_is_none():
    """It may have any content."""
    assert repr(decode([(SECRET.upper().encode(), b"1")])) == "<Metadata of no name (1 characters)>"


@given(st.binary())
def test_a_binary_metadata_value_survives_encode_and_decode(value):
    assert decode(encode(check([("k-bin", value)]))) == (("k-bin", value),)


@given(st.binary())
def test_a_binary_metadata_value_survives_being_shown_and_read(value):
    assert from_text("K-Bin", as_text(value)) == value


@pytest.mark.parametrize("text", ["!", "YQ==,Yg", "\ud800"])
def test_a_text_that_is_no_base64_is_refused_for_a_binary_key(text):
    assert from_text("k", text) == text
    with pytest.raises(ValueError, match="the value of 'k-bin' is not base64"):
        from_text("k-bin", text)


def test_binary_metadata_is_encoded_without_padding():
    assert encode(check([("k-bin", b"a")])) == [(b"k-bin", b"YQ")]


def test_padded_and_joined_binary_metadata_is_decoded():
    assert decode([(b"k-bin", b"YQ==,Yg , YWI")]).all("k-bin") == [b"a", b"b", b"ab"]


def test_binary_metadata_that_is_no_base64_is_left_out():
    assert decode([(b"k-bin", b"?"), (b"a", b"1")]) == (("a", "1"),)


def test_the_protocols_own_headers_are_no_metadata():
    headers = [(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-status", b"0"), (b"x", b"1")]
    assert decode(headers) == (("x", "1"),)


@given(st.text())
def test_a_grpc_message_survives_encode_and_decode(message):
    try:
        message.encode()
    except UnicodeEncodeError:
        message = message.encode("utf-8", "replace").decode()
    assert decode_message(encode_message(message)) == message


def test_a_grpc_message_is_printable_ascii_on_the_wire():
    assert encode_message("50 %\t\n\u20ac") == b"50 %25%09%0A%E2%82%AC"


@pytest.mark.parametrize("message", ["  out of   stock ", " ", "\n "])
def test_a_message_has_no_blanks_at_its_ends_which_http2_forbids(message: str) -> None:
    encoded = encode_message(message)
    assert encoded == encoded.strip() and decode_message(encoded) == message


@given(st.binary())
def test_decode_message_accepts_any_bytes(value):
    assert isinstance(decode_message(value), str)


def test_metadata_is_encoded_once() -> None:
    metadata = check([("user", "7")])
    assert encode(metadata) is encode(metadata) == [(b"user", b"7")]


def test_blanks_around_a_value_are_not_sent():
    assert encode(check([("a", "  b c "), ("d", "  ")])) == [(b"a", b"b c"), (b"d", b"")]
