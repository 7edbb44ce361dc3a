"""What a mirrored call has of its call's metadata: neither credentials nor cookies, and an authority of its own."""

import contextvars

import pytest
from support.mesh import ask
from support.mirroring import settled, shadowed
from support.pki import Authority
from support.sessions import in_header, listen, session_filter

import trxds
from trxds import CallCredentials, Mirroring, RpcError


async def test_a_copy_has_no_credentials_cookies_and_session_headers(autojump_clock):
    token = CallCredentials(lambda context: [("authorization", "Bearer t"), ("x-token", "t")], allow_insecure=True)
    async with shadowed(call_credentials=token, sessions=True) as made:
        async with made.channel.session() as session:
            await ask(session)
            pairs = [("authorization", "Basic s"), ("cookie", "own=1"), ("user", "amy")]
            await ask(session, metadata=pairs)
        await settled()
        assert made.shadow.metadata.keys().isdisjoint({"authorization", "x-token", "cookie"})
        assert made.shadow.metadata["user"] == "amy"


async def test_the_program_may_send_credentials_with_copies(autojump_clock):
    token = CallCredentials(lambda context: [("x-token", "t")], allow_insecure=True)
    mirroring = Mirroring(credentials=True)
    async with shadowed(call_credentials=token, mirroring=mirroring) as made:
        await ask(made.channel, metadata=[("authorization", "Basic s"), ("cookie", "own=1")])
        await settled()
        assert (made.shadow.metadata["authorization"], made.shadow.metadata["x-token"]) == ("Basic s", "t")
        assert "cookie" not in made.shadow.metadata


async def test_credentials_of_a_copy_need_tls_too(autojump_clock):
    token = CallCredentials(lambda context: [("x-token", "t")])
    async with shadowed(mirroring=Mirroring(credentials=True)) as made:
        with pytest.raises(RpcError):
            await ask(made.channel, credentials=token)
        await settled()
        assert not made.shadow.calls


async def test_the_program_may_send_cookies_with_copies(autojump_clock):
    async with shadowed(mirroring=Mirroring(cookies=True), sessions=True) as made:
        async with made.channel.session() as session:
            await ask(session)
            await ask(session)
        await settled()
        assert made.shadow.metadata["cookie"].startswith("session=")


async def test_a_session_header_is_not_copied(autojump_clock):
    async with shadowed() as made:
        listen(made.mesh, session_filter(state=in_header("x-session")))
        async with made.channel.session() as session:
            await ask(session)
            await ask(session, metadata=[("user", "amy")])
            await settled()
            assert session.hosts
        assert len(made.shadow.calls) == 2
        assert "x-session" not in made.shadow.metadata
        assert made.shadow.metadata["user"] == "amy"


async def test_a_session_header_of_a_filter_that_is_gone_is_not_copied(autojump_clock):
    async with shadowed() as made:
        listen(made.mesh, session_filter(state=in_header("x-session")))
        async with made.channel.session() as session:
            await ask(session)
            listen(made.mesh)
            await settled()
            await ask(session)
            await settled()
        assert len(made.shadow.calls) == 2
        assert "x-session" not in made.shadow.metadata


async def test_the_authority_of_a_copy_ends_with_shadow(autojump_clock):
    async with shadowed(authority="shop.example:8080") as made:
        await ask(made.channel)
        await settled()
        assert made.shadow.calls[0].authority == "shop.example-shadow:8080"


@pytest.mark.parametrize(
    ("fields", "authority"),
    [
        ({}, "shop-shadow"),
        ({"disable_shadow_host_suffix_append": True}, "shop"),
        ({"host_rewrite_literal": "canary.example"}, "canary.example"),
    ],
)
async def test_a_policy_decides_on_the_authority(autojump_clock, fields, authority):
    async with shadowed({"cluster": "shadow", **fields}) as made:
        await ask(made.channel)
        await settled()
        assert made.shadow.calls[0].authority == authority


async def test_a_name_that_a_policy_gives_has_to_be_proved_by_the_host(autojump_clock, tmp_path):
    root = Authority()
    tls = root.issue(names=["shop", "canary.example"]).server_context(tmp_path)
    policies = [{"cluster": "cart", "host_rewrite_literal": name} for name in ("canary.example", "bank.example")]
    options = {"knobs": {"tls": tls}, "credentials": trxds.tls(roots=root.pem)}
    async with shadowed(*policies, **options) as made:
        await ask(made.channel)
        await settled()
        assert sorted(made.notes.results) == ["completed", "completed"]
        refused, accepted = sorted((each.status for each in made.notes.all), key=lambda status: status.ok)
        assert accepted.ok and "does not prove the authority 'bank.example'" in refused.message
        seen = [call.authority for call in made.mesh.servers[made.mesh.hosts[0]].calls]
        assert sorted(seen) == ["canary.example", "shop"]


async def test_the_token_of_a_copy_is_for_the_channels_name_whatever_a_policy_says(autojump_clock):
    asked = []

    async def token(context):
        asked.append(context.service_url)
        return []

    policy = {"cluster": "shadow", "host_rewrite_literal": "canary.example"}
    options = {
        "mirroring": Mirroring(credentials=True),
        "call_credentials": CallCredentials(token, allow_insecure=True),
    }
    async with shadowed(policy, **options) as made:
        await ask(made.channel)
        await settled()
        assert made.shadow.calls[0].authority == "canary.example"
        assert len(asked) == 2 and len(set(asked)) == 1


async def test_a_copy_has_not_the_context_of_its_call(autojump_clock):
    span = contextvars.ContextVar("span", default="none")
    seen = []

    def give(context):
        seen.append(span.get())
        return []

    token = CallCredentials(give, allow_insecure=True)
    async with shadowed(mirroring=Mirroring(credentials=True), call_credentials=token) as made:
        span.set("of the call")
        await ask(made.channel)
        await settled()
    assert seen == ["of the call", "none"]
