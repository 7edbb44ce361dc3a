"""Target URIs without a control plane (gRPC's doc/naming.md).

    dns:///host:port    dns:host    host:port         a name to resolve; without a scheme it is one too
    ipv4:1.2.3.4:80,5.6.7.8:80    ipv6:[::1]:80       known addresses
    unix:path    unix:///path    unix-abstract:name   sockets of this machine

A target is parsed before anything runs, so a mistake in it is a `ValueError` and not a failed call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType
from urllib.parse import unquote

from msgspec import Struct

from trxds.core.arguments import check_type, check_unicode
from trxds.core.authority import is_authority, is_ip, join_address, percent_encode_authority, split_path

DEFAULT_PORT = 443
XDS = "xds"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")  # RFC 3986; a scheme's case does not count, and the small one is its form


class NonXdsTarget(Struct, frozen=True):
    """A target with known `addresses`, or with a `name` to resolve, a "host:port".

    `authority` is the default `:authority`.
    """

    text: str
    authority: str
    addresses: tuple[str, ...] = ()
    name: str = ""


class _TargetError(ValueError):
    """An error in a part of a target; the caller adds the whole target."""


def parse_non_xds_target(target: str) -> NonXdsTarget | None:
    """Return the parsed target, or None for one of xDS. `ValueError` for a text that is no target."""
    if not isinstance(target, str):
        raise TypeError(f"target is a text such as dns:///host:port or xds:///NAME, not {target!r}")
    check_unicode("target", target)
    scheme, _, rest = target.partition(":")
    scheme = scheme.lower()
    if scheme == XDS:
        return None
    try:
        if scheme in _KINDS:
            return _KINDS[scheme](target, rest)
        if rest.startswith("//"):
            known = ", ".join((XDS, *_KINDS))
            remedy = "; a target is no URL: write host:port" if scheme in ("http", "https") else ""
            raise _TargetError(f"unknown scheme {scheme!r}; trxds knows {known}, and those in resolvers={remedy}")
        # naming.md: a target without a known scheme is a DNS name; "host:port" only looks as if it had a scheme.
        return _dns(target, f"///{target}")
    except _TargetError as mistake:
        raise ValueError(f"target {target!r}: {mistake}") from None


def canonical(target: str) -> str:
    """Return the target with a scheme, as metrics name it (A66); one without a scheme is a name for DNS."""
    scheme = target.partition(":")[0].lower()
    return target if is_built_in(scheme) else f"dns:///{target}"


def is_xds(target: str) -> bool:
    """Return whether a control plane resolves the target."""
    return target.partition(":")[0].lower() == XDS


def is_built_in(scheme: str) -> bool:
    """Return whether trxds itself resolves targets of this scheme."""
    return scheme == XDS or scheme in _KINDS


class ResolverTarget(Struct, frozen=True):
    """A target of a custom resolver: `text` is `SCHEME://AUTHORITY/PATH`, and the authority is usually empty.

    `path` is percent-decoded and has no slash in front.
    """

    text: str
    scheme: str
    authority: str
    path: str

    @property
    def default_authority(self) -> str:
        """Return the `:authority` of calls unless the channel has another: the path, percent-encoded (naming.md)."""
        return percent_encode_authority(self.path)


def check_scheme(scheme: object) -> None:
    """Raise `ValueError` unless a program's own resolver may have this scheme."""
    if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
        form = "it begins with a small letter, and has small letters, digits, +, - and . only"
        raise ValueError(f"resolvers: {scheme!r} is no scheme of a target; {form}")
    if is_built_in(scheme):
        raise ValueError(f"resolvers: trxds resolves {scheme}: targets itself; choose another scheme")


def parse_custom_target(target: object, schemes: Container[str]) -> ResolverTarget | None:
    """Return the target if its scheme is one of `schemes`, else None. `ValueError` if it names nothing."""
    if not isinstance(target, str):
        return None  # `parse_non_xds_target` has the error
    scheme, colon, rest = target.partition(":")
    scheme = scheme.lower()
    if not colon or scheme not in schemes:
        return None
    check_unicode("target", target)
    authority, path = map(unquote, split_path(rest))
    if not path:
        raise ValueError(f"target {target!r}: nothing to resolve after the scheme; write {scheme}:///NAME")
    return ResolverTarget(target, scheme, authority, path)


def checked_authority(text: str) -> str:
    """Return the text, or raise `ValueError` if it cannot be an `:authority`."""
    check_type("authority", text, str, "a text such as host or host:port")
    if not is_authority(text):
        raise ValueError(f"authority {text!r} is no host or host:port")
    return text


# -- the kinds


