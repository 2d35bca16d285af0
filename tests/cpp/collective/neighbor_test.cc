// Operations of neighbours against sums made by hand, and peers that end, fail or differ among them.

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "ops/base/accumulate.h"
#include "ops/base/reduce.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/values.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

using Bytes = std::vector<char>;
// The part of each rank.
using Topology = std::function<Mixing(int rank)>;

// Each rank takes from the `degree` ranks before it, with weights that differ from rank to rank.
Topology Before(int size, int degree) {
  return [size, degree](int rank) {
    Mixing mixing;
    std::vector<Mixing::Neighbor> sources, targets;
    for (int i = 1; i <= degree; ++i) {
      const int source = (rank + size - i) % size;
      sources.push_back({source, 0.1 + 0.07 * source + 0.01 * rank});
      targets.push_back({(rank + i) % size, 1});
    }
    return Mixing::Of(0.3 + 0.02 * rank, sources, targets);
  };
}

// Ranks 2i and 2i + 1 hold their mean.
Mixing Pair(int rank) { return Mixing::Of(0.5, {{rank ^ 1, 0.5}}, {{rank ^ 1, 1}}); }

// Each holds a mean with the ranks beside it.
Topology Ring(int size) {
  return [size](int rank) {
    const int before = (rank + size - 1) % size, behind = (rank + 1) % size;
    return Mixing::Of(0.5, {{before, 0.25}, {behind, 0.25}}, {{before, 1}, {behind, 1}});
  };
}

Operation Mix(const Mixing& mixing, DType dtype = DType::kFloat32, const std::string& name = "mix") {
  Operation operation = MakeOperation(Kind::kNeighborAllReduce, name, dtype);
  operation.mixing = std::make_shared<const Mixing>(mixing);
  return operation;
}

Operation Gather(const Mixing& mixing) {
  Operation operation = MakeOperation(Kind::kNeighborAllGather, "gather", DType::kInt32);
  operation.mixing = std::make_shared<const Mixing>(mixing);
  return operation;
}

// What rank `rank` must hold, in the order that is promised.
Bytes Expected(DType dtype, uint64_t count, const Mixing& mixing, const std::vector<Bytes>& inputs, int rank) {
  const bool is_half = AccumulatorOf(dtype, ReduceOp::kSum) != dtype;
  Bytes total(is_half ? count * sizeof(float) : inputs[rank].size()), result(inputs[rank].size());
  Scale(total.data(), inputs[rank].data(), mixing.self, count, dtype);
  for (const Mixing::Neighbor& source : mixing.sources) {
    AddScaled(total.data(), inputs[source.rank].data(), source.weight, count, dtype);
  }
  if (!is_half) return total;
  Narrow(total.data(), result.data(), count, dtype);
  return result;
}

// One operation on three tensors, one of them empty, which are `count` elements together.
void CheckSums(Cluster* cluster, const Topology& topology, DType dtype, uint64_t count) {
  const int size = cluster->size();
  const size_t element = SizeOf(dtype);
  const uint64_t first = count / 3;
  std::vector<Bytes> inputs, results(size, Bytes(count * element));
  for (int rank = 0; rank < size; ++rank) {
    inputs.push_back(dtype == DType::kFloat32 ? MakeFractions(dtype, count, rank)
                                              : MakeValues(dtype, ReduceOp::kSum, count, rank));
  }
  const std::vector<Bytes> before = inputs;
  ExpectAllOk(cluster->Run([&](int rank) {
    Operation operation = Mix(topology(rank), dtype);
    const char* const send = inputs[rank].data();
    char* const recv = results[rank].data();
    operation.spans = {{send, recv, first},
                       {send + first * element, recv + first * element, 0},
                       {send + first * element, recv + first * element, count - first}};
    return operation;
  }));
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(results[rank] == Expected(dtype, count, topology(rank), inputs, rank));
  }
  EXPECT_TRUE(inputs == before);
}

