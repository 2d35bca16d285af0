"""The optimizers that let the peers' models differ, and evaluate their average."""

from __future__ import annotations

import common
import numpy as np

import kungfu_tf as kf

images, labels = common.samples()
for make in (
    kf.optimizers.SynchronousAveragingOptimizer,
    kf.optimizers.PairAveragingOptimizer,
    kf.optimizers.MonitorGradientVarianceOptimizer,
):
    model = common.build(images)
    model.compile(optimizer=make(common.sgd()), loss=common.loss(), metrics=["accuracy"])
    history = model.fit(
        common.sharded(images, labels),
        validation_data=common.joint(images[:200], labels[:200]),
        epochs=common.EPOCHS,
        verbose=0,
    ).history
    accuracies = kf.ops.all_gather(np.float64(history["val_accuracy"]), name=make.__name__)
    assert np.ptp(accuracies.numpy(), axis=0).max() == 0, "the peers evaluate different models"
    assert history["loss"][-1] < history["loss"][0], history["loss"]
