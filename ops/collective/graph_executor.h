// The mover that runs any pair of graphs over any transport.
//
// Each chunk goes through its graphs on its own (chunk_run.h); several chunks are under way at once, as a pipeline.
// Operands are combined in the order of the graph, so the result does not depend on timing. There is one root per
// chunk, so all ranks receive the same bits.
//
// Cost for a chunk of n bytes: n bytes over each edge of both graphs; steps: the depths of both. Over
// each edge of the reduce graph that does not begin at a leaf it is as much as elements of AccumulatorOf take: 2n where
// those of 16 bits are combined in float32, up to 8n for means of integers.

#pragma once

#include <memory>

#include "ops/collective/mover.h"
#include "ops/router/conversation.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

std::unique_ptr<Mover> MakeGraphExecutor(EventLoop* loop, Movement movement, int rank, Conversation* conversation);

}  // namespace kungfu
