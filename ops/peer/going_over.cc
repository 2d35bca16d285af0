// How a peer goes over to another membership, or to another epoch of the same; and how it leaves.

#include <algorithm>
#include <utility>

#include "ops/base/logging.h"
#include "ops/peer/peer.h"

namespace kungfu {
namespace {

constexpr char kMeetName[] = "kungfu/all have gone over";
// How long a membership that has failed may still be replaced: within that the runner knows that a process, or a host,
// is gone (kungfu_tf/launcher/deciding/leader_of_others.py).
constexpr Seconds kVerdict{10};

}  // namespace

void Peer::Advance(bool only_if_idle, StatusCallback done) {
  const std::shared_ptr<Session> now = session();
  if (!elastic()) return done(OkStatus());
  const auto on_loop = [this, done](const std::function<void()>& task) {
    if (!loop_->Post(task)) done(CancelledError("this peer has shut down"));
  };
  if (joining_) {
    return on_loop([this, now, done] {
      control_->ReadyOnLoop();
      SetOutOnLoop(VersionOf(now->epoch()) + 1, done);
    });
  }
  struct News {
    uint64_t version, entered, busy;
  };
  auto news = std::make_shared<News>(
      News{newest_version_, to_agree_on_.load().packed(), only_if_idle && now->busy() ? 1u : 0u});
  Operation ask;
  ask.kind = Kind::kAllReduce;
  ask.name = kChangeName;
  ask.of_core = true;
  ask.dtype = DType::kUint64;
  ask.op = ReduceOp::kMax;
  ask.spans = {{news.get(), news.get(), 3}};
  ask.done = [this, now, news, done, on_loop](const Status& status) {
    if (status.ok() && news->busy) {
      return done(FailedPreconditionError("a new membership: operations of some peer are pending"));
    }
    if (!status.ok()) return done(status);
    const auto version = static_cast<uint32_t>(news->version);
    AgreeOn(Headcount::Unpacked(news->entered));
    if (version <= VersionOf(now->epoch())) return done(status);
    on_loop([this, version, done] { AgreedOnLoop(version, done); });
  };
  StartOperation(std::move(ask));
}

// If peers are lost meanwhile, the survivors go over at once. Then their meeting shows whether some were on the way.
void Peer::AgreedOnLoop(uint32_t version, const StatusCallback& done) {
  KF_DCHECK(loop_->InLoop());
  if (leaves_) return done(CancelledError("this peer has shut down"));
  if (version > VersionOf(session()->epoch())) return SetOutOnLoop(version, done);
  AwaitOthersOnLoop(session(), done);
  if (!transactions_->surviving()) EndEnteringOnLoop(OkStatus());
}

void Peer::AwaitOthersOnLoop(const std::shared_ptr<Session>& session, const StatusCallback& done) {
  KF_DCHECK(loop_->InLoop());
  if (entering_) EndEnteringOnLoop(CancelledError("this peer goes over to another membership"));
  entering_ = Entering{session, done, {}, {}};
}

void Peer::AgreeOn(const Headcount& membership) {
  if (membership.packed() > agreed_.load().packed()) agreed_ = membership;
}

void Peer::SetOutOnLoop(uint32_t version, const StatusCallback& done) {
  KF_DCHECK(loop_->InLoop());
  AwaitOthersOnLoop(nullptr, done);
  // A newcomer is told when the others have come to the end of a step. Its runner ends it if it is not wanted any more.
  const std::optional<Seconds> patience = joining_ ? std::nullopt : std::optional(Seconds(config_.collective_timeout));
  // A newer one takes the place of the one that was agreed on: any other follows only when all have entered that.
  announcements_->WhenKnownOnLoop(version, patience, [this](const StatusOr<Membership>& membership) {
    if (!entering_) return;
    if (!membership.ok()) return EndEnteringOnLoop(membership.status());
    if (membership->version > survivors_.version) EnterOnLoop(*membership);
  });
}

void Peer::EnterOnLoop(const Membership& membership) {
  KF_DCHECK(loop_->InLoop());
  const std::shared_ptr<Session> old = session();
  const uint32_t version = membership.version;
  transactions_->FailOnLoop(CancelledError("epoch " + std::to_string(old->epoch()) + " has ended"),
                            {FirstEpoch(membership.since), membership.peers.size()});
  GoOverOnLoop(old, membership.peers, FirstEpoch(version), NextStrategy(), [this, version](const Status& status) {
    if (!entering_) return;
    if (!status.ok() || session()->rank() < 0) return EndEnteringOnLoop(status);
    if (survivors_.version > version) return GoOnWithSurvivorsOnLoop();
    MeetOnLoop();
  });
}

// A peer is in the new membership when all have gone over. A newcomer may die before it is told; the agreement at the
// start of a session reaches its mailbox all the same.
void Peer::MeetOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const std::shared_ptr<Session> session = entering_->session = this->session();
  if (!announcements_->failed().ok()) return EndEnteringOnLoop(Status(announcements_->failed()));
  if (ReplaceOnLoop()) return;
  Operation meet;
  meet.kind = Kind::kBarrier;
  meet.name = kMeetName;
  meet.of_core = true;
  meet.done = [this, session](const Status& status) { MetOnLoop(session, status); };
  session->Start(std::move(meet));
}

