"""The gallery: broken mechanisms, each beside a correct one, that the audit must find."""

from __future__ import annotations

from typing import NamedTuple

from tacit.audit.audit import audit_algorithm
from tacit.audit.broken_mechanisms import (
    AllRecordsAsABatch,
    BatchClipping,
    CorrectGossip,
    FreshNoisePerNeighbour,
    HalvedSensitivity,
    MissingBatchFactor,
    RealisedBatchSize,
    ResentWithFreshNoise,
    SentBeforeTheRelease,
    SharedSeed,
    ShuffledAsPoisson,
    SplitByRank,
    UnrecordedRounds,
)
from tacit.audit.broken_pairs import PairedGossip, PairsWithoutOwnNoise, ReplayedStep, RevealedSeeds
from tacit.audit.broken_statistics import GramGossip, HalvedGramSensitivity, MeanGossip, NoiseOfTheMean
from tacit.audit.results import TrialsAudit
from tacit.runs import Batch, PrivacyTarget


class GalleryEntry(NamedTuple):
    """A broken mechanism and a setting in which an audit can detect its mistake.

    `other_gradient` is the gradient of all records except the canary. `correct_batch` is set if the correct mechanism
    samples batches differently. `correct` is the mechanism without the mistake.
    """

    broken: type[CorrectGossip]
    batch: Batch = Batch(size=None)
    records: int = 2
    other_gradient: float = 0.0
    rounds: int = 4
    multiplier: float = 2.0
    correct_batch: Batch | None = None
    correct: type[CorrectGossip] = CorrectGossip

    def audit(self, *, broken: bool, trials: int = 20_000, confidence: float = 0.95, seed: int = 0) -> TrialsAudit:
        """Audit the broken mechanism, or the correct one on the same data."""
        algorithm = (self.broken if broken else self.correct)(multiplier=self.multiplier).with_rounds(self.rounds)
        return audit_algorithm(
            algorithm,
            self.batch if broken or self.correct_batch is None else self.correct_batch,
            self.records,
            trials=trials,
            privacy=PrivacyTarget(delta=1e-5),
            confidence=confidence,
            seed=seed,
            other_gradient=self.other_gradient,
        )


_PERMUTATION, _POISSON = (Batch(size=1, sampling=kind) for kind in ("permutation", "poisson"))
GALLERY: dict[str, GalleryEntry] = {
    "fresh noise per neighbour": GalleryEntry(FreshNoisePerNeighbour),
    "missing batch factor": GalleryEntry(MissingBatchFactor, records=4),
    "batch clipping": GalleryEntry(BatchClipping, records=4),
    "halved sensitivity": GalleryEntry(HalvedSensitivity, Batch(size=None, relation="replace-one")),
    "shuffled as Poisson": GalleryEntry(
        ShuffledAsPoisson, _PERMUTATION, 12, rounds=12, multiplier=0.25, correct_batch=_POISSON
    ),
    "realised batch size": GalleryEntry(RealisedBatchSize, Batch(size=9, sampling="poisson"), 10, other_gradient=-1.0),
    "unrecorded rounds": GalleryEntry(UnrecordedRounds),
    "resent with fresh noise": GalleryEntry(ResentWithFreshNoise),
    "shared seed": GalleryEntry(SharedSeed),
    "split by rank": GalleryEntry(SplitByRank, records=5, other_gradient=-1.0),
    "all records as a batch": GalleryEntry(AllRecordsAsABatch, _POISSON, 12, correct_batch=Batch(size=None)),
    "sent before the release": GalleryEntry(SentBeforeTheRelease),
    "pairs without own noise": GalleryEntry(PairsWithoutOwnNoise, correct=PairedGossip),
    "revealed seeds": GalleryEntry(RevealedSeeds, correct=PairedGossip),
    "replayed step": GalleryEntry(ReplayedStep, correct=PairedGossip),
    "halved Gram sensitivity": GalleryEntry(HalvedGramSensitivity, rounds=1, correct=GramGossip),
    "noise of the mean": GalleryEntry(NoiseOfTheMean, records=4, rounds=1, correct=MeanGossip),
}
