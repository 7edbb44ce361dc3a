"""An endpoint's weight is its share of the traffic (A113)."""

from trxds.lb.config_builder import build_priority, endpoint_weights
from trxds.resources.endpoint import Endpoint, HealthStatus, Locality, LocalityId
from trxds.resources.leaf_policy import RingHash

ALL = 1 << 31


def weights(*localities):
    """Return the endpoint weights of localities, each given as (weight, weights of its endpoints)."""
    return endpoint_weights([locality(weight, its) for weight, its in localities], sum(each for each, _ in localities))


def locality(weight, its):
    endpoints = tuple(Endpoint(("a",), weight=each) for each in its)
    return Locality(LocalityId(), weight, endpoints), endpoints


def test_endpoints_of_one_locality_have_shares_by_weight():
    assert weights((7, [3, 1])) == (ALL * 3 // 4, ALL // 4)


def test_a_locality_has_its_share_however_many_endpoints_it_has():
    assert weights((1, [5]), (1, [1, 1, 1, 1])) == (ALL // 2, *(ALL // 8,) * 4)


def test_locality_and_endpoint_weight_both_count():
    assert weights((3, [1, 1]), (1, [3, 1])) == (ALL * 3 // 8, ALL * 3 // 8, ALL * 3 // 16, ALL // 16)


def test_no_endpoint_share_is_rounded_to_0():
    assert min(weights((1, [1, 2**32 - 1]), (2**32 - 2, [1]))) == 1


def test_no_localities_have_no_endpoint_weights():
    assert weights() == ()


def test_the_shares_of_draining_endpoints_are_nobodys():
    draining = Endpoint(("a",), HealthStatus.DRAINING, weight=3)
    serving = Endpoint(("b",))
    mixed = Locality(LocalityId("mixed"), 1, (draining, serving))
    only_draining = Locality(LocalityId("only"), 2, (draining,))
    _, endpoints = build_priority(RingHash(), [mixed, only_draining, locality(1, [1])[0]], str)
    assert endpoints.weights == (ALL // 16, ALL // 4)
