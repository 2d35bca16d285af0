// Groups: sums of their own, at once and under one name; all kinds; all transports; errors; new epochs.

#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "ops/peer/peer.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/peer/job.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

using Ranks = std::vector<int>;
using Floats = std::vector<float>;

std::future<StatusOr<uint64_t>> Add(Cluster* cluster, int rank, const Ranks& ranks) {
  auto promise = std::make_shared<std::promise<StatusOr<uint64_t>>>();
  cluster->peer(rank)->AddGroup(ranks, [promise](const StatusOr<uint64_t>& number) { promise->set_value(number); });
  return promise->get_future();
}

// Each peer says which ranks.
std::vector<StatusOr<uint64_t>> AddAll(Cluster* cluster, const std::vector<Ranks>& ranks) {
  std::vector<std::future<StatusOr<uint64_t>>> futures;
  for (int rank = 0; rank < cluster->size(); ++rank) futures.push_back(Add(cluster, rank, ranks[rank]));
  std::vector<StatusOr<uint64_t>> results;
  for (auto& future : futures) results.push_back(future.get());
  return results;
}

uint64_t AddGroup(Cluster* cluster, const Ranks& ranks) {
  const auto results = AddAll(cluster, std::vector<Ranks>(cluster->size(), ranks));
  for (const auto& result : results) {
    EXPECT_OK(result.status());
    if (result.ok()) EXPECT_EQ(*result, *results[0]);
  }
  return results[0].ok() ? *results[0] : 0;
}

// An all_reduce of a group under way on its members.
struct GroupSum {
  GroupSum(Cluster* cluster, uint64_t group, const Ranks& ranks, size_t count, const std::string& name = "sum",
           ReduceOp op = ReduceOp::kSum)
      : ranks(ranks) {
    values.reserve(ranks.size());
    for (const int rank : ranks) {
      Arena* const arena = cluster->arena(rank);
      shared.push_back(arena != nullptr ? static_cast<float*>(arena->Allocate(count * sizeof(float))) : nullptr);
      values.emplace_back(shared.back() == nullptr ? count : 0);
      float* const data = shared.back() != nullptr ? shared.back() : values.back().data();
      std::fill(data, data + count, static_cast<float>(1 << rank));
      Operation operation = MakeOperation(Kind::kAllReduce, name, DType::kFloat32, op);
      operation.group = group;
      operation.spans = {{data, data, count}};
      results.push_back({data, data + count});
      ends.push_back(cluster->Start(rank, std::move(operation)));
    }
  }

  // Waits, and checks that everything is `expected`.
  void Expect(float expected) {
    for (auto& end : ends) EXPECT_OK(Wait(&end));
    for (const auto& [begin, end] : results) {
      bool equal = true;
      for (const float* value = begin; value < end; ++value) equal = equal && *value == expected;
      EXPECT_TRUE(equal);
    }
  }

  const Ranks ranks;
  std::vector<Floats> values;
  std::vector<float*> shared;
  std::vector<std::pair<float*, float*>> results;
  std::vector<std::future<Status>> ends;
};

float Total(const Ranks& ranks) {
  float total = 0;
  for (const int rank : ranks) total += static_cast<float>(1 << rank);
  return total;
}

KF_TEST(Groups, ReduceAmongThemselvesAtOnceUnderOneNameOnEveryWay) {
  for (const char* const transport : {"shm", "unix", "tcp"}) {
    ClusterOptions options;
    options.transport = transport;
    Cluster cluster(4, options);
    const std::vector<Ranks> groups = {{0, 2}, {1, 2, 3}, {3}, {0, 1, 2, 3}};
    std::vector<uint64_t> numbers;
    for (const Ranks& ranks : groups) numbers.push_back(AddGroup(&cluster, ranks));
    for (const size_t count : {0, 1, 1000, 300000}) {
      std::vector<std::unique_ptr<GroupSum>> sums;
      for (size_t i = 0; i < groups.size(); ++i) {
        sums.push_back(std::make_unique<GroupSum>(&cluster, numbers[i], groups[i], count));
      }
      GroupSum all(&cluster, 0, {0, 1, 2, 3}, count);
      for (size_t i = 0; i < groups.size(); ++i) sums[i]->Expect(Total(groups[i]));
      all.Expect(15);
    }
  }
}

