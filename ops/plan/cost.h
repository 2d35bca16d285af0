// A model of the time that an all-reduce takes, by which AUTO chooses a strategy.
//
// A message of m bytes is there latency + m * per_byte after it was sent (Hockney, 1994), and keeps each of its ends
// busy for overhead + m * per_byte, one message after the other (LogGP: Alexandrov et al., 1995). A tensor of n bytes
// is cut into k chunks of m = n / k bytes (partition.h), which are spread over the strategy's s pairs of graphs. With
//
//   path   the time one chunk takes from the last rank's call until the last rank has the result: along the graphs,
//          each rank taking its messages one after the other
//   round  how long the busiest peer takes to send, or to receive, what it has to of one chunk on each pair; or the
//          busiest host its bytes to other hosts, if that is longer: its peers share one way out. Where a host takes
//          from several others over thin links (up to 2 Gbit/s) they crowd its way in: bytes between hosts take 15 %
//          longer then
//   far    the latencies of the path: the first byte of a round has them before it, or the last one behind it
//
// all of it takes
//
//   max(path, far + round k/s)             if k <= s
//   max(path, far + round) + round (k/s-1) if k > s: the first round, and then a pipeline.
//
// So with chunks of equal size on p peers of one host, w = overhead + m * per_byte:
//
//   STAR          path 2 latency + 2(p-1)w         round (p-1)w
//   CLIQUE        path 2 latency + 2(p-1)w         round 2(p-1)w
//   RING          path 2(p-1)(latency + w)         round 2(p-1)w
//   BINARY_TREE   path 2d(latency + 2w)            round 3w             p = 2^(d+1) - 1
//
// (The same trade of steps for bytes, in closed form: Thakur, Rabenseifner and Gropp, 2005.)

#pragma once

#include <cstdint>
#include <vector>

#include "ops/plan/peer_list.h"
#include "ops/plan/strategy.h"

namespace kungfu {

// Seconds; per_byte: seconds per byte.
struct LinkCost {
  double latency = 0;
  double overhead = 0;
  double per_byte = 0;
};

// Between peers of one host, and of two; usual figures, where none are measured.
struct LinkCosts {
  LinkCost local{20e-6, 5e-6, 0.3e-9};
  LinkCost remote{50e-6, 10e-6, 1e-9};
};

// The costs of one strategy for these peers. Made once, asked for many sizes.
class CostModel {
 public:
  // `growth`: how many times as long as a peer's elements the sum of several peers' is.
  CostModel(const Strategy& strategy, const PeerList& peers, uint64_t chunk_bytes, int growth = 1);

  // The seconds that an all-reduce of `bytes` takes.
  double Seconds(uint64_t bytes, const LinkCosts& costs) const;
  // The peers that the busiest one talks to.
  int connections() const { return connections_; }

 private:
  // Messages of one round, by peer, and those of a host that leave it. One of a sum that has grown counts as several.
  struct Messages {
    int local = 0, remote = 0;
  };

  double Path(const GraphPair& pair, const LinkCosts& costs, uint64_t bytes) const;
  double Ready(const Graph& reduce, int rank, const LinkCosts& costs, uint64_t bytes) const;
  double Spread(const Graph& broadcast, int rank, double start, const LinkCosts& costs, uint64_t bytes) const;
  double Round(const LinkCosts& costs, double bytes) const;
  const LinkCost& Of(const LinkCosts& costs, int a, int b) const {
    return host_of_rank_[a] == host_of_rank_[b] ? costs.local : costs.remote;
  }

  std::vector<GraphPair> pairs_;
  std::vector<int> host_of_rank_;
  uint64_t chunk_bytes_;
  int connections_ = 0;
  std::vector<Messages> sends_, receives_;  // by rank
  std::vector<int> leaving_;                // by host
  const int growth_;
  bool is_crowded_ = false;  // a host takes from several others
};

// Which strategy carries tensors of which size. Crosses processes as it lies in memory.
struct Choice {
  static constexpr int kMost = 4;
  struct Entry {
    uint64_t from = 0;      // bytes
    uint64_t strategy = 0;  // a StrategyName; 0: there are no more entries
  };
  Entry entries[kMost];
  // In place of the last entry for tensors whose sums grow: of several peers they are twice as long as of one, as in
  // the 16-bit types (AccumulatorOf). 0: the last entry holds for them, too.
  uint64_t growing = 0;

  static Choice Of(StrategyName name);
  StrategyName For(uint64_t bytes, bool grows = false) const;
  // The strategy for the largest tensors.
  StrategyName Last() const;
  // At least one strategy, none of them AUTO, each from more bytes on than the one before, the first from 0.
  bool IsValid() const;
};

// From this many bytes on: never.
inline constexpr uint64_t kNever = ~uint64_t{0};

// The fastest by the model, for each size. The largest tensors, which take the most time, choose first: a strategy must
// win by more than a tenth to replace the one for larger tensors; for the largest ones CLIQUE, or HIERARCHY. A strategy
// by which a peer would talk to more than 64 others is not chosen. From `direct_bytes` on HIERARCHY does without
// messages within a host: there a byte takes a third of the time.
Choice Choose(const PeerList& peers, uint64_t chunk_bytes, const LinkCosts& costs, uint64_t direct_bytes = kNever);

}  // namespace kungfu
