#include "ops/peer/peer.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <utility>

#include "ops/base/cores.h"
#include "ops/base/instructions.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

// How long Shutdown waits for the other peers to take leave.
constexpr Seconds kGoodbye{3};
// How long the runner may take to let us connect.
constexpr Seconds kHello{10};
// If each peer of the host can have a core of its own, it looks on longer than it takes to wake a sleeper. It keeps its
// core for a while. The awaited event mostly comes from another core. A thread that wants this core may be idle: a
// thread of TensorFlow's that was woken in vain looks around for 40 us.
constexpr Patience kOnOwnCore{Seconds(1e-3), Seconds(50e-6)};
// On cores that no other peer uses only this peer's own threads can want the core of one that looks on. So it looks on
// for as long as steps of peers differ.
constexpr Patience kOnBoundCores{Seconds(5e-3), Seconds(50e-6)};
// Where peers share cores the awaited process may need this one.
constexpr Patience kOnSharedCores{Seconds(200e-6), Seconds(0)};
constexpr char kEpochName[] = "kungfu/the change of epochs";

StatusOr<std::string> SecretOf(const Config& config) {
  if (!config.secret.empty()) return config.secret;
  if (config.secret_file.empty()) {
    return FailedPreconditionError(
        "several peers need a secret: start them with kungfu-run, or set KUNGFU_SECRET_FILE or KUNGFU_SECRET");
  }
  std::ifstream file(config.secret_file);
  std::string secret;
  if (!std::getline(file, secret) || secret.empty()) {
    return InvalidArgumentError("KUNGFU_SECRET_FILE: no secret in the first line of " + config.secret_file);
  }
  return secret;
}

// Whether all peers of our host can compute at the same time.
bool HaveCores(const Config& config, const PeerList& peers, int rank) {
  if (config.own_cores) return true;
  const std::vector<int> hosts = peers.HostOfRanks();
  return std::count(hosts.begin(), hosts.end(), hosts[rank]) <= CoresOfThisProcess();
}

Patience PatienceOf(const Config& config, const PeerList& peers, int rank) {
  Patience patience = HaveCores(config, peers, rank) ? kOnOwnCore : kOnSharedCores;
  if (config.own_cores) patience = kOnBoundCores;
  if (config.spin >= 0) patience.looks = Seconds(1e-6 * config.spin);
  return patience;
}

// All processes of a job may differ in it: the bits are the same.
Status ChooseInstructions(const std::string& name) {
  const std::vector<Instructions> available = AvailableInstructions();
  std::string names;
  for (const Instructions one : available) {
    names += std::string(names.empty() ? "" : ", ") + Name(one);
    if (name != Name(one) && !(name == "auto" && one == available.back())) continue;
    UseInstructions(one);
    return OkStatus();
  }
  return InvalidArgumentError("KUNGFU_SIMD='" + name + "': this processor has " + names);
}

// Rank 0's has the name that was given. A newcomer does not know its rank yet.
std::string TimelineOf(const Place& place, const std::string& path) {
  if (place.joining) return path + "." + place.self().ToString();
  return place.rank == 0 ? path : path + "." + std::to_string(place.rank);
}

}  // namespace

Peer::Peer(const Config& config, const PeerId& self, Arena* arena)
    : config_(config), self_(self), arena_(arena), joining_(config.membership == "joining") {}

Peer::~Peer() { Shutdown(); }

StatusOr<std::unique_ptr<Peer>> Peer::Start(const Config& config, Arena* arena) {
  SetLogLevel(static_cast<LogLevel>(config.log_level));
  KF_RETURN_IF_ERROR(ChooseInstructions(config.simd));
  StatusOr<Place> place = Place::From(config);
  if (!place.ok()) return place.status();
  std::unique_ptr<Peer> peer(new Peer(config, place->self(), arena));
  if (peer->elastic() && config.control.empty()) {
    return InvalidArgumentError("KUNGFU_MEMBERSHIP is " + config.membership + ", but there is no KUNGFU_CONTROL");
  }
  KF_RETURN_IF_ERROR(peer->StartSession({place->version, place->peers}));
  if (config.timeline.empty()) return peer;
  const Status timeline = peer->StartTimeline(TimelineOf(*place, config.timeline));
  if (!timeline.ok()) KF_LOG(WARNING) << "KUNGFU_TIMELINE: operations are not recorded: " << timeline.message();
  return peer;
}

