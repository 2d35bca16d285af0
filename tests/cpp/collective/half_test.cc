// Sums, means and products of the 16-bit floating types are combined in float32 and rounded once, whichever way the
// data take.

#include <algorithm>
#include <string>
#include <vector>

#include "ops/base/float16.h"
#include "ops/plan/strategy.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr uint64_t kCount = 40001;  // of which the small chunks below make several

struct HalfCase {
  DType dtype;
  ReduceOp op;
  float of_rank_0, of_others;
  float expected;  // of four peers
};

// Where each sum of two would be rounded, another value or infinity comes out.
const HalfCase kCases[] = {
    {DType::kFloat16, ReduceOp::kSum, 2048, 1, 2052},        {DType::kBFloat16, ReduceOp::kSum, 256, 1, 260},
    {DType::kFloat16, ReduceOp::kMean, 40000, 40000, 40000}, {DType::kBFloat16, ReduceOp::kMean, 256, 1, 65},
    {DType::kFloat16, ReduceOp::kProd, 1 / 1024.f, 64, 256},
};

uint16_t Bits(float value, DType dtype) {
  return dtype == DType::kFloat16 ? Narrow<Float16>(value).bits : Narrow<BFloat16>(value).bits;
}

std::vector<uint16_t> Values(const HalfCase& one, float value) {
  return std::vector<uint16_t>(kCount, Bits(value, one.dtype));
}

Operation Reduction(Kind kind, const HalfCase& one) {
  return MakeOperation(kind, std::string(Name(one.op)) + "/" + Name(one.dtype), one.dtype, one.op);
}

void ExpectAllReduced(const ClusterOptions& options, const std::string& what) {
  Cluster cluster(4, options);
  for (const HalfCase& one : kCases) {
    std::vector<std::vector<uint16_t>> values;
    for (int rank = 0; rank < 4; ++rank) values.push_back(Values(one, rank == 0 ? one.of_rank_0 : one.of_others));
    ExpectAllOk(cluster.Run([&](int rank) {
      Operation operation = Reduction(Kind::kAllReduce, one);
      operation.spans = {{values[rank].data(), values[rank].data(), kCount}};
      return operation;
    }));
    for (const auto& result : values) {
      if (result != Values(one, one.expected)) {
        Fail(__FILE__, __LINE__, what + ": " + Name(one.op) + " of " + Name(one.dtype));
      }
    }
  }
}

KF_TEST(Half, EveryStrategy) {
  for (int i = 0; i < kNumStrategies; ++i) {
    ClusterOptions options;
    options.strategy = Name(static_cast<StrategyName>(i));
    options.hosts = 2;
    options.transport = "auto";
    options.chunk_bytes = 16 << 10;
    ExpectAllReduced(options, options.strategy);
  }
}

KF_TEST(Half, Direct) {
  ClusterOptions options;
  options.arena_bytes = 1 << 26;
  ExpectAllReduced(options, "direct");
}

uint64_t PayloadSent(const Cluster& cluster) {
  uint64_t bytes = 0;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    for (const Peer::PeerTraffic& to : cluster.peer(rank)->TrafficByRank()) bytes += to.total.payload_sent;
  }
  return bytes;
}

// Along stars between hosts no sum of several peers travels, so it is 2(p-1)n bytes in all.
KF_TEST(Half, StarsTakeHalfTheBytesOfFloat32) {
  constexpr uint64_t kElements = 1 << 19;
  for (const char* strategy : {"CLIQUE", "HIERARCHY", "MULTI_STAR"}) {
    for (const int hosts : {2, 3, 4, 8}) {
      ClusterOptions options;
      options.strategy = strategy;
      options.hosts = hosts;
      options.transport = "auto";
      Cluster cluster(hosts, options);
      for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
        ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "together"); }));
        std::vector<std::vector<uint16_t>> values(hosts, std::vector<uint16_t>(kElements));
        const uint64_t before = PayloadSent(cluster);
        ExpectAllOk(cluster.Run([&](int rank) {
          Operation operation = MakeOperation(Kind::kAllReduce, Name(dtype), dtype, ReduceOp::kMean);
          operation.spans = {{values[rank].data(), values[rank].data(), kElements}};
          return operation;
        }));
        EXPECT_EQ(PayloadSent(cluster) - before, 2 * (hosts - 1) * kElements * SizeOf(dtype));
      }
    }
  }
}

KF_TEST(Half, ReduceAndReduceScatter) {
  Cluster cluster(4);
  for (const HalfCase& one : kCases) {
    std::vector<std::vector<uint16_t>> results(4), parts(4), sends;
    for (int rank = 0; rank < 4; ++rank) sends.push_back(Values(one, rank == 0 ? one.of_rank_0 : one.of_others));
    ExpectAllOk(cluster.Run([&](int rank) {
      Operation operation = Reduction(Kind::kReduce, one);
      operation.root = 2;
      results[rank].resize(kCount);
      operation.spans = {{sends[rank].data(), results[rank].data(), kCount}};
      return operation;
    }));
    EXPECT_TRUE(results[2] == Values(one, one.expected));
    ExpectAllOk(cluster.Run([&](int rank) {
      Operation operation = Reduction(Kind::kReduceScatter, one);
      operation.spans = {{sends[rank].data(), nullptr, kCount}};
      operation.allocate = [&parts, rank](const std::vector<uint64_t>& counts) -> void* {
        parts[rank].resize(counts.at(0));
        return parts[rank].data();
      };
      return operation;
    }));
    const auto is_expected = [&one](uint16_t bits) { return bits == Bits(one.expected, one.dtype); };
    for (const auto& part : parts) EXPECT_TRUE(std::all_of(part.begin(), part.end(), is_expected));
  }
}

}  // namespace
}  // namespace kungfu::testing
