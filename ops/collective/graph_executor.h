// The mover that runs any pair of graphs over any transport.
//
// Each chunk goes through its graphs on its own; several chunks are under way at once, as a pipeline. For a chunk, a
// rank
//   1. reduces what its predecessors in the reduce graph send, in their order, with its own contribution, while it
//      arrives, and sends the result to its successor;
//   2. at the root of the reduce graph, divides by the number of peers for a mean;
//   3. receives the result from its predecessor in the broadcast graph straight into its place, and sends it on to
//      its successors.
// Operands are combined in the order of the graph, so the result does not depend on timing; there is one root per
// chunk, so all ranks receive the same bits.
//
// Cost for a chunk of n bytes: n bytes over each edge of both graphs; steps: the depths of both.

#pragma once

#include <memory>

#include "ops/collective/mover.h"
#include "ops/router/conversation.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

std::unique_ptr<Mover> MakeGraphExecutor(EventLoop* loop, Movement movement, int rank, Conversation* conversation);

}  // namespace kungfu
