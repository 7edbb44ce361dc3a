"""Certificate authorities that make SPIFFE certificates and revocation lists; trustme makes neither."""

from __future__ import annotations

import base64
import datetime
import json
import ssl
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)
# In DER: the DNS names "shop" and one that is no UTF-8.
NO_TEXT = b"\x30\x0a\x82\x04shop\x82\x02\xff\xfe"

PEM, DER = serialization.Encoding.PEM, serialization.Encoding.DER


class Leaf:
    """A certificate, its issuers below the root, and its key."""

    def __init__(self, chain: list[x509.Certificate], key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = chain[0]
        self.der = chain[0].public_bytes(DER)
        self.chain_pem = b"".join(each.public_bytes(PEM) for each in chain)
        self.key_pem = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())

    def write(self, folder: Path) -> tuple[str, str]:
        """Write both files; return their paths."""
        paths = folder / f"{self.certificate.serial_number}.pem", folder / f"{self.certificate.serial_number}-key.pem"
        paths[0].write_bytes(self.chain_pem)
        paths[1].write_bytes(self.key_pem)
        return str(paths[0]), str(paths[1])

    def server_context(self, folder: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.write(folder))
        context.set_alpn_protocols(["h2"])
        return context


class Authority:
    """A certificate authority: a root, or below another one."""

    def __init__(self, name: str = "ca", parent: Authority | None = None, signs_crls: bool = True) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._parent = parent
        issuer = parent or self
        usage = _usage(key_cert_sign=True, crl_sign=signs_crls)
        self.certificate = (
            issuer._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(issuer._key, hashes.SHA256())
        )
        self.der = self.certificate.public_bytes(DER)
        self.pem = self.certificate.public_bytes(PEM)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: datetime.timedelta = DAY
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        own = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + lasts)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        )

    def issue(
        self,
        *uris: str,
        names: Iterable[str] = (),
        signs: bool = False,
        is_ca: bool = False,
        raw_names: bytes = b"",
        common_name: str = "",
        more: Iterable[x509.GeneralName] = (),
        lasts: datetime.timedelta = DAY,
        purposes: Iterable[x509.ObjectIdentifier] = (),
    ) -> Leaf:
        """Issue a certificate with these URI, DNS and other names, or with subjectAltName as it is given in DER.

        With `signs` its key usage is that of an authority, and with `is_ca` its basic constraints are. `purposes` are
        its extended key usage. It has been valid for a day.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        every = [*map(x509.UniformResourceIdentifier, uris), *map(x509.DNSName, names), *more]
        common_names = [x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)] if common_name else []
        builder = self._builder(x509.Name(common_names), key, lasts)
        if purposes := tuple(purposes):
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if every:
            builder = builder.add_extension(x509.SubjectAlternativeName(every), critical=True)
        if raw_names:
            unparsed = x509.UnrecognizedExtension(x509.ExtensionOID.SUBJECT_ALTERNATIVE_NAME, raw_names)
            builder = builder.add_extension(unparsed, critical=True)
        if signs:
            builder = builder.add_extension(_usage(key_cert_sign=True, digital_signature=True), critical=True)
        if is_ca:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        issuers = [] if self._parent is None else [self.certificate]
        return Leaf([builder.sign(self._key, hashes.SHA256()), *issuers], key)

    def crl(
        self,
        *revoked: Leaf | Authority,
        age: datetime.timedelta = datetime.timedelta(hours=1),
        lasts: datetime.timedelta = DAY,
        signed_by: Authority | None = None,
        is_delta: bool = False,
    ) -> x509.CertificateRevocationList:
        """Return the list of this issuer that was made `age` ago."""
        made = datetime.datetime.now(datetime.UTC) - age
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._name)
        builder = builder.last_update(made).next_update(made + lasts)
        key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(key_id, critical=False)
        if is_delta:
            builder = builder.add_extension(x509.DeltaCRLIndicator(1), critical=True)
        for leaf in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(leaf.certificate.serial_number).revocation_date(made)
            builder = builder.add_revoked_certificate(entry.build())
        return builder.sign((signed_by or self)._key, hashes.SHA256())

    def crl_pem(self, *revoked: Leaf | Authority, **options) -> bytes:
        return self.crl(*revoked, **options).public_bytes(PEM)


def _usage(**given: bool) -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    names += ("key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: given.get(name, False) for name in names})


def bundle(*authorities: Authority, **more) -> dict:
    """Return the bundle of one trust domain."""
    keys = [
        {"kty": "EC", "use": "x509-svid", "x5c": [base64.b64encode(each.der).decode("ascii")]} for each in authorities
    ]
    return {"spiffe_sequence": 1, "keys": keys, **more}


def bundle_map(domains: dict[str, dict]) -> bytes:
    return json.dumps({"trust_domains": domains}).encode()
