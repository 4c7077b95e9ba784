"""ImageLocality: prefers nodes that already hold the pod's images.

Points: Score (not normalized: the bounds are fixed).  Rejects nothing, waits for nothing, takes no arguments.  An image
counts with its size times the share of nodes that hold it, so that not all pods of an image crowd onto one node.

Source: k8s pkg/scheduler/framework/plugins/imagelocality/image_locality.go.
"""

from collections.abc import Hashable, Iterator
from typing import Final

import numpy as np

from berth.api.pod import Pod
from berth.cluster.columns import Mask, Rows
from berth.cluster.images import ImageState
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.interface import MAX_NODE_SCORE, Scope, Scores

MIN_THRESHOLD: Final = 23 * 2**20  # bytes of images that are not worth a preference
MAX_THRESHOLD_PER_IMAGE: Final = 1000 * 2**20  # bytes per image of the pod from which the score is full
_FEW: Final = 64  # rows up to which asking one by one beats building a mask


def normalized_image_name(name: str) -> str:
    """The name with ``:latest`` where it has neither tag nor digest, as nodes report it."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name


class ImageLocality:
    """Adds up the images of the pod that lie on each node."""

    name = "ImageLocality"
    scope = Scope.ROW

    def __init__(self, handle: Handle) -> None:
        self._table = handle.cluster.table
        self._volumes_raise_bound = handle.behaviours.image_volumes_count_in_image_locality

    def epoch(self) -> Hashable:
        """Which images lie where, and how many nodes there are."""
        return self._table.images.version, len(self._table)

    def sign(self, pod: PodInfo) -> Hashable:
        """The images of the containers, and those of the volumes."""
        return tuple(_container_images(pod.pod)), tuple(_volume_images(pod.pod))

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """0..100 by the bytes of the pod's images on each node, between the two thresholds."""
        del state
        total = np.zeros(len(rows), dtype=np.int64)
        containers, volumes = tuple(_container_images(pod.pod)), tuple(_volume_images(pod.pod))
        for name in containers + volumes:
            image = self._table.images.get(normalized_image_name(name))
            if image is not None:
                total[_holders(image, rows)] += self._scaled_bytes(image)
        if not np.count_nonzero(total):
            return total
        return _between_thresholds(total, len(containers) + (len(volumes) if self._volumes_raise_bound else 0))

    def _scaled_bytes(self, image: ImageState) -> int:
        return int(image.size_bytes * (len(image.rows) / len(self._table)))


def _container_images(pod: Pod) -> Iterator[str]:
    for container in pod.spec.init_containers:
        yield container.image
    for container in pod.spec.containers:
        yield container.image


def _volume_images(pod: Pod) -> Iterator[str]:
    return (volume.image.reference for volume in pod.spec.volumes if volume.image is not None)


def _holders(image: ImageState, rows: Rows) -> Mask:
    if len(rows) <= _FEW:
        return np.array([row in image.rows for row in rows.tolist()], dtype=np.bool_)
    holders = np.fromiter(image.rows, dtype=np.intp, count=len(image.rows))
    held = np.zeros(max(int(rows.max()), int(holders.max())) + 1, dtype=np.bool_)
    held[holders] = True
    return held[rows]


def _between_thresholds(total: Scores, images: int) -> Scores:
    most = MAX_THRESHOLD_PER_IMAGE * images
    bounded = np.where(total < MIN_THRESHOLD, MIN_THRESHOLD, np.minimum(total, most))
    return MAX_NODE_SCORE * (bounded - MIN_THRESHOLD) // (most - MIN_THRESHOLD)
