#include "ops/collective/routes.h"

#include <algorithm>
#include <utility>

#include "ops/base/logging.h"
#include "ops/plan/topology.h"

namespace kungfu {
namespace {

// Up to so many peers of one host, or of any if each is a root, are reached directly. Beyond, a tree keeps the
// connections few.
constexpr int kDirectPeers = 8;

std::shared_ptr<const Graph> Share(Graph graph) { return std::make_shared<const Graph>(std::move(graph)); }

std::unique_ptr<Routes::Lane> BackAndForth(const Graph& tree, int rank) {
  return std::make_unique<Routes::Lane>(Routes::Lane{Share(tree.Reversed().Around(rank)), Share(tree.Around(rank))});
}

// REQUIRES: it was checked.
Strategy AlongTree(const std::vector<int>& parents) {
  return {1, [parents](int) {
            const StatusOr<Graph> tree = TreeFromParents(parents);
            return GraphPair{tree->Reversed(), *tree};
          }};
}

}  // namespace

Routes::Routes(const Choice& choice, const std::vector<int>& tree, const PeerList& peers, int rank,
               uint64_t chunk_bytes)
    : choice_(choice),
      rank_(rank),
      size_(peers.size()),
      chunk_bytes_(chunk_bytes),
      host_of_rank_(peers.HostOfRanks()),
      is_one_host_(peers.HostCount() == 1) {
  const auto add = [&](uint64_t strategy) {
    const auto name = static_cast<StrategyName>(strategy);
    if (name == StrategyName::kAuto || lanes_.count(name) != 0) return;
    const bool is_given = name == StrategyName::kTree && !tree.empty();
    lanes_.emplace(name, Lanes(is_given ? AlongTree(tree) : MakeStrategy(name, peers), rank));
  };
  for (const Choice::Entry& entry : choice.entries) add(entry.strategy);
  add(choice.growing);
  rooted_.resize(size_);
  rooted_at_each_.resize(size_);
}

const Routes::Lane& Routes::Lanes::operator[](int number) {
  Lane& lane = made_[number];
  if (!lane.reduce) {
    const GraphPair pair = strategy_.Pair(number);
    lane = {Share(pair.reduce.Around(rank_)), Share(pair.broadcast.Around(rank_))};
  }
  return lane;
}

const Routes::Lane& Routes::Rooted(int root) {
  std::unique_ptr<Lane>& lane = rooted_[root];
  if (!lane) {
    lane = BackAndForth(!is_one_host_           ? HostBinaryTree(host_of_rank_, root)
                        : size_ <= kDirectPeers ? Star(size_, root)
                                                : BinaryTree(size_, root),
                        rank_);
  }
  return *lane;
}

const Routes::Lane& Routes::RootedAtEach(int root) {
  if (size_ > kDirectPeers || is_one_host_) return Rooted(root);
  std::unique_ptr<Lane>& lane = rooted_at_each_[root];
  if (!lane) lane = BackAndForth(CounterpartStar(host_of_rank_, root), rank_);
  return *lane;
}

Routes::Trees Routes::TreesOf(const std::vector<int>& parents) const {
  StatusOr<Forest> forest = ForestFromParents(parents);
  KF_CHECK(forest.ok() && static_cast<int>(parents.size()) == size_) << "not checked before: " << size_ << " ranks";
  const std::vector<int>& roots = forest->root_of_rank;
  Trees trees;
  trees.size = static_cast<int>(std::count(roots.begin(), roots.end(), roots[rank_]));
  trees.lane.reduce = Share(forest->graph.Reversed());
  trees.lane.broadcast = Share(std::move(forest->graph));
  return trees;
}

std::shared_ptr<const Graph> Routes::Edge(int from, int to) const {
  Graph graph(size_);
  if (from != to) graph.AddEdge(from, to);
  return Share(graph.Around(rank_));
}

}  // namespace kungfu
