// The one peer of this process: the only global of the core.

#pragma once

#include "ops/base/status.h"
#include "ops/peer/peer.h"

namespace kungfu {

// Starts the peer out of the environment at the first call. The next call tries a failed start again.
// kFailedPrecondition after ShutdownDefaultPeer, and in a process that was forked from a peer: it has no threads.
StatusOr<Peer*> DefaultPeer();

// The peer, if it was started; also after its shutdown.
Peer* DefaultPeerIfStarted();

void ShutdownDefaultPeer();

}  // namespace kungfu
