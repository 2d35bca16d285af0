// The bytes that an all-reduce moves between peers, and the ways that they count for.

#include <cstdint>
#include <string>
#include <vector>

#include "ops/plan/partition.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/placed.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr uint64_t kBytes = 1 << 20;

Traffic::Bytes Moved(const Cluster& cluster, int from, int to, TrafficWay way) {
  return cluster.peer(from)->TrafficByRank()[to].total.by(way);
}

// All that a peer has moved, less what went over its connections.
Traffic::Bytes MovedInMemory(const Cluster& cluster, int rank) {
  Traffic::Bytes moved;
  for (const Peer::PeerTraffic& traffic : cluster.peer(rank)->TrafficByRank()) {
    moved.sent += traffic.total.sum().sent;
    moved.received += traffic.total.sum().received;
  }
  const RouterTotals connections = cluster.peer(rank)->Totals();
  return {moved.sent - connections.bytes_sent, moved.received - connections.bytes_received};
}

// The late messages of an operation, which return credit, may come between two looks.
void ExpectMovedInMemory(const Cluster& cluster, int rank, uint64_t bytes) {
  ASSERT_TRUE(Becomes([&] {
    const Traffic::Bytes moved = MovedInMemory(cluster, rank);
    return moved.sent == bytes && moved.received == bytes;
  }));
}

// Every byte that one has sent the other has received, on the same way.
void ExpectBothSidesToAgree(const Cluster& cluster) {
  for (int from = 0; from < cluster.size(); ++from) {
    for (int to = 0; to < cluster.size(); ++to) {
      for (const TrafficWay way : {TrafficWay::kSharedMemory, TrafficWay::kUnix, TrafficWay::kTcp}) {
        ASSERT_TRUE(
            Becomes([&] { return Moved(cluster, from, to, way).sent == Moved(cluster, to, from, way).received; }));
      }
    }
  }
}

ClusterOptions WithArena() {
  ClusterOptions options;
  options.arena_bytes = 64 << 20;
  return options;
}

// Between two peers the shares of both go each way, so a peer's own goes to, and comes from, all others.
KF_TEST(DirectTraffic, IsOfTheSharesThatPeersReduce) {
  for (const int size : {2, 3, 4}) {
    Cluster cluster(size, WithArena());
    SentForBytes(&cluster, kBytes, Place::kShared);
    uint64_t all = 0;
    for (int rank = 0; rank < size; ++rank) {
      const uint64_t share = EvenPart(kBytes / kLine, size, rank).size() * kLine;
      ExpectMovedInMemory(cluster, rank, kBytes + (size - 2) * share);
      all += MovedInMemory(cluster, rank).sent;
      const Peer::PeerTraffic with_next = cluster.peer(rank)->TrafficByRank()[(rank + 1) % size];
      const TrafficMeter::Rates& rates = with_next.rates[static_cast<int>(TrafficWay::kSharedMemory)];
      EXPECT_TRUE(rates.sent > 0 && rates.received > 0);
    }
    EXPECT_EQ(all, 2 * (size - 1) * kBytes);
    ExpectBothSidesToAgree(cluster);
  }
}

// A peer whose tensor does not lie in shared memory sends it in messages, and no byte counts twice.
KF_TEST(DirectTraffic, OfMessagesIsThatOfConnectionsAlone) {
  constexpr uint64_t kBeyondCopies = 12 << 20;
  Cluster cluster(2, WithArena());
  SentForBytes(&cluster, kBeyondCopies, Place::kOrdinary);
  for (int rank = 0; rank < 2; ++rank) {
    ExpectMovedInMemory(cluster, rank, 0);
    EXPECT_GE(Moved(cluster, rank, 1 - rank, TrafficWay::kSharedMemory).sent, kBeyondCopies / 2);
  }
  ExpectBothSidesToAgree(cluster);
}

// A share is reduced within a host in memory, and exchanged with the other host by TCP.
KF_TEST(DirectTraffic, OfSeveralHostsGoesInMemoryWithinEach) {
  ClusterOptions options = WithArena();
  options.strategy = "HIERARCHY";
  options.transport = "auto";
  options.hosts = 2;
  options.chunk_bytes = 64 << 10;
  Cluster cluster(4, options);
  SentForBytes(&cluster, kBytes, Place::kShared);
  uint64_t by_tcp = 0;
  for (int rank = 0; rank < 4; ++rank) {
    ExpectMovedInMemory(cluster, rank, kBytes);
    for (int other = 0; other < 4; ++other) {
      const bool is_near = rank / 2 == other / 2;
      EXPECT_TRUE(Moved(cluster, rank, other, is_near ? TrafficWay::kTcp : TrafficWay::kSharedMemory).sent == 0);
      by_tcp += Moved(cluster, rank, other, TrafficWay::kTcp).sent;
    }
  }
  EXPECT_GE(by_tcp, 2 * kBytes);
  ExpectBothSidesToAgree(cluster);
}

// Headers are little beside the payload, which goes up to the star's middle, and down again.
KF_TEST(DirectTraffic, OfConnectionsCountsForTheirTransport) {
  struct Row {
    std::string transport;
    TrafficWay way;
  };
  for (const Row& row :
       {Row{"shm", TrafficWay::kSharedMemory}, Row{"unix", TrafficWay::kUnix}, Row{"tcp", TrafficWay::kTcp}}) {
    ClusterOptions options;
    options.strategy = "STAR";
    options.transport = row.transport;
    Cluster cluster(3, options);
    SentForBytes(&cluster, kBytes, Place::kOrdinary);
    for (const int leaf : {1, 2}) {
      for (const TrafficWay way : {TrafficWay::kSharedMemory, TrafficWay::kUnix, TrafficWay::kTcp}) {
        const Traffic::Bytes bytes = Moved(cluster, 0, leaf, way);
        const uint64_t least = way == row.way ? kBytes : 0, most = way == row.way ? kBytes + (4 << 10) : 0;
        EXPECT_TRUE(least <= bytes.sent && bytes.sent <= most);
        EXPECT_TRUE(least <= bytes.received && bytes.received <= most);
      }
    }
    ExpectBothSidesToAgree(cluster);
  }
}

}  // namespace
}  // namespace kungfu::testing
