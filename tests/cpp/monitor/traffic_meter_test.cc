#include "ops/monitor/traffic_meter.h"

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using Totals = std::vector<uint64_t>;

Clock::time_point Moment(int64_t milliseconds) { return Clock::time_point{} + std::chrono::milliseconds(milliseconds); }

KF_TEST(TrafficMeter, TellsDirectionsAndPeersApart) {
  TrafficMeter meter(Moment(0));
  const auto rates = meter.Update(Moment(1000), 0, Totals{100, 0}, Totals{7, 50});
  EXPECT_EQ(rates[0].sent, 100);
  EXPECT_EQ(rates[0].received, 7);
  EXPECT_EQ(rates[1].sent, 0);
  EXPECT_EQ(rates[1].received, 50);
}

// Who still holds the session before must not set the new one's figures back.
KF_TEST(TrafficMeter, AnOlderMembershipChangesNothing) {
  TrafficMeter meter(Moment(0));
  meter.Update(Moment(1000), 3, Totals{100, 100}, Totals{100, 100});
  const auto old = meter.Update(Moment(1250), 2, Totals{100, 100, 100}, Totals{0, 0, 0});
  EXPECT_EQ(old.size(), 3u);
  for (const TrafficMeter::Rates& rates : old) EXPECT_TRUE(rates.sent == 0 && rates.received == 0);
  const auto rates = meter.Update(Moment(1500), 3, Totals{200, 100}, Totals{100, 150});
  EXPECT_EQ(rates[0].sent, 200);
  EXPECT_EQ(rates[1].received, 100);
}

}  // namespace
}  // namespace kungfu
