"""Certificates with SPIFFE names, as a mesh gives them to its programs; trustme has none with a URI."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Certificates:
    """An authority, whose files have the names that Istio's agent gives them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "mesh")])
        self._root = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def write(self, name: str, folder: Path) -> None:
        """Write the root, and a certificate for `name` with its key, into that folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(name)])
        # RFC 5280: the names of a certificate without a subject are critical.
        leaf = self._builder(x509.Name([]), key).add_extension(names, critical=True).sign(self._key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        folder.mkdir(exist_ok=True)
        (folder / "root-cert.pem").write_bytes(self._root.public_bytes(pem))
        (folder / "cert-chain.pem").write_bytes(leaf.public_bytes(pem))
        plain = serialization.NoEncryption()
        (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))

    def server_context(self, name: str) -> ssl.SSLContext:
        """Return the context of a server of that name, which asks its clients for certificates."""
        folder = self._folder / name.rpartition("/")[2]
        self.write(name, folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert-chain.pem", folder / "key.pem")
        context.load_verify_locations(folder / "root-cert.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols(["h2"])
        return context
