"""Whether somebody may have a page of ours.

Cluster administrators may, and some paths are open to all; anything else the API server is asked about with a
SubjectAccessReview. Where there is nobody to ask, the answer is no.

Source: k8s apiserver pkg/server/options/authorization.go; plugin/pkg/authorizer/webhook/webhook.go.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from berth.kube.clock import SYSTEM_CLOCK, Clock
from berth.runtime.serving.delegation import Memory, Reviewer, ReviewError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.kube.pacing import TokenBucket
    from berth.kube.session import Api
    from berth.runtime.metrics.access import AccessMetrics
    from berth.runtime.serving.authentication import User

ADMINISTRATORS: Final = "system:masters"
"""The group whose members may do everything."""

_PATH: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_LONGEST_REMEMBERED: Final = 10_000  # bytes of a question; a stranger decides how long it is


@dataclass(frozen=True, slots=True)
class Decision:
    """Yes or no, and the reason that the API server gave."""

    allowed: bool
    reason: str = ""
    denied: bool = False
    """Whether a no is somebody's word, rather than the lack of a yes."""


class AccessReviewStatus(msgspec.Struct):
    """The status of a SubjectAccessReview."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""


class Authorizer:
    """Decides about requests.

    Args:
        api: whom to ask; None where nobody can be asked.
        pace: of reviews, shared with authentication.
        always_allow: paths that are open to all; one that ends in ``*`` opens all that begin like it.
        allowed_ttl_s: how long a yes is remembered, in seconds.
        denied_ttl_s: the same for a no.
        metrics: hear of decisions and reviews.
        clock: for memory and retries.
    """

    def __init__(
        self,
        api: Api | None,
        pace: TokenBucket,
        *,
        always_allow: Sequence[str],
        allowed_ttl_s: float,
        denied_ttl_s: float,
        metrics: AccessMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._exact = frozenset(path for path in always_allow if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in always_allow if path.endswith("*"))
        self._ttl_s = {True: allowed_ttl_s, False: denied_ttl_s}
        self._metrics, self._clock = metrics, clock
        self._memory: Memory[Decision] = Memory(clock.monotonic)
        self._reviewer = (
            None
            if api is None
            else Reviewer(
                api,
                pace,
                name="authz",
                path=_PATH,
                kind="SubjectAccessReview",
                status=AccessReviewStatus,
                metrics=metrics,
                clock=clock,
            )
        )

    async def authorize(self, user: User, path: str, verb: str) -> Decision:
        """Whether *user* may *verb* (an HTTP method in small letters) *path*.

        Raises:
            ReviewError: the API server could not be asked.
        """
        began_s, result = self._clock.monotonic(), "error"
        try:
            decision = await self._decide(user, path, verb)
            result = "allowed" if decision.allowed else "denied" if decision.denied else "no-opinion"
        finally:
            if self._metrics is not None:
                self._metrics.authorized(result, self._clock.monotonic() - began_s)
        return decision

    async def _decide(self, user: User, path: str, verb: str) -> Decision:
        if ADMINISTRATORS in user.groups or path in self._exact or path.startswith(self._prefixes):
            return Decision(allowed=True)
        if self._reviewer is None:
            return Decision(allowed=False)
        spec: dict[str, Any] = {
            "user": user.name,
            "groups": list(user.groups),
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in sorted(user.extra.items())}
        question = msgspec.json.encode(spec, order="deterministic")
        if len(question) > _LONGEST_REMEMBERED:
            return (await self._ask(spec))[0]
        return await self._memory.get(hashlib.sha256(question).digest(), lambda: self._ask(spec))

    async def _ask(self, spec: dict[str, Any]) -> tuple[Decision, float]:
        if self._reviewer is None:
            raise ReviewError("there is nobody to ask")
        status = await self._reviewer.review(spec)
        if status.allowed and status.denied:
            raise ReviewError("SubjectAccessReview: the answer is both yes and no")
        return Decision(status.allowed, status.reason, status.denied), self._ttl_s[status.allowed]
