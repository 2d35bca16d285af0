// Peers of several hosts that use each other's memory within a host.

#include <cstring>
#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/placed.h"
#include "tests/cpp/collective/values.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

Place Shared(int) { return Place::kShared; }
Place Uneven(int) { return Place::kUneven; }

ClusterOptions OnHosts(int hosts) {
  ClusterOptions options;
  options.strategy = "HIERARCHY";
  options.transport = "auto";
  options.hosts = hosts;
  options.arena_bytes = 1 << 30;
  options.chunk_bytes = 64 << 10;  // several chunks for the larger tensors
  return options;
}

bool HasNeighbours(const Cluster& cluster, int rank) { return cluster.session(rank)->peers().LocalSize(rank) > 1; }

void ExpectDirect(const Cluster& cluster, uint64_t count) {
  for (int rank = 0; rank < cluster.size(); ++rank) {
    EXPECT_EQ(cluster.peer(rank)->counters().direct(), HasNeighbours(cluster, rank) ? count : 0);
  }
}

struct Layout {
  int size, hosts;
};

// With as many peers on each host, with one less on some, and with hosts of one.
KF_TEST(DirectHierarchy, SharedMemory) {
  using Layouts = std::vector<Layout>;
  for (const Layout& layout : Brief<Layouts>({{4, 2}, {5, 2}, {3, 2}, {5, 3}, {6, 3}, {8, 2}}, {{4, 2}, {5, 3}})) {
    Cluster cluster(layout.size, OnHosts(layout.hosts));
    ExpectDirect(cluster, 0);
    ExpectDirect(cluster, RunPlacedGrid(&cluster, Shared));
  }
}

KF_TEST(DirectHierarchy, AnywhereInAPage) {
  Cluster cluster(5, OnHosts(2));
  ExpectDirect(cluster, RunPlacedGrid(&cluster, Uneven));
}

constexpr uint64_t kLarge = 300007;

// More than is copied into the arena, of the smallest type.
constexpr uint64_t kBeyondCopies = 3000017;

// What comes out of a mean over `size` peers, tensors of the ranks below `shared` in shared memory.
std::vector<char> Mean(DType dtype, int size, int hosts, int shared) {
  Cluster cluster(size, OnHosts(hosts));
  std::vector<Buffer> tensors;
  for (int rank = 0; rank < size; ++rank) {
    const Place place = rank < shared ? Place::kShared : Place::kOrdinary;
    tensors.emplace_back(cluster.arena(rank), place, MakeFractions(dtype, kBeyondCopies, rank));
  }
  ExpectAllOk(cluster.Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "mean", dtype, ReduceOp::kMean);
    operation.spans = {{tensors[rank].data(), tensors[rank].data(), kBeyondCopies}};
    return operation;
  }));
  for (const Buffer& tensor : tensors) EXPECT_TRUE(tensor.bytes() == tensors[0].bytes());
  EXPECT_EQ(cluster.peer(0)->counters().direct(), shared > 0 ? 1u : 0u);
  EXPECT_EQ(cluster.peer(size - 1)->counters().direct(), shared == size ? 1u : 0u);
  return tensors[0].bytes();
}

// As host_mover.h and hierarchy_mover.h say what it costs: words within a host, and each peer's share between hosts.
KF_TEST(DirectHierarchy, EachSendsItsShareBetweenHosts) {
  constexpr uint64_t kHosts = 2, kLocal = 4, kSize = kHosts * kLocal, kBytes = kSize << 20;
  Cluster cluster(kSize, OnHosts(kHosts));
  for (const Sent& sent : SentForBytes(&cluster, kBytes, Place::kShared)) {
    EXPECT_EQ(sent.bytes, 48 * (kLocal - 1) + 2 * kBytes * (kHosts - 1) / kSize);
  }
}

// Each host decides for itself, and the bits are the same.
KF_TEST(DirectHierarchy, IsTheGraphsToTheBit) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Layout& layout : {Layout{6, 2}, {7, 3}}) {
      const std::vector<char> by_graphs = Mean(dtype, layout.size, layout.hosts, 0);
      EXPECT_TRUE(Mean(dtype, layout.size, layout.hosts, layout.size) == by_graphs);
      EXPECT_TRUE(Mean(dtype, layout.size, layout.hosts, 3) == by_graphs);
    }
  }
}

// Four peers on two hosts, of which rank 3 does not come: its host's other peer, rank 2, waits for its memory, the
// first host for what the second has reduced.
struct Incomplete {
  Incomplete() : cluster(4, OnHosts(2)) {
    const std::vector<char> bytes(kLarge * sizeof(float), 'x');
    for (int rank = 0; rank < 4; ++rank) tensors.emplace_back(cluster.arena(rank), Place::kShared, bytes);
    ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "together"); }));
  }
  Operation Sum(int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "x");
    operation.spans = {{tensors[rank].data(), tensors[rank].data(), kLarge}};
    return operation;
  }
  // `timeout` is that of rank 2.
  void Begin(double timeout = 0) {
    for (int rank = 0; rank < 3; ++rank) {
      Operation operation = Sum(rank);
      if (rank == 2) operation.timeout = timeout;
      futures.push_back(cluster.Start(rank, std::move(operation), &handle));
    }
  }
  void BeginLate() { futures.push_back(cluster.Start(3, Sum(3))); }
  void ExpectAll(Code code, const std::string& part) {
    for (std::future<Status>& future : futures) {
      const Status status = Wait(&future);
      EXPECT_EQ(status.code(), code);
      EXPECT_CONTAINS(status.message(), "all_reduce 'x'");
      EXPECT_CONTAINS(status.message(), part);
    }
  }
  void ExpectStillWorks() {
    const std::vector<char> ones = MakeValues(DType::kFloat32, ReduceOp::kSum, kLarge, 1);
    for (Buffer& tensor : tensors) std::memcpy(tensor.data(), ones.data(), ones.size());
    ExpectAllOk(cluster.Run([&](int rank) { return Sum(rank); }));
    const std::vector<char> sum = ExpectedValues(DType::kFloat32, ReduceOp::kSum, {ones, ones, ones, ones});
    for (const Buffer& tensor : tensors) EXPECT_TRUE(tensor.bytes() == sum);
  }

  Cluster cluster;
  std::vector<Buffer> tensors;
  std::vector<std::future<Status>> futures;
  uint64_t handle = 0;  // rank 2's
};

// Rank 2 gives up: it awaits nobody but rank 3, so it names that one whether the others have answered in time or not.
KF_TEST(DirectHierarchy, OneRankNeverComes) {
  Incomplete job;
  job.Begin(/*timeout=*/0.3);
  job.ExpectAll(Code::kDeadlineExceeded, "rank 3 (127.0.0.2:");
  job.futures.clear();
  job.BeginLate();
  job.ExpectAll(Code::kDeadlineExceeded, "rank 3 (127.0.0.2:");
  job.ExpectStillWorks();
}

KF_TEST(DirectHierarchy, IsCancelledEverywhere) {
  Incomplete job;
  job.Begin();
  job.cluster.session(2)->Cancel(job.handle);
  job.BeginLate();
  job.ExpectAll(Code::kCancelled, "was cancelled at rank 2 (127.0.0.2:");
  job.ExpectStillWorks();
}

KF_TEST(DirectHierarchy, APeerThatLeavesIsNamed) {
  Incomplete job;
  job.Begin();
  job.cluster.Stop(3);
  job.ExpectAll(Code::kUnavailable, "rank 3 (127.0.0.2:");
}

}  // namespace
}  // namespace kungfu::testing
