#include "ops/transport/socket/connector.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

namespace kungfu {

Connector::Connector(EventLoop* loop, AddressFamily* family, const Credentials& credentials, const PeerId& remote,
                     Deadline deadline, Callback done)
    : loop_(loop),
      family_(family),
      credentials_(credentials),
      remote_(remote),
      deadline_(deadline),
      done_(std::move(done)) {
  Try();
}

Connector::~Connector() {
  if (timer_.has_value()) loop_->CancelTimerOnLoop(*timer_);
}

void Connector::Try() {
  StatusOr<UniqueFd> fd = family_->Connect(remote_);
  if (!fd.ok()) return OnFailure(fd.status());
  pending_ = std::make_unique<PendingConnection>(loop_, std::move(*fd), Handshake::Client(credentials_, remote_),
                                                 std::min(deadline_, After(kHandshakeTimeout)),
                                                 [this](const Status& status, UniqueFd socket, const PeerId&) {
                                                   if (status.ok()) return Finish(std::move(socket));
                                                   OnFailure(status);
                                                 });
}

void Connector::OnFailure(const Status& status) {
  pending_.reset();
  if (status.code() == Code::kPermissionDenied || status.code() == Code::kInvalidArgument) {
    return RunAt(Clock::now(), [this, status] { Finish(status); });
  }
  const Deadline next = After(backoff_);
  if (next < deadline_) {
    backoff_ = std::min(2 * backoff_, kLongestBackoff);
    return RunAt(next, [this] { Try(); });
  }
  RunAt(deadline_, [this, status] {
    std::ostringstream text;
    text << "cannot connect to " << remote_.ToString() << " over " << family_->name() << " within "
         << std::setprecision(3) << SecondsSince(start_) << " s: " << status.message();
    Finish(DeadlineExceededError(text.str()));
  });
}

void Connector::RunAt(Deadline when, std::function<void()> task) {
  timer_ = loop_->RunAtOnLoop(when, [this, task = std::move(task)] {
    timer_.reset();
    task();
  });
}

void Connector::Finish(StatusOr<UniqueFd> result) {
  const Callback done = std::move(done_);
  done(std::move(result));
}

}  // namespace kungfu
