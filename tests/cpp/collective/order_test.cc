// Messages match by name and number, whatever the order in which peers begin, and however much comes too early.

#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

using Floats = std::vector<float>;
using Names = std::vector<const char*>;

Operation InPlaceSum(const std::string& name, Floats* tensor) {
  Operation operation = MakeOperation(Kind::kAllReduce, name);
  operation.spans = {{tensor->data(), tensor->data(), tensor->size()}};
  return operation;
}

KF_TEST(Order, OppositeOrderOfManyNames) {
  for (const char* transport : {"shm", "unix", "tcp"}) {
    for (const char* strategy : Brief<Names>({"RING", "STAR", "CLIQUE", "BINARY_TREE"}, {"RING", "STAR"})) {
      ClusterOptions options;
      options.transport = transport;
      options.strategy = strategy;
      Cluster cluster(3, options);
      constexpr int kNames = kBrief ? 40 : 200, kStep = 19400 / kNames;
      std::vector<std::vector<Floats>> tensors(3);
      std::vector<std::future<Status>> futures;
      for (int rank = 0; rank < 3; ++rank) {
        for (int i = 0; i < kNames; ++i) tensors[rank].push_back(Floats(1 + kStep * i, static_cast<float>(i + rank)));
        for (int i = 0; i < kNames; ++i) {
          const int which = rank % 2 == 0 ? i : kNames - 1 - i;
          futures.push_back(cluster.Start(rank, InPlaceSum("t" + std::to_string(which), &tensors[rank][which])));
        }
      }
      for (auto& future : futures) EXPECT_OK(Wait(&future));
      for (int rank = 0; rank < 3; ++rank) {
        for (int i = 0; i < kNames; ++i) {
          EXPECT_TRUE(tensors[rank][i] == Floats(1 + kStep * i, static_cast<float>(3 * i + 3)));
        }
      }
    }
  }
}

// One peer has X and Y under way at once, the other does Y when X is done: Y's data must not stand in X's way.
KF_TEST(Order, LargeOperationsConcurrentHereAndInTurnThere) {
  for (const char* transport : {"shm", "unix", "tcp"}) {
    for (const char* strategy : Brief<Names>({"RING", "STAR"}, {"RING"})) {
      ClusterOptions options;
      options.transport = transport;
      options.strategy = strategy;
      Cluster cluster(2, options);
      const size_t count = Brief(32 << 20, 20 << 20) / sizeof(float);  // more than a receiver parks
      std::vector<Floats> x(2, Floats(count, 1.0f)), y(2, Floats(count, 2.0f));
      std::future<Status> y0 = cluster.Start(0, InPlaceSum("Y", &y[0]));
      std::future<Status> x0 = cluster.Start(0, InPlaceSum("X", &x[0]));
      std::future<Status> x1 = cluster.Start(1, InPlaceSum("X", &x[1]));
      EXPECT_OK(Wait(&x1));
      EXPECT_OK(Wait(&x0));
      EXPECT_TRUE(y0.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
      std::future<Status> y1 = cluster.Start(1, InPlaceSum("Y", &y[1]));
      EXPECT_OK(Wait(&y1));
      EXPECT_OK(Wait(&y0));
      for (int rank = 0; rank < 2; ++rank) {
        EXPECT_TRUE(x[rank] == Floats(count, 2.0f));
        EXPECT_TRUE(y[rank] == Floats(count, 4.0f));
      }
    }
  }
}

// More early data than a receiver parks: the rest waits at the sender, and nothing is lost or blocked.
KF_TEST(Order, FarAheadOfTheOthers) {
  Cluster cluster(2);
  constexpr int kOperations = kBrief ? 600 : 1500;  // of 32 KiB: more than the parking limit
  std::vector<std::vector<Floats>> tensors(2, std::vector<Floats>(kOperations, Floats(8192, 1.0f)));
  std::vector<std::future<Status>> ahead, behind;
  for (int i = 0; i < kOperations; ++i)
    ahead.push_back(cluster.Start(0, InPlaceSum("s" + std::to_string(i), &tensors[0][i])));
  Floats other(2, 1.0f), another(2, 1.0f);
  std::future<Status> late0 = cluster.Start(0, InPlaceSum("late", &other));
  std::future<Status> late1 = cluster.Start(1, InPlaceSum("late", &another));
  EXPECT_OK(Wait(&late0));
  EXPECT_OK(Wait(&late1));
  for (int i = kOperations - 1; i >= 0; --i)
    behind.push_back(cluster.Start(1, InPlaceSum("s" + std::to_string(i), &tensors[1][i])));
  for (auto& future : ahead) EXPECT_OK(Wait(&future));
  for (auto& future : behind) EXPECT_OK(Wait(&future));
  for (const auto& rank : tensors) {
    for (const Floats& tensor : rank) EXPECT_TRUE(tensor == Floats(8192, 2.0f));
  }
}

// The same name again and again: numbers keep the rounds apart.
KF_TEST(Order, OneNameManyTimes) {
  Cluster cluster(4);
  constexpr int kRounds = kBrief ? 100 : 300;
  std::vector<std::vector<Floats>> tensors(4);
  std::vector<std::future<Status>> futures;
  for (int rank = 0; rank < 4; ++rank) {
    for (int i = 0; i < kRounds; ++i) tensors[rank].push_back(Floats(3, static_cast<float>(i)));
    for (int i = 0; i < kRounds; ++i) futures.push_back(cluster.Start(rank, InPlaceSum("again", &tensors[rank][i])));
  }
  for (auto& future : futures) EXPECT_OK(Wait(&future));
  for (int rank = 0; rank < 4; ++rank) {
    for (int i = 0; i < kRounds; ++i) EXPECT_TRUE(tensors[rank][i] == Floats(3, static_cast<float>(4 * i)));
  }
}

// The order of operands is the graph's: two runs give the same bits.
KF_TEST(Order, RunsAreBitwiseEqual) {
  for (const char* strategy : {"RING", "STAR", "CLIQUE", "MULTI_BINARY_TREE_STAR"}) {
    std::vector<Floats> first;
    for (int run = 0; run < 2; ++run) {
      ClusterOptions options;
      options.strategy = strategy;
      Cluster cluster(5, options);
      std::vector<Floats> tensors(5);
      for (int rank = 0; rank < 5; ++rank) {
        for (int i = 0; i < 50000; ++i) tensors[rank].push_back(1.0f / static_cast<float>(1 + i * 7 + rank));
      }
      ExpectAllOk(cluster.Run([&](int rank) { return InPlaceSum("x", &tensors[rank]); }));
      for (int rank = 1; rank < 5; ++rank) EXPECT_TRUE(tensors[rank] == tensors[0]);
      if (run == 0) {
        first = tensors;
      } else {
        EXPECT_TRUE(tensors == first);
      }
    }
  }
}

}  // namespace
}  // namespace kungfu::testing
