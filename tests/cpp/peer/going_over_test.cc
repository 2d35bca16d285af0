// What happens while the peers go over to a membership.

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "ops/peer/peer.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/peer/job.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

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
  Job job;
  job.StartMembers("ab");
  job.Start('c');
  job.Announce("abc", "ab");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (const char name : std::string("ab")) job.HearEntered(name);
  job.Say('a', "failed 127.0.0.1:1355 killed by SIGKILL\n");
  Status status = Wait(&a);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_CONTAINS(status.message(), "killed by SIGKILL");
  job.Say('b', "failed 127.0.0.1:1355 killed by SIGKILL\n");
  status = Wait(&b);
  EXPECT_EQ(status.code(), Code::kUnavailable);
}

// Not only where the start of a session needs it: with a strategy that is named, and no memory shared, it need not be
// there for that.
KF_TEST(GoingOver, WhoHasGoneOverWaitsForTheOthersAndForTheNewcomers) {
  for (const char* const strategy : {"AUTO", "RING"}) {
    Job job;
    job.strategy = strategy;
    job.StartMembers("ab");
    job.Start('c');
    job.Announce("abc", "ab");
    std::future<Status> a = job.Advance('a'), b = job.Advance('b'), c = job.Advance('c');
    for (const char name : std::string("ab")) job.HearEntered(name);
    for (auto* future : {&a, &b}) {
      EXPECT_TRUE(future->wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    }
    job.Repeat("abc", "c");
    for (auto* future : {&a, &b, &c}) EXPECT_OK(Wait(future));
    job.ExpectSum("abc");
  }
}

KF_TEST(GoingOver, ANewcomerThatDiesWhileTheOthersGoOverIsNotMissed) {
  for (const char* const strategy : {"AUTO", "RING"}) {
    Job job;
    job.strategy = strategy;
    job.StartMembers("ab");
    job.Announce("abc");  // it never comes
    std::future<Status> a = job.Advance('a'), b = job.Advance('b');
    for (const char name : std::string("ab")) job.HearEntered(name);
    job.Replace("ab", "ab");
    for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
    EXPECT_EQ(VersionOf(job.peer('a')->session()->epoch()), 2u);
    job.ExpectSum("ab");
    job.ExpectAllAdvance("ab");
  }
}

// Their connections with it end before the runner has announced another membership; and who leaves the old one tells
// those that are in it still.
KF_TEST(GoingOver, ANewcomerThatTheOthersSeeDieIsNotMissed) {
  for (const char* const strategy : {"AUTO", "RING"}) {
    Job job;
    job.strategy = strategy;
    job.StartMembers("ab");
    job.Start('c');
    job.Announce("abc", "ab");
    std::future<Status> a = job.Advance('a'), b = job.Advance('b');
    for (const char name : std::string("ab")) job.HearEntered(name);
    job.Stop('c');
    for (auto* future : {&a, &b}) {
      EXPECT_TRUE(future->wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    }
    job.Replace("ab", "a");
    EXPECT_TRUE(b.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    job.Repeat("ab", "b");
    for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
    job.ExpectSum("ab");
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
  Job job;
  job.StartMembers("ab");
  job.Start('c');
  job.Announce("abc");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (const char name : std::string("ab")) job.HearEntered(name);
  std::future<Status> c = job.Advance('c');
  job.HearEntered('c');
  job.Announce("ab");
  for (auto* future : {&a, &b, &c}) EXPECT_OK(Wait(future));
  EXPECT_EQ(VersionOf(job.peer('a')->session()->epoch()), 1u);
  job.ExpectSum("abc");
  job.ExpectAllAdvance("abc");
  job.ExpectSum("ab");
}

KF_TEST(GoingOver, AnOrdinaryOneDoesNotReplaceTheOneBefore) {
  Job job;
  job.StartMembers("ab");
  job.Start('c');
  job.Announce("abc", "ab");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (const char name : std::string("ab")) job.HearEntered(name);
  const std::shared_ptr<Session> before = job.peer('a')->session();
  job.Announce("ab", "ab");  // which no runner does as long as it has not heard of the newcomer's entry
  EXPECT_TRUE(job.peer('a')->session() == before);
  EXPECT_TRUE(a.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
}

KF_TEST(GoingOver, WhoShutsDownOrLosesItsRunnerWaitsForNobody) {
  Job job;
  job.StartMembers("ab");
  job.Announce("abc");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (const char name : std::string("ab")) job.HearEntered(name);
  job.HangUp('b');
  EXPECT_EQ(Wait(&b).code(), Code::kUnavailable);
  job.Stop('a');
  EXPECT_EQ(Wait(&a).code(), Code::kCancelled);
}

}  // namespace
}  // namespace kungfu::testing