KF_TEST(Neighbors, EverySizeTypeAndCount) {
  for (const int size : Brief<std::vector<int>>({1, 2, 3, 5, 8}, {1, 3})) {
    Cluster cluster(size);
    for (const int degree : {0, 1, 2, size - 1}) {
      if (degree >= size) continue;
      for (int i = kFirstDType; i < kEndDType; ++i) {
        const auto dtype = static_cast<DType>(i);
        if (dtype < DType::kFloat16 || dtype > DType::kComplex128) continue;
        for (const uint64_t count : kCounts) CheckSums(&cluster, Before(size, degree), dtype, count);
      }
    }
  }
}

KF_TEST(Neighbors, ManyChunksOverEveryTransport) {
  for (const char* transport : {"shm", "unix", "tcp"}) {
    ClusterOptions options;
    options.transport = transport;
    options.chunk_bytes = 16 << 10;
    Cluster cluster(4, options);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      CheckSums(&cluster, Before(4, 2), dtype, 1000003);
      CheckSums(&cluster, Ring(4), dtype, 1000003);
    }
  }
}

KF_TEST(Neighbors, PeersDoNotWaitForOthers) {
  Cluster cluster(4);
  std::vector<float> send(10, 1), recv(10);
  std::vector<std::future<Status>> pair;
  std::vector<std::vector<float>> results(2, std::vector<float>(10));
  for (const int rank : {0, 1}) {
    Operation operation = Mix(Pair(rank));
    operation.spans = {{send.data(), results[rank].data(), 10}};
    pair.push_back(cluster.Start(rank, operation));
  }
  for (auto& future : pair) EXPECT_OK(Wait(&future));
  EXPECT_TRUE(results[0] == send);
}

KF_TEST(Neighbors, WeightsOfTargets) {
  Cluster cluster(3);
  for (const DType dtype : {DType::kFloat64, DType::kFloat16}) {
    for (const uint64_t count : {uint64_t{7}, uint64_t{100003}}) {
      // Rank r sends the (t + 2)-fold to rank t.
      std::vector<Bytes> inputs, results(3, Bytes(count * SizeOf(dtype)));
      for (int rank = 0; rank < 3; ++rank) inputs.push_back(MakeValues(dtype, ReduceOp::kSum, count, rank));
      ExpectAllOk(cluster.Run([&](int rank) {
        std::vector<Mixing::Neighbor> sources, targets;
        for (int other = 0; other < 3; ++other) {
          if (other == rank) continue;
          sources.push_back({other, 0.5});
          targets.push_back({other, other + 2.0});
        }
        Operation operation = Mix(Mixing::Of(4, sources, targets), dtype);
        operation.spans = {{inputs[rank].data(), results[rank].data(), count}};
        return operation;
      }));
      for (int rank = 0; rank < 3; ++rank) {
        const std::vector<double> found = NumbersOf(dtype, results[rank]);
        std::vector<double> expected(count, 0);
        for (int other = 0; other < 3; ++other) {
          const std::vector<double> theirs = NumbersOf(dtype, inputs[other]);
          const double weight = other == rank ? 4 : 0.5 * (rank + 2);
          for (uint64_t i = 0; i < count; ++i) expected[i] += weight * theirs[i];
        }
        EXPECT_TRUE(found == expected);
      }
    }
  }
}

