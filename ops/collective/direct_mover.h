// The mover for sessions of one host: an all-reduce without copies (host_mover.h). Rank r reduces part r of p even
// parts straight from and into all arenas (direct_reduction.h), and its own data, wherever they lie. A large share is
// reduced in slices, and the loop turns between them. If norms are wanted it measures its part of the inputs and of the
// result, while these are in the cache. It writes both to a board that each peer has behind its result.
//
// Cost for n bytes and p peers: each rank reads n and writes n bytes.

#pragma once

#include <memory>

#include "ops/collective/host_mover.h"

namespace kungfu {

// As HostMover. REQUIRES: the group is the whole session.
std::unique_ptr<Mover> MakeDirectMover(EventLoop* loop, DirectGroup* group, Movement movement,
                                       Conversation* conversation, const MoverFactory& fallback,
                                       OperationCounters* counters);

}  // namespace kungfu
