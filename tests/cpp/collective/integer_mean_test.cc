// Means of integers: the exact sum, in 64 bits, divided by the number of peers, and cut off toward zero, whichever way
// the data take. 64-bit sums wrap.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ops/plan/strategy.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr uint64_t kElements = 20001;  // of which the small chunks below make several

// Three values of each type, by turns: what rank `rank` has.
template <typename T>
T ValueOf(uint64_t i, int rank) {
  using Limits = std::numeric_limits<T>;
  if (i % 3 == 0) return static_cast<T>(Limits::max() - rank);
  if (i % 3 == 1) return static_cast<T>(Limits::min() + rank);
  return static_cast<T>(rank * rank - 3);  // negative, and around zero
}

// By definition: in 128 bits, of which sums of 64-bit integers keep 64.
template <typename T>
T MeanOf(uint64_t i, int size) {
  __extension__ using Wide = __int128;
  Wide sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += static_cast<Wide>(ValueOf<T>(i, rank));
  if (sizeof(T) == 8) sum = static_cast<Wide>(static_cast<T>(sum));
  return static_cast<T>(sum / size);
}

template <typename T>
void CheckMean(Cluster* cluster, DType dtype, const std::string& what) {
  const int size = cluster->size();
  std::vector<std::vector<T>> values(size);
  std::vector<T> expected;
  for (uint64_t i = 0; i < kElements; ++i) {
    for (int rank = 0; rank < size; ++rank) values[rank].push_back(ValueOf<T>(i, rank));
    expected.push_back(MeanOf<T>(i, size));
  }
  ExpectAllOk(cluster->Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, std::string("mean/") + Name(dtype), dtype, ReduceOp::kMean);
    operation.spans = {{values[rank].data(), values[rank].data(), kElements}};
    return operation;
  }));
  for (const auto& result : values) {
    if (result != expected) Fail(__FILE__, __LINE__, what + ": " + Name(dtype) + " of " + std::to_string(size));
  }
}

void CheckMeans(int size, const ClusterOptions& options, const std::string& what) {
  Cluster cluster(size, options);
  CheckMean<int8_t>(&cluster, DType::kInt8, what);
  CheckMean<int16_t>(&cluster, DType::kInt16, what);
  CheckMean<int32_t>(&cluster, DType::kInt32, what);
  CheckMean<int64_t>(&cluster, DType::kInt64, what);
  CheckMean<uint8_t>(&cluster, DType::kUint8, what);
  CheckMean<uint16_t>(&cluster, DType::kUint16, what);
  CheckMean<uint32_t>(&cluster, DType::kUint32, what);
  CheckMean<uint64_t>(&cluster, DType::kUint64, what);
}

KF_TEST(IntegerMeans, EveryStrategy) {
  for (int i = 0; i < kNumStrategies; ++i) {
    ClusterOptions options;
    options.strategy = Name(static_cast<StrategyName>(i));
    options.hosts = 2;
    options.transport = "auto";
    options.chunk_bytes = 16 << 10;
    CheckMeans(4, options, options.strategy);
  }
}

KF_TEST(IntegerMeans, Direct) {
  for (const int size : {1, 2, 3, 5}) {
    ClusterOptions options;
    options.arena_bytes = 1 << 26;
    CheckMeans(size, options, "direct");
  }
}

}  // namespace
}  // namespace kungfu::testing