KF_TEST(Neighbors, GatherDifferentLengths) {
  for (const int size : {1, 2, 3, 5}) {
    Cluster cluster(size);
    for (const int degree : {0, 1, size - 1}) {
      if (degree >= size) continue;
      const Topology topology = Before(size, degree);
      std::vector<std::vector<int32_t>> send, results(size);
      std::vector<std::vector<uint64_t>> counts(size);
      for (int rank = 0; rank < size; ++rank) {
        send.emplace_back(rank == 1 ? 0 : 1000 + 70000 * rank);
        std::iota(send[rank].begin(), send[rank].end(), 1000000 * rank);
      }
      ExpectAllOk(cluster.Run([&](int rank) {
        Operation operation = Gather(topology(rank));
        operation.spans = {{send[rank].data(), nullptr, send[rank].size()}};
        operation.allocate = [&results, &counts, rank](const std::vector<uint64_t>& of_sources) -> void* {
          counts[rank] = of_sources;
          results[rank].assign(std::accumulate(of_sources.begin(), of_sources.end(), uint64_t{0}), -1);
          return results[rank].data();
        };
        return operation;
      }));
      for (int rank = 0; rank < size; ++rank) {
        std::vector<int32_t> expected;
        std::vector<uint64_t> lengths;
        for (const Mixing::Neighbor& source : topology(rank).sources) {
          expected.insert(expected.end(), send[source.rank].begin(), send[source.rank].end());
          lengths.push_back(send[source.rank].size());
        }
        EXPECT_TRUE(results[rank] == expected);
        EXPECT_TRUE(counts[rank] == lengths);
      }
    }
  }
}

// Four floats for each rank of an operation.
struct Memory {
  explicit Memory(int size) : send(size, std::vector<float>(4, 1)), recv(size, std::vector<float>(4)) {}
  Operation Of(const Mixing& mixing, int rank) {
    Operation operation = Mix(mixing);
    operation.spans = {{send[rank].data(), recv[rank].data(), 4}};
    return operation;
  }
  std::vector<std::vector<float>> send, recv;
};

KF_TEST(Neighbors, AreRefused) {
  Cluster cluster(3);
  const auto expect_refused = [&](const std::function<void(Operation*)>& change, const char* why) {
    Memory memory(3);
    for (const Status& status : cluster.Run([&](int rank) {
           Operation operation = memory.Of(Ring(3)(rank), rank);
           change(&operation);
           return operation;
         })) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(status.message(), "neighbor_all_reduce 'mix'");
      EXPECT_CONTAINS(status.message(), why);
    }
  };
  const auto taking = [](int source) {
    return [source](Operation* operation) {
      operation->mixing = std::make_shared<const Mixing>(Mixing::Of(0.5, {{source, 0.5}}, {}));
    };
  };
  expect_refused(taking(3), "source 3 is not a rank of 3 peers");
  expect_refused([](Operation* operation) { operation->dtype = DType::kInt32; }, "weighted sum of int32");
  expect_refused([](Operation* operation) { operation->mixing = nullptr; }, "has no neighbours");
  expect_refused([](Operation* operation) { operation->spans[0].send = operation->spans[0].recv; }, "in place");
}

// Those that have data of its neighbours only may have ended before they hear of it.
KF_TEST(Neighbors, ThatDiffer) {
  Cluster cluster(4);
  Memory memory(4);
  const std::vector<Status> statuses = cluster.Run([&](int rank) {
    Operation operation = memory.Of(Ring(4)(rank), rank);
    operation.shape_digest = rank == 2 ? 5 : 6;
    return operation;
  });
  for (const int rank : {1, 2, 3}) {
    EXPECT_EQ(statuses[rank].code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(statuses[rank].message(), "rank 2 (127.0.0.1:");
    EXPECT_CONTAINS(statuses[rank].message(), "the topology or its step");
  }
  // All are in step again.
  ExpectAllOk(cluster.Run([&](int rank) { return memory.Of(Ring(4)(rank), rank); }));
}

KF_TEST(Neighbors, WhoseWeightsDoNotFit) {
  Cluster cluster(2);
  ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "together"); }));
  Memory memory(2);
  const std::vector<Status> statuses = cluster.Run([&](int rank) {
    Operation operation = memory.Of(rank == 0 ? Mixing::Of(0.5, {{1, 0.5}}, {}) : Mixing(), rank);
    operation.timeout = 0.2;
    return operation;
  });
  EXPECT_EQ(statuses[0].code(), Code::kDeadlineExceeded);
  EXPECT_CONTAINS(statuses[0].message(), "rank 1 (127.0.0.1:");
  EXPECT_CONTAINS(statuses[0].message(), "does not have this rank as a neighbour");
  EXPECT_OK(statuses[1]);
}

