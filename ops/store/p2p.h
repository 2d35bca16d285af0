// From peer to peer: saving and posting blobs for others, and asking others for theirs. It belongs to the peer and not
// to a session: saved blobs stay, and requests are served, across a change of epochs. Only queues, which are between
// ranks, end with their epoch. In an interrupted epoch no request begins until the next one.
//
// The bytes of a blob travel once, in parts of 1 MiB, from where they are kept straight to where they were asked for.
// Serving is the event loop's work: it waits for no training step, and no training step waits for it.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/monitor/operation_counters.h"
#include "ops/router/pull.h"
#include "ops/router/router.h"
#include "ops/store/blob_store.h"
#include "ops/store/keeper.h"
#include "ops/store/request.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// A blob for a queue.
struct Put {
  std::string queue;
  uint64_t epoch = 0;
  BlobForm form;
  Payload bytes;       // not needed any more when Start returns
  int capacity = 1;    // it is done when fewer than so many are before it
  double timeout = 0;  // seconds; 0: the store's
  StatusCallback done;
};

// Any thread, but for methods that end in OnLoop. Callbacks run once, from the loop's thread. In a single process (no
// loop) they run before the call returns: there a missing blob, and a full queue, is an error at once.
class P2p : private PullHandler {
 public:
  struct Options {
    int window;             // versions of a name that are kept
    Seconds stall_warning;  // until the log names the request that waits
    Seconds timeout;        // of requests without one
    bool survives;          // of requests: Request::survives
  };
  // `loop` and `router` may be null, for a process that is alone.
  P2p(EventLoop* loop, Router* router, const PeerId& self, uint64_t epoch, const Options& options,
      OperationCounters* counters);
  ~P2p() override;

  // So many take part from now on: their ranks may be asked for, and do not become wrong when fewer survive. One
  // thread at a time.
  void HasPeers(int size);

  // As BlobStore::Save; copies before it returns.
  StatusOr<uint64_t> Save(const std::string& name, std::optional<uint64_t> version, const BlobForm& form,
                          const Payload& bytes, int keep);

  // As BlobStore::PostInto; copies before it returns. Others take it as out of a queue.
  Status Post(const std::string& outbox, uint64_t epoch, const BlobForm& form, const Payload& bytes, double weight,
              bool replaces);

  // As BlobStore::Forget.
  void Forget(const std::string& prefix) { store_.Forget(prefix); }

  // This peer may also ask for its own blobs. Errors: kInvalidArgument (no such rank; it is of another form there),
  // kNotFound, kOutOfRange (the version will never be there again), kDeadlineExceeded, kUnavailable (the peer is gone;
  // without a wait: it has crashed), kResourceExhausted (too many requests wait there), kCancelled (of a queue: the
  // epoch has ended; this peer has interrupted it), what another peer has interrupted the epoch with.
  uint64_t Start(Request request);
  // kDeadlineExceeded: no peer has made room. Then it is not in the queue.
  uint64_t Start(Put put);
  // Ends a request or put that is pending: with `cause`, or if that is OK with kCancelled.
  void Cancel(uint64_t handle, const Status& cause);
  // Whether a handle belongs to this object.
  static bool Owns(uint64_t handle) { return (handle & kHandleBit) != 0; }

  void OpenOnLoop();
  // The epoch was interrupted: pending requests end with `why`, and so do those that start before the next epoch. Saved
  // blobs are still served.
  void InterruptOnLoop(const Status& why);
  // Queues are empty; waits for queues of the last epoch end. On the loop, if there is one.
  void BeginEpoch(uint64_t epoch);
  // Ends pending requests with `why`. Afterwards the router is not touched any more.
  void CloseOnLoop(const Status& why);

 private:
  static constexpr uint64_t kHandleBit = uint64_t{1} << 63;

  struct Running;
  struct RunningPut;

  void StartOnLoop(uint64_t handle, Request request);
  bool ServedHere(const Request& request, Status* status, BlobHead* head);
  void EndedOnLoop(uint64_t handle, const Status& status, const BlobHead& head);
  void FailOnLoop(uint64_t handle, const Status& status);
  // The pending requests: all, or only those of queues.
  void FailAllOnLoop(const Status& status, bool only_queues);
  void SavedLater(const std::string& name);
  void StartPutOnLoop(uint64_t handle, std::shared_ptr<RunningPut> put);
  void RetryPutsOnLoop(const std::string& queue);
  void EndPutOnLoop(uint64_t handle, const Status& status);
  void Count(const std::string& name, bool succeeded);
  void CountEnded(const Request& request, const Status& status);
  // Sets the timer: `expire` is called after so many seconds; before that, when the warning is due, `warn`.
  void WatchOnLoop(EventLoop::TimerId* timer, Seconds timeout, std::function<void()> warn,
                   std::function<void()> expire);
  std::string TitleOf(const std::string& queue) const;
  Seconds TimeoutOf(double timeout) const;

  // PullHandler
  void OnPullOnLoop(const PeerId& asker, const FrameHeader& pull) override;
  void OnPullDroppedOnLoop(const PeerId& asker, const OperationId& id) override;
  void OnPullRefusedOnLoop(const PeerId& keeper, const OperationId& id, const Status& why) override;
  void OnAskerLostOnLoop(const PeerId& asker) override;

  EventLoop* const loop_;
  Router* const router_;
  const PeerId self_;
  const Options options_;
  OperationCounters* const counters_;
  std::atomic<uint64_t> next_handle_{kHandleBit};
  std::atomic<int> most_peers_{0};

  BlobStore store_;
  Keeper keeper_;

  // The rest is the loop's.
  Status closed_;       // not OK: nothing begins any more
  Status interrupted_;  // not OK: nothing begins in this epoch any more
  uint64_t next_number_ = 0;
  std::map<uint64_t, std::shared_ptr<Running>> running_;  // by handle
  std::map<uint64_t, std::shared_ptr<RunningPut>> puts_;
};

}  // namespace kungfu
