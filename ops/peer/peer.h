// One peer: puts the parts together, in the order in which they need each other, and takes them apart again.

#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/base/mutex.h"
#include "ops/base/status.h"
#include "ops/collective/session.h"
#include "ops/elastic/control.h"
#include "ops/elastic/membership.h"
#include "ops/memory/arena.h"
#include "ops/monitor/operation_counters.h"
#include "ops/monitor/traffic_meter.h"
#include "ops/peer/config.h"
#include "ops/peer/place.h"
#include "ops/peer/transactions.h"
#include "ops/plan/peer_list.h"
#include "ops/router/router.h"
#include "ops/store/p2p.h"
#include "ops/transport/choice/transport_set.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Any thread.
class Peer {
 public:
  // Starts a peer as `config` says; without config.self one of one, with no thread and no socket. `arena` is the memory
  // that it shares with the other peers of its host, and must outlive it; null: none.
  static StatusOr<std::unique_ptr<Peer>> Start(const Config& config, Arena* arena = nullptr);
  ~Peer();  // Shutdown()

  // Ends pending operations with kCancelled, takes leave of the other peers, stops the thread. Blocks for a few
  // seconds at most. Not on a thread of the core. Again: nothing, but it waits for one that is under way.
  void Shutdown() EXCLUDES(shutdown_mu_);

  // Begins an operation of the program and returns its handle: as Session::Start, but operations of one exchange are
  // delivered together. If the job survives lost peers it may be repeated: it ends with the survivors' result. Any
  // thread.
  uint64_t StartOperation(Operation&& operation) EXCLUDES(session_mu_);
  // As Session::Cancel, in whatever session it is.
  void Cancel(uint64_t handle, const Status& cause) EXCLUDES(session_mu_);
  // Makes a group of some of the session's peers; all peers call it, with the same ranks, in the same order. Its number
  // is Operation::group of its operations, which end one by one and are not repeated. It ends with the membership, not
  // with the epoch. kInvalidArgument: the ranks differ between peers, are no ranks, or repeat. `done` is called once,
  // on the loop, and in a process that is alone before the call returns. Any thread.
  void AddGroup(std::vector<int> ranks, std::function<void(const StatusOr<uint64_t>&)> done);
  // Ends it, here. Any thread.
  void RemoveGroup(uint64_t number);
  // Session::Join. kFailedPrecondition: operations are repeated among survivors. Any thread.
  void Join(std::function<void(const StatusOr<int>& before)> done);
  // The session of a group that this peer is in; for 0 that of all. kInvalidArgument: it is not in it; kAborted: the
  // membership has changed, or the group was removed. Any thread.
  StatusOr<std::shared_ptr<Session>> SessionOf(uint64_t group) const EXCLUDES(session_mu_);

  // Whether operations may be repeated, from their inputs: in all sessions, or in none. Any thread.
  bool repeats() const { return transactions_ && config_.survives; }

  // The session of the current epoch.
  std::shared_ptr<Session> session() const EXCLUDES(session_mu_);
  // In that session.
  Place place() const EXCLUDES(session_mu_);

  // Begins a new epoch of the same peers with `strategy`. It stays in use until another is asked for; a tree until
  // other peers take part: then the configuration's strategy returns. Each peer goes over when all have called it; out
  // of an interrupted epoch each goes separately. `done` is called once, on the loop, and in a process that is alone
  // before the call returns. With OK: the session is another one, in which operations may be started at once. Otherwise
  // it is the old one: a peer is gone, or wants another strategy. Pending operations of the old session fail with
  // kCancelled when it ends. Any thread.
  void BeginEpoch(const StrategySpec& strategy, StatusCallback done);
  StrategySpec strategy() const EXCLUDES(session_mu_);

