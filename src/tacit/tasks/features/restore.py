"""From the description of features in a model file to the same map, or to a reason why it is not the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.tasks.features.build import FeatureName, RecordFacts, build_parts, sourced_parts, width
from tacit.tasks.features.description import FeatureDescription
from tacit.tasks.features.feature_map import FeatureMap
from tacit.tasks.features.own import OwnFeature
from tacit.tasks.features.public import NO_WHITENING
from tacit.tasks.features.registry import features
from tacit.tasks.features.whitening import Whitening

_HOW = "pass it with tacit.load(..., features=[...]), or name its file: --features FILE.py:NAME"


def restore_features(
    description: FeatureDescription, state: Mapping[str, Tensor], given: Sequence[FeatureName] | None = None
) -> FeatureMap:
    """Return the map of a trained model, with the whitening of its file.

    Args:
        description: What the map consists of.
        state: The whitening.
        given: The user's own features among those of the run, in their order. Names of built-in features are ignored.
            Only files that are named here are executed, and never those that the description names.

    Raises:
        TacitError: A feature is missing or is another one than that of the run, or the whitening does not fit.
    """
    facts = RecordFacts(description.inputs, description.tokens, description.pixels)
    parts = build_parts(_chosen(description.names, given), facts)
    _check_sources(description, parts)
    whitening = None
    if description.whiten != NO_WHITENING:
        try:
            whitening = Whitening(state["mean"], state["projection"])
        except KeyError:
            raise TacitError("the model file is damaged: the whitening of its features is missing") from None
    found = width(parts, facts)
    expected = description.values if whitening is None else len(whitening.mean)
    if found != expected:
        raise TacitError(f"the features have {found} values per record, but those of the run have {expected}")
    return FeatureMap(parts, description, whitening)


def _chosen(names: Sequence[str], given: Sequence[FeatureName] | None) -> list[FeatureName]:
    """Return the features of a run: the built-in ones by name, and the user's own ones as they are given."""
    own = [each for each in given or () if not (isinstance(each, str) and each in features)]
    missing = [name for name in names if name not in features]
    if missing and not own:
        raise TacitError(f"feature {missing[0]} of this run is not part of Tacit: {_HOW}")
    if len(own) != len(missing):
        listed = ", ".join(missing) or "no features of your own"
        raise TacitError(f"features has {len(own)} of your own, but this run has {len(missing)} ({listed})")
    for each in own:
        if isinstance(each, str) and ".py:" not in each:
            raise TacitError(f'features contains "{each}": pass the function or module itself, or FILE.py:NAME')
    remaining = iter(own)
    return [name if name in features else next(remaining) for name in names]


def _check_sources(description: FeatureDescription, parts: Sequence[nn.Module]) -> None:
    """Refuse features that have other code or other weights than those of the run.

    A source is a name and digests: of code and weights and, if a feature was named by its file, of the file.
    """
    sourced = sourced_parts(parts)
    if len(sourced) > len(description.sources):
        raise TacitError("the model file is damaged: digests of its features are missing")
    for (part, found), recorded in zip(sourced, description.sources, strict=False):
        pairs = list(zip(_digests(found), _digests(recorded), strict=False))
        if pairs and all(here == there for here, there in pairs):
            continue
        if isinstance(part, OwnFeature):
            raise TacitError(
                f"feature {part.name} is not that of the run: its code, its file or its weights differ. Restore the "
                "version with which the run was trained"
            )
        raise TacitError(f"{found.split()[0]} has other weights here than in the run: use the version that trained it")


def _digests(source: str) -> list[str]:
    return re.findall(r"\b[0-9a-f]{64}\b", source)
