"""Faults in ops/transport/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="header-without-its-root",
        file="ops/transport/wire.cc",
        text="PutLittleEndian(out + kRoot, header.signature.root);",
        fault="",
        why="A message does not say its root: peers with different roots are not told.",
        test="transport_test Wire.",
    ),
    Mutant(
        name="names-without-end",
        file="ops/transport/wire.cc",
        text="if (*name_size > kMaxNameSize)",
        fault="if (*name_size > 2 * kMaxNameSize)",
        why="A stranger makes us read longer names than we allow.",
        test="transport_test Wire.",
    ),
    Mutant(
        name="secret-is-not-checked",
        file="ops/transport/handshake.cc",
        text=(
            "if (IsProof(proof, Proof(credentials_.secret, At(kClient, place), hello_, nonce_)))"
        ),
        fault="if (proof != nullptr)",
        why="Whoever knows the protocol joins the job.",
        test="transport_test Handshake.",
    ),
    Mutant(
        name="proof-without-a-nonce",
        file="ops/transport/handshake.cc",
        text="const std::string said = side + hello + nonce;",
        fault="const std::string said = side + hello;",
        why="A recorded handshake can be replayed.",
        test="transport_test Handshake.",
    ),
    Mutant(
        name="ring-of-memory-overruns",
        file="ops/transport/shm/ring.cc",
        text="return static_cast<size_t>(ring_.capacity - (written_ - read_));",
        fault="return static_cast<size_t>(ring_.capacity - (written_ - read_) + 64);",
        why="What was not read is written over.",
        test="transport_test Ring.",
    ),
    Mutant(
        name="a-core-is-shared-late",
        file="ops/transport/event_loop.cc",
        text="const int most = patience.SharesCores() ? 1 : kLooks;",
        fault="const int most = kLooks;",
        why="Where peers outnumber cores each keeps its core from the one that it waits for.",
        test="transport_test EventLoop.",
    ),
]
