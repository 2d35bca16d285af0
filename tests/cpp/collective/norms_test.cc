// Norms that an all-reduce measures on its way, against sums made by hand: all peers are told the same bits.

#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/placed.h"
#include "tests/cpp/collective/values.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr DType kMeasured[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};
constexpr uint64_t kNormCounts[] = {0, 1, 7, 10007, 100003};  // the last of several chunks

ClusterOptions Small(const char* strategy, int hosts = 1, size_t arena_bytes = 0) {
  ClusterOptions options;
  options.strategy = strategy;
  options.transport = "auto";
  options.hosts = hosts;
  options.chunk_bytes = 64 << 10;
  options.arena_bytes = arena_bytes;
  return options;
}

// Of small whole numbers and their quotients: a sum of squares in long double has no error worth a name.
long double SquaresOf(DType dtype, const std::vector<char>& values) {
  long double sum = 0;
  for (const double value : NumbersOf(dtype, values)) sum += static_cast<long double>(value) * value;
  return sum;
}

bool IsNear(double value, long double expected) {
  return std::fabs(static_cast<long double>(value) - expected) <= 1e-12L * expected;
}

bool SameBits(const Norms& a, const Norms& b) { return std::memcmp(&a, &b, sizeof(Norms)) == 0; }

// One all-reduce on all ranks: its buffers, what must come out, and what each rank is told.
struct NormsCase {
  NormsCase(const Cluster& cluster, Place place, DType dtype, ReduceOp op, uint64_t count, bool in_place)
      : dtype(dtype), op(op), count(count), in_place(in_place), told(cluster.size()) {
    std::vector<std::vector<char>> values;
    for (int rank = 0; rank < cluster.size(); ++rank) {
      values.push_back(MakeValues(dtype, op, count, rank));
      sent += SquaresOf(dtype, values.back()) / cluster.size();
      sends.emplace_back(cluster.arena(rank), place, values.back());
      recvs.emplace_back(cluster.arena(rank), place, std::vector<char>(in_place ? 0 : values.back().size(), '\x55'));
    }
    result = ExpectedValues(dtype, op, values);
    received = SquaresOf(dtype, result);
  }

  std::string name() const {
    return std::string(Name(op)) + "/" + Name(dtype) + "/" + std::to_string(count) + (in_place ? "/in" : "/out");
  }
  const Buffer& recv(int rank) const { return (in_place ? sends : recvs)[rank]; }

  // Of two tensors, the first of which ends anywhere in a cache line.
  Operation On(int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, name(), dtype, op);
    const uint64_t first = count / 3;
    const size_t offset = first * SizeOf(dtype);
    const char* const from = sends[rank].data();
    char* const to = recv(rank).data();
    operation.spans = {{from, to, first}, {from + offset, to + offset, count - first}};
    operation.measured = [this, rank](const Norms& norms) { told[rank] = norms; };
    return operation;
  }

  bool IsRight(int rank) const {
    return IsNear(told[rank].sent, sent) && IsNear(told[rank].received, received) && SameBits(told[rank], told[0]) &&
           recv(rank).bytes() == result;
  }

  DType dtype;
  ReduceOp op;
  uint64_t count;
  bool in_place;
  std::vector<Buffer> sends, recvs;
  std::vector<char> result;
  long double sent = 0, received = 0;
  std::vector<Norms> told;
};

void RunNorms(Cluster* cluster, Place place, const std::string& what) {
  std::vector<std::unique_ptr<NormsCase>> cases;
  for (const DType dtype : kMeasured) {
    if (static_cast<int>(dtype) < kFirstDType || static_cast<int>(dtype) >= kEndDType) continue;
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
      for (const uint64_t count : kNormCounts) {
        for (const bool in_place : {false, true}) {
          cases.push_back(std::make_unique<NormsCase>(*cluster, place, dtype, op, count, in_place));
        }
      }
    }
  }
  std::vector<std::future<Status>> futures;
  for (const auto& one : cases) {
    for (int rank = 0; rank < cluster->size(); ++rank) futures.push_back(cluster->Start(rank, one->On(rank)));
  }
  for (auto& future : futures) EXPECT_OK(Wait(&future));
  for (const auto& one : cases) {
    for (int rank = 0; rank < cluster->size(); ++rank) {
      if (one->IsRight(rank)) continue;
      std::ostringstream text;
      text << what << ", " << cluster->size() << " peers, rank " << rank << ", " << one->name() << ": "
           << one->told[rank].sent << " and " << one->told[rank].received << ", not " << static_cast<double>(one->sent)
           << " and " << static_cast<double>(one->received);
      Fail(__FILE__, __LINE__, text.str());
    }
  }
}

