// Operations that end together, and those that are repeated among survivors. A peer that is lost lives on here,
// unheard.

#include <atomic>
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

std::future<Status> Begin(Peer* peer, Operation operation, uint64_t* handle = nullptr) {
  auto promise = std::make_shared<std::promise<Status>>();
  operation.done = [promise](const Status& status) { promise->set_value(status); };
  const uint64_t started = peer->StartOperation(std::move(operation));
  if (handle != nullptr) *handle = started;
  return promise->get_future();
}

// An all_reduce of one number of each peer, which is 1, and its result.
struct Sum {
  float send = 1, recv = 0;
  uint64_t handle = 0;
  std::future<Status> ended;

  void Begin(Peer* peer, const std::string& name, int exchange_size = 1) {
    Operation operation = MakeOperation(Kind::kAllReduce, name);
    operation.spans = {{&send, &recv, 1}};
    operation.exchange = "update";
    operation.exchange_size = exchange_size;
    ended = testing::Begin(peer, std::move(operation), &handle);
  }
  bool has_ended() const { return ended.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
};

// A reduce_scatter of five numbers, the same on all peers, and those that one peer keeps.
struct Scatter {
  const std::vector<float> send = {1, 2, 3, 4, 5};
  std::vector<float> recv;
  std::future<Status> ended;

  void Begin(Peer* peer, int exchange_size = 1) {
    Operation operation = MakeOperation(Kind::kReduceScatter, "scatter");
    operation.spans = {{send.data(), nullptr, send.size()}};
    operation.exchange = "update";
    operation.exchange_size = exchange_size;
    operation.allocate = [this](const std::vector<uint64_t>& counts) {
      recv.resize(counts.at(0));
      return recv.data();
    };
    ended = testing::Begin(peer, std::move(operation));
  }
  void Expect(const std::vector<float>& kept) {
    EXPECT_OK(Wait(&ended));
    EXPECT_TRUE(recv == kept);
  }
};

// What a peer does in an update of two operations.
struct Update {
  Sum first, second;

