#include "ops/peer/default_arena.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "ops/base/logging.h"
#include "ops/peer/config.h"
#include "ops/plan/peer_list.h"

namespace kungfu {
namespace {

// More than half of the machine's memory would not be there when it is wanted.
uint64_t HalfOfMemory() { return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 2; }

// Some may come later.
bool HasNeighbours(const Config& config) {
  if (config.membership != "static") return true;
  const StatusOr<PeerId> self = PeerId::Parse(config.self);
  const StatusOr<PeerList> peers = PeerList::Parse(config.peers);
  if (!self.ok() || !peers.ok()) return false;
  const int rank = peers->RankOf(*self);
  return rank >= 0 && peers->LocalSize(rank) > 1;
}

Arena* MakeArena() {
  const StatusOr<Config> config = Config::FromEnvironment();  // the peer reports the fault
  if (!config.ok() || !config->SharesMemory() || !HasNeighbours(*config)) return nullptr;
  StatusOr<std::unique_ptr<Arena>> arena =
      Arena::Create(std::min<uint64_t>(static_cast<uint64_t>(config->arena_bytes), HalfOfMemory()));
  if (arena.ok()) return arena->release();
  KF_LOG(WARNING) << "nothing is shared with the host's other peers: " << arena.status().message();
  return nullptr;
}

std::atomic<Arena*> made{nullptr};

}  // namespace

Arena* DefaultArena() {
  static Arena* const arena = made = MakeArena();
  return arena;
}

Arena* DefaultArenaIfMade() { return made; }

}  // namespace kungfu
