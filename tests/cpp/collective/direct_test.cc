// The direct mover against sums made by hand: in shared memory, in ordinary memory, and where tensors lie here and
// there, at any place within a page.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/placed.h"
#include "tests/cpp/collective/values.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

using Sizes = std::vector<int>;

ClusterOptions Direct() {
  ClusterOptions options;
  options.arena_bytes = 1 << 30;
  return options;
}

void RunGrid(Place (*place_of)(int), int size) {
  Cluster cluster(size, Direct());
  const size_t count = RunPlacedGrid(&cluster, place_of);
  EXPECT_EQ(cluster.peer(0)->counters().direct(), count);
}

KF_TEST(Direct, SharedMemory) {
  for (const int size : Brief<Sizes>({2, 3, 4, 5, 6, 7, 8}, {2, 8})) RunGrid([](int) { return Place::kShared; }, size);
}

KF_TEST(Direct, OrdinaryMemory) {
  for (const int size : Brief<Sizes>({2, 3, 4, 7}, {3})) RunGrid([](int) { return Place::kOrdinary; }, size);
}

KF_TEST(Direct, AnywhereInAPage) {
  for (const int size : Brief<Sizes>({2, 3, 4, 7}, {3})) RunGrid([](int) { return Place::kUneven; }, size);
}

// What an operation keeps for the next of its name is too small for data that lie elsewhere.
KF_TEST(Direct, OneNameInOnePlaceAfterTheOther) {
  const std::vector<char> untouched(100003, 3);
  Cluster cluster(3, Direct());
  std::vector<Buffer> bystanders;
  for (const Place place : {Place::kShared, Place::kOrdinary, Place::kUneven, Place::kShared, Place::kOrdinary}) {
    SentForBytes(&cluster, untouched.size(), place);
    for (int rank = 0; rank < 3; ++rank) bystanders.emplace_back(cluster.arena(rank), Place::kShared, untouched);
  }
  for (const Buffer& bystander : bystanders) EXPECT_TRUE(bystander.bytes() == untouched);
}

// More than rest keep nothing.
KF_TEST(Direct, ManyNamesKeepLittle) {
  Cluster cluster(2, Direct());
  constexpr int kNames = 1500, kResting = 1 << 10;
  std::vector<Buffer> tensors;
  for (int rank = 0; rank < 2; ++rank) {
    tensors.emplace_back(cluster.arena(rank), Place::kShared, std::vector<char>(1 << 12, 1));
  }
  const uint64_t before = cluster.arena(0)->statistics().in_use;
  for (int i = 0; i < kNames; ++i) {
    ExpectAllOk(cluster.Run([&](int rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, "x" + std::to_string(i), DType::kUint8, ReduceOp::kMax);
      operation.spans = {{tensors[rank].data(), tensors[rank].data(), 1 << 12}};
      return operation;
    }));
  }
  EXPECT_EQ(cluster.peer(0)->counters().direct(), uint64_t{kNames});
  EXPECT_LE(cluster.arena(0)->statistics().in_use, before + kResting * SharedMemory::PageSize());
}

// As host_mover.h says what it costs.
KF_TEST(Direct, OneShortMessageFromEachToEach) {
  for (const int size : {2, 3, 8}) {
    Cluster cluster(size, Direct());
    for (const Sent& sent : SentForBytes(&cluster, 1 << 20, Place::kShared)) {
      EXPECT_EQ(sent.messages, size - 1u);
      EXPECT_EQ(sent.bytes, 48 * (size - 1u));
    }
  }
}

// Rounded sums have the bits of the sum in the order of ranks, whoever computes a part, and wherever it lies.
KF_TEST(Direct, OperandsAreInTheOrderOfRanks) {
  constexpr uint64_t kCount = 100003;
  for (const int size : Brief<Sizes>({2, 3, 5, 8}, {5})) {
    for (const Place place : {Place::kShared, Place::kOrdinary, Place::kUneven}) {
      Cluster cluster(size, Direct());
      std::vector<Buffer> tensors;
      std::vector<char> expected(kCount * sizeof(float));
      auto* const sums = reinterpret_cast<float*>(expected.data());
      for (int rank = 0; rank < size; ++rank) {
        const std::vector<char> bytes = MakeFractions(DType::kFloat32, kCount, rank);
        tensors.emplace_back(cluster.arena(rank), place, bytes);
        const auto* const numbers = reinterpret_cast<const float*>(bytes.data());
        for (uint64_t i = 0; i < kCount; ++i) sums[i] = rank == 0 ? numbers[i] : sums[i] + numbers[i];
      }
      ExpectAllOk(cluster.Run([&](int rank) {
        Operation operation = MakeOperation(Kind::kAllReduce, "fractions");
        operation.spans = {{tensors[rank].data(), tensors[rank].data(), kCount}};
        return operation;
      }));
      for (const Buffer& tensor : tensors) EXPECT_TRUE(tensor.bytes() == expected);
      EXPECT_EQ(cluster.peer(0)->counters().direct(), 1u);
    }
  }
}

