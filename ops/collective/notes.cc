#include "ops/collective/notes.h"

#include <algorithm>
#include <cstring>

namespace kungfu {

Notes::Notes(DirectGroup* group) : group_(group), addresses_(group->size()) {
  const uint32_t writer = group_->NewWriterOnLoop();
  if (writer >> (64 - kNumberBits) != 0) return;
  const int pad = group_->TakePadOnLoop();
  if (pad < 0) return;
  addresses_[group_->place()] = {static_cast<uint32_t>(pad), writer};
  pad_ = group_->PadOf(group_->place(), pad);
  pad_->read.store(StampOf(writer, 0) - 1, std::memory_order_release);
}

Notes::~Notes() {
  if (pad_ && !is_open_ && AllHaveRead()) group_->ReturnPadOnLoop(static_cast<int>(address().pad));
}

// Where another writer has the other's pad, the one before it is over, and reads no more.
bool Notes::AllHaveRead() const {
  for (int place = 0; place < group_->size() && next_ > 0; ++place) {
    const auto& [pad, writer] = addresses_[place];
    if (writer == 0) return false;
    const uint64_t read = group_->PadOf(place, static_cast<int>(pad))->read.load(std::memory_order_acquire);
    if (read >> kNumberBits == writer && read != StampOf(writer, next_ - 1)) return false;
  }
  return true;
}

bool Notes::MayWriteOnLoop(uint64_t number) const { return may_write_ && number == next_; }

void Notes::WriteOnLoop(uint64_t number, uint64_t step, const char* bytes, size_t size) {
  is_open_ = true;
  DirectNote& note = pad_->notes[number % 2];
  note.step = step;
  std::memcpy(note.bytes, bytes, size);
  note.stamp.store(StampOf(address().writer, number), std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

const DirectNote* Notes::FindOnLoop(int place, uint64_t number) const {
  const auto& [pad, writer] = addresses_[place];
  if (writer == 0) return nullptr;
  const DirectNote& note = group_->PadOf(place, static_cast<int>(pad))->notes[number % 2];
  return note.stamp.load(std::memory_order_acquire) == StampOf(writer, number) ? &note : nullptr;
}

void Notes::MetOnLoop(int place, const Address& address) {
  Address& known = addresses_[place];
  const bool is_valid = address.pad < DirectGroup::kPads;
  if (known.pad == address.pad && known.writer == address.writer && is_valid) return;
  known = is_valid ? address : Address();
  same_writers_ = false;
}

// The first operation has no note that could be written over.
void Notes::EndedOnLoop(uint64_t number) {
  const bool all_write =
      std::all_of(addresses_.begin(), addresses_.end(), [](const Address& a) { return a.writer != 0; });
  may_write_ = all_write && (next_ == 0 || (same_writers_ && number == next_));
  next_ = number + 1;
  same_writers_ = true;
  is_open_ = false;
  if (pad_) pad_->read.store(StampOf(address().writer, number), std::memory_order_release);
}

}  // namespace kungfu
