"""The life of an object: created, updated, bound, deleted.

What the generic registry is to kube-apiserver: it fills in the metadata that belongs to the server, checks that a
writer saw the newest version, keeps status and the rest apart, counts generations, and carries out deletions with
finalizers and grace. Defaults and rules of single kinds come from an `Admission`. It relies on `store` for versions and
raises `errors.ApiError` for every refusal. Called by `handlers` for requests and by the hollow nodes, on one thread.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

from berth.sandbox import errors
from berth.sandbox.objects import items, parse_time, replaced, rfc3339, section, utc_now, without
from berth.sandbox.store import Entry, Key, Store, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from berth.sandbox.resources import Resource, ResourceTable

JsonObject = dict[str, Any]

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_GENERATED_BASE: Final = 63 - _SUFFIX_LENGTH
_SERVER_FIELDS: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
# Kinds whose labels and annotations may be written through the status subresource.
_STATUS_WRITES_METADATA: Final = frozenset({"Pod", "Node", "Namespace"})


class Admission(Protocol):
    """Defaults and rules of single kinds."""

    def create(self, resource: Resource, key: Key, obj: JsonObject) -> JsonObject:
        """The object to create, with defaults; *obj* may be changed in place.

        Raises:
            ApiError: the object breaks a rule.
        """
        ...

    def update(self, resource: Resource, old: JsonObject, new: JsonObject, subresource: str) -> JsonObject:
        """The object to write over *old*; neither may be changed in place.

        Raises:
            ApiError: the change breaks a rule.
        """
        ...


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What has to be true of the stored object for a write to go on; None asks for nothing."""

    uid: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """How to delete: with which grace (None: the object's own), under which conditions, really or for show."""

    grace_s: int | None = None
    preconditions: Preconditions = field(default_factory=Preconditions)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """The outcome: the object's last state, and whether it is gone or only marked."""

    entry: Entry
    gone: bool


