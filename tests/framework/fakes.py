"""Plugins that do as they are told, one small class per part that a plugin can play, and profiles made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.builders import a_handle

from berth.framework.interface import PermitResult, Plugin, PostFilterResult, PreFilterResult, Scope
from berth.framework.profile import MULTI_POINT, Profile, build_profile
from berth.framework.registry import Registry
from berth.framework.status import SUCCESS, Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    from berth.cluster.cache import Cluster
    from berth.cluster.columns import Rows
    from berth.cluster.pods import PodInfo
    from berth.framework.cycle_state import CycleState
    from berth.framework.interface import NodeStatuses, Rejections, Scores
    from berth.framework.registry import Factory
    from berth.framework.what_if import Guests, Trial

Answer = Status | Exception
"""What a plugin says, or raises."""


def said(answer: Answer) -> Status:
    if isinstance(answer, Exception):
        raise answer
    return answer


@dataclass(frozen=True)
class Ref:
    """A plugin in a configuration list."""

    name: str
    weight: int = 0


@dataclass(frozen=True)
class PluginSet:
    """What a profile says about one extension point."""

    enabled: Sequence[Ref] = ()
    disabled: Sequence[Ref] = ()


class Sort:
    """First come, first served."""

    def __init__(self, name: str = "Sort") -> None:
        self.name = name

    def sort_key(self, pod: PodInfo, timestamp_s: float) -> Any:
        return (-pod.priority, timestamp_s)


class Binder:
    """Binds, or says why not; remembers what it was asked to bind."""

    def __init__(self, name: str = "Binder", answer: Answer = SUCCESS) -> None:
        self.name, self.answer = name, answer
        self.bound: list[tuple[str, str]] = []

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state
        self.bound.append((pod.key, node_name))
        return said(self.answer)


class PreFilter:
    """Answers at PreFilter."""

    def __init__(self, name: str, answer: Answer = SUCCESS, nodes: Collection[str] | None = None) -> None:
        self.name, self.answer = name, answer
        self.nodes = None if nodes is None else frozenset(nodes)
        self.calls = 0

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        del state, pod
        self.calls += 1
        return PreFilterResult(said(self.answer), self.nodes)


class Filter:
    """Rejects the nodes that it is told to reject, and counts how often it is asked about each.

    Args:
        name: its name.
        cluster: whose nodes.
        rejects: whether a node of this name is rejected for this pod.
        answer: what is said of such nodes.
        scope: as plugins declare it.
        signs: what of the pod the answer depends on; None makes every pod like no other.
    """

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        rejects: Callable[[str, PodInfo], bool] = lambda _node, _pod: True,
        *,
        answer: Answer | None = None,
        scope: Scope = Scope.ROW,
        signs: Callable[[PodInfo], Hashable] = lambda _pod: "",
    ) -> None:
        self.name, self.scope = name, scope
        self.rejects, self.answer, self.signs = rejects, answer or unschedulable(f"{name} says no"), signs
        self._table = cluster.table
        self.asked: list[str] = []

    def sign(self, pod: PodInfo) -> Hashable:
        return self.signs(pod)

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        del state
        names = [self._table.name(row) for row in rows.tolist()]
        self.asked += names
        codes = np.fromiter((self.rejects(name, pod) for name in names), dtype=np.int16, count=len(names))
        if isinstance(self.answer, Exception) and codes.any():
            raise self.answer
        return codes

    def rejection(self, code: int) -> Status:
        assert code == 1
        return said(self.answer)

    def asked_of(self) -> list[str]:
        """The names of the nodes asked about since the last call, in order of name."""
        names, self.asked = sorted(self.asked), []
        return names


class PostFilter:
    """Answers at PostFilter, and remembers what it was told of the nodes."""

    def __init__(self, name: str, answer: Answer, nominated: str | None = None) -> None:
        self.name, self.answer, self.nominated = name, answer, nominated
        self.told: list[NodeStatuses] = []

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
        del state, pod
        self.told.append(statuses)
        return PostFilterResult(said(self.answer), self.nominated)


class NoStatuses:
    """No answers of nodes; whoever looks at them fails."""

    num_all_nodes = 0

    def get(self, node_name: str) -> Status:
        raise AssertionError(node_name)

    def unschedulable_rows(self) -> Rows:
        raise AssertionError("no node was looked at")

    def trial(self, guests: Guests) -> Trial:
        raise AssertionError(guests)

    def live_trial(self, guests: Guests) -> Trial:
        raise AssertionError(guests)


class PreScore:
    """Answers at PreScore."""

    def __init__(self, name: str, answer: Answer = SUCCESS) -> None:
        self.name, self.answer = name, answer
        self.given: list[list[int]] = []

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        del state, pod
        self.given.append(rows.tolist())
        return said(self.answer)

    def sign(self, pod: PodInfo) -> Hashable:
        del pod
        return ""


class Score:
    """Gives each node the score that it is told to give, and counts how often it is asked about each."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        score: Callable[[str], int] | Mapping[str, int] | Exception,
        *,
        scope: Scope = Scope.ROW,
        signs: Callable[[PodInfo], Hashable] = lambda _pod: "",
    ) -> None:
        self.name, self.scope, self.signs = name, scope, signs
        self.scores = score
        self._table = cluster.table
        self.asked: list[str] = []

    def sign(self, pod: PodInfo) -> Hashable:
        return self.signs(pod)

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        del state, pod
        if isinstance(self.scores, Exception):
            raise self.scores
        names = [self._table.name(row) for row in rows.tolist()]
        self.asked += names
        give = self.scores if callable(self.scores) else self.scores.__getitem__
        return np.fromiter((give(name) for name in names), dtype=np.int64, count=len(names))

    def asked_of(self) -> list[str]:
        """The names of the nodes asked about since the last call, in order of name."""
        names, self.asked = sorted(self.asked), []
        return names


