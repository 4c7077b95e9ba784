"""Looking at only some of the nodes: how many are enough, and where the next search goes on."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import a_cluster, a_node, a_pod
from tests.framework.fakes import Filter
from tests.scheduling.builders import Search, cluster_of, numbered, search_of

from berth.scheduling.algorithm import Found
from berth.scheduling.sampling import Sampler, num_feasible_nodes_to_find
from berth.scheduling.verdicts import NO_NODE, UNTOUCHED

# nodes, percentage; how many that fit are enough
ENOUGH: dict[str, tuple[int, int, int]] = {
    "few nodes are all looked at": (10, 40, 10),
    "so are those just below a hundred": (99, 1, 99),
    "a hundred are enough at least": (100, 30, 100),
    "or the share of a thousand, where that is less": (1000, 5, 100),
    "the share of a thousand": (1000, 40, 400),
    "the share of many": (6000, 40, 2400),
    "the share of five hundred": (500, 30, 150),
    "a share that is no whole number is rounded down": (1001, 33, 330),
    "all of them": (6000, 100, 6000),
    "more than all of them": (6000, 120, 6000),
}


@pytest.mark.parametrize(("nodes", "percentage", "expected"), ENOUGH.values(), ids=ENOUGH)
def test_enough_are(nodes: int, percentage: int, expected: int) -> None:
    assert num_feasible_nodes_to_find(nodes, percentage) == expected


A, R = 0, 1 << 16  # a row that fits, and one that is rejected

# start, order of rows, verdicts by row, wanted; what is left by row, next start
CUTS: dict[str, tuple[int, list[int], list[int], int, list[int], int]] = {
    "all that fit, where fewer do than are wanted": (0, [0, 1, 2], [A, R, A], 3, [A, R, A], 0),
    "the first that fit": (0, [0, 1, 2, 3], [A, A, A, A], 2, [A, A, UNTOUCHED, UNTOUCHED], 2),
    "those rejected on the way are known": (0, [0, 1, 2, 3], [R, A, R, A], 1, [R, A, UNTOUCHED, UNTOUCHED], 2),
    "those rejected beyond are not": (0, [0, 1, 2, 3], [A, R, R, A], 1, [A] + [UNTOUCHED] * 3, 1),
    "from where the last search stopped": (2, [0, 1, 2, 3], [A, A, A, A], 1, [UNTOUCHED, UNTOUCHED, A, UNTOUCHED], 3),
    "over the end": (3, [0, 1, 2, 3], [A, A, A, A], 2, [A, UNTOUCHED, UNTOUCHED, A], 1),
    "in the order of nodes": (0, [3, 1, 0, 2], [A, A, A, A], 2, [UNTOUCHED, A, UNTOUCHED, A], 2),
    "rows without a node are left as they are": (0, [0, 2], [A, NO_NODE, A], 1, [A, NO_NODE, UNTOUCHED], 1),
    "from the first, where there are fewer nodes than before": (5, [0, 1], [A, A], 1, [UNTOUCHED, A], 0),
    "none of none": (7, [], [NO_NODE], 1, [NO_NODE], 0),
}


@pytest.mark.parametrize(("start", "order", "verdicts", "wanted", "left", "after"), CUTS.values(), ids=CUTS)
def test_looked_at_are(
    start: int, order: list[int], verdicts: list[int], wanted: int, left: list[int], after: int
) -> None:
    sampler = Sampler(start)
    before = np.array(verdicts, dtype=np.int32)
    assert sampler.cut(np.array(order, dtype=np.intp), before, wanted).tolist() == left
    assert sampler.start == after
    assert before.tolist() == verdicts


def start_of(search: Search) -> int:
    return search.algorithm._sampler.start


def test_each_search_goes_on_where_the_last_one_stopped() -> None:
    names = numbered(500)
    cluster = cluster_of(*names)
    search = search_of(cluster, Filter("F", cluster, lambda _node, _pod: False), percentage=30)
    for cycle in range(1, 8):
        looked_at = search.feasible()
        assert start_of(search) == 150 * cycle % 500
        turned = [*names[150 * (cycle - 1) % 500 :], *names][:150]
        assert looked_at == sorted(turned)


def test_nodes_of_all_zones_are_looked_at_in_turn() -> None:
    zones = {"a": 200, "b": 100, "c": 50}
    cluster = a_cluster(
        a_node(f"{zone}{number:03}", labels={"topology.kubernetes.io/zone": zone})
        for zone, count in zones.items()
        for number in range(count)
    )
    looked_at = search_of(cluster, percentage=40).feasible()
    assert {zone: sum(name.startswith(zone) for name in looked_at) for zone in zones} == {"a": 47, "b": 47, "c": 46}


def test_nodes_that_do_not_fit_are_passed_over_and_told_of() -> None:
    names = numbered(300)
    cluster = cluster_of(*names)
    search = search_of(cluster, Filter("F", cluster, lambda node, _pod: int(node[1:]) % 2 == 0), percentage=40)
    found = search.schedule()
    assert isinstance(found, Found)
    assert len(found.rows) == 120
    assert sorted(found.rejected().by_node()) == names[:240:2]
    assert start_of(search) == 240


def test_a_failure_is_told_of_all_nodes() -> None:
    cluster = cluster_of(*numbered(300))
    failure = search_of(cluster, Filter("F", cluster), percentage=40).failure()
    assert failure.message == "0/300 nodes are available: 300 F says no."


# percentage for all profiles, percentage of the profile; how many of 500 nodes are looked at
SHARES: dict[str, tuple[int, int | None, int]] = {
    "nobody says": (0, None, 500),
    "for all profiles": (30, None, 150),
    "the profile says more": (30, 50, 250),
    "the profile says all": (30, 100, 500),
    "the profile says zero, which is all": (30, 0, 500),
}


@pytest.mark.parametrize(("of_all", "of_profile", "expected"), SHARES.values(), ids=SHARES)
def test_the_share_is_that_of(of_all: int, of_profile: int | None, expected: int) -> None:
    search = search_of(cluster_of(*numbered(500)), percentage=of_all, of_profile=of_profile)
    assert len(search.feasible()) == expected


def test_looking_at_some_leaves_what_is_kept_for_the_next_pod_whole() -> None:
    cluster = cluster_of(*numbered(200))
    plugin = Filter("F", cluster, lambda node, _pod: node == "n000")
    search = search_of(cluster, plugin, percentage=50)
    first, second = search.feasible(a_pod("first")), search.feasible(a_pod("second"))
    assert first == numbered(101)[1:]
    assert second == sorted([*numbered(200)[101:], "n001"])
    assert plugin.asked_of() == numbered(200)
