"""Copies of streaming calls: messages are copied as they are sent, and what waits for a slow host has a bound."""

from __future__ import annotations

import trio
from support.mesh import METHOD, bidi
from support.mirroring import mirrored, settled, shadowed

from trxds import Mirroring, StatusCode


async def test_messages_are_copied_as_they_are_sent(autojump_clock):
    async with shadowed() as made, bidi(made.channel).open() as call:
        await call.send(b"milk")
        await settled()
        assert made.shadow.requests == [b"milk"]
        await call.send(b"eggs")
        await settled()
        assert made.shadow.requests == [b"milk", b"eggs"]
        call.done_sending()
        await settled()
        assert made.notes.results == ["completed"]


async def test_messages_that_are_sent_before_the_copy_has_a_host_are_copied_too(autojump_clock):
    async with shadowed() as made, bidi(made.channel).open(b"milk") as call:
        await call.send(b"eggs")
        call.done_sending()
        await settled()
        assert made.shadow.requests == [b"milk", b"eggs"]


async def test_the_replies_of_a_copy_are_dropped(autojump_clock):
    async with shadowed() as made, bidi(made.channel).open(b"milk") as call:
        call.done_sending()
        assert await call.receive() == f"{made.mesh.hosts[0]} milk".encode()
        assert await call.receive() is None
        await settled()
        assert made.notes.results == ["completed"]


async def test_a_method_with_one_reply_is_copied(autojump_clock):
    async with shadowed() as made:
        method = made.channel.method(METHOD, client_streaming=True)
        await method([b"milk"])
        await settled()
        assert (made.shadow.requests, made.notes.results) == ([b"milk"], ["completed"])


async def test_a_host_that_reads_nothing_ends_its_copy_at_max_bytes(autojump_clock):
    async def read_nothing(call):
        await trio.sleep_forever()

    async with shadowed(mirroring=Mirroring(max_bytes=200_000)) as made:
        made.shadow.handle_with = read_nothing
        async with bidi(made.channel).open() as call:
            for _ in range(20):
                await call.send(b"x" * 60_000)
                await call.receive()
            assert made.notes.results == ["too_large"]
            call.done_sending()
            assert await call.receive() is None


async def test_a_copy_that_ended_for_its_size_leaves_room_for_others(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_bytes=100)) as made:
        async with bidi(made.channel).open(b"x" * 101) as call:
            call.done_sending()
            await call.receive()
            await settled()
        async with bidi(made.channel).open(b"x" * 100) as call:
            call.done_sending()
            await settled()
        assert made.notes.results == ["too_large", "completed"]


async def test_a_copy_that_was_sent_leaves_its_room_to_others_and_no_more(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_bytes=100)) as made:
        for _ in range(3):
            async with bidi(made.channel).open(b"x" * 100) as call:
                await settled()
                await call.send(b"y" * 100)
                call.done_sending()
                await settled()
        async with bidi(made.channel).open(b"z" * 101):
            await settled()
        assert made.notes.results == ["completed"] * 3 + ["too_large"]


async def test_a_call_that_ends_before_its_request_is_complete_ends_its_copy(autojump_clock):
    async with shadowed() as made:
        async with bidi(made.channel).open(b"milk"):
            await settled()
        await settled()
        assert made.shadow.reset == [[b"milk"]]
        assert made.notes.results == ["call_ended"]


async def test_a_copy_of_a_complete_request_outlives_its_call(autojump_clock):
    async with shadowed() as made:
        made.shadow.seconds = 3
        async with bidi(made.channel).open(b"milk") as call:
            call.done_sending()
            call.cancel()
        await trio.sleep(4)
        assert made.notes.results == ["completed"]


async def test_a_host_that_ends_its_copy_early_does_not_disturb_the_call(autojump_clock):
    async def refuse(call):
        call.abort(StatusCode.PERMISSION_DENIED, "no copies here")

    async with shadowed() as made:
        made.shadow.handle_with = refuse
        async with bidi(made.channel).open(b"milk") as call:
            await settled()
            assert [each.status.code for each in made.notes.all] == [StatusCode.PERMISSION_DENIED]
            await call.send(b"eggs")
            call.done_sending()
            assert [await call.receive() for _ in range(2)][1] == f"{made.mesh.hosts[0]} eggs".encode()


async def test_messages_that_a_call_sends_after_the_end_of_its_copy_take_no_room(autojump_clock):
    async def refuse(call):
        call.abort(StatusCode.PERMISSION_DENIED, "no copies here")

    async with shadowed(mirroring=Mirroring(max_bytes=100)) as made:
        made.shadow.handle_with = refuse
        async with bidi(made.channel).open(b"milk") as call:
            await settled()
            await call.send(b"x" * 100)
            async with bidi(made.channel).open(b"y" * 100):
                await settled()
        assert made.notes.results == ["completed", "completed"]


async def test_messages_that_are_replayed_are_copied_once(autojump_clock):
    failures = [StatusCode.UNAVAILABLE]

    async def flaky(call):
        async for message in call:
            if failures:
                call.abort(failures.pop(), "try again")
            await call.send(message)

    async with shadowed(knobs={"handlers": {METHOD: flaky}}) as made:
        made.mesh.route(mirrored(retry_policy={"retry_on": "unavailable"}))
        async with bidi(made.channel).open(b"milk") as call:
            call.done_sending()
            assert await call.receive() == b"milk"
            await settled()
        assert (failures, made.shadow.requests) == ([], [b"milk"])


async def test_a_streaming_call_beyond_max_calls_has_no_copy(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_calls=1)) as made:
        async with bidi(made.channel).open(b"milk"), bidi(made.channel).open(b"eggs"):
            await settled()
        assert made.shadow.requests == [b"milk"]


async def test_compressed_messages_are_copied_as_they_are(autojump_clock):
    async with shadowed(compression="gzip") as made, bidi(made.channel).open(b"x" * 1000) as call:
        call.done_sending()
        await settled()
        assert made.shadow.requests == [b"x" * 1000]


async def test_a_long_stream_is_copied_whole_while_its_host_reads(autojump_clock):
    async with shadowed(mirroring=Mirroring(max_bytes=200_000)) as made:
        async with bidi(made.channel).open() as call:
            for _ in range(10):
                await call.send(b"x" * 60_000)
                await call.receive()
                await settled()
            call.done_sending()
            await settled()
        assert (len(made.shadow.requests), made.notes.results) == (10, ["completed"])
