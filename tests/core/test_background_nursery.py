"""A background nursery's tasks end with its block, whose exception comes out as it is."""

from __future__ import annotations

import pytest
import trio

from trxds.core.background_nursery import open_background_nursery


async def test_tasks_end_when_the_block_is_left(autojump_clock):
    async with open_background_nursery("the block is left") as nursery:
        nursery.start_soon(trio.sleep_forever)


async def test_an_exception_of_the_block_comes_out_of_no_group(autojump_clock):
    raised = ValueError("of the block")
    with pytest.raises(ValueError, match="of the block") as caught:
        async with open_background_nursery("the block is left") as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise raised
    assert caught.value is raised


async def test_a_block_that_is_cancelled_ends_its_tasks(autojump_clock):
    with trio.move_on_after(1) as scope:
        async with open_background_nursery("the block is left") as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()
    assert scope.cancelled_caught
