// A pipe that is nothing but a stream socket.

#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "ops/base/unique_fd.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/socket/frame_pipe.h"
#include "ops/transport/socket/frame_reader.h"

namespace kungfu {

class SocketPipe : public FramePipe, private FdHandler {
 public:
  // `name` is a literal.
  SocketPipe(EventLoop* loop, const char* name, UniqueFd socket, std::shared_ptr<ReadScratch> scratch)
      : loop_(loop), name_(name), socket_(std::move(socket)), reader_(std::move(scratch)) {}
  ~SocketPipe() override { CloseOnLoop(); }

  const char* name() const override { return name_; }
  size_t alignment() const override { return 1; }
  void WatchOnLoop(PipeListener* listener, bool read, bool write) override;
  Status WriteOnLoop(FrameWriter* frames) override;
  Status ReadOnLoop(FrameParser* frames, bool* ended) override;
  uint64_t bytes_read() const override { return reader_.bytes_read(); }
  int socket() const override { return socket_.get(); }
  void EndWritingOnLoop() override;
  void BreakOnLoop() override;
  void CloseOnLoop() override;

 private:
  void OnEventsOnLoop(uint32_t events) override;

  EventLoop* const loop_;
  const char* const name_;
  UniqueFd socket_;
  FrameReader reader_;
  PipeListener* listener_ = nullptr;
  std::optional<uint32_t> watched_;  // events
};

}  // namespace kungfu
