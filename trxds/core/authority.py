"""The `:authority` of an RPC, and the host in it that a certificate may prove (RFC 9113 §8.3.1, RFC 6125)."""

from __future__ import annotations

import ipaddress
from urllib.parse import quote

# RFC 3986: what an authority has without percent-coding, besides letters, digits and "-._~".
_PLAIN = ":@!$&'()*+,;=[]"


def is_authority(text: str) -> bool:
    """Return whether a header can carry this text as `:authority`; whether it names a host is another question."""
    return all("!" <= character <= "~" and character not in "/?#@\\" for character in text)


def percent_encode_authority(text: str) -> str:
    """Return the text as an authority has it: a slash, for example, is percent-coded."""
    # Half of a surrogate pair must not raise here: the readers of targets and bootstraps refuse it with its place.
    return quote(text, safe=_PLAIN, errors="replace")


def split_path(rest: str) -> tuple[str, str]:
    """Return authority and path of what a target has after its scheme: `//AUTHORITY/PATH`, `/PATH` or `PATH`."""
    if not rest.startswith("//"):
        return "", rest.removeprefix("/")
    authority, _, path = rest[2:].partition("/")
    return authority, path


def host_of(authority: str) -> str:
    """Return the host, without its port and the brackets of an IPv6 address."""
    host, colon, port = authority.rpartition(":")
    # An IPv6 address without brackets has colons and no port.
    has_port = colon and port.isdecimal() and (":" not in host or host.endswith("]"))
    name = (host if has_port else authority).strip("[]")
    # An IPv6 zone has a meaning on this machine only. In a host name "%" is no zone: "bank%2Eexample" is not "bank".
    return name.partition("%")[0] if ":" in name else name


def join_address(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_same_host(host: str, name: str) -> bool:
    """Return whether a certificate's DNS name is the host's: case does not count, `*.` stands for one whole label."""
    host, name = (text.lower().removesuffix(".") for text in (host, name))
    # As in C-core and grpc-java: a text with an empty label, as ".example.com", names no host (RFC 1034 §3.1).
    if "" in host.split("."):
        return False
    if not name.startswith("*."):
        return host == name
    label, _, domain = host.partition(".")
    return bool(label and domain) and domain == name[2:]


def is_ip(text: str) -> bool:
    """Return whether a host is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def canonical_ip(text: str) -> str:
    """Return an IP address in its shortest form, in lower case; any other text as it is."""
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return text