KF_TEST(Groups, ReduceInTheMemoryOfTheirPeersWithoutCopies) {
  ClusterOptions options;
  options.arena_bytes = 16 << 20;
  Cluster cluster(4, options);
  const Ranks even = {0, 2}, odd = {1, 3}, most = {0, 1, 2};
  const uint64_t a = AddGroup(&cluster, even), b = AddGroup(&cluster, odd), c = AddGroup(&cluster, most);
  const uint64_t before = cluster.peer(0)->counters().direct();
  for (int step = 0; step < 5; ++step) {
    GroupSum sum_a(&cluster, a, even, 100000, "x"), sum_b(&cluster, b, odd, 100000, "x"),
        sum_c(&cluster, c, most, 100000);
    GroupSum all(&cluster, 0, {0, 1, 2, 3}, 100000, "x");
    sum_a.Expect(5);
    sum_b.Expect(10);
    sum_c.Expect(7);
    all.Expect(15);
    for (GroupSum* const sum : {&sum_a, &sum_b, &sum_c, &all}) {
      for (size_t i = 0; i < sum->ranks.size(); ++i) cluster.arena(sum->ranks[i])->Free(sum->shared[i]);
    }
  }
  EXPECT_EQ(cluster.peer(0)->counters().direct() - before, 15u);
}

KF_TEST(Groups, MeansRootsAndCountsAreThoseOfTheGroup) {
  Cluster cluster(4);
  const Ranks ranks = {3, 1};
  const uint64_t group = AddGroup(&cluster, ranks);
  GroupSum(&cluster, group, ranks, 10, "mean", ReduceOp::kMean).Expect(5);
  for (const int rank : ranks) {
    const StatusOr<std::shared_ptr<Session>> session = cluster.peer(rank)->SessionOf(group);
    EXPECT_OK(session.status());
    EXPECT_EQ((*session)->size(), 2);
    EXPECT_EQ((*session)->rank(), rank == 1 ? 0 : 1);
  }
  std::vector<Ranks> gathered(4);
  std::vector<std::future<Status>> ends;
  std::vector<int> mine = {0, 1, 2, 3};
  for (const int rank : ranks) {
    Operation gather = MakeOperation(Kind::kGather, "gather", DType::kInt32, ReduceOp::kSum, /*root=*/1);
    gather.group = group;
    gather.spans = {{&mine[rank], nullptr, 1}};
    gather.allocate = [&gathered, rank](const std::vector<uint64_t>& counts) -> void* {
      EXPECT_TRUE(counts == std::vector<uint64_t>({1, 1}));
      gathered[rank].resize(2);
      return gathered[rank].data();
    };
    ends.push_back(cluster.Start(rank, std::move(gather)));
  }
  for (auto& end : ends) EXPECT_OK(Wait(&end));
  EXPECT_TRUE(gathered[3] == Ranks({1, 3}) && gathered[1].empty());
}

KF_TEST(Groups, AreMadeAlikeOrNot) {
  Cluster cluster(3);
  const auto differ = AddAll(&cluster, {{0, 1}, {0, 1}, {0, 2}});
  for (const auto& result : differ) {
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_TRUE(result.status().message().find("ranks 0, 1 at rank 0") != std::string::npos);
    EXPECT_TRUE(result.status().message().find("ranks 0, 2 at rank 2") != std::string::npos);
  }
  for (const Ranks& wrong : {Ranks{}, Ranks{3}, Ranks{-1}, Ranks{1, 1}}) {
    for (const auto& result : AddAll(&cluster, {wrong, wrong, wrong})) {
      EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    }
  }
  const uint64_t group = AddGroup(&cluster, {0, 1});
  GroupSum(&cluster, group, {0, 1}, 10).Expect(3);
}

