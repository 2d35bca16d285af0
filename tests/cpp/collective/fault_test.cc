// What goes wrong is said on every peer, in bounded time, and what is not concerned goes on.

#include <chrono>
#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

using Floats = std::vector<float>;

constexpr int kSize = 3;

// With the graph executor, with the exchange of small tensors, and with the direct mover.
std::vector<ClusterOptions> Movers() {
  ClusterOptions exchange, direct;
  exchange.arena_bytes = direct.arena_bytes = 64 << 20;
  exchange.direct_bytes = 1 << 20;
  exchange.own_cores = true;
  return {ClusterOptions(), exchange, direct};
}

void ExpectAll(const std::vector<Status>& statuses, Code code, const std::string& part) {
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), code);
    EXPECT_CONTAINS(status.message(), part);
  }
}

void ExpectStillWorks(Cluster* cluster) {
  std::vector<Floats> tensors(cluster->size(), Floats(10, 1.0f));
  ExpectAllOk(cluster->Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "still works");
    operation.spans = {{tensors[rank].data(), tensors[rank].data(), 10}};
    return operation;
  }));
  for (const Floats& tensor : tensors) EXPECT_TRUE(tensor == Floats(10, static_cast<float>(cluster->size())));
}

// Rank 1 of three has something else in mind.
std::vector<Status> Disagree(Cluster* cluster, const Operation& most, const Operation& odd) {
  std::vector<std::vector<char>> memory(cluster->size(), std::vector<char>(1 << 20));
  return cluster->Run([&](int rank) {
    Operation operation = rank == 1 ? odd : most;
    for (Span& span : operation.spans) span.send = span.recv = memory[rank].data();
    operation.allocate = [&memory, rank](const std::vector<uint64_t>&) { return memory[rank].data(); };
    return operation;
  });
}

Operation Reduction(uint64_t count, DType dtype = DType::kFloat32, ReduceOp op = ReduceOp::kSum,
                    Kind kind = Kind::kAllReduce, int root = 0) {
  Operation operation = MakeOperation(kind, "x", dtype, op, root);
  operation.spans = {{nullptr, nullptr, count}};
  return operation;
}

KF_TEST(Faults, DifferentCalls) {
  for (const char* strategy : {"STAR", "RING", "CLIQUE", "BINARY_TREE", "AUTO"}) {
    ClusterOptions options;
    options.strategy = strategy;
    if (options.strategy == "AUTO") options = Movers().back();
    Cluster cluster(kSize, options);
    const Operation usual = Reduction(10);
    ExpectAll(Disagree(&cluster, usual, Reduction(11)), Code::kInvalidArgument, "all_reduce 'x'");
    ExpectAll(Disagree(&cluster, usual, Reduction(10, DType::kFloat64)), Code::kInvalidArgument, "float64");
    ExpectAll(Disagree(&cluster, usual, Reduction(10, DType::kInt32)), Code::kInvalidArgument, "int32");
    ExpectAll(Disagree(&cluster, usual, Reduction(10, DType::kFloat32, ReduceOp::kMean)), Code::kInvalidArgument,
              "mean");
    ExpectAll(Disagree(&cluster, Reduction(100000), Reduction(100001)), Code::kInvalidArgument, "100001");
    ExpectAll(Disagree(&cluster, usual, Reduction(0)), Code::kInvalidArgument, "all_reduce 'x'");
    Operation shaped = usual;
    shaped.shape_digest = 77;
    ExpectAll(Disagree(&cluster, usual, shaped), Code::kInvalidArgument, "shape");
    Operation later = usual;
    later.step = 8;
    ExpectAll(Disagree(&cluster, usual, later), Code::kInvalidArgument, "step");
    ExpectAll(Disagree(&cluster, usual, Reduction(10, DType::kFloat32, ReduceOp::kSum, Kind::kBroadcast)),
              Code::kInvalidArgument, "'x'");
    ExpectStillWorks(&cluster);
  }
}

KF_TEST(Faults, DifferentRoots) {
  for (const Kind kind : {Kind::kBroadcast, Kind::kReduce, Kind::kGather}) {
    Cluster cluster(kSize);
    for (const uint64_t count : {1, 100000}) {
      ExpectAll(Disagree(&cluster, Reduction(count, DType::kFloat32, ReduceOp::kSum, kind, 0),
                         Reduction(count, DType::kFloat32, ReduceOp::kSum, kind, 1)),
                Code::kInvalidArgument, "root");
    }
    ExpectStillWorks(&cluster);
  }
}

void ImpossibleCalls(const ClusterOptions& options) {
  Cluster cluster(kSize, options);
  ExpectAll(Disagree(&cluster, Reduction(10), Reduction(10, DType::kBool)), Code::kInvalidArgument, "bool");
  ExpectAll(Disagree(&cluster, Reduction(10, DType::kFloat32, ReduceOp::kSum, Kind::kBroadcast, 3),
                     Reduction(10, DType::kFloat32, ReduceOp::kSum, Kind::kBroadcast, 3)),
            Code::kInvalidArgument, "root 3");
  Operation unnamed = Reduction(10);
  unnamed.name = "";
  ExpectAll(Disagree(&cluster, unnamed, unnamed), Code::kInvalidArgument,
            "a name has 1 to " + std::to_string(kMaxNameSize) + " bytes");
  ExpectStillWorks(&cluster);
}

