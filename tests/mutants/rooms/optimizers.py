"""Faults in kungfu_tf/optimizers/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="models-are-pushed-apart",
        file="kungfu_tf/optimizers/synchronous_averaging.py",
        text="(1 - self.alpha) * v + self.alpha * center",
        fault="(1 + self.alpha) * v - self.alpha * center",
        why="Peers are driven away from their average.",
        test="tests/python/cluster/cases/optimizers/cases_averaging.py::np3",
    ),
    Mutant(
        name="own-model-is-replaced",
        file="kungfu_tf/optimizers/pair_averaging.py",
        text="(own + other) / 2",
        fault="other",
        why="All that a peer has learned is lost with each pull.",
        test="tests/python/cluster/cases/optimizers/cases_averaging.py::np3",
    ),
    Mutant(
        name="a-peer-asks-itself",
        file="kungfu_tf/optimizers/pair_averaging.py",
        text="minval=1, maxval=most",
        fault="minval=0, maxval=most",
        why="Peers average with themselves and drift apart.",
        test="tests/python/cluster/cases/optimizers/cases_averaging.py::np3",
    ),
    Mutant(
        name="the-switch-comes-late",
        file="kungfu_tf/optimizers/adaptive_sgd.py",
        text="tf.equal(self._step, self.change_step - 1)",
        fault="tf.equal(self._step, self.change_step)",
        why="The first synchronous step is made by different models.",
        test="tests/python/cluster/cases/optimizers/cases_averaging.py::np3",
    ),
    Mutant(
        name="the-anchor-moves-the-wrong-way",
        file="kungfu_tf/exchange/anchored.py",
        text="anchor - widened(v.read_value())",
        fault="widened(v.read_value()) - anchor",
        why="Each meeting undoes what the peers have learned.",
        test="tests/python/cluster/cases/optimizers/cases_meetings.py::np3",
    ),
    Mutant(
        name="another-step-is-measured",
        file="kungfu_tf/optimizers/monitored.py",
        text="tf.equal(count % self.interval, 0)",
        fault="tf.equal(count % self.interval, 1)",
        why="Other steps are measured than the first of each interval.",
        test="tests/python/cluster/cases/optimizers/cases_monitored.py::np3",
    ),
    Mutant(
        name="loss-scale-is-not-squared",
        file="kungfu_tf/optimizers/monitored.py",
        text="norm / tf.square(scale)",
        fault="norm / scale",
        why="The noise scale of a scaled loss is another one.",
        test="tests/python/cluster/cases/optimizers/cases_monitored.py::np3",
    ),
    Mutant(
        name="models-are-mixed-by-the-first-matrix",
        file="kungfu_tf/exchange/mixed.py",
        text="topology=self.topology, step=step,",
        fault="topology=self.topology,",
        why="With a topology of one partner a step, a peer never hears of the others.",
        test="tests/python/cluster/cases/optimizers/cases_decentralized.py",
    ),
    Mutant(
        name="a-tracker-forgets-the-gradient-before",
        file="kungfu_tf/optimizers/gradient_tracking.py",
        text="dense - before.read_value()",
        fault="dense",
        why="What the peers follow grows with each step.",
        test="tests/python/cluster/cases/optimizers/cases_tracking.py",
    ),
]
