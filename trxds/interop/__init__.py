"""The field's standard interoperability cases, as clients that any harness can drive.

    python -m trxds.interop.client --server_host=127.0.0.1 --server_port=10000 --test_case=large_unary
    python -m trxds.interop.xds_client --server=xds:///shop --qps=100 --stats_port=8081

The cases of the first and their flags are those of gRPC's interop-test-descriptions.md; the second is the client of
gRPC's mesh tests, by its xds-test-descriptions.md. A program that uses trxds needs nothing in here.
"""