KF_TEST(Faults, ImpossibleCalls) {
  for (const ClusterOptions& options : Movers()) ImpossibleCalls(options);
}

void OneRankNeverComes(const ClusterOptions& options) {
  Cluster cluster(kSize, options);
  ExpectStillWorks(&cluster);
  Floats a(10), b(10);
  Operation short_one = Reduction(10);
  short_one.timeout = 0.2;
  // Rank 2 waits elsewhere, by the time that it is asked.
  std::future<Status> elsewhere = cluster.Start(2, MakeOperation(Kind::kBarrier, "elsewhere", DType::kUint8));
  short_one.spans = {{a.data(), a.data(), 10}};
  std::future<Status> first = cluster.Start(0, short_one);
  short_one.spans = {{b.data(), b.data(), 10}};
  std::future<Status> second = cluster.Start(1, short_one);
  for (std::future<Status>* future : {&first, &second}) {
    const Status status = Wait(future);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
    EXPECT_CONTAINS(status.message(), "all_reduce 'x' at rank ");
    EXPECT_CONTAINS(status.message(), "rank 2 (127.0.0.1:");
    EXPECT_CONTAINS(status.message(), "has not called it and waits in barrier 'elsewhere'");
  }
  // Who comes too late hears of it at once, and the counters are in step again.
  Floats c(10);
  Operation late = Reduction(10);
  late.spans = {{c.data(), c.data(), 10}};
  std::future<Status> third = cluster.Start(2, late);
  EXPECT_EQ(Wait(&third).code(), Code::kDeadlineExceeded);
  std::vector<Floats> again(kSize, Floats(10, 1.0f));
  ExpectAllOk(cluster.Run([&](int rank) {
    Operation operation = Reduction(10);
    operation.spans = {{again[rank].data(), again[rank].data(), 10}};
    return operation;
  }));
  EXPECT_TRUE(again[2] == Floats(10, 3.0f));
  std::vector<std::future<Status>> others;
  for (int rank = 0; rank < 2; ++rank) {
    others.push_back(cluster.Start(rank, MakeOperation(Kind::kBarrier, "elsewhere", DType::kUint8)));
  }
  for (auto& other : others) EXPECT_OK(Wait(&other));
  EXPECT_OK(Wait(&elsewhere));
}

KF_TEST(Faults, OneRankNeverComes) {
  for (const ClusterOptions& options : Movers()) OneRankNeverComes(options);
}

// `cause`: what the call to Cancel says; all peers, and one that comes late, get `code` and a message with `text`.
void ExpectCancelled(const ClusterOptions& options, const Status& cause, Code code, const std::string& text) {
  Cluster cluster(kSize, options);
  ExpectStillWorks(&cluster);
  std::vector<Floats> tensors(2, Floats(1 << 20));
  uint64_t handle;
  Operation mine = Reduction(1 << 20);
  mine.spans = {{tensors[0].data(), tensors[0].data(), 1 << 20}};
  std::future<Status> first = cluster.Start(0, mine, &handle);
  Operation other = Reduction(1 << 20);
  other.spans = {{tensors[1].data(), tensors[1].data(), 1 << 20}};
  std::future<Status> second = cluster.Start(1, other);
  cluster.session(0)->Cancel(handle, cause);
  for (std::future<Status>* future : {&first, &second}) {
    const Status status = Wait(future);
    EXPECT_EQ(status.code(), code);
    EXPECT_CONTAINS(status.message(), "all_reduce 'x' was cancelled at rank 0");
    EXPECT_CONTAINS(status.message(), text);
  }
  Operation late = Reduction(1 << 20);
  late.spans = {{tensors[0].data(), tensors[0].data(), 1 << 20}};
  std::future<Status> third = cluster.Start(2, late);
  EXPECT_EQ(Wait(&third).code(), code);
  ExpectStillWorks(&cluster);
}

KF_TEST(Faults, Cancelled) {
  for (const ClusterOptions& options : Movers()) ExpectCancelled(options, OkStatus(), Code::kCancelled, "rank 0");
}

KF_TEST(Faults, CancelledWithACause) {
  for (const ClusterOptions& options : Movers()) {
    ExpectCancelled(options, InvalidArgumentError("another one failed"), Code::kInvalidArgument,
                    "because another one failed");
  }
}