  // Asks the runner for another number of peers (without one: for the config server's). `answered` tells whether the
  // runner accepts. If the membership cannot change: kFailedPrecondition. Any thread.
  void Propose(std::optional<int> size, StatusCallback answered);
  // This peer was asked to end, by SIGTERM: may it leave, and the others go on without it? kFailedPrecondition: no; the
  // job ends. Any thread.
  void GiveNotice(StatusCallback answered);
  // Leaves, between two steps. With OK this peer takes no part any more. kFailedPrecondition: as above. Any thread.
  void LeaveJob(StatusCallback done);
  // Tells the program's wanted number of peers, repeatedly. Rank 0 proposes it if there are not as many, or if it takes
  // back an earlier wish. All call it. `answered`: as of Propose; OK at once where nothing is proposed. Any thread.
  void Want(int size, const StatusCallback& answered);
  // Goes over to the newest membership that any peer has been told of. All call it at the same point of their work, and
  // go over together. A newcomer, which is a peer of one until then, asks to be taken in, and waits. `done` is called
  // once, later or at once. With OK, session() belongs to the newest membership, and all its peers have gone over; if
  // there is no newer one, it is the old session. If this peer takes no part any more it has no peers, and later
  // operations fail with kAborted. If a newcomer ends before it was told, the membership that the runner announces
  // instead counts. Otherwise the peers have not met, in the old session or the new one: kUnavailable if a peer is
  // gone, kDeadlineExceeded if one does not come. Pending operations of a session that ends fail with kCancelled. Any
  // thread.
  //
  // If the job survives lost peers, it does so here, too. Then the survivors are in another session than before, each
  // since another point of its work. place().agreed is that of which all know: it changes here only, and for all in
  // the same call.
  void Advance(StatusCallback done) { Advance(/*only_if_idle=*/false, std::move(done)); }
  // The same; if some peer has operations pending all get kFailedPrecondition instead, and nothing has changed.
  void AdvanceIfIdle(StatusCallback done) { Advance(/*only_if_idle=*/true, std::move(done)); }
  // Whether memberships may change.
  bool elastic() const { return config_.membership != "static"; }
  // Session::InterruptOnLoop; returns when the others are being told. Not on a thread of the core.
  void Interrupt(const Status& why);

  // The data that peers keep for each other, in all epochs. To ask, take the peers of the session().
  P2p* p2p() { return p2p_.get(); }

  // EventLoop::Help; where there is no loop, only calls `start`.
  void Help(const std::function<void()>& start, const std::function<bool()>& until, std::optional<Seconds> longest);

  const OperationCounters& counters() const { return counters_; }
  ThroughputMeter& throughput() { return counters_.throughput(); }
  // Records when operations begin and end, in a new file, until the next start, the stop, or Shutdown. Stop returns the
  // first error of writing. kFailedPrecondition: nothing is recorded. Any thread.
  Status StartTimeline(const std::string& path);
  Status StopTimeline();
  // All zero without connections, and after Shutdown. Blocks until the loop has answered.
  RouterTotals Totals();
  struct PeerTraffic {
    Traffic total;
    std::array<TrafficMeter::Rates, kNumTrafficWays> rates;  // by way
  };
  // By rank. As Totals.
  std::vector<PeerTraffic> TrafficByRank();

