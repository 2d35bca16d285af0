#include "ops/router/router.h"

#include <algorithm>
#include <utility>

#include "ops/base/docs_link.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

// How long a peer's other connections may outlive the first one that ends.
constexpr Seconds kLastWords{1};
// A peer opens one; others may come in its place before its end was seen.
constexpr size_t kMaxInLinks = 3;
// At most so many known peers that are no members are let in.
constexpr size_t kMaxGuests = 1 << 10;
// Notices of epochs to come: more than this many are not kept.
constexpr size_t kMaxEarly = 1 << 10;

Status TakesNoPart() { return UnavailableError("the peer takes no part any more"); }

Status HasLeft() { return UnavailableError(Linked("peer-left", "the peer has left")); }

// Removes the link and returns it; null: it is not there.
template <typename Link>
std::shared_ptr<Link> Take(std::vector<std::shared_ptr<Link>>* links, const Link* link) {
  const auto at = std::find_if(links->begin(), links->end(), [&](const auto& other) { return other.get() == link; });
  if (at == links->end()) return nullptr;
  std::shared_ptr<Link> taken = std::move(*at);
  links->erase(at);
  return taken;
}

}  // namespace

Router::Router(EventLoop* loop, TransportSet* transports, Seconds connect_timeout, bool open)
    : loop_(loop), transports_(transports), connect_timeout_(connect_timeout), open_(open) {}

Router::~Router() = default;

Status Router::ListenOnLoop() {
  KF_DCHECK(loop_->InLoop());
  return transports_->ListenOnLoop(
      members_.peers(),
      [this](StatusOr<std::unique_ptr<Connection>> connection, const PeerId& peer) -> ConnectionHandler* {
        if (connection.ok()) return Accept(std::move(*connection));
        if (members_.RankOf(peer) >= 0) GiveUpOnLoop(peer, connection.status());
        return nullptr;
      });
}

void Router::BeginEpochOnLoop(uint32_t epoch, const PeerList& peers, RouterHandler* handler) {
  KF_DCHECK(loop_->InLoop());
  const PeerList before = std::exchange(members_, peers);
  epoch_ = epoch;
  handler_ = handler;
  mailbox_.DropBefore(epoch);
  for (const PeerId& peer : members_.peers()) {
    const auto state = peers_.find(peer);
    if (state != peers_.end() && !state->second.lost.ok()) TellOfLoss(peer, state->second.lost);
  }
  for (const PeerId& peer : before.peers()) {
    if (members_.RankOf(peer) < 0) PartFrom(peer);
  }
  std::vector<Early> early;
  early.swap(early_);
  for (const Early& one : early) OnFailFrameOnLoop(one.from, one.tag, one.status);
}

ConnectionHandler* Router::Accept(std::unique_ptr<Connection> connection) {
  const PeerId peer = connection->remote();
  const bool let_in = members_.RankOf(peer) >= 0 || (open_ && peers_.size() < members_.size() + kMaxGuests);
  PeerLinks& state = peers_[peer];
  const bool is_over = !state.lost.ok() && !broken_;
  if (closing_ || !let_in || state.parted || is_over || state.in.size() >= kMaxInLinks) {
    KF_LOG(WARNING) << "refused a connection of " << peer.ToString();
    return nullptr;
  }
  state.in.push_back(std::make_unique<InLink>(loop_, std::move(connection), &mailbox_, this));
  return state.in.back().get();
}

OutLink* Router::LinkTo(const PeerId& peer) {
  PeerLinks& state = peers_[peer];
  if (!state.out) {
    state.out = std::make_unique<OutLink>(loop_, transports_, peer, state.generation, connect_timeout_, this);
    if (!state.lost.ok()) {
      state.out->CloseOnLoop(Clock::now(), state.lost);
      state.out->FailSendsOnLoop(state.lost);
    }
  }
  return state.out.get();
}

void Router::SetBrokenHandlerOnLoop(std::function<void(uint32_t epoch)> broken) {
  KF_DCHECK(loop_->InLoop());
  broken_ = std::move(broken);
}

// A peer that has done it before may have connected already: what it has opened since stays.
void Router::RenewOnLoop(const PeerList& peers, const PeerId& self, uint32_t generation) {
  KF_DCHECK(loop_->InLoop());
  const Status why = UnavailableError("connections are made anew");
  for (const PeerId& peer : peers.peers()) {
    PeerLinks& state = peers_[peer];
    if (peer == self || state.parted || state.generation >= generation) continue;
    state.generation = generation;
    Retire(&state, why);
    state.why = state.lost = OkStatus();
    mailbox_.PeerLost(peer, why);
    if (pulls_) pulls_->OnAskerLostOnLoop(peer);
  }
}

