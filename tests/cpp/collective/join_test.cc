// Peers without work change nothing in the all_reduces of the others, until all have joined.

#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

using Floats = std::vector<float>;

std::future<StatusOr<int>> JoinAt(Cluster* cluster, int rank) {
  auto promise = std::make_shared<std::promise<StatusOr<int>>>();
  cluster->peer(rank)->Join([promise](const StatusOr<int>& before) { promise->set_value(before); });
  return promise->get_future();
}

// An all_reduce of ones under way on the ranks from `first` on.
struct Ones {
  Ones(Cluster* cluster, int first, size_t count, const Operation& like) {
    values.resize(cluster->size() - first, Floats(count, 1));
    for (int rank = first; rank < cluster->size(); ++rank) {
      Operation operation = like;
      Floats& value = values[rank - first];
      operation.spans = {{value.data(), value.data(), count / 2},
                         {value.data() + count / 2, value.data() + count / 2, count - count / 2}};
      ends.push_back(cluster->Start(rank, std::move(operation)));
    }
  }
  void Expect(float expected) {
    for (auto& end : ends) EXPECT_OK(Wait(&end));
    for (const Floats& value : values) EXPECT_TRUE(value == Floats(value.size(), expected));
  }

  std::vector<Floats> values;
  std::vector<std::future<Status>> ends;
};

Operation OnesReduction(ReduceOp op = ReduceOp::kSum, const std::string& name = "x") {
  return MakeOperation(Kind::kAllReduce, name, DType::kFloat32, op);
}

// In step r rank r joins. Twice, with what comes after in step.
void JoinOneByOne(int size, size_t count, const ClusterOptions& options) {
  Cluster cluster(size, options);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::future<StatusOr<int>>> joins;
    for (int joined = 0; joined < size; ++joined) {
      Ones(&cluster, joined, count, OnesReduction()).Expect(static_cast<float>(size - joined));
      Operation mean = OnesReduction(ReduceOp::kMean);
      mean.shape_digest = 77;
      mean.step = joined;
      Ones(&cluster, joined, count, mean).Expect(static_cast<float>(size - joined) / static_cast<float>(size));
      joins.push_back(JoinAt(&cluster, joined));
    }
    for (int rank = 0; rank < size; ++rank) {
      const StatusOr<int> before = joins[rank].get();
      EXPECT_OK(before.status());
      if (before.ok()) EXPECT_TRUE(*before <= rank);
    }
    Ones(&cluster, 0, count, OnesReduction()).Expect(static_cast<float>(size));
  }
}

KF_TEST(Join, ContributesZerosOnEveryWay) {
  ClusterOptions exchange, direct, hosts, ring;
  exchange.arena_bytes = direct.arena_bytes = 16 << 20;
  exchange.direct_bytes = 1 << 20;
  exchange.own_cores = true;
  hosts.hosts = 2;
  hosts.transport = "tcp";
  hosts.strategy = "HIERARCHY";
  ring.strategy = "RING";
  for (const ClusterOptions& options : {ClusterOptions(), exchange, direct, hosts, ring}) {
    for (const size_t count : {0, 2, 1000, 100000}) JoinOneByOne(4, count, options);
  }
  for (const int size : {1, 2, 3, 5}) JoinOneByOne(size, 1000, ClusterOptions());
}

// Of -2 and -3, or of 2 and 3: zeros would be the maximum or the minimum.
KF_TEST(Join, ChangesNoProductMinimumOrMaximum) {
  struct Case {
    ReduceOp op;
    float at_1, at_2, expected;
  };
  for (const Case& one :
       {Case{ReduceOp::kProd, 2, 3, 6}, Case{ReduceOp::kMin, 2, 3, 2}, Case{ReduceOp::kMax, -2, -3, -2}}) {
    Cluster cluster(3);
    auto at_0 = JoinAt(&cluster, 0);
    Floats a(1000, one.at_1), b(1000, one.at_2);
    Operation operation = OnesReduction(one.op);
    operation.spans = {{a.data(), a.data(), a.size()}};
    auto at_1 = cluster.Start(1, operation);
    operation.spans = {{b.data(), b.data(), b.size()}};
    auto at_2 = cluster.Start(2, operation);
    EXPECT_OK(Wait(&at_1));
    EXPECT_OK(Wait(&at_2));
    EXPECT_TRUE(a == Floats(1000, one.expected));
    EXPECT_TRUE(b == a);
    auto last = JoinAt(&cluster, 1), other = JoinAt(&cluster, 2);
    for (auto* join : {&at_0, &last, &other}) EXPECT_OK(join->get().status());
  }
}

KF_TEST(Join, KnowsHowManyHaveJoinedBefore) {
  Cluster cluster(3);
  auto first = JoinAt(&cluster, 1);
  // Rank 2 knows of it when this has ended.
  for (int i = 0; i < 2; ++i) {
    Floats a(1), b(1);
    Operation operation = OnesReduction();
    operation.spans = {{a.data(), a.data(), 1}};
    auto at_0 = cluster.Start(0, operation);
    operation.spans = {{b.data(), b.data(), 1}};
    auto at_2 = cluster.Start(2, operation);
    EXPECT_OK(Wait(&at_0));
    EXPECT_OK(Wait(&at_2));
  }
  auto second = JoinAt(&cluster, 2), third = JoinAt(&cluster, 0);
  EXPECT_EQ(*first.get(), 0);
  EXPECT_TRUE(*second.get() + *third.get() >= 2);
}

