#include "ops/plan/link_estimate.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

constexpr double kLost = std::numeric_limits<double>::infinity();
constexpr double kLate = 1e-3;  // less than a scheduler's slice
constexpr LinkCost kShared{6e-6, 0.4e-6, 0.1e-9};

// What questions take over a link that costs `is`, some of them with a little more.
LinkSamples Of(const LinkCost& is) {
  const double single = 2 * (is.latency + is.overhead);
  const double many = single + 2 * (LinkSamples::kAtOnce - 1) * is.overhead;
  const double full = many + LinkSamples::kAtOnce * LinkSamples::kFiller * is.per_byte;
  return {{1.1 * single, single, 1.2 * single}, {many, 1.3 * many}, {1.5 * full, full}};
}

bool IsNear(const std::optional<double>& is, double should_be) {
  return is && std::abs(*is - should_be) <= 1e-9 * should_be;
}

void ExpectEstimate(const LinkSamples& samples, const LinkCost& should_be, const LinkBounds& bounds = kWithinAHost) {
  const LinkEstimate estimate = Estimate(samples, bounds);
  EXPECT_TRUE(IsNear(estimate.latency, should_be.latency));
  EXPECT_TRUE(IsNear(estimate.overhead, should_be.overhead));
  EXPECT_TRUE(IsNear(estimate.per_byte, should_be.per_byte));
}

KF_TEST(LinkEstimate, IsThatOfTheLink) {
  ExpectEstimate(Of(kShared), kShared);
  const LinkCost far{5e-3, 20e-6, 80e-9};
  ExpectEstimate(Of(far), far, kBetweenHosts);
}

KF_TEST(LinkEstimate, OneSampleFarOffIsNone) {
  for (const double off : {kLate, kLost}) {
    for (std::vector<double> LinkSamples::* kind : {&LinkSamples::single, &LinkSamples::many, &LinkSamples::full}) {
      for (const bool first : {true, false}) {
        LinkSamples samples = Of(kShared);
        std::vector<double>& seconds = samples.*kind;
        seconds.insert(first ? seconds.begin() : seconds.end(), off);
        ExpectEstimate(samples, kShared);
      }
    }
  }
}

// Short ones before, long ones after a load that comes, or the other way round.
KF_TEST(LinkEstimate, WhatIsAllLateIsNotMeasured) {
  LinkSamples samples = Of(kShared);
  samples.single = {kLate, kLate};
  LinkEstimate estimate = Estimate(samples, kWithinAHost);
  EXPECT_FALSE(estimate.latency.has_value());
  EXPECT_FALSE(estimate.overhead.has_value());
  EXPECT_TRUE(IsNear(estimate.per_byte, kShared.per_byte));

  samples = Of(kShared);
  samples.many = {kLate};
  estimate = Estimate(samples, kWithinAHost);
  EXPECT_TRUE(IsNear(estimate.latency, kShared.latency + kShared.overhead));  // half of a single one
  EXPECT_FALSE(estimate.overhead.has_value());
  EXPECT_FALSE(estimate.per_byte.has_value());

  samples = Of(kShared);
  samples.full = {kLate, kLost};
  estimate = Estimate(samples, kWithinAHost);
  EXPECT_TRUE(IsNear(estimate.overhead, kShared.overhead));
  EXPECT_FALSE(estimate.per_byte.has_value());
}

// The differences could be those of a link.
KF_TEST(LinkEstimate, WhatIsLateThroughoutIsNotMeasured) {
  const LinkEstimate estimate = Estimate({{8e-3}, {8.05e-3}, {8.1e-3}}, kWithinAHost);
  EXPECT_FALSE(estimate.latency || estimate.overhead || estimate.per_byte);
}

KF_TEST(LinkEstimate, WhatGrowsByNothingIsNotMeasured) {
  const LinkEstimate estimate = Estimate({{20e-6}, {20e-6}, {20e-6}}, kWithinAHost);
  EXPECT_TRUE(IsNear(estimate.latency, 10e-6));
  EXPECT_FALSE(estimate.overhead.has_value());
  EXPECT_FALSE(estimate.per_byte.has_value());
}

KF_TEST(LinkEstimate, WhatIsNotAnsweredIsNotMeasured) {
  for (const LinkSamples& samples : {LinkSamples{}, LinkSamples{{kLost}, {kLost}, {kLost}}}) {
    const LinkEstimate estimate = Estimate(samples, kBetweenHosts);
    EXPECT_FALSE(estimate.latency || estimate.overhead || estimate.per_byte);
  }
}

KF_TEST(LinkEstimate, FallsBackToWhatIsUsual) {
  const LinkCosts usual;
  LinkEstimates estimates;
  estimates.local = {5e-6, {}, 0.25e-9};
  const LinkCosts costs = estimates.Costs();
  EXPECT_TRUE(costs.local.latency == 5e-6 && costs.local.per_byte == 0.25e-9);
  EXPECT_TRUE(costs.local.overhead == usual.local.overhead);
  EXPECT_TRUE(costs.remote.latency == usual.remote.latency && costs.remote.per_byte == usual.remote.per_byte);
}

// And of links that are not there nothing.
KF_TEST(LinkEstimate, SaysWhatWasMeasured) {
  LinkEstimates estimates;
  estimates.local = {5e-6, {}, 0.25e-9};
  const std::string local = "5.0 us, 5.0 us at each end (assumed), 4000 MB/s";
  EXPECT_EQ(estimates.ToString(), "messages within a host take " + local);
  estimates.remote = {50e-6, 10e-6, {}};
  const std::string remote = "50.0 us, 10.0 us at each end, 1000 MB/s (assumed)";
  EXPECT_EQ(estimates.ToString(), "messages within a host take " + local + "; between hosts " + remote);
  estimates.local.reset();
  EXPECT_EQ(estimates.ToString(), "messages between hosts take " + remote);
}

}  // namespace
}  // namespace kungfu
