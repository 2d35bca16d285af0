// The direct mover against sums made by hand: in shared memory, in ordinary memory, and where tensors lie here and
// there, at any place within a page.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/values.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr uint64_t kCounts[] = {0, 1, 10, 1000, 10007};

enum class Place { kShared, kOrdinary, kUneven };

const char* NameOf(Place place) {
  return place == Place::kShared ? "shared" : place == Place::kOrdinary ? "ordinary" : "uneven";
}

// Bytes at a place, which end where the arena does at the latest.
class Buffer {
 public:
  // Uneven: somewhere within a page of the arena.
  Buffer(Arena* arena, Place place, const std::vector<char>& bytes) : arena_(arena), size_(bytes.size()) {
    if (place == Place::kOrdinary) {
      ordinary_.resize(size_ + 1);
      data_ = ordinary_.data();
    } else {
      constexpr size_t kOdd = 3 * 16;
      block_ = static_cast<char*>(arena->Allocate(size_ + kOdd));
      if (block_ == nullptr) std::abort();
      data_ = block_ + (place == Place::kUneven ? kOdd : 0);
    }
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  ~Buffer() {
    if (block_ != nullptr) arena_->Free(block_);
  }
  Buffer(Buffer&& other) : Buffer(other.arena_, Place::kOrdinary, {}) { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) {
    std::swap(size_, other.size_);
    std::swap(block_, other.block_);
    std::swap(data_, other.data_);
    ordinary_.swap(other.ordinary_);
    return *this;
  }

  char* data() const { return data_; }
  std::vector<char> bytes() const { return {data_, data_ + size_}; }

 private:
  Arena* arena_;
  size_t size_;
  char* block_ = nullptr;
  char* data_ = nullptr;
  std::vector<char> ordinary_;
};

ClusterOptions Direct() {
  ClusterOptions options;
  options.arena_bytes = 1 << 30;
  return options;
}

struct Case {
  DType dtype;
  ReduceOp op;
  uint64_t count;
  bool in_place;
  std::vector<char> expected;
  std::vector<Buffer> send, recv;

  std::string name() const {
    return std::string(Name(op)) + "/" + Name(dtype) + "/" + std::to_string(count) + (in_place ? "/in" : "/out");
  }
};

Case MakeCase(const Cluster& cluster, Place place, DType dtype, ReduceOp op, uint64_t count, bool in_place) {
  Case one{dtype, op, count, in_place, {}, {}, {}};
  std::vector<std::vector<char>> values;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    values.push_back(MakeValues(dtype, op, count, rank));
    one.send.emplace_back(cluster.arena(rank), place, values.back());
    one.recv.emplace_back(cluster.arena(rank), place, std::vector<char>(in_place ? 0 : values.back().size(), '\x55'));
  }
  one.expected = ExpectedValues(dtype, op, values);
  return one;
}

void RunGrid(Place place, int size) {
  Cluster cluster(size, Direct());
  std::vector<Case> cases;
  for (int t = 0; t < kNumDTypes; ++t) {
    for (int o = 0; o < kNumReduceOps; ++o) {
      const DType dtype = static_cast<DType>(t);
      const ReduceOp op = static_cast<ReduceOp>(o);
      if (!Supports(dtype, op)) continue;
      for (const uint64_t count : kCounts) {
        for (const bool in_place : {false, true}) cases.push_back(MakeCase(cluster, place, dtype, op, count, in_place));
      }
    }
  }
  std::vector<std::future<Status>> futures;
  for (Case& one : cases) {
    for (int rank = 0; rank < size; ++rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, one.name(), one.dtype, one.op);
      char* const send = one.send[rank].data();
      operation.spans = {{send, one.in_place ? send : one.recv[rank].data(), one.count}};
      futures.push_back(cluster.Start(rank, std::move(operation)));
    }
  }
  for (auto& future : futures) EXPECT_OK(Wait(&future));
  for (const Case& one : cases) {
    for (int rank = 0; rank < size; ++rank) {
      if ((one.in_place ? one.send : one.recv)[rank].bytes() != one.expected) {
        Fail(__FILE__, __LINE__,
             std::string(NameOf(place)) + ", " + std::to_string(size) + " peers, rank " + std::to_string(rank) + ": " +
                 one.name());
      }
    }
  }
  EXPECT_EQ(cluster.peer(0)->counters().direct(), cases.size());
}

KF_TEST(Direct, SharedMemory) {
  for (int size = 2; size <= 8; ++size) RunGrid(Place::kShared, size);
}

KF_TEST(Direct, OrdinaryMemory) {
  for (const int size : {2, 3, 4, 7}) RunGrid(Place::kOrdinary, size);
}

KF_TEST(Direct, AnywhereInAPage) {
  for (const int size : {2, 3, 4, 7}) RunGrid(Place::kUneven, size);
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
        tensors[rank].emplace_back(cluster.arena(rank),
                                   place == Place::kOrdinary && count > 5000 ? Place::kShared : place, bytes);
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

}  // namespace
}  // namespace kungfu::testing
