#include "ops/c_api/kungfu.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/base/hmac.h"
#include "ops/c_api/convert.h"
#include "ops/c_api/last_error.h"
#include "ops/peer/config.h"
#include "ops/peer/default_arena.h"
#include "ops/peer/default_peer.h"
#include "ops/plan/strategy.h"

using kungfu::Peer;
using kungfu::Place;
using kungfu::SetLastError;
using kungfu::Status;
using kungfu::StatusOr;

std::string& kungfu::LastError() {
  thread_local std::string text;
  return text;
}

namespace {

#ifndef KUNGFU_VERSION
#define KUNGFU_VERSION "unknown"
#endif

// `get` of where this process stands among the peers, or -1. Starts no peer.
template <typename Get>
int Ask(Get get) {
  StatusOr<Place> place = kungfu::DefaultPlace();
  if (!place.ok()) {
    SetLastError(place.status());
    return -1;
  }
  return get(*place);
}

Status Cause(int code, const char* message) {
  const bool known = code >= 0 && code <= static_cast<int>(kungfu::Code::kUnavailable);
  return Status(known ? static_cast<kungfu::Code>(code) : kungfu::Code::kUnknown, message ? message : "");
}

// Calls `begin` with the peer and the callback for the end.
template <typename Begin>
void WithPeer(kungfu_done done, void* arg, Begin begin) {
  const kungfu::StatusCallback end = kungfu::Telling(done, arg);
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return end(peer.status());
  begin(*peer, end);
}

}  // namespace

int kungfu_abi_version(void) { return KUNGFU_ABI_VERSION; }
const char* kungfu_version(void) { return KUNGFU_VERSION; }
const char* kungfu_last_error(void) { return kungfu::LastError().c_str(); }

int kungfu_init(void) { return SetLastError(kungfu::DefaultPeer().status()); }

int kungfu_shutdown(void) {
  kungfu::ShutdownDefaultPeer();
  return 0;
}

int kungfu_rank(void) {
  return Ask([](const Place& place) { return place.rank; });
}

int kungfu_size(void) {
  return Ask([](const Place& place) { return place.peers.size(); });
}

int kungfu_local_rank(void) {
  return Ask([](const Place& place) { return place.peers.size() == 0 ? -1 : place.peers.LocalRank(place.rank); });
}

int kungfu_local_size(void) {
  return Ask([](const Place& place) { return place.peers.size() == 0 ? 0 : place.peers.LocalSize(place.rank); });
}

int kungfu_host_count(void) {
  return Ask([](const Place& place) { return place.peers.HostCount(); });
}

int kungfu_membership_version(void) {
  return Ask([](const Place& place) { return static_cast<int>(place.version); });
}

int kungfu_agreed_version(void) {
  return Ask([](const Place& place) { return static_cast<int>(place.agreed.version); });
}

int kungfu_agreed_size(void) {
  return Ask([](const Place& place) { return place.agreed.size; });
}

int kungfu_elastic(void) {
  return Ask([](const Place& place) { return place.elastic; });
}

int kungfu_joining(void) {
  return Ask([](const Place& place) { return place.joining; });
}

int kungfu_outdated(void) {
  return Ask([](const Place& place) { return place.outdated; });
}

int kungfu_repeats(void) {
  const StatusOr<Peer*> peer = kungfu::DefaultPeer();
  return peer.ok() && (*peer)->repeats() ? 1 : 0;
}

int64_t kungfu_epoch(void) {
  const StatusOr<Peer*> peer = kungfu::DefaultPeer();
  return peer.ok() ? static_cast<int64_t>((*peer)->session()->epoch()) : -1;
}

int kungfu_interrupted(void) {
  return Ask([](const Place& place) { return place.interrupted; });
}

const char* kungfu_peer_name(int rank) {
  thread_local std::string name;
  name.clear();
  Ask([rank](const Place& place) {
    if (rank >= 0 && rank < place.peers.size()) name = place.peers[rank].ToString();
    return 0;
  });
  return name.c_str();
}

const char* kungfu_strategy_name(int number) {
  if (number < 0 || number >= kungfu::kNumStrategies) return nullptr;
  return kungfu::Name(static_cast<kungfu::StrategyName>(number));
}

void kungfu_begin_epoch(const char* strategy, kungfu_done done, void* arg) {
  WithPeer(done, arg, [strategy](Peer* peer, const kungfu::StatusCallback& end) {
    if (!strategy) return peer->BeginEpoch(peer->strategy(), end);
    const StatusOr<kungfu::StrategyName> name = kungfu::ParseStrategy(strategy);
    if (!name.ok()) return end(name.status());
    peer->BeginEpoch(*name, end);
  });
}

