"""The messages of load reports (A51), apart from the other generated ones.

A channel without a control plane may have weighted_round_robin, which needs these two and no others.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport
from xds.service.orca.v3.orca_pb2 import OrcaLoadReportRequest
