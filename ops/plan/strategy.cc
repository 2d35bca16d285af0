#include "ops/plan/strategy.h"

#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "ops/base/logging.h"
#include "ops/plan/topology.h"

namespace kungfu {
namespace {

// Costs of all-reducing n bytes over p peers on h hosts, l of them on each, in the order of the hosts. A step is one
// message's way. Bytes are those that leave the busiest peer, and the busiest host. Connections are the peers that the
// busiest one talks to, besides rank 0, which all ask when a session begins. If there are several pairs, each carries
// an equal share of a tensor's chunks; a tensor of one chunk travels over one of them. Figures of binary trees are
// bounds, the others are exact.
//
//                            pairs   steps           bytes               between hosts   connections
//   STAR                     1       2               n(p-1)              n(p-l)          p-1
//   MULTI_STAR               h       2               n(p+h-2)/h          2nl(h-1)/h      p-1
//   RING                     p       2(p-1)          2n(p-1)/p           2n(p-1)/p       2
//   CLIQUE                   p       2               2n(p-1)/p           2nl(h-1)/h      p-1
//   TREE                     1       4               n(l+h-2)            n(h-1)          l+h-2
//   BINARY_TREE              1       2 log2 p        3n                  3nl             3
//   BINARY_TREE_STAR         1       2(1 + log2 h)   n(l+2)              3n              l+2
//   MULTI_BINARY_TREE_STAR   h       2(1 + log2 h)   n(l-1) + 2n(h-1)/h  2n(h-1)/h       l+h-2
//   HIERARCHY                p       4               2n(p-1)/p           2n(h-1)/h       l+h-2
//
// Nothing gets by with less than 2n(p-1)/p and 2n(h-1)/h (Patarasuk and Yuan, 2009). In HIERARCHY each peer of a host
// carries an even part of what crosses: 2n(h-1)/p. Where elements are combined in a longer type (AccumulatorOf), a sum
// of several peers that is passed on is longer, too. Along stars between hosts of one peer there is none.

// The way up is the way down turned around.
GraphPair UpAndDown(Graph broadcast) {
  Graph reduce = broadcast.Reversed();
  return {std::move(reduce), std::move(broadcast)};
}

// A pair for each root: up the tree that leads down from it, and down.
Strategy FromRoots(std::vector<int> roots, std::function<Graph(int root)> tree) {
  const int size = static_cast<int>(roots.size());
  return {size, [roots = std::move(roots), tree = std::move(tree)](int i) { return UpAndDown(tree(roots[i])); }};
}

std::vector<int> EveryRank(const PeerList& peers) {
  std::vector<int> ranks(peers.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<int> EveryHost(const PeerList& peers) { return HostRootsOf(peers.HostOfRanks()); }

Strategy MakeStar(const PeerList& peers) {
  return FromRoots({0}, [size = peers.size()](int root) { return Star(size, root); });
}

Strategy MakeMultiStar(const PeerList& peers) {
  return FromRoots(EveryHost(peers), [size = peers.size()](int root) { return Star(size, root); });
}

// Both ways lead around the ring in the same sense: once to collect, ending at the root, and once more to spread.
Strategy MakeRing(const PeerList& peers) {
  return {peers.size(),
          [size = peers.size()](int root) { return GraphPair{Chain(size, (root + 1) % size), Chain(size, root)}; }};
}

Strategy MakeClique(const PeerList& peers) {
  return FromRoots(EveryRank(peers), [size = peers.size()](int root) { return Star(size, root); });
}

Strategy MakeTree(const PeerList& peers) {
  return FromRoots({0}, [hosts = peers.HostOfRanks()](int root) { return HostStar(hosts, root); });
}

Strategy MakeBinaryTree(const PeerList& peers) {
  return FromRoots({0}, [size = peers.size()](int root) { return BinaryTree(size, root); });
}

Strategy MakeBinaryTreeStar(const PeerList& peers) {
  return FromRoots({0}, [hosts = peers.HostOfRanks()](int root) { return HostBinaryTree(hosts, root); });
}

Strategy MakeMultiBinaryTreeStar(const PeerList& peers) {
  return FromRoots(EveryHost(peers), [hosts = peers.HostOfRanks()](int root) { return HostBinaryTree(hosts, root); });
}

Strategy MakeHierarchy(const PeerList& peers) {
  return FromRoots(EveryRank(peers), [hosts = peers.HostOfRanks()](int root) { return CounterpartStar(hosts, root); });
}

struct Row {
  const char* name;
  Strategy (*make)(const PeerList& peers);
};

// In the order of StrategyName.
constexpr Row kStrategies[] = {
    {"AUTO", nullptr},
    {"STAR", MakeStar},
    {"MULTI_STAR", MakeMultiStar},
    {"RING", MakeRing},
    {"CLIQUE", MakeClique},
    {"TREE", MakeTree},
    {"BINARY_TREE", MakeBinaryTree},
    {"BINARY_TREE_STAR", MakeBinaryTreeStar},
    {"MULTI_BINARY_TREE_STAR", MakeMultiBinaryTreeStar},
    {"HIERARCHY", MakeHierarchy},
};
static_assert(std::size(kStrategies) == kNumStrategies);

const Row& RowOf(StrategyName name) {
  const int number = static_cast<int>(name);
  KF_CHECK(number < kNumStrategies) << "strategy " << number;
  return kStrategies[number];
}

// The names are ASCII, whatever the program's locale makes of an i.
std::string Upper(std::string text) {
  for (char& c : text) {
    if ('a' <= c && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

}  // namespace

StatusOr<StrategyName> ParseStrategy(const std::string& text) {
  const std::string name = Upper(text);
  std::string known;
  for (int i = 0; i < kNumStrategies; ++i) {
    if (name == kStrategies[i].name) return static_cast<StrategyName>(i);
    known += (i > 0 ? ", " : "") + std::string(kStrategies[i].name);
  }
  return InvalidArgumentError("'" + text + "' is no strategy: expected one of " + known);
}

const char* Name(StrategyName name) { return RowOf(name).name; }

std::vector<GraphPair> Strategy::AllPairs() const {
  std::vector<GraphPair> pairs;
  for (int number = 0; number < size_; ++number) pairs.push_back(Pair(number));
  return pairs;
}

Strategy MakeStrategy(StrategyName name, const PeerList& peers) {
  KF_CHECK(name != StrategyName::kAuto) << "AUTO must be chosen first";
  return RowOf(name).make(peers);
}

std::string StrategySpec::ToString() const {
  if (parents.empty()) return Name(name);
  std::string text;
  for (const int parent : parents) text += (text.empty() ? "the tree " : ",") + std::to_string(parent);
  return text;
}

Status StrategySpec::CheckFor(int size) const {
  if (parents.empty()) return OkStatus();
  if (static_cast<int>(parents.size()) != size) {
    return InvalidArgumentError("tree: parents of " + std::to_string(parents.size()) + " ranks, not of " +
                                std::to_string(size));
  }
  return TreeFromParents(parents).status();
}

// FNV-1a.
uint64_t StrategySpec::digest() const {
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](int value) { hash = (hash ^ static_cast<uint32_t>(value)) * 1099511628211u; };
  add(static_cast<int>(name));
  for (const int parent : parents) add(parent);
  return hash;
}

}  // namespace kungfu
