"""The cases of `random_mesh.py` without what grpc-go does otherwise, by `docs/grfc-map.md`."""

import re
from dataclasses import replace

from .random_mesh import CLUSTERS


def for_grpc_go(case):
    """The case without what grpc-go does otherwise, by `docs/grfc-map.md`."""
    calls = [{**call, "metadata": [_pair_for_grpc_go(*pair) for pair in call["metadata"]]} for call in case.calls]
    return replace(case, resources=_for_grpc_go(case.resources), calls=calls)


def _pair_for_grpc_go(key, value):
    """Empty values count as none there, and a number has no blanks."""
    return key, value if key.endswith("-bin") else value.strip() or "0"


_INSTEAD = {
    # It has another engine for regular expressions, and does not compare with an empty text.
    ("regex", "\\C"): ".",
    **{(f"{kind}{ending}", ""): "1" for kind in ("prefix", "suffix", "contains") for ending in ("_match", "")},
    # Matchers see binary headers, and not the content-type.
    **{("name", header): "x-missing" for header in ("x-c-bin", "content-type")},
    # It crashes for a cluster without a name, and looks at the rest of a route whose path no call can have.
    ("cluster", ""): CLUSTERS[0],
    **{(kind, path): "/x/y" for kind in ("path", "prefix") for path in ("x", "//", "a", "/a/b/c")},
    # It accepts these, and a ring's size of 0 is none.
    **{(key, ""): "x" for key in ("header_name", "name", "key")},
    **{(key, "-1s"): "1s" for key in ("max_stream_duration", "grpc_timeout_header_max", "grpc_timeout_header_offset")},
    ("category", ""): "a",
    ("minimum_ring_size", 0): 1024,
}


def _for_grpc_go(made, within=""):
    if isinstance(made, list):
        return [_for_grpc_go(each, within) for each in made]
    if not isinstance(made, dict):
        return made
    if "load_balancing_policy" in made:  # beside which the other fields are checked too
        made = {key: value for key, value in made.items() if key not in ("lb_policy", "ring_hash_lb_config")}
    if within == "endpoint" and not _is_at_an_address(made):
        made = {"address": {"socket_address": {"address": "::1", "port_value": 1}}}
    if within == "range_match" and made["start"] > made["end"]:
        made = {"start": 1, "end": 1}
    if within == "header" and made.get("regex_rewrite", {}).get("pattern") == {"regex": ""}:
        made = {"header_name": made["header_name"]}
    if within == "typed_per_filter_config":
        made = {key: value for key, value in made.items() if key}
    return {key: _value_for_grpc_go(key, value, within) for key, value in made.items()}


def _value_for_grpc_go(key, value, within):
    if key == "domains":  # a star may stand for nothing there, and capitals count
        return [each for each in value if not _ODD_DOMAIN.fullmatch(each)] or ["other"]
    if key == "policies":  # an empty one is left out there, and a wrr_locality below another one never serves
        value = [each for each in value if each and not (within == "endpoint_picking_policy" and _is_wrr(each))]
    if isinstance(value, dict | list):
        return _for_grpc_go(value, key)
    if key == "name" and within == "clusters":
        return value or CLUSTERS[0]
    may_be_empty = key == "prefix" and within == "match" and not value
    return value if may_be_empty else _INSTEAD.get((key, value), value)


def _is_wrr(policy):
    return policy["typed_extension_config"]["typed_config"]["@type"].endswith(".WrrLocality")


_ODD_DOMAIN = re.compile(r"\*case-\d+|case-\d+\*|.*[A-Z].*")


def _is_at_an_address(endpoint):
    where = endpoint.get("address", {}).get("socket_address", {}).get("address", "")
    return where == "::1" or bool(re.fullmatch(r"127\.[\d.]+", where))
