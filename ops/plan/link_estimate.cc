#include "ops/plan/link_estimate.h"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace kungfu {
namespace {

constexpr double kNotAnswered = std::numeric_limits<double>::infinity();
constexpr double kFilled = LinkSamples::kAtOnce * LinkSamples::kFiller;  // bytes

// The shortest time, if a link can take so long.
double Shortest(const std::vector<double>& seconds, double most) {
  double shortest = kNotAnswered;
  for (const double one : seconds) shortest = std::min(shortest, one);
  return shortest <= most ? shortest : kNotAnswered;
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
  const LinkCost& most = bounds.most;
  const double most_single = 2 * (most.latency + most.overhead);
  const double most_many = most_single + 2 * (LinkSamples::kAtOnce - 1) * most.overhead;
  const double single = Shortest(samples.single, most_single);
  const double many = Shortest(samples.many, most_many);
  const double full = Shortest(samples.full, most_many + kFilled * most.per_byte);
  const auto between = [&bounds](double LinkCost::* figure, double is) -> std::optional<double> {
    if (is >= bounds.least.*figure && is <= bounds.most.*figure) return is;
    return std::nullopt;  // for what is no number, too
  };
  LinkEstimate estimate;
  estimate.overhead = between(&LinkCost::overhead, (many - single) / (2 * (LinkSamples::kAtOnce - 1)));
  estimate.latency = between(&LinkCost::latency, single / 2 - estimate.overhead.value_or(0));
  estimate.per_byte = between(&LinkCost::per_byte, (full - many) / kFilled);
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
