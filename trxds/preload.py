"""Import this module to have what channels to `xds:` targets need: the xDS client, the messages of its API, policies.

    import trxds
    import trxds.preload

`import trxds` leaves them out. Without this module the first `open_channel("xds:...")` of a process imports them, or
the first use of `trxds.open_xds_client`. Trio's loop stands still meanwhile (docs/measuring.md has the time). So a
program whose loop has other work when it opens its first xDS channel imports this module before `trio.run`.
"""

from trxds.client import shared_xds_client
from trxds.lb import built_in_policies
from trxds.resources import generated_messages

del built_in_policies, generated_messages, shared_xds_client