// So large that either kind of stores is tried (StoreChoice).
KF_TEST(Direct, LargeResultsElsewhere) {
  constexpr uint64_t kCount = (5 << 20) + 3;
  Cluster cluster(2, Direct());
  std::vector<Buffer> inputs, results;
  std::vector<char> expected(kCount * sizeof(float));
  auto* const sums = reinterpret_cast<float*>(expected.data());
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<char> bytes = MakeFractions(DType::kFloat32, kCount, rank);
    inputs.emplace_back(cluster.arena(rank), Place::kShared, bytes);
    results.emplace_back(cluster.arena(rank), Place::kShared, std::vector<char>(bytes.size()));
    const auto* const numbers = reinterpret_cast<const float*>(bytes.data());
    for (uint64_t i = 0; i < kCount; ++i) sums[i] += numbers[i];
  }
  const std::vector<char> before[] = {inputs[0].bytes(), inputs[1].bytes()};
  ExpectAllOk(cluster.Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "elsewhere");
    operation.spans = {{inputs[rank].data(), results[rank].data(), kCount}};
    return operation;
  }));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(results[rank].bytes() == expected);
    EXPECT_TRUE(inputs[rank].bytes() == before[rank]);
  }
  EXPECT_EQ(cluster.peer(0)->counters().direct(), 1u);
}

// Tensors of a group, large and small, that lie at other places on other ranks.
KF_TEST(Direct, GroupsOfTensors) {
  for (const int size : {2, 3, 4}) {
    Cluster cluster(size, Direct());
    constexpr uint64_t kTensorCounts[] = {1, 100000, 0, 17, 5000, 4096, 1, 250003, 1024, 77};
    std::vector<std::vector<Buffer>> tensors(size);
    for (int rank = 0; rank < size; ++rank) {
      int index = 0;
      for (const uint64_t count : kTensorCounts) {
        const Place place = static_cast<Place>((index++ + rank) % 3);
        std::vector<char> bytes = MakeValues(DType::kFloat32, ReduceOp::kMean, count, rank);
        tensors[rank].emplace_back(cluster.arena(rank), place, bytes);
      }
    }
    ExpectAllOk(cluster.Run([&](int rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, "group", DType::kFloat32, ReduceOp::kMean);
      for (size_t i = 0; i < tensors[rank].size(); ++i) {
        operation.spans.push_back({tensors[rank][i].data(), tensors[rank][i].data(), kTensorCounts[i]});
      }
      return operation;
    }));
    for (size_t i = 0; i < tensors[0].size(); ++i) {
      std::vector<std::vector<char>> values;
      for (int rank = 0; rank < size; ++rank) {
        values.push_back(MakeValues(DType::kFloat32, ReduceOp::kMean, kTensorCounts[i], rank));
      }
      const std::vector<char> expected = ExpectedValues(DType::kFloat32, ReduceOp::kMean, values);
      for (int rank = 0; rank < size; ++rank) EXPECT_TRUE(tensors[rank][i].bytes() == expected);
    }
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(cluster.peer(rank)->counters().direct(), 1u);
  }
}

// Large tensors in ordinary memory are the graph executor's, on all ranks as soon as one has them.
KF_TEST(Direct, MuchOrdinaryMemoryTakesTheGraphs) {
  Cluster cluster(3, Direct());
  constexpr uint64_t kCount = 1 << 20;
  std::vector<Buffer> tensors;
  std::vector<std::vector<char>> values;
  for (int rank = 0; rank < 3; ++rank) {
    values.push_back(MakeValues(DType::kFloat32, ReduceOp::kSum, kCount, rank));
    tensors.emplace_back(cluster.arena(rank), rank == 1 ? Place::kOrdinary : Place::kShared, values.back());
  }
  ExpectAllOk(cluster.Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "large");
    operation.spans = {{tensors[rank].data(), tensors[rank].data(), kCount}};
    return operation;
  }));
  const std::vector<char> expected = ExpectedValues(DType::kFloat32, ReduceOp::kSum, values);
  for (const Buffer& tensor : tensors) EXPECT_TRUE(tensor.bytes() == expected);
  EXPECT_EQ(cluster.peer(0)->counters().direct(), 0u);
}

