// The side of the store that others ask: sends blobs that are there, lets others be waited for, and bounds both.
//
// Lives on the event loop's thread. Its cost is bounded: an asker may have kMaxWaiting waiting pulls here, and gets
// kMaxSent blobs at the same time, kWindow parts of each.

#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "ops/base/status.h"
#include "ops/plan/peer_id.h"
#include "ops/router/router.h"
#include "ops/store/blob_store.h"

namespace kungfu {

class Keeper {
 public:
  static constexpr size_t kMaxWaiting = 1024;
  static constexpr int kMaxSent = 4;
  static constexpr int kWindow = 4;

  // `router` may be null: then only this process asks. `taken` is told when a queue got shorter.
  Keeper(Router* router, BlobStore* store, std::function<void(const std::string& queue)> taken);

  // Another peer asks.
  void OnPullOnLoop(const PeerId& asker, const FrameHeader& pull);
  void OnDroppedOnLoop(const PeerId& asker, const OperationId& id);
  void OnAskerLostOnLoop(const PeerId& asker);

  // This process asks: `found` is called once, at the earliest in the call, unless the number is dropped before.
  using Found = std::function<void(const StatusOr<BlobRef>& blob)>;
  void AskOnLoop(uint64_t number, const Query& query, Found found);
  void DropOnLoop(uint64_t number);

  // Something was saved or put under the name.
  void OnSavedOnLoop(const std::string& name);
  // The store has begun another epoch. On the loop, if there is one.
  void OnEpoch();

  void CloseOnLoop();

 private:
  struct Waiting {
    OperationId id;
    Query query;
    bool waits = true;  // for a blob that is not there yet
    Found found;        // null: it is another peer's
  };
  struct Sending {
    PeerId to;
    OperationId id;
    Signature signature;
    BlobRef blob;
    char head[kBlobHeadSize];
    uint32_t next = 0;  // part
    uint32_t parts = 0;
    int in_flight = 0;
    bool dropped = false;
  };
  struct Asker {
    std::list<Waiting> waiting;
    std::list<std::shared_ptr<Sending>> sent;
  };

  void TryAll(const std::function<bool(const Waiting&)>& concerns);
  void TryOnLoop(const PeerId& peer, const std::function<bool(const Waiting&)>& concerns);
  bool AnswerOnLoop(const PeerId& peer, const Waiting& waiting);
  void SendOnLoop(const PeerId& to, const Waiting& waiting, BlobRef blob);
  void PumpOnLoop(const std::shared_ptr<Sending>& sending);

  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  Router* const router_;
  BlobStore* const store_;
  const std::function<void(const std::string&)> taken_;
  std::unordered_map<PeerId, Asker, PeerIdHash> askers_;  // PeerId() is this process
};

}  // namespace kungfu
