// Reads what arrives on one socket, into the place where it belongs if there is one, and has it cut into frames.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ops/base/status.h"
#include "ops/transport/socket/frame_parser.h"
#include "ops/transport/wire.h"

namespace kungfu {

// The buffer between the system and a sink. One for all connections of an event loop: each leaves nothing in it.
struct ReadScratch {
  static constexpr size_t kSize = 256 << 10;
  alignas(64) char bytes[kSize];
};

// Event loop only.
class FrameReader {
 public:
  explicit FrameReader(std::shared_ptr<ReadScratch> scratch) : scratch_(std::move(scratch)) {}

  // Reads arrived bytes, about kBudget at most, and hands them to `frames`, always the same one. `*ended`: nothing will
  // come any more.
  Status ReadFrom(int fd, FrameParser* frames, bool* ended);

  uint64_t bytes_read() const { return bytes_read_; }

 private:
  // So that one connection does not keep the loop from the others.
  static constexpr size_t kBudget = 1 << 20;
  // Between frames so little is read at once, because the payload that comes with a header has to be copied to its
  // place; it is still a hundred small frames.
  static constexpr size_t kHeaderRead = 16 << 10;
  // A place that is smaller is filled by a copy: it costs less than a system call.
  static constexpr size_t kDirectRead = 16 << 10;

  // Reads into `out` and counts. Returns what came: 0 if nothing did, with `*ended` set if nothing ever will.
  StatusOr<size_t> Read(int fd, char* out, size_t size, bool* ended);

  // Both set `*drained` if the socket had less than was asked for.
  Status ReadToPlace(int fd, FrameParser* frames, MutableBytes place, size_t* budget, bool* drained, bool* ended);
  Status ReadToScratch(int fd, FrameParser* frames, size_t* budget, bool* drained, bool* ended);

  // Hands on what is whole of the `size` bytes at `data`, and returns how many bytes that is.
  static StatusOr<size_t> Parse(FrameParser* frames, char* data, size_t size);

  const std::shared_ptr<ReadScratch> scratch_;
  size_t carried_ = 0;  // bytes in carry_
  uint64_t bytes_read_ = 0;

  // The rest in the scratch: an incomplete header, or less than a granule of payload.
  char carry_[kHeaderSize + kMaxNameSize];
};

}  // namespace kungfu
