// Unix sockets: between peers of one host, in a directory that belongs to their user alone.

#pragma once

#include <string>

#include "ops/transport/socket/address_family.h"

namespace kungfu {

// The peer with port p listens on `<directory>/p.<name>`. The file goes with the listening socket; one that a killed
// process has left is replaced.
class UnixFamily : public AddressFamily {
 public:
  // The directory is made if it is missing, with mode 0700. One that others can write to is refused: they could put
  // their socket in the place of ours. `name` is a literal: of the transport that uses the sockets.
  explicit UnixFamily(std::string directory, const char* name = "unix")
      : directory_(std::move(directory)), name_(name) {}

  const char* name() const override { return name_; }
  StatusOr<UniqueFd> Listen(const PeerId& self) override;
  void StopListening() override;
  void Prepare(int) override {}
  LivenessCheck liveness() const override { return nullptr; }
  StatusOr<UniqueFd> Connect(const PeerId& remote) override;

 private:
  Status CheckDirectory() const;
  std::string PathOf(const PeerId& peer) const { return directory_ + "/" + std::to_string(peer.port) + "." + name_; }

  const std::string directory_;
  const char* const name_;
  std::string path_;  // where we listen
};

}  // namespace kungfu
