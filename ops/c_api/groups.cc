#include <memory>
#include <vector>

#include "ops/c_api/convert.h"
#include "ops/c_api/kungfu.h"
#include "ops/c_api/last_error.h"
#include "ops/peer/default_peer.h"

using kungfu::Peer;
using kungfu::Session;
using kungfu::StatusOr;

namespace {

int Ask(uint64_t group, int (Session::*question)() const) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  const StatusOr<std::shared_ptr<Session>> session =
      peer.ok() ? (*peer)->SessionOf(group) : StatusOr<std::shared_ptr<Session>>(peer.status());
  if (session.ok()) return (**session.*question)();
  kungfu::SetLastError(session.status());
  return -1;
}

}  // namespace

void kungfu_add_group(const int32_t* ranks, int num_ranks, uint64_t* group, kungfu_done done, void* arg) {
  const kungfu::StatusCallback end = kungfu::Telling(done, arg);
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return end(peer.status());
  (*peer)->AddGroup(std::vector<int>(ranks, ranks + num_ranks), [group, end](const StatusOr<uint64_t>& number) {
    if (number.ok()) *group = *number;
    end(number.status());
  });
}

void kungfu_remove_group(uint64_t group) {
  if (Peer* const peer = kungfu::DefaultPeerIfStarted()) peer->RemoveGroup(group);
}

int kungfu_group_rank(uint64_t group) { return Ask(group, &Session::rank); }

int kungfu_group_size(uint64_t group) { return Ask(group, &Session::size); }
