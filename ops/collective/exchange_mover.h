// The mover for small all-reduces of few peers. Each tells all its data to every other one, and reduces the data of all
// itself, in the order of the ranks, so that all have the same bits. They take one way, where a graph takes two: to the
// reducing peer, and back.
//
// They travel in messages, or where all peers are on one host and the data are few bytes, from the second operation of
// a name on, in notes (notes.h). A peer that has written a note, and finds that another one speaks, speaks too: both
// then have a way to each other, whichever the other one looks at.
//
// Cost for n bytes and p peers: each rank sends n(p - 1) bytes in p - 1 messages, or writes n bytes in a note; and it
// reduces p n. If peers outnumber cores they take turns, and graphs, which have fewer messages, are faster. So AUTO
// does without messages of this mover if rank 0's host has fewer cores than peers. Notes are the faster ones there,
// too: who sleeps is woken once, by the last one.

#pragma once

#include <cstdint>
#include <memory>

#include "ops/collective/direct_group.h"
#include "ops/collective/mover.h"
#include "ops/router/conversation.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Beyond, the graphs send less.
constexpr int kMostExchangers = 8;
constexpr uint64_t kMostExchanged = 16 << 10;  // bytes that a peer sends

// `group`: all peers, if they are on one host and use each other's memory; null, for all: they do not.
// REQUIRES: movement.all_reduce, and nothing is measured.
std::unique_ptr<Mover> MakeExchangeMover(EventLoop* loop, DirectGroup* group, Movement movement, int rank,
                                         Conversation* conversation);

}  // namespace kungfu
