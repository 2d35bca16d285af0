// Every strategy, size, dtype, reduction and count, in place and not, against sums made by hand.

#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/values.h"
#include "tests/cpp/plan/strategy_rows.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// One all-reduce on all ranks: what they have, what must come out, and where it does.
struct GridCase {
  DType dtype;
  ReduceOp op;
  uint64_t count;
  bool in_place;
  std::vector<std::vector<char>> send;
  std::vector<char> expected;
  std::vector<std::vector<char>> recv;

  std::string name() const {
    return std::string(Name(op)) + "/" + Name(dtype) + "/" + std::to_string(count) + (in_place ? "/in" : "/out");
  }
};

// For sessions of this size.
std::vector<GridCase> MakeCases(int size) {
  std::vector<GridCase> cases;
  for (int t = kFirstDType; t < kEndDType; ++t) {
    for (int o = 0; o < kNumReduceOps; ++o) {
      const DType dtype = static_cast<DType>(t);
      const ReduceOp op = static_cast<ReduceOp>(o);
      if (!Supports(dtype, op)) continue;
      for (const uint64_t count : kCounts) {
        for (const bool in_place : {false, true}) {
          GridCase one{dtype, op, count, in_place, {}, {}, {}};
          for (int rank = 0; rank < size; ++rank) one.send.push_back(MakeValues(dtype, op, count, rank));
          one.expected = ExpectedValues(dtype, op, one.send);
          cases.push_back(std::move(one));
        }
      }
    }
  }
  return cases;
}

void RunGrid(const char* strategy, std::vector<GridCase>* cases, int hosts = 1) {
  ClusterOptions options;
  options.transport = "auto";
  options.hosts = hosts;
  options.strategy = strategy;
  options.chunk_bytes = 64 << 10;  // several chunks for the larger tensors
  const int size = static_cast<int>(cases->front().send.size());
  Cluster cluster(size, options);
  for (GridCase& one : *cases) {
    one.recv = one.in_place ? one.send : std::vector(size, std::vector<char>(one.expected.size(), '\x55'));
  }
  std::vector<std::future<Status>> futures;
  for (GridCase& one : *cases) {
    for (int rank = 0; rank < size; ++rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, one.name(), one.dtype, one.op);
      void* recv = one.recv[rank].data();
      operation.spans = {{one.in_place ? recv : one.send[rank].data(), recv, one.count}};
      futures.push_back(cluster.Start(rank, std::move(operation)));
    }
  }
  for (auto& future : futures) EXPECT_OK(Wait(&future));
  for (const GridCase& one : *cases) {
    for (int rank = 0; rank < size; ++rank) {
      if (one.recv[rank] != one.expected) {
        Fail(__FILE__, __LINE__,
             std::string(strategy) + " " + std::to_string(size) + " peers on " + std::to_string(hosts) +
                 " hosts, rank " + std::to_string(rank) + ": " + one.name());
      }
    }
  }
  EXPECT_EQ(cluster.peer(0)->counters().completed("sum/float32/1000/in"), 1u);
}

KF_TEST(Grid, EveryStrategy) {
  for (int size = 1; size <= 8; ++size) {
    std::vector<GridCase> cases = MakeCases(size);
    for (int i = 0; i < kNumStrategies; ++i) RunGrid(Name(static_cast<StrategyName>(i)), &cases);
  }
}

// With as many peers on each host, and with one less on some.
KF_TEST(GridOverHosts, EveryStrategyThatKnowsThem) {
  for (const int size : {4, 5, 6, 8}) {
    std::vector<GridCase> cases = MakeCases(size);
    const auto run = [&](const char* strategy) {
      RunGrid(strategy, &cases, 2);
      if (size > 4) RunGrid(strategy, &cases, 3);
    };
    for (const StrategyRow& row : kStrategyRows) {
      if (KnowsHosts(row.name)) run(Name(row.name));
    }
    run("AUTO");
  }
}

}  // namespace
}  // namespace kungfu::testing