// What each rank is told of an all-reduce of these tensors.
std::vector<Norms> Measure(Cluster* cluster, const Operation& operation, const std::vector<ShortList<Span>>& spans) {
  std::vector<Norms> told(cluster->size());
  ExpectAllOk(cluster->Run([&](int rank) {
    Operation mine = operation;
    mine.spans = spans[rank];
    mine.measured = [&told, rank](const Norms& norms) { told[rank] = norms; };
    return mine;
  }));
  return told;
}

KF_TEST(Norms, DirectMover) {
  for (int size = 1; size <= 4; ++size) {
    Cluster cluster(size, Small("AUTO", 1, 1 << 26));
    for (const Place place : {Place::kShared, Place::kUneven}) RunNorms(&cluster, place, "direct");
    if (size > 1) EXPECT_GE(cluster.peer(0)->counters().direct(), 1u);
  }
}

KF_TEST(Norms, GraphMovers) {
  struct Way {
    const char* strategy;
    int size;
  };
  for (const Way& way : {Way{"RING", 2}, {"STAR", 3}, {"RING", 4}, {"MULTI_BINARY_TREE_STAR", 4}}) {
    Cluster cluster(way.size, Small(way.strategy));
    RunNorms(&cluster, Place::kOrdinary, way.strategy);
    EXPECT_EQ(cluster.peer(0)->counters().direct(), 0u);
  }
}

KF_TEST(Norms, HierarchyMover) {
  for (const int size : {3, 4}) {
    Cluster cluster(size, Small("HIERARCHY", 2, 1 << 26));
    RunNorms(&cluster, Place::kShared, "hierarchy");
    EXPECT_GE(cluster.peer(0)->counters().direct(), 1u);
  }
}

// One peer's tensors lie where the others cannot reach them: of one host all take the graphs, of several its own does.
KF_TEST(Norms, WhereOnePeerFallsBack) {
  for (const int hosts : {1, 2}) {
    Cluster cluster(4, Small(hosts == 1 ? "AUTO" : "HIERARCHY", hosts, 1 << 26));
    constexpr uint64_t kCount = 3 << 19;  // more than is copied into the arena
    std::vector<Buffer> tensors;
    std::vector<ShortList<Span>> spans;
    long double sent = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const std::vector<char> values = MakeValues(DType::kFloat32, ReduceOp::kMean, kCount, rank);
      sent += SquaresOf(DType::kFloat32, values) / 4;
      tensors.emplace_back(cluster.arena(rank), rank == 3 ? Place::kOrdinary : Place::kShared, values);
      spans.push_back({{tensors.back().data(), tensors.back().data(), kCount}});
    }
    const std::vector<Norms> told =
        Measure(&cluster, MakeOperation(Kind::kAllReduce, "x", DType::kFloat32, ReduceOp::kMean), spans);
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(IsNear(told[rank].sent, sent));
      EXPECT_TRUE(IsNear(told[rank].received, SquaresOf(DType::kFloat32, tensors[rank].bytes())));
      EXPECT_TRUE(SameBits(told[rank], told[0]));
    }
    EXPECT_EQ(cluster.peer(0)->counters().direct(), hosts == 1 ? 0u : 1u);
    EXPECT_EQ(cluster.peer(3)->counters().direct(), 0u);
  }
}

// Numbers whose sums depend on their order, in tensors that begin elsewhere in a page: the bits are still the same.
KF_TEST(Norms, DoNotDependOnThePlace) {
  Cluster cluster(3, Small("AUTO", 1, 1 << 26));
  constexpr uint64_t kCount = 100003;
  std::vector<Norms> first;
  for (const Place place : {Place::kShared, Place::kUneven}) {
    std::vector<Buffer> tensors;
    std::vector<ShortList<Span>> spans;
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<float> numbers(kCount);
      for (uint64_t i = 0; i < kCount; ++i) numbers[i] = std::sin(static_cast<float>(i + 31 * rank));
      std::vector<char> bytes(kCount * sizeof(float));
      std::memcpy(bytes.data(), numbers.data(), bytes.size());
      tensors.emplace_back(cluster.arena(rank), place, bytes);
      spans.push_back({{tensors.back().data(), tensors.back().data(), kCount}});
    }
    const std::vector<Norms> told =
        Measure(&cluster, MakeOperation(Kind::kAllReduce, "x", DType::kFloat32, ReduceOp::kMean), spans);
    if (first.empty()) first = told;
    for (const Norms& norms : told) EXPECT_TRUE(SameBits(norms, first[0]));
  }
  EXPECT_EQ(cluster.peer(0)->counters().direct(), 2u);
}

