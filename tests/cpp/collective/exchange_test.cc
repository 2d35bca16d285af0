// Small all-reduces of few peers, who tell everything to everyone, against sums made by hand.

#include <sched.h>

#include <string>
#include <vector>

#include "ops/collective/exchange_mover.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/placed.h"
#include "tests/cpp/collective/values.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

ClusterOptions Small() {
  ClusterOptions options;
  options.direct_bytes = 1 << 20;
  options.own_cores = true;
  return options;
}

// How many messages a sum of so many bytes takes.
uint64_t MessagesFor(Cluster* cluster, uint64_t bytes) {
  uint64_t messages = 0;
  for (const Sent& sent : SentForBytes(cluster, bytes, Place::kOrdinary)) messages += sent.messages;
  return messages;
}

KF_TEST(Exchange, AllTypesAndReductions) {
  for (const int size : {2, 3, kMostExchangers}) {
    Cluster cluster(size, Small());
    RunPlacedGrid(&cluster, [](int) { return Place::kOrdinary; });
  }
}

KF_TEST(Exchange, OneMessageFromEachToEach) {
  for (const uint64_t size : {2, 4, kMostExchangers}) {
    Cluster cluster(static_cast<int>(size), Small());
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kMostExchanged / (size - 1)}) {
      EXPECT_EQ(MessagesFor(&cluster, bytes), size * (size - 1));
    }
  }
}

KF_TEST(Exchange, NotOfMuchNorOfMany) {
  Cluster four(4, Small()), many(kMostExchangers + 1, Small());
  EXPECT_TRUE(MessagesFor(&four, kMostExchanged / 3 + 1) != 4u * 3);
  EXPECT_EQ(MessagesFor(&many, 1), 2u * kMostExchangers);  // to where it is reduced, and back
}

// Who names a strategy wants it for everything.
KF_TEST(Exchange, NotWhereAStrategyIsNamed) {
  ClusterOptions options = Small();
  options.strategy = "STAR";
  Cluster cluster(4, options);
  EXPECT_EQ(MessagesFor(&cluster, 1), 2u * 3);
}

// Messages that are sent and read one after the other had better be few.
KF_TEST(Exchange, NotWherePeersOutnumberCores) {
  ClusterOptions options = Small();
  options.own_cores = false;
  cpu_set_t before, one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_TRUE(sched_getaffinity(0, sizeof(before), &before) == 0);
  ASSERT_TRUE(sched_setaffinity(0, sizeof(one), &one) == 0);
  Cluster cluster(4, options);
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_EQ(MessagesFor(&cluster, 1), 2u * 3);
}

}  // namespace
}  // namespace kungfu::testing
