// Operations of a session of one: no message, no thread.

#pragma once

#include "ops/base/status.h"
#include "ops/collective/operation.h"

namespace kungfu {

// Completes the operation among one peer. Does not call `done`. REQUIRES: Validate(operation, 1, 0) is OK.
Status CompleteOnSinglePeer(const Operation& operation);

}  // namespace kungfu
