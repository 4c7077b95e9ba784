"""PrioritySort: the more important pod is tried first, and among equals the one that was queued first.

Points: QueueSort.  Rejects nothing, waits for nothing, takes no arguments.  Asked by the active queue.

Source: k8s pkg/scheduler/framework/plugins/queuesort/priority_sort.go.
"""

from typing import Any

from berth.cluster.pods import PodInfo


class PrioritySort:
    """Orders by priority, then by the time of (re-)queueing."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, timestamp_s: float) -> Any:
        """A pair that compares less for the pod to be tried earlier."""
        return (-pod.priority, timestamp_s)
