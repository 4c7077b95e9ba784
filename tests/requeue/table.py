"""All scenarios: pod blocked by X; Y wakes it; Z must not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.requeue.devices_table import DEVICES_TABLE
from tests.requeue.nodes_table import NODES_TABLE
from tests.requeue.preemption_table import PREEMPTION_TABLE
from tests.requeue.relations_table import RELATIONS_TABLE
from tests.requeue.volumes_table import VOLUMES_TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.requeue.steps import Scenario

TABLE: Mapping[str, Scenario] = {
    **NODES_TABLE,
    **RELATIONS_TABLE,
    **VOLUMES_TABLE,
    **DEVICES_TABLE,
    **PREEMPTION_TABLE,
}