KF_TEST(Neighbors, EndAtDifferentTimes) {
  Cluster cluster(4);
  Memory memory(4);
  ExpectAllOk(cluster.Run([&](int rank) { return memory.Of(Pair(rank), rank); }));
  cluster.Stop(0);
  std::vector<std::future<Status>> futures;
  for (const int rank : {1, 2, 3}) futures.push_back(cluster.Start(rank, memory.Of(Pair(rank), rank)));
  const Status lonely = Wait(&futures[0]);
  EXPECT_EQ(lonely.code(), Code::kUnavailable);
  EXPECT_CONTAINS(lonely.message(), "rank 0 (127.0.0.1:");
  EXPECT_OK(Wait(&futures[1]));
  EXPECT_OK(Wait(&futures[2]));
}

// What a peer has sent before it ended is there for the one that comes later.
KF_TEST(Neighbors, AreMissedOnlyForWhatTheyHaveNotSent) {
  Cluster cluster(2);
  Memory memory(2);
  const auto along = [](int rank) { return rank == 0 ? Mixing::Of(1, {}, {{1, 1}}) : Mixing::Of(0.5, {{0, 0.5}}, {}); };
  ExpectAllOk(cluster.Run([&](int rank) { return memory.Of(along(rank), rank); }));
  std::future<Status> sent = cluster.Start(0, memory.Of(along(0), 0));
  EXPECT_OK(Wait(&sent));
  cluster.Stop(0);
  std::future<Status> late = cluster.Start(1, memory.Of(along(1), 1));
  EXPECT_OK(Wait(&late));
  std::future<Status> missing = cluster.Start(1, memory.Of(along(1), 1));
  EXPECT_EQ(Wait(&missing).code(), Code::kUnavailable);
}

// A peer that was told of a failure before it came sends nothing: so it tells its own neighbours.
KF_TEST(Neighbors, ThatComeLaterHearOfAFailure) {
  Cluster cluster(5);
  Memory memory(5), others(5);
  for (const int rank : {0, 1, 2, 3, 4}) {
    Operation operation = memory.Of(Ring(5)(rank), rank);
    if (rank == 0) operation.spans[0].send = operation.spans[0].recv;
    std::future<Status> future = cluster.Start(rank, operation);
    const Status status = Wait(&future);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(status.message(), "it cannot work in place");
    // What was told before this operation has come with it.
    ExpectAllOk(cluster.Run([&](int other) {
      Operation later = others.Of(Ring(5)(other), other);
      later.name = "later";
      return later;
    }));
  }
}

// Much data is sent when the receiver has a place. Nobody waits until the deadline for somebody who has given up.
KF_TEST(Neighbors, GiveUpTogether) {
  constexpr uint64_t kCount = 1 << 20;
  Cluster cluster(6);
  Memory memory(6);
  ExpectAllOk(cluster.Run([&](int rank) { return memory.Of(Ring(6)(rank), rank); }));
  for (auto* side : {&memory.send, &memory.recv}) side->assign(6, std::vector<float>(kCount, 1));
  std::vector<std::future<Status>> futures;
  for (const int rank : {1, 2, 3, 4, 5}) {
    Operation operation = memory.Of(Ring(6)(rank), rank);
    operation.spans[0].count = kCount;
    futures.push_back(cluster.Start(rank, operation));
  }
  cluster.Stop(0);
  for (size_t i = 0; i < futures.size(); ++i) {
    const Status status = Wait(&futures[i]);
    const bool misses_it = i == 0 || i == 4;
    EXPECT_TRUE(status.code() == Code::kUnavailable || (status.ok() && !misses_it));
  }
}

}  // namespace
}  // namespace kungfu::testing
