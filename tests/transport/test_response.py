from __future__ import annotations

import base64

import pytest

from trxds.core.metadata import Headers
from trxds.core.status import OK, Status, StatusCode
from trxds.transport.response import ResponseHeaderParser, headers_error, rst_stream_status, trailers_status

GRPC = (b"content-type", b"application/grpc")
PEER = "10.0.0.1:443"


@pytest.mark.parametrize(
    ("http", "code"),
    [
        (b"400", StatusCode.INTERNAL),
        (b"401", StatusCode.UNAUTHENTICATED),
        (b"403", StatusCode.PERMISSION_DENIED),
        (b"404", StatusCode.UNIMPLEMENTED),
        (b"429", StatusCode.UNAVAILABLE),
        (b"502", StatusCode.UNAVAILABLE),
        (b"503", StatusCode.UNAVAILABLE),
        (b"504", StatusCode.UNAVAILABLE),
        (b"418", StatusCode.UNKNOWN),
        (b"500", StatusCode.UNKNOWN),
    ],
)
def test_an_http_status_stands_in_for_a_missing_grpc_status(http: bytes, code: StatusCode) -> None:
    remedy = "check that a gRPC server listens there"
    if http in (b"502", b"503", b"504"):
        remedy += ", and that proxies before it reach it"
    expected = Status(code, f"10.0.0.1:443: the answer has HTTP status {http.decode()}; {remedy}")
    assert headers_error([(b":status", http), GRPC], PEER) == expected
    assert trailers_status([(b":status", http)], PEER) == expected


def test_a_grpc_status_wins_over_the_http_status() -> None:
    assert trailers_status([(b":status", b"503"), (b"grpc-status", b"5")], PEER).code is StatusCode.NOT_FOUND


def test_a_grpc_status_of_headers_before_a_body_wins_over_the_http_status() -> None:
    """As grpc-java's server answers headers above its soft limit: with a text of its own behind them."""
    said = [(b"content-type", b"text/plain"), (b"grpc-status", b"8"), (b"grpc-message", b"too%20much")]
    assert headers_error([(b":status", b"431"), *said], PEER) == Status(StatusCode.RESOURCE_EXHAUSTED, "too much")


def test_an_http_error_with_grpc_status_0_is_an_error() -> None:
    problem = headers_error([(b":status", b"503"), (b"grpc-status", b"0")], PEER)
    assert problem is not None and problem.code is StatusCode.UNAVAILABLE


@pytest.mark.parametrize("ending", [b"", b"+proto", b"+json", b";charset=utf-8", b" ; charset=utf-8"])
def test_an_answer_may_have_any_content_type_of_grpc(ending: bytes) -> None:
    assert headers_error([(b":status", b"200"), (b"content-type", b"application/grpc" + ending)], PEER) is None


def test_capitals_do_not_count_in_a_content_type() -> None:
    assert headers_error([(b":status", b"200"), (b"content-type", b"Application/gRPC")], PEER) is None


@pytest.mark.parametrize("other", ["text/html", "application/grpc-web+proto", "application/grpcfoo"])
def test_an_answer_that_is_not_grpc_names_its_content_type(other: str) -> None:
    problem = headers_error([(b":status", b"200"), (b"content-type", other.encode())], PEER)
    assert problem is not None and problem.code is StatusCode.UNKNOWN
    assert problem.message.startswith(f"10.0.0.1:443: the answer has content-type '{other}'; check that a gRPC server")


def test_an_answer_of_headers_alone_that_is_not_grpc_names_its_content_type() -> None:
    headers = [(b":status", b"200"), (b"content-type", b"text/html")]
    assert trailers_status(headers, PEER) == headers_error(headers, PEER)


def test_an_answer_of_headers_alone_without_a_status_is_unknown() -> None:
    status = trailers_status([(b":status", b"200"), GRPC], PEER)
    assert status == Status(StatusCode.UNKNOWN, "10.0.0.1:443: the call was ended without grpc-status")


def test_an_answer_without_http_status_is_malformed() -> None:
    assert headers_error([GRPC], PEER) == Status(StatusCode.INTERNAL, "10.0.0.1:443: the answer has no HTTP status")


@pytest.mark.parametrize("http", [b"", b"20", b"2000", b"OK", b"-20"])
def test_an_http_status_that_has_not_three_digits_is_malformed(http: bytes) -> None:
    problem = headers_error([(b":status", http), GRPC], PEER)
    assert problem is not None and problem.code is StatusCode.INTERNAL


def test_grpc_status_0_is_ok() -> None:
    assert trailers_status([(b"grpc-status", b"0")], PEER) == OK


def test_grpc_message_and_status_details_are_decoded() -> None:
    details = base64.b64encode(b"\0\1\2\3").rstrip(b"=")
    status = trailers_status(
        [(b"grpc-status", b"9"), (b"grpc-message", b"no%20%E2%82%AC"), (b"grpc-status-details-bin", details)], PEER
    )
    assert status == Status(StatusCode.FAILED_PRECONDITION, "no €", b"\0\1\2\3")


