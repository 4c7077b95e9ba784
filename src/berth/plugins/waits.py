"""Who waits for which objects, so that a change wakes those whom it concerns.

Used by plugins whose PreBind waits for what others do with an object.  Nothing is asked of the API server: what it
shows comes to those who wait, as it comes to everybody.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from berth.framework.handle import Wait


class Waits:
    """Waits, by the keys or names of what they are about."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._about: defaultdict[str, set[Wait]] = defaultdict(set)

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._about)

    @contextmanager
    def told(self, wait: Wait, topics: Iterable[str]) -> Iterator[None]:
        """A block during which *wait* is woken by changes of these."""
        own = frozenset(topics)
        for topic in own:
            self._about[topic].add(wait)
        try:
            yield
        finally:
            for topic in own:
                self._about[topic].discard(wait)
                if not self._about[topic]:
                    del self._about[topic]

    def wake(self, topic: str) -> None:
        """Wake those who wait for this."""
        for wait in self._about.get(topic, ()):
            wait.wake()
