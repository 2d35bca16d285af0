// The collectives other than all_reduce: results, ragged lengths, every root.

#include <numeric>
#include <string>
#include <vector>

#include "ops/plan/partition.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

using Ints = std::vector<int32_t>;

// What rank r has: `count` different numbers.
Ints Mine(int rank, uint64_t count) {
  Ints values(count);
  std::iota(values.begin(), values.end(), 100000 * (rank + 1));
  return values;
}

Allocate Into(Ints* result, std::vector<uint64_t>* counts = nullptr) {
  return [result, counts](const std::vector<uint64_t>& from_ranks) -> void* {
    result->assign(std::accumulate(from_ranks.begin(), from_ranks.end(), uint64_t{0}), -1);
    if (counts) *counts = from_ranks;
    return result->data();
  };
}

// The sizes of sessions, on one host: direct graphs and, beyond 8, trees.
const std::vector<int> kSizes = Brief<std::vector<int>>({1, 2, 3, 4, 7, 9}, {1, 3, 9});

// Ranks that are somebody special: each of them in turn.
std::vector<int> SpecialRanks(int size) {
  if (kBrief && size > 2) return {0, size - 1};
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

KF_TEST(Kinds, BroadcastFromEveryRoot) {
  for (const int size : kSizes) {
    Cluster cluster(size);
    for (const int root : SpecialRanks(size)) {
      for (const uint64_t count : {0, 1, 10007, 300000}) {
        std::vector<Ints> send, recv(size, Ints(count, -1));
        for (int rank = 0; rank < size; ++rank) send.push_back(Mine(rank, count));
        ExpectAllOk(cluster.Run([&](int rank) {
          Operation operation =
              MakeOperation(Kind::kBroadcast, "b" + std::to_string(count), DType::kInt32, ReduceOp::kSum, root);
          operation.spans = {{send[rank].data(), recv[rank].data(), count}};
          return operation;
        }));
        for (int rank = 0; rank < size; ++rank) EXPECT_TRUE(recv[rank] == send[root]);
      }
    }
  }
}

KF_TEST(Kinds, TreesReduceEachAlone) {
  const std::vector<int> parents = {0, 3, 0, 3, 1, 5};  // 0 and 2; 1, 3 and 4; 5
  const std::vector<std::vector<int>> trees = {{0, 2}, {1, 3, 4}, {5}};
  Cluster cluster(6);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax}) {
    for (const size_t count : {0, 1, 300000}) {
      std::vector<std::vector<float>> values;
      for (int rank = 0; rank < 6; ++rank) values.emplace_back(count, static_cast<float>(6 * rank));
      ExpectAllOk(cluster.Run([&](int rank) {
        Operation operation = MakeOperation(Kind::kAllReduce, "t" + std::to_string(count), DType::kFloat32, op);
        operation.spans = {{values[rank].data(), values[rank].data(), count}};
        operation.parents = parents;
        return operation;
      }));
      for (const std::vector<int>& tree : trees) {
        const float sum = 6.0f * static_cast<float>(std::accumulate(tree.begin(), tree.end(), 0));
        const float expected = op == ReduceOp::kSum    ? sum
                               : op == ReduceOp::kMean ? sum / static_cast<float>(tree.size())
                                                       : 6.0f * static_cast<float>(tree.back());
        for (const int rank : tree) EXPECT_TRUE(values[rank] == std::vector<float>(count, expected));
      }
    }
  }
}

KF_TEST(Kinds, TreesThatAreNoneAreRefused) {
  Cluster cluster(2);
  for (const std::vector<int>& parents : std::vector<std::vector<int>>{{0}, {1, 0}, {0, 2}}) {
    for (const Status& status : cluster.Run([&](int) {
           Operation operation = MakeOperation(Kind::kAllReduce, "t");
           operation.parents = parents;
           return operation;
         })) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(status.message(), "all_reduce 't'");
    }
  }
}

KF_TEST(Kinds, ReduceToEveryRoot) {
  for (const int size : kSizes) {
    Cluster cluster(size);
    for (const int root : SpecialRanks(size)) {
      const uint64_t count = 100003;
      std::vector<Ints> send, recv(size, Ints(count, -1));
      Ints sum(count, 0);
      for (int rank = 0; rank < size; ++rank) {
        send.push_back(Mine(rank, count));
        for (uint64_t i = 0; i < count; ++i) sum[i] += send[rank][i];
      }
      const std::vector<Ints> before = send;
      ExpectAllOk(cluster.Run([&](int rank) {
        Operation operation = MakeOperation(Kind::kReduce, "r", DType::kInt32, ReduceOp::kSum, root);
        operation.spans = {{send[rank].data(), recv[rank].data(), count}};
        return operation;
      }));
      EXPECT_TRUE(recv[root] == sum);
      EXPECT_TRUE(send == before);
    }
  }
}