  void Begin(Peer* peer) {
    first.Begin(peer, "first", 2);
    second.Begin(peer, "second", 2);
  }
  void Expect(float result) {
    for (Sum* sum : {&first, &second}) {
      EXPECT_OK(Wait(&sum->ended));
      EXPECT_EQ(sum->recv, result);
    }
  }
};

struct Survivable : Job {
  explicit Survivable(const std::string& members, bool is_survived = true) {
    survives = is_survived;
    StartMembers(members);
  }
  bool HasCompleted(char name, const char* operation) {
    return Becomes([&] { return peer(name)->counters().completed(operation) == 1; });
  }
};

KF_TEST(Transactions, AnUpdateEndsWithOneResultAsAWhole) {
  for (const bool is_survived : {false, true}) {
    Survivable job("abc", is_survived);
    Update a, b, c;
    a.Begin(job.peer('a'));
    b.Begin(job.peer('b'));
    c.first.Begin(job.peer('c'), "first", 2);
    ASSERT_TRUE(job.HasCompleted('a', "first") && job.HasCompleted('b', "first"));
    for (Update* update : {&a, &b}) EXPECT_TRUE(!update->first.has_ended());
    c.second.Begin(job.peer('c'), "second", 2);
    for (Update* update : {&a, &b, &c}) update->Expect(3);
  }
}

// As between hosts: the vote, one round trip, whatever the number of buckets.
KF_TEST(Transactions, AnUpdateThatIsSurvivedCostsOneMessageMoreEachWay) {
  std::vector<uint64_t> sent;
  for (const bool is_survived : {false, true}) {
    Job job;
    job.transport = "tcp";
    job.survives = is_survived;
    job.StartMembers("ab");
    const auto by_now = [&](char name) {
      uint64_t messages = 0;
      for (const Peer::PeerTraffic& traffic : job.peer(name)->TrafficByRank()) messages += traffic.total.messages_sent;
      return messages;
    };
    for (int step = 0; step < 3; ++step) {
      const uint64_t before[] = {by_now('a'), by_now('b')};
      Update a, b;
      a.Begin(job.peer('a'));
      b.Begin(job.peer('b'));
      for (Update* update : {&a, &b}) update->Expect(2);
      if (step == 0) continue;  // in which they have met
      sent.push_back(by_now('a') - before[0]);
      sent.push_back(by_now('b') - before[1]);
    }
  }
  EXPECT_TRUE(sent == (std::vector<uint64_t>{2, 2, 2, 2, 3, 3, 3, 3}));
}

KF_TEST(Transactions, WhatALostPeerHasBrokenIsRepeatedAsAWhole) {
  Survivable job("abc");
  Update a, b, c;
  a.Begin(job.peer('a'));
  b.Begin(job.peer('b'));
  c.first.Begin(job.peer('c'), "first", 2);
  ASSERT_TRUE(job.HasCompleted('a', "first") && job.HasCompleted('b', "first"));
  job.Survive("ab", "ab");
  a.Expect(2);
  b.Expect(2);
  for (const char name : std::string("ab")) EXPECT_EQ(job.peer(name)->session()->size(), 2);
  Update next_a, next_b;
  next_a.Begin(job.peer('a'));
  next_b.Begin(job.peer('b'));
  next_a.Expect(2);
  next_b.Expect(2);
}

KF_TEST(Transactions, WithoutSurvivorsAnUpdateFailsAsAWhole) {
  Survivable job("abc", false);
  Update a, b, c;
  a.Begin(job.peer('a'));
  b.Begin(job.peer('b'));
  c.first.Begin(job.peer('c'), "first", 2);
  ASSERT_TRUE(job.HasCompleted('a', "first") && job.HasCompleted('b', "first"));
  for (const char name : std::string("ab")) job.Say(name, "failed 127.0.0.1:1099 killed by SIGKILL\n");
  for (Sum* sum : {&a.first, &a.second, &b.first, &b.second}) {
    EXPECT_EQ(Wait(&sum->ended).code(), Code::kUnavailable);
  }
}

// The peer that is lost has contributed, and not said that it has the result.
KF_TEST(Transactions, WhatIsCompleteOnAllSurvivorsIsDeliveredAsIfTheLostPeerLived) {
  Survivable job("abc");
  Sum a, b, c;
  a.Begin(job.peer('a'), "update");
  b.Begin(job.peer('b'), "update");
  c.Begin(job.peer('c'), "update", 2);
  ASSERT_TRUE(job.HasCompleted('a', "update") && job.HasCompleted('b', "update"));
  EXPECT_TRUE(!a.has_ended() && !b.has_ended());
  job.Survive("ab", "ab");
  for (Sum* sum : {&a, &b}) {
    EXPECT_OK(Wait(&sum->ended));
    EXPECT_EQ(sum->recv, 3.0f);
  }
}

KF_TEST(Transactions, WhatIsCompleteOnSomeSurvivorsOnlyIsRepeated) {
  Survivable job("abc");
  Update a, b, c;
  a.Begin(job.peer('a'));
  c.Begin(job.peer('c'));
  b.first.Begin(job.peer('b'), "first", 2);
  ASSERT_TRUE(job.HasCompleted('a', "first") && job.HasCompleted('b', "first"));
  job.Survive("ab", "ab");
  b.second.Begin(job.peer('b'), "second", 2);
  a.Expect(2);
  b.Expect(2);
}

// Large enough that some of the sum has been made, in several chunks.
KF_TEST(Transactions, InPlaceTheInputIsThereAgain) {
  Survivable job("abc");
  std::vector<std::vector<float>> values(2, std::vector<float>(1 << 20, 1));
  std::vector<std::future<Status>> ended;
  for (int i = 0; i < 2; ++i) {
    Operation operation = MakeOperation(Kind::kAllReduce, "in place");
    operation.spans = {{values[i].data(), values[i].data(), values[i].size()}};
    ended.push_back(Begin(job.peer("ab"[i]), std::move(operation)));
  }
  job.Survive("ab", "ab");
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(Wait(&ended[i]));
    EXPECT_TRUE(values[i] == std::vector<float>(1 << 20, 2));
  }
}

