"""The names of resources: from a target to its Listener, and the parts of xdstp names (A27, A47).

`xds:///shop` requests the Listener whose name the bootstrap's template makes of "shop"; `xds://fleet/shop` does so in
the authority "fleet". The virtual host is chosen by "shop" itself, not by the Listener's name.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from msgspec import Struct

from trxds.core.arguments import check_unicode
from trxds.core.authority import percent_encode_authority, split_path
from trxds.core.status import BootstrapError

from .bootstrap import Bootstrap

_XDSTP = "xdstp:"

# RFC 3986 path characters, which xdstp names have without percent-coding; "/" is one (A47).
_PATH = "/:@!$&'()*+,;="


class Target(Struct, frozen=True):
    """A parsed target: `listener` is its LDS resource; `authority` is the `:authority` that its virtual host takes."""

    listener: str
    authority: str


def parse_target(target: str, bootstrap: Bootstrap) -> Target:
    """Return the parsed target.

    `ValueError` for a text that is no xds target, `BootstrapError` for an unknown authority.
    """
    authority, name = _split(target)
    template = _template(authority, bootstrap, target)
    return Target(listener=fill_template(template, name), authority=percent_encode_authority(name))


def fill_template(template: str, name: str) -> str:
    """Return the template with `%s` replaced. xdstp names are URIs, so there the name is percent-coded first."""
    return template.replace("%s", quote(name, safe=_PATH) if template.startswith(_XDSTP) else name)


def canonical(name: str) -> str:
    """Return the one spelling of a resource's name: an xdstp URI has its context parameters sorted (A47).

    Of a parameter that is there twice, the last one counts.
    """
    if not name.startswith(_XDSTP) or "?" not in name:
        return name
    uri, mark, fragment = name.partition("#")  # a "?" in the fragment begins no query
    path, _, query = uri.partition("?")
    parameters = {each.partition("=")[0]: each for each in query.split("&") if each}
    # A name without parameters has no "?", since "name?" and "name" are the same resource.
    return path + "?" * bool(parameters) + "&".join(parameters[key] for key in sorted(parameters)) + mark + fragment


def authority_of(name: str) -> str | None:
    """Return the authority of a name; None for names of the old style, which belong to the top-level servers."""
    # A47: "xdstp:///..." has the empty authority, which is a key like any other in the bootstrap's map.
    return unquote(_parts(name)[0]) if name.startswith(_XDSTP) else None


def check_type(name: str, type_url: str) -> str | None:
    """Return the error of a name for a resource of that type, or None."""
    type = type_url.rpartition("/")[2]
    if not name.startswith(_XDSTP) or _parts(name)[1:2] == [type]:
        return None
    return f"is not a name of this type; write xdstp://AUTHORITY/{type}/NAME"


def _parts(name: str) -> list[str]:
    """Return authority, type and the rest of an xdstp name, or as many of them as there are."""
    return name.removeprefix(_XDSTP).removeprefix("//").partition("#")[0].partition("?")[0].split("/", 2)


def _split(target: str) -> tuple[str, str]:
    scheme, _, rest = target.partition(":")
    if scheme.lower() != "xds":
        raise ValueError(f"target {target!r} does not have the scheme xds; write xds:///NAME")
    check_unicode("target", target)
    # A47: the path names the service. No client reads query and fragment.
    rest = rest.partition("#")[0].partition("?")[0]
    # A target is a URI; it is decoded here and coded again by the rules of an xdstp name or of `:authority` (A47).
    authority, name = map(unquote, split_path(rest))
    if not name or name.endswith("/"):
        raise ValueError(f"target {target!r} names no service; write xds:///NAME, where NAME does not end in a slash")
    return authority, name


def _template(authority: str, bootstrap: Bootstrap, target: str) -> str:
    if not authority:
        return bootstrap.listener_template
    if authority not in bootstrap.authorities:
        known = ", ".join(map(repr, bootstrap.authorities)) or "none"
        raise BootstrapError(
            f"target {target!r}: authority {authority!r} is not in the bootstrap's authorities ({known}); "
            f"add it there or write xds:///{target.rpartition('/')[2]}"
        )
    return bootstrap.authorities[authority].listener_template
