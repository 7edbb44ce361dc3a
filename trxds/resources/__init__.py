"""The parsers: they turn xDS messages into frozen values, without network, clock or trio."""
