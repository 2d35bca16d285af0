// What must hold with each set of instructions that this processor has.

#pragma once

#include "ops/base/instructions.h"

namespace kungfu::testing {

// The last ones, which stay, are those that are used anyway.
template <typename Check>
void WithAllInstructions(Check check) {
  for (const Instructions instructions : AvailableInstructions()) {
    UseInstructions(instructions);
    check();
  }
}

}  // namespace kungfu::testing
