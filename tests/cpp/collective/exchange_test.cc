// Small all-reduces of few peers, who tell everything to everyone, against sums made by hand.

#include <sched.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ops/collective/exchange_mover.h"
#include "ops/collective/notes.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/placed.h"
#include "tests/cpp/collective/values.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

ClusterOptions Small() {
  ClusterOptions options;
  options.direct_bytes = 1 << 20;
  options.own_cores = true;
  return options;
}

// Four peers that have found a single core.
std::unique_ptr<Cluster> OnOneCore(ClusterOptions options) {
  options.own_cores = false;
  cpu_set_t before, one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  EXPECT_TRUE(sched_getaffinity(0, sizeof(before), &before) == 0);
  EXPECT_TRUE(sched_setaffinity(0, sizeof(one), &one) == 0);
  auto cluster = std::make_unique<Cluster>(4, options);
  sched_setaffinity(0, sizeof(before), &before);
  return cluster;
}

Operation Sum(std::vector<uint8_t>* tensor, const std::string& name) {
  Operation operation = MakeOperation(Kind::kAllReduce, name, DType::kUint8);
  operation.spans = {{tensor->data(), tensor->data(), tensor->size()}};
  return operation;
}

// How many messages a sum of so many bytes takes.
uint64_t MessagesFor(Cluster* cluster, uint64_t bytes) {
  uint64_t messages = 0;
  for (const Sent& sent : SentForBytes(cluster, bytes, Place::kOrdinary)) messages += sent.messages;
  return messages;
}

KF_TEST(Exchange, AllTypesAndReductions) {
  for (const int size : {2, 3, kMostExchangers}) {
    Cluster cluster(size, Small());
    RunPlacedGrid(&cluster, [](int) { return Place::kOrdinary; });
  }
}

KF_TEST(Exchange, OneMessageFromEachToEach) {
  for (const uint64_t size : {2, 4, kMostExchangers}) {
    Cluster cluster(static_cast<int>(size), Small());
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kMostExchanged / (size - 1)}) {
      EXPECT_EQ(MessagesFor(&cluster, bytes), size * (size - 1));
    }
  }
}

KF_TEST(Exchange, NotOfMuchNorOfMany) {
  Cluster four(4, Small()), many(kMostExchangers + 1, Small());
  EXPECT_TRUE(MessagesFor(&four, kMostExchanged / 3 + 1) != 4u * 3);
  EXPECT_EQ(MessagesFor(&many, 1), 2u * kMostExchangers);  // to where it is reduced, and back
}

// Who names a strategy wants it for everything.
KF_TEST(Exchange, NotWhereAStrategyIsNamed) {
  ClusterOptions options = Small();
  options.strategy = "STAR";
  Cluster cluster(4, options);
  EXPECT_EQ(MessagesFor(&cluster, 1), 2u * 3);
}

// Messages that are sent and read one after the other had better be few.
KF_TEST(Exchange, NotWherePeersOutnumberCores) {
  const std::unique_ptr<Cluster> cluster = OnOneCore(Small());
  EXPECT_EQ(MessagesFor(cluster.get(), 1), 2u * 3);
}

// -- Notes: from the second operation of a name on, where memory is shared --

ClusterOptions Noted() {
  ClusterOptions options = Small();
  options.arena_bytes = 1 << 20;
  return options;
}

uint64_t NotedMessagesFor(Cluster* cluster, uint64_t bytes, const std::string& name) {
  const auto all = [&] {
    uint64_t messages = 0;
    for (int rank = 0; rank < cluster->size(); ++rank) {
      for (const Peer::PeerTraffic& traffic : cluster->peer(rank)->TrafficByRank()) {
        messages += traffic.total.messages_sent;
      }
    }
    return messages;
  };
  const uint64_t before = all();
  std::vector<std::vector<uint8_t>> tensors(cluster->size(), std::vector<uint8_t>(bytes, 1));
  ExpectAllOk(cluster->Run([&](int rank) { return Sum(&tensors[rank], name); }));
  for (const auto& tensor : tensors) {
    EXPECT_TRUE(tensor == std::vector<uint8_t>(bytes, static_cast<uint8_t>(cluster->size())));
  }
  return all() - before;
}

KF_TEST(Exchange, NotesNeedNoMessages) {
  for (const int size : {2, 3, kMostExchangers}) {
    Cluster cluster(size, Noted());
    NotedMessagesFor(&cluster, 0, "together");
    const uint64_t all = static_cast<uint64_t>(size) * (size - 1);
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{Notes::kMost}}) {
      const std::string name = std::to_string(bytes);
      EXPECT_EQ(NotedMessagesFor(&cluster, bytes, name), all);
      for (int times = 0; times < 20; ++times) EXPECT_EQ(NotedMessagesFor(&cluster, bytes, name), 0u);
    }
    for (int times = 0; times < 3; ++times) EXPECT_EQ(NotedMessagesFor(&cluster, Notes::kMost + 1, "more"), all);
  }
}

