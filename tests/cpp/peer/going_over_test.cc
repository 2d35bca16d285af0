// What happens while the peers go over to a membership.

#include <chrono>
#include <cmath>
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

// Of a job of a and b: both have gone over to one with c, which has not been told, and wait for it.
struct GoneOver {
  explicit GoneOver(const std::string& strategy = "AUTO", bool is_there = true) {
    job.strategy = strategy;
    job.StartMembers("ab");
    if (is_there) job.Start('c');
    job.Announce("abc", "ab");
    a = job.Advance('a');
    b = job.Advance('b');
    for (const char name : std::string("ab")) job.HearEntered(name);
  }
  void ExpectBothWait() {
    for (auto* future : {&a, &b}) {
      EXPECT_TRUE(future->wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    }
  }
  void ExpectBothMeet() {
    for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
  }

  Job job;
  std::future<Status> a, b;
};

KF_TEST(GoingOver, OneThatIsTakenInAndDeadIsAnErrorOfAll) {
  Job job;
  job.StartMembers("ab");
  job.Announce("abc");
  for (const char name : std::string("ab")) job.Say(name, "failed 127.0.0.1:1099 killed by SIGKILL\n");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (auto* future : {&a, &b}) {
    const Status status = Wait(future);
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_CONTAINS(status.message(), "killed by SIGKILL");
  }
}

// Who is in the new session already is told later than it sees that it cannot succeed.
KF_TEST(GoingOver, OneThatDiesAmongThoseThatGoOverIsAnErrorOfAll) {
  GoneOver over;
  over.job.Say('a', "failed 127.0.0.1:1355 killed by SIGKILL\n");
  const Status status = Wait(&over.a);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_CONTAINS(status.message(), "killed by SIGKILL");
  over.job.Say('b', "failed 127.0.0.1:1355 killed by SIGKILL\n");
  EXPECT_EQ(Wait(&over.b).code(), Code::kUnavailable);
}

// Not only where the start of a session needs it: with a strategy that is named, and no memory shared, it need not be
// there for that.
KF_TEST(GoingOver, WhoHasGoneOverWaitsForTheOthersAndForTheNewcomers) {
  for (const char* const strategy : {"AUTO", "RING"}) {
    GoneOver over(strategy);
    std::future<Status> c = over.job.Advance('c');
    over.ExpectBothWait();
    over.job.Repeat("abc", "c");
    over.ExpectBothMeet();
    EXPECT_OK(Wait(&c));
    over.job.ExpectSum("abc");
  }
}

KF_TEST(GoingOver, ANewcomerThatDiesWhileTheOthersGoOverIsNotMissed) {
  for (const char* const strategy : {"AUTO", "RING"}) {
    GoneOver over(strategy, /*is_there=*/false);
    over.job.Replace("ab", "ab");
    over.ExpectBothMeet();
    EXPECT_EQ(VersionOf(over.job.peer('a')->session()->epoch()), 2u);
    over.job.ExpectSum("ab");
    over.job.ExpectAllAdvance("ab");
  }
}

// Their connections with it end before the runner has announced another membership; and who leaves the old one tells
// those that are in it still.
KF_TEST(GoingOver, ANewcomerThatTheOthersSeeDieIsNotMissed) {
  for (const char* const strategy : {"AUTO", "RING"}) {
    GoneOver over(strategy);
    over.job.Stop('c');
    over.ExpectBothWait();
    over.job.Replace("ab", "a");
    over.ExpectBothWait();
    over.job.Repeat("ab", "b");
    over.ExpectBothMeet();
    over.job.ExpectSum("ab");
  }
}

KF_TEST(GoingOver, WhoHearsOnlyOfTheOneThatReplacesTheOneThatWasAgreedOnGoesOverToIt) {
  Job job;
  job.StartMembers("ab");
  job.Announce("abc", "a");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  job.HearEntered('a');  // so they have agreed on it
  job.Replace("ab", "b");
  job.Repeat("ab", "a");
  for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
  job.ExpectSum("ab");
}

// On its way to the one that was agreed on a peer waits for what is pending. What it hears meanwhile nobody says again
// when it is there.
KF_TEST(GoingOver, WhoHearsOnItsWayThatAnotherOneTakesThePlaceGoesOverToThat) {
  Job job;
  job.timeout = 60;
  job.StartMembers("ab");
  job.Announce("abc", "a");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  job.HearEntered('a');
  const auto agreed = [&] { return job.peer('b')->counters().completed("kungfu/the next membership") == 1; };
  ASSERT_TRUE(Becomes(agreed));
  float value = 1;
  std::future<Status> pending = job.AddUp('b', "pending", &value);
  const std::string agreed_on = job.LineOf("abc");
  job.Replace("ab", "a");
  job.Tell('b', agreed_on + job.LineOf("ab"));
  EXPECT_EQ(Wait(&pending).code(), Code::kCancelled);
  for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
  EXPECT_EQ(VersionOf(job.peer('b')->session()->epoch()), 2u);
  job.ExpectSum("ab");
}

// A peer tells of it when the other one is in the old session still; that answers a ping behind it.
KF_TEST(GoingOver, WhatHasFailedInTheNewSessionFailsForWhoComesLaterToo) {
  Job job;
  job.timeout = 60;
  job.StartMembers("ab");
  job.Announce("ab", "a");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  job.HearEntered('a');
  uint64_t handle;
  float first = 1, second = 1;
  std::future<Status> cancelled = job.AddUp('a', "x", &first, &handle);
  const std::shared_ptr<Session> session = job.peer('a')->session();
  session->Cancel(handle);
  EXPECT_EQ(Wait(&cancelled).code(), Code::kCancelled);
  std::promise<double> answered;
  session->Ping(Seconds(60), [&answered](const std::vector<double>& seconds) { answered.set_value(seconds[1]); });
  EXPECT_TRUE(std::isfinite(answered.get_future().get()));  // it has answered
  job.Repeat("ab", "b");
  for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
  std::future<Status> late = job.AddUp('b', "x", &second);
  const Status status = Wait(&late);
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_CONTAINS(status.message(), "was cancelled at rank 0");
}

// They are in it, and no Advance has said so.
KF_TEST(GoingOver, PeersThatWereInterruptedOnTheirWayAgreeAfterwards) {
  Job job;
  job.timeout = 60;
  job.StartMembers("abc");
  job.Announce("ab", "a");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b'), c = job.Advance('c');
  job.HearEntered('a');
  job.peer('a')->Interrupt(CancelledError("the test"));
  EXPECT_EQ(Wait(&a).code(), Code::kCancelled);
  job.Repeat("ab", "bc");
  job.HearEntered('b');
  job.peer('b')->Interrupt(CancelledError("the test"));
  EXPECT_EQ(Wait(&b).code(), Code::kCancelled);
  EXPECT_OK(Wait(&c));
  std::vector<std::promise<Status>> begun(2);
  for (int i : {0, 1}) {
    job.peer("ab"[i])->BeginEpoch({}, [&begun, i](const Status& status) { begun[i].set_value(status); });
  }
  for (auto& promise : begun) EXPECT_OK(promise.get_future().get());
  job.ExpectAllAdvance("ab");
  for (const char name : std::string("ab")) {
    EXPECT_EQ(job.peer(name)->place().agreed.version, 1u);
    EXPECT_EQ(job.peer(name)->place().agreed.size, 2);
  }
}

KF_TEST(GoingOver, NewcomersMayDieOneAfterTheOther) {
  Job job;
  job.StartMembers("ab");
  job.Announce("abcd");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  job.HearEntered('a');
  job.Replace("abd", "a");
  job.HearEntered('a');
  job.Replace("ab", "ab");  // b has not heard of the one before
  for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
  EXPECT_EQ(VersionOf(job.peer('b')->session()->epoch()), 3u);
  job.ExpectSum("ab");
}

KF_TEST(GoingOver, WhatFollowsOneThatIsMetWaitsForTheNextTime) {
  GoneOver over;
  over.job.Repeat("abc", "c");
  std::future<Status> c = over.job.Advance('c');
  over.job.HearEntered('c');
  over.job.Announce("ab");
  over.ExpectBothMeet();
  EXPECT_OK(Wait(&c));
  EXPECT_EQ(VersionOf(over.job.peer('a')->session()->epoch()), 1u);
  over.job.ExpectSum("abc");
  over.job.ExpectAllAdvance("abc");
  over.job.ExpectSum("ab");
}

KF_TEST(GoingOver, AnOrdinaryOneDoesNotReplaceTheOneBefore) {
  GoneOver over;
  const std::shared_ptr<Session> before = over.job.peer('a')->session();
  over.job.Announce("ab", "ab");  // which no runner does as long as it has not heard of the newcomer's entry
  EXPECT_TRUE(over.job.peer('a')->session() == before);
  over.ExpectBothWait();
}

KF_TEST(GoingOver, WhoShutsDownOrLosesItsRunnerWaitsForNobody) {
  GoneOver over("AUTO", /*is_there=*/false);
  over.job.HangUp('b');
  EXPECT_EQ(Wait(&over.b).code(), Code::kUnavailable);
  over.job.Stop('a');
  EXPECT_EQ(Wait(&over.a).code(), Code::kCancelled);
}

}  // namespace
}  // namespace kungfu::testing
