"""The pods of each node by importance, kept up to date while pods come, go and change."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import a_cluster, a_node, a_pod, rows_of

from berth.cluster.ranking import NOT_YET, Ranking, started_us

NAMES = ("n1", "n2", "n3")


def keys_below(ranking: Ranking, cluster: object, priority: int) -> dict[int, list[str]]:
    ranks = ranking.below(priority, rows_of(cluster))  # type: ignore[arg-type]  # any cluster
    found: dict[int, list[str]] = {}
    for place, rank in zip(ranks.places.tolist(), ranks.ranks.tolist(), strict=True):
        row = int(ranks.rows[place])
        found.setdefault(row, []).append(ranking.pod(row, rank).key)
    return found


def test_priority_comes_first_then_the_earlier_start_then_the_name() -> None:
    def pod(name: str, priority: int, start: str | None) -> object:
        return a_pod(name, on="n1", priority=priority, status={"start_time": start})

    early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    pods = [
        pod("never", 1, None),
        pod("late", 1, late),
        pod("b", 1, early),
        pod("a", 1, early),
        pod("top", 5, late),
        pod("low", -1, early),
    ]
    cluster = a_cluster([a_node("n1")], pods)  # type: ignore[arg-type]  # pods
    ranking = Ranking(cluster.table)
    order = [f"default/{name}" for name in ("top", "a", "b", "late", "never", "low")]
    assert keys_below(ranking, cluster, 10) == {0: order}
    assert keys_below(ranking, cluster, 5) == {0: order[1:]}
    assert keys_below(ranking, cluster, -1) == {}


def test_times_are_microseconds_and_who_has_not_started_comes_after_all() -> None:
    cluster = a_cluster()
    assert started_us(cluster.info(a_pod(status={"start_time": "1970-01-01T00:00:01.000002Z"}))) == 1_000_002
    assert started_us(cluster.info(a_pod(status={"start_time": "1970-01-01T01:00:00+01:00"}))) == 0
    assert started_us(cluster.info(a_pod())) == NOT_YET


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_what_is_kept_is_what_sorting_anew_gives(seed: int) -> None:
    chance = random.Random(seed)
    cluster = a_cluster([a_node(name) for name in NAMES])
    kept = Ranking(cluster.table)
    for _ in range(chance.randrange(30)):
        name = f"p{chance.randrange(12)}"
        start = chance.choice((None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"))
        pod = a_pod(name, on=chance.choice(NAMES), priority=chance.randrange(4), status={"start_time": start})
        there = cluster.placed(pod.uid)
        if there is None:
            cluster.add_pod(pod)
        elif chance.random() < 0.3:
            cluster.remove_pod(there.info.pod)
        else:
            cluster.update_pod(replace(pod, spec=replace(pod.spec, priority=there.info.priority)))
        if chance.random() < 0.5:
            assert keys_below(kept, cluster, 3) == keys_below(Ranking(cluster.table), cluster, 3)
    assert keys_below(kept, cluster, 3) == keys_below(Ranking(cluster.table), cluster, 3)


def test_pods_that_rules_cannot_tell_apart_are_of_one_kind() -> None:
    pods = [a_pod(f"p{i}", on="n1", cpu="1", labels={"app": "web"}) for i in range(3)]
    other = a_pod("other", on="n1", cpu="2", labels={"app": "web"})
    cluster = a_cluster([a_node("n1")], [*pods, other])
    ranking = Ranking(cluster.table)
    assert len(set(ranking.below(1, rows_of(cluster)).kinds.tolist())) == 2
    assert len(ranking.kinds.samples) == 2
