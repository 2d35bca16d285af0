#include "ops/base/cross_core_copier.h"

#include <algorithm>

namespace kungfu {

double StoreChoice::CostOf(Stores stores) const {
  const auto& [last, before] = costs_[stores];
  return std::min(last, before);
}

StoreChoice::Stores StoreChoice::Next() {
  if (--until_try_ > 0) return best_;
  between_ = std::min(2 * between_, kMost);
  until_try_ = between_;
  return best_ == kPlain ? kPastCaches : kPlain;
}

void StoreChoice::Took(Stores stores, size_t bytes, Seconds time) {
  costs_[stores] = {time.count() / static_cast<double>(bytes), costs_[stores][0]};
  const Stores best = CostOf(kPlain) > worth_ * CostOf(kPastCaches) ? kPastCaches : kPlain;
  if (best == best_) return;
  best_ = best;
  until_try_ = between_ = kFewest;
}

void CrossCoreCopier::Copy(char* to, const char* from, size_t size) {
  if (size < kShort) return copies_[StoreChoice::kPlain](to, from, size);
  if (size < kTimed || untimed_++ < kUntimed) return copies_[choice_.best()](to, from, size);
  untimed_ = 0;
  const StoreChoice::Stores stores = choice_.Next();
  const Clock::time_point start = Clock::now();
  copies_[stores](to, from, size);
  choice_.Took(stores, size, Clock::now() - start);
}

}  // namespace kungfu
