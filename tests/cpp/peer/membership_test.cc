#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "ops/peer/peer.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/peer/job.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

KF_TEST(Membership, WithoutNewsNothingChanges) {
  Job job;
  job.StartMembers("ab");
  const std::shared_ptr<Session> before = job.peer('a')->session();
  job.ExpectAllAdvance("ab");
  EXPECT_TRUE(job.peer('a')->session() == before);
  job.ExpectSum("ab");
}

KF_TEST(Membership, OneGrowsToFourAndTwoOfThemStay) {
  Job job;
  job.StartMembers("a");
  job.ExpectSum("a");
  for (const char name : std::string("bcd")) job.Start(name);
  job.ExpectSum("b");  // a newcomer is a peer of one
  job.Announce("abcd");
  job.ExpectAllAdvance("abcd");
  job.ExpectSum("abcd");
  EXPECT_EQ(VersionOf(job.peer('d')->session()->epoch()), 1u);
  job.Announce("bd");
  job.ExpectAllAdvance("abcd");
  job.ExpectSum("bd");
  EXPECT_EQ(job.peer('b')->session()->rank(), 0);
  for (const char name : std::string("ac")) {
    EXPECT_EQ(job.peer(name)->session()->rank(), -1);
    EXPECT_EQ(job.peer(name)->session()->size(), 0);
    std::future<Status> late = job.Advance(name);
    EXPECT_EQ(Wait(&late).code(), Code::kAborted);
    job.Stop(name);
  }
  job.ExpectSum("bd");
  job.ExpectAllAdvance("bd");
}

// Who has not heard of it yet waits until it has.
KF_TEST(Membership, ThatOneHasHeardOfIsThatOfAll) {
  Job job;
  job.StartMembers("abc");
  job.Announce("ab", "b");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b'), c = job.Advance('c');
  job.HearEntered('b');
  job.Repeat("ab", "ac");
  for (auto* future : {&a, &b, &c}) EXPECT_OK(Wait(future));
  job.ExpectSum("ab");
  EXPECT_EQ(job.peer('c')->session()->size(), 0);
}

KF_TEST(Membership, ANewcomerThatDiesBeforeItIsTakenInIsNotMissed) {
  Job job;
  job.StartMembers("ab");
  job.Start('c');
  std::future<Status> never = job.Advance('c');
  job.Stop('c');
  EXPECT_FALSE(Wait(&never).ok());
  job.Start('d');
  job.Announce("abd");
  job.ExpectAllAdvance("abd");
  job.ExpectSum("abd");
}

// For as long as a step of theirs takes, or what they do between two.
KF_TEST(Membership, ANewcomerWaitsForTheOthersBeyondTheTimeoutOfCollectives) {
  Job job;
  job.StartMembers("ab");
  job.timeout = 2;
  job.Start('c');
  std::future<Status> advanced = job.Advance('c');
  EXPECT_TRUE(advanced.wait_for(std::chrono::milliseconds(2100)) == std::future_status::timeout);
  job.Announce("abc", "ab");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (const char name : std::string("ab")) job.HearEntered(name);
  job.Repeat("abc", "c");  // from now on it counts, and nobody is missing
  for (auto* future : {&a, &b, &advanced}) EXPECT_OK(Wait(future));
}

KF_TEST(Membership, StrategiesChangeInBetween) {
  Job job;
  job.StartMembers("ab");
  const auto ring = [&](const std::string& names) {
    std::vector<std::future<Status>> futures;
    for (const char name : names) {
      auto promise = std::make_shared<std::promise<Status>>();
      job.peer(name)->BeginEpoch(StrategyName::kRing, [promise](const Status& status) { promise->set_value(status); });
      futures.push_back(promise->get_future());
    }
    for (auto& future : futures) EXPECT_OK(Wait(&future));
  };
  ring("ab");
  job.Start('c');
  job.Announce("abc");
  job.ExpectAllAdvance("abc");
  ring("abc");
  job.Announce("a");
  job.ExpectAllAdvance("abc");
  ring("a");
  job.ExpectSum("a");
}

KF_TEST(Membership, OthersMeasureTheirThroughputAnew) {
  Job job;
  job.StartMembers("a");
  ThroughputMeter& meter = job.peer('a')->throughput();
  const Clock::time_point now = Clock::now();
  meter.Begin(now);
  meter.End(now + std::chrono::seconds(1), 1, 100);
  meter.EndWindow();
  job.ExpectAllAdvance("a");
  EXPECT_EQ(meter.Of(1).best, 100.0);
  job.Start('b');
  job.Announce("ab");
  job.ExpectAllAdvance("ab");
  EXPECT_EQ(meter.Of(1).best, 0.0);
}

