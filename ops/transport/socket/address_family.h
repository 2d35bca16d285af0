// The differences between kinds of stream sockets: the address of a peer, and the options of its sockets.

#pragma once

#include <memory>
#include <vector>

#include "ops/base/status.h"
#include "ops/base/unique_fd.h"
#include "ops/plan/peer_id.h"

namespace kungfu {

// Whether the other side of a connection still answers, as the system sees it: an error if it does not.
using LivenessCheck = Status (*)(int fd);

// Every socket that it makes is non-blocking and closed on exec. Event loop only.
class AddressFamily {
 public:
  virtual ~AddressFamily() = default;

  virtual const char* name() const = 0;
  // Listens where the others look for `self`. Errors name the address, and the remedy.
  virtual StatusOr<UniqueFd> Listen(const PeerId& self) = 0;
  // Removes what Listen has left outside of its socket. The socket is closed after that: as long as it listens, no
  // other process takes its place.
  virtual void StopListening() = 0;
  // Sets the options of a connection that was accepted.
  virtual void Prepare(int fd) = 0;
  // To be asked once a second of every connection; null where the system always tells by itself.
  virtual LivenessCheck liveness() const = 0;
  // A socket with its options, that is connected or will be: then it becomes writable, or has an error.
  // kInvalidArgument: there can be none, ever. Other errors may pass.
  virtual StatusOr<UniqueFd> Connect(const PeerId& remote) = 0;
};

using AddressFamilies = std::vector<std::unique_ptr<AddressFamily>>;

}  // namespace kungfu
