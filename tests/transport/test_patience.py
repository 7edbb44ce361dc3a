"""A reader waits longer only where a trial has shown that its callers get no fewer answers by that."""

from __future__ import annotations

from trxds.transport.patience import IMPATIENT, PATIENT, Patience

CALLS = 8


class Callers:
    """Eight callers that call again as soon as they are answered; an answer takes so long, by the reader's patience."""

    def __init__(self, *, impatient: float, patient: float) -> None:
        self.patience = Patience()
        self.now = 100.0
        self.each = {IMPATIENT: impatient, PATIENT: patient}
        self.fractions: list[float] = []

    def get(self, answers: int) -> None:
        """Get so many answers, one in a read."""
        for _ in range(answers):
            self.now += self.each[self.patience.fraction]
            self.patience.count_answers(1, CALLS, self.now)
            self.fractions.append(self.patience.fraction)

    @property
    def patient_part(self) -> float:
        """The part of all reads after which the reader was patient."""
        return self.fractions.count(PATIENT) / len(self.fractions)


def test_a_reader_is_impatient_at_first() -> None:
    callers = Callers(impatient=0.001, patient=0.001)
    callers.get(100)
    assert set(callers.fractions) == {IMPATIENT}


def test_a_reader_becomes_patient_where_answers_come_faster_by_that() -> None:
    callers = Callers(impatient=0.001, patient=0.000_8)
    callers.get(10_000)
    assert callers.patience.fraction == PATIENT and callers.patient_part > 0.85


def test_a_reader_becomes_patient_where_answers_come_as_fast_with_fewer_reads() -> None:
    callers = Callers(impatient=0.001, patient=0.001)
    callers.get(10_000)
    assert callers.patient_part > 0.85


def test_a_reader_stays_impatient_where_answers_come_slower_by_patience() -> None:
    callers = Callers(impatient=0.001, patient=0.001_1)
    callers.get(100_000)
    assert callers.patience.fraction == IMPATIENT and 0 < callers.patient_part < 0.02


def test_a_reader_gives_patience_up_when_answers_come_slower_by_it() -> None:
    callers = Callers(impatient=0.001, patient=0.000_8)
    callers.get(10_000)
    callers.each[PATIENT] = 0.001_2
    callers.get(3_000)
    callers.fractions.clear()
    callers.get(3_000)
    assert callers.patient_part < 0.2


def test_a_reader_finds_out_when_patience_begins_to_help() -> None:
    callers = Callers(impatient=0.001, patient=0.001_1)
    callers.get(100_000)
    callers.each[PATIENT] = 0.000_8
    callers.get(40_000)
    assert callers.patience.fraction == PATIENT


def test_a_reader_never_tries_patience_with_callers_that_do_not_wait_for_answers() -> None:
    patience, now = Patience(), 100.0
    for turn in range(10_000):
        now += 0.001
        patience.count_answers(1, 4 + turn % 7, now)
        assert patience.fraction == IMPATIENT


def test_a_reader_is_impatient_again_when_callers_no_longer_wait_for_answers() -> None:
    callers = Callers(impatient=0.001, patient=0.000_8)
    callers.get(10_000)
    for turn in range(100):
        callers.now += 0.001
        callers.patience.count_answers(1, 2 + turn % 7, callers.now)
    assert callers.patience.fraction == IMPATIENT


def test_patience_bears_a_clock_that_stands_still() -> None:
    callers = Callers(impatient=0, patient=0)
    callers.get(1000)
    assert callers.patience.fraction == IMPATIENT
