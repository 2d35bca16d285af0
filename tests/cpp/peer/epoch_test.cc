#include <future>
#include <memory>
#include <string>
#include <vector>

#include "ops/peer/peer.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

std::future<Status> BeginEpoch(Cluster* cluster, int rank, const StrategySpec& strategy = {}) {
  auto promise = std::make_shared<std::promise<Status>>();
  cluster->peer(rank)->BeginEpoch(strategy, [promise](const Status& status) { promise->set_value(status); });
  return promise->get_future();
}

std::vector<Status> BeginEpochs(Cluster* cluster, const std::vector<StrategySpec>& strategies) {
  std::vector<std::future<Status>> futures;
  for (int rank = 0; rank < cluster->size(); ++rank) futures.push_back(BeginEpoch(cluster, rank, strategies[rank]));
  std::vector<Status> statuses;
  for (auto& future : futures) statuses.push_back(Wait(&future));
  return statuses;
}

void ExpectSum(Cluster* cluster, const std::string& name) {
  std::vector<std::vector<float>> values;
  for (int rank = 0; rank < cluster->size(); ++rank) values.emplace_back(1000, static_cast<float>(rank + 1));
  ExpectAllOk(cluster->Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, name);
    operation.spans = {{values[rank].data(), values[rank].data(), values[rank].size()}};
    return operation;
  }));
  const float sum = static_cast<float>(cluster->size() * (cluster->size() + 1)) / 2;
  for (const auto& value : values) EXPECT_TRUE(value == std::vector<float>(1000, sum));
}

// Runs `inside` on the loop of a peer.
void OnLoop(Cluster* cluster, int rank, std::function<void()> inside) {
  Operation unnamed = MakeOperation(Kind::kBarrier, "");  // an error, at once
  unnamed.done = [inside = std::move(inside)](const Status&) { inside(); };
  cluster->session(rank)->Start(std::move(unnamed));
}

KF_TEST(Epoch, PeersThatAnErrorLeftOutOfStepAreInStep) {
  Cluster cluster(3);
  Operation alone = MakeOperation(Kind::kBarrier, "step");
  alone.timeout = 0.2;
  std::future<Status> failed = cluster.Start(0, std::move(alone));
  EXPECT_EQ(Wait(&failed).code(), Code::kDeadlineExceeded);
  ExpectAllOk(BeginEpochs(&cluster, {3, StrategyName::kAuto}));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(cluster.session(rank)->epoch(), 1u);
  ExpectSum(&cluster, "step");
}

KF_TEST(Epoch, ATreeOfOnesOwn) {
  Cluster cluster(4);
  for (const std::vector<int>& parents : std::vector<std::vector<int>>{{0, 0, 1, 2}, {2, 2, 2, 2}, {1, 3, 1, 3}}) {
    ExpectAllOk(BeginEpochs(&cluster, {4, StrategySpec(parents)}));
    ExpectSum(&cluster, "step");
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(cluster.session(rank)->strategy() == StrategyName::kTree);
      EXPECT_TRUE(cluster.peer(rank)->strategy().parents == parents);
    }
  }
}

KF_TEST(Epoch, AnotherTreeIsMeasuredAnew) {
  constexpr int kTree = static_cast<int>(StrategyName::kTree), kRing = static_cast<int>(StrategyName::kRing);
  const StrategySpec one(std::vector<int>{0, 0, 1}), other(std::vector<int>{1, 1, 1});
  Cluster cluster(3);
  ThroughputMeter& meter = cluster.peer(0)->throughput();
  ExpectAllOk(BeginEpochs(&cluster, {3, one}));
  for (const int key : {kTree, kRing}) {
    const Clock::time_point now = Clock::now();
    meter.Begin(now);
    meter.End(now + std::chrono::seconds(1), key, 100);
    meter.EndWindow();
  }
  const double tree = meter.Of(kTree).best, ring = meter.Of(kRing).best;
  EXPECT_TRUE(tree > 0 && ring > 0);
  ExpectAllOk(BeginEpochs(&cluster, {3, one}));
  EXPECT_EQ(meter.Of(kTree).best, tree);
  ExpectAllOk(BeginEpochs(&cluster, {3, other}));
  EXPECT_EQ(meter.Of(kTree).best, 0.0);
  EXPECT_EQ(meter.Of(kRing).best, ring);
}

