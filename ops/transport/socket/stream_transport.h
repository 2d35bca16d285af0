// The transport over stream sockets, of whichever address family.

#pragma once

#include <list>
#include <memory>

#include "ops/transport/handshake.h"
#include "ops/transport/socket/acceptor.h"
#include "ops/transport/socket/address_family.h"
#include "ops/transport/socket/connector.h"
#include "ops/transport/socket/frame_reader.h"
#include "ops/transport/transport.h"

namespace kungfu {

// Event loop only, but for the constructor. Destroying it closes it, and calls nobody.
class StreamTransport : public Transport {
 public:
  StreamTransport(EventLoop* loop, std::unique_ptr<AddressFamily> family, const Credentials& credentials);

  const char* name() const override { return family_->name(); }
  Status ListenOnLoop(AcceptCallback accept) override;
  void ConnectOnLoop(const PeerId& remote, Deadline deadline, ConnectCallback done) override;
  void CloseOnLoop() override;

 private:
  struct Attempt {
    std::unique_ptr<Connector> connector;
    ConnectCallback done;
  };

  // Gives the connection to `take`, and its frames to the handler that it returns. `take` may destroy this object.
  template <typename Take>
  void HandOver(UniqueFd fd, const PeerId& remote, const Take& take);

  EventLoop* const loop_;
  const std::unique_ptr<AddressFamily> family_;
  const Credentials credentials_;
  const std::shared_ptr<ReadScratch> scratch_;
  std::unique_ptr<Acceptor> acceptor_;
  std::list<Attempt> attempts_;
  bool closed_ = false;
};

}  // namespace kungfu
