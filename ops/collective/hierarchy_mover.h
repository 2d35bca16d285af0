// The mover for several hosts with several peers on some of them, along the graphs of HIERARCHY. Within a host it makes
// no copies (host_mover.h); between hosts it sends messages.
//
// Each chunk has a carrier on each host, in the middle of that host's star: another peer for each chunk, in turn. The
// carrier
//   1. reduces the chunk straight from the arenas of the host's peers into the place of its own result
//      (direct_reduction.h),
//   2. exchanges that with the chunk's carriers on the other hosts (chunk_run.h), while it reduces the next chunks, and
//   3. brings the result to the arenas of the host's peers.
//
// Between hosts exactly the messages of the graph executor travel, so each host chooses its mover independently.
// Operands are combined in the same order, to the same bits.
//
// Cost for n bytes on a host of l peers, of h: each peer reads n bytes and writes n bytes of the host's memory, and
// sends and receives at most 2n(h-1)/(hl) bytes, as HIERARCHY.

#pragma once

#include <memory>

#include "ops/collective/host_mover.h"

namespace kungfu {

// As HostMover. REQUIRES: the chunks travel along graphs of HIERARCHY.
std::unique_ptr<Mover> MakeHierarchyMover(EventLoop* loop, DirectGroup* group, Movement movement,
                                          Conversation* conversation, const MoverFactory& fallback,
                                          OperationCounters* counters);

}  // namespace kungfu