class NormalizedScore(Score):
    """Besides, rescales so that the highest becomes 100, or breaks off."""

    fault: Exception | None = None

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        del state, pod
        if self.fault is not None:
            raise self.fault
        highest = int(scores.max(initial=0))
        if highest:
            scores *= 100
            scores //= highest
        return scores


class Reserve:
    """Answers at Reserve, and writes down what happened in a diary that it may share with others."""

    def __init__(self, name: str, answer: Answer = SUCCESS, diary: list[str] | None = None) -> None:
        self.name, self.answer = name, answer
        self.diary = [] if diary is None else diary

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state, pod
        self.diary.append(f"{self.name} reserves on {node_name}")
        return said(self.answer)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        del state, pod
        self.diary.append(f"{self.name} unreserves on {node_name}")


class Permit:
    """Answers at Permit."""

    def __init__(self, name: str, answer: Answer = SUCCESS, timeout_s: float = 10.0) -> None:
        self.name, self.answer, self.timeout_s = name, answer, timeout_s
        self.calls = 0

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        del state, pod, node_name
        self.calls += 1
        return PermitResult(said(self.answer), self.timeout_s)


class PreBind:
    """Answers before and at PreBind."""

    def __init__(self, name: str, answer: Answer = SUCCESS, ahead: Answer = SUCCESS) -> None:
        self.name, self.answer, self.ahead = name, answer, ahead
        self.calls = 0

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state, pod, node_name
        return said(self.ahead)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state, pod, node_name
        self.calls += 1
        return said(self.answer)


class PostBind:
    """Hears of bindings."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: list[tuple[str, str]] = []

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        del state
        self.heard.append((pod.key, node_name))


class Gate:
    """Answers at PreEnqueue."""

    def __init__(self, name: str, answer: Answer = SUCCESS) -> None:
        self.name, self.answer = name, answer

    def pre_enqueue(self, pod: PodInfo) -> Status:
        del pod
        return said(self.answer)


@dataclass
class Builder:
    """A factory that hands out one plugin, and remembers the arguments with which it was built."""

    plugin: Plugin | ValueError
    args: list[Any] = field(default_factory=list)

    def __call__(self, args: Any, handle: Any) -> Plugin:
        del handle
        self.args.append(args)
        if isinstance(self.plugin, ValueError):
            raise self.plugin
        return self.plugin


def registry_of(*plugins: Plugin) -> Registry:
    factories: dict[str, Factory] = {plugin.name: Builder(plugin) for plugin in plugins}
    return Registry(factories)


def profile_of(
    *plugins: Plugin,
    weights: Mapping[str, int] | None = None,
    scheduler_name: str = "default-scheduler",
    percentage_of_nodes_to_score: int | None = None,
) -> Profile:
    """A profile of *plugins*, each wherever it can take part, with a queue sort and a bind plugin where none is."""
    basics: list[Plugin] = [Sort()]
    if not any(hasattr(plugin, "bind") for plugin in plugins):
        basics.append(Binder())
    everyone = (*plugins, *basics)
    enabled = tuple(Ref(plugin.name, (weights or {}).get(plugin.name, 0)) for plugin in everyone)
    return build_profile(
        scheduler_name,
        {MULTI_POINT: PluginSet(enabled)},
        {},
        registry_of(*everyone),
        a_handle(),
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
    )