KF_TEST(Epoch, WhatIsNoTreeChangesNothing) {
  Cluster cluster(3);
  for (const std::vector<int>& parents : std::vector<std::vector<int>>{{0, 1, 0}, {0, 2, 1}, {0, 0}}) {
    for (const Status& status : BeginEpochs(&cluster, {3, StrategySpec(parents)})) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(status.message(), "tree: ");
    }
    ExpectSum(&cluster, "step");
  }
  const StrategySpec one(std::vector<int>{0, 0, 0}), other(std::vector<int>{0, 0, 1});
  for (const Status& status : BeginEpochs(&cluster, {one, one, other})) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(status.message(), "a new epoch with strategy the tree 0,0,");
  }
  ExpectSum(&cluster, "step");
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(cluster.session(rank)->epoch(), 0u);
}

KF_TEST(Epoch, StrategiesChangeManyTimesAndNothingIsLeftBehind) {
  Cluster cluster(4);
  ExpectSum(&cluster, "step");
  const int descriptors = NumEntries("/proc/self/fd"), threads = NumEntries("/proc/self/task");
  for (int round = 0; round < 40; ++round) {
    ExpectAllOk(BeginEpochs(&cluster, {4, static_cast<StrategyName>(round % kNumStrategies)}));
    ExpectSum(&cluster, "step");
  }
  EXPECT_EQ(cluster.session(3)->epoch(), 40u);
  EXPECT_TRUE(ComesDownTo(threads, "/proc/self/task"));
  EXPECT_TRUE(ComesDownTo(descriptors + 2 * 4 * 3, "/proc/self/fd"));  // one connection each way, once used
}

KF_TEST(Epoch, DifferentWishesAreAnErrorAndTheOldEpochGoesOn) {
  Cluster cluster(2);
  for (const Status& status : BeginEpochs(&cluster, {StrategyName::kRing, StrategyName::kTree})) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(status.message(), "a new epoch with strategy ");
    EXPECT_CONTAINS(status.message(), ", which not all peers want: ");
    EXPECT_CONTAINS(status.message(), "): what is to follow it");
  }
  EXPECT_EQ(cluster.session(0)->epoch(), 0u);
  ExpectSum(&cluster, "on");
  ExpectAllOk(BeginEpochs(&cluster, {2, StrategyName::kRing}));
}

KF_TEST(Epoch, WhatIsPendingEnds) {
  Cluster cluster(2);
  std::future<Status> pending = cluster.Start(1, MakeOperation(Kind::kBarrier, "of one alone"));
  ExpectAllOk(BeginEpochs(&cluster, {2, StrategyName::kAuto}));
  const Status status = Wait(&pending);
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_CONTAINS(status.message(), "epoch 0 has ended");
  ExpectSum(&cluster, "on");
}

KF_TEST(Epoch, AnOperationOfOneThatIsOverFails) {
  Cluster cluster(2);
  const std::shared_ptr<Session> old = cluster.session(0);
  ExpectAllOk(BeginEpochs(&cluster, {2, StrategyName::kAuto}));
  auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> late = promise->get_future();
  Operation operation = MakeOperation(Kind::kBarrier, "late");
  operation.done = [promise](const Status& status) { promise->set_value(status); };
  old->Start(std::move(operation));
  EXPECT_EQ(Wait(&late).code(), Code::kCancelled);
  ExpectSum(&cluster, "late");
}

