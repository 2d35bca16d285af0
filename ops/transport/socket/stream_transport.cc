#include "ops/transport/socket/stream_transport.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ops/base/logging.h"
#include "ops/transport/socket/socket_pipe.h"
#include "ops/transport/socket/stream_connection.h"

namespace kungfu {

StreamTransport::StreamTransport(EventLoop* loop, std::unique_ptr<AddressFamily> family, AddressFamilies elsewhere,
                                 const Credentials& credentials, Agree agree)
    : loop_(loop),
      family_(std::move(family)),
      elsewhere_(std::move(elsewhere)),
      credentials_(credentials),
      agree_(std::move(agree)),
      scratch_(new ReadScratch) {}

Status StreamTransport::ListenOnLoop(AcceptCallback accept) {
  KF_DCHECK(loop_->InLoop());
  if (closed_) return CancelledError(std::string(name()) + ": the transport is closed");
  if (acceptor_) return FailedPreconditionError(std::string(name()) + ": it listens already");
  StatusOr<UniqueFd> listening = family_->Listen(credentials_.self);
  KF_RETURN_IF_ERROR(listening.status());
  acceptor_ =
      std::make_unique<Acceptor>(loop_, family_.get(), credentials_, std::move(*listening),
                                 [this, accept = std::move(accept)](StatusOr<UniqueFd> fd, const PeerId& remote) {
                                   Accept(std::move(fd), remote, accept);
                                 });
  return OkStatus();
}

void StreamTransport::Accept(StatusOr<UniqueFd> fd, const PeerId& remote, const AcceptCallback& accept) {
  const ConnectCallback take = [remote, accept](StatusOr<std::unique_ptr<Connection>> connection) {
    return accept(std::move(connection), remote);
  };
  if (!fd.ok()) {
    take(fd.status());
    return;
  }
  if (!agree_) return HandOver(PlainPipe(std::move(*fd)), remote, take);
  const auto place = accepted_.emplace(accepted_.end());
  *place = agree_(std::move(*fd), remote, /*opened_here=*/false, After(kHandshakeTimeout),
                  [this, place, remote, take](StatusOr<std::unique_ptr<FramePipe>> pipe) {
                    const std::unique_ptr<PipeAgreement> over = std::move(*place);
                    accepted_.erase(place);
                    if (pipe.ok()) return HandOver(std::move(*pipe), remote, take);
                    KF_LOG(INFO) << name() << ": no connection with " << remote.ToString() << ": "
                                 << pipe.status().ToString();
                  });
}

void StreamTransport::ConnectOnLoop(const PeerId& remote, Deadline deadline, ConnectCallback done) {
  KF_DCHECK(loop_->InLoop());
  if (closed_) {
    loop_->Post([done = std::move(done), name = name()] {
      done(CancelledError(std::string(name) + ": the transport is closed"));
    });
    return;
  }
  const auto attempt =
      attempts_.insert(attempts_.end(), {remote, deadline, std::move(done), nullptr, nullptr, nullptr});
  Try(attempt);
}

void StreamTransport::Try(Attempts::iterator attempt) {
  if (!elsewhere_.empty() && attempt->remote.host == credentials_.self.host) {
    attempt->search = std::make_unique<Search>(loop_, elsewhere_, credentials_, attempt->remote,
                                               [this, attempt](const Status& why) { End(attempt)(why); });
  }
  attempt->connector = std::make_unique<Connector>(loop_, family_.get(), credentials_, attempt->remote,
                                                   attempt->deadline, [this, attempt](StatusOr<UniqueFd> fd) {
                                                     if (fd.ok()) return AgreeOnOpened(attempt, std::move(*fd));
                                                     const Status status = fd.status();
                                                     End(attempt)(status);
                                                   });
}

void StreamTransport::AgreeOnOpened(Attempts::iterator attempt, UniqueFd fd) {
  const PeerId remote = attempt->remote;
  if (!agree_) return HandOver(PlainPipe(std::move(fd)), remote, End(attempt));
  attempt->search.reset();
  attempt->connector.reset();  // its deadline is not that of the agreement
  const Deadline deadline = std::min(attempt->deadline, After(kHandshakeTimeout));
  attempt->agreement = agree_(std::move(fd), remote, /*opened_here=*/true, deadline,
                              [this, attempt](StatusOr<std::unique_ptr<FramePipe>> pipe) {
                                const std::unique_ptr<PipeAgreement> over = std::move(attempt->agreement);
                                const PeerId remote = attempt->remote;
                                if (pipe.ok()) return HandOver(std::move(*pipe), remote, End(attempt));
                                const bool passes = pipe.status().code() == Code::kUnavailable;
                                if (passes && Clock::now() < attempt->deadline) return Try(attempt);
                                const std::string what = remote.ToString() + ": " + pipe.status().message();
                                End(attempt)(Status(passes ? Code::kDeadlineExceeded : pipe.status().code(), what));
                              });
}

ConnectCallback StreamTransport::End(Attempts::iterator attempt) {
  ConnectCallback done = std::move(attempt->done);
  attempts_.erase(attempt);
  return done;
}

std::unique_ptr<FramePipe> StreamTransport::PlainPipe(UniqueFd fd) {
  return std::make_unique<SocketPipe>(loop_, name(), std::move(fd), scratch_);
}

void StreamTransport::HandOver(std::unique_ptr<FramePipe> pipe, const PeerId& remote, const ConnectCallback& take) {
  const auto stream = std::make_shared<Stream>(loop_, std::move(pipe), remote, family_->liveness());
  std::unique_ptr<Connection> connection = std::make_unique<StreamConnection>(stream);
  Connection* const address = connection.get();
  ConnectionHandler* const handler = take(std::move(connection));
  stream->StartOnLoop(address, handler);
}

void StreamTransport::CloseOnLoop() {
  KF_DCHECK(loop_->InLoop());
  closed_ = true;
  acceptor_.reset();
  accepted_.clear();
  for (Attempt& attempt : std::exchange(attempts_, {})) {
    loop_->Post([done = std::move(attempt.done), name = name()] {
      done(CancelledError(std::string(name) + ": the transport was closed"));
    });
  }
}

}  // namespace kungfu
