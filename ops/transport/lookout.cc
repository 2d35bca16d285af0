#include "ops/transport/lookout.h"

#include <algorithm>

namespace kungfu {

Seconds Lookout::Begin() {
  looked_ = left_ == 0;
  if (looked_) return longest_;
  --left_;
  return Seconds(0);
}

// What comes much later says nothing: nobody was about to do anything. The other process may itself look out before it
// leaves us the core.
void Lookout::Missed(Seconds slept) {
  if (!looked_ || slept >= kSoon * longest_) return;
  skips_ = std::min(2 * skips_ + 1, kMostSkips);
  left_ = skips_;
}

}  // namespace kungfu