Status Peer::StartSession(const Membership& membership) {
  const int rank = membership.peers.RankOf(self_);
  if (membership.peers.size() > 1 || elastic()) {
    StatusOr<std::string> secret = SecretOf(config_);
    if (!secret.ok()) return secret.status();
    KF_RETURN_IF_ERROR(StartLoop(membership.peers, rank));
    StatusOr<std::unique_ptr<TransportSet>> transports =
        TransportSet::Make(loop_.get(), {self_, config_.job_id, *secret}, config_.transport, config_.socket_dir);
    if (!transports.ok()) return transports.status();
    transports_ = std::move(*transports);
    router_ = std::make_unique<Router>(loop_.get(), transports_.get(), Seconds(config_.connect_timeout), elastic());
    transactions_ = std::make_unique<Transactions>(loop_.get(), config_.survives, [this] { return session(); });
  } else if (!config_.control.empty()) {
    KF_RETURN_IF_ERROR(StartLoop(membership.peers, rank));
  }
  const uint32_t epoch = FirstEpoch(membership.version);
  const P2p::Options of_store{config_.store_versions, Seconds(config_.stall_warning),
                              Seconds(config_.collective_timeout), config_.survives};
  p2p_ = std::make_unique<P2p>(loop_.get(), router_.get(), self_, epoch, of_store, &counters_);
  newest_version_ = membership.version;
  agreed_ = membership.headcount();
  SetSession(MakeSession(membership.peers, rank, epoch, config_.strategy), config_.strategy);
  if (!loop_) return OkStatus();
  if (!config_.control.empty()) {
    announcements_ = std::make_unique<Announcements>(loop_.get(), membership);
    OpenControl();
  }
  Status status;
  RunAndWait([&] { status = BeginOnLoop(); });
  return status;
}

void Peer::OpenControl() {
  Control::Handlers handlers;
  handlers.peer_failed = [this](const PeerId& peer, const std::string& text) {
    const int rank = session()->peers().RankOf(peer);
    if (rank >= 0) {
      session()->PeerFailedOnLoop(rank, text);
    } else if (router_) {
      router_->GiveUpOnLoop(peer, UnavailableError(text));
    }
    failed_peers_.push_back(peer);
    if (transactions_) transactions_->NeverRepeatOnLoop();
    JudgeOnLoop();
  };
  handlers.peer_left = [this](const PeerId& peer) {
    const int rank = session()->peers().RankOf(peer);
    if (rank >= 0) session()->PeerLeftOnLoop(rank);
  };
  handlers.members = [this](const Membership& membership) {
    announcements_->AnnounceOnLoop(membership);
    newest_version_ = announcements_->newest().version;
    ReplaceOnLoop();
  };
  handlers.survivors = [this](const Membership& survivors, const std::string& why) { SurviveOnLoop(survivors, why); };
  handlers.anew = [this](uint32_t version) { anew_version_ = version; };
  handlers.runner_lost = [this] {
    if (transactions_) transactions_->NeverRepeatOnLoop();
    session()->AbortOnLoop(UnavailableError("the launcher is gone"));
    announcements_->FailOnLoop(UnavailableError("the launcher is gone"));
    JudgeOnLoop();
  };
  control_ = std::make_unique<Control>(loop_.get(), config_.control, self_, std::move(handlers));
}

Status Peer::StartLoop(const PeerList& peers, int rank) {
  StatusOr<std::unique_ptr<EventLoop>> loop = EventLoop::Start(PatienceOf(config_, peers, rank));
  if (!loop.ok()) return loop.status();
  loop_ = std::move(*loop);
  return OkStatus();
}

Status Peer::BeginOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (router_) {
    p2p_->OpenOnLoop();
    if (config_.survives && control_) {
      router_->SetBrokenHandlerOnLoop([this](uint32_t epoch) { BrokenOnLoop(VersionOf(epoch)); });
    }
    session()->BeginOnLoop(nullptr);
    KF_RETURN_IF_ERROR(router_->ListenOnLoop());
  }
  return control_ ? control_->OpenOnLoop(kHello) : OkStatus();
}

std::shared_ptr<Session> Peer::MakeSession(const PeerList& peers, int rank, uint32_t epoch,
                                           const StrategySpec& strategy) {
  SessionOptions options;
  options.strategy = strategy;
  options.chunk_bytes = static_cast<uint64_t>(config_.chunk_bytes);
  options.timeout = Seconds(config_.collective_timeout);
  options.stall_warning = Seconds(config_.stall_warning);
  options.silence_timeout = Seconds(config_.silence_timeout);
  options.direct = config_.SharesMemory();
  options.arena = options.direct ? arena_ : nullptr;
  options.direct_bytes = static_cast<uint64_t>(config_.direct_bytes);
  options.exchanges = rank >= 0 && HaveCores(config_, peers, rank);
  const auto failed = [this](const Status& status) {
    const bool may_be_survived = config_.survives && status.code() == Code::kUnavailable;
    if (control_ && !may_be_survived) control_->ReportOnLoop(status.message());
  };
  const auto interrupted = [this](const Status& why) { p2p_->InterruptOnLoop(why); };
  return std::make_shared<Session>(loop_.get(), router_.get(), peers, rank, epoch, options, &counters_, failed,
                                   interrupted);
}

