"""Call credentials are sent with each attempt, over TLS only; their failures have statuses of A54."""

import ssl

import pytest
import trio
import trustme
from support.cancelling import wait_and_fail_when_cancelled
from support.mesh import Mesh, method
from support.method_config import configured, for_all

import trxds
from trxds import AuthContext, CallCredentials, RpcError, StatusCode
from trxds.core.status import Status
from trxds.testing import resources as xds

PATH = "/shop.Cart/Who"
RETRY = {
    "maxAttempts": 3,
    "initialBackoff": "10s",
    "maxBackoff": "10s",
    "backoffMultiplier": 1,
    "retryableStatusCodes": ["UNAUTHENTICATED"],
}
HEDGING = {"maxAttempts": 3, "hedgingDelay": "10s", "nonFatalStatusCodes": ["UNAUTHENTICATED"]}


class Token:
    """Returns another token each time, and records the calls."""

    def __init__(self, name="token"):
        self.name = name
        self.contexts = []

    def __call__(self, context):
        self.contexts.append(context)
        return [("authorization", f"{self.name} {len(self.contexts)}")]


class Who:
    """Fails the first calls, and records the credentials of each."""

    def __init__(self, fail=0):
        self.left = fail
        self.shown = []

    async def __call__(self, call):
        self.shown.append(call.metadata.all("authorization"))
        if self.left:
            self.left -= 1
            call.abort(StatusCode.UNAVAILABLE)
        async for message in call:
            await call.send(message)


def serving(mesh, handler):
    for server in mesh.servers.values():
        server.handlers[PATH] = handler
    return handler


def raising(error):
    def raises(context):
        raise error

    return CallCredentials(raises, allow_insecure=True)


async def failure(channel, credentials, **more):
    with pytest.raises(RpcError) as caught:
        await method(channel, PATH)(b"", credentials=credentials, **more)
    return caught.value.status


async def test_call_credentials_of_a_synchronous_function_get_the_call_and_return_its_metadata(autojump_clock):
    token = Token()
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        who = serving(mesh, Who())
        await method(channel, PATH)(b"", credentials=CallCredentials(token, allow_insecure=True))
        assert who.shown == [["token 1"]]
        assert token.contexts == [AuthContext("https://shop/shop.Cart", "Who")]


async def test_the_token_of_a_call_with_an_authority_of_its_own_is_for_that_authority(autojump_clock):
    token = Token()
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        serving(mesh, Who())
        shown = CallCredentials(token, allow_insecure=True)
        await method(channel, PATH)(b"", credentials=shown, authority="bank.example:443")
        assert token.contexts == [AuthContext("https://bank.example/shop.Cart", "Who")]


async def test_call_credentials_of_an_async_function_may_wait_until_the_calls_deadline(autojump_clock):
    async def slow(context):
        await trio.sleep(5)
        return [("authorization", "late")]

    credentials = CallCredentials(slow, allow_insecure=True)
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        who = serving(mesh, Who())
        await method(channel, PATH)(b"", credentials=credentials, timeout=6)
        assert who.shown == [["late"]]
        status = await failure(channel, credentials, timeout=2)
        assert status.code is StatusCode.DEADLINE_EXCEEDED and "waiting for its call credentials" in status.message


async def test_call_credentials_of_channel_and_call_are_both_sent(autojump_clock):
    shown = CallCredentials(Token("channel"), allow_insecure=True)
    async with Mesh.run(1) as mesh, mesh.channel(call_credentials=shown) as channel:
        who = serving(mesh, Who())
        await method(channel, PATH)(b"")
        await method(channel, PATH)(b"", credentials=CallCredentials(Token("call"), allow_insecure=True))
        assert who.shown == [["channel 1"], ["channel 2", "call 1"]]


async def test_call_credentials_are_asked_for_each_attempt(autojump_clock):
    entry = xds.route("cart")
    entry["route"]["retry_policy"] = {"retry_on": "unavailable", "num_retries": 2}
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.routes("routes", entry))
        async with mesh.channel() as channel:
            who = serving(mesh, Who(fail=2))
            await method(channel, PATH)(b"", credentials=CallCredentials(Token(), allow_insecure=True))
            assert who.shown == [["token 1"], ["token 2"], ["token 3"]]