KF_TEST(Groups, AnOutsiderIsRefusedAtTheCall) {
  Cluster cluster(3);
  const uint64_t group = AddGroup(&cluster, {0, 2});
  Operation barrier = MakeOperation(Kind::kBarrier, "b");
  barrier.group = group;
  std::future<Status> refused = cluster.Start(1, std::move(barrier));
  const Status status = Wait(&refused);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(status.message().find("rank 1 is not in the group of ranks 0, 2") != std::string::npos);
  GroupSum(&cluster, group, {0, 2}, 10).Expect(5);
}

KF_TEST(Groups, UnevenCallsAreErrorsThatNameTheGroup) {
  Cluster cluster(3);
  const uint64_t group = AddGroup(&cluster, {0, 2});
  GroupSum one(&cluster, group, {0}, 10, "uneven"), other(&cluster, group, {2}, 11, "uneven");
  for (GroupSum* const sum : {&one, &other}) {
    const Status status = Wait(&sum->ends[0]);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(status.message().find("all_reduce 'uneven' among ranks 0, 2 differs") != std::string::npos);
  }
  Operation alone = MakeOperation(Kind::kBarrier, "alone");
  alone.group = group;
  alone.timeout = 0.2;
  std::future<Status> late = cluster.Start(0, std::move(alone));
  const Status status = Wait(&late);
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(status.message().find("among ranks 0, 2") != std::string::npos);
  GroupSum(&cluster, group, {0, 2}, 10).Expect(5);
  GroupSum(&cluster, 0, {0, 1, 2}, 10).Expect(7);
}

KF_TEST(Groups, AMemberThatDiesEndsThemAndOthersGoOn) {
  Cluster cluster(4);
  const uint64_t dying = AddGroup(&cluster, {0, 2}), others = AddGroup(&cluster, {1, 3});
  GroupSum(&cluster, dying, {0, 2}, 10).Expect(5);
  GroupSum(&cluster, others, {1, 3}, 10).Expect(10);
  GroupSum waits(&cluster, dying, {0}, 10);
  cluster.Stop(2);
  const Status status = Wait(&waits.ends[0]);
  EXPECT_TRUE(!status.ok());
  EXPECT_TRUE(status.message().find("among ranks 0, 2") != std::string::npos);
  GroupSum(&cluster, others, {1, 3}, 10).Expect(10);
}

KF_TEST(Groups, GoOnInAnotherEpochOfTheSamePeers) {
  Cluster cluster(3);
  const uint64_t group = AddGroup(&cluster, {0, 2});
  GroupSum lost(&cluster, group, {0}, 10, "step");
  std::vector<std::future<Status>> begun;
  for (int rank = 0; rank < 3; ++rank) {
    auto promise = std::make_shared<std::promise<Status>>();
    begun.push_back(promise->get_future());
    cluster.peer(rank)->BeginEpoch({}, [promise](const Status& status) { promise->set_value(status); });
  }
  for (auto& end : begun) EXPECT_OK(Wait(&end));
  EXPECT_EQ(Wait(&lost.ends[0]).code(), Code::kCancelled);
  GroupSum(&cluster, group, {0, 2}, 10, "step").Expect(5);
}

KF_TEST(Groups, RemovedOnesAreNoMore) {
  Cluster cluster(3);
  const uint64_t group = AddGroup(&cluster, {0, 1});
  GroupSum pending(&cluster, group, {0}, 10);
  for (int rank = 0; rank < 3; ++rank) cluster.peer(rank)->RemoveGroup(group);
  EXPECT_EQ(Wait(&pending.ends[0]).code(), Code::kCancelled);
  EXPECT_TRUE(Becomes([&] { return cluster.peer(0)->SessionOf(group).status().code() == Code::kAborted; }));
  const uint64_t next = AddGroup(&cluster, {0, 1});
  EXPECT_TRUE(next != group);
  GroupSum(&cluster, next, {0, 1}, 10).Expect(3);
}

