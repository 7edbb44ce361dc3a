"""The difference of two snapshots: a viewer who applies it has the second."""

from hypothesis import given
from hypothesis import strategies as st

from trxds.admin.state_stream.changes import apply, changes

ROWS = st.sampled_from([{"state": "IDLE"}, {"state": "READY"}, {"state": "READY", "picks": 1}])
SECTION = st.dictionaries(st.sampled_from("abc"), ROWS)
STATES = st.fixed_dictionaries({"nodes": SECTION, "sessions": SECTION})


@given(STATES, STATES)
def test_a_snapshot_and_its_changes_make_the_next_snapshot(before, after):
    assert apply(before, changes(before, after)) == after


@given(STATES, STATES)
def test_changes_have_only_the_differences(before, after):
    for change in changes(before, after):
        assert before[change["section"]].get(change["key"]) != after[change["section"]].get(change["key"])


@given(STATES, STATES)
def test_each_key_is_in_the_changes_once(before, after):
    named = [(change["section"], change["key"]) for change in changes(before, after)]
    assert len(named) == len(set(named))


@given(STATES, STATES)
def test_applying_changes_does_not_modify_the_snapshot_of_others(before, after):
    held = {name: dict(section) for name, section in before.items()}
    apply(before, changes(before, after))
    assert held == before


def test_equal_rows_make_no_changes():
    state = {"nodes": {"a": {"state": "READY"}}}
    assert changes(state, {"nodes": {"a": {"state": "READY"}}}) == []
