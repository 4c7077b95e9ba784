"""The Kubernetes client: credentials, sessions, reflectors, paced writes, events and leases.

It knows HTTP and knows no scheduling; the runtime builds on it, and nothing here imports anything of ours but
`berth.api`. A process has one `CredentialKeeper`, whose `run` is a task of its own, and one `ApiSession` per purpose.
"""

from berth.kube.binding import BindOutcome, BindResult
from berth.kube.clock import SYSTEM_CLOCK, Clock
from berth.kube.credentials import CredentialKeeper, CredentialSource, InCluster, Kubeconfig, choose_source
from berth.kube.discovery import Discovery, ServerVersion, discover, server_version
from berth.kube.dispatcher import Dispatcher, PatchOutcome, PatchResult
from berth.kube.errors import ApiError, CredentialsError, KubeError, TransportError
from berth.kube.events import EventRecorder, ObjectRef
from berth.kube.leases import ElectionConfig, LeaderElector, LeadershipLostError, new_identity
from berth.kube.reflector import Handler, Reflector, Resource
from berth.kube.session import Api, ApiSession
from berth.kube.status_patch import KnownStatus, StatusChange

__all__ = [
    "SYSTEM_CLOCK",
    "Api",
    "ApiError",
    "ApiSession",
    "BindOutcome",
    "BindResult",
    "Clock",
    "CredentialKeeper",
    "CredentialSource",
    "CredentialsError",
    "Discovery",
    "Dispatcher",
    "ElectionConfig",
    "EventRecorder",
    "Handler",
    "InCluster",
    "KnownStatus",
    "KubeError",
    "Kubeconfig",
    "LeaderElector",
    "LeadershipLostError",
    "ObjectRef",
    "PatchOutcome",
    "PatchResult",
    "Reflector",
    "Resource",
    "ServerVersion",
    "StatusChange",
    "TransportError",
    "choose_source",
    "discover",
    "new_identity",
    "server_version",
]
