// Which vector instructions the loops over arrays use. All give the same bits.

#pragma once

#include <vector>

namespace kungfu {

// Those that every processor of its kind has (on arm64 that includes NEON), or wider ones.
enum class Instructions { kBaseline, kAvx2, kAvx512 };

// "baseline", "avx2", "avx512"
const char* Name(Instructions instructions);
// Those that this processor has, the best last.
std::vector<Instructions> AvailableInstructions();

// The best, unless UseInstructions has said otherwise.
Instructions UsedInstructions();
// From now on, in this process. REQUIRES: they are available.
void UseInstructions(Instructions instructions);

}  // namespace kungfu