KF_TEST(Join, TakesPartInTheMeasurementOfNorms) {
  Cluster cluster(2);
  auto at_0 = JoinAt(&cluster, 0);
  Norms norms{};
  Operation operation = OnesReduction(ReduceOp::kMean);
  operation.measured = [&norms](const Norms& measured) { norms = measured; };
  Floats value = {4};
  operation.spans = {{value.data(), value.data(), 1}};
  auto end = cluster.Start(1, operation);
  EXPECT_OK(Wait(&end));
  EXPECT_EQ(norms.sent, 8.0);
  EXPECT_EQ(norms.received, 4.0);
  auto at_1 = JoinAt(&cluster, 1);
  EXPECT_OK(at_0.get().status());
  EXPECT_OK(at_1.get().status());
}

KF_TEST(Join, OfAGroupsMember) {
  Cluster cluster(3);
  std::vector<std::future<StatusOr<uint64_t>>> made;
  for (int rank = 0; rank < 3; ++rank) {
    auto promise = std::make_shared<std::promise<StatusOr<uint64_t>>>();
    cluster.peer(rank)->AddGroup({0, 2}, [promise](const StatusOr<uint64_t>& number) { promise->set_value(number); });
    made.push_back(promise->get_future());
  }
  const uint64_t number = *made[0].get();
  EXPECT_EQ(*made[2].get(), number);
  auto at_0 = JoinAt(&cluster, 0);
  Operation operation = OnesReduction(ReduceOp::kMean);
  operation.group = number;
  Floats value = {4};
  operation.spans = {{value.data(), value.data(), 1}};
  auto end = cluster.Start(2, operation);
  EXPECT_OK(Wait(&end));
  EXPECT_EQ(value[0], 2.0f);
  auto at_1 = JoinAt(&cluster, 1), at_2 = JoinAt(&cluster, 2);
  for (auto* join : {&at_0, &at_1, &at_2}) EXPECT_OK(join->get().status());
}

KF_TEST(Join, OtherOperationsFailAndNameTheRank) {
  Cluster cluster(3);
  auto at_0 = JoinAt(&cluster, 0);
  std::vector<Operation> others;
  for (const Kind kind : {Kind::kBroadcast, Kind::kAllGather, Kind::kReduceScatter, Kind::kBarrier, Kind::kConsensus}) {
    others.push_back(MakeOperation(kind, "x"));
  }
  Operation along_trees = OnesReduction();
  along_trees.parents = {0, 0, 0};
  others.push_back(along_trees);
  Floats memory(100);
  int equal = 0;
  for (Operation operation : others) {
    const bool is_barrier = operation.kind == Kind::kBarrier;
    std::vector<std::future<Status>> ends;
    for (const int rank : {1, 2}) {
      float* const place = memory.data() + 30 * rank;
      if (!is_barrier) operation.spans = {{place, place, 6}};
      operation.allocate = [place](const std::vector<uint64_t>&) { return place; };
      operation.equal = &equal;
      ends.push_back(cluster.Start(rank, operation));
    }
    for (auto& end : ends) {
      const Status status = Wait(&end);
      EXPECT_EQ(status.code(), Code::kFailedPrecondition);
      EXPECT_CONTAINS(status.message(), Name(operation.kind));
      EXPECT_CONTAINS(status.message(), "rank 0 (127.0.0.1:");
      EXPECT_CONTAINS(status.message(), "has joined: it takes part in all_reduces only");
    }
    Ones(&cluster, 1, 10, OnesReduction()).Expect(2);
  }
  // In this one rank 0 has no part.
  along_trees.parents = {0, 1, 1};
  Ones(&cluster, 1, 10, along_trees).Expect(2);
  auto at_1 = JoinAt(&cluster, 1), at_2 = JoinAt(&cluster, 2);
  for (auto* join : {&at_0, &at_1, &at_2}) EXPECT_OK(join->get().status());
  for (int i = 0; i < 2; ++i) Ones(&cluster, 0, 10, OnesReduction()).Expect(3);
}

KF_TEST(Join, WaitsNoLongerThanAnOperationMay) {
  ClusterOptions options;
  options.timeout = 0.5;
  Cluster cluster(2, options);
  auto at_0 = JoinAt(&cluster, 0);
  auto again = JoinAt(&cluster, 0);
  EXPECT_EQ(again.get().status().code(), Code::kFailedPrecondition);
  const Status status = at_0.get().status();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_CONTAINS(status.message(), "join at rank 0");
  EXPECT_CONTAINS(status.message(), "rank 1 (127.0.0.1:");
}

KF_TEST(Join, APeerThatLeavesWithoutItIsNamed) {
  Cluster cluster(2);
  Ones(&cluster, 0, 10, OnesReduction()).Expect(2);
  auto at_0 = JoinAt(&cluster, 0);
  Ones(&cluster, 1, 10, OnesReduction()).Expect(1);
  cluster.Stop(1);
  const Status status = at_0.get().status();
  EXPECT_FALSE(status.ok());
  EXPECT_CONTAINS(status.message(), "join");
  EXPECT_CONTAINS(status.message(), "rank 1 (127.0.0.1:");
}

}  // namespace
}  // namespace kungfu::testing
