"""What the API server was asked, by whom, when, and with which answer: its audit log.

The server writes a line before it answers, so a request that somebody has an answer to is in the log. Bindings and the
leases of elections are recorded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {
            "level": "Request",
            "verbs": ["create", "update"],
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class Request:
    """One line of the log.

    Attributes:
        user: who asked.
        name: of the object.
        code: of the answer.
        received, answered: when, as the API server writes times, so that text order is time order.
        body: what was sent, where the policy keeps it.
    """

    user: str
    name: str
    code: int
    received: str
    answered: str
    body: dict[str, Any]


class Audit:
    """The log of one API server.

    Args:
        folder: for the policy and the log.
    """

    def __init__(self, folder: Path) -> None:
        self._policy, self._log = folder / "policy.yaml", folder / "audit.log"
        self._policy.write_text(yaml.safe_dump(_POLICY), encoding="utf-8")

    @property
    def flags(self) -> list[str]:
        """What the API server has to be started with."""
        return [
            f"--audit-policy-file={self._policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-mode=blocking-strict",
        ]

    def bindings(self, *, by: str) -> list[Request]:
        """The bindings that a user asked for, in the order of their arrival."""
        return self._requests(by, "pods", "")

    def leases(self, name: str, *, by: str) -> list[Request]:
        """The writes of a lease that a user asked for, in the order of their arrival."""
        return self._requests(by, "leases", name)

    def _requests(self, user: str, resource: str, name: str) -> list[Request]:
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        found = [
            Request(
                user,
                line["objectRef"].get("name", ""),
                line["responseStatus"]["code"],
                line["requestReceivedTimestamp"],
                line["stageTimestamp"],
                line.get("requestObject", {}),
            )
            for line in map(json.loads, lines)
            if line["user"]["username"] == user and line["objectRef"]["resource"] == resource
        ]
        mine = [request for request in found if not name or name in (request.name, _name(request.body))]
        return sorted(mine, key=lambda request: request.received)


def _name(body: dict[str, Any]) -> str:
    return str(body.get("metadata", {}).get("name", ""))
