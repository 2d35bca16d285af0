#include "ops/monitor/rate_meter.h"

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using Rates = std::vector<double>;

Clock::time_point At(int64_t milliseconds) { return Clock::time_point{} + std::chrono::milliseconds(milliseconds); }

KF_TEST(RateMeter, IsTheGrowthOfTheLastSecond) {
  RateMeter meter(At(1000));
  EXPECT_TRUE(meter.Update(At(1500), {50, 0}) == (Rates{100, 0}));
  EXPECT_TRUE(meter.Update(At(2000), {100, 10}) == (Rates{100, 10}));
  EXPECT_TRUE(meter.Update(At(2500), {100, 30}) == (Rates{50, 30}));   // since 1500
  EXPECT_TRUE(meter.Update(At(5000), {1350, 30}) == (Rates{500, 0}));  // since 2500
}

KF_TEST(RateMeter, ManyLooksAreOne) {
  RateMeter meter(At(0));
  for (int i = 1; i <= 1000; ++i) meter.Update(At(i), {uint64_t(i)});
  EXPECT_TRUE(meter.Update(At(1000), {1000}) == (Rates{1000}));
  EXPECT_TRUE(meter.Update(At(1000), {1000}) == (Rates{1000}));
}

KF_TEST(RateMeter, OtherCountersBeginAnew) {
  RateMeter meter(At(0));
  meter.Update(At(1000), {100, 7});
  meter.Restart(At(2000), {200, 100, 7});
  EXPECT_TRUE(meter.Update(At(2000), {200, 100, 7}) == (Rates{0, 0, 0}));
  EXPECT_TRUE(meter.Update(At(2500), {200, 150, 8}) == (Rates{0, 100, 2}));
  EXPECT_TRUE(meter.Update(At(2400), {0, 0, 0}) == (Rates{0, 0, 0}));
}

}  // namespace
}  // namespace kungfu
