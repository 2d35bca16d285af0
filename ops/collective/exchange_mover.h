// The mover for small all-reduces of few peers. Each sends all its data to every other one, and reduces the data of all
// itself, in the order of the ranks, so that all have the same bits. A message takes one way, where a graph takes two:
// to the reducing peer, and back.
//
// Cost for n bytes and p peers: each rank sends n(p - 1) bytes in p - 1 messages, and reduces p n. If peers outnumber
// cores they take turns, and graphs, which have fewer messages, are faster. So AUTO does without this mover if rank 0's
// host has fewer cores than peers.

#pragma once

#include <cstdint>
#include <memory>

#include "ops/collective/mover.h"
#include "ops/router/conversation.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Beyond, the graphs send less.
constexpr int kMostExchangers = 8;
constexpr uint64_t kMostExchanged = 16 << 10;  // bytes that a peer sends

// REQUIRES: movement.all_reduce, and nothing is measured.
std::unique_ptr<Mover> MakeExchangeMover(EventLoop* loop, Movement movement, int rank, Conversation* conversation);

}  // namespace kungfu