KF_TEST(Kinds, GatherAndAllGatherOfDifferentLengths) {
  for (const int size : kSizes) {
    Cluster cluster(size);
    for (const bool all : {false, true}) {
      for (const int empty : SpecialRanks(size)) {
        const int root = size - 1 - empty;
        std::vector<Ints> send, results(size);
        std::vector<std::vector<uint64_t>> counts(size);
        Ints expected;
        for (int rank = 0; rank < size; ++rank) {
          send.push_back(Mine(rank, rank == empty ? 0 : 1000 + 30000 * rank));
          expected.insert(expected.end(), send[rank].begin(), send[rank].end());
        }
        ExpectAllOk(cluster.Run([&](int rank) {
          Operation operation =
              MakeOperation(all ? Kind::kAllGather : Kind::kGather, "g", DType::kInt32, ReduceOp::kSum, root);
          operation.spans = {{send[rank].data(), nullptr, send[rank].size()}};
          operation.allocate = Into(&results[rank], &counts[rank]);
          return operation;
        }));
        for (int rank = 0; rank < size; ++rank) {
          if (all || rank == root) {
            EXPECT_TRUE(results[rank] == expected);
            for (int from = 0; from < size; ++from) EXPECT_EQ(counts[rank][from], send[from].size());
          } else {
            EXPECT_TRUE(results[rank].empty());
          }
        }
      }
    }
  }
}

// Its length and its block go from each peer to each other one, and nobody passes them on.
KF_TEST(Kinds, AnAllGatherOfFewHostsIsDirect) {
  constexpr int kHosts = 4;
  constexpr uint64_t kCount = 50000;
  ClusterOptions options;
  options.hosts = kHosts;
  options.transport = "auto";
  Cluster cluster(kHosts, options);
  const auto sent = [&](int from, int to) { return cluster.peer(from)->TrafficByRank()[to].total.payload_sent; };
  ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "together"); }));
  std::vector<Ints> send, results(kHosts);
  std::vector<std::vector<uint64_t>> before(kHosts);
  for (int rank = 0; rank < kHosts; ++rank) {
    send.push_back(Mine(rank, kCount));
    for (int to = 0; to < kHosts; ++to) before[rank].push_back(sent(rank, to));
  }
  ExpectAllOk(cluster.Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllGather, "g", DType::kInt32);
    operation.spans = {{send[rank].data(), nullptr, kCount}};
    operation.allocate = Into(&results[rank]);
    return operation;
  }));
  for (int from = 0; from < kHosts; ++from) {
    EXPECT_TRUE(results[from] == results[0]);
    for (int to = 0; to < kHosts; ++to) {
      const uint64_t expected = from == to ? 0 : sizeof(uint64_t) + kCount * sizeof(int32_t);
      EXPECT_EQ(sent(from, to) - before[from][to], expected);
    }
  }
}

KF_TEST(Kinds, ReduceScatterInUnevenRows) {
  for (const int size : kSizes) {
    Cluster cluster(size);
    for (const uint64_t rows : {0, 1, 5, 1001}) {
      const uint64_t row = 37, count = rows * row;
      std::vector<Ints> send, results(size);
      Ints sum(count, 0);
      for (int rank = 0; rank < size; ++rank) {
        send.push_back(Mine(rank, count));
        for (uint64_t i = 0; i < count; ++i) sum[i] += send[rank][i];
      }
      const std::vector<Ints> before = send;
      ExpectAllOk(cluster.Run([&](int rank) {
        Operation operation = MakeOperation(Kind::kReduceScatter, "rs", DType::kInt32);
        operation.spans = {{send[rank].data(), nullptr, count}};
        operation.row = row;
        operation.allocate = [&results, rank](const std::vector<uint64_t>& kept) -> void* {
          results[rank].assign(kept.at(0), -1);
          return results[rank].data();
        };
        return operation;
      }));
      for (int rank = 0; rank < size; ++rank) {
        const Range part = EvenPart(rows, size, rank);
        EXPECT_TRUE(results[rank] == Ints(sum.begin() + part.begin * row, sum.begin() + part.end * row));
      }
      EXPECT_TRUE(send == before);
    }
  }
}

