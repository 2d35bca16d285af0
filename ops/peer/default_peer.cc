#include "ops/peer/default_peer.h"

#include <pthread.h>

#include <atomic>
#include <memory>

#include "ops/base/mutex.h"
#include "ops/peer/default_arena.h"

namespace kungfu {
namespace {

// Never destroyed: threads of the program may call us until the process ends.
struct Global {
  Mutex mu;
  std::unique_ptr<Peer> owner GUARDED_BY(mu);
  std::atomic<Peer*> peer{nullptr};
  std::atomic<bool> forked{false};  // this is a child's copy
  std::atomic<bool> down{false};
};

Global& global() {
  static auto* instance = new Global;
  return *instance;
}

StatusOr<Peer*> Usable(Peer* peer) {
  Global& g = global();
  if (g.forked) {
    return FailedPreconditionError(
        "this process was forked from a peer and is none: start it anew (spawn) to use "
        "kungfu_tf in it");
  }
  if (g.down) return FailedPreconditionError("this peer has shut down");
  return peer;
}

}  // namespace

StatusOr<Peer*> DefaultPeer() {
  Global& g = global();
  if (Peer* peer = g.peer) return Usable(peer);
  MutexLock lock(&g.mu);
  Peer* const started = g.peer;
  if (started || g.down) return Usable(started);
  StatusOr<Config> config = Config::FromEnvironment();
  if (!config.ok()) return config.status();
  StatusOr<std::unique_ptr<Peer>> peer = Peer::Start(*config, DefaultArena());
  if (!peer.ok()) return peer.status();
  g.owner = std::move(*peer);
  pthread_atfork(nullptr, nullptr, [] { global().forked = true; });
  g.peer = g.owner.get();
  if (g.down) g.owner->Shutdown();  // meanwhile
  return Usable(g.owner.get());
}

Peer* DefaultPeerIfStarted() { return global().forked ? nullptr : global().peer.load(); }

void ShutdownDefaultPeer() {
  Global& g = global();
  if (g.forked) return;
  g.down = true;  // a peer that has not started does not start any more
  if (Peer* peer = g.peer) peer->Shutdown();
}

}  // namespace kungfu
