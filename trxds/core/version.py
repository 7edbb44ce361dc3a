"""The version of trxds, for whatever tells it to others."""

VERSION = "0.1.0"
