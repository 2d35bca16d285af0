"""Optimizer state in shards: bitwise the training of synchronous SGD, with a part of its slots."""

from __future__ import annotations

import tempfile

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.optimizers import ShardedOptimizer, SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

# Where three numbers are added up, the order shows: it is that of one tree, whatever the names.
JOBS = [
    {"np": 3, "env": {"KUNGFU_STRATEGY": "STAR"}},
    {"np": 1, "cases": ["bitwise", "saved", "a_loop"]},
]

STEPS, BATCH = 12, 8
keras = tf.keras
is_keras_3 = training.is_keras_3()


def only_keras_3():
    if not is_keras_3:
        raise Skip("shards are for optimizers of Keras 3")


def optimizer_of(name):
    return {
        "adam": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.01),
        "lamb": lambda: keras.optimizers.Lamb(0.01),
        "muon": lambda: keras.optimizers.Muon(0.01),
        "clipped": lambda: keras.optimizers.Nadam(0.01, global_clipnorm=0.1),
        "accumulating": lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=3),
        "scaled": lambda: keras.optimizers.LossScaleOptimizer(
            keras.optimizers.Adam(0.01), initial_scale=2.0**127, dynamic_growth_steps=2
        ),
    }[name]()


def model_of():
    """Five variables of sizes that do not divide evenly, and a constraint."""
    keras.utils.set_random_seed(3)
    layers = [
        keras.layers.Input((7,)),
        keras.layers.Dense(11, activation="tanh", kernel_constraint="max_norm"),
        keras.layers.Dense(5, activation="tanh"),
        keras.layers.Dense(1, use_bias=False),
    ]
    return keras.Sequential(layers)


def samples():
    random = np.random.default_rng(10 + kf.rank())
    x = random.normal(size=(STEPS * BATCH, 7)).astype(np.float32)
    return x, np.sin(x.sum(axis=1, keepdims=True))


def fitted(optimizer, *, epochs=1, initial_epoch=0, callbacks=(), model=None):
    if model is None:
        model = model_of()
        model.compile(optimizer, "mse")
    x, y = samples()
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0, "epochs": epochs}
    model.fit(x, y, **options, initial_epoch=initial_epoch, callbacks=list(callbacks))
    return model


def same_bits(first, second):
    assert len(first) == len(second)
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def whole_slots(optimizer):
    """What rank 0 would save of the optimizer."""
    inner, found = generations.innermost(optimizer), {}
    inner.save_own_variables(found)
    return [np.asarray(found[str(i)]) for i in range(len(found))]


def check_slots(ours, plain):
    """Those that rank 0 would save. Accumulated gradients are each peer's own."""
    if kf.is_root():
        mine = generations.innermost(ours.optimizer)
        accumulators = [v.path for v in getattr(mine, "_accumulated_gradients", [])]
        theirs = generations.innermost(plain.optimizer).variables
        kept = [i for i, v in enumerate(mine.variables) if v.path not in accumulators]
        expected = [np.asarray(theirs[i]) for i in kept]
        assert same_bits([whole_slots(ours.optimizer)[i] for i in kept], expected)


@each(name=["adam", "lamb", "muon", "clipped", "accumulating", "scaled"])
def case_bitwise(name):
    """Weights, slots, and the number of updates."""
    only_keras_3()
    plain = fitted(SynchronousSGDOptimizer(optimizer_of(name)))
    model = fitted(ShardedOptimizer(optimizer_of(name)))
    before = model_of().get_weights()
    assert not same_bits(model.get_weights(), before)
    assert same_bits(model.get_weights(), plain.get_weights())
    mine = generations.innermost(model.optimizer)
    updates = int(mine._iterations)
    assert updates == int(generations.innermost(plain.optimizer)._iterations)
    assert updates == STEPS or (name == "scaled" and 0 < updates < STEPS), updates
    check_slots(model, plain)


def case_slots_of_one_peer():
    """At most 1/size of all, and those of one variable more; together they are all."""
    only_keras_3()
    model = fitted(ShardedOptimizer(keras.optimizers.Adam(0.01)))
    sizes = [v.numpy().nbytes for v in model.trainable_variables]
    slots = [v for v in model.optimizer.variables if v.ndim]
    mine = sum(v.numpy().nbytes for v in slots)
    assert len(slots) == 2 * len(sizes)
    assert 0 < mine <= 2 * (sum(sizes) / kf.size() + max(sizes))
    total = kf.ops.all_reduce(np.array([mine], np.int64)).numpy()[0]
    assert total == 2 * sum(sizes)


def loop(model, optimizer):
    """An epoch in a loop of the program's own."""
    x, y = samples()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    for i in range(0, len(x), BATCH):
        step(x[i : i + BATCH], y[i : i + BATCH])


