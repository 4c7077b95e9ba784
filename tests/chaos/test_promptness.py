"""Waiting pods are served promptly and cost little; the bounds leave room for a machine that has other things to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.chaos.promptness import first_node_s, nomination_s, waiting_share
from tests.integration.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.clusters import EmbeddedCluster


@pytest.fixture
def scene(embedded: EmbeddedCluster, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(embedded, tmp_path)
    yield scene
    scene.close()


def test_the_first_node_is_noticed_by_pods_that_have_paused_long(scene: Scene) -> None:
    assert first_node_s(scene, waited_s=7.0) < 2.0  # the pause would have gone on for three seconds or more


def test_a_nomination_to_a_deleted_node_is_cleared(scene: Scene) -> None:
    assert nomination_s(scene) < 2.0


def test_a_thousand_waiting_pods_cost_next_to_nothing(scene: Scene) -> None:
    assert waiting_share(scene, seconds=4.0) < 0.1
