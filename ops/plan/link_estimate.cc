#include "ops/plan/link_estimate.h"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace kungfu {
namespace {

double Shortest(const std::vector<double>& seconds) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const double one : seconds) shortest = std::min(shortest, one);
  return shortest;
}

std::string Figure(const char* format, double figure, bool is_measured) {
  char text[64];
  std::snprintf(text, sizeof(text), format, figure);
  return is_measured ? text : std::string(text) + " (assumed)";
}

}  // namespace

LinkCost LinkEstimate::Or(const LinkCost& usual) const {
  return {latency.value_or(usual.latency), overhead.value_or(usual.overhead), per_byte.value_or(usual.per_byte)};
}

std::string LinkEstimate::ToString(const LinkCost& usual) const {
  const LinkCost cost = Or(usual);
  return Figure("%.1f us", 1e6 * cost.latency, latency.has_value()) + ", " +
         Figure("%.1f us at each end", 1e6 * cost.overhead, overhead.has_value()) + ", " +
         Figure("%.0f MB/s", 1e-6 / cost.per_byte, per_byte.has_value());
}

LinkEstimate Estimate(const LinkSamples& samples, const LinkBounds& bounds) {
  const double single = Shortest(samples.single), many = Shortest(samples.many), full = Shortest(samples.full);
  const auto between = [&bounds](double LinkCost::* figure, double is) -> std::optional<double> {
    if (is >= bounds.least.*figure && is <= bounds.most.*figure) return is;
    return std::nullopt;  // for what is no number, too
  };
  LinkEstimate estimate;
  estimate.overhead = between(&LinkCost::overhead, (many - single) / (2 * (LinkSamples::kAtOnce - 1)));
  estimate.latency = between(&LinkCost::latency, single / 2 - estimate.overhead.value_or(0));
  estimate.per_byte = between(&LinkCost::per_byte, (full - many) / (LinkSamples::kAtOnce * LinkSamples::kFiller));
  return estimate;
}

LinkCosts LinkEstimates::Costs() const {
  const LinkCosts usual;
  return {local.value_or(LinkEstimate{}).Or(usual.local), remote.value_or(LinkEstimate{}).Or(usual.remote)};
}

std::string LinkEstimates::ToString() const {
  const LinkCosts usual;
  std::string text = "messages ";
  if (local) text += "within a host take " + local->ToString(usual.local);
  if (local && remote) text += "; ";
  if (remote) text += (local ? "between hosts " : "between hosts take ") + remote->ToString(usual.remote);
  return text;
}

}  // namespace kungfu