def case_a_loop():
    only_keras_3()
    plain, model, optimizer = model_of(), model_of(), ShardedOptimizer(keras.optimizers.Adam(0.01))
    loop(plain, SynchronousSGDOptimizer(keras.optimizers.Adam(0.01)))
    loop(model, optimizer)
    assert same_bits(model.get_weights(), plain.get_weights())
    if kf.size() > 1:
        text = raised_by(errors.FailedPreconditionError, lambda: whole_slots(optimizer))
        assert "share_state()" in text, text
    optimizer.kungfu_algorithm.share_state()
    assert not kf.is_root() or len(whole_slots(optimizer)) == len(optimizer.variables)


def case_rows_and_dtypes():
    """Sparse gradients, layers of float64 and float16, and one that is each peer's own."""
    only_keras_3()

    def trained(wrap):
        keras.utils.set_random_seed(3)
        own = keras.layers.Dense(5)
        own.build((None, 5))
        layers = [
            keras.layers.Input((3,), dtype="int32"),
            keras.layers.Embedding(17, 6),
            keras.layers.Flatten(),
            keras.layers.Dense(5, dtype="float16"),
            kf.layers.local(own),
            keras.layers.Dense(3, dtype="float64"),
        ]
        model = keras.Sequential(layers)
        model.compile(wrap(keras.optimizers.Adam(0.01)), "mse")
        random = np.random.default_rng(20 + kf.rank())
        x, y = random.integers(0, 17, [STEPS * BATCH, 3]), random.normal(size=(STEPS * BATCH, 3))
        model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
        return model

    ours, plain = trained(ShardedOptimizer), trained(SynchronousSGDOptimizer)
    assert {v.dtype for v in ours.trainable_variables} == {"float16", "float32", "float64"}
    assert same_bits(ours.get_weights(), plain.get_weights())
    check_slots(ours, plain)


def case_in_turns_with_a_loop():
    """The slots that `fit` has brought together at its end are old when the next one begins."""
    only_keras_3()

    def trained(wrap):
        model = fitted(wrap(keras.optimizers.Adam(0.01)))
        loop(model, model.optimizer)
        return fitted(None, model=model).get_weights()

    assert same_bits(trained(ShardedOptimizer), trained(SynchronousSGDOptimizer))


def case_loaded_on_rank_0_only():
    """Before a loop. Its first step gives the others their slots."""
    only_keras_3()
    plain = fitted(SynchronousSGDOptimizer(keras.optimizers.Adam(0.01)))
    loop(plain, plain.optimizer)

    first = fitted(ShardedOptimizer(keras.optimizers.Adam(0.01)))
    model, optimizer = model_of(), ShardedOptimizer(keras.optimizers.Adam(0.01))
    optimizer.build(model.trainable_variables)
    if kf.is_root():
        model.set_weights(first.get_weights())
        optimizer.load_own_variables(
            {str(i): v for i, v in enumerate(whole_slots(first.optimizer))}
        )
    kf.initializer.broadcast_variables(model.variables)
    kf.initializer.broadcast_variables(optimizer.variables)
    loop(model, optimizer)
    assert same_bits(model.get_weights(), plain.get_weights())


def folder_of_all():
    path = tempfile.mkdtemp() if kf.is_root() else ""
    letters = np.frombuffer(path.encode(), np.uint8)
    return kf.ops.all_gather(letters, concat=True).numpy().tobytes().decode()


def case_saved():
    """A checkpoint is one of the plain optimizer. Wrapped again, the training goes on from it."""
    only_keras_3()
    folder = folder_of_all()
    path = f"{folder}/model-{{epoch}}.keras"
    saving = [keras.callbacks.ModelCheckpoint(path)]
    through = fitted(ShardedOptimizer(keras.optimizers.Adam(0.01)), epochs=2, callbacks=saving)
    kf.barrier()
    loaded = keras.models.load_model(path.format(epoch=1))
    assert [v.shape for v in loaded.optimizer.variables][2:] == [
        v.shape for v in loaded.trainable_variables for _ in range(2)
    ]
    ShardedOptimizer(loaded.optimizer)
    assert (kf.size() > 1) == any(v.shape == (0,) for v in loaded.optimizer.variables)
    fitted(None, model=loaded, initial_epoch=1, epochs=2)
    assert same_bits(loaded.get_weights(), through.get_weights())