// The death of a newcomer shows here earlier than the membership without it is announced.
void Peer::MetOnLoop(const std::shared_ptr<Session>& session, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  if (!entering_ || entering_->session != session) return;  // it was replaced
  if (status.ok()) return EndEnteringOnLoop(status);
  entering_->failed = status;
  entering_->timer = loop_->RunAtOnLoop(After(kVerdict), [this] { EndEnteringOnLoop(Status(entering_->failed)); });
  JudgeOnLoop();
}

// The runner names none that has failed if it announces a membership without it instead.
bool Peer::MayBeReplacedOnLoop() const {
  KF_DCHECK(loop_->InLoop());
  if (!entering_ || !announcements_->failed().ok()) return false;
  const std::shared_ptr<Session>& session = entering_->session;
  if (session != this->session() || session->interrupted()) return false;
  return std::none_of(failed_peers_.begin(), failed_peers_.end(),
                      [&](const PeerId& peer) { return session->peers().RankOf(peer) >= 0; });
}

bool Peer::ReplaceOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (!MayBeReplacedOnLoop()) return false;
  const Membership newest = announcements_->newest();
  const uint32_t version = VersionOf(entering_->session->epoch());
  if (newest.version <= version || newest.since > version) return false;
  ForgetMeetingOnLoop();
  EnterOnLoop(newest);
  return true;
}

void Peer::ForgetMeetingOnLoop() {
  KF_DCHECK(loop_->InLoop());
  loop_->CancelTimerOnLoop(entering_->timer);
  *entering_ = Entering{nullptr, std::move(entering_->done), {}, {}};
}

void Peer::JudgeOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (entering_ && !entering_->failed.ok() && !MayBeReplacedOnLoop()) EndEnteringOnLoop(Status(entering_->failed));
}

void Peer::EndEnteringOnLoop(const Status& status) {
  KF_DCHECK(loop_->InLoop());
  loop_->CancelTimerOnLoop(entering_->timer);
  const Entering ended = *std::exchange(entering_, std::nullopt);
  const Headcount change = transactions_->era().change();
  if (status.ok()) {
    AgreeOn(change);
  } else if (change.version <= VersionOf(session()->epoch()) && change.packed() > to_agree_on_.load().packed()) {
    to_agree_on_ = change;  // the others may have met
  }
  ended.done(status);
}

void Peer::GiveNotice(StatusCallback answered) { AskRunner(&Control::NoticeOnLoop, std::move(answered)); }

// The list of those that go on comes before the answer, so this peer is on the way out of its session by then.
void Peer::LeaveJob(StatusCallback done) {
  AskRunner(&Control::LeaveOnLoop, [this, done = std::move(done)](const Status& answer) {
    if (!answer.ok()) return done(answer);
    session()->WhenIdleOnLoop([done] { done(OkStatus()); });
  });
}

void Peer::AskRunner(Question question, StatusCallback answered) {
  if (!config_.survives) return answered(FailedPreconditionError("the others do not go on without this peer"));
  const Seconds patience(config_.collective_timeout);
  if (!loop_->Post([this, question, patience, answered] { (control_.get()->*question)(patience, answered); })) {
    answered(CancelledError("this peer has shut down"));
  }
}