void APeerLeaves(const ClusterOptions& options) {
  Cluster cluster(kSize, options);
  ExpectStillWorks(&cluster);
  std::vector<Floats> tensors(2, Floats(10));
  std::vector<std::future<Status>> futures;
  for (int rank = 0; rank < 2; ++rank) {
    Operation operation = Reduction(10);
    operation.spans = {{tensors[rank].data(), tensors[rank].data(), 10}};
    futures.push_back(cluster.Start(rank, std::move(operation)));
  }
  cluster.Stop(2);
  for (auto& future : futures) {
    const Status status = Wait(&future);
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_CONTAINS(status.message(), "all_reduce 'x'");
    EXPECT_CONTAINS(status.message(), "rank 2 (127.0.0.1:");
  }
  // What begins now fails at once.
  Operation later = Reduction(10);
  later.spans = {{tensors[0].data(), tensors[0].data(), 10}};
  std::future<Status> future = cluster.Start(0, later);
  EXPECT_EQ(Wait(&future).code(), Code::kUnavailable);
}

KF_TEST(Faults, APeerLeaves) {
  for (const ClusterOptions& options : Movers()) APeerLeaves(options);
}

// The sum over one of the trees {0, 1} and {2, 3}.
Operation PairSum(Floats* tensor) {
  Operation operation = Reduction(tensor->size());
  operation.spans = {{tensor->data(), tensor->data(), tensor->size()}};
  operation.parents = {0, 0, 2, 2};
  return operation;
}

KF_TEST(Faults, WhoHasLeftIsNotMissedByOthers) {
  Cluster cluster(4);
  for (const size_t count : {size_t{10}, size_t{100000}}) {
    std::vector<Floats> before(4, Floats(count, 1.0f));
    if (count == 10) ExpectAllOk(cluster.Run([&](int rank) { return PairSum(&before[rank]); }));
    cluster.Stop(count == 10 ? 0 : 1);
    std::vector<Floats> tensors(4, Floats(count, 1.0f));
    std::vector<std::future<Status>> pair;
    for (const int rank : {2, 3}) pair.push_back(cluster.Start(rank, PairSum(&tensors[rank])));
    for (std::future<Status>& future : pair) EXPECT_OK(Wait(&future));
    for (const int rank : {2, 3}) EXPECT_TRUE(tensors[rank] == Floats(count, 2.0f));
  }
  // An operation of all misses them, and says so at once.
  Floats tensor(10);
  Operation of_all = Reduction(10);
  of_all.spans = {{tensor.data(), tensor.data(), 10}};
  std::future<Status> future = cluster.Start(2, of_all);
  const Status status = Wait(&future);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_CONTAINS(status.message(), "rank 0 (127.0.0.1:");
}

// The failure of a tree, which misses a peer, is none of the other tree.
KF_TEST(Faults, ATreeFailsAlone) {
  Cluster cluster(4);
  std::vector<Floats> tensors(4, Floats(10, 1.0f));
  ExpectAllOk(cluster.Run([&](int rank) { return PairSum(&tensors[rank]); }));
  cluster.Stop(0);
  std::future<Status> lonely = cluster.Start(1, PairSum(&tensors[1]));
  const Status status = Wait(&lonely);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_CONTAINS(status.message(), "rank 0 (127.0.0.1:");
  std::vector<std::future<Status>> pair;
  for (const int rank : {2, 3}) pair.push_back(cluster.Start(rank, PairSum(&tensors[rank])));
  for (std::future<Status>& future : pair) EXPECT_OK(Wait(&future));
  EXPECT_TRUE(tensors[3] == Floats(10, 4.0f));
}

// Ranks 0 and 1 differ: one counts the other to its tree, which does not count it to its own. The others may have ended
// before they hear of it.
KF_TEST(Faults, DifferentTrees) {
  Cluster cluster(4);
  for (const size_t count : {size_t{10}, size_t{100000}}) {
    std::vector<Floats> tensors(4, Floats(count, 1.0f));
    const std::vector<Status> statuses = cluster.Run([&](int rank) {
      Operation operation = PairSum(&tensors[rank]);
      if (rank == 0) operation.parents = {0, 1, 0, 1};
      operation.shape_digest = rank == 0 ? 5 : 6;  // the callers' digest has the trees
      operation.timeout = 30;
      return operation;
    });
    ExpectAll({statuses[0], statuses[1]}, Code::kInvalidArgument, "all_reduce 'x' differs between rank");
  }
  ExpectStillWorks(&cluster);
}

void ShutdownEndsWhatIsPending(const ClusterOptions& options) {
  Cluster cluster(2, options);
  ExpectStillWorks(&cluster);
  Floats tensor(10);
  Operation operation = Reduction(10);
  operation.spans = {{tensor.data(), tensor.data(), 10}};
  std::future<Status> pending = cluster.Start(0, operation);
  cluster.Stop(0);
  EXPECT_EQ(Wait(&pending).code(), Code::kCancelled);
  std::future<Status> after = cluster.Start(0, operation);
  EXPECT_EQ(Wait(&after).code(), Code::kCancelled);
}

KF_TEST(Faults, ShutdownEndsWhatIsPending) {
  for (const ClusterOptions& options : Movers()) ShutdownEndsWhatIsPending(options);
}

}  // namespace
}  // namespace kungfu::testing