def case_resumed_from_a_backup():
    """Rank 0 alone reads it, and gives the others their slots."""
    only_keras_3()
    folder = folder_of_all()

    class Interrupted(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    make = lambda: ShardedOptimizer(keras.optimizers.Adam(0.01))  # noqa: E731
    through = fitted(make(), epochs=2)
    backup = lambda: keras.callbacks.BackupAndRestore(folder)  # noqa: E731
    raised_by(
        KeyboardInterrupt, lambda: fitted(make(), epochs=2, callbacks=[backup(), Interrupted()])
    )
    kf.barrier()
    resumed = fitted(make(), epochs=2, callbacks=[backup()])
    assert same_bits(resumed.get_weights(), through.get_weights())
    assert int(resumed.optimizer.iterations) == 2 * STEPS


GROUPS = {ranks: kf.Group(ranks) for ranks in [(0, 1), (1, 2)] if kf.size() == 3}


def case_a_group():
    """Its ranks are others than those of all. Weight decay is that of an accumulated step."""
    only_keras_3()
    group = GROUPS[1, 2]
    if not group.included:
        return
    make = lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1, gradient_accumulation_steps=2)  # noqa: E731
    plain, model = model_of(), model_of()
    loop(plain, SynchronousSGDOptimizer(make(), group=group))
    optimizer = ShardedOptimizer(make(), group=group)
    loop(model, optimizer)
    assert same_bits(model.get_weights(), plain.get_weights())
    optimizer.kungfu_algorithm.share_state()
    if group.rank() == 0:
        shapes = [v.shape for v in whole_slots(optimizer)]
        assert shapes.count((7, 11)) == 3, shapes  # with the accumulator


def case_continued_by_fewer_peers():
    """A file of three peers. Two go on from it, as with the plain optimizer."""
    only_keras_3()
    folder = folder_of_all()
    path = f"{folder}/model.keras"
    saving = [keras.callbacks.ModelCheckpoint(path)]
    fitted(ShardedOptimizer(keras.optimizers.Adam(0.01)), callbacks=saving)
    kf.barrier()
    group = GROUPS[0, 1]
    if not group.included:
        return

    def continued(wrap):
        model = keras.models.load_model(path)
        wrap(model.optimizer, group=group)
        return fitted(None, model=model).get_weights()

    assert same_bits(continued(ShardedOptimizer), continued(SynchronousSGDOptimizer))


def case_verified():
    """A step of its own is tried on rank 0 alone before. It cannot be compared, and goes on."""
    only_keras_3()
    plain, model, optimizer = model_of(), model_of(), ShardedOptimizer(keras.optimizers.Adam(0.01))
    x, y = samples()

    verified = kf.verify(training.step_of(model, optimizer))
    unverified = training.step_of(plain, SynchronousSGDOptimizer(keras.optimizers.Adam(0.01)))
    for i in range(0, 3 * BATCH, BATCH):
        verified(x[i : i + BATCH], y[i : i + BATCH])
        unverified(x[i : i + BATCH], y[i : i + BATCH])
    assert same_bits(model.get_weights(), plain.get_weights())


def case_refused():
    if not is_keras_3:
        text = raised_by(TypeError, lambda: ShardedOptimizer(keras.optimizers.Adam(0.01)))
        assert "Keras 3" in text, text
        return
    v1 = tf.compat.v1.train.AdamOptimizer(0.1)
    assert "Keras 3" in raised_by(TypeError, lambda: ShardedOptimizer(v1))
    ema = keras.optimizers.SGD(0.1, use_ema=True)
    assert "use_ema" in raised_by(errors.UnimplementedError, lambda: ShardedOptimizer(ema))
    plain = keras.optimizers.SGD(0.1)
    raised_by(TypeError, lambda: ShardedOptimizer(plain, group="all"))
    assert type(plain) is keras.optimizers.SGD
    assert "Keras 3" in raised_by(TypeError, lambda: ShardedOptimizer("adam"))
    wrapped = ShardedOptimizer(plain)
    assert "wrapped already" in raised_by(ValueError, lambda: ShardedOptimizer(wrapped))
    for name in ("Adafactor", "ScheduleFreeAdamW"):  # the state is no slot; is made of weights
        other = ShardedOptimizer(getattr(keras.optimizers, name)(0.1))
        build = lambda o=other: o.build(model_of().trainable_variables)  # noqa: E731
        text = raised_by(errors.UnimplementedError, build)
        assert name in text, text
    wrapped.build(model_of().trainable_variables)
    checkpoint = tf.train.Checkpoint(optimizer=wrapped)
    text = raised_by(errors.UnimplementedError, lambda: checkpoint.write(tempfile.mkdtemp() + "/c"))
    assert "tf.train.Checkpoint" in text and "share_state()" in text, text
    model = model_of()
    model.compile(ShardedOptimizer(keras.optimizers.SGD(0.1)), "mse")
    x, y = samples()
    text = raised_by(errors.FailedPreconditionError, lambda: kf.elastic.fit(model, x, y=y))
    assert "elastic.fit" in text and "BackupAndRestore" in text, text
