#include "ops/plan/mixing.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kungfu {
namespace {

Status CheckNeighbors(const std::vector<Mixing::Neighbor>& neighbors, const char* what, int size, int rank) {
  for (size_t i = 0; i < neighbors.size(); ++i) {
    const int other = neighbors[i].rank;
    const std::string named = std::string(what) + " " + std::to_string(other);
    if (other < 0 || other >= size) {
      return InvalidArgumentError(named + " is not a rank of " + std::to_string(size) + " peers");
    }
    if (other == rank) return InvalidArgumentError(named + " is this rank itself, which has a weight of its own");
    if (i > 0 && other == neighbors[i - 1].rank) return InvalidArgumentError(named + " is there twice");
  }
  return OkStatus();
}

bool Includes(const std::vector<Mixing::Neighbor>& neighbors, int rank) {
  return std::any_of(neighbors.begin(), neighbors.end(),
                     [rank](const Mixing::Neighbor& neighbor) { return neighbor.rank == rank; });
}

}  // namespace

Mixing Mixing::Of(double self, std::vector<Neighbor> sources, std::vector<Neighbor> targets) {
  const auto by_rank = [](const Neighbor& a, const Neighbor& b) { return a.rank < b.rank; };
  std::sort(sources.begin(), sources.end(), by_rank);
  std::sort(targets.begin(), targets.end(), by_rank);
  return {self, std::move(sources), std::move(targets)};
}

Status CheckMixing(const Mixing& mixing, int size, int rank) {
  KF_RETURN_IF_ERROR(CheckNeighbors(mixing.sources, "source", size, rank));
  return CheckNeighbors(mixing.targets, "target", size, rank);
}

bool AreNeighbors(const Mixing& mixing, int other) {
  return Includes(mixing.sources, other) || Includes(mixing.targets, other);
}

}  // namespace kungfu