void Router::Retire(PeerLinks* peer, const Status& why) {
  if (peer->out) {
    retired_out_.push_back(peer->TakeOut());
    OutLink* const out = retired_out_.back().get();
    if (out->closed().ok()) {
      out->BreakOnLoop(why);
    } else {
      OnOutLinkClosedOnLoop(out, why);
    }
  }
  for (std::unique_ptr<InLink>& link : peer->TakeOld()) {
    link->connection()->BreakOnLoop(why);
    retired_in_.push_back(std::move(link));
  }
}

void Router::NotifyFailureOnLoop(const PeerId& peer, const OperationId& id, const Status& status, bool passed_on) {
  KF_DCHECK(loop_->InLoop());
  FrameHeader header;
  header.type = FrameType::kFail;
  header.tag = {id, passed_on};
  header.code = status.code();
  const PeerLinks& state = peers_[peer];
  if (!state.is_out_connected() && !state.in.empty()) {
    state.in.back()->SendNoticeOnLoop(std::move(header), status.message());
  } else {
    LinkTo(peer)->SendNoticeOnLoop(std::move(header), status.message().substr(0, kMaxTextSize));
  }
}

void Router::AskOnLoop(const PeerId& peer, const OperationId& id, const Signature& ours, size_t filler) {
  KF_DCHECK(loop_->InLoop());
  FrameHeader header;
  header.type = FrameType::kAsk;
  header.tag = {id, 0};
  header.signature = ours;
  LinkTo(peer)->SendNoticeOnLoop(std::move(header), std::string(filler, '\0'));
}

void Router::RefuseOnLoop(const OperationId& id) {
  KF_DCHECK(loop_->InLoop());
  mailbox_.Refuse(id);
}

void Router::SetPullHandlerOnLoop(PullHandler* handler) {
  KF_DCHECK(loop_->InLoop());
  pulls_ = handler;
}

Status Router::PullOnLoop(const PeerId& keeper, const OperationId& id, const Signature& expected, uint32_t flags) {
  KF_DCHECK(loop_->InLoop());
  if (members_.RankOf(keeper) < 0) return TakesNoPart();
  FrameHeader header;
  header.type = FrameType::kPull;
  header.tag = {id, flags};
  header.signature = expected;
  LinkTo(keeper)->SendNoticeOnLoop(std::move(header), "");
  return OkStatus();
}

void Router::DropPullOnLoop(const PeerId& keeper, const OperationId& id) {
  NotifyFailureOnLoop(keeper, id, CancelledError("not wanted any more"), /*passed_on=*/true);
}

void Router::SendPulledOnLoop(const PeerId& asker, const OperationId& id, uint32_t part, const Signature& signature,
                              Payload payload, StatusCallback done) {
  KF_DCHECK(loop_->InLoop());
  FrameHeader header;
  header.tag = {id, part};
  header.signature = signature;
  header.payload_size = TotalSize(payload);
  StatusCallback* const place = LinkTo(asker)->SendOnLoop(header, std::move(payload));
  if (place != nullptr) {
    *place = std::move(done);
  } else {
    LaterOnLoop([done = std::move(done)] { done(OkStatus()); });
  }
}

void Router::WithdrawPulledOnLoop(const PeerId& asker, const OperationId& id) {
  KF_DCHECK(loop_->InLoop());
  LinkTo(asker)->WithdrawOnLoop(id);
}

// The connection that brought the pull, which bounds the answers to an asker.
void Router::RefusePullOnLoop(const PeerId& asker, const OperationId& id, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  const PeerLinks& state = peers_[asker];
  if (state.in.empty()) return;
  FrameHeader header;
  header.type = FrameType::kFail;
  header.tag = {id, 0};
  header.code = why.code();
  state.in.back()->SendNoticeOnLoop(std::move(header), why.message());
}

bool Router::ConnectedOnLoop(const PeerId& peer) const {
  KF_DCHECK(loop_->InLoop());
  const auto it = peers_.find(peer);
  return it != peers_.end() && it->second.connected();
}

Clock::time_point Router::LastHeardOnLoop(const PeerId& peer) {
  KF_DCHECK(loop_->InLoop());
  return peers_[peer].LastHeard();
}

uint64_t Router::BytesSentOnLoop(const PeerId& peer) const {
  KF_DCHECK(loop_->InLoop());
  const auto it = peers_.find(peer);
  return it == peers_.end() ? 0 : it->second.out_bytes_sent();
}

bool Router::HasLeftOnLoop(const PeerId& peer) const {
  KF_DCHECK(loop_->InLoop());
  const auto it = peers_.find(peer);
  return it != peers_.end() && !it->second.lost.ok() && it->second.has_left();
}