 private:
  Peer(const Config& config, const PeerId& self, Arena* arena);
  Status StartSession(const Membership& membership);
  // Shutdown of a peer with a loop.
  void Leave();
  // When it succeeds the runner is told that the program's operations do.
  void TellOfFirst(Operation* operation);
  uint64_t StartInGroup(Operation&& operation) EXCLUDES(session_mu_);
  std::shared_ptr<Session> MakeSession(const PeerList& peers, int rank, uint32_t epoch, const StrategySpec& strategy);
  void GoOverOnLoop(const std::shared_ptr<Session>& old, const PeerList& peers, uint32_t epoch,
                    const StrategySpec& strategy, const StatusCallback& done);
  // The runner says who is left; the others are lost because of `why`.
  void SurviveOnLoop(const Membership& survivors, const std::string& why);
  void GoOnWithSurvivorsOnLoop();
  // A connection with a peer of that membership is over. The runner knows whether both live, and then announces the
  // same peers as survivors, whose connections are made anew.
  void BrokenOnLoop(uint32_t version);
  void MeetSurvivorsOnLoop();
  StrategySpec NextStrategy() const;
  void Advance(bool only_if_idle, StatusCallback done);
  // Asks the runner something.
  using Question = void (Control::*)(Seconds patience, StatusCallback answered);
  void AskRunner(Question question, StatusCallback answered);
  void AgreedOnLoop(uint32_t version, const StatusCallback& done);
  void AwaitOthersOnLoop(const std::shared_ptr<Session>& session, const StatusCallback& done);
  void AgreeOn(const Headcount& membership);
  void SetOutOnLoop(uint32_t version, const StatusCallback& done);
  void EnterOnLoop(const Membership& membership);
  void MeetOnLoop();
  void MetOnLoop(const std::shared_ptr<Session>& session, const Status& status);
  // Whether the runner may still announce one in place of the membership that this peer is entering.
  bool MayBeReplacedOnLoop() const;
  // Goes over to that, if it was announced. Returns whether it does.
  bool ReplaceOnLoop();
  void ForgetMeetingOnLoop();
  // Ends the wait for it where it is in vain.
  void JudgeOnLoop();
  void EndEnteringOnLoop(const Status& status);
  // On the loop once it runs: so that it needs no lock there to read it.
  void SetSession(std::shared_ptr<Session> session, const StrategySpec& strategy) EXCLUDES(session_mu_);
  const std::shared_ptr<Session>& SessionOnLoop() const NO_THREAD_SAFETY_ANALYSIS { return session_; }
  Status StartLoop(const PeerList& peers, int rank);
  void OpenControl();
  Status BeginOnLoop();
  // Runs `task` on the loop and waits for it. Returns false if the loop has ended.
  bool RunAndWait(const std::function<void()>& task);

  const Config config_;
  const PeerId self_;
  Arena* const arena_;
  OperationCounters counters_;
  TrafficMeter traffic_{Clock::now()};

  Mutex shutdown_mu_;  // held as long as it takes
  bool down_ GUARDED_BY(shutdown_mu_) = false;

  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<TransportSet> transports_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<P2p> p2p_;
  std::unique_ptr<Transactions> transactions_;    // null in a job of one
  Membership survivors_;                          // the newest ones, if peers were lost; the loop's
  uint32_t anew_version_ = 0;                     // that is to begin with new connections; the loop's
  uint32_t broken_version_ = 0;                   // the newest of which the runner was told; the loop's
  bool goes_over_ = false;                        // is on the way to another session; the loop's
  bool leaves_ = false;                           // Shutdown was called; the loop's
  std::unique_ptr<Announcements> announcements_;  // the loop's
  // All have agreed on a change. This peer is on its way to it, or awaits the others. The loop's.
  struct Entering {
    std::shared_ptr<Session> session;  // where it awaits them; null: on its way
    StatusCallback done;               // of Advance
    Status failed;                     // not OK: they cannot come together; the runner may know one that can
    EventLoop::TimerId timer;
  };
  std::optional<Entering> entering_;
  std::vector<PeerId> failed_peers_;         // as the runner says; the loop's
  std::atomic<uint32_t> newest_version_{0};  // that was announced
  std::atomic<Headcount> to_agree_on_{{}};   // that the next Advance tells all of: the newest survivors, or a change
  std::atomic<Headcount> agreed_{{}};        // Place::agreed
  std::atomic<bool> joining_{false};         // a newcomer that was not taken in yet
  std::atomic<int> wanted_{0};               // by the last Want
  std::atomic<bool> has_begun_{false};       // an operation of the program has succeeded
  std::atomic<uint32_t> last_group_{0};      // that was made, or is being made

  mutable Mutex session_mu_;
  std::shared_ptr<Session> session_ GUARDED_BY(session_mu_);
  StrategySpec strategy_ GUARDED_BY(session_mu_);  // as was asked for
};

}  // namespace kungfu
