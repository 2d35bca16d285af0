"""Faults in ops/elastic/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="a-report-of-two-lines",
        file="ops/elastic/control.cc",
        text="if (static_cast<unsigned char>(c) < ' ') c = ' ';",
        fault="if (c == '\\t') c = ' ';",
        why="A report's second line is taken for a command.",
        test="elastic_test Control.",
    ),
    Mutant(
        name="lines-without-end",
        file="ops/elastic/control.cc",
        text="if (received_.size() > kMaxLine) LostOnLoop();",
        fault="",
        why="A runner that breaks the protocol fills the peer's memory.",
        test="elastic_test Control.ALineWithoutEndIsNotBelieved",
    ),
    Mutant(
        name="runner-is-not-missed",
        file="ops/elastic/control.cc",
        text="handlers_.runner_lost();",
        fault="",
        why="Peers go on when their launcher is gone.",
        test="elastic_test Control.NoticesThatTheRunnerIsGone",
    ),
]
