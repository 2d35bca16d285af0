// What a peer measures of its connections with the others.

#include <cmath>
#include <future>
#include <memory>
#include <vector>

#include "ops/peer/peer.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

using Latencies = std::vector<double>;

std::future<Latencies> Ping(Session* session, Seconds timeout = Seconds(30)) {
  auto promise = std::make_shared<std::promise<Latencies>>();
  session->Ping(timeout, [promise](const Latencies& seconds) { promise->set_value(seconds); });
  return promise->get_future();
}

void SumOfAThousand(Cluster* cluster, const std::string& name) {
  std::vector<std::vector<float>> values(cluster->size(), std::vector<float>(1000, 1));
  ExpectAllOk(cluster->Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, name);
    operation.spans = {{values[rank].data(), values[rank].data(), values[rank].size()}};
    return operation;
  }));
}

// An answer may come while the session is still begun: what that has under way ends with it.
KF_TEST(Ping, APeerMayEndBeforeItsSessionHasBegun) {
  for (int round = 0; round < 30; ++round) {
    Cluster cluster(3);
    Ping(cluster.session(round % 3).get()).wait();
  }
}

KF_TEST(Ping, OneOfAllMayAskAndAllAtOnce) {
  Cluster cluster(3);
  std::vector<std::future<Latencies>> pings;
  for (const int rank : {1, 0, 1, 2}) pings.push_back(Ping(cluster.session(rank).get()));
  for (auto& ping : pings) {
    const Latencies seconds = ping.get();
    EXPECT_EQ(seconds.size(), 3u);
    int own = 0;
    for (const double latency : seconds) own += latency == 0;
    EXPECT_EQ(own, 1);
    for (const double latency : seconds) EXPECT_TRUE(latency >= 0 && latency < 30);
  }
}

KF_TEST(Ping, OfOne) {
  Cluster cluster(1);
  EXPECT_TRUE(Ping(cluster.session(0).get()).get() == Latencies{0});
}

KF_TEST(Ping, WhoIsGoneIsInfinitelyFar) {
  Cluster cluster(2);
  SumOfAThousand(&cluster, "together");
  cluster.Stop(1);
  const Latencies seconds = Ping(cluster.session(0).get(), Seconds(0.2)).get();
  EXPECT_EQ(seconds[0], 0.0);
  EXPECT_TRUE(std::isinf(seconds[1]));
}

KF_TEST(Ping, EndsWithThePeer) {
  Cluster cluster(2);
  SumOfAThousand(&cluster, "together");
  const std::shared_ptr<Session> session = cluster.session(0);
  cluster.Stop(1);
  std::future<Latencies> ping = Ping(session.get(), Seconds(1e6));
  cluster.Stop(0);
  EXPECT_TRUE(std::isinf(ping.get()[1]));
  EXPECT_TRUE(std::isinf(Ping(session.get()).get()[1]));
}

KF_TEST(Traffic, IsToldApartByPeers) {
  ClusterOptions options;
  options.strategy = "STAR";
  Cluster cluster(3, options);
  SumOfAThousand(&cluster, "a");
  const auto of_root = cluster.peer(0)->TrafficByRank();
  const auto of_leaf = cluster.peer(1)->TrafficByRank();
  EXPECT_EQ(of_root[0].total.sum().sent, 0u);
  for (const int leaf : {1, 2}) {
    EXPECT_GE(of_root[leaf].total.sum().sent, 4000u);
    EXPECT_GE(of_root[leaf].total.sum().received, 4000u);
    const TrafficMeter::Rates& rates = of_root[leaf].rates[static_cast<int>(TrafficWay::kSharedMemory)];
    EXPECT_TRUE(rates.sent > 0 && rates.received > 0);
  }
  EXPECT_GE(of_leaf[0].total.sum().sent, 4000u);
  EXPECT_EQ(of_leaf[2].total.sum().sent, 0u);
  const RouterTotals totals = cluster.peer(0)->Totals();
  EXPECT_GE(totals.bytes_sent, of_root[1].total.sum().sent + of_root[2].total.sum().sent);
}

KF_TEST(Traffic, OfConnectionsThatAreOverCounts) {
  Cluster cluster(2);
  SumOfAThousand(&cluster, "a");
  const auto before = cluster.peer(0)->TrafficByRank();
  cluster.Stop(1);
  const Latencies seconds = Ping(cluster.session(0).get(), Seconds(0.2)).get();  // time for the loop to see it
  EXPECT_TRUE(std::isinf(seconds[1]));
  EXPECT_GE(cluster.peer(0)->TrafficByRank()[1].total.sum().sent, before[1].total.sum().sent);
}

KF_TEST(Strategy, IsKnownOnceThePeersHaveAgreed) {
  ClusterOptions options;
  options.strategy = "RING";
  Cluster cluster(2, options);
  SumOfAThousand(&cluster, "a");
  for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(cluster.session(rank)->strategy() == StrategyName::kRing);
}

}  // namespace
}  // namespace kungfu::testing
