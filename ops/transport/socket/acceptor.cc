#include "ops/transport/socket/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {

Acceptor::Acceptor(EventLoop* loop, AddressFamily* family, const Credentials& credentials, UniqueFd listening,
                   Callback accepted)
    : loop_(loop),
      family_(family),
      credentials_(credentials),
      listening_(std::move(listening)),
      accepted_(std::move(accepted)) {
  loop_->WatchOnLoop(listening_.get(), EPOLLIN, this);
}

Acceptor::~Acceptor() {
  if (pause_timer_.has_value()) loop_->CancelTimerOnLoop(*pause_timer_);
  loop_->UnwatchOnLoop(listening_.get());
  family_->StopListening();
}

void Acceptor::OnEventsOnLoop(uint32_t events) {
  KF_DCHECK(loop_->InLoop());
  for (int i = 0; i < kMaxAccepts; ++i) {
    UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.get() >= 0) {
      Admit(std::move(fd));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return Pause(errno);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    }
    // Any other error is of a connection that ended while it waited.
  }
}

void Acceptor::Pause(int error) {
  if (!starved_) {
    KF_LOG(WARNING) << family_->name() << ": " << credentials_.self.ToString()
                    << " cannot accept connections for now: " << std::strerror(error);
  }
  starved_ = true;
  loop_->ModifyOnLoop(listening_.get(), 0);
  pause_timer_ = loop_->RunAtOnLoop(After(kPause), [this] {
    pause_timer_.reset();
    loop_->ModifyOnLoop(listening_.get(), EPOLLIN);
  });
}

void Acceptor::Admit(UniqueFd fd) {
  starved_ = false;
  family_->Prepare(fd.get());
  if (pending_.size() == kMaxPending) DropOldest();
  const auto place = pending_.emplace(pending_.end());
  *place = std::make_unique<PendingConnection>(
      loop_, std::move(fd), Handshake::Server(credentials_), After(kHandshakeTimeout),
      [this, place](const Status& status, UniqueFd socket, const PeerId& peer) {
        pending_.erase(place);
        const Callback accepted = accepted_;
        if (status.ok()) return accepted(std::move(socket), peer);
        if (status.code() == Code::kInvalidArgument) return accepted(status, peer);
        KF_LOG(INFO) << family_->name() << ": a connection was turned away: " << status.ToString();
      });
}

void Acceptor::DropOldest() {
  const auto worthless = std::find_if(pending_.begin(), pending_.end(),
                                      [](const auto& connection) { return !connection->was_answered(); });
  KF_LOG(INFO) << family_->name() << ": " << kMaxPending << " connections wait for their handshake; one is closed";
  pending_.erase(worthless != pending_.end() ? worthless : pending_.begin());
}

}  // namespace kungfu
