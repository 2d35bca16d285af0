#include "ops/transport/socket/stream_transport.h"

#include <utility>

#include "ops/base/logging.h"
#include "ops/transport/socket/stream_connection.h"

namespace kungfu {

StreamTransport::StreamTransport(EventLoop* loop, std::unique_ptr<AddressFamily> family, const Credentials& credentials)
    : loop_(loop), family_(std::move(family)), credentials_(credentials), scratch_(new ReadScratch) {}

Status StreamTransport::ListenOnLoop(AcceptCallback accept) {
  KF_DCHECK(loop_->InLoop());
  if (closed_) return CancelledError(std::string(name()) + ": the transport is closed");
  if (acceptor_) return FailedPreconditionError(std::string(name()) + ": it listens already");
  StatusOr<UniqueFd> listening = family_->Listen(credentials_.self);
  KF_RETURN_IF_ERROR(listening.status());
  acceptor_ = std::make_unique<Acceptor>(loop_, family_.get(), credentials_, std::move(*listening),
                                         [this, accept = std::move(accept)](UniqueFd fd, const PeerId& remote) {
                                           HandOver(std::move(fd), remote, accept);
                                         });
  return OkStatus();
}

void StreamTransport::ConnectOnLoop(const PeerId& remote, Deadline deadline, ConnectCallback done) {
  KF_DCHECK(loop_->InLoop());
  if (closed_) {
    loop_->Post([done = std::move(done), name = name()] {
      done(CancelledError(std::string(name) + ": the transport is closed"));
    });
    return;
  }
  const auto attempt = attempts_.insert(attempts_.end(), {nullptr, std::move(done)});
  attempt->connector = std::make_unique<Connector>(loop_, family_.get(), credentials_, remote, deadline,
                                                   [this, attempt, remote](StatusOr<UniqueFd> fd) {
                                                     const ConnectCallback done = std::move(attempt->done);
                                                     attempts_.erase(attempt);
                                                     if (fd.ok()) {
                                                       HandOver(std::move(*fd), remote, done);
                                                     } else {
                                                       done(fd.status());
                                                     }
                                                   });
}

template <typename Take>
void StreamTransport::HandOver(UniqueFd fd, const PeerId& remote, const Take& take) {
  const auto stream = std::make_shared<Stream>(loop_, std::move(fd), remote, family_->liveness(), scratch_);
  std::unique_ptr<Connection> connection = std::make_unique<StreamConnection>(stream, name());
  Connection* const address = connection.get();
  ConnectionHandler* const handler = take(std::move(connection));
  stream->StartOnLoop(address, handler);
}

void StreamTransport::CloseOnLoop() {
  KF_DCHECK(loop_->InLoop());
  closed_ = true;
  acceptor_.reset();
  for (Attempt& attempt : std::exchange(attempts_, {})) {
    loop_->Post([done = std::move(attempt.done), name = name()] {
      done(CancelledError(std::string(name) + ": the transport was closed"));
    });
  }
}

}  // namespace kungfu
