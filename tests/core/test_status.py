"""Statuses, and what their exceptions show."""

import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as RichStatus

from trxds.core.status import RpcError, Status, StatusCode


def test_an_error_shows_code_and_message():
    assert str(RpcError(Status(StatusCode.UNAVAILABLE, "no route"))) == "UNAVAILABLE: no route"


def test_an_error_shows_the_host_that_had_the_call_unless_its_message_does():
    status = Status(StatusCode.INTERNAL, "no")
    assert str(RpcError(status, peer="10.0.0.1:1")) == "INTERNAL: no (host 10.0.0.1:1)"
    lost = Status(StatusCode.UNAVAILABLE, "10.0.0.1:1: connection lost")
    assert str(RpcError(lost, peer="10.0.0.1:1")) == "UNAVAILABLE: 10.0.0.1:1: connection lost"


def test_an_error_without_a_response_has_empty_metadata():
    error = RpcError(Status(StatusCode.CANCELLED))
    assert error.initial_metadata == ()
    assert error.trailing_metadata == ()


def test_codes_are_the_numbers_of_the_wire():
    assert StatusCode(14) is StatusCode.UNAVAILABLE


class TestRichDetails:
    def status(self, *details):
        rich = RichStatus(code=8, message="sold out", details=details)
        return Status(StatusCode.RESOURCE_EXHAUSTED, "sold out", rich.SerializeToString())

    def packed(self, message):
        packed = Any()
        packed.Pack(message)
        return packed

    def test_the_details_are_read_when_they_are_asked_for(self):
        status = self.status(self.packed(ErrorInfo(reason="A")), self.packed(ErrorInfo(reason="B")))
        assert (status.rich.code, status.rich.message, len(status.rich.details)) == (8, "sold out", 2)

    def test_the_first_of_a_type_is_found(self):
        status = self.status(*(self.packed(ErrorInfo(reason=reason)) for reason in "AB"))
        assert status.detail(ErrorInfo) == ErrorInfo(reason="A")
        assert status.detail(RetryInfo) is None

    @pytest.mark.parametrize("details", [None, b"\xff"])
    def test_without_details_or_with_bytes_that_are_none_there_are_none(self, details):
        status = Status(StatusCode.INTERNAL, "", details)
        assert status.rich is None and status.detail(ErrorInfo) is None

    def test_a_detail_that_cannot_be_read_is_none(self):
        broken = Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff")
        assert self.status(broken).detail(ErrorInfo) is None