// Earlier messages may still reach it.
void Router::GiveUpOnLoop(const PeerId& peer, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  PeerLinks& state = peers_[peer];
  if (!state.lost.ok()) return;
  state.NoteReason(why);
  // What the peer may have opened anew, before this one has heard of it, stays. Where it has to go the peer must not
  // take it for a goodbye.
  for (const auto& link : state.in) {
    if (link->generation().value_or(state.generation) > state.generation) continue;
    if (broken_) {
      link->connection()->BreakOnLoop(why);
    } else {
      link->connection()->CloseOnLoop(After(kLastWords));
    }
  }
  if (broken_) {
    LinkTo(peer)->BreakOnLoop(why);
  } else {
    LinkTo(peer)->CloseOnLoop(After(kLastWords), why);
  }
}

void Router::AfterOnLoop(Seconds delay, std::function<void()> task) {
  KF_DCHECK(loop_->InLoop());
  loop_->RunAtOnLoop(After(delay), [alive = std::weak_ptr<int>(alive_), task = std::move(task)] {
    if (!alive.expired()) task();
  });
}

void Router::AfterOnLoop(const PeerId& peer, Seconds delay, std::function<void()> task) {
  AfterOnLoop(delay, [this, peer, generation = peers_[peer].generation, task = std::move(task)] {
    const auto found = peers_.find(peer);
    if (found != peers_.end() && found->second.generation == generation) task();
  });
}

void Router::LaterOnLoop(std::function<void()> task) {
  KF_DCHECK(loop_->InLoop());
  loop_->Post([alive = std::weak_ptr<int>(alive_), task = std::move(task)] {
    if (!alive.expired()) task();
  });
}

void Router::CloseOnLoop(Deadline deadline, std::function<void()> closed) {
  KF_DCHECK(loop_->InLoop());
  closing_ = true;
  closed_ = std::move(closed);
  transports_->CloseOnLoop();
  for (auto& [id, peer] : peers_) {
    for (const auto& link : peer.in) link->connection()->CloseOnLoop(deadline);
    if (peer.out) peer.out->CloseOnLoop(deadline, CancelledError("this peer has left"));
    // Other waits end: there is no time for them now.
    if (peer.out && !peer.is_out_open()) Lost(id);
  }
  FinishCloseIfIdle();
}

void Router::FinishCloseIfIdle() {
  if (!closing_ || !closed_) return;
  for (const auto& [id, peer] : peers_) {
    if (!peer.is_over()) return;
  }
  loop_->Post(std::exchange(closed_, nullptr));
}

RouterTotals Router::TotalsOnLoop() const {
  KF_DCHECK(loop_->InLoop());
  RouterTotals totals;
  totals.bytes_sent = forgotten_.sent;
  totals.bytes_received = forgotten_.received;
  totals.refused_frames = mailbox_.refused();
  for (const auto& [id, peer] : peers_) {
    const Traffic::Bytes bytes = peer.bytes();
    totals.bytes_sent += bytes.sent;
    totals.bytes_received += bytes.received;
    totals.connections += peer.num_connections();
  }
  return totals;
}

Traffic Router::TrafficOnLoop(const PeerId& peer) const {
  KF_DCHECK(loop_->InLoop());
  const auto it = peers_.find(peer);
  return it == peers_.end() ? Traffic{} : it->second.traffic();
}

// A peer is lost when all connections with it are over: earlier messages may still lie in one of them when another
// ends. When one has ended the others have a little time.
void Router::LinkClosed(const PeerId& peer, const Status& why) {
  PeerLinks& state = peers_[peer];
  if (!state.lost.ok()) return;
  state.NoteReason(why);
  const bool is_broken = why.code() == Code::kUnavailable && members_.RankOf(peer) >= 0;
  if (is_broken && broken_ && !closing_) LaterOnLoop([this, epoch = epoch_] { broken_(epoch); });
  if (state.is_out_open() && !state.connected()) {
    state.out->CloseOnLoop(Clock::now(), state.why);  // comes back here
  } else if (closing_ && !state.is_out_open()) {
    Lost(peer);
  } else if (!state.is_over()) {
    AfterOnLoop(peer, kLastWords, [this, peer, why = state.why] { GiveUpOnLoop(peer, why); });
  } else if (why.code() == Code::kPermissionDenied) {
    // It keeps knocking at our door, at longer and longer intervals: we stay until it has been refused, too.
    AfterOnLoop(peer, 2 * kLastWords, [this, peer] { Lost(peer); });
  } else {
    Lost(peer);
  }
}

