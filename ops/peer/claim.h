// Which process is the peer: all that it starts inherit its environment, and only one can be.
//
// The claim is a lock on a file beside the peer's sockets. The kernel knows its holder, and ends it with the process.

#pragma once

#include <string>

#include "ops/base/status.h"
#include "ops/base/unique_fd.h"
#include "ops/plan/peer_id.h"

namespace kungfu {

// Claims the place of `self` as long as the descriptor is open. kFailedPrecondition: another process has it; the
// message says how the two are related. A directory that does not exist yet, or cannot be written, is no obstacle: the
// descriptor is none then.
StatusOr<UniqueFd> ClaimPlace(const std::string& directory, const PeerId& self);

// The same error if another process has claimed it. REQUIRES: this process has not, as it would lose its claim.
Status CheckUnclaimed(const std::string& directory, const PeerId& self);

}  // namespace kungfu