// The session ends by the loss, not by the change: so what another peer has begun in it is repeated, whoever hears of
// the survivors first.
void Peer::SurviveOnLoop(const Membership& survivors, const std::string& why) {
  KF_DCHECK(loop_->InLoop());
  const std::shared_ptr<Session> now = session();
  const bool is_newer = survivors.version > std::max(VersionOf(now->epoch()), survivors_.version);
  if (!config_.survives || leaves_ || !is_newer || now->rank() < 0) return;
  survivors_ = survivors;
  to_agree_on_ = survivors.headcount();  // before the other, which Advance reads first
  newest_version_ = survivors.version;
  announcements_->AnnounceOnLoop(survivors);
  if (survivors.peers.RankOf(self_) >= 0) {
    transactions_->LostOnLoop();
  } else {
    transactions_->LeaveOnLoop();
  }
  if (anew_version_ == survivors.version) router_->RenewOnLoop(survivors.peers, self_, FirstEpoch(anew_version_));
  if (entering_) ForgetMeetingOnLoop();
  for (int rank = 0; rank < now->size() && !entering_; ++rank) {
    const bool is_left = survivors.peers.RankOf(now->peers()[rank]) >= 0 || rank == now->rank();
    if (!is_left) now->PeerFailedOnLoop(rank, why);
  }
  if (!goes_over_) GoOnWithSurvivorsOnLoop();
}

void Peer::BrokenOnLoop(uint32_t version) {
  KF_DCHECK(loop_->InLoop());
  if (leaves_ || version < broken_version_) return;
  broken_version_ = version + 1;
  control_->BrokenOnLoop(version);
}

void Peer::GoOnWithSurvivorsOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const uint32_t version = survivors_.version;
  GoOverOnLoop(session(), survivors_.peers, FirstEpoch(version), NextStrategy(), [this, version](const Status& status) {
    if (session()->rank() < 0) return entering_ ? EndEnteringOnLoop(status) : void();
    if (survivors_.version > version) return GoOnWithSurvivorsOnLoop();  // another one was lost meanwhile
    if (status.ok()) return MeetSurvivorsOnLoop();
    transactions_->GiveUpOnLoop(status);
    transactions_->NeverRepeatOnLoop();
    if (entering_) EndEnteringOnLoop(status);
  });
}

// A peer that was on its way to a change is in it when the survivors have met: it finds among them all whom it awaits.
void Peer::MeetSurvivorsOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const std::shared_ptr<Session> session = this->session();
  if (entering_) entering_->session = session;
  transactions_->MeetOnLoop({survivors_.since, entering_.has_value()},
                            [this, session](const Status& status) { MetOnLoop(session, status); });
}

// A tree is one of the peers that it was made for.
StrategySpec Peer::NextStrategy() const {
  const StrategySpec used = strategy();
  return used.parents.empty() ? used : StrategySpec(config_.strategy);
}

// The first peer to go over may send messages of the new epoch to others that will follow; the router keeps them.
void Peer::GoOverOnLoop(const std::shared_ptr<Session>& old, const PeerList& peers, uint32_t epoch,
                        const StrategySpec& strategy, const StatusCallback& done) {
  KF_DCHECK(loop_->InLoop());
  goes_over_ = true;
  const std::string why = "epoch " + std::to_string(old->epoch()) + " has ended";
  const bool by_loss = epoch == FirstEpoch(survivors_.version);
  old->AbortOnLoop(by_loss ? UnavailableError(why + ", because peers were lost") : CancelledError(why));
  old->WhenIdleOnLoop([this, old, peers, epoch, strategy, done] {
    old->EndOnLoop();
    p2p_->BeginEpoch(epoch);
    const int rank = peers.RankOf(self_);
    const std::shared_ptr<Session> next = MakeSession(rank < 0 ? PeerList() : peers, rank, epoch, strategy);
    if (VersionOf(epoch) == VersionOf(old->epoch())) next->AddGroupsOf(*old);
    next->BeginOnLoop(joining_ ? nullptr : old);
    if (VersionOf(epoch) != VersionOf(old->epoch())) {
      counters_.throughput().Forget();
    } else if (strategy.parents != this->strategy().parents) {
      counters_.throughput().Forget(static_cast<int>(StrategyName::kTree));
    }
    SetSession(next, strategy);
    if (VersionOf(epoch) != VersionOf(old->epoch())) TrafficByRank();  // from now on the rates are of these peers
    if (rank >= 0) joining_ = false;
    goes_over_ = false;
    if (control_ && VersionOf(epoch) != VersionOf(old->epoch())) control_->EnteredOnLoop(VersionOf(epoch));
    done(router_->ListenOnLoop());
  });
}

}  // namespace kungfu
