// Where the mailbox keeps messages, and what it knows of them. Part of it: nobody else needs this.

#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/base/bytes.h"
#include "ops/base/logging.h"
#include "ops/router/mailbox.h"

namespace kungfu {

// Keeps a message that came before it was asked for.
class Mailbox::ParkingSink : public Sink {
 public:
  explicit ParkingSink(uint64_t size) : large_(size > sizeof(small_) ? new char[size] : nullptr), size_(size) {}

  MutableBytes Reserve(size_t max) override { return {place() + filled_, std::min<size_t>(max, size_ - filled_)}; }
  void Commit(size_t size) override { filled_ += size; }
  void Consume(ConstBytes) override { KF_CHECK(false) << "a parking place lends nothing"; }

  ConstBytes bytes() { return {place(), static_cast<size_t>(size_)}; }

 private:
  char* place() { return large_ ? large_.get() : small_; }

  char small_[kLine];  // enough for most that come early
  std::unique_ptr<char[]> large_;
  uint64_t size_;
  uint64_t filled_ = 0;
};

struct Mailbox::Slot {
  Box* box = nullptr;
  PeerId from;
  uint32_t part = 0;

  // Set while it is awaited here.
  Sink* sink = nullptr;
  StatusCallback done;

  // Set from its first sign of life.
  Incoming* source = nullptr;  // null again when the connection is over
  Signature signature;
  uint64_t size = 0;
  uint64_t cost = 0;
  bool announced = false;  // waits for our grant
  bool granted = false;
  bool arriving = false;
  bool arrived = false;
  bool spoiled = false;  // its connection ended in the middle: the bytes that it brought cannot be taken back
  std::optional<ParkingSink> parked;
};

struct Mailbox::Box {
  struct Key {
    PeerId from;
    uint32_t part;
    friend bool operator==(const Key& a, const Key& b) { return a.part == b.part && a.from == b.from; }
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return PeerIdHash()(key.from) * 31 + key.part; }
  };
  using Slots = std::unordered_map<Key, Slot, KeyHash>;

  Named* named = nullptr;
  uint64_t number = 0;
  bool rests = false;           // it is of no operation
  MailboxUser* user = nullptr;  // null: nobody has opened it
  Signature signature;
  Slots slots;
};

struct Mailbox::Named {
  OperationId id;        // of one of them
  uint64_t opened = 0;   // how many were: see OpenedOf
  std::list<Box> boxes;  // open, or with messages that came early; they are few

  Box* Find(uint64_t number) {
    for (Box& box : boxes) {
      if (box.number == number && !box.rests) return &box;
    }
    return nullptr;
  }
  Tag TagOf(const Slot& slot) const { return {{id.epoch, slot.box->number, id.name}, slot.part}; }
};

struct Mailbox::Spare {
  static constexpr size_t kMost = 256;  // of either

  std::list<Box> boxes;
  std::vector<Box::Slots::node_type> slots;

  // Finds or makes the one of a box; `second`: whether it is new.
  std::pair<Slot*, bool> Place(Box* box, const PeerId& from, uint32_t part) {
    const Box::Key key{from, part};
    const auto known = box->slots.find(key);
    if (known != box->slots.end()) return {&known->second, false};
    Slot* slot = nullptr;
    if (slots.empty()) {
      slot = &box->slots[key];
    } else {
      slots.back().key() = key;
      slot = &box->slots.insert(std::move(slots.back())).position->second;
      slots.pop_back();
    }
    slot->box = box;
    slot->from = from;
    slot->part = part;
    return {slot, true};
  }

  void Take(Box::Slots* from, Box::Slots::iterator at) {
    if (slots.size() == kMost) {
      from->erase(at);
      return;
    }
    slots.push_back(from->extract(at));
    slots.back().mapped() = Slot();
  }
};

}  // namespace kungfu
