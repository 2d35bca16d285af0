// A fixed, ordered list of peers and the collectives between them.
//
// The session checks and times operations, and tells all peers of an error that one finds. It remembers failed
// operations: a peer that comes later gets the same error at once, and all counters stay in step. What was called here
// is kept, and numbered by name, in operation_table.h. Movers move the data.
//
// A session is one epoch. Changes for all (which peers take part, along which graphs) come with the next one, whose
// numbers start at 0 again. Owned by shared pointers: the caller of an operation may hold on to a session that is over.
//
// Before the first operation the peers come together (agreement.h).
//
// A group is a session of some of its peers, within the session of all and its epoch: it has its own ranks, numbers,
// graphs and shared memory. The names of its operations begin with its own on the wire, by which the session of all
// hands it what the router brings.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/base/mutex.h"
#include "ops/collective/agreement.h"
#include "ops/collective/operation.h"
#include "ops/collective/operation_table.h"
#include "ops/collective/pinger.h"
#include "ops/collective/planner.h"
#include "ops/collective/running_operation.h"
#include "ops/collective/stall_watch.h"
#include "ops/monitor/operation_counters.h"
#include "ops/plan/peer_list.h"
#include "ops/plan/strategy.h"
#include "ops/router/router.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// A peer fills all of it from its settings, which have defaults.
struct SessionOptions {
  StrategySpec strategy;
  uint64_t chunk_bytes = 0;    // the largest chunk: kMinChunkBytes to kMaxChunkBytes
  Seconds timeout{0};          // of an operation that names none
  Seconds stall_warning{0};    // until the log names the missing peers
  Seconds silence_timeout{0};  // until a peer that answers nothing is given up
  // Whether the peers of a host may use each other's memory, what this one shares (null: nothing), and from how many
  // bytes on all_reduce uses it. Except for the arena, rank 0's values count.
  bool direct = false;
  Arena* arena = nullptr;
  uint64_t direct_bytes = 0;
  // Whether small all_reduces may go from every peer to every other (exchange_mover.h). Rank 0's counts.
  bool exchanges = false;
};

// "ranks 0, 2".
std::string RanksText(const std::vector<int>& ranks);

class Session : public std::enable_shared_from_this<Session>, private RouterHandler {
 public:
  // All pointers must outlive it. `router` may be null for a session of one. Without peers it is the session of a peer
  // that takes no part (any more), with rank -1: operations fail with kAborted. `first_failure` (may be null) is called
  // with the first operation that fails, unless it was cancelled here; `interrupted` (may be null) with each
  // interruption. Both run on the loop.
  Session(EventLoop* loop, Router* router, const PeerList& peers, int rank, uint32_t epoch,
          const SessionOptions& options, OperationCounters* counters, StatusCallback first_failure,
          StatusCallback interrupted);
  ~Session() override;

  // Begins an operation and returns its handle. operation.done is called once, from the loop's thread, later. It is
  // called before the call returns in a session of one or of none, after the loop has ended, and if this thread does
  // the loop's work (EventLoop::Help). Any thread; operations of one name are numbered in the order of calls. A
  // consensus reads its data before the call returns.
  uint64_t Start(Operation&& operation);
  // The same on the loop, without a hop. operation.done may be called before the call returns if it fails.
  uint64_t RunAtOnceOnLoop(Operation&& operation);
  // Ends it, here and on every peer: with `cause`, or if that is OK with kCancelled. Does nothing if it is over. Any
  // thread.
  void Cancel(uint64_t handle, const Status& cause = OkStatus());

  // -- Groups, of the session of all --

  // The members of group `number`, by their ranks here, in order.
  struct Group {
    std::vector<int> ranks;
    std::shared_ptr<Session> session;  // null: this peer is no member
  };
  // Makes one, which all peers make with the same number; on the loop, if there is one.
  // REQUIRES: `ranks` ascend and are ranks of this session; the number is new.
  void AddGroup(uint64_t number, const std::vector<int>& ranks);
  // Makes those of a session of the same peers that is over. REQUIRES: BeginOnLoop was not called.
  void AddGroupsOf(const Session& old);
  // Null if there is none. Any thread.
  std::shared_ptr<const Group> FindGroup(uint64_t number) const EXCLUDES(groups_mu_);
  // Its operations fail with kCancelled, and there is no such group any more. On the loop, if there is one.
  void CloseGroup(uint64_t number) EXCLUDES(groups_mu_);

