"""Load reports, and the weights that endpoints get from them, are tested by values (A58)."""

import math

import pytest
from support.weight_reports import trailers
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import OK
from trxds.lb.weighted_round_robin.endpoint_weight import EndpointWeight
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin as Rules
from trxds.resources.orca import LoadReport, load_report


class TestReports:
    def test_application_utilization_counts_before_cpu_utilization(self):
        value = OrcaLoadReport(cpu_utilization=0.5, rps_fractional=100, eps=2)
        assert load_report(value.SerializeToString()) == LoadReport(0.5, 100, 2)
        value.application_utilization = 0.7
        assert load_report(value.SerializeToString()) == LoadReport(0.7, 100, 2)

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -0.5])
    def test_an_impossible_number_counts_as_not_reported(self, number):
        def read(**fields):
            return load_report(OrcaLoadReport(**fields).SerializeToString())

        assert read(application_utilization=number, cpu_utilization=0.5) == LoadReport(0.5)
        assert read(application_utilization=0.5, cpu_utilization=number) == LoadReport(0.5)
        assert read(rps_fractional=number, eps=number, cpu_utilization=0.5) == LoadReport(0.5)

    def test_bytes_that_are_no_load_report_are_ignored(self):
        assert load_report(b"\xff\xff") is None

    @pytest.mark.parametrize("trailing", [EMPTY, Metadata([("endpoint-load-metrics-bin", b"\xff")])])
    def test_trailers_without_a_load_report_keep_the_weight(self, trailing):
        weight = EndpointWeight(Rules(blackout=0))
        weight.ended(OK, trailing, 1.0)
        assert weight.at(1.0) == 0


class TestWeights:
    @pytest.mark.parametrize(
        ("fields", "penalty", "expected"),
        [
            ({"cpu_utilization": 0.5, "rps_fractional": 100}, 1, 200),
            ({"cpu_utilization": 0.5, "rps_fractional": 100, "eps": 50}, 1, 100),
            ({"cpu_utilization": 0.5, "rps_fractional": 100, "eps": 50}, 0, 200),
            ({"cpu_utilization": 0.5, "rps_fractional": 100, "eps": -50}, 1, 200),
            ({"cpu_utilization": 0.5, "rps_fractional": 100, "eps": math.nan}, 1, 200),
            ({"cpu_utilization": 0.5, "rps_fractional": 1e-300, "eps": 1e300}, 0, 2e-300),
            ({"cpu_utilization": 0.5}, 1, 0),
            ({"rps_fractional": 100}, 1, 0),
            ({"rps_fractional": 100, "eps": 50}, 1, 0),
        ],
    )
    def test_a_weight_is_queries_by_utilization_and_errors(self, fields, penalty, expected):
        weight = EndpointWeight(Rules(blackout=0, error_penalty=penalty))
        weight.ended(OK, trailers(**fields), 1.0)
        assert weight.at(1.0) == expected

    @pytest.mark.parametrize(
        "report",
        [
            LoadReport(5e-324, 1e308),
            LoadReport(1e308, 5e-324),
            LoadReport(0.5, 5e-324, 1e308),
            LoadReport(math.nan, 1.0),
            LoadReport(0.5, 100, -50.0),
        ],
    )
    def test_a_report_without_a_weight_keeps_the_last_one(self, report):
        weight = self.reported(1, blackout=0)
        weight.record_report(report, 170.0)
        assert weight.at(170.0) == 200
        assert weight.at(181.0) == 0, "it was no report"

    def test_reports_after_a_gap_begin_a_blackout_without_a_pick_in_between(self):
        # Sessions report without a pick of the policy's that would read the weight.
        weight = self.reported(5, 14)
        weight.record_report(LoadReport(0.5, 100), 300)
        assert weight.at(309) == 0
        assert weight.at(310) == 200

    def reported(self, *times, **rules):
        weight = EndpointWeight(Rules(**rules))
        for time in times:
            weight.record_report(LoadReport(0.5, 100), time)
        return weight

    def test_a_weight_counts_after_the_blackout_period(self):
        weight = self.reported(5, 14)
        assert weight.at(14.9) == 0
        assert weight.at(15) == 200

    def test_a_weight_expires_and_then_begins_another_blackout_period(self):
        weight = self.reported(5)
        assert weight.at(184.9) == 200
        assert weight.at(185) == 0
        weight.record_report(LoadReport(0.5, 100), 190)
        assert weight.at(199) == 0
        assert weight.at(200) == 200

    def test_a_new_connection_begins_a_blackout_period(self):
        weight = self.reported(5)
        weight.restart_blackout()
        weight.record_report(LoadReport(0.5, 100), 20)
        assert weight.at(29) == 0
        assert weight.at(30) == 200

    def test_a_weight_is_stale_if_there_was_one_and_it_has_expired(self):
        assert not self.reported().is_stale(200)
        assert not self.reported(5).is_stale(184)
        assert self.reported(5).is_stale(185)

    def test_a_new_connection_without_a_blackout_period_has_the_last_weight(self):
        weight = self.reported(5, blackout=0)
        weight.restart_blackout()
        assert weight.at(6) == 200