KF_TEST(Transactions, OneMoreMayBeLostOnTheWay) {
  Survivable job("abcd");
  Update a, b;
  a.Begin(job.peer('a'));
  b.Begin(job.peer('b'));
  job.Survive("abc", "ab");  // c never hears of it
  for (const char name : std::string("ab")) job.HearEntered(name);
  job.Survive("ab", "ab");
  a.Expect(2);
  b.Expect(2);
}

KF_TEST(Transactions, TheLastOneGoesOnAlone) {
  Survivable job("abc");
  Update c;
  c.Begin(job.peer('c'));
  job.Survive("c", "c");
  c.Expect(1);
  EXPECT_EQ(job.peer('c')->session()->size(), 1);
  EXPECT_EQ(job.peer('c')->session()->rank(), 0);
}

// The others are gone before it has begun the whole update.
KF_TEST(Transactions, TheLastOneBeginsTheRestOfAnUpdateAlone) {
  Survivable job("ab");
  Update a, next;
  a.first.Begin(job.peer('a'), "first", 2);
  job.Survive("a", "a");
  ASSERT_TRUE(job.HasCompleted('a', "first"));
  a.second.Begin(job.peer('a'), "second", 2);
  a.Expect(1);
  next.Begin(job.peer('a'));
  next.Expect(1);
}

// Rank 0 is the first of the survivors; any other rank is the same peer as before.
KF_TEST(Transactions, ARootMayBeLostOrGetAnotherRank) {
  Survivable job("abcd");
  const auto broadcast = [&](char name, const char* what, int root, float* value) {
    Operation operation = MakeOperation(Kind::kBroadcast, what, DType::kFloat32, ReduceOp::kSum, root);
    operation.spans = {{value, value, 1}};
    return Begin(job.peer(name), std::move(operation));
  };
  float of_b[3] = {10, 11, 12}, of_d[3] = {20, 21, 22};
  std::future<Status> b[3], d[3];
  const char* const names[3] = {"of the first", "of c", "of d"};
  const int roots[3] = {0, 2, 3};
  for (int i = 0; i < 3; ++i) {
    b[i] = broadcast('b', names[i], roots[i], &of_b[i]);
    d[i] = broadcast('d', names[i], roots[i], &of_d[i]);
  }
  job.Survive("bd", "bd");
  for (auto* futures : {b, d}) {
    EXPECT_OK(Wait(&futures[0]));
    const Status lost = Wait(&futures[1]);
    EXPECT_EQ(lost.code(), Code::kUnavailable);
    EXPECT_CONTAINS(lost.message(), "its root, 127.0.0.1:1099, is lost");
    EXPECT_OK(Wait(&futures[2]));
  }
  EXPECT_EQ(of_d[0], 10.0f);
  EXPECT_EQ(of_b[2], 22.0f);
}

KF_TEST(Transactions, AResultWithoutAPlaceIsAskedForOnce) {
  Survivable job("abc");
  std::vector<std::vector<float>> results(2);
  std::vector<float> values = {1, 2};
  std::vector<std::future<Status>> ended;
  std::atomic<int> asked{0};
  for (int i = 0; i < 2; ++i) {
    Operation operation = MakeOperation(Kind::kAllGather, "gather");
    operation.spans = {{&values[i], nullptr, 1}};
    operation.allocate = [&results, &asked, i](const std::vector<uint64_t>& counts) {
      ++asked;
      results[i].resize(counts.size());
      return results[i].data();
    };
    ended.push_back(Begin(job.peer("ab"[i]), std::move(operation)));
  }
  job.Survive("ab", "a");
  job.RepeatSurvivors("ab", "b");
  for (auto& future : ended) EXPECT_OK(Wait(&future));
  EXPECT_EQ(asked.load(), 2);
  for (const auto& result : results) EXPECT_TRUE(result == values);
}

