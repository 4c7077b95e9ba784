"""The extension points, as protocols.

A plugin is any object with a name and the methods of the points it takes part in.

Everything up to Permit is called inside a scheduling cycle: it may not wait, do I/O or read a clock.  From PreBind on
plugins run beside other cycles and are coroutines.  Rows are indices into the node table; whatever is passed in is read
only.

Source: k8s staging/src/k8s.io/kube-scheduler/framework/interface.go.
"""

import enum
from collections.abc import Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from berth.api.meta import PodUid
from berth.api.pod import Pod
from berth.cluster.columns import Rows
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.events import Registration
from berth.framework.status import SUCCESS, Status
from berth.framework.what_if import Board, Guests, Trial

Rejections = NDArray[np.int16]
"""Shape (len(rows),): 0 where the node stays in the running, else a code that `FilterPlugin.rejection` explains."""

Scores = NDArray[np.int64]
"""Shape (len(rows),)."""

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0


class Scope(enum.Enum):
    """What a plugin's verdict about a node depends on, besides the pod."""

    # That node, its pods (spec, labels that do not repeat the node's, whether they go away) and `epoch`: kept until one
    # of these changes.
    ROW = enum.auto()
    CLUSTER = enum.auto()  # other nodes, pods elsewhere or anything else: judged anew in every cycle


@runtime_checkable
class Plugin(Protocol):
    """What every plugin has: the name it goes by in configuration, messages and metrics."""

    name: str


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue; exactly one per scheduler."""

    def sort_key(self, pod: PodInfo, timestamp_s: float) -> Any:
        """A key that compares less for the pod to be tried earlier; *timestamp_s* is when it was (re-)queued."""


@runtime_checkable
class Lookups(Plugin, Protocol):
    """Says which objects besides pods and nodes the plugin looks up; only these are watched."""

    def kinds(self) -> Sequence[Kind[Any]]:
        """The kinds; asked once, when the profile is built."""


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """Holds pods back from the active queue."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Success lets the pod in; anything else keeps it out until an event that this plugin registered."""


@runtime_checkable
class HoldingPlugin(PreEnqueuePlugin, Protocol):
    """A plugin that may hold hundreds of pods back at a time, each until an event of its own."""

    def held_back(self, about: Any) -> AbstractSet[PodUid]:
        """The pods that `pre_enqueue` keeps out, and that no event lets in until it does not.

        Args:
            about: the object that something just happened to, or None; asked at each event, before any hint.
        """


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """Says which events are worth another attempt at the pods that this plugin rejected."""

    def events_to_register(self) -> Sequence[Registration]:
        """The events; asked once, when the profile is built."""


@runtime_checkable
class FurtherEvents(Plugin, Protocol):
    """Says which events are worth another attempt that the reference overlooks, so that no pod waits in vain."""

    def further_events(self) -> Sequence[Registration]:
        """The events, besides those of `EnqueueExtensions`; asked once, when the profile is built."""


class PreFilterResult(NamedTuple):
    """What PreFilter found.

    Attributes:
        status: success, skip, or a rejection of all nodes.
        node_names: the only nodes worth looking at; None for all.
    """

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Works out once per attempt what the filter needs."""

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Skip sits the plugin's Filter out."""


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    """Keeps what PreFilter worked out true while pods are taken away and added for the sake of a question."""

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """*other* now counts on the node of *row*."""

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """*other* no longer counts on the node of *row*."""


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Narrows the nodes for one pod.  Same inputs, same answer."""

    scope: Scope

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """int16, shape (len(rows),): 0 where the node stays; else a code for `rejection`."""

    def rejection(self, code: int) -> Status:
        """What a code of `filter` means; the same for as long as the plugin lives."""


@runtime_checkable
class BoardFilter(FilterPlugin, Protocol):
    """A filter that answers for many nodes at once what it would say if pods came or went there."""

    def board(self, state: CycleState, pod: PodInfo, guests: Guests) -> Board:
        """The board for a question about *pod*; *state* is as PreFilter left it."""


@runtime_checkable
class IgnoresPods(FilterPlugin, Protocol):
    """A filter whose answers do not depend on which pods are on nodes."""

    @property
    def ignores_pods(self) -> Literal[True]:
        """That it is so."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Eviction:
    """Pods that have to go so that another fits.

    Attributes:
        preemptor: the pod that room is made for.
        node_name: where.
        victims: who has to go, most important first; also those that are going already.
        plugin: who says so.
        progress: hears how it goes.
    """

    preemptor: PodInfo
    node_name: str
    victims: tuple[PodInfo, ...]
    plugin: str
    progress: "EvictionProgress"