async def test_call_credentials_without_tls_are_not_sent_and_the_call_is_unauthenticated(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        who = serving(mesh, Who())
        status = await failure(channel, CallCredentials(Token()))
        assert status.code is StatusCode.UNAUTHENTICATED
        assert status.message == (
            "10.0.1.1:50051: call credentials are sent over TLS only; open the channel with credentials=trxds.tls()"
        )
        assert who.shown == []


@pytest.mark.parametrize("policy", [{"retryPolicy": RETRY}, {"hedgingPolicy": HEDGING}])
async def test_a_call_whose_credentials_may_not_be_sent_makes_no_other_attempt(policy, monkeypatch, autojump_clock):
    # Each attempt would ask for a token, and none of them could send it.
    token = Token()
    async with Mesh.run(1) as mesh, configured(monkeypatch, mesh, for_all(**policy)) as channel:
        await method(channel, PATH)(b"")
        began = trio.current_time()
        status = await failure(channel, CallCredentials(token))
        assert status.code is StatusCode.UNAUTHENTICATED
        assert (len(token.contexts), trio.current_time()) == (1, began)


async def test_call_credentials_are_sent_over_tls(autojump_clock):
    ca = trustme.CA()
    context, at_the_server = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.configure_trust(context)
    ca.issue_cert("shop").configure_cert(at_the_server)
    at_the_server.set_alpn_protocols(["h2"])
    async with Mesh.run(0) as mesh:
        mesh.endpoints("cart", [await mesh.add_host(tls=at_the_server)])
        async with mesh.channel(credentials=trxds.tls(context)) as channel:
            who = serving(mesh, Who())
            await method(channel, PATH)(b"", credentials=CallCredentials(Token()))
            assert who.shown == [["token 1"]]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: RpcError(Status(StatusCode.UNAUTHENTICATED, "who are you?")), StatusCode.UNAUTHENTICATED),
        (lambda: RpcError(Status(StatusCode.NOT_FOUND, "no token")), StatusCode.INTERNAL),
        (lambda: OSError("no such file"), StatusCode.UNAVAILABLE),
    ],
)
async def test_call_credentials_that_raise_set_the_status_unless_it_is_server_only(make, code, autojump_clock):
    error = make()
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        who = serving(mesh, Who())
        status = await failure(channel, raising(error))
        assert status.code is code
        assert str(error) in status.message or status == error.status
        assert who.shown == []


async def test_call_credentials_that_raise_in_a_nursery_are_unavailable_with_the_error_itself(autojump_clock):
    async def refuse():
        raise ConnectionRefusedError("no token today")

    async def ask_in_a_nursery(context):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse)

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        status = await failure(channel, CallCredentials(ask_in_a_nursery, allow_insecure=True))
        text = f"{PATH}: the call credentials raised ConnectionRefusedError: no token today"
        assert status == Status(StatusCode.UNAVAILABLE, text)


async def test_call_credentials_whose_cleanup_fails_leave_the_calls_own_error(autojump_clock, caplog):
    credentials = CallCredentials(lambda context: wait_and_fail_when_cancelled(), allow_insecure=True)
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        status = await failure(channel, credentials, timeout=2)
    assert status.code is StatusCode.DEADLINE_EXCEEDED
    assert f"call credentials for {PATH} raised while they were cancelled" in caplog.text


async def test_call_credentials_with_invalid_metadata_make_the_call_unavailable(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        bad = CallCredentials(lambda context: [("authorization", "ü")], allow_insecure=True)
        status = await failure(channel, bad)
        assert (
            status.code is StatusCode.UNAVAILABLE
            and "has a character that is not ASCII at position 0" in status.message
        )


async def test_a_channel_that_closes_ends_the_wait_for_call_credentials(nursery, autojump_clock):
    async def never(context):
        await trio.sleep_forever()

    statuses = []

    async def call(channel):
        statuses.append(await failure(channel, CallCredentials(never, allow_insecure=True)))

    async with Mesh.run(1) as mesh:
        async with mesh.channel() as channel:
            nursery.start_soon(call, channel)
            await trio.sleep(1)
        await trio.sleep(1)
        assert statuses == [Status(StatusCode.CANCELLED, "channel closed")]


@pytest.mark.parametrize("token", ["secret", None])
def test_call_credentials_of_a_token_are_refused_and_the_token_is_not_shown(token):
    with pytest.raises(TypeError, match="metadata of CallCredentials is a function that returns pairs, not") as refused:
        CallCredentials(token)
    assert "secret" not in str(refused.value)
