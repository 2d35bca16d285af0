// ops/transport/shm/ring.h: a writer and a reader, each of which sleeps where it has nothing to do.

#pragma once

#include "tests/models/model.h"

namespace kungfu::models {

enum class RingFault { kNone, kWrittenTooEarly, kReadTooEarly, kReaderLooksBeforeItSays, kWriterLooksBeforeItTells };

template <RingFault kFault>
class Ring : public rl::test_suite<Ring<kFault>, 2> {
 public:
  void before() {
    for (auto* word : {&written_, &read_, &reader_sleeps_, &writer_sleeps_}) word->store(0, rl::mo_relaxed, $);
    reader_.Begin();
    writer_.Begin();
  }
  void after() {
    reader_.End();
    writer_.End();
  }
  void thread(unsigned number) { number == 0 ? Write() : Read(); }

 private:
  static constexpr unsigned kCapacity = 2, kMessages = 4;
  static constexpr rl::memory_order Unless(RingFault fault, rl::memory_order order) {
    if (kFault != fault) return order;
    return order == rl::mo_seq_cst ? rl::mo_acq_rel : rl::mo_relaxed;
  }
  static constexpr rl::memory_order kTell = Unless(RingFault::kWriterLooksBeforeItTells, rl::mo_seq_cst);

  // RingWriter::Sleep and Wake, RingReader::Sleep and Wake: in a round of the loop.
  template <typename IsReady>
  void SleepUntil(IsReady is_ready, rl::atomic<unsigned>* word, Sleeper* sleeper, rl::memory_order say) {
    for (unsigned sleep = 1; !is_ready(); sleep += 2) {
      word->store(sleep, say, $);
      if (!is_ready()) sleeper->AwaitCall();
      word->store(0, rl::mo_relaxed, $);
    }
  }

  void Write() {
    for (unsigned count = 0; count < kMessages; ++count) {
      SleepUntil([&] { return count - read_.load(rl::mo_seq_cst, $) < kCapacity; }, &writer_sleeps_, &writer_,
                 rl::mo_seq_cst);
      data_[count % kCapacity]($) = count;
      // Publish
      written_.store(count + 1, kFault == RingFault::kWrittenTooEarly ? rl::mo_relaxed : kTell, $);
      unsigned owed = reader_sleeps_.load(kTell == rl::mo_seq_cst ? kTell : rl::mo_acquire, $);
      // Call
      const bool owes = owed != 0 && reader_sleeps_.load(rl::mo_relaxed, $) == owed;
      if (owes && reader_sleeps_.compare_exchange_strong(owed, 0, rl::mo_seq_cst, $)) reader_.Call();
    }
  }

  void Read() {
    constexpr bool is_early = kFault == RingFault::kReaderLooksBeforeItSays;
    for (unsigned count = 0; count < kMessages; ++count) {
      SleepUntil([&] { return written_.load(is_early ? rl::mo_acquire : rl::mo_seq_cst, $) != count; }, &reader_sleeps_,
                 &reader_, is_early ? rl::mo_release : rl::mo_seq_cst);
      RL_ASSERT(data_[count % kCapacity]($) == count);
      // Release
      read_.store(count + 1, kFault == RingFault::kReadTooEarly ? rl::mo_relaxed : rl::mo_seq_cst, $);
      if (writer_sleeps_.load(rl::mo_seq_cst, $) != 0 && writer_sleeps_.exchange(0, rl::mo_seq_cst, $) != 0) {
        writer_.Call();
      }
    }
  }

  rl::atomic<unsigned> written_, read_, reader_sleeps_, writer_sleeps_;
  rl::var<unsigned> data_[kCapacity];
  Sleeper reader_, writer_;
};

}  // namespace kungfu::models
