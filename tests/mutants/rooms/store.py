"""Faults in ops/store/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="window-is-too-large",
        file="ops/store/blob_store.cc",
        text="while (versions.size() > window)",
        fault="while (versions.size() > window + 1)",
        why="The store keeps a version more than it was told.",
        test="store_test P2p.",
    ),
    Mutant(
        name="queue-of-another-epoch",
        file="ops/store/blob_store.cc",
        text="if (epoch != epoch_) return EndedError(epoch);",
        fault="",
        why="What was put before a resize is got after it.",
        test="store_test Queue.",
    ),
    Mutant(
        name="another-version",
        file="ops/store/keeper.cc",
        text="waiting.query.version = pull.signature.step - 1;",
        fault="waiting.query.version = pull.signature.step;",
        why="A peer gets the version behind the one that it asked for.",
        test="store_test P2p.",
    ),
    Mutant(
        name="forget-one-name-only",
        file="ops/store/blob_store.cc",
        text="it->first.compare(0, prefix.size(), prefix) != 0",
        fault="it->first != prefix",
        why="A model of the last training is pulled in the next one.",
        test="store_test P2p.WhatIsForgottenBeginsAnew",
    ),
]
