// The one peer of this process: the only global of the core.

#pragma once

#include "ops/base/status.h"
#include "ops/peer/peer.h"
#include "ops/peer/place.h"

namespace kungfu {

// Starts the peer out of the environment at the first call. A start that failed is tried again by the next call.
// kFailedPrecondition after ShutdownDefaultPeer; in a process that was forked from a peer, as the threads are not
// there; and where another process is the peer of this environment.
StatusOr<Peer*> DefaultPeer();

// Where this process stands among the peers. Starts no peer: without one the environment says so, and in a process that
// was forked from a peer what was known then. kFailedPrecondition after ShutdownDefaultPeer; and where another process
// is the peer and memberships change, of which this one does not hear.
StatusOr<Place> DefaultPlace();

// The peer, if it was started; also after its shutdown.
Peer* DefaultPeerIfStarted();

void ShutdownDefaultPeer();

}  // namespace kungfu
