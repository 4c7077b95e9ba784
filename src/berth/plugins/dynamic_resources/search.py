"""The search for devices on one node.

Claims are met one after the other, of each claim its requests, of each request one device after the other, each by
the first device that will do.  Where there is none, the last choice is taken back and the next one tried.  The first
full solution counts.  Choices are kept on a stack of our own, for claims may ask for more devices than calls can nest.

Source: k8s dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go, ``allocateOne``.
"""

import enum
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.api.dra import ALL, MAX_RESULTS
from berth.api.node import Taint
from berth.api.tolerations import DO_NOT_SCHEDULE, tolerates
from berth.plugins.dynamic_resources.allocated import AllocatedState, Amounts
from berth.plugins.dynamic_resources.capacity import Taking, has_room, taking
from berth.plugins.dynamic_resources.constraints import Constraint
from berth.plugins.dynamic_resources.counters import CounterLedger
from berth.plugins.dynamic_resources.errors import AllocationError, AllocationTimeoutError
from berth.plugins.dynamic_resources.ids import DeviceId, PoolId
from berth.plugins.dynamic_resources.pools import Candidate, DeviceRecord, Pool
from berth.plugins.dynamic_resources.requests import Demand, Wish
from berth.plugins.dynamic_resources.rules import AllocatorRules

