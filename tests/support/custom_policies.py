"""A custom policy that sends all calls to one host, and the cluster that asks for it."""

from dataclasses import dataclass

from trxds.policies import Complete, EndpointList
from trxds.testing import resources as xds

NAME = "my.pkg.Policy"


@dataclass(frozen=True)
class Lowest:
    """Picks the READY endpoint with the lowest address."""

    hosts: tuple

    def pick(self, call):
        return Complete(min(self.hosts, key=lambda host: host.address))


class ToLowest:
    """The policy of that picker. It keeps the inputs that it has seen."""

    def __init__(self, channel_control):
        self.endpoints = EndpointList(lambda ready: Lowest(tuple(each.host for each in ready.values())))
        self.seen = []

    def decide(self, inputs, now):
        self.seen.append(inputs)
        return self.endpoints.decide(inputs, now)


def asks_for(mesh, name=NAME, **settings):
    """Have the cluster ask for the custom policy."""
    mesh.plane.put(xds.cluster("cart") | xds.custom_policy(name, **settings))
