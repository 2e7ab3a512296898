"""The adaptive limiter: order of waiters, rejections and pauses."""

import asyncio
import random
from collections import deque

import pytest

from auepora_eval.judge.limits import SUCCESSES_PER_INCREASE, AdaptiveLimiter
from helpers.virtual_time import run_virtually


def test_limit_holds_and_waiters_are_served_in_order() -> None:
    async def scene() -> None:
        places, came = AdaptiveLimiter(3), list[int]()

        async def visit(number: int) -> None:
            await places.acquire()
            came.append(number)
            assert places.in_flight <= 3
            await asyncio.sleep(random.Random(number).random())
            places.release()

        await asyncio.gather(*(visit(number) for number in range(50)))
        assert came == list(range(50))
        assert places.in_flight == 0

    run_virtually(scene())


def test_limit_after_successes_and_rejections() -> None:
    async def scene() -> list[int]:
        places, limits = AdaptiveLimiter(4), list[int]()
        for sign in (
            "r" + "r" + "a" * SUCCESSES_PER_INCREASE + "r" + "a" * (2 * SUCCESSES_PER_INCREASE) + "a" * 60 + "rrrrrr"
        ):
            if sign == "a":
                places.record_success(0.0)
            else:
                places.record_rejection(0.0)
            if not limits or places.limit != limits[-1]:
                limits.append(places.limit)
        return limits

    assert run_virtually(scene()) == [3, 2, 3, 2, 3, 4, 3, 2, 1]


def test_retry_after_pauses_all_waiters() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        places, entered = AdaptiveLimiter(2), list[float]()

        async def visit() -> None:
            await places.acquire()
            entered.append(loop.time())
            await asyncio.sleep(1)
            places.release()

        await places.acquire()
        places.record_rejection(loop.time(), 30)
        places.release()
        assert places.limit == 1
        await asyncio.gather(visit(), visit())
        assert entered == [30, 31]

    run_virtually(scene())


def test_pauses_grow_while_everything_is_rejected_until_a_success() -> None:
    async def scene() -> list[float]:
        loop = asyncio.get_running_loop()
        places, entered = AdaptiveLimiter(1, backoff=1), list[float]()
        for number in range(6):
            await places.acquire()
            entered.append(loop.time())
            if number == 3:
                places.record_success(0.0)
            else:
                places.record_rejection(loop.time())
            places.release()
            await asyncio.sleep(0)
        return entered

    assert run_virtually(scene()) == [0, 1, 3, 7, 7, 8]


def test_rejections_of_earlier_requests_do_not_extend_a_pause() -> None:
    async def scene() -> float:
        places = AdaptiveLimiter(8, backoff=1)
        for _ in range(8):
            await places.acquire()
        await asyncio.sleep(5)
        for _ in range(8):  # seven take places away, the last one makes a pause
            places.record_rejection(0.0)
            places.release()
        for _ in range(50):
            places.record_rejection(0.0)
        await places.acquire()
        return asyncio.get_running_loop().time()

    assert run_virtually(scene()) == 6


@pytest.mark.parametrize("when", ["waiting", "just let in"])
def test_a_cancelled_waiter_takes_no_slot(when: str) -> None:
    async def scene() -> None:
        places = AdaptiveLimiter(1)
        await places.acquire()
        first, second = asyncio.ensure_future(places.acquire()), asyncio.ensure_future(places.acquire())
        await asyncio.sleep(0)
        if when == "just let in":
            places.release()
            first.cancel()
        else:
            first.cancel()
            await asyncio.sleep(0)
            places.release()
        await second
        assert first.cancelled()
        assert places.in_flight == 1
        places.release()
        assert places.in_flight == 0

    run_virtually(scene())


def test_close_fails_all_waiters_with_the_error() -> None:
    async def scene() -> None:
        places = AdaptiveLimiter(1)
        await places.acquire()
        waiting = [asyncio.ensure_future(places.acquire()) for _ in range(5)]
        await asyncio.sleep(0)
        places.close(ValueError("closed"))
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(one) for one in errors] == ["closed"] * 5

    run_virtually(scene())


SERVERS = [  # how many it serves at once, share of refusals that come whatever we do, times the ideal, why
    (64, 0.0, 1.03, "as many as we like"),
    (64, 0.1, 1.5, "every tenth refused at random"),
    (20, 0.0, 1.25, "a third of what we would like"),
    (4, 0.0, 1.35, "far fewer than we would like"),
    (1, 0.0, 1.8, "one at a time"),
]


@pytest.mark.parametrize(("served", "share", "times", "why"), SERVERS, ids=[row[-1] for row in SERVERS])
def test_limit_converges_to_the_server_capacity(served: int, share: float, times: float, why: str) -> None:
    """And few requests are refused more than five times."""

    async def scene() -> tuple[float, int]:
        loop, chance = asyncio.get_running_loop(), random.Random(7)
        places, serving, most_refused = AdaptiveLimiter(64), 0, 0
        tasks: deque[int] = deque([0] * 1000)

        async def visit(refusals: int) -> None:
            nonlocal serving, most_refused
            in_a_row, failed_at = 0, loop.time()
            while True:
                await places.acquire(is_retry=refusals > 0)
                began = loop.time()
                if serving >= served or chance.random() < share:
                    await asyncio.sleep(0.002)
                    places.record_rejection(began)
                    places.release()
                    refusals += 1
                    most_refused = max(most_refused, refusals)
                    in_a_row = 1 if places.last_success_began > failed_at else in_a_row + 1
                    failed_at = loop.time()
                    await asyncio.sleep(chance.uniform(0, 0.5 * 2 ** (in_a_row - 1)))
                    continue
                serving += 1
                await asyncio.sleep(0.2)
                serving -= 1
                places.record_success(began)
                places.release()
                return

        await asyncio.gather(*(visit(one) for one in tasks))
        return loop.time() / (1000 / served * 0.2), most_refused

    taken, most_refused = run_virtually(scene())
    assert taken <= times
    assert most_refused <= 5
