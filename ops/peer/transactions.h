// The operations of a program on their way to the session. Those that belong together are delivered together, and those
// that a lost peer has broken are repeated among the survivors.
//
// An exchange is a number of operations with one name in common, such as the buckets of one update: either all of them
// are delivered on this peer, or none. Any other operation is an exchange of its own. It passes these stages:
//
//     running     some of its operations have not ended, or not begun
//     complete    all have their results here
//     voted       all peers have said that it is complete on them; only if operations are repeated
//     delivered   `done` was called
//
// So nobody delivers before it is complete everywhere. When a session breaks because a peer is lost, the operations
// wait until the runner has named the survivors, and these have a session. Then the survivors tell each other how far
// each exchange is:
//
//     somebody has delivered it, or it is complete on all    all deliver it, the lost peer's contribution included
//     it has failed on somebody                              it fails on all that have begun it
//     else                                                   all repeat it, whole, from their inputs
//
// Exchanges are known by name and number: how many of the name began before, in this era. An era is the time from one
// change of the peers that they make together, or one epoch, to the next. The survivors' programs have begun the same
// exchanges, though some may be further.
//
// The exchange kChangeName is that by which all peers agree on the next change. Some survivors may be on the way to it,
// which means that it is complete on all that are not. So all deliver it, and are in the era of that change.
//
// Cost: nothing but a wait for exchanges of one operation that are not repeated. Repeated ones cost a barrier each, and
// memory: an operation that works in place needs a copy of its input.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/collective/operation.h"
#include "ops/collective/session.h"
#include "ops/elastic/membership.h"
#include "ops/store/buffer_pool.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

inline constexpr char kChangeName[] = "kungfu/the next membership";

class Transactions {
 public:
  using Current = std::function<std::shared_ptr<Session>()>;

  // `repeats`: whether operations are repeated among survivors; `session`: the current one. The loop must outlive it.
  Transactions(EventLoop* loop, bool repeats, Current session);
  ~Transactions();

  // Whether an operation goes this way; else the session's.
  bool Takes(const Operation& operation) const { return repeats_ || operation.exchange_size > 1; }
  // As of the session; any thread.
  uint64_t Start(Operation&& operation);
  void Cancel(uint64_t handle, const Status& cause);
  static bool Owns(uint64_t handle) { return (handle >> 62) == 1; }

  struct Era {
    uint64_t epoch = 0;  // with which it has begun; plus 1 for each epoch that all have begun since
    int peers = 0;       // that made the change; 0 in the first era

    Era Next() const { return {epoch + 1, peers}; }
    Headcount change() const { return {VersionOf(static_cast<uint32_t>(epoch)), peers}; }
  };
  // All that has begun ends: as soon as the session lets go of it. An era begins: the numbers begin anew.
  void FailOnLoop(const Status& why, const Era& era);
  // The same, but until an era begins the others cannot know where this peer is.
  void GiveUpOnLoop(const Status& why);
  const Era& era() const { return era_; }
  // There will be no survivors: from now on a lost peer is an error, also of what waits already.
  void NeverRepeatOnLoop();
  // Peers are lost, and the others are about to get a session.
  void LostOnLoop();
  // How a peer comes to the meeting of the survivors.
  struct Arrival {
    uint32_t change = 0;     // the first version of the newest change of the peers
    bool is_on_way = false;  // to that change, on which it has agreed with all others
  };
  // They have not met yet.
  bool surviving() const { return surviving_; }
  // They have it: they tell each other how far they are. Again, if that fails because of another one. `met` is called
  // once, unless there is a later meeting.
  void MeetOnLoop(const Arrival& arrival, StatusCallback met);
  // The others go on, and this peer does not: they have agreed on a change after which it takes no part.
  void LeaveOnLoop();

 private:
  struct Exchange;

  enum class Stage { kWaiting, kRunning, kComplete };