def _dns(text: str, rest: str) -> NonXdsTarget:
    path = _path(rest, "the platform's resolver is asked, and no DNS server of a target's own; write dns:///HOST:PORT")
    if "," in path:
        raise _TargetError(f"{path!r} is a list, and DNS resolves one name; for a list of addresses write ipv4:A,B")
    host, port = _host_and_port(path)
    if not host or any(character in "/?#@" or not character.isprintable() or character == " " for character in host):
        raise _TargetError(f"{path!r} has no host name; write dns:///HOST or dns:///HOST:PORT")
    if ":" in host and not is_ip(host):
        remedy = "write dns:///HOST:PORT, or for a list of addresses ipv4:A,B"
        raise _TargetError(f"{host!r} has colons and is no IPv6 address; {remedy}")
    return NonXdsTarget(text, _authority(path), name=join_address(host, port))


def _ipv4(text: str, rest: str) -> NonXdsTarget:
    return _known(text, rest, lambda host: str(IPv4Address(host)), "ipv4:1.2.3.4:80")


def _ipv6(text: str, rest: str) -> NonXdsTarget:
    return _known(text, rest, lambda host: f"[{IPv6Address(host)}]", "ipv6:[::1]:80")


def _known(text: str, rest: str, read: Callable[[str], str], example: str) -> NonXdsTarget:
    each = _path(rest, f"an address has no authority before it; write {example}").split(",")
    # Only the first address, as in C-core: servers and certificates have no use for a list.
    return NonXdsTarget(text, _authority(each[0]), tuple(_address(one, read, example) for one in each))


def _address(text: str, read: Callable[[str], str], example: str) -> str:
    host, port = _host_and_port(text)
    try:
        return f"{read(host)}:{port}"
    except ValueError:
        raise _TargetError(f"{host!r} is no address of this kind; write for example {example}") from None


def _unix(text: str, rest: str) -> NonXdsTarget:
    bad_slashes = "a path after // begins at the root; write unix:///PATH, or unix:PATH for a relative one"
    return _socket(text, "unix", rest, bad_slashes, "no path; write unix:///PATH")


def _unix_abstract(text: str, rest: str) -> NonXdsTarget:
    bad_slashes = "a name after // begins with a slash; write unix-abstract:NAME"
    # As in C-core and grpc-go: after an empty authority the path, with its slash, is the name.
    return _socket(text, "unix-abstract", rest, bad_slashes, "no name; write unix-abstract:NAME")


def _socket(text: str, scheme: str, rest: str, bad_slashes: str, nothing: str) -> NonXdsTarget:
    if rest.startswith("//") and not rest.startswith("///"):
        raise _TargetError(bad_slashes)
    name = unquote(rest.removeprefix("//"))
    if not name:
        raise _TargetError(nothing)
    # The system would cut a path there, and take a path that begins with it for an abstract name.
    if "\0" in name:
        raise _TargetError("a socket's path or name has no NUL; leave %00 out")
    # As in grpc-go: many servers reject the path, which C-core puts here.
    return NonXdsTarget(text, "localhost", (f"{scheme}:{name}",))


_KINDS: Mapping[str, Callable[[str, str], NonXdsTarget]] = MappingProxyType(
    {"dns": _dns, "ipv4": _ipv4, "ipv6": _ipv6, "unix": _unix, "unix-abstract": _unix_abstract}
)


# -- their parts


def _path(rest: str, no_authority: str) -> str:
    """Return the part after `scheme:`, `scheme:/` or `scheme:///`."""
    authority, path = split_path(rest)
    if authority:
        raise _TargetError(f"{authority!r} is not allowed there; {no_authority}")
    return unquote(path)


def _authority(path: str) -> str:
    """Return the path as an authority: unchanged, but an IPv6 address gets its brackets."""
    bare = path.count(":") > 1 and not path.startswith("[")
    return percent_encode_authority(f"[{path}]" if bare else path)


def _host_and_port(text: str) -> tuple[str, int]:
    if text.startswith("["):
        # RFC 3986: only brackets tell the colons of an IPv6 address from that of the port.
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise _TargetError(f"{text!r} has a bracket too few or too many; write [ADDRESS]:PORT")
        if host and ":" not in host:  # as in C-core: no server would know such an authority
            raise _TargetError(f"{text!r} has brackets, which only an IPv6 address may have; write HOST:PORT")
        return host, _port(port[1:]) if port else DEFAULT_PORT
    if text.count(":") != 1:  # no port, or an IPv6 address without brackets and so without a port
        return text, DEFAULT_PORT
    host, _, port = text.partition(":")
    return host, _port(port)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 2**16:
        raise _TargetError(f"{text!r} is no port; write a number from 1 to 65535, or none for {DEFAULT_PORT}")
    return int(text)
