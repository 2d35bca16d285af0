// What an all-reduce of each strategy really sends: messages, bytes and connections, from every peer to every other,
// against the graphs and against the table in strategy.cc.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/plan/strategy.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/plan/strategy_rows.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr uint64_t kChunk = 4 << 10;

// sent[from][to]
using Sent = std::vector<std::vector<uint64_t>>;

Sent Zeros(int size) { return Sent(size, std::vector<uint64_t>(size)); }

// With one chunk on each pair of graphs a message travels along each edge.
Sent EdgesOf(const std::vector<GraphPair>& strategy, int size) {
  Sent edges = Zeros(size);
  for (const GraphPair& pair : strategy) {
    for (const Graph* graph : {&pair.reduce, &pair.broadcast}) {
      for (int from = 0; from < size; ++from) {
        for (const int to : graph->Successors(from)) ++edges[from][to];
      }
    }
  }
  return edges;
}

struct Counts {
  Sent messages, bytes;
};

Counts Count(const Cluster& cluster) {
  Counts counts{Zeros(cluster.size()), Zeros(cluster.size())};
  for (int from = 0; from < cluster.size(); ++from) {
    const std::vector<Peer::PeerTraffic> traffic = cluster.peer(from)->TrafficByRank();
    for (int to = 0; to < cluster.size(); ++to) {
      counts.messages[from][to] = traffic[to].total.messages_sent;
      counts.bytes[from][to] = traffic[to].total.payload_sent;
    }
  }
  return counts;
}

// Messages and bytes of one all-reduce with one chunk on each of `lanes` pairs.
Counts CountAllReduce(Cluster* cluster, int lanes) {
  const uint64_t count = lanes * kChunk;
  const int size = cluster->size();
  ExpectAllOk(cluster->Run([](int) { return MakeOperation(Kind::kBarrier, "together", DType::kUint8); }));
  const Counts before = Count(*cluster);
  std::vector<std::vector<uint8_t>> tensors(size, std::vector<uint8_t>(count, 1));
  ExpectAllOk(cluster->Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "x", DType::kUint8);
    operation.spans = {{tensors[rank].data(), tensors[rank].data(), count}};
    return operation;
  }));
  const std::vector<uint8_t> sum(count, static_cast<uint8_t>(size));
  EXPECT_TRUE(std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor == sum; }));
  Counts counts = Count(*cluster);
  for (int from = 0; from < size; ++from) {
    for (int to = 0; to < size; ++to) {
      counts.messages[from][to] -= before.messages[from][to];
      counts.bytes[from][to] -= before.bytes[from][to];
    }
  }
  return counts;
}

// Of the busiest peer: what it sends, and with how many others it talks.
uint64_t MostSent(const Sent& sent) {
  uint64_t most = 0;
  for (const auto& row : sent) {
    uint64_t sum = 0;
    for (const uint64_t one : row) sum += one;
    most = std::max(most, sum);
  }
  return most;
}

uint64_t MostBetweenHosts(const Sent& sent, int hosts) {
  const size_t peers_per_host = sent.size() / hosts;
  std::vector<uint64_t> left(hosts);
  for (size_t from = 0; from < sent.size(); ++from) {
    for (size_t to = 0; to < sent.size(); ++to) {
      if (from / peers_per_host != to / peers_per_host) left[from / peers_per_host] += sent[from][to];
    }
  }
  return *std::max_element(left.begin(), left.end());
}

int MostConnected(const Sent& sent) {
  const int size = static_cast<int>(sent.size());
  int most = 0;
  for (int a = 0; a < size; ++a) {
    int others = 0;
    for (int b = 0; b < size; ++b) others += sent[a][b] + sent[b][a] > 0;
    most = std::max(most, others);
  }
  return most;
}

void ExpectStated(const std::string& what, double is, double stated, bool bound) {
  if (bound ? is <= stated : std::abs(is - stated) < 1e-9) return;
  Fail(__FILE__, __LINE__, what + " " + std::to_string(is) + ", stated " + std::to_string(stated));
}

void ExpectCounts(const StrategyRow& row) {
  const int hosts = row.hosts, size = hosts * row.peers_per_host;
  ClusterOptions options;
  options.transport = "tcp";
  options.strategy = Name(row.name);
  options.hosts = hosts;
  options.chunk_bytes = kChunk;
  Cluster cluster(size, options);
  const std::vector<GraphPair> strategy = MakeStrategy(row.name, cluster.session(0)->peers()).AllPairs();
  const Counts counts = CountAllReduce(&cluster, static_cast<int>(strategy.size()));

  Sent edges = EdgesOf(strategy, size);
  const std::string what = std::string(Name(row.name)) + " over " + std::to_string(size) + " peers: ";
  if (counts.messages != edges) Fail(__FILE__, __LINE__, what + "messages that are no edges, or the other way round");
  for (auto& row : edges) {
    for (uint64_t& edge : row) edge *= kChunk;
  }
  if (counts.bytes != edges) Fail(__FILE__, __LINE__, what + "messages of other sizes than a chunk");

  const Cost stated = StatedCost(row, hosts, row.peers_per_host);
  const double lanes = static_cast<double>(strategy.size());
  ExpectStated(what + "messages", static_cast<double>(MostSent(counts.messages)), stated.bytes * lanes, stated.bound);
  ExpectStated(what + "bytes", static_cast<double>(MostSent(counts.bytes)), stated.bytes * lanes * kChunk,
               stated.bound);
  ExpectStated(what + "bytes between hosts", static_cast<double>(MostBetweenHosts(counts.bytes, hosts)),
               stated.between_hosts * lanes * kChunk, stated.bound);
  ExpectStated(what + "connections", MostConnected(counts.messages), stated.connections, stated.bound);
}

KF_TEST(Counts, EveryStrategy) {
  for (const StrategyRow& row : kStrategyRows) ExpectCounts(row);
}

}  // namespace
}  // namespace kungfu::testing
