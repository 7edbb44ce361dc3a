"""`Observers` sends every event to all observers, and an exception of one affects no other."""

import inspect
import logging

import pytest

from trxds.core.observe import AttemptObserver, CallObserver, CallStarted, Observer
from trxds.core.observers import AttemptObservers, CallObservers, Observers
from trxds.core.status import OK

CALL = CallStarted("/shop.Cart/Add")


class Noting(Observer, CallObserver, AttemptObserver):
    """Records everything, and is the observer of every call and attempt too."""

    def __init__(self, notes):
        self.notes = notes

    def call(self, call):
        self.notes.append(call.path)
        return self

    def attempt(self, previous, transparent):
        self.notes.append((previous, transparent))
        return self

    def headers(self):
        return [("traceparent", "00")]

    def ended(self, status):
        self.notes.append(status)

    def xds_connected(self, server):
        self.notes.append(server)


class Raising(Observer, CallObserver, AttemptObserver):
    def _raise(self, *what):
        raise ZeroDivisionError

    call = attempt = headers = ended = xds_connected = _raise


def events(kind):
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("kind", "everybody"),
    [(Observer, Observers), (CallObserver, CallObservers), (AttemptObserver, AttemptObservers)],
)
def test_observers_forward_every_event(kind, everybody):
    assert {name for name in events(kind) if getattr(everybody, name) is getattr(kind, name)} == set()


def test_every_observer_gets_an_event():
    notes = []
    observers = Observers(Noting(notes), Noting(notes))
    observers.xds_connected("a")
    assert notes == ["a", "a"]


def test_a_call_has_the_observers_that_accept_it():
    notes = []
    call = Observers(Noting(notes), Observer()).call(CALL)
    attempt = call.attempt(1, True)
    attempt.ended(OK)
    call.ended(OK)
    assert notes == ["/shop.Cart/Add", (1, True), OK, OK]


def test_a_call_that_no_observer_accepts_has_none():
    assert Observers(Observer()).call(CALL) is None


class Idle(CallObserver, AttemptObserver):
    """Overrides nothing but `attempt`, whose observer overrides nothing."""

    def attempt(self, previous, transparent):
        return AttemptObserver()


class Calling(Observer):
    def __init__(self, observer):
        self.observer = observer

    def call(self, call):
        return self.observer


def test_an_attempt_whose_observer_overrides_nothing_has_none():
    assert Observers(Calling(Idle())).call(CALL).attempt(0, False) is None


def test_a_call_whose_observer_overrides_nothing_has_none():
    assert Observers(Calling(CallObserver())).call(CALL) is None


def test_only_observers_that_override_call_are_those_of_calls():
    idle, noting = Observer(), Noting([])
    observers = Observers(idle)
    assert (observers.active, observers.of_calls) == (True, ())
    with observers.observed_by(noting):
        assert observers.of_calls == (noting,)
    assert observers.of_calls == ()


def test_the_events_that_a_call_and_its_attempt_want_are_those_that_their_classes_override():
    call = Observers(Noting([]), Calling(Idle())).call(CALL)
    assert call.wanted == {"attempt", "ended"}
    assert call.attempt(0, False).wanted == {"headers", "ended"}


def test_an_observer_that_is_no_subclass_gets_the_events_of_its_methods():
    notes = []

    class Duck:
        def attempt(self, previous, transparent):
            return self

        def sent(self, size, wire_size):
            notes.append((size, wire_size))

    attempt = Observers(Calling(Duck())).call(CALL).attempt(0, False)
    attempt.sent(3, 2)
    assert notes == [(3, 2)]


class Heading(Noting):
    """Adds these headers."""

    def __init__(self, *headers):
        super().__init__([])
        self.added = headers

    def headers(self):
        return self.added


def test_the_headers_of_all_observers_are_sent():
    attempt = Observers(Heading(("a", "1"), ("a", "2")), Heading(("b", "3"))).call(CALL).attempt(0, False)
    assert [*attempt.headers()] == [("a", "1"), ("a", "2"), ("b", "3")]


def test_headers_of_an_observer_replace_those_of_an_earlier_one():
    attempt = Observers(Heading(("a", "1"), ("b", "2")), Heading(("A", "3"))).call(CALL).attempt(0, False)
    assert [*attempt.headers()] == [("b", "2"), ("a", "3")]


def test_invalid_headers_of_an_observer_are_logged_and_not_sent(caplog):
    class Wrong(Noting):
        def headers(self):
            return [("über", "x")]

    attempt = Observers(Wrong([]), Noting([])).call(CALL).attempt(0, False)
    assert [*attempt.headers()] == [("traceparent", "00")]
    assert "observer" in caplog.text


def test_an_invalid_header_of_an_observer_is_dropped_and_not_its_others(caplog):
    observer = Heading(("a", "1"), ("trace-bin", "no bytes"), None, ("b", "2"))
    assert [*Observers(observer).call(CALL).attempt(0, False).headers()] == [("a", "1"), ("b", "2")]
    assert [str(record.exc_info[1]) for record in caplog.records] == [
        "metadata 'trace-bin' ends in -bin: its value must be bytes, not str"
    ]


def test_a_removed_observer_gets_no_events():
    notes = []
    observers, watcher = Observers(), Noting(notes)
    with observers.observed_by(watcher):
        assert observers.active
    observers.xds_connected("a")
    assert (notes, observers.active) == ([], False)


def test_an_observer_that_raises_is_logged_once_and_the_others_get_the_event(caplog):
    notes = []
    observers = Observers(Raising(), Noting(notes))
    with caplog.at_level(logging.ERROR, "trxds"):
        observers.xds_connected("a")
        call = observers.call(CALL)
        attempt = call.attempt(0, False)
        headers = [*attempt.headers()]
        attempt.ended(OK)
    assert notes == ["a", "/shop.Cart/Add", (0, False), OK]
    assert headers == [("traceparent", "00")]
    assert [(record.exc_info[0], record.getMessage()) for record in caplog.records] == [
        (
            ZeroDivisionError,
            "observer Raising raised an exception in xds_connected; it stays registered, and this is logged once",
        )
    ]


def test_what_an_observer_raises_in_the_events_of_a_call_affects_no_other(caplog):
    def fail(*what):
        raise ZeroDivisionError

    class Attempt(AttemptObserver):
        sent = received = ended = fail

    class Call(CallObserver):
        routed = ended = fail

        def attempt(self, previous, transparent):
            return Attempt()

    class BeginsNothing(CallObserver):
        attempt = fail

    class Made(Observer):
        def __init__(self, made):
            self._made = made

        def call(self, call):
            return self._made()

    class Heard(Noting):
        def routed(self, cluster, hedged):
            self.notes.append(cluster)

        def sent(self, size, wire_size):
            self.notes.append(("sent", size))

        def received(self, size, wire_size):
            self.notes.append(("received", size))

    notes = []
    call = Observers(Made(Call), Made(BeginsNothing), Heard(notes)).call(CALL)
    with caplog.at_level(logging.ERROR, "trxds"):
        call.routed("cart", False)
        attempt = call.attempt(0, False)
        attempt.sent(1, 1)
        attempt.received(2, 2)
        attempt.ended(OK)
        call.ended(OK)
    assert notes == ["/shop.Cart/Add", "cart", (0, False), ("sent", 1), ("received", 2), OK, OK]
    assert [record.args[1] for record in caplog.records] == ["routed", "attempt", "sent"]
