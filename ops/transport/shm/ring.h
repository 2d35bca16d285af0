// A stream of bytes through memory that two processes share: one writes, the other reads.
//
//   ring   := control data[capacity]       capacity: a power of two
//   stream := (header[72] name padding payload padding)*     as in wire.h, each part padded to a multiple of kLine
//
// `written` and `read` count bytes since the beginning; byte n of the stream lies at data[n % capacity]. So payloads
// begin at a line, and can be read where they lie. Each side keeps its own count, believes the other's only if it is
// possible, and copies a header before it looks at it. So a faulty process can garble only the data that it sends.
//
// A side without work says so in `reader_sleeps` or `writer_sleeps`, looks again, and sleeps. A side that changes a
// count and then finds the other asleep wakes it. One side's order is write, look; the other's is say, look: so one of
// them sees the other. A writer may delay the wake-up for its last bytes for a moment. A reader that looks again
// meanwhile needs none: the words tell one sleep from the next.
//
// Orders of memory, which processors other than x86-64 do not keep by themselves:
// - The store of a count (release) pairs with the other side's load of it (acquire). The reader sees the bytes before
//   `written`, and the writer writes over those before `read` only when they were read.
// - The stores of counts and of sleeps, and the loads after them, are sequentially consistent: no look comes before the
//   word. So are the exchanges that end a sleep.
// - Relaxed is what nothing else depends on: the end of one's own sleep, which at worst costs a wake-up too many, and
//   the look whether the other side still sleeps, which an exchange repeats.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/base/bytes.h"
#include "ops/base/cross_core_copier.h"
#include "ops/base/status.h"
#include "ops/base/unique_fd.h"
#include "ops/transport/socket/frame_parser.h"
#include "ops/transport/socket/frame_writer.h"

namespace kungfu {

struct RingControl {
  alignas(kLine) std::atomic<uint64_t> written;
  alignas(kLine) std::atomic<uint64_t> read;
  alignas(kLine) std::atomic<uint32_t> reader_sleeps;
  alignas(kLine) std::atomic<uint32_t> writer_sleeps;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// The memory of a ring; all zeros make an empty one.
struct RingPlace {
  static size_t SizeOf(size_t capacity) { return sizeof(RingControl) + capacity; }
  RingPlace(char* at, size_t capacity)
      : control(reinterpret_cast<RingControl*>(at)), data(at + sizeof(RingControl)), capacity(capacity) {}

  RingControl* control;
  char* data;
  size_t capacity;
};

// Wakes the process at the other end of a socket, unless that is closed. It is no futex: a sleeping thread waits for
// other connections and for timers, too.
class Bell {
 public:
  explicit Bell(const UniqueFd* socket) : socket_(socket) {}
  void Ring();

 private:
  const UniqueFd* const socket_;
};

// Says in a word of the ring whether this side sleeps: 0, or the odd number of this sleep. It is written only when that
// changes, because the cache line belongs to the other side while that looks there.
class RingSleeper {
 public:
  void Sleep(std::atomic<uint32_t>* word) {
    sleeps_ = true;
    word->store(number_ += 2);
  }
  void Wake(std::atomic<uint32_t>* word) {
    if (std::exchange(sleeps_, false)) word->store(0, std::memory_order_relaxed);
  }

 private:
  bool sleeps_ = false;
  uint32_t number_ = -1;
};

// Event loop only.
class RingWriter : public FrameOutput {
 public:
  RingWriter(const RingPlace& ring, Bell* bell) : ring_(ring), bell_(bell) {}

  // Takes whole lines only. An error: the other side has broken the ring.
  StatusOr<size_t> Write(const iovec* pieces, int count) override;

  // Whether there is enough room for a write to pay. Also if the ring is broken.
  bool IsReady() const;
  // The other side rings when it is ready. Returns false if it is already.
  bool Sleep();
  void Wake() { sleeper_.Wake(&ring_.control->writer_sleeps); }

  // Whether the other side slept when the last bytes were told, and has not looked since. Calls it if so.
  bool owes_call() const { return owed_ != 0 && ring_.control->reader_sleeps.load(std::memory_order_relaxed) == owed_; }
  void Call();

 private:
  friend class RingReader;

  // The other side learns of written bytes in portions, so that it can begin. The last one may be longer: a second
  // wake-up for a short rest would cost more than to wait for it.
  static constexpr size_t kPortion = 64 << 10;
  static size_t WorthOf(size_t capacity) { return capacity / 4; }

  // How much can be written: asks the other side only if it is less than `wanted`, as far as is known.
  StatusOr<size_t> Room(size_t wanted);
  // `end`: the count after the last byte of this write.
  void Put(const char* data, size_t size, uint64_t end);
  void Publish();

  const RingPlace ring_;
  Bell* const bell_;
  uint64_t written_ = 0;    // in the ring
  uint64_t published_ = 0;  // and told
  uint64_t read_ = 0;       // as the other side said
  uint32_t owed_ = 0;       // the sleep from which the other side is to be woken
  CrossCoreCopier copier_;
  RingSleeper sleeper_;
};

// Event loop only.
class RingReader {
 public:
  RingReader(const RingPlace& ring, Bell* bell) : ring_(ring), bell_(bell) {}

  // Hands arrived bytes to `frames`, always the same one, kBudget bytes at most. `*drained`: there is no more. An
  // error: the other side has broken the ring or the protocol.
  Status Read(FrameParser* frames, bool* drained);

  // Whether something has come. Also if the ring is broken.
  bool IsReady() const;
  // The other side rings when it is ready. Returns false if it is already.
  bool Sleep();
  void Wake() { sleeper_.Wake(&ring_.control->reader_sleeps); }

  uint64_t bytes_read() const { return bytes_read_; }  // without padding

 private:
  // So that one connection does not keep the loop from the others.
  static constexpr size_t kBudget = 1 << 20;
  // The room of bytes that were read is given back in portions. No writer waits for the part that is kept back.
  size_t portion() const { return ring_.capacity / 8; }
  // So many bytes of a header and its name are looked at first: enough for short names.
  static constexpr size_t kShortHeader = 2 * kLine;

  StatusOr<size_t> Available();
  // Both return how many bytes were taken; 0 if it is not enough, or stopped.
  StatusOr<size_t> ReadHeader(FrameParser* frames, size_t available);
  size_t ReadPayload(FrameParser* frames, size_t available);
  void Release();

  const RingPlace ring_;
  Bell* const bell_;
  uint64_t written_ = 0;   // as the other side said
  uint64_t read_ = 0;      // handed on
  uint64_t released_ = 0;  // and told
  bool more_ = false;      // was left for the next time
  uint64_t bytes_read_ = 0;
  RingSleeper sleeper_;
};

}  // namespace kungfu
