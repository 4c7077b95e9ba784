"""`CycleState`: what the plugins worked out for one pod in one attempt.

Plugins leave typed values under keys of their own; the framework notes which plugins sit the attempt out.

Source: k8s pkg/scheduler/framework/cycle_state.go.
"""

import copy
from typing import Any, Generic, TypeVar

from berth.api.meta import PodKey
from berth.api.pod import Pod

T = TypeVar("T")


class StateKey(Generic[T]):
    """A name under which one plugin keeps one type of value."""

    def __init__(self, name: str) -> None:
        self.name = name


class StateNotFoundError(KeyError):
    """Nothing was left under a key: a plugin was asked out of turn."""


class CycleState:
    """Values by key, and the plugins that sit out.

    Attributes:
        skip_filter: names of plugins whose Filter and PreFilter extensions are not called for this pod.
        skip_score: names of plugins whose Score is not called for this pod.
        skip_pre_bind: names of plugins whose PreBind is not called for this pod.
        pods_to_activate: waiting pods that a plugin wants tried at once, after this attempt.
    """

    __slots__ = ("_values", "pods_to_activate", "skip_filter", "skip_pre_bind", "skip_score")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        self.pods_to_activate: dict[PodKey, Pod] = {}

    def read(self, key: StateKey[T]) -> T:
        """The value under *key*.

        Raises:
            StateNotFoundError: there is none.
        """
        try:
            value: T = self._values[key.name]
        except KeyError:
            raise StateNotFoundError(f'reading "{key.name}" from cycleState: not found') from None
        return value

    def get(self, key: StateKey[T]) -> T | None:
        """The value under *key*; None if there is none."""
        value: T | None = self._values.get(key.name)
        return value

    def write(self, key: StateKey[T], value: T) -> None:
        """Leave *value* under *key*, in place of what was there."""
        self._values[key.name] = value

    def delete(self, key: StateKey[T]) -> None:
        """Leave nothing under *key*."""
        self._values.pop(key.name, None)

    def clone(self) -> "CycleState":
        """A state to play with: values are copied, the sets of those who sit out are shared."""
        twin = CycleState()
        twin._values = {name: copy.copy(value) for name, value in self._values.items()}
        twin.skip_filter, twin.skip_score, twin.skip_pre_bind = self.skip_filter, self.skip_score, self.skip_pre_bind
        twin.pods_to_activate = self.pods_to_activate
        return twin