void Router::Lost(const PeerId& peer) {
  PeerLinks& state = peers_[peer];
  if (!state.lost.ok()) return;
  state.lost = state.has_left() ? HasLeft() : state.why;
  TellOfLoss(peer, state.lost);
}

void Router::TellOfLoss(const PeerId& peer, const Status& lost) {
  LaterOnLoop([this, peer, generation = peers_[peer].generation, why = lost]() mutable {
    const auto found = peers_.find(peer);
    if (found == peers_.end() || found->second.generation != generation) return;
    // The reason first: failures that follow from it are then not taken for news.
    const bool concerns = handler_ && !closing_ && members_.RankOf(peer) >= 0;
    if (concerns) why = handler_->OnPeerLostOnLoop(peer, why, peers_[peer].has_left());
    mailbox_.PeerLost(peer, why);
    if (OutLink* out = peers_[peer].out.get()) out->FailSendsOnLoop(why);
    if (pulls_) pulls_->OnAskerLostOnLoop(peer);
    const PeerLinks& state = peers_[peer];
    if (!state.parted || closing_) return;  // a close waits for connections that are not over
    forgotten_ += state.bytes();
    peers_.erase(peer);
  });
}

void Router::PartFrom(const PeerId& peer) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  PeerLinks& state = found->second;
  state.parted = true;
  const bool is_over = state.is_over();
  for (const auto& link : state.in) link->connection()->CloseOnLoop(After(kLastWords));
  if (state.is_out_open()) state.out->CloseOnLoop(After(kLastWords), CancelledError("the peer takes no part any more"));
  if (is_over) TellOfLoss(peer, TakesNoPart());
}

void Router::OnFailFrameOnLoop(const PeerId& from, const Tag& tag, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  if (status.ok()) return;
  if (tag.epoch == kNoEpoch) {
    if (!pulls_) return;
    return tag.part != 0 ? pulls_->OnPullDroppedOnLoop(from, IdOf(tag))
                         : pulls_->OnPullRefusedOnLoop(from, IdOf(tag), status);
  }
  if (handler_ && tag.epoch > epoch_ && early_.size() < kMaxEarly) early_.push_back({from, tag, status});
  if (!handler_ || tag.epoch != epoch_ || members_.RankOf(from) < 0) return;
  handler_->OnFailOnLoop(from, IdOf(tag), status, tag.part != 0);
}

void Router::OnPullOnLoop(const PeerId& from, const FrameHeader& pull) {
  KF_DCHECK(loop_->InLoop());
  if (pulls_) return pulls_->OnPullOnLoop(from, pull);
  RefusePullOnLoop(from, IdOf(pull.tag), HasLeft());
}

Status Router::OnAskOnLoop(const PeerId& from, const Tag& tag, const Signature& theirs) {
  KF_DCHECK(loop_->InLoop());
  if (!handler_ || members_.RankOf(from) < 0) return Status(Code::kNotFound, "has no session with the asker");
  return handler_->OnAskOnLoop(from, IdOf(tag), theirs);
}

void Router::OnAnswerOnLoop(const PeerId& from, const Tag& tag, const Status& answer) {
  KF_DCHECK(loop_->InLoop());
  const bool concerns = handler_ && tag.epoch == epoch_ && members_.RankOf(from) >= 0;
  if (concerns) handler_->OnAnswerOnLoop(from, IdOf(tag), answer);
}

void Router::OnInLinkClosedOnLoop(InLink* link, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  // We are inside one of its methods: it goes when the loop has returned from there.
  if (std::shared_ptr<InLink> retired = Take(&retired_in_, link)) {
    loop_->Post([retired] {});
    return;
  }
  const PeerId peer = link->peer();
  PeerLinks& state = peers_[peer];
  const bool parted = state.parted;
  const bool is_current = link->generation().value_or(0) == state.generation;
  // A client that gave up before it had read our verdict tries again: a connection that has brought nothing and ends
  // without a goodbye never was a link.
  const bool was_link = link->connection()->bytes_received() > 0 || why.code() != Code::kUnavailable;
  loop_->Post([old = std::shared_ptr<InLink>(state.TakeIn(link))] {});
  if ((was_link && is_current) || parted) LinkClosed(peer, why);
  FinishCloseIfIdle();
}

void Router::OnOutLinkClosedOnLoop(OutLink* link, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  if (std::shared_ptr<OutLink> retired = Take(&retired_out_, link)) {
    LaterOnLoop([retired, why] { retired->FailSendsOnLoop(why); });
    return;
  }
  const PeerId peer = link->peer();
  peers_[peer].CountOut();
  LinkClosed(peer, why);
  FinishCloseIfIdle();
}

}  // namespace kungfu
