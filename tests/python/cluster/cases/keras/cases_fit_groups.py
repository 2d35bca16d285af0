"""`fit` by the members of a group: its optimizer's group is who trains the model."""

from __future__ import annotations

import numpy as np
from fits import Seen, keras, model_of, samples
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import errors

JOBS = [{"np": 4}]

PAIRS = [(0, 2), (1, 3)]
GROUPS = {ranks: kf.Group(ranks) for ranks in [*PAIRS, (1, 2, 3), (3,)]}


def grouped(ranks):
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    return kf.optimizers.SynchronousSGDOptimizer(optimizer, group=GROUPS[tuple(ranks)])


def trained(model, data, batch_size, **arguments):
    """Its history and its weights."""
    history = model.fit(*data, batch_size, epochs=3, shuffle=False, verbose=0, **arguments).history
    return history, model.get_weights()


def check(ranks, run, data, batch_size):
    """The run is that of one process on all samples of the members, whose batches it joins."""
    plain = keras.optimizers.SGD(0.1, momentum=0.9)
    history, weights = trained(model_of(plain, ["accuracy"]), data, batch_size)
    np.testing.assert_allclose(run[0]["loss"], history["loss"], rtol=1e-12)
    np.testing.assert_allclose(run[0]["accuracy"], history["accuracy"], rtol=1e-12)
    for ours, theirs in zip(run[1], weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def share(ranks, data):
    rank = GROUPS[tuple(ranks)].rank()
    return [part[rank :: len(ranks)] for part in data]


def case_two_groups_train_models_of_their_own_at_once():
    """Each peer comes to the one of its own pair, so both run at the same time."""
    pair = PAIRS[kf.rank() % 2]
    first = 24 * pair[0]
    data = [part[first : first + 24] for part in samples(48)]
    seen = Seen()
    model = model_of(grouped(pair), ["accuracy"], seed=11 if kf.rank() == pair[0] else 12)
    run = trained(model, share(pair, data), 4, callbacks=[seen])
    assert seen.batches == 9
    check(pair, run, data, 8)


def case_uneven_data_of_a_group():
    """Two members have more batches than the third."""
    ranks = (1, 2, 3)
    if not GROUPS[ranks].included:
        return
    data = samples(22)
    run = trained(model_of(grouped(ranks), ["accuracy"]), share(ranks, data), 1)
    check(ranks, run, data, 3)


def case_a_group_of_one_trains_as_one_process():
    if GROUPS[3,].included:
        data = samples(8)
        check((3,), trained(model_of(grouped((3,)), ["accuracy"]), data, 4), data, 4)


def case_batches_of_a_group():
    """`train_on_batch`: the members begin with the weights of the first of them."""
    ranks = (1, 2, 3)
    if not GROUPS[ranks].included:
        return
    model, plain = model_of(grouped(ranks), seed=kf.rank()), model_of("sgd", seed=1)
    data = samples(12)
    for _ in range(3):
        model.train_on_batch(*share(ranks, data))
    plain.compile(keras.optimizers.SGD(0.1, momentum=0.9), "binary_crossentropy")
    for _ in range(3):
        plain.train_on_batch(*data)
    for ours, theirs in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


# Of two peers each of these makes the step of one process.
METHODS = {
    "local": (kf.optimizers.LocalSGDOptimizer, {"every": 1}),
    "diloco": (kf.optimizers.DiLoCoOptimizer, {"every": 1, "outer": keras.optimizers.SGD(1.0)}),
    "decentralized": (kf.optimizers.DecentralizedSGDOptimizer, {}),
}


@each(method=["local", "diloco", "decentralized"])
def case_a_model_of_each_peers_own(method):
    pair = PAIRS[kf.rank() % 2]
    make, arguments = METHODS[method]
    data = samples(24)
    optimizer = make(keras.optimizers.SGD(0.1), **arguments, group=GROUPS[pair])
    _, weights = trained(model_of(optimizer), share(pair, data), 4)
    plain = model_of(keras.optimizers.SGD(0.1))
    _, expected = trained(plain, data, 8)
    for ours, theirs in zip(weights, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def case_pairs_within_groups_end_with_their_average():
    pair = PAIRS[kf.rank() % 2]
    group = GROUPS[pair]
    optimizer = kf.optimizers.PairAveragingOptimizer(keras.optimizers.SGD(0.1), group=group)
    data = samples(24 if kf.rank() < 2 else 12)  # members need not have as many batches
    _, weights = trained(model_of(optimizer, seed=kf.rank()), data, 4)
    for ours in weights:
        of_members = kf.ops.all_gather(ours, group=group).numpy()
        np.testing.assert_array_equal(of_members[0], of_members[1])
    for ours in weights[:1]:
        of_all = kf.ops.all_gather(ours).numpy()
        assert not np.allclose(of_all[0], of_all[1])


def case_a_stranger_is_refused():
    model = model_of(grouped((0, 2)))
    if not GROUPS[0, 2].included:
        error = raised_by(errors.InvalidArgumentError, lambda: model.fit(*samples(8), verbose=0))
        assert f"rank {kf.rank()} is not in Group([0, 2])" in str(error)


def case_members_whose_arguments_differ():
    if GROUPS[0, 2].included:
        model = model_of(grouped((0, 2)))
        epochs = 1 + GROUPS[0, 2].rank()
        error = raised_by(ValueError, lambda: model.fit(*samples(8), epochs=epochs, verbose=0))
        assert "epochs must be the same on all peers" in str(error)


def case_an_elastic_training_is_that_of_all():
    model = model_of(grouped(PAIRS[kf.rank() % 2]))
    error = raised_by(errors.FailedPreconditionError, lambda: kf.elastic.fit(model, samples(8)[0]))
    assert "Group(" in str(error) and "model.fit" in str(error)


def case_all_peers_train_afterwards():
    """Names and numbers of the whole are in step, whatever groups have done."""
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    model = model_of(optimizer, ["accuracy"])
    data = samples(32)
    run = trained(model, [part[kf.rank() :: kf.size()] for part in data], 2)
    check((0, 1, 2, 3), run, data, 8)
