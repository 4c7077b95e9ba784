"""Asking the filters of a profile what they would say if pods came or went: for many nodes at once, or node by node.

`BoardTrial` puts the question to the boards of the filters (`berth.framework.what_if`), all nodes together, and touches
nothing.  Where a filter keeps no board, or cannot answer for all nodes at once, `LiveTrial` takes the pods of one node
off the live cluster, asks, and puts them back; it is also what the boards are tested against.

Pods that were promised a node count there against pods of lower or equal priority: a node must do with and without
them.  Called by the search, where it meets such promises, and by PostFilter plugins.

Source: k8s pkg/scheduler/framework/runtime/framework.go, ``RunFilterPluginsWithNominatedPods``, and
pkg/scheduler/framework/preemption/preemption.go.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, Self

import numpy as np

from berth.api.meta import PodUid
from berth.cluster.columns import Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.interface import BoardFilter, FilterPlugin, IgnoresPods, PreFilterExtensions
from berth.framework.profile import Profile
from berth.framework.run import FAULTS, fault_text, guarded
from berth.framework.status import Code, Status, error
from berth.framework.what_if import Board, Guests, Indices, TrialError
from berth.scheduling.verdicts import FEASIBLE, SHIFT, CycleError, Verdicts, explain, judge, placed_filters

_FAULT: Final = -16  # a plugin could not answer


@dataclass(frozen=True, slots=True, eq=False)
class Hopeful:
    """Pods that were promised one node.

    Attributes:
        pods: these pods.
        kinds: which of `Promised.samples` each is like.
    """

    pods: tuple[PodInfo, ...]
    kinds: tuple[int, ...]

    def without(self, uid: PodUid) -> "Hopeful":
        """All of them but one."""
        kept = [i for i, pod in enumerate(self.pods) if pod.uid != uid]
        return Hopeful(tuple(self.pods[i] for i in kept), tuple(self.kinds[i] for i in kept))


@dataclass(frozen=True, slots=True, eq=False)
class Promised:
    """Pods that were promised the nodes in question.

    Attributes:
        by_place: place -> who was promised it; only places where anybody was.
        samples: a pod of each kind.
    """

    by_place: Mapping[int, Hopeful]
    samples: Sequence[PodInfo] = ()


class Questioner:
    """Puts questions to the filters of one profile.

    Args:
        profile: the plugins.
        table: the nodes.
    """

    def __init__(self, profile: Profile, table: NodeTable) -> None:
        self._profile, self._table = profile, table
        self._filters = placed_filters(profile)
        self._extensions = tuple(p for p in profile.pre_filter if isinstance(p, PreFilterExtensions))
        self._askable = tuple(_askable(position, plugin) for position, plugin in self._filters)
        self._boardless = frozenset(
            plugin.name for _, plugin in self._filters if not isinstance(plugin, BoardFilter | IgnoresPods)
        )

    def keeps_boards(self, state: CycleState) -> bool:
        """Whether all filters that have a say can answer for many nodes at once."""
        return self._boardless <= state.skip_filter

    def trial(self, state: CycleState, pod: PodInfo, guests: Guests, promised: Promised) -> "BoardTrial":
        """A question about *pod* on many nodes at once.

        Raises:
            TrialError: a filter cannot answer like that.
        """
        if not self.keeps_boards(state):
            raise TrialError("a filter keeps no board")
        everyone = _joined(guests, promised)
        return BoardTrial(self._profile, Boards(self._askable, state, pod, everyone), everyone, len(guests))

    def live_trial(self, state: CycleState, pod: PodInfo, guests: Guests, promised: Promised) -> "LiveTrial":
        """A question about *pod* on the one node that the guests are on."""
        hopeful = promised.by_place.get(0)
        others = () if hopeful is None else hopeful.pods
        return LiveTrial(self._profile, self._table, self._extensions, state, pod, guests, others)

    def with_promised(self, state: CycleState, pod: PodInfo, rows: Rows, promised: Promised) -> Verdicts:
        """int32, shape (len(rows),): the verdicts if those ran there who were promised these nodes.

        Raises:
            CycleError: a plugin could not answer.
        """
        if self.keeps_boards(state):
            guests = _joined(_nobody(rows), promised)
            try:
                boards = Boards(self._askable, state, pod, guests)
                boards.move(guests.everyone(), 1)
                return boards.judge(np.arange(len(rows), dtype=np.intp), again=False)
            except TrialError as fault:
                raise CycleError(str(fault)) from fault
        verdicts = np.zeros(len(rows), dtype=np.int32)
        for place, others in promised.by_place.items():
            alone = Promised({0: others}, promised.samples)
            with self.live_trial(state, pod, _nobody(rows[place : place + 1]), alone) as asked:
                verdicts[place] = asked.with_promised()
                if verdicts[place] == _FAULT:
                    raise CycleError(asked.explain(_FAULT).message)
        return verdicts


class _Askable(NamedTuple):
    """A filter, its position among the filters counted from 1, and itself as one that keeps boards, if it does."""

    position: int
    plugin: FilterPlugin
    keeper: BoardFilter | None


def _askable(position: int, plugin: FilterPlugin) -> _Askable:
    return _Askable(position, plugin, plugin if isinstance(plugin, BoardFilter) else None)


class Boards:
    """The filters that have a say, in order, each with its board.

    Args:
        filters: the filters of the profile.
        state: what PreFilter worked out for *pod*.
        pod: the pod.
        guests: who comes and goes.

    Raises:
        TrialError: a filter cannot answer.
    """

    def __init__(self, filters: Sequence[_Askable], state: CycleState, pod: PodInfo, guests: Guests) -> None:
        self._state, self._pod, self._rows = state, pod, guests.rows
        self._asked: list[tuple[_Askable, Board | None]] = []
        for each in filters:
            if each.plugin.name in state.skip_filter:
                continue
            board = None
            if each.keeper is not None:
                try:
                    board = each.keeper.board(state, pod, guests)
                except FAULTS as fault:
                    raise _trial_error(each.plugin, fault) from fault
            self._asked.append((each, board))

    def copy(self) -> "Boards":
        """Boards that go their own way from here."""
        twin = object.__new__(Boards)
        twin._state, twin._pod, twin._rows = self._state, self._pod, self._rows
        twin._asked = [(each, None if board is None else board.copy()) for each, board in self._asked]
        return twin

    def move(self, guests: Indices, by: int) -> None:
        """These guests come (1) or go (-1)."""
        for _, board in self._asked:
            if board is not None:
                board.move(guests, by)

    def judge(self, places: Indices, *, again: bool) -> Verdicts:
        """int32, shape (len(places),): the first rejection of each place, or 0.

        Args:
            places: the nodes.
            again: leave out those filters that never look at pods, since they have let these nodes pass.

        Raises:
            TrialError: a filter cannot answer.
        """
        verdicts = np.zeros(len(places), dtype=np.int32)
        left = np.arange(len(places), dtype=np.intp)
        for (position, plugin, _), board in self._asked:
            if board is None and again:
                continue
            try:
                if board is not None:
                    codes = board.judge(places[left])
                else:
                    codes = plugin.filter(self._state, self._pod, self._rows[places[left]])
            except FAULTS as fault:
                raise _trial_error(plugin, fault) from fault
            rejected = codes != 0
            if not np.count_nonzero(rejected):
                continue
            verdicts[left[rejected]] = codes[rejected].astype(np.int32) + (position << SHIFT)
            left = left[~rejected]
            if not len(left):
                break
        return verdicts


class BoardTrial:
    """A question that is put to boards.

    Args:
        profile: the plugins.
        boards: their boards.
        guests: who comes and goes, and after them those who were promised a node.
        own: how many of the guests are not of the latter.

    Raises:
        TrialError: a filter cannot answer.
    """

    def __init__(self, profile: Profile, boards: Boards, guests: Guests, own: int) -> None:
        self._profile, self._boards = profile, boards
        self._crowded: Boards | None = None
        self._is_promised = np.zeros(len(guests.rows), dtype=np.bool_)
        if len(guests) > own:
            promised = np.arange(own, len(guests), dtype=np.intp)
            self._is_promised[guests.places[promised]] = True
            self._crowded = boards.copy()
            self._crowded.move(promised, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *caught: object) -> None:
        """Nothing was touched."""

    def move(self, guests: Indices, by: int) -> None:
        """These guests, each once, come (1) or go (-1)."""
        self._boards.move(guests, by)
        if self._crowded is not None:
            self._crowded.move(guests, by)

    def judge(self, places: Indices, *, again: bool = False) -> Verdicts:
        """int32, shape (len(places),): 0 where the pod fits.

        Raises:
            TrialError: a filter cannot answer.
        """
        verdicts = self._boards.judge(places, again=again)
        if self._crowded is not None:
            crowded = np.flatnonzero(self._is_promised[places])
            if len(crowded):
                with_promised = self._crowded.judge(places[crowded], again=again)
                verdicts[crowded] = np.where(with_promised == FEASIBLE, verdicts[crowded], with_promised)
        return verdicts

    def explain(self, verdict: int) -> Status:
        """What a verdict other than 0 means."""
        return explain(self._profile, verdict)


class LiveTrial:
    """A question about one node that is put to the live cluster, where it leaves no trace.

    To be used as a context, at the end of which the guests are where they were.

    Args:
        profile: the plugins.
        table: the nodes.
        extensions: those plugins whose state has to be told who comes and goes.
        state: what PreFilter worked out for *pod*.
        pod: the pod.
        guests: who comes and goes, all on one node.
        promised: who was promised this node.
    """

    def __init__(
        self,
        profile: Profile,
        table: NodeTable,
        extensions: Sequence[PreFilterExtensions],
        state: CycleState,
        pod: PodInfo,
        guests: Guests,
        promised: Sequence[PodInfo],
    ) -> None:
        self._profile, self._table, self._filters = profile, table, placed_filters(profile)
        self._extensions = tuple(plugin for plugin in extensions if plugin.name not in state.skip_filter)
        self._state, self._pod = state.clone(), pod
        self._guests, self._promised = guests, promised
        self._row = int(guests.rows[0])
        self._name = table.name(self._row)
        self._balance: dict[int, int] = {}
        self._fault = ""
        self._contexts = ExitStack()

    def __enter__(self) -> Self:
        self._contexts.enter_context(self._table.restored())
        return self

    def __exit__(self, *caught: object) -> None:
        for guest, balance in self._balance.items():
            if balance:
                self._put(self._guests.pod(guest), -balance)
        self._contexts.close()

    def move(self, guests: Indices, by: int) -> None:
        """These guests, each once, come (1) or go (-1)."""
        for guest in guests.tolist():
            pod = self._guests.pod(guest)
            self._put(pod, by)
            self._balance[guest] = self._balance.get(guest, 0) + by
            self._fault = self._fault or self._tell(self._state, pod, by)

    def judge(self, places: Indices, *, again: bool = False) -> Verdicts:
        """int32, shape (len(places),): 0 where the pod fits, an error where a plugin could not answer."""
        del again
        if not len(places):
            return np.zeros(0, dtype=np.int32)
        verdict = _FAULT if self._fault else self.with_promised()
        if verdict == FEASIBLE:
            verdict = self._ask(self._state)
        return np.array([verdict], dtype=np.int32)

    def with_promised(self) -> int:
        """The verdict if those ran there who were promised the node; 0 where nobody was."""
        if not self._promised:
            return FEASIBLE
        state, added = self._state.clone(), list[PodInfo]()
        try:
            for other in self._promised:
                self._put(other, 1)
                added.append(other)
                self._fault = self._tell(state, other, 1)
                if self._fault:
                    return _FAULT
            return self._ask(state)
        finally:
            for other in added:
                self._put(other, -1)

    def explain(self, verdict: int) -> Status:
        """What a verdict other than 0 means."""
        return error(self._fault) if verdict == _FAULT else explain(self._profile, verdict)

    def _put(self, pod: PodInfo, by: int) -> None:
        if by > 0:
            self._table.add_pod(pod, self._name)
        else:
            self._table.remove_pod(pod.uid, self._name)

    def _ask(self, state: CycleState) -> int:
        try:
            return int(judge(self._filters, state, self._pod, self._guests.rows)[0])
        except CycleError as fault:
            self._fault = str(fault)
            return _FAULT

    def _tell(self, state: CycleState, other: PodInfo, by: int) -> str:
        """Tell the plugins that a pod came or went; why one of them cannot follow, empty if all can."""
        for plugin in self._extensions:
            status = guarded(plugin.add_pod if by > 0 else plugin.remove_pod, state, self._pod, other, self._row)
            if status.code is not Code.SUCCESS:
                method = "AddPod" if by > 0 else "RemovePod"
                return f'running {method} on PreFilter plugin "{plugin.name}": {status.message}'
        return ""


def _trial_error(plugin: FilterPlugin, fault: Exception) -> TrialError:
    return TrialError(f'running "{plugin.name}" filter plugin: {fault_text(fault)}')


def _nobody(rows: Rows) -> Guests:
    nothing = np.zeros(0, dtype=np.intp)
    return Guests(rows, nothing, nothing, (), _no_guest)


def _no_guest(guest: int) -> PodInfo:
    raise IndexError(f"there is no guest {guest}")


def _joined(guests: Guests, promised: Promised) -> Guests:
    """The same guests, and after them those who were promised a node."""
    if not promised.by_place:
        return guests
    own, hopeful = len(guests), promised.by_place.values()
    pods = list(chain.from_iterable(each.pods for each in hopeful))
    kinds = np.array(list(chain.from_iterable(each.kinds for each in hopeful)), dtype=np.intp)
    places = np.repeat(np.array(list(promised.by_place), dtype=np.intp), [len(each.pods) for each in hopeful])
    return Guests(
        guests.rows,
        np.concatenate([guests.places, places]),
        np.concatenate([guests.kinds, kinds + len(guests.samples)]),
        (*guests.samples, *promised.samples),
        lambda guest: guests.pod(guest) if guest < own else pods[guest - own],
    )
