#include "ops/monitor/rate_meter.h"

namespace kungfu {
namespace {

// Looks that lie closer together than this are one.
constexpr Seconds kCloseness = RateMeter::kWindow / 8;

}  // namespace

std::vector<double> RateMeter::Update(Clock::time_point now, const std::vector<uint64_t>& totals) {
  if (looks_.empty()) looks_.push_back({start_, std::vector<uint64_t>(totals.size(), 0)});
  while (looks_.size() > 1 && now - looks_[1].when >= kWindow) looks_.pop_front();
  const Look& base = looks_.front();
  const double seconds = Seconds(now - base.when).count();
  std::vector<double> rates(totals.size(), 0);
  for (size_t i = 0; i < totals.size(); ++i) {
    if (seconds > 0 && totals[i] > base.totals[i]) {
      rates[i] = static_cast<double>(totals[i] - base.totals[i]) / seconds;
    }
  }
  if (now - looks_.back().when >= kCloseness) looks_.push_back({now, totals});
  return rates;
}

}  // namespace kungfu