void kungfu_set_tree(const int32_t* parents, int num_parents, kungfu_done done, void* arg) {
  const kungfu::StrategySpec tree(std::vector<int>(parents, parents + num_parents));
  WithPeer(done, arg, [&tree](Peer* peer, const kungfu::StatusCallback& end) {
    if (tree.parents.empty()) return end(kungfu::InvalidArgumentError("tree: there are no parents"));
    peer->BeginEpoch(tree, end);
  });
}

void kungfu_propose_size(int size, kungfu_done done, void* arg) {
  WithPeer(done, arg, [size](Peer* peer, const kungfu::StatusCallback& end) { peer->Propose(size, end); });
}

void kungfu_want_size(int size, kungfu_done done, void* arg) {
  WithPeer(done, arg, [size](Peer* peer, const kungfu::StatusCallback& end) { peer->Want(size, end); });
}

void kungfu_propose_from_url(kungfu_done done, void* arg) {
  WithPeer(done, arg, [](Peer* peer, const kungfu::StatusCallback& end) { peer->Propose(std::nullopt, end); });
}

void kungfu_give_notice(kungfu_done done, void* arg) {
  WithPeer(done, arg, [](Peer* peer, const kungfu::StatusCallback& end) { peer->GiveNotice(end); });
}

void kungfu_leave(kungfu_done done, void* arg) {
  WithPeer(done, arg, [](Peer* peer, const kungfu::StatusCallback& end) { peer->LeaveJob(end); });
}

void kungfu_advance(kungfu_done done, void* arg) {
  WithPeer(done, arg, [](Peer* peer, const kungfu::StatusCallback& end) { peer->Advance(end); });
}

void kungfu_advance_if_idle(kungfu_done done, void* arg) {
  WithPeer(done, arg, [](Peer* peer, const kungfu::StatusCallback& end) { peer->AdvanceIfIdle(end); });
}

void kungfu_join(int* before, kungfu_done done, void* arg) {
  WithPeer(done, arg, [before](Peer* peer, const kungfu::StatusCallback& end) {
    peer->Join([before, end](const StatusOr<int>& count) {
      if (count.ok()) *before = *count;
      end(count.status());
    });
  });
}

void kungfu_interrupt(int code, const char* message) {
  Peer* peer = kungfu::DefaultPeerIfStarted();
  if (peer) peer->Interrupt(Cause(code, message));
}

void kungfu_cancel(uint64_t operation, int code, const char* message) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return;
  if (kungfu::P2p::Owns(operation)) return (*peer)->p2p()->Cancel(operation, Cause(code, message));
  (*peer)->Cancel(operation, Cause(code, message));
}

uint64_t kungfu_digest(const void* data, size_t size) {
  kungfu::Sha256 hash;
  hash.Update(data, size);
  const kungfu::Sha256Digest digest = hash.Finish();
  uint64_t folded = 0;
  for (int i = 0; i < 8; ++i) folded |= static_cast<uint64_t>(digest[i]) << (8 * i);
  return folded;
}

void* kungfu_shared_allocate(size_t size) {
  kungfu::Arena* arena = kungfu::DefaultArena();
  return arena ? arena->Allocate(size) : nullptr;
}

size_t kungfu_shared_size(const void* block) {
  const kungfu::Arena* arena = kungfu::DefaultArenaIfMade();
  return arena ? arena->SizeOf(block) : 0;
}

size_t kungfu_shared_free(void* block) {
  kungfu::Arena* arena = kungfu::DefaultArenaIfMade();
  return arena ? arena->Free(block) : 0;
}

void kungfu_get_statistics(kungfu_statistics* statistics) {
  *statistics = {};
  if (const kungfu::Arena* arena = kungfu::DefaultArenaIfMade()) statistics->shared_bytes = arena->statistics().in_use;
  Peer* peer = kungfu::DefaultPeerIfStarted();
  if (!peer) return;
  const kungfu::RouterTotals totals = peer->Totals();
  statistics->operations = peer->counters().completed();
  statistics->failures = peer->counters().failed();
  statistics->bytes_sent = totals.bytes_sent;
  statistics->bytes_received = totals.bytes_received;
  statistics->refused_frames = totals.refused_frames;
  statistics->connections = totals.connections;
  statistics->direct = peer->counters().direct();
  statistics->pending = peer->counters().pending();
}

uint64_t kungfu_completed(const char* name) {
  Peer* peer = kungfu::DefaultPeerIfStarted();
  return peer ? peer->counters().completed(name) : 0;
}

const kungfu_setting* kungfu_get_setting(int number) {
  static const auto* settings = [] {
    auto* list = new std::vector<kungfu_setting>;
    for (const kungfu::Setting& one : kungfu::Settings()) {
      list->push_back({one.name, one.meaning, one.type.c_str(), one.unit, one.default_text, one.internal, one.secret});
    }
    return list;
  }();
  return number >= 0 && number < static_cast<int>(settings->size()) ? &(*settings)[number] : nullptr;
}

int kungfu_check_setting(const char* name, const char* text) {
  kungfu::Config config;
  return SetLastError(config.Set(name, text));
}
