#include "ops/collective/pinger.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {

void Pinger::PingOnLoop(const Questions& questions, Deadline deadline, Done done) {
  KF_DCHECK(loop_->InLoop());
  const size_t size = peers_.size();
  const uint64_t number = next_++;
  Round& round = rounds_.emplace_back();
  round.number = number;
  round.questions = questions;
  round.best.assign(size, std::numeric_limits<double>::infinity());
  round.best[rank_] = 0;
  round.left.assign(size, 0);
  round.asked.resize(size);
  round.waiting = static_cast<int>(questions.ranks.size());
  round.done = std::move(done);
  round.timer = loop_->RunAtOnLoop(round.waiting > 0 ? deadline : Clock::now(), [this, number] { Finish(number); });
  for (const int rank : questions.ranks) {
    round.left[rank] = questions.times * questions.at_once;
    Ask(&round, rank);
  }
}

void Pinger::Ask(Round* round, int rank) {
  round->asked[rank] = Clock::now();
  for (int i = 0; i < round->questions.at_once; ++i) {
    router_->AskOnLoop(peers_[rank], {epoch_, round->number, name_}, Signature{}, round->questions.filler);
  }
}

bool Pinger::OnAnswerOnLoop(const PeerId& from, const OperationId& id) {
  KF_DCHECK(loop_->InLoop());
  if (id.name != name_) return false;
  const int rank = peers_.RankOf(from);
  const auto round =
      std::find_if(rounds_.begin(), rounds_.end(), [&](const Round& one) { return one.number == id.number; });
  if (rank < 0 || round == rounds_.end() || round->left[rank] == 0) return true;
  if (--round->left[rank] % round->questions.at_once != 0) return true;
  round->best[rank] = std::min(round->best[rank], SecondsSince(round->asked[rank]));
  if (round->left[rank] > 0) {
    Ask(&*round, rank);
  } else if (--round->waiting == 0) {
    Finish(round->number);
  }
  return true;
}

void Pinger::CloseOnLoop() {
  KF_DCHECK(loop_->InLoop());
  while (!rounds_.empty()) Finish(rounds_.front().number);
}

void Pinger::Finish(uint64_t number) {
  const auto round =
      std::find_if(rounds_.begin(), rounds_.end(), [&](const Round& one) { return one.number == number; });
  loop_->CancelTimerOnLoop(round->timer);
  const Round over = std::move(*round);
  rounds_.erase(round);
  over.done(over.best);
}

}  // namespace kungfu
