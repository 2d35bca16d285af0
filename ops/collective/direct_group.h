// The peers of one host, for the movers that work in the host's memory (host_mover.h). It has the memory that each peer
// has opened to the others, and lets peers wait for each other without messages.
//
// Each peer owns a board, shared memory that the others map, and writes to its own board only. It has slots, one for
// each operation under way, with a counter: how many operations the peer has finished by this slot. And it has pads,
// for notes of a few bytes (notes.h). The event loop of a peer that waits for another's board looks at it in each
// round. Before the loop sleeps it says so on its own, and the next peer that writes rings its bell, a pipe that the
// loop listens to. A ring too many does no harm: it only makes a peer look.
//
// Orders of memory, which processors other than x86-64 do not keep by themselves:
// - What a peer writes to its board is stored with release order, after the data that it tells of, and the others load
//   it with acquire order before they look at those. So they see results, and the bytes of notes.
// - Between what a peer writes to its board and its look at who sleeps stands a fence, and one between the word that it
//   sleeps and its last look at the boards (RingOnLoop, SleepOnLoop). So one of two sees the other.
// - A count that is taken back is followed by a fence (TakeBackOnLoop). It pairs with that of FinishOnLoop in the other
//   peers, between their last look at this peer's data and their first look at its count.
// - The end of one's own sleep is relaxed: at worst it costs a ring too many.

#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/base/bytes.h"
#include "ops/base/cross_core_copier.h"
#include "ops/base/logging.h"
#include "ops/base/status.h"
#include "ops/base/unique_fd.h"
#include "ops/memory/arena.h"
#include "ops/memory/shared_memory.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

struct DirectSlot {
  alignas(kLine) std::atomic<uint64_t> finished;
};

// See notes.h.
struct DirectNote {
  static constexpr size_t kMost = 48;  // bytes

  alignas(kLine) std::atomic<uint64_t> stamp;
  uint64_t step;
  char bytes[kMost];
};
struct DirectPad {
  DirectNote notes[2];
  alignas(kLine) std::atomic<uint64_t> read;
};

// The data that peers exchange so that they can meet. Plain bytes; all zero if a peer cannot or will not take part.
struct DirectEndpoint {
  SharedMemoryAddress board;
  SharedMemoryAddress arena;
  uint64_t bell_inode = 0;
  int32_t bell = -1;  // descriptor of its process
  int32_t unused = 0;
};

// A wait for other peers' counters.
class DirectWaiter {
 public:
  virtual ~DirectWaiter() = default;
  // Whether they have come so far.
  virtual bool IsReadyOnLoop() = 0;
  // They have. May end any waiter, and the group.
  virtual void GoOnOnLoop() = 0;
};

// Lives on the event loop's thread.
class DirectGroup : private FdHandler, private Pollable {
 public:
  // Beyond, each peer would have too many others to tell.
  static constexpr int kMostPeers = 16;
  static constexpr int kSlots = 4096;
  static constexpr int kPads = 4096;

  // `ranks`: the ranks of the host's peers in the session, in order; `place`: the index of this peer among them.
  // `arena` and the loop must outlive it.
  static StatusOr<std::unique_ptr<DirectGroup>> Make(EventLoop* loop, Arena* arena, std::vector<int> ranks, int place);
  ~DirectGroup() override;

  const DirectEndpoint& endpoint() const { return endpoint_; }
  // Opens the memory of the others, by place. An error names the rank.
  Status MeetOnLoop(const std::vector<DirectEndpoint>& endpoints);

  // By place. Peers are known by their places here.
  const std::vector<int>& ranks() const { return ranks_; }
  int place() const { return place_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  Arena* arena() const { return arena_; }
  // The whole arena of a peer that was met, or of this one.
  MutableBytes ArenaOf(int place) const {
    return place == place_ ? arena_->bytes() : MutableBytes{peers_[place].arena.data(), peers_[place].arena.size()};
  }
  // The copier for data that the peer at `place` reads next; at its own place: for data that any peer may read.
  CrossCoreCopier* CopierTo(int place) { return &copiers_[place]; }
  // For sums that go to two places.
  StoreChoice* SumStores() { return &sum_stores_; }
  // The count of operations that a peer has finished in a slot. A peer that sees the count sees all writes before it.
  uint64_t FinishedOnLoop(int place, int slot) const {
    KF_DCHECK(loop_->InLoop());
    return (place == place_ ? my_slots_ : peers_[place].slots)[slot].finished.load(std::memory_order_acquire);
  }

  // A slot of this peer for one operation; -1: all are in use.
  int TakeSlotOnLoop();
  // The operation has ended well, or was never begun.
  void ReturnSlotOnLoop(int slot);
  // Counts one more, and wakes sleeping peers. REQUIRES: this peer does not look at the others' data any more.
  void FinishOnLoop(int slot);
  // Wakes sleeping peers: something was written on this peer's board.
  void RingOnLoop();
  // A pad of this peer that no other one looks at; -1: all are in use.
  int TakePadOnLoop();
  void ReturnPadOnLoop(int pad);
  DirectPad* PadOf(int place, int pad) { return &(place == place_ ? my_pads_ : peers_[place].pads)[pad]; }
  // From 1 on.
  uint32_t NewWriterOnLoop() { return ++writers_; }
  // Counts one less: the operation has ended badly after all. A peer that sees the old count has seen no later change
  // of this peer's memory. REQUIRES: FinishOnLoop was called for it; the slot is not used again.
  void TakeBackOnLoop(int slot);

  // From now on `waiter`, which does not wait yet, is asked until it is ready, and then told once to go on.
  void WaitOnLoop(DirectWaiter* waiter) {
    KF_DCHECK(loop_->InLoop());
    waiters_.push_back(waiter);
  }
  // One that does not wait is ignored.
  void ForgetOnLoop(DirectWaiter* waiter) {
    KF_DCHECK(loop_->InLoop());
    waiters_.erase(std::remove(waiters_.begin(), waiters_.end(), waiter), waiters_.end());
  }

 private:
  struct Board {
    std::atomic<uint32_t> asleep;
    DirectSlot slots[kSlots];
    DirectPad pads[kPads];
  };

  struct Peer {
    SharedMemory board;
    SharedMemory arena;
    UniqueFd bell;  // its writing end
    std::atomic<uint32_t>* asleep = nullptr;
    DirectSlot* slots = nullptr;
    DirectPad* pads = nullptr;
  };

  DirectGroup(EventLoop* loop, Arena* arena, std::vector<int> ranks, int place);
  Status Meet(const DirectEndpoint& endpoint, Peer* peer);
  void OnEventsOnLoop(uint32_t events) override;
  bool PollOnLoop() override;
  bool SleepOnLoop() override;
  void WakeOnLoop() override;

  EventLoop* const loop_;
  Arena* const arena_;
  const std::vector<int> ranks_;
  const int place_;

  SharedMemory board_;
  std::atomic<uint32_t>* my_asleep_ = nullptr;
  DirectSlot* my_slots_ = nullptr;
  DirectPad* my_pads_ = nullptr;
  UniqueFd bell_, bell_writer_;  // the second so that it is never closed
  DirectEndpoint endpoint_;
  std::vector<Peer> peers_;               // by place; empty for this one
  std::vector<CrossCoreCopier> copiers_;  // by place
  // Plain stores also displace what the next step reads, which the clock does not see here.
  StoreChoice sum_stores_{1.3};
  std::vector<int> free_slots_, free_pads_;
  uint32_t writers_ = 0;
  std::vector<DirectWaiter*> waiters_;
  bool sleeps_ = false;  // as the board says
};

}  // namespace kungfu