// Whoever still holds the old addresses of an operation that has failed reaches nothing of what lies there now.
KF_TEST(Direct, WhatFailsIsOutOfReach) {
  Cluster cluster(2, Direct());
  constexpr uint64_t kCount = 100000;
  const std::vector<char> bytes(kCount * sizeof(float), 'x');
  Buffer tensor(cluster.arena(0), Place::kShared, bytes), other(cluster.arena(1), Place::kShared, bytes);
  StatusOr<SharedMemory> seen = SharedMemory::Open(cluster.arena(0)->address());
  ASSERT_TRUE(seen.ok());
  char* const old_place = seen->data() + *cluster.arena(0)->Find(tensor.data(), 1);
  Operation lonely = MakeOperation(Kind::kAllReduce, "x");
  lonely.spans = {{tensor.data(), tensor.data(), kCount}};
  lonely.timeout = 0.1;
  std::future<Status> failed = cluster.Start(0, lonely);
  EXPECT_EQ(Wait(&failed).code(), Code::kDeadlineExceeded);
  tensor.data()[0] = 'y';
  old_place[0] = 'z';
  EXPECT_EQ(tensor.data()[0], 'y');
  // The tensor is as good as any other memory, and what is allocated next is shared again.
  std::memset(tensor.data(), 0, bytes.size());
  std::memset(other.data(), 0, bytes.size());
  for (const char* name : {"again", "and again"}) {
    Buffer next(cluster.arena(0), Place::kShared, bytes);
    EXPECT_TRUE(cluster.arena(0)->Find(next.data(), bytes.size()).has_value());
    ExpectAllOk(cluster.Run([&](int rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, name);
      char* const data = rank == 1 ? other.data() : name == std::string("again") ? tensor.data() : next.data();
      operation.spans = {{data, data, kCount}};
      return operation;
    }));
  }
  EXPECT_EQ(cluster.peer(0)->counters().direct(), 2u);
}

// Who gives up after its share, and takes its memory back, has not finished: another one that still reads there
// believes nothing of it, though it does not know of the failure yet.
KF_TEST(Direct, WhoGivesUpHasNotFinished) {
  ClusterOptions options = Direct();
  options.chunk_bytes = 64 << 10;
  Cluster cluster(2, options);
  constexpr uint64_t kBytes = 64 << 10, kMuch = 64 << 20;
  const auto reduce = [&](const Buffer& tensor) {
    Operation operation = MakeOperation(Kind::kAllReduce, "x", DType::kUint8);
    operation.spans = {{tensor.data(), tensor.data(), kBytes}};
    return operation;
  };
  std::vector<Buffer> tensors;
  for (int rank = 0; rank < 2; ++rank) {
    tensors.emplace_back(cluster.arena(rank), Place::kShared, std::vector<char>(kBytes, 1));
  }
  ExpectAllOk(cluster.Run([&](int rank) { return reduce(tensors[rank]); }));
  StatusOr<SharedMemory> seen = SharedMemory::Open(cluster.arena(0)->address());
  ASSERT_TRUE(seen.ok());
  std::vector<std::vector<char>> much(2, std::vector<char>(kMuch));
  const auto broadcast = [&](int rank) {
    Operation operation = MakeOperation(Kind::kBroadcast, "much", DType::kUint8);
    operation.spans = {{much[rank].data(), much[rank].data(), kMuch}};
    return operation;
  };
  const volatile char* const withdrawn = seen->data() + *cluster.arena(0)->Find(tensors[0].data(), 1);
  const volatile char* const reduced = tensors[1].data();  // by rank 0, which has the first share

  const auto received = [&] { return cluster.peer(1)->TrafficByRank()[0].total.sum().received; };
  const auto sent = [&] { return cluster.peer(0)->TrafficByRank()[1].total.sum().sent; };
  const uint64_t received_before = received(), sent_before = sent();
  const uint64_t in_use = cluster.arena(0)->statistics().in_use;
  uint64_t handle;
  std::future<Status> first = cluster.Start(0, reduce(tensors[0]), &handle);
  EXPECT_TRUE(Becomes([&] { return received() > received_before; }));
  // Rank 1 begins, and then its loop stands still.
  std::promise<void> called, given_up;
  const auto pause = [&](std::future<void> until) {
    Operation nameless = MakeOperation(Kind::kBarrier, "");
    nameless.done = [until = until.share()](const Status&) { until.wait(); };
    cluster.session(1)->Start(std::move(nameless));
  };
  pause(called.get_future());
  std::future<Status> second = cluster.Start(1, reduce(tensors[1]));
  pause(given_up.get_future());
  called.set_value();
  EXPECT_TRUE(Becomes([&] { return *reduced == 4; }));
  // What tells of the failure is behind all this.
  std::vector<std::future<Status>> broadcasts;
  for (int rank = 0; rank < 2; ++rank) broadcasts.push_back(cluster.Start(rank, broadcast(rank)));
  EXPECT_TRUE(Becomes([&] { return sent() > sent_before + kBytes; }));
  cluster.session(0)->Cancel(handle, OkStatus());
  EXPECT_EQ(Wait(&first).code(), Code::kCancelled);
  EXPECT_TRUE(Becomes([&] { return *withdrawn == 0; }));
  // The table that rank 1 may still read is kept from others.
  EXPECT_EQ(cluster.arena(0)->statistics().in_use, in_use);
  given_up.set_value();
  EXPECT_EQ(Wait(&second).code(), Code::kCancelled);
  for (std::future<Status>& one : broadcasts) EXPECT_OK(Wait(&one));
}

}  // namespace
}  // namespace kungfu::testing
