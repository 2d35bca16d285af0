// Carries the bytes of one connection in both directions. It knows no beginning and no end of a conversation: that is
// the stream's affair (stream.h).

#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/base/status.h"
#include "ops/transport/socket/frame_parser.h"
#include "ops/transport/socket/frame_writer.h"

namespace kungfu {

class PipeListener {
 public:
  virtual ~PipeListener() = default;
  // It is worth trying again what the pipe watches for.
  virtual void OnReadyOnLoop(bool readable, bool writable) = 0;
};

// Event loop only. Destroying it closes it.
class FramePipe {
 public:
  virtual ~FramePipe() = default;

  virtual const char* name() const = 0;  // "tcp", "unix", "shm"
  // Of the frames in it: FrameWriter's argument.
  virtual size_t alignment() const = 0;

  // From now on tells `listener`, always the same one, when it is worth reading, writing, or both; also that it has
  // ended.
  virtual void WatchOnLoop(PipeListener* listener, bool read, bool write) = 0;

  // Both do a bounded amount at once, and are OK also if it is nothing. `*ended`: no more will come.
  virtual Status WriteOnLoop(FrameWriter* frames) = 0;
  virtual Status ReadOnLoop(FrameParser* frames, bool* ended) = 0;
  virtual uint64_t bytes_read() const = 0;

  // The socket that ends when the other process does.
  virtual int socket() const = 0;
  // Nothing more is written; what arrives can be read.
  virtual void EndWritingOnLoop() = 0;
  // Nothing more goes either way; what has arrived can be read, then it has ended.
  virtual void BreakOnLoop() = 0;
  // It is over, here and on the other side. Views that were lent stay until the call that lent them returns.
  virtual void CloseOnLoop() = 0;
};

}  // namespace kungfu
