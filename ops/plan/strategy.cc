#include "ops/plan/strategy.h"

#include <utility>

#include "ops/base/logging.h"
#include "ops/plan/topology.h"

namespace kungfu {
namespace {

constexpr const char* kNames[kNumStrategies] = {
    "AUTO",
    "STAR",
    "MULTI_STAR",
    "RING",
    "CLIQUE",
    "TREE",
    "BINARY_TREE",
    "BINARY_TREE_STAR",
    "MULTI_BINARY_TREE_STAR",
    "HIERARCHY",
};

// Costs of all-reducing n bytes over p peers on h hosts, l of them on each, in the order of the hosts. A step is one
// message's way; bytes are those that leave the busiest peer, and the busiest host; connections are the peers that the
// busiest one talks to, besides rank 0, which all ask when a session begins. Where there are several pairs, each
// carries an equal share of a tensor's chunks; a tensor of one chunk travels over one of them. Figures of binary trees
// are bounds, the others are exact.
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
// carries an even part of what crosses: 2n(h-1)/p.

// The way up is the way down turned around.
GraphPair UpAndDown(Graph broadcast) {
  Graph reduce = broadcast.Reversed();
  return {std::move(reduce), std::move(broadcast)};
}

// Both ways lead around the ring in the same sense: once to collect, ending at `root`, and once more to spread.
GraphPair AroundTheRing(int size, int root) { return {Chain(size, (root + 1) % size), Chain(size, root)}; }

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
    if (name == kNames[i]) return static_cast<StrategyName>(i);
    known += (i > 0 ? ", " : "") + std::string(kNames[i]);
  }
  return InvalidArgumentError("'" + text + "' is no strategy: expected one of " + known);
}

const char* Name(StrategyName name) {
  const int index = static_cast<int>(name);
  KF_CHECK(index < kNumStrategies) << "strategy " << index;
  return kNames[index];
}

Strategy MakeStrategy(StrategyName name, const PeerList& peers) {
  const int size = peers.size();
  const std::vector<int> hosts = peers.HostOfRanks();
  Strategy strategy;
  switch (name) {
    case StrategyName::kAuto:
      KF_CHECK(false) << "AUTO must be chosen first";
      break;
    case StrategyName::kStar:
      strategy.push_back(UpAndDown(Star(size, 0)));
      break;
    case StrategyName::kMultiStar:
      for (int root : HostRootsOf(hosts)) strategy.push_back(UpAndDown(Star(size, root)));
      break;
    case StrategyName::kRing:
      for (int root = 0; root < size; ++root) strategy.push_back(AroundTheRing(size, root));
      break;
    case StrategyName::kClique:
      for (int root = 0; root < size; ++root) strategy.push_back(UpAndDown(Star(size, root)));
      break;
    case StrategyName::kTree:
      strategy.push_back(UpAndDown(HostStar(hosts, 0)));
      break;
    case StrategyName::kBinaryTree:
      strategy.push_back(UpAndDown(BinaryTree(size, 0)));
      break;
    case StrategyName::kBinaryTreeStar:
      strategy.push_back(UpAndDown(HostBinaryTree(hosts, 0)));
      break;
    case StrategyName::kMultiBinaryTreeStar:
      for (int root : HostRootsOf(hosts)) strategy.push_back(UpAndDown(HostBinaryTree(hosts, root)));
      break;
    case StrategyName::kHierarchy:
      for (int root = 0; root < size; ++root) strategy.push_back(UpAndDown(CounterpartStar(hosts, root)));
      break;
  }
  return strategy;
}

std::string StrategySpec::ToString() const {
  if (fathers.empty()) return Name(name);
  std::string text;
  for (const int father : fathers) text += (text.empty() ? "the tree " : ",") + std::to_string(father);
  return text;
}

Status StrategySpec::CheckFor(int size) const {
  if (fathers.empty()) return OkStatus();
  if (static_cast<int>(fathers.size()) != size) {
    return InvalidArgumentError("tree: fathers of " + std::to_string(fathers.size()) + " ranks, not of " +
                                std::to_string(size));
  }
  return TreeFromFathers(fathers).status();
}

// FNV-1a.
uint64_t StrategySpec::digest() const {
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](int value) { hash = (hash ^ static_cast<uint32_t>(value)) * 1099511628211u; };
  add(static_cast<int>(name));
  for (const int father : fathers) add(father);
  return hash;
}

}  // namespace kungfu
