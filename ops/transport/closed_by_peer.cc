#include "ops/transport/closed_by_peer.h"

#include "ops/base/docs_link.h"

namespace kungfu {

Status ClosedByPeer() { return UnavailableError(Linked("connection-closed", "connection closed by peer")); }

}  // namespace kungfu
