// ops/collective/notes.h and direct_group.h: peers that tell each other on their boards, and sleep.

#pragma once

#include "tests/models/model.h"

namespace kungfu::models {

enum class NotesFault { kNone, kStampTooEarly, kReadTooEarly, kNoFenceBehindTheStamp, kNoFenceInSleep };

// Each of `kPeers` writes a note for each of `kOperations`, over the one before the last, and waits for all others'.
template <NotesFault kFault, unsigned kPeers, unsigned kOperations>
class Notes : public rl::test_suite<Notes<kFault, kPeers, kOperations>, kPeers> {
 public:
  void before() {
    for (Board& board : boards_) {
      for (Note& note : board.notes) note.stamp.store(0, rl::mo_relaxed, $);
      board.asleep.store(0, rl::mo_relaxed, $);
      board.bell.Begin();
    }
  }
  void after() {
    for (Board& board : boards_) board.bell.End();
  }
  void thread(unsigned me) {
    for (unsigned number = 1; number <= kOperations; ++number) {
      Write(me, number);
      if (AllHaveWritten(number)) {
        Ring(me);
      } else {
        while (!SleepUntilAll(me, number)) {
        }
      }
      for (Board& board : boards_) RL_ASSERT(board.notes[number % 2].bytes($) == number);
    }
  }

 private:
  struct Note {
    rl::atomic<unsigned> stamp;
    rl::var<unsigned> bytes;
  };
  struct Board {
    Note notes[2];
    rl::atomic<unsigned> asleep;
    Sleeper bell;
  };

  static void FenceUnless(NotesFault fault) {
    if (kFault != fault) rl::atomic_thread_fence(rl::mo_seq_cst, $);
  }
  // Notes::WriteOnLoop
  void Write(unsigned me, unsigned number) {
    Note& note = boards_[me].notes[number % 2];
    note.bytes($) = number;
    note.stamp.store(number, kFault == NotesFault::kStampTooEarly ? rl::mo_relaxed : rl::mo_release, $);
    FenceUnless(NotesFault::kNoFenceBehindTheStamp);
  }
  // Notes::FindOnLoop
  bool AllHaveWritten(unsigned number) {
    for (Board& board : boards_) {
      const auto order = kFault == NotesFault::kReadTooEarly ? rl::mo_relaxed : rl::mo_acquire;
      if (board.notes[number % 2].stamp.load(order, $) != number) return false;
    }
    return true;
  }
  // DirectGroup::RingOnLoop, whose own fence is not needed behind that of the stamp.
  void Ring(unsigned me) {
    for (unsigned peer = 0; peer < kPeers; ++peer) {
      if (peer != me && boards_[peer].asleep.load(rl::mo_relaxed, $) != 0) boards_[peer].bell.Call();
    }
  }
  // DirectGroup::SleepOnLoop and WakeOnLoop
  bool SleepUntilAll(unsigned me, unsigned number) {
    Board& mine = boards_[me];
    mine.asleep.store(1, rl::mo_relaxed, $);
    FenceUnless(NotesFault::kNoFenceInSleep);
    const bool is_ready = AllHaveWritten(number);
    if (!is_ready) mine.bell.AwaitCall();
    mine.asleep.store(0, rl::mo_relaxed, $);
    return is_ready;
  }

  Board boards_[kPeers];
};

enum class CountFault { kNone, kCountTooEarly, kNoFenceBehindTheCount, kNoFenceInSleep, kNoFenceBehindTheReading };

// A peer writes to the memory of another one, which sleeps until it has finished.
template <CountFault kFault>
class Finished : public rl::test_suite<Finished<kFault>, 2> {
 public:
  void before() {
    for (auto* word : {&finished_, &asleep_}) word->store(0, rl::mo_relaxed, $);
    bell_.Begin();
  }
  void after() { bell_.End(); }
  void thread(unsigned number) { number == 0 ? Finish() : Await(); }

 private:
  static void FenceUnless(CountFault fault) {
    if (kFault != fault) rl::atomic_thread_fence(rl::mo_seq_cst, $);
  }
  // DirectGroup::FinishOnLoop and RingOnLoop
  void Finish() {
    result_($) = 1;
    finished_.fetch_add(1, kFault == CountFault::kCountTooEarly ? rl::mo_relaxed : rl::mo_release, $);
    FenceUnless(CountFault::kNoFenceBehindTheCount);
    if (asleep_.load(rl::mo_relaxed, $) != 0) bell_.Call();
  }
  // DirectGroup::SleepOnLoop and FinishedOnLoop
  void Await() {
    while (finished_.load(rl::mo_acquire, $) == 0) {
      asleep_.store(1, rl::mo_relaxed, $);
      FenceUnless(CountFault::kNoFenceInSleep);
      if (finished_.load(rl::mo_acquire, $) == 0) bell_.AwaitCall();
      asleep_.store(0, rl::mo_relaxed, $);
    }
    RL_ASSERT(result_($) == 1);
  }

  rl::atomic<unsigned> finished_, asleep_;
  rl::var<unsigned> result_;
  Sleeper bell_;
};

// A peer has finished, takes that back, and changes its memory. The other one, which has read there, believes it or
// not.
template <CountFault kFault>
class TakenBack : public rl::test_suite<TakenBack<kFault>, 2> {
 public:
  void before() {
    for (auto* word : {&finished_, &data_}) word->store(0, rl::mo_relaxed, $);
  }
  void thread(unsigned number) { number == 0 ? FinishAndTakeBack() : Read(); }

 private:
  // DirectGroup::FinishOnLoop, then TakeBackOnLoop
  void FinishAndTakeBack() {
    finished_.fetch_add(1, rl::mo_seq_cst, $);
    finished_.fetch_sub(1, rl::mo_seq_cst, $);
    if (kFault != CountFault::kNoFenceBehindTheCount) rl::atomic_thread_fence(rl::mo_seq_cst, $);
    data_.store(1, rl::mo_relaxed, $);
  }
  // The work of HostMover, the fence of FinishOnLoop, and IsReadyOnLoop
  void Read() {
    const unsigned data = data_.load(rl::mo_relaxed, $);
    if (kFault != CountFault::kNoFenceBehindTheReading) rl::atomic_thread_fence(rl::mo_seq_cst, $);
    if (finished_.load(rl::mo_acquire, $) == 1) RL_ASSERT(data == 0);
  }

  rl::atomic<unsigned> finished_, data_;  // of one peer
};

}  // namespace kungfu::models
