#include "ops/collective/stall_watch.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

// Larger sessions ask only the peers of whom something is awaited.
constexpr int kAskAll = 64;

Clock::duration ToDuration(Seconds seconds) { return std::chrono::duration_cast<Clock::duration>(seconds); }

std::string Duration(double seconds) {
  std::ostringstream out;
  out.precision(3);
  out << seconds << " s";
  return out.str();
}

}  // namespace

StallWatch::StallWatch(EventLoop* loop, Router* router, const PeerList& peers, int rank, Seconds warning,
                       Seconds silence, GiveUp give_up)
    : loop_(loop),
      router_(router),
      peers_(peers),
      rank_(rank),
      warning_(warning),
      silence_(silence),
      give_up_(std::move(give_up)) {}

StallWatch::~StallWatch() {
  if (scheduled_) loop_->CancelTimerOnLoop(timer_);
}

void StallWatch::AddOnLoop(RunningOperation* operation, Seconds timeout) {
  KF_DCHECK(loop_->InLoop());
  Watched watched;
  watched.deadline = operation->started() + ToDuration(timeout);
  watched.next_ask = std::min(operation->started() + ToDuration(kPatience), watched.deadline);
  Schedule(watched.next_ask);
  watched_[operation] = watched;
}

void StallWatch::ProlongOnLoop(RunningOperation* operation, Seconds timeout) {
  KF_DCHECK(loop_->InLoop());
  const auto it = watched_.find(operation);
  if (it == watched_.end()) return;
  Watched& watched = it->second;
  watched.deadline = Clock::now() + ToDuration(timeout);
  watched.next_ask = std::min(Clock::now() + ToDuration(kPatience), watched.deadline);
  watched.asked = watched.expired = false;
  watched.first_asked = {};
  Schedule(watched.next_ask);
}

void StallWatch::RemoveOnLoop(RunningOperation* operation) {
  KF_DCHECK(loop_->InLoop());
  watched_.erase(operation);
}

void StallWatch::OnAnswerOnLoop(const PeerId& from, const OperationId& id, const Status& answer) {
  KF_DCHECK(loop_->InLoop());
  for (auto& [operation, watched] : watched_) {
    if (operation->id() == id) watched.answers[peers_.RankOf(from)] = answer;
  }
}

// One timer for all: operations that end in time, which is nearly all of them, cost none of their own.
void StallWatch::Schedule(Clock::time_point when) {
  if (scheduled_ && timer_.first <= when) return;
  if (scheduled_) loop_->CancelTimerOnLoop(timer_);
  scheduled_ = true;
  timer_ = loop_->RunAtOnLoop(when, [this] { TickOnLoop(); });
}

void StallWatch::TickOnLoop() {
  KF_DCHECK(loop_->InLoop());
  scheduled_ = false;
  const Clock::time_point now = Clock::now();
  std::vector<RunningOperation*> operations;
  for (const auto& [operation, watched] : watched_) operations.push_back(operation);
  for (RunningOperation* operation : operations) {
    const auto it = watched_.find(operation);
    if (it != watched_.end() && !operation->failed()) Check(operation, &it->second, now);
  }
  for (const auto& [operation, watched] : watched_) {
    if (!operation->failed()) Schedule(watched.next_ask);
  }
}

// Asks when it has taken long; speaks when the peers have had time to answer.
void StallWatch::Check(RunningOperation* operation, Watched* watched, Clock::time_point now) {
  if (now < watched->next_ask) return;
  const bool expired = now >= watched->deadline;
  if (!watched->asked || (expired && !watched->expired)) {
    Ask(operation, watched);
    watched->expired = expired;
    watched->next_ask = After(kPatience);
    return;
  }
  watched->asked = false;
  const double waited = SecondsSince(operation->started());
  if (watched->expired) {
    operation->FailOnLoop(DeadlineExceededError(operation->title() + " at rank " + std::to_string(rank_) + " after " +
                                                Duration(waited) + ": " + Missing(operation, *watched)),
                          /*tell=*/true);
    return;
  }
  const int silent = Silent(operation, *watched, now);
  if (silent >= 0) {
    give_up_(silent, UnavailableError("does not answer for " + Duration(silence_.count())));
    return;
  }
  const bool warn = !watched->warned && waited >= warning_.count();
  if (warn) {
    KF_LOG(WARNING) << operation->title() << " at rank " << rank_ << " has taken " << Duration(waited) << ": "
                    << Missing(operation, *watched);
  }
  watched->warned |= warn;
  const Clock::time_point next = watched->warned ? After(warning_) : operation->started() + ToDuration(warning_);
  watched->next_ask = std::min(std::max(next, now), watched->deadline);
}

void StallWatch::Ask(RunningOperation* operation, Watched* watched) {
  if (watched->first_asked == Clock::time_point{}) watched->first_asked = Clock::now();
  watched->asked = true;
  watched->answers.clear();
  std::vector<int> ranks = operation->AwaitedOnLoop();
  if (peers_.size() <= kAskAll) {
    ranks.clear();
    for (int rank = 0; rank < peers_.size(); ++rank) ranks.push_back(rank);
  }
  for (const int rank : ranks) {
    if (rank != rank_) router_->AskOnLoop(peers_[rank], operation->id(), operation->signature());
  }
}

int StallWatch::Silent(RunningOperation* operation, const Watched& watched, Clock::time_point now) const {
  for (const int rank : operation->AwaitedOnLoop()) {
    if (!router_->ConnectedOnLoop(peers_[rank])) continue;
    const Clock::time_point heard = std::max(router_->LastHeardOnLoop(peers_[rank]), watched.first_asked);
    if (now - heard > silence_) return rank;
  }
  return -1;
}

std::string StallWatch::MissingOnLoop() const {
  KF_DCHECK(loop_->InLoop());
  for (const auto& [operation, watched] : watched_) {
    if (!operation->AwaitedOnLoop().empty()) return Missing(operation, watched);
  }
  return "nobody";
}

std::string StallWatch::Missing(RunningOperation* operation, const Watched& watched) const {
  std::vector<int> awaited = operation->AwaitedOnLoop();
  std::string text;
  int named = 0;
  const auto name = [&](int rank, const std::string& what) {
    if (++named > 8) return;
    if (!text.empty()) text += "; ";
    text += "rank " + std::to_string(rank) + " (" + peers_[rank].ToString() + ") " + what;
  };
  for (const auto& [rank, answer] : watched.answers) {
    if (answer.code() == Code::kNotFound) name(rank, "has not called it and " + answer.message());
  }
  for (const int rank : awaited) {
    if (watched.answers.count(rank) == 0) name(rank, "does not answer");
  }
  if (named > 8) text += "; and " + std::to_string(named - 8) + " more";
  if (named > 0) return text;
  const bool of_neighbors = IsOfNeighbors(operation->signature().kind);
  for (const int rank : awaited) {
    name(rank, of_neighbors ? "has called it, and does not have this rank as a neighbour, or is slow"
                            : "has called it, and is slow");
  }
  return text.empty() ? "all peers have called it" : text;
}

}  // namespace kungfu
