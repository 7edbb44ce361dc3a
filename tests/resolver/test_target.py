"""What a target without a control plane means (doc/naming.md)."""

from __future__ import annotations

import pytest

from trxds.resolver.target_uri import NonXdsTarget, parse_non_xds_target


@pytest.mark.parametrize(
    ("text", "authority", "name"),
    [
        ("dns:///cart.example:8080", "cart.example:8080", "cart.example:8080"),
        ("dns:cart.example:8080", "cart.example:8080", "cart.example:8080"),
        ("DNS:///cart.example", "cart.example", "cart.example:443"),
        ("cart.example:8080", "cart.example:8080", "cart.example:8080"),
        ("cart.example", "cart.example", "cart.example:443"),
        ("localhost", "localhost", "localhost:443"),
        ("10.0.0.1:80", "10.0.0.1:80", "10.0.0.1:80"),
        ("[::1]:80", "[::1]:80", "[::1]:80"),
        ("dns:///[::1]", "[::1]", "[::1]:443"),
        ("dns:///::1", "[::1]", "[::1]:443"),
        ("dns:///[fe80::1%25eth0]:80", "[fe80::1%25eth0]:80", "[fe80::1%eth0]:80"),
    ],
)
def test_a_target_without_a_scheme_is_a_dns_name(text: str, authority: str, name: str) -> None:
    assert parse_non_xds_target(text) == NonXdsTarget(text, authority, name=name)


@pytest.mark.parametrize(
    ("text", "authority", "addresses"),
    [
        ("ipv4:1.2.3.4:80", "1.2.3.4:80", ["1.2.3.4:80"]),
        ("ipv4:///1.2.3.4:80", "1.2.3.4:80", ["1.2.3.4:80"]),
        ("ipv4:1.2.3.4", "1.2.3.4", ["1.2.3.4:443"]),
        ("ipv4:1.2.3.4:80,5.6.7.8:90", "1.2.3.4:80", ["1.2.3.4:80", "5.6.7.8:90"]),
        ("ipv6:[::1]:80", "[::1]:80", ["[::1]:80"]),
        ("ipv6:%5B::1%5D:80", "[::1]:80", ["[::1]:80"]),
        ("ipv6:2001:db8::1", "[2001:db8::1]", ["[2001:db8::1]:443"]),
        ("ipv6:[::1]:80,[::2]", "[::1]:80", ["[::1]:80", "[::2]:443"]),
        ("ipv6:[fe80::1%25eth0]:80", "[fe80::1%25eth0]:80", ["[fe80::1%eth0]:80"]),
        ("ipv6:[fe80::1%eth0]:80", "[fe80::1%25eth0]:80", ["[fe80::1%eth0]:80"]),
        ("unix:run/cart", "localhost", ["unix:run/cart"]),
        ("unix:/run/cart", "localhost", ["unix:/run/cart"]),
        ("unix:///run/cart", "localhost", ["unix:/run/cart"]),
        ("unix:///run/my%20cart", "localhost", ["unix:/run/my cart"]),
        ("unix-abstract:cart", "localhost", ["unix-abstract:cart"]),
        ("unix-abstract:/cart", "localhost", ["unix-abstract:/cart"]),
        ("unix-abstract:///cart", "localhost", ["unix-abstract:/cart"]),
    ],
)
def test_known_addresses_have_the_authority_of_the_first_and_sockets_are_localhost(
    text: str, authority: str, addresses: list[str]
) -> None:
    assert parse_non_xds_target(text) == NonXdsTarget(text, authority, tuple(addresses))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' has no host name"),
        ("dns:///", "'' has no host name"),
        (":80", "':80' has no host name"),
        ("dns:////cart", "'/cart' has no host name"),
        ("///cart", "'///cart' has no host name"),
        ("dns:///a/b", "'a/b' has no host name"),
        (
            "10.0.0.1:50051,10.0.0.2:50051",
            "for a list of addresses write ipv4:A,B",
        ),
        ("dns:///cart,shop", "'cart,shop' is a list"),
        ("cart:80:81", "'cart:80:81' has colons and is no IPv6 address; write dns:///HOST:PORT"),
        ("dns:///[cart::1]:80", "'cart::1' has colons and is no IPv6 address"),
        ("cart\x00", "has no host name"),
        ("ca\x7frt:80", "has no host name"),
        ("ca rt:80", "has no host name"),
        ("dns://8.8.8.8/cart", "'8.8.8.8' is not allowed there; the platform's resolver is asked"),
        ("cart:http", "'http' is no port; write a number"),
        ("cart:", "'' is no port"),
        ("cart:0", "'0' is no port"),
        ("cart:65536", "'65536' is no port"),
        ("cart:٣", "is no port"),
        ("[::1:80", "a bracket too few or too many"),
        ("[::1]80", "a bracket too few or too many"),
        ("dns:///[cart]:443", "'[cart]:443' has brackets, which only an IPv6 address may have; write HOST:PORT"),
        ("ipv4:[1.2.3.4]:80", "has brackets, which only an IPv6 address may have"),
        ("ipv4:cart:80", "'cart' is no address of this kind; write for example ipv4:1.2.3.4:80"),
        ("ipv4:[::1]:80", "'::1' is no address of this kind"),
        ("ipv4:1.2.3.4:80,", "'' is no address of this kind"),
        ("ipv4://1.2.3.4:80", "an address has no authority before it; write ipv4:1.2.3.4:80"),
        ("ipv6:1.2.3.4:80", "'1.2.3.4' is no address of this kind; write for example ipv6:[::1]:80"),
        ("unix:", "no path; write unix:///PATH"),
        ("unix://run/cart", "write unix:///PATH, or unix:PATH"),
        ("unix:cart%00", "a socket's path or name has no NUL; leave %00 out"),
        ("unix:%00cart", "a socket's path or name has no NUL; leave %00 out"),
        ("unix-abstract:", "no name; write unix-abstract:NAME"),
        ("unix-abstract://run/cart", "a name after // begins with a slash; write unix-abstract:NAME"),
        ("unix-abstract:cart%00", "a socket's path or name has no NUL; leave %00 out"),
        ("https://cart", "unknown scheme 'https'; trxds knows xds, dns, ipv4, ipv6, unix, unix-abstract"),
        ("https://cart", "; a target is no URL: write host:port"),
        ("xdss:///cart", "unknown scheme 'xdss'"),
    ],
)
def test_the_error_of_an_invalid_target_says_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_non_xds_target(text)
    assert str(caught.value).startswith(f"target {text!r}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["dns:///a\ud800:1", "ipv4:\ud800:1", "a\ud800:1", "unix:/a\ud800", "xds:///a\ud800"])
def test_half_of_a_surrogate_pair_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="has half of a surrogate pair; write whole characters"):
        parse_non_xds_target(text)


def test_an_xds_target_is_not_parsed_as_one_without_a_control_plane() -> None:
    assert parse_non_xds_target("xds:///cart") is None
    assert parse_non_xds_target("XDS:cart") is None


def test_a_target_that_is_no_text_says_what_to_write() -> None:
    with pytest.raises(TypeError, match="such as dns:///host:port"):
        parse_non_xds_target(b"cart")  # type: ignore[arg-type]  # as a caller without types may