std::shared_ptr<Session> Peer::session() const {
  if (loop_ && loop_->InLoop()) return SessionOnLoop();
  MutexLock lock(&session_mu_);
  return session_;
}

uint64_t Peer::StartOperation(Operation&& operation) {
  if (operation.mixing && repeats()) {
    operation.done(FailedPreconditionError(
        Title(operation) +
        ": with -on-failure survive peers have no neighbours: what some of them have done among each "
        "other cannot be repeated by the survivors"));
    return 0;
  }
  if (!config_.control.empty() && !has_begun_) TellOfFirst(&operation);
  if (operation.group != 0) return StartInGroup(std::move(operation));
  // In a session of one, too: it may have been left alone amid an exchange.
  if (transactions_ && transactions_->Takes(operation)) return transactions_->Start(std::move(operation));
  return session()->Start(std::move(operation));
}

void Peer::TellOfFirst(Operation* operation) {
  operation->done = [this, done = std::move(operation->done)](const Status& status) {
    if (status.ok() && !has_begun_.exchange(true)) {
      const auto tell = [this] {
        if (control_) control_->BegunOnLoop();
      };
      if (loop_->InLoop()) {
        tell();
      } else {
        loop_->Post(tell);
      }
    }
    done(status);
  };
}

void Peer::Join(std::function<void(const StatusOr<int>& before)> done) {
  if (!repeats()) return session()->Join(std::move(done));
  done(FailedPreconditionError(
      "join: with -on-failure survive a peer cannot take part in operations that its program has not begun"));
}

void Peer::Cancel(uint64_t handle, const Status& cause) {
  if (Transactions::Owns(handle)) return transactions_->Cancel(handle, cause);
  session()->Cancel(handle, cause);
}

Place Peer::place() const {
  const std::shared_ptr<Session> now = session();
  const uint32_t version = VersionOf(now->epoch());
  return {now->peers(),      now->rank(), version, agreed_, elastic(), joining_, newest_version_ > version,
          now->interrupted()};
}

StrategySpec Peer::strategy() const {
  MutexLock lock(&session_mu_);
  return strategy_;
}

void Peer::SetSession(std::shared_ptr<Session> session, const StrategySpec& strategy) {
  p2p_->HasPeers(session->size());
  MutexLock lock(&session_mu_);
  session_ = std::move(session);
  strategy_ = strategy;
}

void Peer::BeginEpoch(const StrategySpec& strategy, StatusCallback done) {
  const std::shared_ptr<Session> old = session();
  if (VersionOf(old->epoch() + 1) != VersionOf(old->epoch())) {
    return done(Status(Code::kResourceExhausted, "these peers have begun more epochs than can be counted"));
  }
  const Status valid = strategy.CheckFor(old->size());
  if (!valid.ok() && (old->interrupted() || old->size() <= 1)) return done(valid);
  if (!router_) {
    const auto go_over = [&] {
      p2p_->BeginEpoch(old->epoch() + 1);
      const std::shared_ptr<Session> next = MakeSession(old->peers(), old->rank(), old->epoch() + 1, strategy);
      next->AddGroupsOf(*old);
      SetSession(next, strategy);
    };
    if (!RunAndWait(go_over)) go_over();
    return done(OkStatus());
  }
  const auto go_over = [this, old, strategy, done] {
    if (goes_over_ || session() != old) return done(UnavailableError("a new epoch: peers were lost meanwhile"));
    transactions_->FailOnLoop(CancelledError("epoch " + std::to_string(old->epoch()) + " has ended"),
                              transactions_->era().Next());
    GoOverOnLoop(old, old->peers(), old->epoch() + 1, strategy, [this, old, done](const Status& status) {
      if (survivors_.version > VersionOf(old->epoch())) GoOnWithSurvivorsOnLoop();
      done(status);
    });
  };
  if (old->interrupted() || old->size() == 1) {
    if (!loop_->Post(go_over)) done(CancelledError("a new epoch: this peer has shut down"));
    return;
  }
  Operation meet;
  meet.kind = Kind::kBarrier;
  meet.name = kEpochName;
  meet.of_core = true;
  meet.shape_digest = strategy.digest();
  meet.done = [strategy, valid, done, go_over](const Status& status) {
    const char* const differs = status.code() == Code::kInvalidArgument ? ", which not all peers want" : "";
    if (!status.ok()) return done(status.WithContext("a new epoch with strategy " + strategy.ToString() + differs));
    if (!valid.ok()) return done(valid);  // on all peers: they want the same
    go_over();
  };
  old->Start(std::move(meet));
}

