"""Random SPIFFE bundle maps in the place of roots, and hosts with certificates for them (A87).

Not drawn is what `docs/grfc-map.md` says of other clients: certificates that may sign others, and documents that only
some refuse.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, ClassVar

from .pki import Leaf, bundle, bundle_map
from .random_certificates import Certificates

_GOOD = (
    *("spiffe://a.example/cart", "spiffe://b.example/shop", "spiffe://a.example"),
    *("SPIFFE://b.example/ns/Default/x_y-z", "spiffe://c.example/cart"),
)
_BAD = (
    *("spiffe://A.example/cart", "spiffe://a.example/", "spiffe://a.example//cart", "spiffe://a.example/../cart"),
    *("spiffe://a.example/c%61rt", "spiffe://a.example/cart?x", "spiffe:///cart", "https://a.example/cart"),
)
_MISTAKES: tuple[dict[str, Any], ...] = ({"use": "jwt-svid"}, {"kty": "oct"}, {"x5c": ["AA=="]}, {"x5c": ["no base64"]})


class BundleMaps(Certificates):
    """Each authority is one of a trust domain, and now and then of another one too."""

    environ: ClassVar[dict[str, str]] = {"GRPC_EXPERIMENTAL_XDS_MTLS_SPIFFE": "true"}

    def __init__(self, folder: Path, draw: Random) -> None:
        super().__init__(folder)
        for roots in ("a", "b", "ab"):
            may_be_wrong = roots != "ab"  # or there might be no host to accept
            domains = {f"{name}.example": self._bundle(draw, name, may_be_wrong) for name in roots}
            document = bundle_map(domains)
            is_cut = may_be_wrong and draw.random() < 0.1
            (folder / f"{roots}.json").write_bytes(document[:-1] if is_cut else document)

    def _bundle(self, draw: Random, name: str, may_be_wrong: bool) -> dict[str, Any]:
        trusted = draw.choice([[name], [name], ["a", "b"], []] if may_be_wrong else [[name], ["a", "b"]])
        made = bundle(*(self.roots[each] for each in trusted))
        for each in made["keys"] if may_be_wrong else ():
            each |= draw.choice(_MISTAKES) if draw.random() < 0.1 else {}
        return made

    def providers(self) -> dict[str, Any]:
        """Of each map with each identity; the CA certificates beside it do not count."""
        made = super().providers()
        for each in made.values():
            roots = Path(each["config"]["ca_certificate_file"])
            for name in ("spiffe_trust_bundle_map_file", "spiffe_bundle_map_file"):  # grpcio 1.85 has the second one
                each["config"][name] = str(roots.with_suffix(".json"))
        return made

    def leaf(self, draw: Random) -> Leaf:
        # Its subject has a name, without which grpc-java accepts none.
        ids = draw.choice([[draw.choice(_GOOD)]] * 6 + [[draw.choice(_BAD)], [], draw.sample(_GOOD, 2)])
        issuer = self.issuers[draw.choice(["a", "a", "below a", "b", "b"])]
        return issuer.issue(*ids, names=draw.choice([[], ["cart.example"]]), common_name="cart.example")
