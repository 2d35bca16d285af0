// Many peers, and one tensor that is larger than a signed 32-bit length. Not run under sanitizers: they would need
// several times the memory and minutes.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

KF_TEST(Scale, SixtyFourPeersOnLoopback) {
  constexpr int kPeers = 64;
  constexpr uint64_t kCount = (64 << 10) / sizeof(float);
  for (const char* strategy : {"BINARY_TREE_STAR", "RING", "CLIQUE"}) {
    const auto start = std::chrono::steady_clock::now();
    ClusterOptions options;
    options.transport = "tcp";
    options.strategy = strategy;
    Cluster cluster(kPeers, options);
    ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "barrier", DType::kUint8); }));
    std::vector<std::vector<float>> tensors;
    for (int rank = 0; rank < kPeers; ++rank) tensors.emplace_back(kCount, static_cast<float>(rank));
    ExpectAllOk(cluster.Run([&](int rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, "x");
      operation.spans = {{tensors[rank].data(), tensors[rank].data(), kCount}};
      return operation;
    }));
    for (const auto& tensor : tensors) EXPECT_TRUE(tensor == std::vector<float>(kCount, kPeers * (kPeers - 1) / 2));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("64 peers, %s: connected, barrier, all-reduce of 64 KiB: %.2f s\n", strategy, seconds.count());
  }
}

KF_TEST(Scale, MoreThanTwoGibibytes) {
  constexpr uint64_t kCount = (uint64_t{1} << 31) + 7;
  ClusterOptions options;
  options.strategy = "RING";
  Cluster cluster(2, options);
  std::vector<std::vector<uint8_t>> tensors(2, std::vector<uint8_t>(kCount));
  for (uint64_t i = 0; i < kCount; ++i) {
    tensors[0][i] = static_cast<uint8_t>(i);
    tensors[1][i] = static_cast<uint8_t>(i >> 8);
  }
  ExpectAllOk(cluster.Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "large", DType::kUint8);
    operation.spans = {{tensors[rank].data(), tensors[rank].data(), kCount}};
    return operation;
  }));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const uint8_t expected = static_cast<uint8_t>(i + (i >> 8));
    wrong += (tensors[0][i] != expected) + (tensors[1][i] != expected);
  }
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace kungfu::testing
