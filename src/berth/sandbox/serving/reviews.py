"""Reviews of tokens and permissions: questions that are answered and not kept.

Whoever has the sandbox's token may do everything; without a token, everybody may. Called by `server` for a POST.
"""

from __future__ import annotations

from typing import Any, Final

from berth.sandbox.objects import section

JsonObject = dict[str, Any]

USER: Final = {"username": "sandbox-admin", "groups": ["system:masters", "system:authenticated"]}
REVIEW_KINDS: Final = frozenset(
    {
        "TokenReview",
        "SelfSubjectReview",
        "SubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "LocalSubjectAccessReview",
    }
)


def reviewed(kind: str, review: JsonObject, token: str | None) -> JsonObject:
    """The review with its answer.

    Args:
        kind: one of `REVIEW_KINDS`.
        review: the question.
        token: the token that the server accepts; None accepts all.
    """
    review = {"metadata": {}, **review}
    if kind == "TokenReview":
        return {**review, "status": _token_status(section(review, "spec").get("token", ""), token)}
    if kind == "SelfSubjectReview":
        return {**review, "status": {"userInfo": USER}}
    if kind == "SelfSubjectRulesReview":
        every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        urls = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        return {**review, "status": {"resourceRules": [every], "nonResourceRules": [urls], "incomplete": False}}
    return {**review, "status": {"allowed": True}}


def _token_status(given: str, wanted: str | None) -> JsonObject:
    if not given or wanted not in (None, given):
        return {"authenticated": False, "user": {}, "error": "the token is not that of this sandbox"}
    return {"authenticated": True, "user": USER}
