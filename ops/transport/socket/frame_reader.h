// Cuts what arrives on one socket into frames, and brings every payload to its sink.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ops/base/status.h"
#include "ops/transport/transport.h"
#include "ops/transport/wire.h"

namespace kungfu {

// Where bytes lie between the system and a sink. One for all connections of an event loop: each leaves nothing in it.
struct ReadScratch {
  static constexpr size_t kSize = 256 << 10;
  alignas(64) char bytes[kSize];
};

// ConnectionHandler without the connection.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  virtual Status OnFrameOnLoop(const FrameHeader& header, Sink** sink) = 0;
  virtual void OnFrameEndOnLoop(const FrameHeader& header) = 0;
};

// Event loop only.
class FrameReader {
 public:
  FrameReader(std::shared_ptr<ReadScratch> scratch, FrameReceiver* receiver)
      : scratch_(std::move(scratch)), receiver_(receiver) {}

  // Reads what has arrived, about kBudget bytes at most, and hands it on. `*ended`: nothing will come any more.
  Status ReadFrom(int fd, bool* ended);

  // Hands on nothing from now on. Also inside the calls of the receiver and of the sink, which then may be gone.
  void Stop() { stopped_ = true; }

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
  Status ReadToPlace(int fd, MutableBytes place, size_t* budget, bool* drained, bool* ended);
  Status ReadToScratch(int fd, size_t* budget, bool* drained, bool* ended);

  // Hands on what is whole of the `size` bytes at `data`, and returns how many bytes that is.
  StatusOr<size_t> Parse(char* data, size_t size);
  StatusOr<size_t> ParseHeader(const char* data, size_t size);
  size_t Deliver(char* data, size_t size);
  void EndPayload(size_t size);

  const std::shared_ptr<ReadScratch> scratch_;
  FrameReceiver* const receiver_;
  bool stopped_ = false;

  FrameHeader header_;
  Sink* sink_ = nullptr;    // set while a payload arrives
  uint64_t remaining_ = 0;  // of that payload
  size_t carried_ = 0;      // bytes in carry_
  uint64_t bytes_read_ = 0;

  // What was left in the scratch: an incomplete header, or less than a granule of payload.
  char carry_[kHeaderSize + kMaxNameSize];
};

}  // namespace kungfu
