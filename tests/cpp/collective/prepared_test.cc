// Operations of one name that follow each other: what was prepared for the first serves the others only where it fits.

#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

using Floats = std::vector<float>;

// From every peer to every other one in messages and in notes, along graphs, and in memory that all map.
std::vector<ClusterOptions> PreparedMovers() {
  ClusterOptions exchange, notes, graphs, direct;
  exchange.own_cores = true;
  exchange.direct_bytes = 1 << 20;
  notes = exchange;
  notes.arena_bytes = 1 << 20;
  graphs.strategy = "RING";
  direct.arena_bytes = 64 << 20;
  return {exchange, notes, graphs, direct};
}

struct Repetition {
  std::string name = "x";
  size_t count = 10;
  ReduceOp op = ReduceOp::kSum;
  uint64_t step = 0;
  bool in_place = true;
};

// The tensors of all ranks, and an operation on them.
class Repeated {
 public:
  Repeated(int size, const Repetition& what) : what_(what), sends_(size), results_(size) {
    for (int rank = 0; rank < size; ++rank) {
      for (size_t i = 0; i < what.count; ++i) sends_[rank].push_back(static_cast<float>(i % 7 + rank));
      results_[rank] = what.in_place ? sends_[rank] : Floats(what.count);
    }
  }

  Operation Of(int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, what_.name, DType::kFloat32, what_.op);
    operation.step = what_.step;
    float* const result = results_[rank].data();
    operation.spans = {{what_.in_place ? result : sends_[rank].data(), result, what_.count}};
    return operation;
  }

  void ExpectRight() const {
    const int size = static_cast<int>(sends_.size());
    Floats right;
    for (size_t i = 0; i < what_.count; ++i) {
      const float all = static_cast<float>(size * (i % 7)) + static_cast<float>(size * (size - 1) / 2);
      right.push_back(what_.op == ReduceOp::kMean ? all / static_cast<float>(size) : all);
    }
    for (const Floats& result : results_) EXPECT_TRUE(result == right);
  }

 private:
  const Repetition what_;
  std::vector<Floats> sends_, results_;
};

void RunRepeated(Cluster* cluster, const Repetition& what) {
  Repeated repeated(cluster->size(), what);
  ExpectAllOk(cluster->Run([&](int rank) { return repeated.Of(rank); }));
  repeated.ExpectRight();
}

KF_TEST(Prepared, ForWhateverComesNext) {
  for (const ClusterOptions& options : PreparedMovers()) {
    Cluster cluster(3, options);
    for (uint64_t step = 0; step < 4; ++step) RunRepeated(&cluster, {"x", 10, ReduceOp::kSum, step});
    for (const bool in_place : {false, true, false}) RunRepeated(&cluster, {"x", 10, ReduceOp::kSum, 9, in_place});
    for (const size_t count : {11, 1, 0, 100000, 11}) RunRepeated(&cluster, {"x", count});
    for (const ReduceOp op : {ReduceOp::kMean, ReduceOp::kSum}) RunRepeated(&cluster, {"x", 11, op});
    ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "x"); }));
    RunRepeated(&cluster, {"x", 11});
  }
}

// One that differs fails on all, and nobody takes a later one for it.
KF_TEST(Prepared, NotForThoseThatDiffer) {
  for (const ClusterOptions& options : PreparedMovers()) {
    Cluster cluster(3, options);
    const Repetition usual;
    for (const Repetition& odd :
         {Repetition{"x", 11}, Repetition{"x", 10, ReduceOp::kMean}, Repetition{"x", 10, ReduceOp::kSum, /*step=*/5}}) {
      for (int times = 0; times < 2; ++times) RunRepeated(&cluster, usual);
      Repeated most(3, usual), other(3, odd);
      for (const Status& status : cluster.Run([&](int rank) { return rank == 1 ? other.Of(rank) : most.Of(rank); })) {
        EXPECT_EQ(status.code(), Code::kInvalidArgument);
        EXPECT_CONTAINS(status.message(), "all_reduce 'x' differs between rank");
      }
    }
    RunRepeated(&cluster, usual);
  }
}

KF_TEST(Prepared, ImpossibleOnesFail) {
  Cluster cluster(2);
  RunRepeated(&cluster, {});
  std::vector<float> tensors(2);
  const auto impossible = [&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "x", DType::kBool);
    operation.spans = {{&tensors[rank], &tensors[rank], 1}};
    return operation;
  };
  for (const Status& status : cluster.Run(impossible)) EXPECT_EQ(status.code(), Code::kInvalidArgument);
  RunRepeated(&cluster, {});
}

KF_TEST(Prepared, AndCancelled) {
  for (const ClusterOptions& options : PreparedMovers()) {
    Cluster cluster(2, options);
    for (int times = 0; times < 3; ++times) {
      RunRepeated(&cluster, {});
      Repeated repeated(2, {});
      uint64_t handle = 0;
      std::future<Status> cancelled = cluster.Start(0, repeated.Of(0), &handle);
      cluster.peer(0)->Cancel(handle, OkStatus());
      EXPECT_EQ(Wait(&cancelled).code(), Code::kCancelled);
      std::future<Status> late = cluster.Start(1, repeated.Of(1));
      EXPECT_EQ(Wait(&late).code(), Code::kCancelled);
    }
    RunRepeated(&cluster, {});
  }
}

// The second of a name begins before the first has ended.
KF_TEST(Prepared, SeveralOfANameAtOnce) {
  for (const ClusterOptions& options : PreparedMovers()) {
    Cluster cluster(2, options);
    for (int times = 0; times < 5; ++times) {
      std::vector<Repeated> repeated;
      for (uint64_t step = 0; step < 4; ++step) repeated.emplace_back(2, Repetition{"x", 10, ReduceOp::kSum, step});
      std::vector<std::future<Status>> futures;
      for (int rank = 0; rank < 2; ++rank) {
        for (Repeated& one : repeated) futures.push_back(cluster.Start(rank, one.Of(rank)));
      }
      for (auto& future : futures) EXPECT_OK(Wait(&future));
      for (const Repeated& one : repeated) one.ExpectRight();
    }
  }
}

// More names than are kept.
KF_TEST(Prepared, ForManyNames) {
  Cluster cluster(2, PreparedMovers().front());
  constexpr int kNames = 1500;
  for (int times = 0; times < 2; ++times) {
    std::vector<Repeated> repeated;
    for (int i = 0; i < kNames; ++i) repeated.emplace_back(2, Repetition{"x" + std::to_string(i), 3});
    std::vector<std::future<Status>> futures;
    for (int rank = 0; rank < 2; ++rank) {
      for (Repeated& one : repeated) futures.push_back(cluster.Start(rank, one.Of(rank)));
    }
    for (auto& future : futures) EXPECT_OK(Wait(&future));
    for (const Repeated& one : repeated) one.ExpectRight();
  }
}

}  // namespace
}  // namespace kungfu::testing
