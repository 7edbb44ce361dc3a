"""UpstreamTlsContext: the TLS of connections to a cluster's endpoints (A29, A82, A101).

A field is rejected, not ignored, if connections without it were less safe than the control plane means.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from trxds.core.authority import host_of

from .matchers import TextMatch, parse_string_matcher
from .validation_errors import ValidationErrors

if TYPE_CHECKING:
    from .context import ParseContext

_MAX_SNI_LENGTH = 255


class UpstreamTls(Struct, frozen=True):
    """The TLS configuration. `roots` and `identity` are names of certificate providers in the bootstrap.

    Without `roots` the system's are used (A82). Without `identity` the client shows no certificate. The peer's must
    have one of `names`, if there are any; with `sni_is_name` it must have the `sni` instead, if there is one. With
    `auto_sni` an endpoint's own host name goes before `sni` (A101).
    """

    roots: str = ""
    identity: str = ""
    names: tuple[TextMatch, ...] = ()
    sni: str = ""
    auto_sni: bool = False
    sni_is_name: bool = False

    def for_host(self, hostname: str) -> UpstreamTls:
        """Return the configuration for the endpoint of that name, which may be empty or have a port."""
        if not self.auto_sni:
            return self
        # A101: the host's name may have a port, which belongs in :authority (A81) and not in an SNI.
        return structs.replace(self, sni=host_of(hostname) or self.sni, auto_sni=False)


def parse_upstream_tls(message: Any, context: ParseContext, problems: ValidationErrors) -> UpstreamTls:
    """Parse an UpstreamTlsContext; `problems` is at it."""
    if len(message.sni) > _MAX_SNI_LENGTH:
        problems.at("sni").add(f"longer than {_MAX_SNI_LENGTH} characters")
    at = problems.at("common_tls_context")
    common = message.common_tls_context
    _refuse(common, ("tls_params", "custom_handshaker", "validation_context_sds_secret_config"), at)
    validation, below = _validation_context(common, at)
    return UpstreamTls(
        _roots(validation, common, context, at, below),
        _identity(common, context, at),
        _names(validation, below),
        message.sni,
        message.auto_host_sni,
        message.auto_sni_san_validation,
    )


def _refuse(message: Any, fields: Iterable[str], problems: ValidationErrors) -> None:
    """Reject these fields: to ignore them would compromise security (A29)."""
    present = {field.name for field, _ in message.ListFields()}
    for name in fields:
        if name in present:
            problems.at(name).add("feature unsupported")


def _validation_context(common: Any, problems: ValidationErrors) -> tuple[Any, ValidationErrors]:
    if common.HasField("combined_validation_context"):
        at = problems.at("combined_validation_context.default_validation_context")
        return common.combined_validation_context.default_validation_context, at
    return common.validation_context, problems.at("validation_context")


def _roots(
    validation: Any, common: Any, context: ParseContext, problems: ValidationErrors, at: ValidationErrors
) -> str:
    """Return the provider of the roots. Older control planes put its name in fields beside the present one."""
    older = "validation_context_certificate_provider_instance"
    combined = common.combined_validation_context
    if validation.HasField("ca_certificate_provider_instance"):
        return _provider(validation, "ca_certificate_provider_instance", context, at)
    if combined.HasField(older):
        return _provider(combined, older, context, problems.at("combined_validation_context"))
    if common.HasField(older):
        return _provider(common, older, context, problems)
    # A82: used only if no provider is named. Without either, certificates could not be verified.
    if not validation.HasField("system_root_certs"):
        problems.add("no CA certificate provider instance configured")
    return ""


def _identity(common: Any, context: ParseContext, problems: ValidationErrors) -> str:
    for field in ("tls_certificate_provider_instance", "tls_certificate_certificate_provider_instance"):
        if common.HasField(field):
            return _provider(common, field, context, problems)
    # A29: certificates in another form are rejected only if no provider is named; otherwise they are ignored.
    _refuse(common, ("tls_certificates", "tls_certificate_sds_secret_configs"), problems)
    return ""


def _provider(parent: Any, field: str, context: ParseContext, problems: ValidationErrors) -> str:
    name = str(getattr(parent, field).instance_name)
    # A29: rejected here, where the control plane gets a NACK, and not by a failed handshake of each client.
    if name not in context.certificate_providers:
        at = problems.at(field).at("instance_name")
        at.add(f"unrecognized certificate provider instance name: {name}")
    return name


def _names(validation: Any, problems: ValidationErrors) -> tuple[TextMatch, ...]:
    fields = ["verify_certificate_spki", "verify_certificate_hash", "crl", "custom_validator_config"]
    if validation.require_signed_certificate_timestamp.value:  # false asks for nothing
        fields.append("require_signed_certificate_timestamp")
    # The last field is newer than A29; to ignore it would accept peers that it excludes.
    _refuse(validation, [*fields, "match_typed_subject_alt_names"], problems)
    found: list[TextMatch] = []
    for index, each in enumerate(validation.match_subject_alt_names):
        at = problems.at(f"match_subject_alt_names[{index}]")
        if each.WhichOneof("match_pattern") == "safe_regex" and each.ignore_case:
            at.at("ignore_case").add("not supported for regex matcher")
        matcher = parse_string_matcher(each, at)
        if matcher is not None:
            found.append(matcher)
    return tuple(found)
