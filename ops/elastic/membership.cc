#include "ops/elastic/membership.h"

#include <string>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {

Announcements::~Announcements() {
  for (const Waiting& one : waiting_) loop_->CancelTimerOnLoop(one.timer);
}

void Announcements::AnnounceOnLoop(const Membership& membership) {
  KF_DCHECK(loop_->InLoop());
  if (membership.version <= newest_.version) return;
  newest_ = membership;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto one = next++;
    if (one->version <= newest_.version) Finish(one, newest_);
  }
}

void Announcements::WhenKnownOnLoop(uint32_t version, std::optional<Seconds> patience, Known known) {
  KF_DCHECK(loop_->InLoop());
  if (version <= newest_.version) return known(newest_);
  if (!failed_.ok()) return known(failed_);
  const auto one = waiting_.insert(waiting_.end(), {version, {}, std::move(known)});
  if (!patience) return;
  one->timer = loop_->RunAtOnLoop(After(*patience), [this, one] {
    Finish(one, DeadlineExceededError("the runner has not announced membership " + std::to_string(one->version)));
  });
}

void Announcements::FailOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  failed_ = why;
  while (!waiting_.empty()) Finish(waiting_.begin(), why);
}

void Announcements::Finish(std::list<Waiting>::iterator waiting, const StatusOr<Membership>& membership) {
  loop_->CancelTimerOnLoop(waiting->timer);
  const Known known = std::move(waiting->known);
  waiting_.erase(waiting);
  known(membership);
}

}  // namespace kungfu
