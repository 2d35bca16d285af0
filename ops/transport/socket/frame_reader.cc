#include "ops/transport/socket/frame_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "ops/base/logging.h"

namespace kungfu {

Status FrameReader::ReadFrom(int fd, bool* ended) {
  size_t budget = kBudget;
  bool drained = false;
  while (!stopped_ && !drained && budget > 0) {
    MutableBytes place;
    // The place is asked for anew each time: between two events its owner may have given it up.
    if (sink_ != nullptr && carried_ == 0) place = sink_->Reserve(remaining_);
    if (stopped_) break;
    KF_RETURN_IF_ERROR(place.size >= kDirectRead ? ReadToPlace(fd, place, &budget, &drained, ended)
                                                 : ReadToScratch(fd, &budget, &drained, ended));
  }
  return OkStatus();
}

StatusOr<size_t> FrameReader::Read(int fd, char* out, size_t size, bool* ended) {
  for (;;) {
    const ssize_t got = read(fd, out, size);
    if (got > 0) {
      bytes_read_ += got;
      return static_cast<size_t>(got);
    }
    if (got == 0) {
      *ended = true;
      return size_t{0};
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    if (errno != EINTR) return UnavailableError(std::strerror(errno));
  }
}

Status FrameReader::ReadToPlace(int fd, MutableBytes place, size_t* budget, bool* drained, bool* ended) {
  const size_t size = std::min<uint64_t>({place.size, remaining_, *budget});
  const StatusOr<size_t> got = Read(fd, place.data, size, ended);
  KF_RETURN_IF_ERROR(got.status());
  *drained = *got < size;
  *budget -= *got;
  if (*got == 0) return OkStatus();
  sink_->Commit(*got);
  EndPayload(*got);
  return OkStatus();
}

Status FrameReader::ReadToScratch(int fd, size_t* budget, bool* drained, bool* ended) {
  char* const data = scratch_->bytes;
  std::memcpy(data, carry_, carried_);
  // With the end of a payload comes no more of the next one than a header read would bring.
  const size_t room = sink_ != nullptr ? std::min<uint64_t>(ReadScratch::kSize, remaining_ + kHeaderRead) : kHeaderRead;
  const size_t size = room - carried_;
  const StatusOr<size_t> got = Read(fd, data + carried_, size, ended);
  KF_RETURN_IF_ERROR(got.status());
  *drained = *got < size;
  *budget -= std::min(*budget, *got);
  if (*got == 0) return OkStatus();
  const size_t filled = carried_ + *got;
  const StatusOr<size_t> used = Parse(data, filled);
  KF_RETURN_IF_ERROR(used.status());
  if (stopped_) return OkStatus();
  carried_ = filled - *used;
  KF_CHECK(carried_ <= sizeof(carry_)) << carried_ << " bytes of an incomplete header";
  std::memcpy(carry_, data + *used, carried_);
  return OkStatus();
}

StatusOr<size_t> FrameReader::Parse(char* data, size_t size) {
  size_t used = 0;
  while (!stopped_ && used < size) {
    StatusOr<size_t> step =
        sink_ != nullptr ? Deliver(data + used, size - used) : ParseHeader(data + used, size - used);
    KF_RETURN_IF_ERROR(step.status());
    if (*step == 0) break;
    used += *step;
  }
  return used;
}

StatusOr<size_t> FrameReader::ParseHeader(const char* data, size_t size) {
  if (size < kHeaderSize) return size_t{0};
  size_t name_size = 0;
  KF_RETURN_IF_ERROR(DecodeHeader(*reinterpret_cast<const char (*)[kHeaderSize]>(data), &header_, &name_size));
  if (size < kHeaderSize + name_size) return size_t{0};
  header_.tag.name.assign(data + kHeaderSize, name_size);
  Sink* sink = nullptr;
  KF_RETURN_IF_ERROR(receiver_->OnFrameOnLoop(header_, &sink));
  if (stopped_) return size_t{0};
  remaining_ = header_.payload_size;
  if (remaining_ > 0) {
    KF_CHECK(sink != nullptr) << "no sink for a payload of " << remaining_ << " bytes";
    sink_ = sink;
  } else {
    receiver_->OnFrameEndOnLoop(header_);
  }
  return kHeaderSize + name_size;
}

size_t FrameReader::Deliver(char* data, size_t size) {
  size_t step = std::min<uint64_t>(size, remaining_);
  const MutableBytes place = sink_->Reserve(remaining_);
  if (stopped_) return 0;
  if (place.size > 0) {
    step = std::min(step, place.size);
    std::memcpy(place.data, data, step);
    sink_->Commit(step);
  } else {
    if (step < remaining_) step -= step % Sink::kGranule;
    if (step == 0) return 0;
    // A payload that lies askew is moved to the granule's begin before it, over bytes that have been used: those of
    // its header, as only a payload's begin can lie askew.
    char* const aligned = data - reinterpret_cast<uintptr_t>(data) % Sink::kGranule;
    if (aligned != data) std::memmove(aligned, data, step);
    sink_->Consume({aligned, step});
  }
  EndPayload(step);
  return step;
}

void FrameReader::EndPayload(size_t size) {
  if (stopped_) return;
  remaining_ -= size;
  if (remaining_ > 0) return;
  sink_ = nullptr;
  receiver_->OnFrameEndOnLoop(header_);
}

}  // namespace kungfu