class Registry:
    """The objects of one embedded API server, and the rules of their lives.

    Args:
        store: where they are kept.
        table: which kinds there are.
        admission: defaults and rules of single kinds.
        clock: the time; a plain function so that tests can set it.
        new_uid: where uids come from.
        suffixes: generator for the endings of generated names.
    """

    def __init__(
        self,
        store: Store,
        table: ResourceTable,
        admission: Admission,
        *,
        clock: Callable[[], datetime] = utc_now,
        new_uid: Callable[[], str] = lambda: str(uuid4()),
        suffixes: random.Random | None = None,
    ) -> None:
        self.store = store
        self.table = table
        self.clock = clock
        self._admission = admission
        self._new_uid = new_uid
        self._suffixes = suffixes or random.Random()

    def now(self) -> str:
        """The time as objects carry it."""
        return rfc3339(self.clock())

    def get(self, resource: Resource, key: Key) -> Entry:
        """The object at *key*.

        Raises:
            ApiError: 404.
        """
        entry = self.store.collection(resource).get(key)
        if entry is None:
            raise errors.not_found(resource, key[1])
        return entry

    def create(self, resource: Resource, namespace: str, obj: JsonObject, *, dry_run: bool = False) -> Entry:
        """Keep a new object.

        Args:
            resource: of which kind.
            namespace: where; empty for objects of the whole cluster.
            obj: the object in its stored form, owned by this call from now on.
            dry_run: only show what would be kept.

        Raises:
            ApiError: 409 if the name is taken; 404, 403, 422 if it breaks a rule.
        """
        metadata = {name: value for name, value in section(obj, "metadata").items() if name not in _NOT_ON_CREATE}
        obj["metadata"] = metadata
        self._name(resource, namespace, metadata)
        metadata["uid"] = self._new_uid()
        metadata["creationTimestamp"] = self.now()
        if resource.generation:
            metadata["generation"] = 1
        if resource.has_status and not resource.status_on_create:
            obj.pop("status", None)
        key = (namespace, metadata["name"])
        obj = self._admission.create(resource, key, obj)
        if self.store.collection(resource).get(key) is not None:
            raise errors.already_exists(resource, key[1])
        return self._shown(obj) if dry_run else self.store.put(resource, key, obj)

    def _name(self, resource: Resource, namespace: str, metadata: JsonObject) -> None:
        if not metadata.get("name"):
            base = metadata.get("generateName")
            if not base:
                raise errors.invalid(
                    resource, "", [errors.required("metadata.name", "name or generateName is required")]
                )
            suffix = "".join(self._suffixes.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
            metadata["name"] = base[:_MAX_GENERATED_BASE] + suffix
        if namespace:
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)

    def update(
        self, resource: Resource, key: Key, new: JsonObject, *, subresource: str = "", dry_run: bool = False
    ) -> Entry:
        """Write over an object, if the writer saw its newest version.

        Args:
            resource: of which kind.
            key: which object.
            new: the object as the writer wants it, in its stored form; may share parts with the kept one.
            subresource: `status` to change only that; empty for all but the status.
            dry_run: only show what would be kept.

        Returns:
            What is kept now; the unchanged entry if nothing differs. Of an object that was only waiting for its last
            finalizer, its last state.

        Raises:
            ApiError: 404, 409 if the version or uid is not the kept one, 422 if the change breaks a rule.
        """
        entry = self.get(resource, key)
        self._check_version(resource, entry.obj, new)
        new = self._merged(resource, entry.obj, new, subresource)
        new = self._admission.update(resource, entry.obj, new, subresource)
        new = self._counted(resource, entry.obj, new)
        if new == entry.obj:
            return entry
        if dry_run:
            return self._shown(new)
        if _only_waits_for_finalizers(new):
            return self.store.remove(resource, key)
        return self.store.put(resource, key, new)

    def replace(self, resource: Resource, key: Key, obj: JsonObject) -> Entry:
        """Write a new state that the server itself worked out, without checks."""
        return self.store.put(resource, key, obj)

    def _check_version(self, resource: Resource, old: JsonObject, new: JsonObject) -> None:
        metadata, kept = section(new, "metadata"), old["metadata"]
        name = kept["name"]
        version = metadata.get("resourceVersion")
        if not version and not resource.unconditional_update:
            detail = "must be specified for an update"
            raise errors.invalid(resource, name, [errors.invalid_value("metadata.resourceVersion", 0, detail)])
        uid = metadata.get("uid")
        if uid and uid != kept["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {kept['uid']}"
            raise errors.conflict(resource, name, why)
        if version and version != kept["resourceVersion"]:
            raise errors.stale(resource, name)

    def _merged(self, resource: Resource, old: JsonObject, new: JsonObject, subresource: str) -> JsonObject:
        kept = old["metadata"]
        if subresource == "status":
            metadata = section(new, "metadata") if resource.kind in _STATUS_WRITES_METADATA else kept
            status = new.get("status")
            new = {**old, "metadata": {**metadata, "ownerReferences": items(kept, "ownerReferences")}}
            if not new["metadata"]["ownerReferences"]:
                del new["metadata"]["ownerReferences"]
            if status is not None:
                new["status"] = status
        elif resource.has_status:
            new = without(new, "status")
            if "status" in old:
                new["status"] = old["status"]
        metadata = without(section(new, "metadata"), "managedFields", "selfLink", *_SERVER_FIELDS)
        for name in (*_SERVER_FIELDS, "resourceVersion", "name", "namespace", "generateName"):
            if name in kept:
                metadata[name] = kept[name]
        return {**new, "metadata": metadata}

    def _counted(self, resource: Resource, old: JsonObject, new: JsonObject) -> JsonObject:
        if not resource.generation:
            return new
        changed = any(new.get(name) != old.get(name) for name in {*new, *old} if name not in ("metadata", "status"))
        return _next_generation(new) if changed else new

    def delete(self, resource: Resource, key: Key, options: DeleteOptions) -> Deletion:
        """Delete an object, or mark it where its node or its finalizers have to agree first.

        Raises:
            ApiError: 404, 409 if a precondition is not met.

        Source:
            k8s apiserver/pkg/registry/rest/delete.go, `BeforeDelete`; pkg/registry/core/pod/strategy.go,
            `CheckGracefulDelete`.
        """
        entry = self.get(resource, key)
        self.check_preconditions(resource, entry.obj, options.preconditions)
        marked = self._marked(resource, entry.obj, options)
        if marked is not None and marked is not entry.obj:
            entry = self._shown(marked) if options.dry_run else self.store.put(resource, key, marked)
        if marked is not None:
            return Deletion(entry, gone=False)
        return Deletion(entry if options.dry_run else self.store.remove(resource, key), gone=True)

    @staticmethod
    def check_preconditions(resource: Resource, obj: JsonObject, wanted: Preconditions) -> None:
        """Refuse a deletion of another object, or of a newer version, than the caller meant.

        Raises:
            ApiError: 409.
        """
        metadata = obj["metadata"]
        if wanted.uid is not None and wanted.uid != metadata["uid"]:
            why = (
                f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({metadata['uid']}). "
                "The object might have been deleted and then recreated"
            )
            raise errors.conflict(resource, metadata["name"], why)
        if wanted.version is not None and wanted.version != metadata["resourceVersion"]:
            why = (
                f"the ResourceVersion in the precondition ({wanted.version}) does not match the ResourceVersion "
                f"in record ({metadata['resourceVersion']}). The object might have been modified"
            )
            raise errors.conflict(resource, metadata["name"], why)

    def _marked(self, resource: Resource, obj: JsonObject, options: DeleteOptions) -> JsonObject | None:
        """The object with its mark of deletion; the same object if nothing changes; None if it may go at once."""
        metadata = obj["metadata"]
        if resource.graceful:
            marked = self._marked_with_grace(obj, options.grace_s)
            if marked is not None:
                return marked
        if not metadata.get("finalizers"):
            return None
        if "deletionTimestamp" not in metadata:
            return self._mark(obj, 0)
        if metadata.get("deletionGracePeriodSeconds") == 0:
            return obj
        return replaced(obj, ("metadata", "deletionGracePeriodSeconds"), 0)

    def _marked_with_grace(self, obj: JsonObject, asked_s: int | None) -> JsonObject | None:
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata:
            grace_s = _grace(obj, asked_s)
            return self._mark(obj, grace_s) if grace_s > 0 else None
        kept_s = metadata.get("deletionGracePeriodSeconds", 0)
        if kept_s == 0 or asked_s == 0:
            return None
        if asked_s is None or asked_s >= kept_s:
            return obj
        started = parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=kept_s)
        due = started + timedelta(seconds=asked_s)
        now = self.clock()
        if due < now:
            due, asked_s = now, 1
        metadata = {**metadata, "deletionTimestamp": rfc3339(due), "deletionGracePeriodSeconds": asked_s}
        return {**obj, "metadata": metadata}

    def _mark(self, obj: JsonObject, grace_s: int) -> JsonObject:
        due = self.clock() + timedelta(seconds=grace_s)
        metadata = {
            **obj["metadata"],
            "deletionTimestamp": rfc3339(due),
            "deletionGracePeriodSeconds": grace_s,
        }
        marked = {**obj, "metadata": metadata}
        return _next_generation(marked) if metadata.get("generation") else marked

    def _shown(self, obj: JsonObject) -> Entry:
        """An entry for a dry run: encoded, not kept, under the version it had."""
        return Entry(obj, encode(obj), 0)


_NOT_ON_CREATE: Final = frozenset({*_SERVER_FIELDS, "managedFields", "selfLink", "resourceVersion"})


def _grace(pod: JsonObject, asked_s: int | None) -> int:
    spec = section(pod, "spec")
    if not spec.get("nodeName") or section(pod, "status").get("phase") in ("Succeeded", "Failed"):
        return 0
    grace_s = spec.get("terminationGracePeriodSeconds", 0) if asked_s is None else asked_s
    return 1 if grace_s < 0 else int(grace_s)


def _next_generation(obj: JsonObject) -> JsonObject:
    return replaced(obj, ("metadata", "generation"), obj["metadata"].get("generation", 0) + 1)


def _only_waits_for_finalizers(obj: JsonObject) -> bool:
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )
