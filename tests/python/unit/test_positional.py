"""How the Python side of training may be called."""

from __future__ import annotations

import inspect

import pytest

import kungfu_tf as kf

CALLS = {
    kf.DistributedGradientTape: ["tape"],
    kf.callbacks.BroadcastGlobalVariablesCallback: [],
    kf.data.shard: ["dataset"],
    kf.initializer.BroadcastGlobalVariablesCallback: [],
    kf.initializer.BroadcastGlobalVariablesHook: [],
    kf.initializer.BroadcastGlobalVariablesOp: [],
    kf.initializer.broadcast_variables: ["variables"],
    kf.optimizers.SynchronousSGDOptimizer: ["optimizer"],
}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_only_what_is_required_is_positional(call):
    parameters = inspect.signature(call).parameters.values()
    positional = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert positional == CALLS[call]
    for parameter in parameters:
        assert (parameter.default is inspect.Parameter.empty) == (parameter.name in CALLS[call])
