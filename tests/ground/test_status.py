"""Statuses, and what their exceptions show."""

from trxds.ground.status import RpcError, Status, StatusCode


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
