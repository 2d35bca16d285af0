#include "ops/transport/socket/search.h"

#include <utility>

namespace kungfu {

Search::Search(EventLoop* loop, const AddressFamilies& families, const Credentials& credentials, const PeerId& remote,
               Found found)
    : loop_(loop),
      families_(families),
      credentials_(credentials),
      remote_(remote),
      found_(std::move(found)),
      pending_(families.size()) {
  LookLater();
}

Search::~Search() { loop_->CancelTimerOnLoop(timer_); }

void Search::LookLater() {
  timer_ = loop_->RunAtOnLoop(After(kInterval), [this] { Look(); });
}

// A process there that is no peer of ours, or does not answer, does not end the search.
void Search::Look() {
  LookLater();
  for (size_t i = 0; i < families_.size(); ++i) {
    if (pending_[i]) continue;
    StatusOr<UniqueFd> fd = families_[i]->Connect(remote_);
    if (!fd.ok()) continue;
    pending_[i] = std::make_unique<PendingConnection>(
        loop_, std::move(*fd), Handshake::Search(credentials_, remote_), After(kHandshakeTimeout),
        [this, i](const Status& status, UniqueFd, const PeerId&) {
          const std::unique_ptr<PendingConnection> over = std::move(pending_[i]);
          if (status.code() != Code::kInvalidArgument) return;
          loop_->CancelTimerOnLoop(timer_);
          pending_.clear();
          const Found found = std::move(found_);
          found(status);
        });
  }
}

}  // namespace kungfu
