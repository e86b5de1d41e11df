"""Try all mutants, or some: `python -m tests.mutants [WORD ...]`."""

import argparse
import sys

from tests.mutants.mutant import ROOT, load_mutants
from tests.mutants.runner import run_mutants


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tests.mutants", description="Check that tests catch privacy mistakes.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only mutants whose name or area contains a WORD")
    parser.add_argument("--jobs", type=int, default=2, help="mutants to try at once (default: 2)")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for the tests of a mutant (default: 300)")
    options = parser.parse_args(arguments)
    mutants = [mutant for mutant in load_mutants() if mutant.matches(options.words)]
    if not mutants:
        parser.error(f"no mutant contains {' or '.join(options.words)}")
    print(f"{len(mutants)} mutants. Their tests run on the correct code first.", flush=True)
    failures = 0
    for done, outcome in enumerate(run_mutants(mutants, ROOT, jobs=options.jobs, timeout=options.timeout), 1):
        failures += outcome.verdict != "caught"
        mutant, place = outcome.mutant, f"[{done}/{len(mutants)}]"
        print(f"{place:>9} {outcome.verdict:8} {outcome.seconds:5.1f} s  {mutant.area}: {mutant.name}", flush=True)
        print(f"{'':28}{outcome.detail}", flush=True)
    print(f"{len(mutants) - failures} of {len(mutants)} mutants are caught.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
