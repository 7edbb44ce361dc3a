"""The config selector of some routes."""

from random import Random

from trxds.core.metadata import Metadata
from trxds.resolver.config_selector import ConfigSelector, Selection
from trxds.resolver.route_timeout import max_stream_duration
from trxds.resolver.routes import BoundRoutes
from trxds.resources.listener import Listener
from trxds.resources.route import Route, VirtualHost
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch

NO_TABLE = object()


def route(path, *clusters, headers=(), fraction=None, overrides=None, **action):
    """route(Prefix("/s/"), "a", ("b", 3)): to a by weight 1 and to b by weight 3."""
    weighted = tuple(_weighted(each) for each in clusters)
    return Route(RouteMatch(path, headers, fraction), RouteAction(weighted, **action), overrides or {})


def _weighted(cluster):
    match cluster:
        case str(name):
            return WeightedCluster(name)
        case name, weight:
            return WeightedCluster(name, weight)


def selector(*routes, listener=None, overrides=None, make_chain=tuple, seed=1, limits=max_stream_duration):
    host = VirtualHost("shop", ("*",), routes, overrides or {})
    bound = BoundRoutes(listener or Listener("shop"), host, make_chain, limits)
    return ConfigSelector(bound, NO_TABLE, Random(seed), 7)


def chosen(select, path="/s/m", **headers):
    """The cluster, or the refusal's message."""
    found = select.choose(path, Metadata(headers.items()))
    return found.cluster.name if isinstance(found, Selection) else found.status.message
