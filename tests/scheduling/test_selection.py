"""Ties are settled by a number that is drawn again the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.builders import a_pod
from tests.framework.fakes import Score
from tests.scheduling.builders import cluster_of, search_of

from berth.scheduling.selection import draw, select

ROWS = np.array([3, 5, 8, 9], dtype=np.intp)


def chosen(*totals: int, seed: int = 0, uid: str = "uid", attempt: int = 1) -> int:
    return select(ROWS[: len(totals)], np.array(totals, dtype=np.int64), seed, uid, attempt)


# totals; the rows that may be taken
BEST: dict[str, tuple[tuple[int, ...], set[int]]] = {
    "the only one": ((0,), {3}),
    "the best": ((1, 7, 3), {5}),
    "one of the best": ((7, 1, 7, 0), {3, 8}),
    "any where all are equal": ((0, 0, 0, 0), {3, 5, 8, 9}),
    "the largest that 64 bits hold": ((2**63 - 1, 2**63 - 2), {3}),
}


@pytest.mark.parametrize(("totals", "expected"), BEST.values(), ids=BEST)
def test_taken_is(totals: tuple[int, ...], expected: set[int]) -> None:
    assert {chosen(*totals, uid=f"uid-{number}") for number in range(64)} == expected


def test_the_same_seed_pod_and_attempt_give_the_same_choice() -> None:
    for number in range(20):
        uid = f"uid-{number}"
        assert chosen(0, 0, 0, 0, seed=7, uid=uid, attempt=3) == chosen(0, 0, 0, 0, seed=7, uid=uid, attempt=3)


# what differs between draws
STREAMS = {
    "pods": [(0, f"web-{number}", 1) for number in range(4000)],
    "attempts": [(0, "web", number) for number in range(4000)],
    "seeds": [(number, "web", 1) for number in range(4000)],
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("ways", [2, 3, 10, 64])
def test_choices_are_spread_over_ties(stream: list[tuple[int, str, int]], ways: int) -> None:
    counts = Counter(draw(*one) % ways for one in stream)
    even = len(stream) / ways
    assert len(counts) == ways
    assert sum((count - even) ** 2 / even for count in counts.values()) < 2 * ways + 10  # chi squared


def test_a_draw_has_64_bits_whatever_the_seed() -> None:
    for seed in (-(2**70), -1, 0, 1, 2**64, 2**70):
        assert 0 <= draw(seed, "uid", 1) < 2**64


def test_a_draw_is_the_same_on_every_machine() -> None:
    assert [draw(0, "uid-1", 1), draw(1, "uid-1", 1), draw(0, "uid-1", 2)] == [
        12945180946459913303,
        18040985753647719005,
        17145648142738328537,
    ]


def test_a_search_is_replayed_with_its_seed() -> None:
    cluster = cluster_of(*(f"n{number}" for number in range(16)))
    pods = [a_pod(f"p{number}") for number in range(20)]
    searches = [search_of(cluster, Score("S", cluster, lambda _: 5), seed=seed) for seed in (4, 4, 5)]
    first, second, other = ([search.found(pod).node_name for pod in pods] for search in searches)
    assert first == second != other
    assert len(set(first)) > 8