  // This peer has no more work, and others have. Until all peers have called it, it takes part in the all_reduces of
  // the others with what changes nothing. Their other operations fail with kFailedPrecondition. `done` is told, on the
  // loop, how many peers had called it before this one, as far as this one knew. The deadline is that of an operation,
  // from the last one that others have begun. Any thread.
  void Join(std::function<void(const StatusOr<int>& before)> done);

  // Asks the other peers for a sign of life, and tells when it came: on the loop; in a session of one before the call
  // returns. Any thread; other peers need not do the same.
  void Ping(Seconds timeout, Pinger::Done done);

  // kAuto as long as the peers have not agreed on one; if several share the work, the one for the largest tensors. Any
  // thread.
  StrategyName strategy() const { return chosen_; }
  int rank() const { return rank_; }
  int size() const { return peers_.size(); }
  uint32_t epoch() const { return epoch_; }
  // Whether the epoch was interrupted, here or elsewhere. Any thread.
  bool interrupted() const { return interrupted_; }
  // Whether an operation was started that has not ended, in a group or not. Any thread.
  bool busy() const { return shared_->pending > 0; }
  const PeerList& peers() const { return peers_; }

  // Takes part in the router's epoch. Must be called before messages of other peers are expected. `previous`: the
  // session of the epoch before, if it was here; it still answers questions of others.
  void BeginOnLoop(std::shared_ptr<Session> previous);
  // The runner says that a peer's process has failed.
  void PeerFailedOnLoop(int rank, const std::string& text);
  // The same of one whose process has ended well. Those that it was connected with know by themselves.
  void PeerLeftOnLoop(int rank);
  // Calls `idle` when all operations have ended; at once if there is none.
  // REQUIRES: AbortOnLoop.
  void WhenIdleOnLoop(std::function<void()> idle);
  // After this the router is not touched any more. REQUIRES: all operations have ended.
  void EndOnLoop();
  // The program has left its common work with the others in the middle, because of `why`. Here all pending and all
  // later operations of this epoch fail with kCancelled. Elsewhere operations that have not begun here fail with `why`;
  // others can still be completed.
  void InterruptOnLoop(const Status& why);
  // All pending operations fail with `why`, and later ones too. The other peers are told, operation by operation.
  void AbortOnLoop(const Status& why);

 private:
  // What a session and its groups have in common.
  struct Shared {
    std::atomic<uint64_t> next_handle;  // unlike those of other epochs
    std::atomic<int> pending{0};
    // The loop's: how many calls of Join the others have begun, and how many have ended here.
    std::unordered_map<PeerId, uint64_t, PeerIdHash> joins;
    uint64_t ended_joins = 0;
  };

  // A group of `whole`.
  Session(const Session& whole, uint64_t number, const std::vector<int>& ranks);
  std::map<uint64_t, std::shared_ptr<const Group>> groups() const EXCLUDES(groups_mu_);
  // Calls `visit` for each group that this peer is in.
  void ForGroupsOnLoop(const std::function<void(Session* group)>& visit) const;
  // The group whose operation it is; null: it is of all, or the group is not here.
  Session* GroupOfOnLoop(const OperationId& id) const;
  void BeginGroupOnLoop(uint64_t number, Session* group);

