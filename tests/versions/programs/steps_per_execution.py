"""Several steps in each call of the train function, the last call of an epoch with fewer."""

from __future__ import annotations

import common

images, labels = common.samples()
model = common.build(images)
model.compile(optimizer=common.wrapped(), loss=common.loss(), steps_per_execution=5)
model.fit(common.sharded(images, labels), epochs=common.EPOCHS, verbose=0)
common.check("steps_per_execution", model, common.plain(images, labels)[0])
