// Matches messages with receivers, in whatever order they come.
//
// A message is known by its operation (epoch, name, number), the peer it comes from and its part; never by the order
// of arrival. The mailbox is a data structure: it does no I/O, and is touched by the event loop's thread only.
//
// Its size is bounded: an early message is parked, and its cost is charged to the connection that brought it
// (Incoming), which holds the sender to the limit. Everything else in here was asked for by this process.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/base/status.h"
#include "ops/plan/peer_id.h"
#include "ops/transport/transport.h"

namespace kungfu {

struct OperationId {
  uint32_t epoch = 0;
  uint64_t number = 0;
  std::string name;

  friend bool operator==(const OperationId& a, const OperationId& b) {
    return a.number == b.number && a.epoch == b.epoch && a.name == b.name;
  }
};

struct OperationIdHash {
  size_t operator()(const OperationId& id) const;
};

inline OperationId IdOf(const Tag& tag) { return {tag.epoch, tag.number, tag.name}; }

// The connection that brings messages, as the mailbox sees it.
class Incoming {
 public:
  virtual ~Incoming() = default;
  virtual const PeerId& peer() const = 0;
  // There is a place for the message that was announced under `tag`.
  virtual void GrantOnLoop(const Tag& tag) = 0;
  // So much of the cost that messages were charged with is free again; may be 0.
  virtual void ReleaseOnLoop(uint64_t cost) = 0;
  // The payload that is just arriving is not wanted any more: it goes nowhere.
  virtual void DetachOnLoop() = 0;
};

// Told when a message contradicts the operation that it belongs to.
class ConversationHandler {
 public:
  virtual ~ConversationHandler() = default;
  virtual void OnMismatchOnLoop(const PeerId& from, const std::string& difference) = 0;
};

class Mailbox {
 public:
  // A message that is awaited, is arriving, or has arrived.
  struct Slot;

  Mailbox();
  ~Mailbox();

  // -- What this process asks for --

  // From now on messages of `id` are checked against `signature`. Messages that contradict it and came before are
  // reported by the returned text, with their sender.
  // REQUIRES: `id` was never open; numbers of a name are opened in ascending order, those outside of epochs (kNoEpoch)
  // whatever their names.
  struct Mismatch {
    PeerId from;
    std::string difference;
  };
  std::unique_ptr<Mismatch> Open(const OperationId& id, const Signature& signature, ConversationHandler* handler);

  // Wants the message of `size` bytes. Returns true if it was here and has been given to `sink`; `done` is then not
  // called. Otherwise `done` is called later, once, unless the operation is closed before. `sink` must live until
  // then.
  // REQUIRES: `id` is open; the message was not asked for before.
  bool Receive(const OperationId& id, const PeerId& from, uint32_t part, uint64_t size, Sink* sink,
               StatusCallback done);

  // Forgets the operation: awaited messages are not delivered, later ones are refused.
  void Close(const OperationId& id);

  // The same for one that will not be opened any more.
  void Refuse(const OperationId& id);

  // Peers of whom a message of `id` is awaited and has not begun to arrive.
  std::vector<PeerId> Awaited(const OperationId& id) const;

  // -- What connections bring. They return nullptr for a refused message (its payload must be discarded) --

  // The header of kData. SinkOf the slot takes the payload. `cost` is released when the message is no longer parked.
  Slot* DataArrives(Incoming* source, const FrameHeader& header, uint64_t cost);
  // The header of kBulk, which must have been granted: an error otherwise.
  StatusOr<Slot*> BulkArrives(Incoming* source, const FrameHeader& header);
  // The payload is complete.
  void Arrived(Slot* slot);
  void Announced(Incoming* source, const FrameHeader& header, uint64_t cost);

  // The connection is over: an incomplete message stays incomplete; complete ones stay.
  void SourceLost(Incoming* source);
  // Nothing more will come from `peer`: awaited messages of it fail with `why`.
  void PeerLost(const PeerId& peer, const Status& why);

  // Drops everything of epochs before `epoch`.
  void DropBefore(uint32_t epoch);

  uint64_t refused() const { return refused_; }
  Sink* SinkOf(Slot* slot) const;

 private:
  struct Box;
  class ParkingSink;
  struct SlotKey {
    PeerId from;
    uint32_t part;
    friend bool operator==(const SlotKey& a, const SlotKey& b) { return a.part == b.part && a.from == b.from; }
  };
  struct SlotKeyHash {
    size_t operator()(const SlotKey& key) const { return PeerIdHash()(key.from) * 31 + key.part; }
  };

  // Whether `id` is or was open, or is of an epoch before.
  bool WasOpened(const OperationId& id) const;
  Slot* Admit(Incoming* source, const FrameHeader& header, uint64_t size);
  void Grant(Slot* slot);

  // How many were opened of those that the number of `id` counts: an id below that is open or was closed. Null if
  // `id` is of another epoch.
  uint64_t* OpenedOf(const OperationId& id);

  std::unordered_map<OperationId, std::unique_ptr<Box>, OperationIdHash> boxes_;
  uint32_t opened_epoch_ = 0;
  std::unordered_map<std::string, uint64_t> opened_;  // in the epoch, by name
  uint64_t opened_in_none_ = 0;                       // outside of epochs, of all names
  uint64_t refused_ = 0;
};

}  // namespace kungfu
