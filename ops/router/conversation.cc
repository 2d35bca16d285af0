#include "ops/router/conversation.h"

#include <algorithm>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {

Conversation::Conversation(Router* router, const PeerList& ranks, OperationId id, const Signature& signature,
                           ConversationHandler* handler)
    : router_(router),
      ranks_(ranks),
      id_(std::move(id)),
      signature_(signature),
      handler_(handler),
      sends_(std::make_shared<Sends>()) {
  sends_->in_flight.resize(ranks.size());
}

Conversation::~Conversation() {
  sends_->open = false;
  if (opened_) router_->mailbox_.Close(id_);
}

std::unique_ptr<Mailbox::Mismatch> Conversation::OpenOnLoop() {
  KF_DCHECK(router_->loop_->InLoop());
  opened_ = true;
  return router_->mailbox_.Open(id_, signature_, handler_);
}

std::string Conversation::NameOf(int rank) const {
  return "rank " + std::to_string(rank) + " (" + ranks_[rank].ToString() + ")";
}

void Conversation::SendOnLoop(int to, uint32_t part, Payload payload, StatusCallback done) {
  KF_DCHECK(router_->loop_->InLoop());
  ++sends_->in_flight[to];
  ++sends_->total;
  router_->LinkTo(ranks_[to])
      ->SendOnLoop({id_.epoch, id_.number, id_.name, part}, signature_, std::move(payload),
                   [sends = sends_, this, to, done = std::move(done)](const Status& status) {
                     --sends->in_flight[to];
                     --sends->total;
                     if (sends->open) {
                       done(status.ok() ? status : status.WithContext("to " + NameOf(to)));
                     } else if (sends->total == 0 && sends->closed) {
                       std::exchange(sends->closed, nullptr)();
                     }
                   });
}

bool Conversation::ReceiveOnLoop(int from, uint32_t part, uint64_t size, Sink* sink, StatusCallback done) {
  KF_DCHECK(router_->loop_->InLoop());
  const PeerId& peer = ranks_[from];
  auto named = [done = std::move(done), this, from](const Status& status) {
    done(status.ok() ? status : status.WithContext("from " + NameOf(from)));
  };
  if (router_->mailbox_.Receive(id_, peer, part, size, sink, std::move(named))) return true;
  const Status lost = router_->peers_[peer].lost;
  if (!lost.ok()) {
    router_->LaterOnLoop([router = router_, peer, lost] { router->mailbox_.PeerLost(peer, lost); });
  }
  return false;
}

void Conversation::CountInMemoryOnLoop(int rank, uint64_t bytes) {
  KF_DCHECK(router_->loop_->InLoop());
  router_->peers_[ranks_[rank]].in_memory += bytes;
}

std::vector<int> Conversation::AwaitedOnLoop() const {
  KF_DCHECK(router_->loop_->InLoop());
  std::vector<int> ranks;
  for (const PeerId& peer : router_->mailbox_.Awaited(id_)) ranks.push_back(ranks_.RankOf(peer));
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (sends_->in_flight[rank] > 0) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void Conversation::CloseOnLoop(Seconds grace, std::function<void()> closed) {
  KF_DCHECK(router_->loop_->InLoop());
  if (opened_) {
    router_->mailbox_.Close(id_);
  } else {
    router_->mailbox_.Refuse(id_);
  }
  opened_ = false;
  sends_->open = false;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (sends_->in_flight[rank] > 0) router_->LinkTo(ranks_[rank])->WithdrawOnLoop(id_);
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