KF_TEST(Kinds, AllToAllEvenAndWithSplits) {
  for (const int size : kSizes) {
    Cluster cluster(size);
    for (const bool splits : {false, true}) {
      std::vector<Ints> send, results(size);
      std::vector<std::vector<uint64_t>> counts(size);
      for (int from = 0; from < size; ++from) {
        for (int to = 0; to < size; ++to) counts[from].push_back(splits ? (from * 7 + to * 30011) % 50000 : 24);
        send.push_back(Mine(from, std::accumulate(counts[from].begin(), counts[from].end(), uint64_t{0})));
      }
      ExpectAllOk(cluster.Run([&](int rank) {
        Operation operation = MakeOperation(Kind::kAllToAll, "a", DType::kInt32);
        operation.spans = {{send[rank].data(), nullptr, send[rank].size()}};
        operation.row = splits ? 1 : 12;
        if (splits) operation.send_counts = counts[rank];
        operation.allocate = Into(&results[rank]);
        return operation;
      }));
      for (int to = 0; to < size; ++to) {
        Ints expected;
        for (int from = 0; from < size; ++from) {
          const auto begin = send[from].begin() + std::accumulate(counts[from].begin(), counts[from].begin() + to, 0);
          expected.insert(expected.end(), begin, begin + counts[from][to]);
        }
        EXPECT_TRUE(results[to] == expected);
      }
    }
  }
}

// Nobody leaves a barrier before everybody has come.
KF_TEST(Kinds, BarrierWaitsForTheLast) {
  for (const int size : {2, 3, 9}) {
    Cluster cluster(size);
    std::vector<std::future<Status>> futures;
    for (int rank = 0; rank + 1 < size; ++rank) {
      futures.push_back(cluster.Start(rank, MakeOperation(Kind::kBarrier, "barrier", DType::kUint8)));
    }
    // All others are through another operation and still in the barrier.
    ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "another", DType::kUint8); }));
    for (auto& future : futures) EXPECT_TRUE(future.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
    futures.push_back(cluster.Start(size - 1, MakeOperation(Kind::kBarrier, "barrier", DType::kUint8)));
    for (auto& future : futures) EXPECT_OK(Wait(&future));
  }
}

KF_TEST(Kinds, ConsensusSeesValuesAndLengths) {
  for (const int size : kSizes) {
    Cluster cluster(size);
    const auto agree = [&](const std::vector<Ints>& values) {
      std::vector<int> equal(size, -1);
      ExpectAllOk(cluster.Run([&](int rank) {
        Operation operation = MakeOperation(Kind::kConsensus, "c", DType::kInt32);
        operation.spans = {{values[rank].data(), nullptr, values[rank].size()}};
        operation.equal = &equal[rank];
        return operation;
      }));
      for (int rank = 0; rank < size; ++rank) EXPECT_EQ(equal[rank], equal[0]);
      return equal[0] == 1;
    };
    std::vector<Ints> values(size, Ints(1000, 5));
    EXPECT_TRUE(agree(values));
    if (size == 1) continue;
    values.back()[999] = 6;
    EXPECT_FALSE(agree(values));
    values.back().resize(999);
    EXPECT_FALSE(agree(values));
  }
}

// A group travels as it lies: several tensors, empty ones among them, in one operation.
KF_TEST(Kinds, GroupsOfTensors) {
  for (const char* strategy : {"RING", "CLIQUE", "BINARY_TREE"}) {
    ClusterOptions options;
    options.strategy = strategy;
    Cluster cluster(3, options);
    const std::vector<uint64_t> counts = {3, 0, 70001, 1, 0, 250000, 13};
    std::vector<std::vector<Ints>> tensors(3);
    for (int rank = 0; rank < 3; ++rank) {
      for (const uint64_t count : counts) tensors[rank].push_back(Mine(rank, count));
    }
    ExpectAllOk(cluster.Run([&](int rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, "group", DType::kInt32);
      for (Ints& tensor : tensors[rank]) operation.spans.push_back({tensor.data(), tensor.data(), tensor.size()});
      return operation;
    }));
    for (int rank = 0; rank < 3; ++rank) {
      for (size_t i = 0; i < counts.size(); ++i) {
        Ints expected(counts[i]);
        for (uint64_t k = 0; k < counts[i]; ++k) expected[k] = 600000 + 3 * static_cast<int32_t>(k);
        EXPECT_TRUE(tensors[rank][i] == expected);
      }
    }
  }
}

}  // namespace
}  // namespace kungfu::testing
