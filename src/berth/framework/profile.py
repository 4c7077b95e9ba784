"""`Profile`: one scheduler name and the plugins that serve it, in order at each extension point.

Built once from configuration; expanding ``multiPoint`` and checking the result follow the reference to the letter, so
that a configuration file means the same here as there.  Running the plugins is the business of `berth.framework.run`.

Source: k8s pkg/scheduler/framework/runtime/framework.go, ``NewFramework``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from berth.framework.handle import Handle
from berth.framework.interface import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScoreNormalizer,
    ScorePlugin,
    SignPlugin,
)
from berth.framework.registry import Registry

P = TypeVar("P", bound=Plugin)

MULTI_POINT: Final = "multiPoint"
ALL: Final = "*"
MAX_TOTAL_SCORE: Final = 2**63 - 1
MAX_SCORE: Final = 100

# Extension point -> (protocol, the reference's word for it in messages); the order is that in which faults are found.
POINTS: Final[Mapping[str, tuple[type, str]]] = {
    "preFilter": (PreFilterPlugin, "PreFilterPlugin"),
    "filter": (FilterPlugin, "FilterPlugin"),
    "postFilter": (PostFilterPlugin, "PostFilterPlugin"),
    "reserve": (ReservePlugin, "ReservePlugin"),
    "preScore": (PreScorePlugin, "PreScorePlugin"),
    "score": (ScorePlugin, "ScorePlugin"),
    "preBind": (PreBindPlugin, "PreBindPlugin"),
    "bind": (BindPlugin, "BindPlugin"),
    "postBind": (PostBindPlugin, "PostBindPlugin"),
    "permit": (PermitPlugin, "PermitPlugin"),
    "preEnqueue": (PreEnqueuePlugin, "PreEnqueuePlugin"),
    "queueSort": (QueueSortPlugin, "QueueSortPlugin"),
}


class ProfileError(ValueError):
    """A profile that cannot be built: an unknown plugin, a plugin at the wrong point, arguments that it refuses."""


class PluginRef(Protocol):
    """A plugin in a configuration list."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def weight(self) -> int:
        """Its weight as a score plugin; 0 where none is given."""


