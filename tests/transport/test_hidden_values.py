"""Errors of the HTTP/2 libraries are repeated without the header values that they quote."""

from __future__ import annotations

import h2.config
import h2.connection
import h2.exceptions
import pytest
from h2.errors import ErrorCodes
from hpack import Decoder, Encoder

from trxds.core.metadata import Headers
from trxds.transport.events import DataReceived, HeadersReceived, UnaryResponse
from trxds.transport.header_blocks import BlockDecoder, HeaderBlock, error_text
from trxds.transport.hpack_decoder import PrivateTable
from trxds.transport.request import Request

SECRET = b"my-Secret"
REQUEST = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/b"), (b":authority", b"s")]


@pytest.mark.parametrize(
    "field",
    [
        (b"X-" + SECRET, b"1"),
        (b"x " + SECRET, b"1"),
        (b"x:" + SECRET, b"1"),
        (b"token", SECRET + b"\r\n"),
        (b"token", b" " + SECRET),
        (b"token", b"\"'" + SECRET + b"\0'\""),
        (b"te", SECRET),
        (b"connection", SECRET),
        (b":" + SECRET, b"1"),
        (b"content-length", SECRET),
    ],
)
def test_errors_do_not_repeat_header_values_that_h2_quotes(field: tuple[bytes, bytes]) -> None:
    """The server has h2 check its requests."""
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
    client = h2.connection.H2Connection(
        h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
    )
    client.initiate_connection()
    client.send_headers(1, [*REQUEST, field])
    with pytest.raises(h2.exceptions.ProtocolError) as refused:
        server.receive_data(client.data_to_send())
    assert refused.value.error_code is ErrorCodes.PROTOCOL_ERROR
    said = error_text(refused.value)
    assert "Secret" not in said and len(said) > 10


@pytest.mark.parametrize("block", [SECRET * 1000, b'"' + SECRET * 1000, b"\\" * 5000 + SECRET, b"x'" + SECRET * 1000])
def test_a_long_block_is_neither_shown_nor_searched_whole(block: bytes) -> None:
    said = error_text(ValueError(f"too long: {block!r}"))
    assert said == "too long: (not shown)"


def test_an_apostrophe_begins_no_quotation() -> None:
    error = ValueError(f"it mustn't exceed 5, and isn't {SECRET!r}")
    assert error_text(error) == "it mustn't exceed 5, and isn't (not shown)"


def test_a_long_error_text_is_cut_short() -> None:
    assert len(error_text(ValueError("header " * 10_000))) == 1024


def test_objects_with_headers_have_a_repr_without_values() -> None:
    headers: Headers = [(b"token", SECRET)]
    table = PrivateTable()
    table.add(b"token", SECRET)
    holders = [
        table,
        HeaderBlock(headers, 1, False),
        HeadersReceived(1, headers, True),
        UnaryResponse(1, headers, SECRET, headers),
        DataReceived(1, SECRET, 9, True),
        Request("/a/b", "s", headers, message=SECRET),
    ]
    assert [one for one in holders if "Secret" in repr(one)] == []


def test_a_decoder_reads_the_same_with_the_private_table() -> None:
    encoder, decoder, other = Encoder(), BlockDecoder(10_000), Decoder()
    for value in (b"1", b"2", b"1"):
        block = encoder.encode([(b"token", value), (b"x", b"y")])
        assert decoder.decode(block).headers == list(other.decode(block, raw=True))