// If one peer does not want them nobody is told any, and the reduction is what it is.
KF_TEST(Norms, AllMustWantThem) {
  struct Way {
    const char* strategy;
    int hosts;
    size_t arena_bytes;
  };
  for (const Way& way : {Way{"RING", 1, 0}, {"AUTO", 1, 1 << 26}, {"HIERARCHY", 2, 1 << 26}}) {
    Cluster cluster(4, Small(way.strategy, way.hosts, way.arena_bytes));
    const std::vector<char> ones = MakeValues(DType::kFloat32, ReduceOp::kSum, 1000, 1);
    const std::vector<char> sum = ExpectedValues(DType::kFloat32, ReduceOp::kSum, {ones, ones, ones, ones});
    const Place place = way.arena_bytes > 0 ? Place::kShared : Place::kOrdinary;
    std::vector<Buffer> tensors;
    for (int rank = 0; rank < 4; ++rank) tensors.emplace_back(cluster.arena(rank), place, ones);
    std::vector<Norms> told(4);
    ExpectAllOk(cluster.Run([&](int rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, "x");
      operation.spans = {{tensors[rank].data(), tensors[rank].data(), 1000}};
      operation.wants_norms = rank != 2;
      operation.measured = [&told, rank](const Norms& norms) { told[rank] = norms; };
      return operation;
    }));
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(std::isnan(told[rank].sent) && std::isnan(told[rank].received));
      EXPECT_TRUE(tensors[rank].bytes() == sum);
    }
  }
}

// Along a forest each tree measures what it reduces.
KF_TEST(Norms, OfTrees) {
  Cluster cluster(4);
  std::vector<std::vector<char>> values;
  std::vector<ShortList<Span>> spans;
  for (int rank = 0; rank < 4; ++rank) values.push_back(MakeValues(DType::kFloat64, ReduceOp::kMean, 1000, rank));
  const std::vector<std::vector<char>> sends = values;
  for (auto& value : values) spans.push_back({{value.data(), value.data(), 1000}});
  Operation operation = MakeOperation(Kind::kAllReduce, "x", DType::kFloat64, ReduceOp::kMean);
  operation.parents = {0, 0, 0, 3};
  const std::vector<Norms> told = Measure(&cluster, operation, spans);
  long double sent = 0;
  for (int rank = 0; rank < 3; ++rank) sent += SquaresOf(DType::kFloat64, sends[rank]) / 3;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(IsNear(told[rank].sent, sent));
    EXPECT_TRUE(IsNear(told[rank].received, SquaresOf(DType::kFloat64, values[0])));
    EXPECT_TRUE(SameBits(told[rank], told[0]));
  }
  EXPECT_TRUE(IsNear(told[3].sent, SquaresOf(DType::kFloat64, sends[3])));
  EXPECT_TRUE(IsNear(told[3].received, SquaresOf(DType::kFloat64, sends[3])));
}

KF_TEST(Norms, AreOfNumbersAndAskedForByAll) {
  Cluster cluster(2);
  std::vector<int32_t> whole(4, 1);
  const auto operation_of = [&whole](DType dtype, bool measures) {
    Operation operation = MakeOperation(Kind::kAllReduce, "x", dtype);
    operation.spans = {{whole.data(), nullptr, 0}};
    if (measures) operation.measured = [](const Norms&) { Fail(__FILE__, __LINE__, "measured"); };
    return operation;
  };
  for (const Status& status : cluster.Run([&](int) { return operation_of(DType::kInt32, true); })) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(status.message(), "the norm of int32 is not defined");
  }
  for (const Status& status : cluster.Run([&](int rank) { return operation_of(DType::kFloat32, rank == 0); })) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(status.message(), "the options");
  }
}

}  // namespace
}  // namespace kungfu::testing