_STEPS: Final = 256  # between two looks at the clock


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A device for a wish.

    Attributes:
        wish: what it is for.
        candidate: the device.
        taken: what is taken of its capacities; None where it is not shared.
    """

    wish: Wish
    candidate: Candidate
    taken: Taking | None


class _Outcome(enum.Enum):
    """How an attempt ends."""

    CHOSEN = enum.auto()  # so far
    FOUND = enum.auto()
    FAILED = enum.auto()
    TOO_MANY = enum.auto()  # more devices than a claim can have, whatever is chosen for the rest of it


class _Position(NamedTuple):
    """How far the search has come.

    Attributes:
        claim: the number of the claim.
        request: the number of the request.
        wish: what is being met; None at the beginning of a request.
        done: how many devices the wish has already.
        start: the first candidate for the next one.
    """

    claim: int
    request: int
    wish: Wish | None
    done: int
    start: int


@dataclass(slots=True, eq=False)
class _Frame:
    """A place where something else could have been chosen.

    Attributes:
        claim: the number of the claim.
        request: the number of the request.
        alternative: the number of the alternative that is being tried; -1 before the first, or where this is about a
            device.
        wish: what a device is chosen for; None where an alternative is chosen.
        done: how many devices the wish has already.
        next: the candidate to be tried next.
        choice: the device that is being tried.
        drew: whether the counters were charged for it.
        all_too_many: whether all alternatives so far were given up for being too many devices.
    """

    claim: int
    request: int
    wish: Wish | None
    alternative: int = -1
    done: int = 0
    next: int = 0
    choice: Choice | None = None
    drew: bool = False
    all_too_many: bool = True


class Search:
    """One search.

    Args:
        rules: what is in force.
        demand: what is asked for.
        candidates: the devices, in the order in which they are tried.
        constraints: those of each claim.
        everything: for each wish that wants all devices, what these are.
        allocated: the devices that claims have.
        selectable: whether a wish selects a device; raises AllocationError.
        taints: the taints of a device.
        expired: whether it is time to give up; asked now and then.
    """

    def __init__(
        self,
        rules: AllocatorRules,
        demand: Demand,
        candidates: Sequence[Candidate],
        constraints: Sequence[Sequence[Constraint]],
        everything: Mapping[Wish, Sequence[Candidate]],
        allocated: AllocatedState,
        selectable: Callable[[Wish, Candidate], bool],
        taints: Callable[[DeviceRecord], Sequence[Taint]],
        expired: Callable[[], bool] | None,
    ) -> None:
        self._rules, self._demand, self._candidates = rules, demand, candidates
        self._constraints, self._everything = constraints, everything
        self._allocated, self._selectable, self._taints, self._expired = allocated, selectable, taints, expired
        self._stack: list[_Frame] = []
        self._counts = [0] * len(demand.claims)
        self._holders: dict[DeviceId, Counter[int]] = {}
        self._allocating: dict[DeviceId, Amounts] = {}
        self._sharers: Counter[DeviceId] = Counter()
        self._ledgers: dict[PoolId, CounterLedger] = {}
        self._takings: dict[tuple[Wish, DeviceId], Taking | None] = {}
        self._steps = 0
        self._at = _Position(0, 0, None, 0, 0)
        self._overfull = -1

    def run(self) -> list[Choice] | None:
        """The devices, in the order of the wishes; None if there is no solution.

        Raises:
            AllocationError: something is at fault.
            AllocationTimeoutError: it took too long.
        """
        outcome = self._advance()
        while outcome is not _Outcome.FOUND:
            if outcome is _Outcome.CHOSEN:
                outcome = self._advance()
            elif self._stack:
                outcome = self._resume(outcome)
            else:
                return None
        return [frame.choice for frame in self._stack if frame.choice is not None]

    # -- forward -----------------------------------------------------------------------------------------------------

    def _advance(self) -> _Outcome:
        """Go on as far as nothing has to be chosen; then choose."""
        claim, request, wish, done, start = self._at
        while True:
            if wish is None:
                if claim == len(self._demand.claims):
                    return _Outcome.FOUND
                requests = self._demand.requests[claim]
                if request == len(requests):
                    claim, request = claim + 1, 0
                    continue
                if requests[request].has_alternatives:
                    return self._choose_alternative(_Frame(claim, request, None))
                wish, done, start = requests[request].wishes[0], 0, 0
            wanted = self._wanted(wish)
            if wish.mode == ALL and wanted == 0:
                return _Outcome.FAILED
            if done < wanted:
                if self._counts[claim] + wanted - done > MAX_RESULTS:
                    return self._too_many(claim)
                return self._choose_device(_Frame(claim, request, wish, done=done, next=start), wish)
            request, wish = request + 1, None

    def _wanted(self, wish: Wish) -> int:
        return len(self._everything[wish]) if wish.mode == ALL else wish.count

    def _choose_alternative(self, frame: _Frame) -> _Outcome:
        """Try the next alternative."""
        wishes = self._demand.requests[frame.claim][frame.request].wishes
        frame.alternative += 1
        if frame.alternative == len(wishes):
            return self._too_many(frame.claim) if frame.all_too_many else _Outcome.FAILED
        self._stack.append(frame)
        self._at = _Position(frame.claim, frame.request, wishes[frame.alternative], 0, 0)
        return _Outcome.CHOSEN

    def _too_many(self, claim: int) -> _Outcome:
        self._overfull = claim
        return _Outcome.TOO_MANY

    def _choose_device(self, frame: _Frame, wish: Wish) -> _Outcome:
        """Try the next device."""
        is_all = wish.mode == ALL
        candidates = self._everything[wish][frame.done : frame.done + 1] if is_all else self._candidates
        while frame.next < len(candidates):
            candidate = candidates[frame.next]
            frame.next += 1
            self._look_at_the_clock()
            if not is_all and not self._is_eligible(wish, candidate):
                continue
            if self._take(frame, wish, candidate, must=is_all):
                self._stack.append(frame)
                self._at = _Position(frame.claim, frame.request, wish, frame.done + 1, 0 if is_all else frame.next)
                return _Outcome.CHOSEN
        return _Outcome.FAILED

    def _look_at_the_clock(self) -> None:
        self._steps += 1
        if self._expired is not None and self._steps % _STEPS == 0 and self._expired():
            raise AllocationTimeoutError("timed out trying to allocate devices")

    # -- back --------------------------------------------------------------------------------------------------------

    def _resume(self, outcome: _Outcome) -> _Outcome:
        """Something failed: take the last choice back and choose something else."""
        frame = self._stack.pop()
        if outcome is _Outcome.TOO_MANY and frame.claim != self._overfull:
            outcome = _Outcome.FAILED
        if frame.wish is None:
            frame.all_too_many = frame.all_too_many and outcome is _Outcome.TOO_MANY
            return self._choose_alternative(frame)
        self._release(frame, frame.wish)
        return outcome if outcome is _Outcome.TOO_MANY else self._choose_device(frame, frame.wish)

    # -- one device --------------------------------------------------------------------------------------------------

    def _is_eligible(self, wish: Wish, candidate: Candidate) -> bool:
        """Whether it is worth the while to try to take the device."""
        return (
            not self._is_in_use(wish, candidate.record)
            and self._selectable(wish, candidate)
            and self._fits(wish, candidate.record)
        )

    def _is_in_use(self, wish: Wish, record: DeviceRecord) -> bool:
        holders = self._holders.get(record.id)
        if wish.admin_access:
            return holders is not None and holders[wish.place[0]] > 0
        return self._allocated.is_taken(record.id) or bool(holders)

    def _fits(self, wish: Wish, record: DeviceRecord) -> bool:
        """Whether the device has as much of its capacities left as the wish takes."""
        if not self._rules.consumable_capacity:
            return True
        taken = self._taking(wish, record)
        if taken is None:
            return False
        return has_room(record, taken, self._allocated.consumed(record.id), self._allocating.get(record.id))

    def _taking(self, wish: Wish, record: DeviceRecord) -> Taking | None:
        key = (wish, record.id)
        if key not in self._takings:
            self._takings[key] = taking(record, wish.capacity, fractional=self._rules.fractional_capacity)
        return self._takings[key]

    def _take(self, frame: _Frame, wish: Wish, candidate: Candidate, *, must: bool) -> bool:
        """Take the device, if counters, taints and constraints let us; it is selectable."""
        record = candidate.record
        if self._is_in_use(wish, record):
            return False
        draws = bool(record.device.consumes_counters)
        if draws and not self._rules.partitionable_devices:
            return False
        frame.drew = draws and not self._is_charged_already(record)
        if frame.drew and not self._ledger(candidate.pool).draw(record.device):
            return False
        if not self._is_allowed(wish, record, must=must):
            if frame.drew and self._rules.corrected_counters:
                self._ledger(candidate.pool).give_back(record.device)
            return False
        if not self._fits(wish, record):
            self._give_up(frame, wish, candidate)
            return False
        self._book(frame, wish, candidate)
        return True

    def _is_charged_already(self, record: DeviceRecord) -> bool:
        if not record.is_shared:
            return False
        if self._rules.corrected_counters:
            return self._allocated.is_allocated(record.id) or self._sharers[record.id] > 0
        return self._allocated.is_consumed(record.id) or record.id in self._allocating

    def _is_allowed(self, wish: Wish, record: DeviceRecord, *, must: bool) -> bool:
        """Whether taints and constraints let the wish have the device; if so, the constraints know of it."""
        if self._rules.device_taints and not self._tolerates(wish, record):
            return False
        constraints = self._constraints[wish.place[0]]
        for number, constraint in enumerate(constraints):
            if constraint.add(wish.request, wish.subrequest, record):
                continue
            if must:
                raise AllocationError(
                    f"claim {self._demand.claims[wish.place[0]].key}, request {wish.name}: cannot add device "
                    f"{record.id} because a claim constraint would not be satisfied"
                )
            for earlier in constraints[:number]:
                earlier.remove(wish.request, wish.subrequest)
            return False
        return True

    def _tolerates(self, wish: Wish, record: DeviceRecord) -> bool:
        return all(
            any(tolerates(toleration, taint) for toleration in wish.tolerations)
            for taint in self._taints(record)
            if taint.effect in DO_NOT_SCHEDULE
        )

    def _book(self, frame: _Frame, wish: Wish, candidate: Candidate) -> None:
        record = candidate.record
        taken = self._taking(wish, record) if record.is_shared else None
        if record.is_shared:
            self._sharers[record.id] += 1
            self._allocate(record.id, taken, 1)
        else:
            self._holders.setdefault(record.id, Counter())[wish.place[0]] += 1
        self._counts[frame.claim] += 1
        frame.choice = Choice(wish, candidate, taken)

    def _release(self, frame: _Frame, wish: Wish) -> None:
        """Give the device up again."""
        if frame.choice is None:
            return
        candidate, taken = frame.choice.candidate, frame.choice.taken
        record = candidate.record
        frame.choice = None
        self._counts[frame.claim] -= 1
        if record.is_shared:
            self._sharers[record.id] -= 1
            self._allocate(record.id, taken, -1)
        else:
            holders = self._holders[record.id]
            holders[wish.place[0]] -= 1
            if not holders.total():
                del self._holders[record.id]
        self._give_up(frame, wish, candidate)

    def _give_up(self, frame: _Frame, wish: Wish, candidate: Candidate) -> None:
        for constraint in self._constraints[wish.place[0]]:
            constraint.remove(wish.request, wish.subrequest)
        if frame.drew and (self._rules.corrected_counters or not candidate.record.is_shared):
            self._ledger(candidate.pool).give_back(candidate.record.device)

    def _allocate(self, device: DeviceId, taken: Taking | None, sign: int) -> None:
        amounts = self._allocating.setdefault(device, {})
        for name, amount in (taken or {}).items():
            amounts[name] = amounts.get(name, 0) + sign * amount.nano
        if not any(amounts.values()):
            del self._allocating[device]

    def _ledger(self, pool: Pool) -> CounterLedger:
        ledger = self._ledgers.get(pool.id)
        if ledger is None:
            ledger = self._ledgers[pool.id] = CounterLedger(pool, self._allocated)
        return ledger
