#include "ops/transport/socket/frame_parser.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/base/copy.h"
#include "ops/base/logging.h"

namespace kungfu {

StatusOr<size_t> FrameParser::ParseHeader(const char* data, size_t size) {
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

void FrameParser::Commit(size_t size) {
  sink_->Commit(size);
  EndPayload(size);
}

size_t FrameParser::Deliver(char* data, size_t size) {
  size_t step = std::min<uint64_t>(size, remaining_);
  const MutableBytes place = sink_->Reserve(remaining_);
  if (stopped_) return 0;
  if (place.size > 0) {
    step = std::min(step, place.size);
    CopyBytes(place.data, data, step);
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

void FrameParser::EndPayload(size_t size) {
  if (stopped_) return;
  remaining_ -= size;
  if (remaining_ > 0) return;
  sink_ = nullptr;
  receiver_->OnFrameEndOnLoop(header_);
}

}  // namespace kungfu