void Peer::Propose(std::optional<int> size, StatusCallback answered) {
  if (!elastic()) {
    return answered(FailedPreconditionError("the peers of this job do not change: start it with kungfu-run -w"));
  }
  const Seconds patience(config_.collective_timeout);
  if (!loop_->Post([this, size, patience, answered] { control_->ProposeOnLoop(size, patience, answered); })) {
    answered(CancelledError("this peer has shut down"));
  }
}

void Peer::Want(int size, const StatusCallback& answered) {
  const std::shared_ptr<Session> now = session();
  const bool again = wanted_.exchange(size) == size;
  const bool stays = size == now->size() && (again || !elastic());
  if (stays || now->rank() != 0 || joining_) return answered(OkStatus());
  Propose(size, answered);
}

void Peer::Interrupt(const Status& why) {
  RunAndWait([&] {
    if (!router_) return;
    session()->InterruptOnLoop(why);
    transactions_->GiveUpOnLoop(CancelledError("given up, because " + why.message()));
    JudgeOnLoop();
  });
}

void Peer::Help(const std::function<void()>& start, const std::function<bool()>& until,
                std::optional<Seconds> longest) {
  if (!loop_) return start();
  loop_->Help(start, until, longest);
}

bool Peer::RunAndWait(const std::function<void()>& task) {
  if (!loop_) return false;
  if (loop_->InLoop()) {
    task();
    return true;
  }
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> finished = done->get_future();
  if (!loop_->Post([&task, done] {
        task();
        done->set_value();
      })) {
    return false;
  }
  finished.wait();
  return true;
}

void Peer::Shutdown() {
  MutexLock lock(&shutdown_mu_);
  if (std::exchange(down_, true)) return;
  if (loop_) Leave();
  counters_.Record(nullptr);
}

// The loop's objects end on the loop, the session stays: it still knows its rank and size.
void Peer::Leave() {
  auto left = std::make_shared<std::promise<void>>();
  std::future<void> gone = left->get_future();
  loop_->Post([this, left] {
    leaves_ = true;
    if (announcements_) announcements_->FailOnLoop(CancelledError("this peer has shut down"));
    if (entering_) EndEnteringOnLoop(CancelledError("this peer has shut down"));
    p2p_->CloseOnLoop(CancelledError("this peer has shut down"));
    if (!router_) return left->set_value();
    transactions_->GiveUpOnLoop(CancelledError("this peer has shut down"));
    session()->AbortOnLoop(CancelledError("this peer has shut down"));
    router_->CloseOnLoop(After(kGoodbye), [left] { left->set_value(); });
  });
  gone.wait();
  RunAndWait([this] {
    if (control_) control_->CloseOnLoop();
    control_.reset();
    announcements_.reset();
    if (router_) session()->EndOnLoop();
    router_.reset();
    transports_.reset();
  });
  loop_->Close();
  loop_->Join();
}

Status Peer::StartTimeline(const std::string& path) {
  const Place place = this->place();
  const std::string rank = place.joining ? "a newcomer" : "rank " + std::to_string(place.rank);
  StatusOr<std::unique_ptr<Timeline>> timeline =
      Timeline::Open(path, place.joining ? self_.port : place.rank, rank + ", " + self_.ToString());
  if (!timeline.ok()) return timeline.status();
  counters_.Record(std::move(*timeline));
  return OkStatus();
}

Status Peer::StopTimeline() {
  const std::unique_ptr<Timeline> timeline = counters_.Record(nullptr);
  return timeline ? timeline->Close() : FailedPreconditionError("there is no timeline: it was not started");
}

RouterTotals Peer::Totals() {
  RouterTotals totals;
  RunAndWait([&] {
    if (router_) totals = router_->TotalsOnLoop();
  });
  return totals;
}

std::vector<Peer::PeerTraffic> Peer::TrafficByRank() {
  const std::shared_ptr<Session> session = this->session();
  std::vector<PeerTraffic> result(session->size());
  RunAndWait([&] {
    for (int rank = 0; router_ && rank < session->size(); ++rank) {
      result[rank].total = router_->TrafficOnLoop(session->peers()[rank]);
    }
  });
  std::vector<uint64_t> sent, received;
  for (const PeerTraffic& traffic : result) {
    for (const Traffic::Bytes& bytes : traffic.total.by_way) {
      sent.push_back(bytes.sent);
      received.push_back(bytes.received);
    }
  }
  const uint32_t version = VersionOf(session->epoch());
  const std::vector<TrafficMeter::Rates> rates = traffic_.Update(Clock::now(), version, sent, received);
  for (size_t i = 0; i < rates.size(); ++i) result[i / kNumTrafficWays].rates[i % kNumTrafficWays] = rates[i];
  return result;
}

}  // namespace kungfu