// Rank 0 is in the new epoch while rank 1 is still in the old one: data and errors wait for it. Of a star rank 0 is
// the root: it needs no more of rank 1 than that it has begun.
KF_TEST(Epoch, WhoGoesOverFirstIsHeardLater) {
  Cluster cluster(2);
  ExpectAllOk(BeginEpochs(&cluster, {2, StrategyName::kStar}));
  ExpectSum(&cluster, "connected");
  std::future<Status> second = BeginEpoch(&cluster, 1, StrategyName::kStar);
  std::promise<void> begun, release;
  OnLoop(&cluster, 1, [&] { begun.set_value(); });
  begun.get_future().wait();
  OnLoop(&cluster, 1, [released = release.get_future().share()] { released.wait(); });
  std::future<Status> first = BeginEpoch(&cluster, 0, StrategyName::kStar);
  EXPECT_OK(Wait(&first));
  std::future<Status> good = cluster.Start(0, MakeOperation(Kind::kBarrier, "good"));
  std::promise<Status> cancelled;
  Operation given_up = MakeOperation(Kind::kBarrier, "given up");
  given_up.done = [&cancelled](const Status& status) { cancelled.set_value(status); };
  cluster.session(0)->Cancel(cluster.session(0)->Start(std::move(given_up)));
  EXPECT_EQ(cancelled.get_future().get().code(), Code::kCancelled);
  release.set_value();
  EXPECT_OK(Wait(&second));
  std::future<Status> same = cluster.Start(1, MakeOperation(Kind::kBarrier, "given up"));
  EXPECT_EQ(Wait(&same).code(), Code::kCancelled);
  std::future<Status> here = cluster.Start(1, MakeOperation(Kind::kBarrier, "good"));
  EXPECT_OK(Wait(&here));
  EXPECT_OK(Wait(&good));
}

KF_TEST(Epoch, APeerThatLeftBeforeIsMissed) {
  Cluster cluster(3);
  ExpectSum(&cluster, "connected");
  cluster.Stop(2);
  std::future<Status> first = BeginEpoch(&cluster, 0), second = BeginEpoch(&cluster, 1);
  EXPECT_EQ(Wait(&first).code(), Code::kUnavailable);
  EXPECT_EQ(Wait(&second).code(), Code::kUnavailable);
}

// All wish for another strategy, but one, which comes when the others' time is over: none of them switches.
KF_TEST(Epoch, WhereOneIsLateTheOldOneGoesOn) {
  ClusterOptions options;
  options.timeout = 5;
  Cluster cluster(3, options);
  ExpectSum(&cluster, "connected");
  std::future<Status> first = BeginEpoch(&cluster, 0, StrategyName::kRing);
  std::future<Status> second = BeginEpoch(&cluster, 1, StrategyName::kRing);
  for (auto* future : {&first, &second}) {
    const Status status = Wait(future);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
    EXPECT_CONTAINS(status.message(), "a new epoch");
  }
  std::future<Status> late = BeginEpoch(&cluster, 2, StrategyName::kRing);
  EXPECT_FALSE(Wait(&late).ok());
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(cluster.session(rank)->epoch(), 0u);
  ExpectAllOk(BeginEpochs(&cluster, {3, StrategyName::kRing}));
  ExpectSum(&cluster, "on");
}

// Rank 1 has left the middle of the work, rank 0 waits for it in an operation, rank 2 does nothing just now.
KF_TEST(Epoch, AnInterruptionReachesAllAndIsOverInTheNext) {
  Cluster cluster(3);
  ExpectSum(&cluster, "connected");
  std::future<Status> pending = cluster.Start(0, MakeOperation(Kind::kBarrier, "step"));
  std::future<Status> own = cluster.Start(1, MakeOperation(Kind::kBarrier, "prefetch"));
  cluster.peer(1)->Interrupt(Status(Code::kAborted, "the disk of rank 1 is full"));
  EXPECT_EQ(Wait(&own).code(), Code::kCancelled);
  const Status told = Wait(&pending);
  EXPECT_EQ(told.code(), Code::kAborted);
  EXPECT_CONTAINS(told.message(), "the disk of rank 1 is full");
  EXPECT_CONTAINS(told.message(), "'step'");
  std::future<Status> later = cluster.Start(2, MakeOperation(Kind::kBarrier, "step"));
  EXPECT_EQ(Wait(&later).code(), Code::kAborted);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(cluster.session(rank)->interrupted());
    std::future<Status> over = BeginEpoch(&cluster, rank);
    EXPECT_OK(Wait(&over));  // though nobody else has gone yet
    EXPECT_FALSE(cluster.session(rank)->interrupted());
  }
  ExpectSum(&cluster, "step");
}