KF_TEST(Exchange, NotesNeedNoCores) {
  const std::unique_ptr<Cluster> cluster = OnOneCore(Noted());
  for (int times = 0; times < 20; ++times) {
    const uint64_t messages = NotedMessagesFor(cluster.get(), 4, "x");
    if (times > 0) EXPECT_EQ(messages, 0u);
  }
}

// The bytes count as traffic in memory, each way.
KF_TEST(Exchange, NotesAreCounted) {
  Cluster cluster(3, Noted());
  NotedMessagesFor(&cluster, 10, "x");
  const Peer::PeerTraffic before = cluster.peer(0)->TrafficByRank()[1];
  NotedMessagesFor(&cluster, 10, "x");
  const Peer::PeerTraffic after = cluster.peer(0)->TrafficByRank()[1];
  EXPECT_EQ(after.total.by(TrafficWay::kSharedMemory).sent - before.total.by(TrafficWay::kSharedMemory).sent, 10u);
}

// Whose loop sleeps is woken by a note, as by a message.
KF_TEST(Exchange, NotesWakeWhoSleeps) {
  Cluster cluster(2, Noted());
  for (int times = 0; times < 2; ++times) NotedMessagesFor(&cluster, 4, "x");
  for (int times = 0; times < 20; ++times) {
    std::vector<uint8_t> first(4, 1), second(4, 2);
    std::future<Status> early = cluster.Start(times % 2, Sum(&first, "x"));
    std::this_thread::sleep_for(std::chrono::milliseconds(times % 4));
    std::future<Status> late = cluster.Start(1 - times % 2, Sum(&second, "x"));
    EXPECT_OK(Wait(&early));
    EXPECT_OK(Wait(&late));
    EXPECT_TRUE(first == std::vector<uint8_t>(4, 3) && second == first);
  }
}

// One peer begins several of a name at once, and speaks, while the other one writes a note for each.
KF_TEST(Exchange, NotesMeetMessages) {
  Cluster cluster(2, Noted());
  for (int times = 0; times < 10; ++times) {
    for (const int hasty : {0, 1}) {
      std::vector<std::vector<uint8_t>> many(3, std::vector<uint8_t>(4, 1)), one(3, std::vector<uint8_t>(4, 2));
      std::vector<std::future<Status>> ends;
      for (auto& tensor : many) ends.push_back(cluster.Start(hasty, Sum(&tensor, "x")));
      for (auto& tensor : one) {
        std::future<Status> end = cluster.Start(1 - hasty, Sum(&tensor, "x"));
        EXPECT_OK(Wait(&end));
      }
      for (auto& end : ends) EXPECT_OK(Wait(&end));
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(many[i] == std::vector<uint8_t>(4, 3) && one[i] == many[i]);
    }
  }
  for (int times = 0; times < 2; ++times) NotedMessagesFor(&cluster, 4, "x");
  EXPECT_EQ(NotedMessagesFor(&cluster, 4, "x"), 0u);
}

// A peer that ends in good order wrote its last note before; who awaits another one hears of it.
KF_TEST(Exchange, NotesOfWhoHasLeft) {
  for (const ClusterOptions& options : {Small(), Noted()}) {
    Cluster cluster(3, options);
    for (int times = 0; times < 3; ++times) NotedMessagesFor(&cluster, 4, "x");
    std::vector<std::vector<uint8_t>> tensors(3, std::vector<uint8_t>(4, 1));
    std::vector<std::future<Status>> ends;
    for (const int rank : {0, 1}) ends.push_back(cluster.Start(rank, Sum(&tensors[rank], "x")));
    cluster.Stop(2);
    for (auto& end : ends) {
      const Status status = Wait(&end);
      EXPECT_EQ(status.code(), Code::kUnavailable);
      EXPECT_CONTAINS(status.message(), "all_reduce 'x' from rank 2");
      EXPECT_CONTAINS(status.message(), "the peer has left");
    }
  }
}

// More names than are kept, and more in all than there are pads: those that nobody looks at serve others.
KF_TEST(Exchange, NotesOfManyNames) {
  Cluster cluster(2, Noted());
  constexpr int kNames = 1500;
  for (int times = 0; times < 4; ++times) {
    std::vector<std::vector<uint8_t>> tensors(2 * kNames, std::vector<uint8_t>(4, 1));
    std::vector<std::future<Status>> ends;
    for (int i = 0; i < 2 * kNames; ++i) ends.push_back(cluster.Start(i % 2, Sum(&tensors[i], std::to_string(i / 2))));
    for (auto& end : ends) EXPECT_OK(Wait(&end));
    for (const auto& tensor : tensors) EXPECT_TRUE(tensor == std::vector<uint8_t>(4, 2));
  }
  static_assert(4 * kNames > DirectGroup::kPads);
  NotedMessagesFor(&cluster, 4, "new");
  EXPECT_EQ(NotedMessagesFor(&cluster, 4, "new"), 0u);
}

}  // namespace
}  // namespace kungfu::testing
