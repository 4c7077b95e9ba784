"""The kinds of objects that are kept besides pods and nodes.

A plugin names the kinds that it looks up (`berth.framework.interface.Lookups`); the shell watches those, and no others.
"""

from typing import Final

from berth.api.workloads import Namespace, ReplicaSet, ReplicationController, Service, StatefulSet
from berth.cluster.objects import Kind

NAMESPACE: Final = Kind("Namespace", Namespace)
SERVICE: Final = Kind("Service", Service)
REPLICATION_CONTROLLER: Final = Kind("ReplicationController", ReplicationController)
REPLICA_SET: Final = Kind("ReplicaSet", ReplicaSet)
STATEFUL_SET: Final = Kind("StatefulSet", StatefulSet)