// What rank 0 had begun before it left is completed on the others, whenever they come to it.
KF_TEST(Epoch, WhatHadBegunIsCompleted) {
  Cluster cluster(3, {"RING"});
  ExpectSum(&cluster, "connected");
  std::vector<std::vector<float>> values(3, std::vector<float>(1 << 20, 1));
  const auto sum = [&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "last");
    operation.spans = {{values[rank].data(), values[rank].data(), values[rank].size()}};
    return operation;
  };
  for (int round = 1; round <= 20; ++round) {
    std::vector<std::future<Status>> sums;
    for (int rank = 0; rank < 3; ++rank) sums.push_back(cluster.Start(rank, sum(rank)));
    EXPECT_OK(Wait(&sums[0]));
    cluster.peer(0)->Interrupt(Status(Code::kAborted, "rank 0 goes"));
    std::future<Status> over = BeginEpoch(&cluster, 0);
    EXPECT_OK(Wait(&over));
    EXPECT_OK(Wait(&sums[1]));
    EXPECT_OK(Wait(&sums[2]));
    std::future<Status> more = cluster.Start(1, MakeOperation(Kind::kBarrier, "more"));
    EXPECT_EQ(Wait(&more).code(), Code::kAborted);
    for (int rank = 1; rank < 3; ++rank) {
      cluster.peer(rank)->Interrupt(Status(Code::kAborted, "so it goes"));
      over = BeginEpoch(&cluster, rank);
      EXPECT_OK(Wait(&over));
    }
  }
}

KF_TEST(Epoch, WhoInterruptsAndLeavesHasSaidWhy) {
  Cluster cluster(2);
  ExpectSum(&cluster, "connected");
  std::future<Status> pending = cluster.Start(0, MakeOperation(Kind::kBarrier, "step"));
  cluster.peer(1)->Interrupt(Status(Code::kAborted, "the disk of rank 1 is full"));
  cluster.Stop(1);
  std::future<Status> later = cluster.Start(0, MakeOperation(Kind::kBarrier, "next"));
  for (std::future<Status>* operation : {&pending, &later}) {
    const Status told = Wait(operation);
    EXPECT_EQ(told.code(), Code::kAborted);
    EXPECT_CONTAINS(told.message(), "the disk of rank 1 is full");
  }
}

// All leave, one after the other, and are in the same epoch afterwards.
KF_TEST(Epoch, InterruptionsByAllAreOne) {
  Cluster cluster(3);
  for (int round = 1; round <= 20; ++round) {
    for (int rank = 0; rank < 3; ++rank) {
      cluster.peer(rank)->Interrupt(Status(Code::kAborted, "so it goes"));
      std::future<Status> over = BeginEpoch(&cluster, rank);
      EXPECT_OK(Wait(&over));
      EXPECT_EQ(cluster.session(rank)->epoch(), static_cast<uint32_t>(round));
    }
    ExpectSum(&cluster, "step");
  }
}

KF_TEST(Epoch, OneOfOneHasThemToo) {
  StatusOr<std::unique_ptr<Peer>> peer = Peer::Start(Config());
  ASSERT_TRUE(peer.ok());
  Status status = InternalError("not called");
  (*peer)->BeginEpoch(StrategyName::kRing, [&](const Status& ended) { status = ended; });
  EXPECT_OK(status);
  EXPECT_EQ((*peer)->session()->epoch(), 1u);
}

}  // namespace
}  // namespace kungfu::testing
