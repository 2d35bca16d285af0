#include "ops/transport/shm/ring.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "ops/transport/wire.h"

namespace kungfu {
namespace {

uint64_t RoundDown(uint64_t value) { return value - value % kLine; }
uint64_t RoundUp(uint64_t value) { return RoundDown(value + kLine - 1); }

// Whether the other side's count may have gone from `before` to `now`, and may not be beyond `limit`.
bool IsPossible(uint64_t before, uint64_t now, uint64_t limit) {
  return now % kLine == 0 && now - before <= limit - before;
}

Status Broken(const char* count) {
  return InvalidArgumentError(std::string("malformed ring: its count of bytes ") + count + " is impossible");
}

}  // namespace

// If the socket is full, the other side has enough to wake up for.
void Bell::Ring() {
  if (socket_->get() < 0) return;
  const char byte = 0;
  [[maybe_unused]] const ssize_t sent = send(socket_->get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

StatusOr<size_t> RingWriter::Room(size_t wanted) {
  const size_t known = ring_.capacity - (written_ - read_);
  if (known >= wanted) return known;
  const uint64_t read = ring_.control->read.load(std::memory_order_acquire);
  if (!IsPossible(read_, read, published_)) return Broken("read");
  read_ = read;
  return static_cast<size_t>(ring_.capacity - (written_ - read_));
}

StatusOr<size_t> RingWriter::Write(const iovec* pieces, int count) {
  size_t total = 0;
  for (int i = 0; i < count; ++i) total += pieces[i].iov_len;
  const StatusOr<size_t> room = Room(total);
  KF_RETURN_IF_ERROR(room.status());
  const size_t taken = RoundDown(std::min(total, *room));
  const uint64_t end = written_ + taken;
  size_t rest = taken;
  for (int i = 0; rest > 0; ++i) {
    const size_t size = std::min(pieces[i].iov_len, rest);
    Put(static_cast<const char*>(pieces[i].iov_base), size, end);
    rest -= size;
  }
  Publish();
  return taken;
}

void RingWriter::Put(const char* data, size_t size, uint64_t end) {
  while (size > 0) {
    const size_t at = written_ % ring_.capacity;
    const uint64_t portion_end = end - published_ < 2 * kPortion ? end : published_ + kPortion;
    const size_t portion = portion_end - written_;
    const size_t step = std::min({size, ring_.capacity - at, portion});
    copier_.Copy(ring_.data + at, data, step);
    written_ += step;
    data += step;
    size -= step;
    if (step == portion && written_ < end) {
      Publish();
      Call();
    }
  }
}

void RingWriter::Publish() {
  if (published_ == written_) return;
  published_ = written_;
  ring_.control->written.store(written_);
  owed_ = ring_.control->reader_sleeps.load();
}

void RingWriter::Call() {
  if (owes_call() && ring_.control->reader_sleeps.compare_exchange_strong(owed_, 0)) bell_->Ring();
  owed_ = 0;
}

bool RingWriter::IsReady() const {
  const uint64_t read = ring_.control->read.load();
  return !IsPossible(read_, read, published_) || ring_.capacity - (written_ - read) >= WorthOf(ring_.capacity);
}

bool RingWriter::Sleep() {
  sleeper_.Sleep(&ring_.control->writer_sleeps);
  return !IsReady();
}

StatusOr<size_t> RingReader::Available() {
  const uint64_t written = ring_.control->written.load(std::memory_order_acquire);
  if (!IsPossible(written_, written, released_ + ring_.capacity)) return Broken("written");
  written_ = written;
  return static_cast<size_t>(written_ - read_);
}

Status RingReader::Read(FrameParser* frames, bool* drained) {
  more_ = true;
  const uint64_t end = read_ + kBudget;
  while (more_ && !frames->stopped() && read_ < end) {
    const StatusOr<size_t> available = Available();
    KF_RETURN_IF_ERROR(available.status());
    const StatusOr<size_t> taken = *available == 0        ? StatusOr<size_t>(size_t{0})
                                   : frames->in_payload() ? ReadPayload(frames, *available)
                                                          : ReadHeader(frames, *available);
    KF_RETURN_IF_ERROR(taken.status());
    more_ = *taken > 0;
    if (read_ - released_ >= portion()) Release();
  }
  *drained = !more_;
  return OkStatus();
}

StatusOr<size_t> RingReader::ReadHeader(FrameParser* frames, size_t available) {
  // A copy that the other side cannot change any more.
  char header[kHeaderSize + kMaxNameSize];
  for (const size_t enough : {kShortHeader, sizeof(header)}) {
    const size_t size = std::min(enough, available);
    const size_t at = read_ % ring_.capacity, first = std::min(size, ring_.capacity - at);
    std::memcpy(header, ring_.data + at, first);
    std::memcpy(header + first, ring_.data, size - first);
    const StatusOr<size_t> taken = frames->ParseHeader(header, size);
    KF_RETURN_IF_ERROR(taken.status());
    if (frames->stopped()) return size_t{0};
    if (*taken > 0) {
      bytes_read_ += *taken;
      read_ += RoundUp(*taken);
      return *taken;
    }
    if (size == available) break;
  }
  return size_t{0};
}

size_t RingReader::ReadPayload(FrameParser* frames, size_t available) {
  const size_t at = read_ % ring_.capacity;
  const size_t taken = frames->Deliver(ring_.data + at, std::min({available, ring_.capacity - at, portion()}));
  bytes_read_ += taken;
  read_ += taken;
  if (taken > 0 && !frames->stopped() && !frames->in_payload()) read_ = RoundUp(read_);
  return taken;
}

void RingReader::Release() {
  const uint64_t read = RoundDown(read_);
  if (released_ == read) return;
  released_ = read;
  ring_.control->read.store(read);
  std::atomic<uint32_t>& sleeps = ring_.control->writer_sleeps;
  const bool worth = ring_.capacity - (written_ - read) >= RingWriter::WorthOf(ring_.capacity);
  if (worth && sleeps.load() != 0 && sleeps.exchange(0) != 0) bell_->Ring();
}

// A header that is not whole is nothing to do until more of it comes.
bool RingReader::IsReady() const { return more_ || ring_.control->written.load() != written_; }

bool RingReader::Sleep() {
  sleeper_.Sleep(&ring_.control->reader_sleeps);
  return !IsReady();
}

}  // namespace kungfu
