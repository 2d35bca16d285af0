// The transport over stream sockets, of whichever address family.

#pragma once

#include <functional>
#include <list>
#include <memory>

#include "ops/transport/handshake.h"
#include "ops/transport/socket/acceptor.h"
#include "ops/transport/socket/address_family.h"
#include "ops/transport/socket/connector.h"
#include "ops/transport/socket/frame_pipe.h"
#include "ops/transport/socket/frame_reader.h"
#include "ops/transport/socket/search.h"
#include "ops/transport/transport.h"

namespace kungfu {

// The agreement of two peers over an authenticated socket before it carries frames. Destroying it gives up and makes no
// calls.
class PipeAgreement {
 public:
  // Called once, from the loop, never inside the call that began it; may destroy the agreement. kUnavailable: it may
  // be tried again with another socket.
  using Callback = std::function<void(StatusOr<std::unique_ptr<FramePipe>>)>;
  virtual ~PipeAgreement() = default;
};

// Event loop only, but for the constructor. Destroying it closes it, and makes no calls.
class StreamTransport : public Transport {
 public:
  // Begins an agreement over a socket that leads to `remote`, and was opened here or there. At `deadline` it fails.
  using Agree = std::function<std::unique_ptr<PipeAgreement>(UniqueFd socket, const PeerId& remote, bool opened_here,
                                                             Deadline deadline, PipeAgreement::Callback done)>;

  // `elsewhere`: where peers of our host may be that were told to look for us at another place than `family`'s
  // (Search). `agree` may be null: the sockets themselves carry the frames.
  StreamTransport(EventLoop* loop, std::unique_ptr<AddressFamily> family, AddressFamilies elsewhere,
                  const Credentials& credentials, Agree agree = nullptr);

  const char* name() const override { return family_->name(); }
  Status ListenOnLoop(AcceptCallback accept) override;
  void ConnectOnLoop(const PeerId& remote, Deadline deadline, ConnectCallback done) override;
  void CloseOnLoop() override;

 private:
  struct Attempt {
    const PeerId remote;
    const Deadline deadline;
    ConnectCallback done;
    std::unique_ptr<Connector> connector;
    std::unique_ptr<Search> search;
    std::unique_ptr<PipeAgreement> agreement;
  };
  using Attempts = std::list<Attempt>;

  void Try(Attempts::iterator attempt);
  void AgreeOnOpened(Attempts::iterator attempt, UniqueFd fd);
  void Accept(StatusOr<UniqueFd> fd, const PeerId& remote, const AcceptCallback& accept);
  ConnectCallback End(Attempts::iterator attempt);
  std::unique_ptr<FramePipe> PlainPipe(UniqueFd fd);
  // Gives the connection to `take`, and its frames to the handler that it returns. `take` may destroy this object.
  void HandOver(std::unique_ptr<FramePipe> pipe, const PeerId& remote, const ConnectCallback& take);

  EventLoop* const loop_;
  const std::unique_ptr<AddressFamily> family_;
  const AddressFamilies elsewhere_;
  const Credentials credentials_;
  const Agree agree_;
  const std::shared_ptr<ReadScratch> scratch_;
  std::unique_ptr<Acceptor> acceptor_;
  Attempts attempts_;
  std::list<std::unique_ptr<PipeAgreement>> accepted_;  // that are settling
  bool closed_ = false;
};

}  // namespace kungfu
