"""Metrics over the samples of all peers, for a model that `fit` does not know to be shared."""

from __future__ import annotations

from kungfu_tf.upstream.callback import Callback


class MetricAverageCallback(Callback):
    """Lets `fit` report, and give to all callbacks, the metrics over the samples of all peers.

    A `fit` with a wrapped optimizer does so by itself. This is for a program that averages in
    another way, with a train step of its own. When the training loop of an epoch ends, and when its
    validation does, the *states* of the model's metrics are added up over the peers. So loss and
    mean metrics are weighted by samples. AUC, precision and recall are exact, which an average of
    results would not be. Results of a train step that no metric has computed are averaged over the
    peers. States must add up, as those of Keras' metrics do: for a metric that keeps a maximum the
    sum would be wrong. Every callback sees these values, at any place in the list.

    All peers must call `fit` with the same number of epochs and validations. `evaluate` outside
    `fit` is each peer's own.

    Example:

    ```python
    model.fit(dataset, callbacks=[kf.callbacks.MetricAverageCallback()])
    ```
    """
