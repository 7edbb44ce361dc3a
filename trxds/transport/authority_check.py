"""The check of an `:authority` that is not the channel's: with TLS the peer's certificate has to prove its host (A81).

The handshake has proved the channel's name alone. Whoever gives an RPC another name, a control plane say, must not
send it to a peer that has no right to that name.
"""

from __future__ import annotations

import ssl

import trio
from msgspec import Struct, field

from trxds.core.authority import canonical_ip, host_of, is_authority, is_ip, is_same_host
from trxds.core.status import Status, StatusCode, unavailable

from .certificates import ClientContext

_MAX_CACHED = 1024  # names; a caller may choose another one for each call
_MAX_SHOWN = 100  # characters of a name that errors show


class AuthorityCheck(Struct, eq=False):
    """The check for one connection to `peer`.

    Without TLS, or where the channel's credentials do not check host names, the peer need not prove a name.
    """

    _transport: trio.abc.Stream
    _peer: str
    _errors: dict[str, Status | None] = field(default_factory=dict)
    _names: list[tuple[str, str]] | None = None

    def error(self, authority: str) -> Status | None:
        """Return why the peer must not get an RPC for this authority; None if it may. Computed once for each."""
        errors = self._errors
        if authority in errors:
            return errors[authority]
        if len(errors) >= _MAX_CACHED:
            errors.clear()
        error = errors[authority] = self._find_error(authority)
        return error

    def _find_error(self, authority: str) -> Status | None:
        if not is_authority(authority):
            text = f"{self._peer}: the authority {authority[:_MAX_SHOWN]!r} is no host or host:port"
            return Status(StatusCode.INTERNAL, f"{text}; correct the endpoint's hostname")
        # A81: the credentials control the check. Those of xDS (A29), and contexts of the user's, may switch it off.
        if not isinstance(self._transport, trio.SSLStream) or not _checks_authority(self._transport.context):
            return None
        if self._names is None:
            try:
                self._names = list((self._transport.getpeercert() or {}).get("subjectAltName", ()))
            except UnicodeDecodeError:
                text = f"{self._peer}: a name in its certificate is no UTF-8, so it does not prove the authority"
                return unavailable(f"{text} {authority[:_MAX_SHOWN]!r}; the host needs a new certificate")
        host = host_of(authority)
        if any(_proves(kind, name, host) for kind, name in self._names):
            return None
        shown = ", ".join(name for _, name in self._names)[: 3 * _MAX_SHOWN] or "none"
        text = f"{self._peer}: its certificate does not prove the authority {authority[:_MAX_SHOWN]!r}"
        remedy = "correct the call's authority or the endpoint's hostname, or add the name to the certificate"
        return unavailable(f"{text}, only {shown}; {remedy}")


def _checks_authority(context: ssl.SSLContext) -> bool:
    return context.check_hostname or (isinstance(context, ClientContext) and context.checks_authority)


def _proves(kind: str, name: str, host: str) -> bool:
    # Only subjectAltName counts, never the common name, as in the other clients.
    match kind:
        case "DNS":
            # RFC 6125 §1.7.2: an address is no DNS name.
            return is_same_host(host, name) and not is_ip(host) and not _is_too_wide(name)
        case "IP Address":
            return canonical_ip(name) == canonical_ip(host)
    return False


def _is_too_wide(name: str) -> bool:
    """Return whether a name is like "*.com", which would prove the hosts of every company; OpenSSL refuses it too."""
    return name.startswith("*.") and "." not in name[2:].rstrip(".")