class EvictionProgress(Protocol):
    """Hears of the steps of an eviction that is carried out beside the scheduling cycles."""

    def started(self) -> None:
        """Victims are about to be told to go."""

    def reached_last(self, victim: Pod) -> None:
        """All victims but this one have been told to go; this one is about to be."""

    def ended(self) -> None:
        """Nothing more is done about it."""

    def stuck(self, victims: Iterable[PodUid]) -> None:
        """These do not go, although they were told to long ago."""


class PostFilterResult(NamedTuple):
    """What PostFilter achieved.

    Attributes:
        status: success if the pod may fit soon.
        nominated_node_name: where it may fit; empty clears an earlier nomination, None leaves it.
        eviction: who has to go for that.
        awaited: who goes for that already, so that nobody else has to.
    """

    status: Status
    nominated_node_name: str | None = None
    eviction: Eviction | None = None
    awaited: Eviction | None = None


class NodeStatuses(Protocol):
    """Why nodes were rejected, for whoever wants to change that.

    Attributes:
        num_all_nodes: how many nodes there are.
    """

    num_all_nodes: int

    def get(self, node_name: str) -> Status:
        """The answer for one node."""

    def unschedulable_rows(self) -> Rows:
        """The nodes where evictions might help, ascending."""

    def trial(self, guests: Guests) -> Trial:
        """A question about the pod that fits nowhere: what if pods came and went?

        Args:
            guests: the pods, and the nodes in question.

        Raises:
            TrialError: a filter cannot answer for all nodes at once.
        """

    def live_trial(self, guests: Guests) -> Trial:
        """The same about one node, which every filter can answer.

        Args:
            guests: the pods, all on one node.
        """


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Tries to make room when no node fits."""

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
        """Success or unresolvable ends the row of plugins; unschedulable lets the next one try."""


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    """Works out once per attempt what the score needs."""

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        """Skip sits the plugin's Score out."""


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Ranks the nodes that fit."""

    scope: Scope

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """int64, shape (len(rows),): raw scores; 0..100 unless the plugin normalizes."""


@runtime_checkable
class ScoreNormalizer(Plugin, Protocol):
    """Rescales the raw scores of all nodes that fit."""

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """int64, shape (n,), 0..100.  *scores* may be written to.

        Where all raw scores of a plugin of scope ROW are 0, each must become the same, however many they are.
        """


@runtime_checkable
class Epochal(Plugin, Protocol):
    """A plugin of scope ROW that also looks at something cluster-wide which rarely changes."""

    def epoch(self) -> Hashable:
        """Verdicts made under another epoch are void."""


@runtime_checkable
class SignPlugin(Plugin, Protocol):
    """Says what of a pod the plugin looks at; pods alike in this are judged alike."""

    def sign(self, pod: PodInfo) -> Hashable:
        """Equal values mean equal verdicts; None means that the pod is like no other."""


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Keeps books of its own about placements."""

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Books the placement, or rejects it."""

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Takes the booking back; may come without a booking, and twice."""


class PermitResult(NamedTuple):
    """What Permit says.

    Attributes:
        status: success, wait, or a rejection.
        timeout_s: how long to wait at most.
    """

    status: Status
    timeout_s: float = 0.0


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """Lets a placement through, holds it back, or stops it."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        """Wait keeps the pod assumed until somebody allows it."""


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    """Prepares the cluster for a binding."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Says, without waiting, whether `pre_bind` has work to do: success if it has, skip if not."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Does the work."""


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    """Tells the API server where the pod goes."""

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Skip lets the next plugin bind."""


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    """Hears of bindings that succeeded."""

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Takes note."""
