"""How the queue is set up: its timings, and per profile the plugins and hints that decide who may enter and return.

Built once by whoever builds the profiles, read by everything in this folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from berth.cluster.pods import PodInfo

if TYPE_CHECKING:
    from berth.framework.interface import PreEnqueuePlugin
    from berth.queueing.hints import HintMap

SortKey = Callable[[PodInfo, float], Any]
"""(the pod, when it was queued) to a key that compares less for the pod to be tried earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Timings and switches.

    Attributes:
        initial_backoff_s: pause after a first failure; doubles with each further one.
        max_backoff_s: longest pause; 0 for none at all.
        max_in_unschedulable_s: how long a pod waits for an event before it is tried without one.
        pop_from_backoff_q: let a backing-off pod be tried when nothing else waits (gate SchedulerPopFromBackoffQ);
            backoffs then end on whole seconds.
        pod_groups: members of a pod group always back off after a failure (gate GenericWorkload).
    """

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    max_in_unschedulable_s: float = 300.0
    pop_from_backoff_q: bool = True
    pod_groups: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProfile:
    """What the queue knows of one profile.

    Attributes:
        hints: which plugins wait for which events.
        sort_key: the order of the active queue; that of the first profile holds for all.
        pre_enqueue: the plugins that may hold a pod back, in order.
    """

    hints: HintMap
    sort_key: SortKey
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
