#include "ops/store/keeper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/router/copy_sink.h"
#include "ops/router/pull.h"

namespace kungfu {

Keeper::Keeper(Router* router, BlobStore* store, std::function<void(const std::string& queue)> taken)
    : router_(router), store_(store), taken_(std::move(taken)) {}

void Keeper::OnPullOnLoop(const PeerId& asker, const FrameHeader& pull) {
  Waiting waiting;
  waiting.id = IdOf(pull.tag);
  waiting.query.name = pull.tag.name;
  if (pull.signature.step > 0) waiting.query.version = pull.signature.step - 1;
  waiting.query.takes = (pull.tag.part & kPullTakes) != 0;
  waiting.query.expected = pull.signature;
  Asker& theirs = askers_[asker];
  if (theirs.waiting.size() >= kMaxWaiting) {
    return router_->RefusePullOnLoop(
        asker, waiting.id,
        ResourceExhaustedError(std::to_string(kMaxWaiting) + " requests of this peer are waiting there already"));
  }
  waiting.waits = (pull.tag.part & kPullWaits) != 0;
  const OperationId id = waiting.id;
  theirs.waiting.push_back(std::move(waiting));
  TryOnLoop(asker, [&id](const Waiting& one) { return one.id == id; });
}

void Keeper::OnDroppedOnLoop(const PeerId& asker, const OperationId& id) {
  const auto it = askers_.find(asker);
  if (it == askers_.end()) return;
  it->second.waiting.remove_if([&id](const Waiting& one) { return one.id == id; });
  for (const auto& sending : it->second.sent) {
    if (!(sending->id == id) || sending->dropped) continue;
    sending->dropped = true;
    return router_->WithdrawPulledOnLoop(asker, id);
  }
}

void Keeper::OnAskerLostOnLoop(const PeerId& asker) {
  for (const auto& sending : askers_[asker].sent) sending->dropped = true;
  askers_.erase(asker);
}

void Keeper::AskOnLoop(uint64_t number, const Query& query, Found found) {
  Waiting waiting;
  waiting.id.number = number;
  waiting.query = query;
  waiting.found = std::move(found);
  askers_[PeerId()].waiting.push_back(std::move(waiting));
  TryOnLoop(PeerId(), [number](const Waiting& one) { return one.id.number == number; });
}

void Keeper::DropOnLoop(uint64_t number) {
  askers_[PeerId()].waiting.remove_if([number](const Waiting& one) { return one.id.number == number; });
}

void Keeper::OnSavedOnLoop(const std::string& name) {
  TryAll([&name](const Waiting& waiting) { return waiting.query.name == name; });
}

void Keeper::OnEpoch() {
  TryAll([](const Waiting& waiting) { return waiting.query.takes; });
}

void Keeper::TryAll(const std::function<bool(const Waiting&)>& concerns) {
  std::vector<PeerId> peers;
  for (const auto& [peer, asker] : askers_) {
    if (!asker.waiting.empty()) peers.push_back(peer);
  }
  for (const PeerId& peer : peers) TryOnLoop(peer, concerns);
}

void Keeper::CloseOnLoop() {
  for (auto& [peer, asker] : askers_) {
    for (const auto& sending : asker.sent) sending->dropped = true;
  }
  askers_.clear();
}

// Answers a peer's waiting pulls that can be answered now, in their order.
void Keeper::TryOnLoop(const PeerId& peer, const std::function<bool(const Waiting&)>& concerns) {
  std::list<Waiting> unanswered;
  std::list<Waiting> waiting;
  waiting.swap(askers_[peer].waiting);
  while (!waiting.empty()) {
    const bool answered = concerns(waiting.front()) && AnswerOnLoop(peer, waiting.front());
    if (answered) {
      waiting.pop_front();
    } else {
      unanswered.splice(unanswered.end(), waiting, waiting.begin());
    }
  }
  std::list<Waiting>& rest = askers_[peer].waiting;
  rest.splice(rest.begin(), unanswered);
}

bool Keeper::AnswerOnLoop(const PeerId& peer, const Waiting& waiting) {
  if (!waiting.found && askers_[peer].sent.size() >= kMaxSent) return false;
  const StatusOr<BlobRef> blob = store_->Look(waiting.query);
  if (!blob.ok() && blob.status().code() == Code::kNotFound && waiting.waits) return false;
  if (blob.ok() && waiting.query.takes) taken_(waiting.query.name);
  if (waiting.found) {
    waiting.found(blob);
  } else if (blob.ok()) {
    SendOnLoop(peer, waiting, *blob);
  } else {
    router_->RefusePullOnLoop(peer, waiting.id, blob.status());
  }
  return true;
}

void Keeper::SendOnLoop(const PeerId& to, const Waiting& waiting, BlobRef blob) {
  auto sending = std::make_shared<Sending>();
  sending->to = to;
  sending->id = waiting.id;
  sending->signature = waiting.query.expected;
  Encode(blob->head, sending->head);
  sending->parts = 1 + static_cast<uint32_t>((blob->form.size() + kPullPart - 1) / kPullPart);
  sending->blob = std::move(blob);
  askers_[to].sent.push_back(sending);
  PumpOnLoop(sending);
}

// A few parts at a time: other messages to the same peer find their place between them.
void Keeper::PumpOnLoop(const std::shared_ptr<Sending>& sending) {
  while (!sending->dropped && sending->in_flight < kWindow && sending->next < sending->parts) {
    const uint32_t part = sending->next++;
    Payload payload{{sending->head, sizeof(sending->head)}};
    if (part > 0) {
      const ConstBytes all = sending->blob->view();
      payload = Slice(Payload{all}, (part - 1) * kPullPart, std::min<uint64_t>(kPullPart, all.size));
    }
    ++sending->in_flight;
    router_->SendPulledOnLoop(sending->to, sending->id, part, sending->signature, std::move(payload),
                              [this, alive = std::weak_ptr<int>(alive_), sending](const Status& status) {
                                --sending->in_flight;
                                if (!status.ok()) sending->dropped = true;
                                if (!alive.expired()) PumpOnLoop(sending);
                              });
  }
  if (sending->in_flight > 0 || (sending->next < sending->parts && !sending->dropped)) return;
  const auto asker = askers_.find(sending->to);
  if (asker == askers_.end()) return;
  asker->second.sent.remove(sending);
  TryOnLoop(sending->to, [](const Waiting&) { return true; });
}

}  // namespace kungfu