  OperationTable MakeTable();
  // Returns whether anything is left to do: not in a session of one or of none.
  bool Begin(Operation* operation);
  void StartOnLoop(uint64_t handle, Operation&& operation);
  void AgreeOnLoop();
  void AgreedOnLoop(StatusOr<Agreement::Terms> terms);
  void OpenOnLoop();
  std::unique_ptr<Mover> MakeMover(Movement movement, Conversation* conversation);
  void RunOnLoop(uint64_t handle, OperationTable::Named* named, uint64_t number, Operation&& operation);
  void EndedOnLoop(RunningOperation* running, const Status& status);
  void TellAllOnLoop(const OperationId& id, const Status& status, bool passed_on);
  void TellPartnersOnLoop(const OperationId& id, const Operation& operation, const Status& status,
                          bool passed_on = false);
  void TellOfFailureOnLoop(const RunningOperation& which, const Status& status);
  void FinishOnLoop(Operation* operation, const Status& status);
  void Finish(Operation* operation, const Status& status);
  void DropWaitingOnLoop(const OperationTable::Waiting* waiting, const Status& status, bool tell);
  Seconds TimeoutOf(const Operation& operation) const;
  const Status& HopelessOnLoop(const Operation& operation) const;
  OperationId AgreementId() const;
  OperationId InterruptId() const;
  void BreakOnLoop(const Status& why, bool tell);
  void InterruptedOnLoop(int rank, const Status& why);
  void AskAboutAllOnLoop(int rank);
  void AskThoseWhoMayMissItOnLoop(const OperationId& id, const Signature& signature);
  void JoinOnLoop(const std::function<void(const StatusOr<int>& before)>& done);
  void TellOfJoinOnLoop();
  void JoinedOnLoop(const PeerId& peer, uint64_t joins);
  // Whether another peer has begun a Join that has not ended here.
  bool HasJoinedOnLoop(const PeerId& peer) const;
  bool StandsInForOnLoop(const PeerId& asker, const OperationId& id) const;
  Status StandInOnLoop(const OperationId& id, const Signature& theirs);
  Status BeginWithNothingOnLoop(const OperationId& id, const Signature& theirs);
  void RefusedOnLoop(const PeerId& by, const OperationId& id, const Status& why);
  // How many calls of Join a piece of news says that its sender has begun; 0: it is about something else.
  static uint64_t JoinsToldOf(const OperationId& id);
  void FailOnLoop(const OperationId& id, const Status& status);
  void DieOnLoop(const Status& why, bool passed_on);
  void GiveUpOnLoop(int rank, const Status& why);
  bool IsOtherOnLoop(int rank) const;

  // RouterHandler
  void OnFailOnLoop(const PeerId& from, const OperationId& id, const Status& status, bool passed_on) override;
  Status OnAskOnLoop(const PeerId& from, const OperationId& id, const Signature& theirs) override;
  void OnAnswerOnLoop(const PeerId& from, const OperationId& id, const Status& answer) override;
  Status OnPeerLostOnLoop(const PeerId& peer, const Status& why, bool left) override;

  EventLoop* const loop_;
  Router* const router_;
  const PeerList peers_;
  const int rank_;
  const uint32_t epoch_;
  const SessionOptions options_;
  OperationCounters* const counters_;
  const MoverFactory graph_movers_;
  StatusCallback first_failure_;  // null once it was called
  const StatusCallback on_interrupted_;

  const std::shared_ptr<Shared> shared_;
  const std::string prefix_, among_;  // of a group: before the names of its operations, behind their titles
  std::atomic<bool> interrupted_{false};
  std::atomic<StrategyName> chosen_{StrategyName::kAuto};

  mutable Mutex groups_mu_;
  std::map<uint64_t, std::shared_ptr<const Group>> groups_ GUARDED_BY(groups_mu_);
  std::atomic<bool> has_groups_{false};

  // The rest is the loop's.
  std::unique_ptr<Agreement> agreement_;  // under way
  Agreement::Terms terms_;
  bool agreed_ = false;

  OperationTable operations_;
  std::unique_ptr<StallWatch> watch_;
  std::unique_ptr<Pinger> pinger_;
  Status broken_;               // not OK: nothing can succeed any more
  bool dead_ = false;           // a peer is dead, and all were told
  std::map<int, Status> left_;  // peers that have ended in order, by rank
  Status first_left_;           // not OK: of the first of them
  bool ended_ = false;
  std::optional<OperationId> join_;     // this peer has joined, and waits for the others in it
  bool gave_up_ = false;                // this peer interrupted the epoch
  std::map<int, Status> interrupters_;  // others that did, by rank
  std::vector<std::function<void()>> idle_;
  std::shared_ptr<Session> previous_;
};

}  // namespace kungfu
