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
        text="return EndedError(epoch);\n  blob->head.version =",
        fault="{}\n  blob->head.version =",
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
    Mutant(
        name="what-replaces-is-added",
        file="ops/store/blob_store.cc",
        text="if (added->head.replaces) return BlobRef(sum);",
        fault="",
        why="What a peer puts into a window is added to what it has put before.",
        test="store_test Outbox.",
    ),
    Mutant(
        name="nothing-from-a-peer-that-has-left",
        file="ops/store/request.cc",
        text="request_->waits || request_->query.takes ? why",
        fault="request_->waits ? why",
        why="A window goes on without a source that has ended, as if it had left nothing yet.",
        test="store_test Outbox.",
    ),
]
