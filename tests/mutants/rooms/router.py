"""Faults in ops/router/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="credit-is-twice-as-much",
        file="ops/router/in_link.cc",
        text="if (parked_ > kParkLimit)",
        fault="if (parked_ > 2 * kParkLimit)",
        why="A peer fills the memory of another.",
        test="router_test Flood.",
    ),
    Mutant(
        name="a-message-twice",
        file="ops/router/mailbox.cc",
        text="} else if (slot->source || slot->arrived || slot->spoiled) {",
        fault="} else if (slot->spoiled) {",
        why="A message that is sent twice replaces the first.",
        test="router_test Mailbox.",
    ),
    Mutant(
        name="the-new-epoch-is-dropped",
        file="ops/router/mailbox.cc",
        text="if (id.epoch < epoch) old.push_back(id);",
        fault="if (id.epoch <= epoch) old.push_back(id);",
        why="The first peer in a new epoch is never heard.",
        test="router_test Mailbox.",
    ),
    Mutant(
        name="half-a-message-stays",
        file="ops/router/mailbox.cc",
        text="slot.spoiled = std::exchange(slot.arriving, false);",
        fault="slot.arriving = false;",
        why="Half of a message is taken for the whole after a reconnection.",
        test="router_test Mailbox.",
    ),
    Mutant(
        name="resting-box-hears",
        file="ops/router/mailbox_places.h",
        text="if (box.number == number && !box.rests) return &box;",
        fault="if (box.number == number) return &box;",
        why="A message that comes after its operation is taken for one of the next.",
        test="router_test Mailbox.",
    ),
    Mutant(
        name="a-new-connection-is-a-sign-of-life",
        file="ops/router/peer_links.cc",
        text="  sent_ = 0;\n",
        fault="",
        why="A silent peer is taken for one that was heard when its connections were renewed.",
        test="router_test Renewed.",
    ),
]
