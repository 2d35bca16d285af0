// AUTO: all peers choose the same, whatever each of them would measure.

#include <cstdint>
#include <string>
#include <vector>

#include "ops/plan/strategy.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/standard_error.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

void ExpectSums(Cluster* cluster, const std::string& name) {
  for (uint64_t count = 1; count <= 1 << 20; count *= 32) {
    std::vector<std::vector<float>> tensors(cluster->size(), std::vector<float>(count, 1));
    ExpectAllOk(cluster->Run([&](int rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, name + std::to_string(count));
      operation.spans = {{tensors[rank].data(), tensors[rank].data(), count}};
      return operation;
    }));
    const std::vector<float> sum(count, static_cast<float>(cluster->size()));
    for (const std::vector<float>& tensor : tensors) EXPECT_TRUE(tensor == sum);
  }
}

void BeginEpoch(Cluster* cluster, StrategyName strategy) {
  std::vector<std::promise<Status>> gone_over(cluster->size());
  for (int rank = 0; rank < cluster->size(); ++rank) {
    cluster->peer(rank)->BeginEpoch(strategy, [&, rank](const Status& status) { gone_over[rank].set_value(status); });
  }
  for (std::promise<Status>& one : gone_over) {
    std::future<Status> status = one.get_future();
    EXPECT_OK(Wait(&status));
  }
}

void ExpectAgreement(const Cluster& cluster) {
  const StrategyName chosen = cluster.session(0)->strategy();
  EXPECT_TRUE(chosen != StrategyName::kAuto);
  for (int rank = 1; rank < cluster.size(); ++rank) EXPECT_TRUE(cluster.session(rank)->strategy() == chosen);
}

KF_TEST(Auto, AllPeersChooseTheSame) {
  for (const size_t arena_bytes : {0, 64 << 20}) {
    for (const int hosts : {1, 2, 3, 6}) {
      ClusterOptions options;
      options.transport = "auto";
      options.hosts = hosts;
      options.arena_bytes = arena_bytes;
      Cluster cluster(6, options);
      ExpectSums(&cluster, "x");
      ExpectAgreement(cluster);
    }
  }
}

// The same peers have measured already, and may go from one strategy to another and back.
KF_TEST(Auto, HoldsOverEpochs) {
  Cluster cluster(4);
  ExpectSums(&cluster, "x");
  const StrategyName chosen = cluster.session(0)->strategy();
  for (const StrategyName next : {StrategyName::kAuto, StrategyName::kRing, StrategyName::kAuto}) {
    BeginEpoch(&cluster, next);
    ExpectSums(&cluster, "x");
    EXPECT_TRUE(cluster.session(0)->strategy() == (next == StrategyName::kAuto ? chosen : next));
    ExpectAgreement(cluster);
  }
}

// One peer of the host and one of another stand for all, what is sent to them is bounded, and once is enough.
KF_TEST(Auto, MeasuresLittleAndOnce) {
  constexpr uint64_t kLong = 64 << 10, kMost = 2 << 20;
  ClusterOptions options;
  options.transport = "auto";
  options.hosts = 2;
  Cluster cluster(6, options);
  const auto meet = [&] { ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "together"); })); };
  const auto sent_to = [&](int rank) { return cluster.peer(0)->TrafficByRank()[rank].total.sum().sent; };
  meet();
  for (const int asked : {1, 3}) EXPECT_TRUE(sent_to(asked) < kMost);
  EXPECT_TRUE(sent_to(3) > kLong);  // of its own host's peer rank 0 expects the answers at once
  for (const int spared : {2, 4, 5}) EXPECT_TRUE(sent_to(spared) < kLong);
  const uint64_t before = sent_to(1);
  BeginEpoch(&cluster, StrategyName::kAuto);
  meet();
  EXPECT_TRUE(sent_to(1) - before < kLong);
}

// What peers tell while they come together.
std::string Told(ClusterOptions options) {
  options.log_level = LogLevel::kInfo;
  return StandardErrorOf([&] {
    Cluster cluster(4, options);
    ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "together"); }));
  });
}

// Once, by rank 0. Of links that are not there nothing is told.
KF_TEST(Auto, TellsWhatItMeasuredAndWhatItMeans) {
  ClusterOptions options;
  options.transport = "auto";
  options.arena_bytes = 1 << 20;
  options.direct_bytes = 64 << 10;
  options.own_cores = true;
  const std::string one_host = Told(options);
  EXPECT_EQ(TimesIn(one_host, "messages within a host take "), 1u);
  EXPECT_EQ(TimesIn(one_host, "between hosts"), 0u);
  EXPECT_EQ(TimesIn(one_host, "strategy AUTO for "), 1u);
  EXPECT_CONTAINS(one_host, ": all-reduces go from every peer to every other up to 5461 bytes, then along ");
  EXPECT_CONTAINS(one_host, ", then in memory that all peers map\n");

  options.hosts = 2;
  EXPECT_CONTAINS(Told(options), "; between hosts ");
  options.hosts = 4;
  EXPECT_CONTAINS(Told(options), "messages between hosts take ");
}

// Who names a strategy gets it, and no other is measured: rank 0's counts.
KF_TEST(Auto, GivesWayToAName) {
  ClusterOptions options;
  options.strategy = "TREE";
  options.transport = "auto";
  options.hosts = 2;
  Cluster cluster(4, options);
  ExpectSums(&cluster, "x");
  EXPECT_TRUE(cluster.session(3)->strategy() == StrategyName::kTree);
}

}  // namespace
}  // namespace kungfu::testing
