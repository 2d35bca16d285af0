#include "ops/transport/socket/frame_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ops/base/logging.h"

namespace kungfu {

Status FrameReader::ReadFrom(int fd, FrameParser* frames, bool* ended) {
  size_t budget = kBudget;
  bool drained = false;
  while (!frames->stopped() && !drained && budget > 0) {
    MutableBytes place;
    // The place is asked for anew each time: between two events its owner may have given it up.
    if (frames->in_payload() && carried_ == 0) place = frames->Reserve();
    if (frames->stopped()) break;
    KF_RETURN_IF_ERROR(place.size >= kDirectRead ? ReadToPlace(fd, frames, place, &budget, &drained, ended)
                                                 : ReadToScratch(fd, frames, &budget, &drained, ended));
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

Status FrameReader::ReadToPlace(int fd, FrameParser* frames, MutableBytes place, size_t* budget, bool* drained,
                                bool* ended) {
  const size_t size = std::min<uint64_t>({place.size, frames->remaining(), *budget});
  const StatusOr<size_t> got = Read(fd, place.data, size, ended);
  KF_RETURN_IF_ERROR(got.status());
  *drained = *got < size;
  *budget -= *got;
  if (*got > 0) frames->Commit(*got);
  return OkStatus();
}

Status FrameReader::ReadToScratch(int fd, FrameParser* frames, size_t* budget, bool* drained, bool* ended) {
  char* const data = scratch_->bytes;
  std::memcpy(data, carry_, carried_);
  // With the end of a payload comes no more of the next one than a header read would bring.
  const size_t room =
      frames->in_payload() ? std::min<uint64_t>(ReadScratch::kSize, frames->remaining() + kHeaderRead) : kHeaderRead;
  const size_t size = room - carried_;
  const StatusOr<size_t> got = Read(fd, data + carried_, size, ended);
  KF_RETURN_IF_ERROR(got.status());
  *drained = *got < size;
  *budget -= std::min(*budget, *got);
  if (*got == 0) return OkStatus();
  const size_t filled = carried_ + *got;
  const StatusOr<size_t> used = Parse(frames, data, filled);
  KF_RETURN_IF_ERROR(used.status());
  if (frames->stopped()) return OkStatus();
  carried_ = filled - *used;
  KF_CHECK(carried_ <= sizeof(carry_)) << carried_ << " bytes of an incomplete header";
  std::memcpy(carry_, data + *used, carried_);
  return OkStatus();
}

StatusOr<size_t> FrameReader::Parse(FrameParser* frames, char* data, size_t size) {
  size_t used = 0;
  while (!frames->stopped() && used < size) {
    StatusOr<size_t> step = frames->in_payload() ? frames->Deliver(data + used, size - used)
                                                 : frames->ParseHeader(data + used, size - used);
    KF_RETURN_IF_ERROR(step.status());
    if (*step == 0) break;
    used += *step;
  }
  return used;
}

}  // namespace kungfu
