#include "ops/c_api/kungfu_monitor.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "ops/base/squared_norm.h"
#include "ops/c_api/last_error.h"
#include "ops/peer/default_peer.h"

using kungfu::LatencyHistogram;
using kungfu::Peer;
using kungfu::StrategyName;
using kungfu::ThroughputMeter;

static_assert(KUNGFU_LATENCY_BUCKETS == LatencyHistogram::kBuckets);
static_assert(std::string_view(KUNGFU_MONITORED) == kungfu::kMonitored);

static_assert(KUNGFU_NUM_WAYS == kungfu::kNumTrafficWays);
static_assert(KUNGFU_SHARED_MEMORY == static_cast<int>(kungfu::TrafficWay::kSharedMemory));
static_assert(KUNGFU_UNIX_SOCKET == static_cast<int>(kungfu::TrafficWay::kUnix));
static_assert(KUNGFU_TCP == static_cast<int>(kungfu::TrafficWay::kTcp));

namespace {

void Add(const kungfu_flow& flow, kungfu_flow* total) {
  total->egress_bytes += flow.egress_bytes;
  total->ingress_bytes += flow.ingress_bytes;
  total->egress_rate += flow.egress_rate;
  total->ingress_rate += flow.ingress_rate;
}

}  // namespace

extern "C" {

int kungfu_get_traffic(kungfu_traffic* traffic, int size) {
  kungfu::StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) {
    kungfu::SetLastError(peer.status());
    return -1;
  }
  const std::vector<Peer::PeerTraffic> by_rank = (*peer)->TrafficByRank();
  const int filled = std::min(size, static_cast<int>(by_rank.size()));
  for (int rank = 0; rank < filled; ++rank) {
    traffic[rank] = {};
    for (int way = 0; way < KUNGFU_NUM_WAYS; ++way) {
      const kungfu::Traffic::Bytes& bytes = by_rank[rank].total.by_way[way];
      const kungfu::TrafficMeter::Rates& rates = by_rank[rank].rates[way];
      traffic[rank].by_way[way] = {bytes.sent, bytes.received, rates.sent, rates.received};
      Add(traffic[rank].by_way[way], &traffic[rank].total);
    }
  }
  return static_cast<int>(by_rank.size());
}

void kungfu_ping(double timeout, kungfu_allocate_doubles allocate, kungfu_done done, void* arg) {
  kungfu::StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return done(arg, static_cast<int>(peer.status().code()), peer.status().message().c_str());
  (*peer)->session()->Ping(kungfu::Seconds(timeout), [allocate, done, arg](const std::vector<double>& seconds) {
    double* const memory = allocate(arg, static_cast<int>(seconds.size()));
    if (memory == nullptr) {
      return done(arg, static_cast<int>(kungfu::Code::kResourceExhausted), "ping: no memory for the result");
    }
    std::copy(seconds.begin(), seconds.end(), memory);
    done(arg, 0, "");
  });
}

double kungfu_squared_norm(const void* data, uint64_t count, int32_t dtype) {
  const auto type = static_cast<kungfu::DType>(dtype);
  const bool is_number = dtype >= KUNGFU_FLOAT16 && dtype <= KUNGFU_COMPLEX128;
  return is_number ? kungfu::SquaredNorm(data, count, type) : std::numeric_limits<double>::quiet_NaN();
}

void kungfu_get_latencies(kungfu_latencies* latencies) {
  *latencies = {};
  const Peer* peer = kungfu::DefaultPeerIfStarted();
  for (int i = 0; i < KUNGFU_LATENCY_BUCKETS; ++i) {
    latencies->upper_bound[i] = LatencyHistogram::UpperBound(i);
    if (peer) latencies->count[i] = peer->counters().latencies().count(i);
  }
  if (!peer) return;
  latencies->seconds = peer->counters().latencies().seconds();
  latencies->bytes = peer->counters().bytes();
}

int kungfu_get_throughputs(kungfu_throughput* throughputs, int size) {
  Peer* peer = kungfu::DefaultPeerIfStarted();
  int count = 0;
  for (int i = 0; peer && i < kungfu::kNumStrategies; ++i) {
    const ThroughputMeter::Throughput from = peer->throughput().Of(i);
    if (from.total.bytes == 0) continue;
    if (count < size) {
      const char* const name = kungfu::Name(static_cast<StrategyName>(i));
      throughputs[count] = {name, from.total.bytes, from.total.seconds, from.newest, from.best};
    }
    ++count;
  }
  return count;
}

double kungfu_end_window(void) {
  Peer* peer = kungfu::DefaultPeerIfStarted();
  if (!peer) return 0;
  peer->throughput().EndWindow();
  return peer->throughput().Of(static_cast<int>(peer->session()->strategy())).newest;
}

const char* kungfu_strategy(void) {
  Peer* peer = kungfu::DefaultPeerIfStarted();
  return kungfu::Name(peer ? peer->session()->strategy() : StrategyName::kAuto);
}

int kungfu_start_timeline(const char* path) {
  kungfu::StatusOr<Peer*> peer = kungfu::DefaultPeer();
  return kungfu::SetLastError(peer.ok() ? (*peer)->StartTimeline(path) : peer.status());
}

int kungfu_stop_timeline(void) {
  kungfu::StatusOr<Peer*> peer = kungfu::DefaultPeer();
  return kungfu::SetLastError(peer.ok() ? (*peer)->StopTimeline() : peer.status());
}

}  // extern "C"
