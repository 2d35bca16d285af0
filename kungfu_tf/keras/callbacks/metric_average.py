"""Metrics of all peers' samples, for a model that `fit` does not know to be shared."""

from __future__ import annotations

from kungfu_tf.upstream.callback import Callback


class MetricAverageCallback(Callback):
    """Lets `fit` report, and hand to all callbacks, the metrics of all peers' samples.

    A `fit` with a wrapped optimizer does so without being asked. This is for a program that
    averages in another way, with a train step of its own. When an epoch's training loop has ended,
    and when its validation has, the *states* of the model's metrics are summed over the peers. Loss
    and mean metrics are then weighted by samples. AUC, precision, recall and the like are exact,
    which an average of results would not be. Results of a train step that no metric of the model
    has computed are averaged over the peers. States must add up, as those of Keras' metrics do: for
    a metric that keeps a maximum the sum would be wrong. Every callback sees these values, wherever
    it stands in the list.

    All peers must call `fit` with as many epochs and validations. `evaluate` outside `fit` is each
    peer's own.

    Example:

    ```python
    model.fit(dataset, callbacks=[kf.callbacks.MetricAverageCallback()])
    ```
    """