KF_TEST(Membership, ChangesAHundredTimesAndNothingIsLeftBehind) {
  Job job;
  job.StartMembers("a");
  int descriptors = 0, threads = 0;
  for (int round = 0; round < 100; ++round) {
    const char first = static_cast<char>('b' + round % 8), second = static_cast<char>('j' + round % 8);
    job.Start(first);
    job.Start(second);
    const std::string members = {'a', first, second};
    job.Announce(members);
    job.ExpectAllAdvance(members);
    job.ExpectSum(members);
    job.Announce("a");
    job.ExpectAllAdvance(members);
    job.Stop(first);
    job.Stop(second);
    job.ExpectSum("a");
    if (round == 10) descriptors = NumEntries("/proc/self/fd"), threads = NumEntries("/proc/self/task");
  }
  EXPECT_TRUE(ComesDownTo(descriptors + 8, "/proc/self/fd"));  // of connections that are taking leave
  EXPECT_TRUE(ComesDownTo(threads, "/proc/self/task"));
}

KF_TEST(Membership, AProposalIsAnsweredByTheRunner) {
  Job job;
  job.StartMembers("a");
  std::promise<Status> answered;
  job.peer('a')->Propose(3, [&answered](const Status& status) { answered.set_value(status); });
  job.HearQuestion('a');
  job.Say('a', "refused there are 2 slots\n");
  const Status status = answered.get_future().get();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message(), "there are 2 slots");
}

KF_TEST(Membership, TheLastWishWins) {
  Job job;
  job.StartMembers("ab");
  EXPECT_TRUE(job.WantIsProposed('a', 2));  // something else may have been asked for
  EXPECT_TRUE(!job.WantIsProposed('a', 2));
  EXPECT_TRUE(job.WantIsProposed('a', 3));
  EXPECT_TRUE(job.WantIsProposed('a', 3));  // others may have asked for something else meanwhile
  EXPECT_TRUE(job.WantIsProposed('a', 2));
  EXPECT_TRUE(!job.WantIsProposed('a', 2));
  EXPECT_TRUE(!job.WantIsProposed('b', 3));  // rank 0 asks for all
}

KF_TEST(Membership, ANewcomerIsJoiningUntilItIsTakenIn) {
  Job job;
  job.StartMembers("a");
  job.Start('b');
  EXPECT_TRUE(job.peer('b')->place().joining && !job.peer('a')->place().joining);
  job.Announce("ab");
  job.ExpectAllAdvance("ab");
  EXPECT_TRUE(!job.peer('b')->place().joining);
  job.ExpectSum("ab");
}

KF_TEST(Membership, WhileOperationsArePendingNobodyGoesOver) {
  Job job;
  job.StartMembers("ab");
  job.ExpectSum("ab");
  EXPECT_TRUE(!job.peer('b')->place().outdated);
  job.Announce("a");
  EXPECT_TRUE(job.peer('b')->place().outdated);
  const auto barrier = [&job](char name) {
    auto promise = std::make_shared<std::promise<Status>>();
    Operation operation = MakeOperation(Kind::kBarrier, "pending");
    operation.done = [promise](const Status& status) { promise->set_value(status); };
    job.peer(name)->session()->Start(std::move(operation));
    return promise->get_future();
  };
  const auto advance = [&job](char name) {
    auto promise = std::make_shared<std::promise<Status>>();
    job.peer(name)->AdvanceIfIdle([promise](const Status& status) { promise->set_value(status); });
    return promise->get_future();
  };
  std::future<Status> first = barrier('b');
  std::future<Status> a = advance('a'), b = advance('b');
  EXPECT_EQ(Wait(&a).code(), Code::kFailedPrecondition);
  EXPECT_EQ(Wait(&b).code(), Code::kFailedPrecondition);
  std::future<Status> second = barrier('a');
  EXPECT_OK(Wait(&first));
  EXPECT_OK(Wait(&second));
  a = advance('a');
  b = advance('b');
  EXPECT_OK(Wait(&a));
  EXPECT_OK(Wait(&b));
  EXPECT_EQ(job.peer('b')->session()->size(), 0);
}

KF_TEST(Membership, ThatDoesNotChangeKnowsNoProposal) {
  Cluster cluster(2);
  Status proposed, advanced = InternalError("not called");
  cluster.peer(0)->Propose(3, [&proposed](const Status& status) { proposed = status; });
  EXPECT_EQ(proposed.code(), Code::kFailedPrecondition);
  EXPECT_CONTAINS(proposed.message(), "kungfu-run -w");
  cluster.peer(0)->Advance([&advanced](const Status& status) { advanced = status; });
  EXPECT_OK(advanced);
}

}  // namespace
}  // namespace kungfu::testing
