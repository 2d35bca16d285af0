#include "ops/peer/default_peer.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "ops/base/mutex.h"
#include "ops/base/unique_fd.h"
#include "ops/peer/claim.h"
#include "ops/peer/default_arena.h"

namespace kungfu {
namespace {

// Never destroyed: threads of the program may call us until the process ends.
struct Global {
  Mutex mu;
  UniqueFd claim GUARDED_BY(mu);
  std::unique_ptr<Peer> owner GUARDED_BY(mu);
  std::atomic<Peer*> peer{nullptr};
  std::atomic<bool> forked{false};  // this is a child's copy
  Place at_fork;                    // in that: what was known then
  std::atomic<bool> down{false};
};

Global& global() {
  static auto* instance = new Global;
  return *instance;
}

Status ShutDown() { return FailedPreconditionError("this peer has shut down"); }

StatusOr<Peer*> Usable(Peer* peer) {
  Global& g = global();
  if (g.forked) {
    return FailedPreconditionError(
        "this process was forked from a peer and is none itself: only the peer can exchange data with other "
        "peers");
  }
  if (g.down) return ShutDown();
  return peer;
}

// Between the handlers of a fork, which run on one thread.
thread_local std::optional<Place> forking_from;

void BeforeFork() {
  if (Peer* peer = DefaultPeerIfStarted()) forking_from = peer->place();  // the child may find its locks taken
}

void AfterForkInParent() { forking_from.reset(); }

void AfterForkInChild() {
  Global& g = global();
  if (!forking_from) return;
  g.at_fork = *std::move(forking_from);
  forking_from.reset();
  g.forked = true;
}

// Whether this configuration's place is claimed at all, in a directory of its peers.
bool CanClaim(const Config& config) { return !config.socket_dir.empty() && !config.self.empty(); }

// With what to do where ranks change, and another process hears of it.
Status Advise(const Config& config, const Status& taken) {
  if (taken.ok() || config.membership == "static") return taken;
  return Status(taken.code(), taken.message() + ". It alone hears of changes of ranks (kungfu-run -w): give this " +
                                  "process its rank as an argument");
}

// The rest of DefaultPeer, where there is no peer yet, or one that cannot be used.
StatusOr<Peer*> StartDefaultPeer() {
  Global& g = global();
  if (Peer* const peer = g.peer) return Usable(peer);
  MutexLock lock(&g.mu);
  Peer* const started = g.peer;
  if (started || g.down) return Usable(started);
  StatusOr<Config> config = Config::FromEnvironment();
  if (!config.ok()) return config.status();
  StatusOr<Place> place = Place::From(*config);
  if (!place.ok()) return place.status();
  UniqueFd claim;
  if (CanClaim(*config)) {
    StatusOr<UniqueFd> claimed = ClaimPlace(config->socket_dir, place->self());
    if (!claimed.ok()) return Advise(*config, claimed.status());
    claim = std::move(*claimed);
  }
  StatusOr<std::unique_ptr<Peer>> made = Peer::Start(*config, DefaultArena());
  if (!made.ok()) return made.status();
  g.claim = std::move(claim);
  g.owner = std::move(*made);
  pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  g.peer = g.owner.get();
  if (g.down) g.owner->Shutdown();  // meanwhile
  return Usable(g.owner.get());
}

}  // namespace

StatusOr<Peer*> DefaultPeer() {
  const Global& g = global();
  Peer* const peer = g.peer;
  return peer && !g.forked && !g.down ? peer : StartDefaultPeer();
}

StatusOr<Place> DefaultPlace() {
  Global& g = global();
  if (g.forked) return g.at_fork;
  if (g.down) return ShutDown();
  if (const Peer* peer = g.peer) return peer->place();
  MutexLock lock(&g.mu);  // so that what is asked next finds this process without a claim
  if (const Peer* peer = g.peer) return peer->place();
  StatusOr<Config> config = Config::FromEnvironment();
  if (!config.ok()) return config.status();
  StatusOr<Place> place = Place::From(*config);
  if (!place.ok() || !place->elastic || !CanClaim(*config)) return place;
  KF_RETURN_IF_ERROR(Advise(*config, CheckUnclaimed(config->socket_dir, place->self())));
  return place;
}

Peer* DefaultPeerIfStarted() { return global().forked ? nullptr : global().peer.load(); }

void ShutdownDefaultPeer() {
  Global& g = global();
  if (g.forked) return;
  g.down = true;  // a peer that has not started does not start any more
  if (Peer* peer = g.peer) peer->Shutdown();
}

}  // namespace kungfu