class PluginSet(Protocol):
    """What a profile says about one extension point."""

    @property
    def enabled(self) -> Sequence[PluginRef]:
        """The plugins to run, in order."""

    @property
    def disabled(self) -> Sequence[PluginRef]:
        """The plugins not to run; ``*`` stands for all."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The plugins of one scheduler name.

    Attributes:
        scheduler_name: the name that pods ask for in ``spec.schedulerName``.
        percentage_of_nodes_to_score: how many of the nodes to look at; None where the profile does not say.
        plugins: every plugin by name, in the order of configuration.
        weights: score plugin -> weight.
        normalizers: score plugin -> itself, for those that rescale their raw scores.
        absent: plugins of the reference that the configuration names and Berth does not have.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    plugins: Mapping[str, Plugin]
    weights: Mapping[str, int]
    normalizers: Mapping[str, ScoreNormalizer]
    absent: tuple[str, ...]
    queue_sort: QueueSortPlugin
    pre_enqueue: tuple[PreEnqueuePlugin, ...]
    pre_filter: tuple[PreFilterPlugin, ...]
    filter: tuple[FilterPlugin, ...]
    post_filter: tuple[PostFilterPlugin, ...]
    pre_score: tuple[PreScorePlugin, ...]
    score: tuple[ScorePlugin, ...]
    reserve: tuple[ReservePlugin, ...]
    permit: tuple[PermitPlugin, ...]
    pre_bind: tuple[PreBindPlugin, ...]
    bind: tuple[BindPlugin, ...]
    post_bind: tuple[PostBindPlugin, ...]

    def signers(self) -> tuple[SignPlugin, ...] | None:
        """The plugins that together tell whether two pods are judged alike; None if one of them cannot tell."""
        judges = {p.name: p for p in (*self.pre_filter, *self.filter, *self.pre_score, *self.score)}
        if not all(isinstance(plugin, SignPlugin) for plugin in judges.values()):
            return None
        return tuple(cast("SignPlugin", plugin) for plugin in judges.values())


def build_profile(
    scheduler_name: str,
    sets: Mapping[str, PluginSet],
    args: Mapping[str, Any],
    registry: Registry,
    handle: Handle,
    *,
    percentage_of_nodes_to_score: int | None = None,
    known_elsewhere: frozenset[str] = frozenset(),
) -> Profile:
    """Instantiate the plugins of a profile and put each where it belongs.

    Args:
        scheduler_name: the name that pods ask for.
        sets: extension point -> what the profile says about it, defaults merged in; ``multiPoint`` among them.
        args: plugin name -> decoded arguments.
        registry: what can be built.
        handle: what the plugins are given.
        percentage_of_nodes_to_score: as configured.
        known_elsewhere: plugins of the reference; one of these that is not in *registry* is left out and reported in
            `Profile.absent`, where any other unknown name is an error.

    Raises:
        ProfileError: the profile cannot be built; the text is the reference's.
    """
    absent = _absent(sets, registry, known_elsewhere)
    present = {point: _without(plugin_set, absent) for point, plugin_set in sets.items()}
    plugins = _instantiate(present, args, registry, handle)
    multi = present.get(MULTI_POINT, _Set((), ()))
    at = {
        point: _expand(multi, present.get(point, _Set((), ())), plugins, protocol, word)
        for point, (protocol, word) in POINTS.items()
    }
    _check_single_ones(scheduler_name, at)
    return Profile(
        scheduler_name=scheduler_name,
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        plugins=plugins,
        weights=_weights(present, plugins, at["score"]),
        normalizers={p.name: p for p in at["score"] if isinstance(p, ScoreNormalizer)},
        absent=absent,
        queue_sort=cast("QueueSortPlugin", at["queueSort"][0]),
        pre_enqueue=cast("tuple[PreEnqueuePlugin, ...]", at["preEnqueue"]),
        pre_filter=cast("tuple[PreFilterPlugin, ...]", at["preFilter"]),
        filter=cast("tuple[FilterPlugin, ...]", at["filter"]),
        post_filter=cast("tuple[PostFilterPlugin, ...]", at["postFilter"]),
        pre_score=cast("tuple[PreScorePlugin, ...]", at["preScore"]),
        score=cast("tuple[ScorePlugin, ...]", at["score"]),
        reserve=cast("tuple[ReservePlugin, ...]", at["reserve"]),
        permit=cast("tuple[PermitPlugin, ...]", at["permit"]),
        pre_bind=cast("tuple[PreBindPlugin, ...]", at["preBind"]),
        bind=cast("tuple[BindPlugin, ...]", at["bind"]),
        post_bind=cast("tuple[PostBindPlugin, ...]", at["postBind"]),
    )


@dataclass(frozen=True, slots=True)
class _Set:
    enabled: Sequence[PluginRef]
    disabled: Sequence[PluginRef]


def _without(plugin_set: PluginSet, absent: Iterable[str]) -> _Set:
    return _Set([ref for ref in plugin_set.enabled if ref.name not in absent], plugin_set.disabled)


def _absent(sets: Mapping[str, PluginSet], registry: Registry, known: frozenset[str]) -> tuple[str, ...]:
    names = (ref.name for plugin_set in sets.values() for ref in plugin_set.enabled)
    return tuple(dict.fromkeys(name for name in names if name in known and name not in registry))


def _instantiate(
    sets: Mapping[str, _Set], args: Mapping[str, Any], registry: Registry, handle: Handle
) -> dict[str, Plugin]:
    order = (MULTI_POINT, *(point for point in sets if point != MULTI_POINT))
    names = dict.fromkeys(ref.name for point in order if point in sets for ref in sets[point].enabled)
    plugins: dict[str, Plugin] = {}
    for name in names:
        if name not in registry:
            continue  # reported where the name stands, with the kind of plugin that was wanted there
        try:
            plugins[name] = registry[name](args.get(name), handle)
        except ValueError as fault:
            raise ProfileError(f'initializing plugin "{name}": {fault}') from fault
    return plugins


def _expand(multi: _Set, own: _Set, plugins: Mapping[str, Plugin], protocol: type, word: str) -> tuple[Plugin, ...]:
    explicit: dict[str, Plugin] = {}
    for ref in own.enabled:
        plugin = _existing(ref, plugins, word)
        if not isinstance(plugin, protocol):
            raise ProfileError(f'plugin "{ref.name}" does not extend {word} plugin')
        _add_once(explicit, ref.name, plugin, word)
    disabled = {ref.name for ref in own.disabled}
    if ALL in disabled:
        return tuple(explicit.values())
    expanded: dict[str, Plugin] = {}
    for ref in multi.enabled:
        plugin = _existing(ref, plugins, word)
        if isinstance(plugin, protocol) and ref.name not in disabled:
            _add_once(expanded, ref.name, plugin, word)
    overrides = [plugin for name, plugin in explicit.items() if name in expanded]
    inherited = [plugin for name, plugin in expanded.items() if name not in explicit]
    additions = [plugin for name, plugin in explicit.items() if name not in expanded]
    return (*overrides, *inherited, *additions)


def _existing(ref: PluginRef, plugins: Mapping[str, Plugin], word: str) -> Plugin:
    if ref.name not in plugins:
        raise ProfileError(f'{word} "{ref.name}" does not exist')
    return plugins[ref.name]


def _add_once(to: dict[str, Plugin], name: str, plugin: Plugin, word: str) -> None:
    if name in to:
        raise ProfileError(f'plugin "{name}" already registered as "{word}"')
    to[name] = plugin


def _check_single_ones(scheduler_name: str, at: Mapping[str, tuple[Plugin, ...]]) -> None:
    sorters = len(at["queueSort"])
    if sorters != 1:
        raise ProfileError(
            f'only one queue sort plugin required for profile with scheduler name "{scheduler_name}", but got {sorters}'
        )
    if not at["bind"]:
        raise ProfileError(f'at least one bind plugin is needed for profile with scheduler name "{scheduler_name}"')


def _weights(sets: Mapping[str, _Set], plugins: Mapping[str, Plugin], scorers: tuple[Plugin, ...]) -> dict[str, int]:
    """Score plugin -> weight; plugins that are disabled at Score count towards the limit, as in the reference."""
    weights: dict[str, int] = {}
    total = 0
    for point in ("score", MULTI_POINT):
        for ref in sets[point].enabled if point in sets else ():
            if ref.name in weights or not isinstance(plugins[ref.name], ScorePlugin):
                continue
            weights[ref.name] = ref.weight or 1
            if weights[ref.name] * MAX_SCORE > MAX_TOTAL_SCORE - total:
                raise ProfileError("score plugins: total score of Score plugins could overflow")
            total += weights[ref.name] * MAX_SCORE
    for plugin in scorers:
        if plugin.name not in weights:
            raise ProfileError(f'score plugin "{plugin.name}" is not configured with weight')
    return weights
