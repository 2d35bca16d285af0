#include "ops/monitor/latency_histogram.h"

#include <cmath>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

KF_TEST(LatencyHistogram, CountsByPowersOfTwo) {
  LatencyHistogram histogram;
  for (const double seconds : {0.0, 1e-6, 1.5e-6, 2e-6, 3e-6, 1e6}) histogram.Add(seconds);
  EXPECT_EQ(histogram.count(0), 2u);
  EXPECT_EQ(histogram.count(1), 2u);
  EXPECT_EQ(histogram.count(2), 1u);
  EXPECT_EQ(histogram.count(LatencyHistogram::kBuckets - 1), 1u);
  EXPECT_TRUE(std::abs(histogram.seconds() - 1e6) < 1e-3);
}

KF_TEST(LatencyHistogram, BoundsAscendToInfinity) {
  for (int i = 1; i < LatencyHistogram::kBuckets; ++i) {
    EXPECT_TRUE(LatencyHistogram::UpperBound(i) > LatencyHistogram::UpperBound(i - 1));
  }
  EXPECT_TRUE(std::isinf(LatencyHistogram::UpperBound(LatencyHistogram::kBuckets - 1)));
}

}  // namespace
}  // namespace kungfu
