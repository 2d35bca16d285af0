// What the peers of a host tell each other on their boards (direct_group.h), instead of by messages: the few bytes that
// each contributes to one operation of a name after the other.
//
// A peer learns from a message of another one which pad of its board that one writes to, and its number as a writer. A
// pad has two notes, for even and for odd numbers of operations. A note is written over only if all peers have read it.
// They have if this peer's last two operations had the same writers: each writer has one operation at a time, so that
// of the first of the two is over. If one writer is another, or if numbers were left out, the operation takes messages;
// the one after it can take notes again.
//
// A writer that ends returns its pad, if all have read its last note. A pad that somebody may still look at is never
// used again: there are many.
//
// Orders of memory: a stamp is stored (release) after the bytes of its note, and loaded (acquire) before they are
// looked at. `read` is stored (release) when the notes of others were read, and the next stamp even later. So a peer
// that sees either (acquire) writes over no note that somebody still reads. Behind its stamp a writer has a fence, and
// then looks for the stamps of the others: the peer whose fence is the last one sees them all, and rings.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/collective/direct_group.h"

namespace kungfu {

// This peer's part. Lives on the event loop's thread.
class Notes {
 public:
  static constexpr size_t kMost = DirectNote::kMost;  // bytes of a contribution

  // Plain bytes, which messages bring to the other peers.
  struct Address {
    uint32_t pad = 0;
    uint32_t writer = 0;  // 0: it writes no notes
  };

  // The group must outlive it.
  explicit Notes(DirectGroup* group);
  ~Notes();

  const Address& address() const { return addresses_[group_->place()]; }
  // Whether operation `number` may be told by a note.
  bool MayWriteOnLoop(uint64_t number) const;
  // Tells all peers the contribution. Who sees the notes of all afterwards is to wake those who sleep: of the peers
  // that write, the last one does. REQUIRES: MayWriteOnLoop(number); size <= kMost.
  void WriteOnLoop(uint64_t number, uint64_t step, const char* bytes, size_t size);
  // The note of another peer; null if it is not there. It stays until EndedOnLoop.
  const DirectNote* FindOnLoop(int place, uint64_t number) const;
  // The other peer has told its contribution by a message instead.
  void MetOnLoop(int place, const Address& address);
  // The operation is over, and well: this peer has the contributions of all.
  void EndedOnLoop(uint64_t number);

 private:
  // What a note of this writer about this operation is known by, unlike all others of the board.
  static uint64_t StampOf(uint32_t writer, uint64_t number) { return uint64_t{writer} << kNumberBits | (number + 1); }
  bool AllHaveRead() const;

  static constexpr int kNumberBits = 40;

  DirectGroup* const group_;
  std::vector<Address> addresses_;  // by place
  DirectPad* pad_ = nullptr;        // null: it writes no notes
  uint64_t next_ = 0;               // the number of the operation before, and one; 0: there was none
  bool is_open_ = false;            // a note was written, of an operation that has not ended
  bool may_write_ = false;          // the next operation, if it has that number
  bool same_writers_ = true;        // as in the operation before
};

}  // namespace kungfu
