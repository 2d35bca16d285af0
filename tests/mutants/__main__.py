"""Seeded faults, and whether `make test` finds them.

    make mutants                             all of them
    make mutants MUTANTS='plan shard-rank'   those of a room, or one by its name

Each is made in a copy of the tree, in build/mutants, and the test that should find it runs there.
The same tests must pass without a fault, or finding one would mean nothing.

Exit code 1 if a mutant is not found, or cannot be tried.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tests.mutants import building, scratch, trial
from tests.mutants.mutant import Mutant, rooms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="of rooms or mutants; default: all")
    mutants = _chosen(parser.parse_args().names)
    scratch.make()
    broken = _broken_without_a_fault(mutants)
    outcomes = []
    for mutant in mutants:
        start = time.monotonic()
        outcome = "not tried: its test fails anyway" if mutant.test in broken else _try(mutant)
        outcomes.append(outcome)
        print(f"{outcome:10} {mutant.name} ({time.monotonic() - start:.0f} s)", flush=True)
    found = outcomes.count("found")
    print(f"{found} of {len(mutants)} mutants found")
    return 0 if found == len(mutants) else 1


def _chosen(names: Sequence[str]) -> list[Mutant]:
    """In an order in which those of one folder are built one after the other."""
    by_room = rooms()
    known = {*by_room, *(mutant.name for room in by_room.values() for mutant in room)}
    if unknown := set(names) - known:
        raise SystemExit(f"no room and no mutant: {', '.join(sorted(unknown))}")
    return [
        mutant
        for room, mutants in by_room.items()
        for mutant in sorted(mutants, key=lambda one: one.file)
        if not names or room in names or mutant.name in names
    ]


def _broken_without_a_fault(mutants: Sequence[Mutant]) -> set[str]:
    """The tests that fail before anything was changed. Those of Python run all at once."""
    tests = list(dict.fromkeys(mutant.test for mutant in mutants))
    python = [test for test in tests if ".py" in test]
    broken = set()
    if python and not trial.passes(python):
        broken = {test for test in python if not trial.passes([test])}
    for test in (test for test in tests if ".py" not in test):
        building.build_test(test)
        if not trial.passes([test]):
            broken.add(test)
    print(f"{len(tests) - len(broken)} of {len(tests)} tests pass without a fault", flush=True)
    for test in sorted(broken):
        print(f"  fails: {test}", flush=True)
    return broken


def _try(mutant: Mutant) -> str:
    try:
        with scratch.spoilt_by(mutant):
            building.build(mutant)
            return "NOT FOUND" if trial.passes([mutant.test]) else "found"
    except (building.BuildError, trial.TrialError, ValueError) as error:
        print(f"{mutant.name}: {error}", flush=True)
        return "not tried"
    finally:
        scratch.put_libraries_back()


if __name__ == "__main__":
    sys.exit(main())