// The number of a group that peers of a job make.
uint64_t AddGroupOf(Job* job, const std::string& names, const Ranks& ranks) {
  std::vector<std::future<StatusOr<uint64_t>>> futures;
  for (const char name : names) {
    auto promise = std::make_shared<std::promise<StatusOr<uint64_t>>>();
    job->peer(name)->AddGroup(ranks, [promise](const StatusOr<uint64_t>& number) { promise->set_value(number); });
    futures.push_back(promise->get_future());
  }
  std::vector<uint64_t> numbers;
  for (auto& future : futures) {
    const StatusOr<uint64_t> number = future.get();
    EXPECT_OK(number.status());
    numbers.push_back(number.ok() ? *number : 0);
  }
  for (const uint64_t number : numbers) EXPECT_EQ(number, numbers[0]);
  return numbers[0];
}

// How the barrier of a group begins and ends on a peer.
std::future<Status> StartBarrier(Peer* peer, uint64_t group) {
  auto promise = std::make_shared<std::promise<Status>>();
  Operation barrier = MakeOperation(Kind::kBarrier, "barrier");
  barrier.group = group;
  barrier.done = [promise](const Status& status) { promise->set_value(status); };
  peer->StartOperation(std::move(barrier));
  return promise->get_future();
}

KF_TEST(Groups, DoNotFitAnotherMembership) {
  Job job;
  job.StartMembers("abc");
  const uint64_t old = AddGroupOf(&job, "abc", {0, 1});
  job.Start('d');
  job.Announce("abcd");
  job.ExpectAllAdvance("abcd");
  std::future<Status> late = StartBarrier(job.peer('a'), old);
  const Status status = Wait(&late);
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_CONTAINS(status.message(), "is of membership version 0, and the peers are now those of version 1");
  const uint64_t group = AddGroupOf(&job, "abcd", {1, 3});
  std::future<Status> b = StartBarrier(job.peer('b'), group), d = StartBarrier(job.peer('d'), group);
  EXPECT_OK(Wait(&b));
  EXPECT_OK(Wait(&d));
}

KF_TEST(Groups, OfALostPeerDoNotFitTheSurvivors) {
  Job job;
  job.survives = true;
  job.StartMembers("abc");
  const uint64_t old = AddGroupOf(&job, "abc", {0, 2});
  std::future<Status> broken = StartBarrier(job.peer('a'), old);
  job.Stop('c');
  EXPECT_FALSE(Wait(&broken).ok());
  job.Survive("ab", "ab");
  EXPECT_TRUE(Becomes([&] { return job.peer('a')->session()->size() == 2 && job.peer('b')->session()->size() == 2; }));
  std::future<Status> late = StartBarrier(job.peer('a'), old);
  EXPECT_EQ(Wait(&late).code(), Code::kAborted);
  const uint64_t group = AddGroupOf(&job, "ab", {0, 1});
  std::future<Status> a = StartBarrier(job.peer('a'), group), b = StartBarrier(job.peer('b'), group);
  EXPECT_OK(Wait(&a));
  EXPECT_OK(Wait(&b));
}

KF_TEST(Groups, OfAProcessThatIsAlone) {
  StatusOr<std::unique_ptr<Peer>> peer = Peer::Start(Config());
  EXPECT_OK(peer.status());
  uint64_t group = 0;
  (*peer)->AddGroup({0}, [&](const StatusOr<uint64_t>& number) { group = number.ok() ? *number : 0; });
  EXPECT_TRUE(group != 0);
  float value = 3;
  Operation sum = MakeOperation(Kind::kAllReduce, "sum");
  sum.group = group;
  sum.spans = {{&value, &value, 1}};
  Status status = InternalError("not called");
  sum.done = [&](const Status& ended) { status = ended; };
  (*peer)->StartOperation(std::move(sum));
  EXPECT_OK(status);
}

}  // namespace
}  // namespace kungfu::testing
