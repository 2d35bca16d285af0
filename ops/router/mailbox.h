// Matches messages with receivers, in whatever order they come.
//
// A message is known by its operation (epoch, name, number), the peer it comes from and its part; never by the order
// of arrival. The mailbox is a data structure: it does no I/O, and is touched by the event loop's thread only.
//
// Its size is bounded: an early message is parked, and its cost is charged to the connection that brought it
// (Incoming), which holds the sender to the limit. Everything else in here was asked for by this process.
//
// Operations of one name follow each other: the places of one that is closed serve the next.

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

struct OperationIdHash {
  size_t operator()(const OperationId& id) const;
};

inline const OperationId& IdOf(const Tag& tag) { return tag; }

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

// The receiver of an operation's messages.
class MailboxUser {
 public:
  virtual ~MailboxUser() = default;
  // A message contradicts the operation that it belongs to.
  virtual void OnMismatchOnLoop(const PeerId& from, const std::string& difference) = 0;
  // The words in which it is told that no message will come from a peer, because of `why`.
  virtual Status LossOnLoop(const PeerId& from, const Status& why) const = 0;
};

class Mailbox {
 public:
  // The messages of one operation.
  struct Box;
  // A message that is awaited, is arriving, or has arrived.
  struct Slot;

  Mailbox();
  ~Mailbox();

  // -- What this process asks for --

  // From now on messages of `id` are checked against `signature`. Returns their box, until it is closed.
  // REQUIRES: `id` was never open; numbers of a name are opened in ascending order, those outside of epochs (kNoEpoch)
  // whatever their names.
  Box* Open(const OperationId& id, const Signature& signature, MailboxUser* user);

  // How a message that came before the box was opened contradicts its signature; null: none does.
  struct Mismatch {
    PeerId from;
    std::string difference;
  };
  std::unique_ptr<Mismatch> FindMismatch(const Box& box) const;

  // Wants the message of `size` bytes. Returns true if it was here and has been given to `sink`; `done` is then not
  // called. Otherwise `done` is called later, once, unless the box is closed before. `sink` must live until then.
  // REQUIRES: the message was not asked for before.
  bool Receive(Box* box, const PeerId& from, uint32_t part, uint64_t size, Sink* sink, StatusCallback done);

  // Forgets the operation: awaited messages are not delivered, later ones are refused.
  void Close(Box* box);

  // The same, but the caller keeps the box: for Close, or for Reopen, which opens it for a later operation of the name
  // that differs in its step alone. If that one's messages have come into another box Reopen returns that one, and
  // closes this one. REQUIRES: as Open; the operations belong to an epoch.
  void Rest(Box* box);
  Box* Reopen(Box* resting, uint64_t number, uint64_t step);

  // The same for one that will not be opened any more.
  void Refuse(const OperationId& id);

  // Whether a message of it has come, or is awaited.
  bool HasAny(const Box& box) const;
  // Peers of whom a message is awaited and has not begun to arrive.
  std::vector<PeerId> Awaited(const Box& box) const;

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
  // How often PeerLost was called.
  uint64_t losses() const { return losses_; }
  Sink* SinkOf(Slot* slot) const;

 private:
  class ParkingSink;
  // The operations of one name in one epoch.
  struct Named;
  // The places of messages that are over.
  struct Spare;
  // Of names: an operation's number does not matter.
  struct NameHash {
    size_t operator()(const OperationId& id) const { return std::hash<std::string>()(id.name) * 31 + id.epoch; }
  };
  struct SameName {
    bool operator()(const OperationId& a, const OperationId& b) const { return a.epoch == b.epoch && a.name == b.name; }
  };

  // Null if there are none.
  Named* Find(const OperationId& name) const;
  Named* FindOrMake(const OperationId& name);
  Box* Add(Named* named, uint64_t number);
  // Nothing is known of the name any more, if there is nothing to know.
  void ForgetIfUnused(Named* named);
  // Whether `id` is or was open, or is of an epoch before. `named`: what is known of its name, may be null.
  bool WasOpened(const OperationId& id, const Named* named) const;
  // How many were opened of those that the numbers count: a number below that is open or was closed.
  uint64_t& OpenedOf(Named* named);
  void CountOpened(Named* named, uint64_t number);
  Slot* Admit(Incoming* source, const FrameHeader& header, uint64_t size);
  void Grant(Slot* slot);
  // The message is over.
  void Drop(Slot* slot);
  // All of them are.
  void Empty(Box* box);

  std::unordered_map<OperationId, std::unique_ptr<Named>, NameHash, SameName> names_;
  const std::unique_ptr<Spare> spare_;
  uint32_t epoch_ = 0;           // the newest of which something was opened
  uint64_t opened_in_none_ = 0;  // outside of epochs, of all names
  uint64_t refused_ = 0;
  uint64_t losses_ = 0;
};

}  // namespace kungfu
