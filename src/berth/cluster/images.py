"""Which images lie on which nodes.

Owned by `berth.cluster.nodes.NodeTable`, read by the ImageLocality plugin.

Source: k8s pkg/scheduler/backend/cache/cache.go, ``addNodeImageStates``.
"""

from dataclasses import dataclass, field

from berth.api.node import ContainerImage


@dataclass(slots=True)
class ImageState:
    """One image name.

    Attributes:
        size_bytes: the size as the first node that had the image reported it; kept until the last such node is gone.
        rows: the rows of the nodes that hold it.
    """

    size_bytes: int
    rows: set[int] = field(default_factory=set)


class ImageTable:
    """All image names, and the nodes that hold each.

    Attributes:
        version: grows with every change; judgements about images made under another version are void.
    """

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}
        self._held: dict[int, tuple[ContainerImage, ...]] = {}
        self.version = 0

    def set(self, row: int, images: tuple[ContainerImage, ...]) -> None:
        """Record what the node of *row* holds now."""
        if self._held.get(row, ()) == images:
            return
        self.version += 1
        self._remove(row)
        if not images:
            return
        self._held[row] = images
        for image in images:
            for name in image.names:
                state = self._states.get(name)
                if state is None:
                    state = self._states[name] = ImageState(image.size_bytes)
                state.rows.add(row)

    def get(self, name: str) -> ImageState | None:
        """What is known of the image *name*; None if no node holds it."""
        return self._states.get(name)

    def _remove(self, row: int) -> None:
        for image in self._held.pop(row, ()):
            for name in image.names:
                state = self._states.get(name)
                if state is None:
                    continue
                state.rows.discard(row)
                if not state.rows:
                    del self._states[name]
