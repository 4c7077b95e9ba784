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

from berth.sandbox.kinds import errors
from berth.sandbox.objects import items, parse_time, replaced, rfc3339, section, utc_now, without
from berth.sandbox.storage.store import Entry, Key, Store, encode, entry_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from berth.sandbox.kinds.resources import Resource, ResourceTable

JsonObject = dict[str, Any]

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_GENERATED_BASE: Final = 63 - _SUFFIX_LENGTH
_SERVER_FIELDS: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_KEPT_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})
_NOT_ON_CREATE: Final = (*_SERVER_FIELDS, "managedFields", "selfLink", "resourceVersion")
_GENERATION_STAYS: Final = frozenset({"PriorityClass"})
_OMITTED_IF_EMPTY: Final = frozenset({"labels", "annotations", "finalizers", "ownerReferences", "generateName"})
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
        metadata = _without_empties(without(section(obj, "metadata"), *_NOT_ON_CREATE))
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
        if (taken := self.store.collection(resource).get(key)) is not None:
            raise errors.already_exists(resource, key[1], leaving="deletionTimestamp" in taken.obj["metadata"])
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
            gone = self.store.remove(resource, key)
            return entry_of(new, gone.version)
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
            fault = errors.invalid_value("metadata.resourceVersion", 0, detail)
            raise errors.invalid(resource, name, [fault], named=resource.plural)
        if uid := metadata.get("uid"):
            check_storage_preconditions(resource, old, {"uid": uid})
        if version and version != kept["resourceVersion"]:
            raise errors.stale(resource, name)

    def _merged(self, resource: Resource, old: JsonObject, new: JsonObject, subresource: str) -> JsonObject:
        kept = old["metadata"]
        if subresource == "resize":
            new = {**old, "spec": _resized(old["spec"], section(new, "spec"))}
        elif subresource == "status":
            metadata = section(new, "metadata") if resource.built_in_kind in _STATUS_WRITES_METADATA else kept
            status = new.get("status")
            new = {**old, "metadata": {**metadata, "ownerReferences": items(kept, "ownerReferences")}}
            if status is not None:
                new["status"] = status
        elif resource.has_status:
            new = without(new, "status")
            if "status" in old:
                new["status"] = old["status"]
        metadata = _without_empties(without(section(new, "metadata"), "managedFields", "selfLink", *_SERVER_FIELDS))
        for name in (*_SERVER_FIELDS, "resourceVersion", "name", "namespace", "generateName"):
            if name in kept:
                metadata[name] = kept[name]
        return {**new, "metadata": metadata}

    def _counted(self, resource: Resource, old: JsonObject, new: JsonObject) -> JsonObject:
        if not resource.generation or resource.built_in_kind in _GENERATION_STAYS:
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
        if resource.built_in_kind == "Namespace":
            return self._delete_namespace(resource, entry, dry_run=options.dry_run)
        marked = self._marked(resource, entry.obj, options)
        if marked is not entry.obj:
            entry = self._shown(marked) if options.dry_run else self.store.put(resource, key, marked)
        metadata = marked["metadata"]
        if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
            return Deletion(entry, gone=False)
        if not options.dry_run:
            entry = self.store.remove(resource, key)
        return Deletion(entry, gone=True)

    def _delete_namespace(self, resource: Resource, entry: Entry, *, dry_run: bool) -> Deletion:
        metadata = entry.obj["metadata"]
        name = metadata["name"]
        if name in _KEPT_NAMESPACES:
            raise errors.forbidden(resource, name, "this namespace may not be deleted")
        if dry_run or "deletionTimestamp" in metadata:
            return Deletion(entry, gone=False)
        metadata = {**metadata, "deletionTimestamp": self.now()}
        marked = {**entry.obj, "metadata": metadata, "status": {**entry.obj["status"], "phase": "Terminating"}}
        return Deletion(self.store.put(resource, ("", name), marked), gone=False)

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
            raise errors.conflict(resource, metadata["name"], why, named=resource.kind)
        if wanted.version is not None and wanted.version != metadata["resourceVersion"]:
            why = (
                f"the ResourceVersion in the precondition ({wanted.version}) does not match the ResourceVersion "
                f"in record ({metadata['resourceVersion']}). The object might have been modified"
            )
            raise errors.conflict(resource, metadata["name"], why, named=resource.kind)

    def _marked(self, resource: Resource, obj: JsonObject, options: DeleteOptions) -> JsonObject:
        """The object with its mark of deletion, or the same object where there is nothing to mark.

        A pod is marked even if it goes at once: its watchers see it marked, then gone.
        """
        metadata = obj["metadata"]
        if resource.graceful:
            return self._marked_with_grace(obj, options.grace_s)
        if not metadata.get("finalizers") or "deletionTimestamp" in metadata:
            return obj
        return self._mark(obj, 0)

    def _marked_with_grace(self, obj: JsonObject, asked_s: int | None) -> JsonObject:
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata:
            return self._mark(obj, _grace(obj, asked_s))
        kept_s = metadata.get("deletionGracePeriodSeconds", 0)
        if kept_s == 0 or asked_s is None or asked_s >= kept_s:
            return obj
        asked_s = 1 if asked_s < 0 else asked_s
        started = parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=kept_s)
        due, now = started + timedelta(seconds=asked_s), self.clock()
        if due < now:
            due, asked_s = now, min(asked_s, 1)
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


def check_storage_preconditions(resource: Resource, obj: JsonObject, wanted: JsonObject) -> None:
    """Refuse a write that was meant for another object, or for another version of it.

    Args:
        resource: of which kind.
        obj: the kept object.
        wanted: metadata whose `uid` and `resourceVersion`, where set, have to be the kept ones.

    Raises:
        ApiError: 409.
    """
    kept = obj["metadata"]
    for name, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        value = wanted.get(name)
        if value and value != kept[name]:
            path = "/".join(filter(None, (resource.plural, kept.get("namespace"), kept["name"])))
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: {title} in precondition: {value}, "
                f"{title} in object meta: {kept[name]}"
            )
            raise errors.conflict(resource, kept["name"], why)


def _grace(pod: JsonObject, asked_s: int | None) -> int:
    spec = section(pod, "spec")
    if not spec.get("nodeName") or section(pod, "status").get("phase") in ("Succeeded", "Failed"):
        return 0
    grace_s = spec.get("terminationGracePeriodSeconds", 0) if asked_s is None else asked_s
    return 1 if grace_s < 0 else int(grace_s)


def _without_empties(metadata: JsonObject) -> JsonObject:
    return {name: value for name, value in metadata.items() if value or name not in _OMITTED_IF_EMPTY}


def _resized(spec: JsonObject, wanted: JsonObject) -> JsonObject:
    """A pod's specification with the resources of its containers, and nothing else, as wanted."""
    resources = {each["name"]: each.get("resources", {}) for each in items(wanted, "containers")}
    return {
        **spec,
        "containers": [
            {**each, "resources": resources.get(each["name"], each.get("resources", {}))} for each in spec["containers"]
        ],
    }


def _next_generation(obj: JsonObject) -> JsonObject:
    return replaced(obj, ("metadata", "generation"), obj["metadata"].get("generation", 0) + 1)


def _only_waits_for_finalizers(obj: JsonObject) -> bool:
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )
