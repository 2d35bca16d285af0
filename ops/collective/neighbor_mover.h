// The mover of weighted averages of neighbours (ops/plan/mixing.h): each rank has a result of its own.
//
// Each chunk is sent to all targets at once, and received from one source after the other, in the order of their ranks,
// weighted and added while it arrives. So a result depends on no timing: it is
//   ((self·x + w₀·x₀) + w₁·x₁) + ...
// Several chunks are under way at once. Nothing is kept of what arrives; a target whose weight is not 1 costs a copy of
// each chunk under way.
//
// Cost for n bytes: each rank sends n bytes to each of its targets; one step.

#pragma once

#include <memory>

#include "ops/collective/mover.h"
#include "ops/router/conversation.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// REQUIRES: movement.mixing.
std::unique_ptr<Mover> MakeNeighborMover(EventLoop* loop, Movement movement, Conversation* conversation);

}  // namespace kungfu
