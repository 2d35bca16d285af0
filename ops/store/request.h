// A request of this process to a store, its own or another peer's.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/plan/peer_list.h"
#include "ops/router/conversation.h"
#include "ops/router/copy_sink.h"
#include "ops/router/router.h"
#include "ops/store/blob_store.h"

namespace kungfu {

struct Request {
  Query query;
  // For a blob that is not there yet; else that is kNotFound, as is a blob of a peer that has left, but not its queue.
  bool waits = true;
  bool survives = false;  // a peer that is lost is one that has left, and so is a rank that there is no more
  double timeout = 0;     // seconds; 0: the store's
  PeerList peers;         // of the session
  int target = 0;         // rank
  Pieces places;          // as large as the expected blob; must stay until `done`
  // Called once. With OK the places are filled with the bytes of the blob that has this head.
  std::function<void(const Status& status, const BlobHead& head)> done;
};

// "request of 'model' version 7", "get from queue 'q'", "collect from outbox 'window/x/0-1'"
std::string Title(const Request& request);
// "rank 1 (10.0.0.2:10000)"
std::string TargetOf(const Request& request);

// A request of another peer. Lives on the event loop's thread.
class Pull : public ConversationHandler {
 public:
  // `ended` is called once, later; then no place is touched any more.
  Pull(EventLoop* loop, Router* router, uint64_t number, const Request* request,
       std::function<void(const Status& status, const BlobHead& head)> ended);
  ~Pull() override;

  void StartOnLoop();
  // Ends it with `status`; nothing if it has ended. GiveUp tells the other peer.
  void EndOnLoop(const Status& status);
  void GiveUpOnLoop(const Status& status);
  // The other peer will not send it.
  void RefusedOnLoop(const Status& why);
  const OperationId& id() const { return id_; }

  // ConversationHandler
  void OnMismatchOnLoop(const PeerId& from, const std::string& difference) override;

 private:
  void ReceiveOnLoop(uint32_t part, Pieces places);
  void OnPartOnLoop(const Status& status);
  Status Left(const Status& why) const;

  EventLoop* const loop_;
  Router* const router_;
  const Request* const request_;
  const OperationId id_;
  const Signature expected_;
  std::function<void(const Status&, const BlobHead&)> ended_;  // null: it has ended
  std::unique_ptr<Conversation> conversation_;
  std::vector<std::unique_ptr<CopySink>> sinks_;
  size_t missing_ = 0;  // parts
  char head_[kBlobHeadSize] = {};
};

}  // namespace kungfu