// Rank 1 of three keeps other rows than rank 1 of two.
KF_TEST(Transactions, ReduceScatterIsCutForTheSurvivors) {
  Survivable job("abc");
  Scatter b, c;
  b.Begin(job.peer('b'));
  c.Begin(job.peer('c'));
  job.Survive("bc", "bc");
  b.Expect({2, 4, 6});
  c.Expect({8, 10});
}

// The lost peer has contributed: each keeps its rows among three.
KF_TEST(Transactions, ReduceScatterThatIsCompleteIsDeliveredAsItWasCut) {
  Survivable job("abc");
  Scatter a, b, c;
  a.Begin(job.peer('a'), 2);
  b.Begin(job.peer('b'));
  c.Begin(job.peer('c'));
  ASSERT_TRUE(job.HasCompleted('b', "scatter") && job.HasCompleted('c', "scatter"));
  job.Survive("bc", "bc");
  b.Expect({9, 12});
  c.Expect({15});
}

// The others neither deliver nor repeat it.
KF_TEST(Transactions, WhatHasFailedOnASurvivorFailsOnAll) {
  Survivable job("abc");
  Sum a, b, c;
  a.Begin(job.peer('a'), "first", 2);
  b.Begin(job.peer('b'), "first", 2);
  c.Begin(job.peer('c'), "first", 2);
  ASSERT_TRUE(job.HasCompleted('a', "first") && job.HasCompleted('b', "first"));
  job.peer('a')->Cancel(a.handle, InternalError("it failed elsewhere"));
  EXPECT_EQ(Wait(&a.ended).code(), Code::kInternal);
  job.Survive("ab", "ab");
  const Status status = Wait(&b.ended);
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_CONTAINS(status.message(), "has failed on another survivor");
}

// An error of the program is none of the machine.
KF_TEST(Transactions, WhatWaitsForSurvivorsFailsWhenThereAreNone) {
  Survivable job("abc");
  Sum a, b;
  a.Begin(job.peer('a'), "sum");
  b.Begin(job.peer('b'), "sum");
  for (const char name : std::string("ab")) job.Say(name, "failed 127.0.0.1:1099 exit code 1\n");
  for (Sum* sum : {&a, &b}) EXPECT_EQ(Wait(&sum->ended).code(), Code::kUnavailable);
}

KF_TEST(Transactions, WhatIsCompleteAndNotDeliveredCanBeCancelled) {
  Survivable job("ab");
  Update a, b;
  a.first.Begin(job.peer('a'), "first", 2);
  b.first.Begin(job.peer('b'), "first", 2);
  ASSERT_TRUE(job.HasCompleted('a', "first"));
  job.peer('a')->Cancel(a.first.handle, InternalError("it failed elsewhere"));
  const Status status = Wait(&a.first.ended);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_CONTAINS(status.message(), "it failed elsewhere");
}

KF_TEST(Transactions, AnInterruptionEndsWhatIsCompleteAndNotDelivered) {
  for (const bool is_survived : {false, true}) {
    Survivable job("ab", is_survived);
    Update a, b;
    a.first.Begin(job.peer('a'), "first", 2);
    b.first.Begin(job.peer('b'), "first", 2);
    ASSERT_TRUE(job.HasCompleted('a', "first") && job.HasCompleted('b', "first"));
    job.peer('a')->Interrupt(InternalError("an exception"));
    EXPECT_EQ(Wait(&a.first.ended).code(), Code::kCancelled);
    b.second.Begin(job.peer('b'), "second", 2);
    for (Sum* sum : {&b.first, &b.second}) EXPECT_EQ(Wait(&sum->ended).code(), Code::kInternal);
  }
}

}  // namespace
}  // namespace kungfu::testing
