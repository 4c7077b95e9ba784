"""A part of the table on each API server; that it covers every plugin; and that the runner notices what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.chaos.clusters import real_cluster
from tests.integration.clusters import EmbeddedCluster
from tests.integration.objects import a_node, a_pod
from tests.requeue import runner
from tests.requeue.runner import Stand
from tests.requeue.steps import WEB, Scenario, allocatable, create
from tests.requeue.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

EVERY = 6  # make requeue runs all of them
NAMES = sorted(TABLE)
SMALL, LARGE = a_node("node", cpu="1"), a_pod(WEB, cpu="2")
TOO_LARGE = Scenario(pod=LARGE, because="Insufficient cpu", world=[SMALL], wakes=[allocatable(SMALL, cpu="2")])


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("requeue")
    with EmbeddedCluster(folder) as cluster:
        stand = Stand(cluster, folder)
        yield stand
        stand.close()


@pytest.fixture(scope="module")
def real(envtest_assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with real_cluster(envtest_assets) as cluster:
        stand = Stand(cluster, tmp_path_factory.mktemp("requeue"))
        yield stand
        stand.close()


@pytest.mark.parametrize("name", NAMES[::EVERY])
def test_what_wakes_a_pod_on_the_embedded_server(name: str, embedded: Stand) -> None:
    embedded.run(TABLE[name])


@pytest.mark.parametrize("name", NAMES[EVERY // 2 :: EVERY])
def test_what_wakes_a_pod_on_the_real_server(name: str, real: Stand) -> None:
    real.run(TABLE[name])


def test_there_are_enough_scenarios_and_each_has_something_that_must_not_wake_it() -> None:
    assert len(TABLE) >= 80
    assert [name for name, each in TABLE.items() if not each.wakes or not (each.must_not or each.retried)] == []


def test_a_pod_that_is_woken_in_vain_is_noticed(embedded: Stand) -> None:
    wrong = replace(TOO_LARGE, must_not=[allocatable(SMALL, cpu="2")])
    with pytest.raises(AssertionError, match=r"cpu.*: woke the pod 1 times"):
        embedded.run(wrong)


def test_a_pod_that_sleeps_on_is_noticed(embedded: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WAKES_WITHIN_S", 3.0)
    with pytest.raises(AssertionError, match=r"create Node second: the pod is bound\nthe pod was told"):
        embedded.run(replace(TOO_LARGE, wakes=[create(a_node("second", cpu="1"))]))
