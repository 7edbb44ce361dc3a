"""Load reports in trailers (A58)."""

from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport

from trxds.core.metadata import Metadata


def trailers(**fields):
    return Metadata([("endpoint-load-metrics-bin", OrcaLoadReport(**fields).SerializeToString())])
