"""Faults in ops/peer/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="numbers-without-a-bound",
        file="ops/peer/config.cc",
        text="*out >= least && *out <= most",
        fault="*out >= least",
        why="KUNGFU_LOG_LEVEL=9 is taken.",
        test="peer_test Config.",
    ),
    Mutant(
        name="empty-is-a-value",
        file="ops/peer/config.cc",
        text="if (text != nullptr && *text != '\\0')",
        fault="if (text != nullptr)",
        why="KUNGFU_STRATEGY= is an error.",
        test="peer_test Config.",
    ),
    Mutant(
        name="the-last-one-leaves-its-update",
        file="ops/peer/peer.cc",
        text="if (transactions_ && transactions_->Takes(operation))",
        fault="if (transactions_ && session()->size() > 1 && transactions_->Takes(operation))",
        why="Who is left alone amid an update waits for ever for the rest, which it begins apart.",
        test="peer_test Transactions.",
    ),
    Mutant(
        name="who-left-waits-for-survivors",
        file="ops/peer/survivors_meeting.cc",
        text='takes no part any more"));\n  NeverRepeatOnLoop();\n',
        fault='takes no part any more"));\n',
        why="What a peer begins that has left, while others were lost, waits for ever.",
        test="peer_test Survivors.",
    ),
    Mutant(
        name="those-that-have-met-are-not-asked",
        file="ops/peer/survivors_meeting.cc",
        text="    if (is_there) changed.peers = told.era.peers;\n",
        fault="",
        why="Survivors of a loss amid a change scale learning rates by different numbers of peers.",
        test="peer_test Survivors.",
    ),
    Mutant(
        name="an-interrupted-change-is-not-agreed-on",
        file="ops/peer/going_over.cc",
        text="    to_agree_on_ = change;  // the others may have met\n",
        fault="",
        why="Peers that have made one change train with different learning rates.",
        test="peer_test GoingOver.",
    ),
]