  // One operation.
  struct Call {
    uint64_t handle = 0;
    Operation operation;  // without `done`; moved away if it is not repeated
    StatusCallback done;
    Exchange* exchange = nullptr;  // null: it has failed
    Stage stage = Stage::kWaiting;
    Status failure;                    // why it waits, or why its exchange has failed
    std::shared_ptr<Session> session;  // running: where,
    uint64_t run = 0;                  // and its handle there

    // Only if it may be repeated.
    std::optional<PeerId> root;   // of an operation from or to another rank than 0
    std::shared_ptr<char> saved;  // its input, as far as it works in place
    bool has_run = false;         // that may be written over
    std::vector<uint64_t> counts;
    std::unique_ptr<char[]> result;  // of what the call allocates
    std::optional<Norms> norms;
  };

  struct Exchange {
    std::string name;
    uint64_t number = 0;
    int size = 1;
    int complete = 0;
    std::vector<Call*> calls;
    bool votes = false;
    std::shared_ptr<Session> session;  // of the vote
    uint64_t vote = 0;

    bool is_complete() const { return complete == size; }
    bool Has(const std::string& operation) const;
  };
  using Key = std::pair<std::string, uint64_t>;

  // How far an exchange is, as the survivors tell each other.
  enum Progress : char { kNotBegun, kBegun, kAllHere, kDelivered, kFailed };

  // What the survivors tell each other, once they have a session.
  struct Meeting {
    std::shared_ptr<Session> session;
    Arrival arrival;
    StatusCallback met;
    std::vector<char> mine;
    std::vector<uint64_t> counts;
    std::vector<char> all;
    std::vector<Key> keys;
  };

  void StartOnLoop(std::unique_ptr<Call> call);
  Exchange* JoinOnLoop(Call* call);
  Status Save(Call* call);
  void RunOnLoop(Call* call);
  Operation Repeatable(Call* call);
  static bool FindRoot(const Call* call, const Session& session, Operation* operation);
  void EndedOnLoop(uint64_t handle, const Status& status);
  void SettleOnLoop(Exchange* exchange);
  void VoteOnLoop(Exchange* exchange);
  void VotedOnLoop(const Key& key, const Status& status);
  void DeliverOnLoop(Exchange* exchange);
  void SettleNextOnLoop(const std::string& name);
  static Status HandOver(Call* call);
  void FailExchangeOnLoop(Exchange* exchange, const Status& why);
  void FinishOnLoop(Call* call, const Status& status);
  bool MayBeRepeated(const Status& status) const;
  void WaitForSurvivorsOnLoop();
  void FailWaitingOnLoop();

  void GatherOnLoop(const char* name, std::function<void()> next);
  void CompareOnLoop();
  void CatchUpOnLoop(const Era& changed);
  void DeliverChangeOnLoop();
  void EndMeetingOnLoop(const Status& status);
  void ResolveOnLoop();
  Progress ProgressOf(const Key& key) const;
  void RepeatOnLoop(const std::set<Key>& delivered, const std::set<Key>& failed);

  EventLoop* const loop_;
  const bool repeats_;
  const Current session_;
  std::atomic<uint64_t> next_handle_{uint64_t{1} << 62};

  // The rest is the loop's.
  std::map<uint64_t, std::unique_ptr<Call>> calls_;     // by handle: oldest first
  std::map<Key, std::unique_ptr<Exchange>> exchanges_;  // not delivered
  std::unordered_map<std::string, uint64_t> begun_;     // how many, by name
  // For inputs: one for each of an update's buckets, mostly.
  static constexpr size_t kMostSpares = 64;
  BufferPool spares_{kMostSpares};
  std::set<Key> failed_;  // since the survivors met last
  Era era_;
  bool gave_up_ = false;  // in this era
  bool never_ = false;
  bool surviving_ = false;  // peers were lost, and the others have not met
  EventLoop::TimerId timer_{};
  bool waits_ = false;  // with that timer
  std::unique_ptr<Meeting> meeting_;
};

}  // namespace kungfu