@pytest.mark.parametrize("text", [b"17", b"-1", b"OK", b"", b"5x", b"0x5"])
def test_an_undefined_grpc_status_is_unknown(text: bytes) -> None:
    assert trailers_status([(b"grpc-status", text)], PEER).code is StatusCode.UNKNOWN


def test_an_undefined_grpc_status_keeps_the_servers_message_and_details() -> None:
    trailers = [(b"grpc-status", b"17"), (b"grpc-message", b"no%20more"), (b"grpc-status-details-bin", b"CAI")]
    status = trailers_status(trailers, PEER)
    assert (status.message, status.details) == ("no more", b"\x08\x02")
    assert str(status) == "UNKNOWN: no more (the server sent grpc-status '17', which gRPC does not define)"


@pytest.mark.parametrize(("text", "code"), [(b"00", 0), (b"05", 5), (b"016", 16)])
def test_zeros_may_lead_in_a_grpc_status(text: bytes, code: int) -> None:
    assert trailers_status([(b"grpc-status", text)], PEER).code == code


def test_the_last_of_several_statuses_counts() -> None:
    fields = [(b"grpc-status", b"0"), (b"grpc-message", b"fine"), (b"grpc-status", b"5"), (b"grpc-message", b"gone")]
    assert trailers_status(fields, PEER) == Status(StatusCode.NOT_FOUND, "gone")


def test_trailers_without_a_status_are_unknown() -> None:
    status = trailers_status([], PEER)
    assert status == Status(StatusCode.UNKNOWN, "10.0.0.1:443: the call was ended without grpc-status")


@pytest.mark.parametrize("text", [b"x", b"####", b"CA#I", b"CA\xe9I"])
def test_status_details_that_are_not_base64_are_left_out(text: bytes) -> None:
    assert trailers_status([(b"grpc-status", b"2"), (b"grpc-status-details-bin", text)], PEER).details is None


def test_the_status_of_a_reset_names_the_error_code() -> None:
    assert rst_stream_status(11, deadline_passed=False) == Status(
        StatusCode.RESOURCE_EXHAUSTED, "the server reset the stream: ENHANCE_YOUR_CALM"
    )
    assert rst_stream_status(4711, deadline_passed=False) == Status(
        StatusCode.INTERNAL, "the server reset the stream: error code 4711"
    )


def test_equal_response_headers_are_read_once() -> None:
    answers = ResponseHeaderParser("s:1")
    assert answers.trailers([(b"grpc-status", b"5")]) is answers.trailers([(b"grpc-status", b"5")])
    assert answers.trailers([(b"grpc-status", b"0"), (b"cost", b"3")]) == (OK, (("cost", "3"),))
    assert answers.trailers([(b"grpc-status", b"5")])[0].code is StatusCode.NOT_FOUND


def test_the_first_response_headers_may_be_empty() -> None:
    answers = ResponseHeaderParser("s:1")
    problem, metadata, encoding = answers.initial([])
    assert problem is not None and problem.code is StatusCode.INTERNAL and (metadata, encoding) == ((), "")
    assert answers.trailers([])[0].code is StatusCode.UNKNOWN


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"X-Up", "by the name b'X-Up'"),
        (b":path", "by the name b':path'"),
        *(
            (name, f"with a name of {len(name)} bytes")
            for name in (b"", b"x a", b"x\xc3\xbc", b"x\0", b"x\n", b"X" * 50)
        ),
    ],
)
def test_an_invalid_header_name_of_the_server_is_internal(name: bytes, shown: str) -> None:
    problem = Status(StatusCode.INTERNAL, f"10.0.0.1:443: it sent a header {shown}, which HTTP/2 forbids")
    assert headers_error([(b":status", b"200"), GRPC, (name, b"1")], PEER) == problem
    assert trailers_status([(b"grpc-status", b"0"), (name, b"1")], PEER) == problem


@pytest.mark.parametrize(
    "headers",
    [
        [(b":status", b"200"), (b":status", b"200"), GRPC],
        [GRPC, (b":status", b"200")],
        [(b"grpc-status", b"0"), (b":status", b"200")],
    ],
)
def test_an_http_status_twice_or_behind_other_headers_is_internal(headers: Headers) -> None:
    text = "10.0.0.1:443: it sent a header by the name b':status', twice or behind others, which HTTP/2 forbids"
    assert headers_error(headers, PEER) == trailers_status(headers, PEER) == Status(StatusCode.INTERNAL, text)


@pytest.mark.parametrize(
    "headers",
    [
        [(b":status", b"my-Secret"), GRPC],
        [(b":status", b"200"), (b"content-type", b"my-Secret")],
        [(b":status", b"200"), (b"content-type", b"text/html; my-Secret")],
        [(b":status", b"200"), (b"content-type", b"text/my Secret")],
        [(b":status", b"200"), GRPC, (b"my-Secret: x", b"1")],
        [(b":status", b"200"), GRPC, (b"grpc-status", b"my-Secret")],
    ],
)
def test_malformed_header_values_are_not_shown_in_errors(headers: Headers) -> None:
    said = f"{headers_error(headers, PEER)}{trailers_status(headers, PEER)}"
    assert "Secret" not in said
