// Every strategy, size, dtype, reduction and count, in place and not, against sums made by hand.

#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/values.h"
#include "tests/cpp/plan/strategy_rows.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// One all-reduce on all ranks: its buffers, and what must come out.
struct GridCase {
  DType dtype;
  ReduceOp op;
  uint64_t count;
  bool in_place;
  std::vector<std::vector<char>> send, recv;

  std::string name() const {
    return std::string(Name(op)) + "/" + Name(dtype) + "/" + std::to_string(count) + (in_place ? "/in" : "/out");
  }
};

std::vector<GridCase> MakeCases(int size) {
  std::vector<GridCase> cases;
  for (int t = kFirstDType; t < kEndDType; ++t) {
    for (int o = 0; o < kNumReduceOps; ++o) {
      const DType dtype = static_cast<DType>(t);
      const ReduceOp op = static_cast<ReduceOp>(o);
      if (!Supports(dtype, op)) continue;
      for (const uint64_t count : kCounts) {
        for (const bool in_place : {false, true}) {
          GridCase one{dtype, op, count, in_place, {}, {}};
          for (int rank = 0; rank < size; ++rank) {
            one.send.push_back(MakeValues(dtype, op, count, rank));
            one.recv.push_back(in_place ? one.send.back() : std::vector<char>(count * SizeOf(dtype), '\x55'));
          }
          cases.push_back(std::move(one));
        }
      }
    }
  }
  return cases;
}

void RunGrid(const char* strategy, int size, int hosts = 1) {
  ClusterOptions options;
  options.transport = "auto";
  options.hosts = hosts;
  options.strategy = strategy;
  options.chunk_bytes = 64 << 10;  // several chunks for the larger tensors
  Cluster cluster(size, options);
  std::vector<GridCase> cases = MakeCases(size);
  std::vector<std::future<Status>> futures;
  for (GridCase& one : cases) {
    for (int rank = 0; rank < size; ++rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, one.name(), one.dtype, one.op);
      void* recv = one.recv[rank].data();
      operation.spans = {{one.in_place ? recv : one.send[rank].data(), recv, one.count}};
      futures.push_back(cluster.Start(rank, std::move(operation)));
    }
  }
  for (auto& future : futures) EXPECT_OK(Wait(&future));
  for (const GridCase& one : cases) {
    const std::vector<char> expected = ExpectedValues(one.dtype, one.op, one.send);
    for (int rank = 0; rank < size; ++rank) {
      if (one.recv[rank] != expected) {
        Fail(__FILE__, __LINE__,
             std::string(strategy) + " " + std::to_string(size) + " peers on " + std::to_string(hosts) +
                 " hosts, rank " + std::to_string(rank) + ": " + one.name());
      }
    }
  }
  EXPECT_EQ(cluster.peer(0)->counters().completed("sum/float32/1000/in"), 1u);
}

void RunGridOverHosts(const char* strategy) {
  for (const int size : {4, 5, 6, 8}) {
    RunGrid(strategy, size, 2);
    if (size > 4) RunGrid(strategy, size, 3);
  }
}

KF_TEST(Grid, EveryStrategy) {
  for (int i = 0; i < kNumStrategies; ++i) {
    for (int size = 1; size <= 8; ++size) RunGrid(Name(static_cast<StrategyName>(i)), size);
  }
}

// With as many peers on each host, and with one less on some.
KF_TEST(GridOverHosts, EveryStrategyThatKnowsThem) {
  for (const StrategyRow& row : kStrategyRows) {
    if (KnowsHosts(row.name)) RunGridOverHosts(Name(row.name));
  }
  RunGridOverHosts("AUTO");
}

}  // namespace
}  // namespace kungfu::testing
