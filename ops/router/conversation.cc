#include "ops/router/conversation.h"

#include <algorithm>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {

Conversation::Conversation(Router* router, const PeerList& ranks, OperationId id, const Signature& signature,
                           ConversationHandler* handler)
    : router_(router), ranks_(ranks), handler_(handler), sends_(std::make_shared<Sends>()) {
  header_.tag = {std::move(id), 0};
  header_.signature = signature;
  sends_->in_flight.resize(ranks.size());
}

Conversation::~Conversation() {
  sends_->open = false;
  CloseBox();
}

void Conversation::CloseBox() {
  if (box_) router_->mailbox_.Close(std::exchange(box_, nullptr));
}

std::unique_ptr<Mailbox::Mismatch> Conversation::OpenOnLoop() {
  KF_DCHECK(router_->loop_->InLoop());
  Mailbox& mailbox = router_->mailbox_;
  box_ = box_ ? mailbox.Reopen(box_, id().number, signature().step) : mailbox.Open(id(), signature(), this);
  is_open_ = true;
  return mailbox.FindMismatch(*box_);
}

void Conversation::EndOnLoop() {
  KF_DCHECK(router_->loop_->InLoop());
  KF_DCHECK(sends_->open && sends_->total == 0);
  router_->mailbox_.Rest(box_);
  is_open_ = false;
}

void Conversation::RepeatOnLoop(uint64_t number, uint64_t step) {
  KF_DCHECK(router_->loop_->InLoop());
  KF_DCHECK(!is_open_);
  header_.tag.number = number;
  header_.signature.step = step;
}

void Conversation::OnMismatchOnLoop(const PeerId& from, const std::string& difference) {
  handler_->OnMismatchOnLoop(from, difference);
}

Status Conversation::LossOnLoop(const PeerId& from, const Status& why) const {
  return why.WithContext("from " + NameOf(ranks_.RankOf(from)));
}

std::string Conversation::NameOf(int rank) const {
  return "rank " + std::to_string(rank) + " (" + ranks_[rank].ToString() + ")";
}

bool Conversation::SendOnLoop(int to, uint32_t part, Payload payload, StatusCallback done) {
  KF_DCHECK(router_->loop_->InLoop());
  header_.tag.part = part;
  header_.payload_size = TotalSize(payload);
  StatusCallback* const place = router_->LinkTo(ranks_[to])->SendOnLoop(header_, std::move(payload));
  if (place == nullptr) return true;
  ++sends_->in_flight[to];
  ++sends_->total;
  *place = [sends = sends_, this, to, done = std::move(done)](const Status& status) {
    --sends->in_flight[to];
    --sends->total;
    if (sends->open) {
      done(status.ok() ? status : status.WithContext("to " + NameOf(to)));
    } else if (sends->total == 0 && sends->closed) {
      std::exchange(sends->closed, nullptr)();
    }
  };
  return false;
}

bool Conversation::ReceiveOnLoop(int from, uint32_t part, uint64_t size, Sink* sink, StatusCallback done) {
  KF_DCHECK(router_->loop_->InLoop());
  const PeerId& peer = ranks_[from];
  if (router_->mailbox_.Receive(box_, peer, part, size, sink, std::move(done))) return true;
  const Status lost = router_->peers_[peer].lost;
  if (!lost.ok()) {
    router_->LaterOnLoop([router = router_, peer, lost] { router->mailbox_.PeerLost(peer, lost); });
  }
  return false;
}

bool Conversation::HasMessagesOnLoop() const {
  KF_DCHECK(router_->loop_->InLoop());
  return box_ && router_->mailbox_.HasAny(*box_);
}

uint64_t Conversation::LossesOnLoop() const {
  KF_DCHECK(router_->loop_->InLoop());
  return router_->mailbox_.losses();
}

void Conversation::CountInMemoryOnLoop(int rank, uint64_t bytes) {
  KF_DCHECK(router_->loop_->InLoop());
  if (in_memory_.empty()) in_memory_.resize(ranks_.size());
  uint64_t*& count = in_memory_[rank];
  if (!count) count = &router_->peers_[ranks_[rank]].in_memory;  // it stays as long as the epoch
  *count += bytes;
}

std::vector<int> Conversation::AwaitedOnLoop() const {
  KF_DCHECK(router_->loop_->InLoop());
  std::vector<int> ranks;
  if (box_) {
    for (const PeerId& peer : router_->mailbox_.Awaited(*box_)) ranks.push_back(ranks_.RankOf(peer));
  }
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (sends_->in_flight[rank] > 0) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void Conversation::CloseOnLoop(Seconds grace, std::function<void()> closed) {
  KF_DCHECK(router_->loop_->InLoop());
  CloseBox();
  if (!std::exchange(is_open_, false)) router_->mailbox_.Refuse(id());
  sends_->open = false;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (sends_->in_flight[rank] > 0) router_->LinkTo(ranks_[rank])->WithdrawOnLoop(id());
  }
  if (sends_->total == 0) {
    router_->loop_->Post(std::move(closed));
    return;
  }
  sends_->closed = std::move(closed);
  Watch(router_, sends_, ranks_.peers(), grace, {});
}

// Gives up peers that have taken nothing of their messages since the last look.
void Conversation::Watch(Router* router, const std::shared_ptr<Sends>& sends, const std::vector<PeerId>& peers,
                         Seconds grace, const std::vector<uint64_t>& before) {
  std::vector<uint64_t> sent(peers.size());
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    if (sends->in_flight[rank] == 0) continue;
    sent[rank] = router->BytesSentOnLoop(peers[rank]);
    if (!before.empty() && sent[rank] == before[rank]) {
      router->GiveUpOnLoop(peers[rank], UnavailableError("takes no data any more"));
    }
  }
  if (sends->total == 0) return;
  router->AfterOnLoop(grace, [=] { Watch(router, sends, peers, grace, sent); });
}

}  // namespace kungfu
