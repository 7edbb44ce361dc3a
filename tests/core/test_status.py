"""Statuses and their exceptions show code, message, details and host."""

import json

import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as RichStatus

from trxds.core.status import RpcError, Status, StatusCode


def test_an_rpc_error_shows_code_and_message():
    assert str(RpcError(Status(StatusCode.UNAVAILABLE, "no route"))) == "UNAVAILABLE: no route"


def test_an_rpc_error_shows_the_host_unless_its_message_does():
    status = Status(StatusCode.INTERNAL, "no")
    assert str(RpcError(status, peer="10.0.0.1:1")) == "INTERNAL: no (host 10.0.0.1:1)"
    lost = Status(StatusCode.UNAVAILABLE, "10.0.0.1:1: connection lost")
    assert str(RpcError(lost, peer="10.0.0.1:1")) == "UNAVAILABLE: 10.0.0.1:1: connection lost"


def test_an_rpc_error_without_a_response_has_empty_metadata():
    error = RpcError(Status(StatusCode.CANCELLED))
    assert error.initial_metadata == ()
    assert error.trailing_metadata == ()


def test_status_codes_have_the_values_of_grpc_status():
    assert StatusCode(14) is StatusCode.UNAVAILABLE


def test_a_status_code_in_a_text_is_its_name():
    code = StatusCode.NOT_FOUND
    assert (str(code), f"{code}", f"{code:>10}|") == ("NOT_FOUND", "NOT_FOUND", " NOT_FOUND|")


@pytest.mark.parametrize(("spec", "text"), [("d", "5"), ("03d", "005"), ("x", "5")])
def test_a_status_code_with_a_format_of_numbers_is_its_value(spec, text):
    assert format(StatusCode.NOT_FOUND, spec) == text


def test_a_status_code_in_bytes_and_json_stays_a_number():
    assert (b"%d" % StatusCode.NOT_FOUND, json.dumps(StatusCode.NOT_FOUND)) == (b"5", "5")


class TestRichDetails:
    def status(self, *details):
        rich = RichStatus(code=8, message="sold out", details=details)
        return Status(StatusCode.RESOURCE_EXHAUSTED, "sold out", rich.SerializeToString())

    def packed(self, message):
        packed = Any()
        packed.Pack(message)
        return packed

    def test_status_details_are_parsed_when_they_are_read(self):
        status = self.status(self.packed(ErrorInfo(reason="A")), self.packed(ErrorInfo(reason="B")))
        assert (status.rich.code, status.rich.message, len(status.rich.details)) == (8, "sold out", 2)

    def test_status_detail_returns_the_first_of_its_type(self):
        status = self.status(*(self.packed(ErrorInfo(reason=reason)) for reason in "AB"))
        assert status.detail(ErrorInfo) == ErrorInfo(reason="A")
        assert status.detail(RetryInfo) is None

    @pytest.mark.parametrize("details", [None, b"\xff"])
    def test_a_status_without_parsable_details_has_none(self, details):
        status = Status(StatusCode.INTERNAL, "", details)
        assert status.rich is None and status.detail(ErrorInfo) is None

    def test_an_unparsable_status_detail_is_none(self):
        broken = Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff")
        assert self.status(broken).detail(ErrorInfo) is None
