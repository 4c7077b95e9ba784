"""Which fault befalls which request, drawn from a seed.

A `FaultPlan` is asked by the proxy for the fate of every request and of every line of a watch. The draws for each verb
and resource come from a generator of their own, so that the same seed gives the same sequence of fates for, say, the
bindings, however they are interleaved with other requests. The plan can be changed while the proxy runs: a chaos suite
turns faults on, cuts a replica off, stalls a watch, and lets everything heal before it judges.
"""

from __future__ import annotations

import enum
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 504: "Timeout"}
REFUSALS_OF_WRITES = (409, 429, 500)
REFUSALS_OF_READS = (429, 500)
REFUSALS_OF_LISTS = (410, 429, 500)
READS = frozenset({"get", "list", "watch"})


class Kind(enum.StrEnum):
    """What happens to a request, or to a line of a watch."""

    NOTHING = "nothing"
    REFUSE = "refuse"  # answered with an error; the server never sees it
    AFTER_COMMIT = "after-commit"  # carried out, and answered with 504
    CUT = "cut"  # the connection breaks before the server sees it
    CUT_AFTER = "cut-after"  # carried out, and the answer is lost with the connection
    DUPLICATE = "duplicate"  # a line comes twice
    LOSE = "lose"  # this line and all that follow on the stream are lost; the next watch is answered with 410
    END = "end"  # the stream is cut after the line


_OF_REQUESTS = (Kind.REFUSE, Kind.AFTER_COMMIT, Kind.CUT, Kind.CUT_AFTER)
_OF_LINES = (Kind.DUPLICATE, Kind.LOSE, Kind.END)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How likely each fault is, from 0 to 1, per request or per line of a watch.

    Attributes:
        delay: a wait of up to `longest_delay_s` before anything else.
        refuse: an error instead of the server's answer.
        after_commit: for writes, 504 although the server did it.
        cut: a broken connection instead of a request.
        cut_after: for writes, a broken connection instead of the answer.
        duplicate: a line that comes twice.
        lose: lines that never come, up to a 410.
        end: a watch that breaks off.
        longest_delay_s: see `delay`.
        reads: whether reads, too, are refused, delayed and cut.
    """

    delay: float = 0.0
    refuse: float = 0.0
    after_commit: float = 0.0
    cut: float = 0.0
    cut_after: float = 0.0
    duplicate: float = 0.0
    lose: float = 0.0
    end: float = 0.0
    longest_delay_s: float = 0.2
    reads: bool = True

    def __post_init__(self) -> None:
        rates = {each.name: getattr(self, each.name) for each in fields(self)[:-2]}
        if bad := {name: rate for name, rate in rates.items() if not 0.0 <= rate <= 1.0}:
            raise ValueError(f"rates are from 0 to 1, got {bad}")


CALM = Rates()
ROUGH = Rates(delay=0.1, refuse=0.05, after_commit=0.03, cut=0.02, cut_after=0.03, duplicate=0.05, lose=0.003, end=0.01)


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to one request or line.

    Attributes:
        kind: what.
        delay_s: how long it waits first.
        status: what a refused request is answered with.
    """

    kind: Kind
    delay_s: float = 0.0
    status: int = 0


@dataclass
class FaultPlan:
    """The fates of all requests through one proxy; safe to be changed from other threads.

    Attributes:
        seed: of all draws.
        rates: for requests and lines to come.
        special: rates for a verb (``line`` for what watches show) and a resource, in place of `rates`.
        spared: resources to which nothing happens, such as `leases`.
        stalled: resources whose watches deliver nothing, without being cut.
        severed: resources for which every request is cut, such as `leases`.
        isolated: whether every connection is broken and none comes about.
        counts: how many faults there were, by kind.
        last_fault_s: when the last one was, by the clock that never goes back.
    """

    seed: int
    rates: Rates = CALM
    special: Mapping[tuple[str, str], Rates] = field(default_factory=dict)
    spared: frozenset[str] = frozenset()
    stalled: frozenset[str] = frozenset()
    severed: frozenset[str] = frozenset()
    isolated: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    last_fault_s: float = 0.0
    _chances: dict[tuple[str, str], random.Random] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_request(self, verb: str, resource: str) -> Fate:
        """What happens to the next request.

        Args:
            verb: as in access rules: get, list, watch, create, update, patch, delete.
            resource: plural, with the subresource after a slash.
        """
        with self._lock:
            chance, rates = self._chance(verb, resource), self._rates(verb, resource)
            if resource.partition("/")[0] in self.severed:
                return self._fate(Kind.CUT, 0.0, 0)
            if verb in READS and not rates.reads:
                rates = CALM
            kind = _draw(chance, rates, _OF_REQUESTS)
            delay_s = chance.random() * rates.longest_delay_s if chance.random() < rates.delay else 0.0
            status = chance.choice(_refusals(verb))
            if verb in READS and kind in {Kind.AFTER_COMMIT, Kind.CUT_AFTER}:
                kind = Kind.NOTHING
            return self._fate(kind, delay_s, status if kind is Kind.REFUSE else 0)

    def of_line(self, resource: str) -> Fate:
        """What happens to the next line of a watch."""
        with self._lock:
            chance, rates = self._chance("line", resource), self._rates("line", resource)
            kind = _draw(chance, rates, _OF_LINES)
            delay_s = chance.random() * rates.longest_delay_s if chance.random() < rates.delay else 0.0
            return self._fate(kind, delay_s, 0)

    def heal(self) -> None:
        """No more faults from now on."""
        with self._lock:
            self.rates, self.special, self.isolated = CALM, {}, False
            self.stalled = self.severed = frozenset()
            self.last_fault_s = time.monotonic()

    def note(self, kind: str) -> None:
        """Count a fault that was not drawn."""
        with self._lock:
            self.counts[kind] += 1
            self.last_fault_s = time.monotonic()

    def _rates(self, verb: str, resource: str) -> Rates:
        ordinary = CALM if resource.partition("/")[0] in self.spared else self.rates
        return self.special.get((verb, resource), ordinary)

    def _chance(self, verb: str, resource: str) -> random.Random:
        if (verb, resource) not in self._chances:
            self._chances[verb, resource] = random.Random(f"{self.seed} {verb} {resource}")
        return self._chances[verb, resource]

    def _fate(self, kind: Kind, delay_s: float, status: int) -> Fate:
        if kind is not Kind.NOTHING:
            self.counts[f"{kind} {status}" if status else str(kind)] += 1
        if delay_s:
            self.counts["delay"] += 1
        if kind is not Kind.NOTHING or delay_s:
            self.last_fault_s = time.monotonic()
        return Fate(kind, delay_s, status)


def _draw(chance: random.Random, rates: Rates, kinds: tuple[Kind, ...]) -> Kind:
    at = chance.random()
    for kind in kinds:
        rate: float = getattr(rates, kind.value.replace("-", "_"))
        if at < rate:
            return kind
        at -= rate
    return Kind.NOTHING


def _refusals(verb: str) -> tuple[int, ...]:
    if verb in {"list", "watch"}:
        return REFUSALS_OF_LISTS
    return REFUSALS_OF_READS if verb in READS else REFUSALS_OF_WRITES
