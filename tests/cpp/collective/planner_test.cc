#include "ops/collective/planner.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/plan/layouts.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// A root of a clique of four takes from three, in a ring each takes from one.
KF_TEST(Plan, GoesAlongTheLanesOfItsType) {
  constexpr int kRank = 1;
  Choice choice = Choice::Of(StrategyName::kRing);
  choice.growing = static_cast<uint64_t>(StrategyName::kClique);
  Routes routes(choice, {}, PeersOnEqualHosts(4, 1), kRank, 1 << 20);
  std::vector<char> bytes(1 << 20);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    Operation operation = MakeOperation(Kind::kAllReduce, "x", dtype);
    operation.spans = {{bytes.data(), bytes.data(), bytes.size() / SizeOf(dtype)}};
    Plan plan(&operation, &routes);
    const StatusOr<std::unique_ptr<Movement>> movement = plan.Next();
    ASSERT_TRUE(movement.ok());
    size_t most = 0;
    for (const Chunk& chunk : (*movement)->chunks) most = std::max(most, chunk.reduce->Predecessors(kRank).size());
    EXPECT_EQ(most, dtype == DType::kFloat32 ? 1u : 3u);
  }
}

}  // namespace
}  // namespace kungfu::testing
