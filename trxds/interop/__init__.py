"""The field's standard interoperability cases, as a client that any harness can drive.

    python -m trxds.interop.client --server_host=127.0.0.1 --server_port=10000 --test_case=large_unary

The cases and their flags are those of gRPC's interop-test-descriptions.md. A program that uses trxds
needs nothing in here.
"""
