// The common part of the movers that work in the memory of the host's peers.
//
// Every peer of the host tells the others where its data lie in its arena (direct_buffers.h), which they have mapped.
// Each then does its share of the work there, says so on its board (direct_group.h), and is done when all have said so.
// A peer whose data lie elsewhere says that, and all of the host take the graph executor.
//
// Peers write to each other's memory. They write only where it was allowed for this operation. A peer whose operation
// does not end by the word of all others withdraws the memory before it gives it back. So no late write of another peer
// reaches the next user of the memory. Before that it takes back its words on its board, so that no later reader
// believes that it is done: the others end when they are told of the failure.
//
// Cost: l - 1 messages of 48 bytes per peer, if the host has l.
//
// A peer reads its share from each other peer, and each gets the result of that back. So between two peers as many
// bytes go each way as their shares have together: this is the traffic that counts, if the operation ends well.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/collective/direct_buffers.h"
#include "ops/collective/direct_group.h"
#include "ops/collective/mover.h"
#include "ops/monitor/operation_counters.h"
#include "ops/router/conversation.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Lives on the event loop's thread.
class HostMover : public Mover, private DirectWaiter {
 public:
  // `fallback` makes the graph executor; `counters` counts the bytes that were moved without it. All that is passed
  // must outlive the mover. REQUIRES: movement.all_reduce; the group has met.
  HostMover(EventLoop* loop, DirectGroup* group, Movement movement, Conversation* conversation,
            const MoverFactory& fallback, OperationCounters* counters);
  ~HostMover() override;

  void StartOnLoop(StatusCallback done) final;
  void StopOnLoop() final;
  std::vector<int> AwaitedOnLoop() const final;
  Movement* RepeatOnLoop() final;

 protected:
  // How much is done between two looks at the clock, and how long the loop's other work may wait.
  static constexpr uint64_t kSlice = 128 << 10;
  static constexpr Seconds kTurn{200e-6};

  // The places of a peer's data in this process.
  struct Data {
    Payload send;
    Pieces recv;
  };

  // Which of `total` bytes this peer alone reads and writes, by BeginOnLoop, and of the board behind them; in order.
  // Asked for once, before that.
  virtual ShortList<Range> Own(uint64_t total) const = 0;
  // Begins this peer's share, now that the data of all are where they can be read and written. Leads to FinishOnLoop,
  // when nothing more is written to the others, or to EndOnLoop with an error.
  virtual void BeginOnLoop() = 0;
  // May be called again, or after the end, to no effect.
  void FinishOnLoop();
  // The memory behind the result that the others may also write to; asked for once, before Own.
  virtual Pieces Board() { return {}; }
  // All have finished, and their writes are here.
  virtual void ConcludeOnLoop() {}
  // Whether it can begin anew, when it has ended well.
  virtual bool MayRepeat() const { return false; }
  // An error; the first counts.
  void EndOnLoop(const Status& status);
  // Whether there is a status: then there is no more work.
  bool ended() const { return !done_; }
  // In a later turn of the loop, unless this was stopped.
  void LaterOnLoop(std::function<void()> task);

  EventLoop* loop() const { return loop_; }
  const DirectGroup& group() const { return *group_; }
  CrossCoreCopier* CopierTo(int place) const { return group_->CopierTo(place); }
  StoreChoice* SumStores() const { return group_->SumStores(); }
  int rank() const { return group_->ranks()[place()]; }
  int place() const { return group_->place(); }
  const Movement& movement() const { return movement_; }
  // By place in the group; this peer's lie where they always did. REQUIRES: BeginOnLoop was called.
  const std::vector<Data>& data() const { return data_; }
  // Whether all peers of the host want what can be measured. REQUIRES: BeginOnLoop was called.
  bool measures() const { return measures_; }
  Conversation* conversation() const { return conversation_; }

 private:
  // The message by which a peer begins. Plain bytes: the host's peers are alike.
  struct Offer {
    uint16_t usable = 0;       // 0: take the graph executor, and ignore the rest
    uint16_t wants_norms = 0;  // 1: measurements are wanted
    uint32_t slot = 0;
    uint64_t table = 0;     // where in the arena it is said where
    uint32_t sends = 0;     // the contribution lies, so many entries,
    uint32_t recvs = 0;     // and behind them the result
    uint64_t total = 0;     // bytes of either, without the board
    uint64_t share = 0;     // bytes of these that this peer reduces
    uint64_t finished = 0;  // the slot's counter; one more when this peer has finished
  };

  Offer& mine() { return offers_[place()]; }
  void ReturnSlot();
  void Prepare();
  void Exchange();
  void OffersAreHere();
  bool See(int place);
  void FallBack();
  void CountTraffic();
  bool Finished(int place) const;
  bool IsReadyOnLoop() override;
  void GoOnOnLoop() override;

  EventLoop* const loop_;
  DirectGroup* const group_;
  Movement movement_;
  Conversation* const conversation_;
  const MoverFactory& fallback_;
  OperationCounters* const counters_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  StatusCallback done_;  // null once its status is known, or the graph executor has it

  // A slot that others may still look at is never used again: there are many, and operations seldom fail.
  int slot_ = -1;
  DirectBuffers buffers_;
  std::vector<Data> data_;  // by place: of the others, from BeginOnLoop on
  uint64_t board_size_ = 0;
  std::vector<Offer> offers_;  // by place
  std::vector<CopySink> sinks_;
  int awaited_ = 0, sending_ = 0;  // messages
  bool falls_back_ = false;
  bool measures_ = false;
  bool finished_ = false;  // this peer has done its share
  int next_ = 0;           // the peer whose counter is looked at
  std::unique_ptr<Mover> inner_;
};

}  // namespace kungfu
