"""The resources of a small mesh as parsed values, keyed as the assembly keys them.

{**listens(), **routed("cart"), **has("cart", "10.0.0.1:80")}
"""

from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import unavailable
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import ClusterLoadAssignment, Endpoint, Locality, LocalityId
from trxds.resources.listener import Listener
from trxds.resources.matchers import Prefix
from trxds.resources.request_mirror import RequestMirrorPolicy
from trxds.resources.route import Route, RouteConfig, VirtualHost
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch

LDS = ("LDS", "shop")
RDS = ("RDS", "routes")


def listens(**fields):
    return {LDS: ResourceUpdate(Listener("shop", **({"rds_name": "routes"} | fields)))}


def routes(*clusters, domains=("*",), mirrors=()):
    """One route to each cluster, or to a mapping's clusters by weight; None: an action gRPC does not know.

    Each cluster of `mirrors` gets copies of the calls.
    """
    entries = tuple(Route(RouteMatch(Prefix("")), _action(cluster, mirrors)) for cluster in clusters)
    return RouteConfig("routes", (VirtualHost("v", domains, entries),))


def _action(cluster, mirrors):
    if cluster is None:
        return None
    weights = cluster if isinstance(cluster, dict) else {cluster: 1}
    policies = tuple(RequestMirrorPolicy(each) for each in mirrors)
    return RouteAction(tuple(WeightedCluster(name, weight) for name, weight in weights.items()), mirrors=policies)


def routed(*clusters, **more):
    return {RDS: ResourceUpdate(routes(*clusters, **more))}


def has(name, *addresses, service=None, **fields):
    """A cluster and its endpoints, in one locality."""
    service = service or name
    return {
        ("CDS", name): ResourceUpdate(Cluster(name, Eds(service), **fields)),
        ("EDS", service): ResourceUpdate(assignment(service, *addresses)),
    }


def assignment(name, *addresses):
    endpoints = tuple(Endpoint((address,)) for address in addresses)
    return ClusterLoadAssignment(name, ((Locality(LocalityId(zone="a"), 1, endpoints),),))


def failed(message, *, absent=False):
    return ResourceUpdate(error=unavailable(message), absent=absent)
