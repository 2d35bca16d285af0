// The mover for peers of one host: an all-reduce without copies.
//
// Every rank tells the others where its data lie in its arena (direct_buffers.h), which they have mapped. Rank r then
// reduces part r of p even parts straight from all arenas into all arenas (direct_reduction.h), says so on its board
// (direct_group.h), and is done when all have said so. A rank whose data lie elsewhere says that, and all take the
// graph executor.
//
// A large share is reduced in slices, and the loop turns between them.
//
// Ranks write to each other's memory. They write only where it was allowed for this operation; a rank whose operation
// ends in any other way than by the word of all others withdraws the memory before it gives it back, so that nothing
// that another one may still do reaches whoever uses it next.
//
// Cost for n bytes and p peers: p - 1 messages of 40 bytes per rank; each rank reads n and writes n bytes.

#pragma once

#include <memory>

#include "ops/collective/direct_group.h"
#include "ops/collective/mover.h"
#include "ops/monitor/operation_counters.h"
#include "ops/router/conversation.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// `fallback` makes the graph executor; `counters` counts what was moved without it. All that is passed must outlive
// the mover.
// REQUIRES: movement.all_reduce; the group has met.
std::unique_ptr<Mover> MakeDirectMover(EventLoop* loop, DirectGroup* group, Movement movement,
                                       Conversation* conversation, const MoverFactory& fallback,
                                       OperationCounters* counters);

}  // namespace kungfu
