// AUTO: all peers choose the same, whatever each of them would measure.

#include <cstdint>
#include <string>
#include <vector>

#include "ops/plan/strategy.h"
#include "tests/cpp/collective/cluster.h"
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

void ExpectAgreement(const Cluster& cluster) {
  const StrategyName chosen = cluster.session(0)->strategy();
  EXPECT_TRUE(chosen != StrategyName::kAuto);
  for (int rank = 1; rank < cluster.size(); ++rank) EXPECT_TRUE(cluster.session(rank)->strategy() == chosen);
}

KF_TEST(Auto, AllPeersChooseTheSame) {
  for (const int hosts : {1, 2, 3, 6}) {
    ClusterOptions options;
    options.transport = "auto";
    options.hosts = hosts;
    Cluster cluster(6, options);
    ExpectSums(&cluster, "x");
    ExpectAgreement(cluster);
  }
}

// The same peers have measured already, and may go from one strategy to another and back.
KF_TEST(Auto, HoldsOverEpochs) {
  Cluster cluster(4);
  ExpectSums(&cluster, "x");
  const StrategyName chosen = cluster.session(0)->strategy();
  for (const StrategyName next : {StrategyName::kAuto, StrategyName::kRing, StrategyName::kAuto}) {
    std::vector<std::promise<Status>> gone_over(cluster.size());
    for (int rank = 0; rank < cluster.size(); ++rank) {
      cluster.peer(rank)->BeginEpoch(next, [&, rank](const Status& status) { gone_over[rank].set_value(status); });
    }
    for (std::promise<Status>& one : gone_over) EXPECT_OK(one.get_future().get());
    ExpectSums(&cluster, "x");
    EXPECT_TRUE(cluster.session(0)->strategy() == (next == StrategyName::kAuto ? chosen : next));
    ExpectAgreement(cluster);
  }
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
