#include "ops/router/mailbox.h"

#include <algorithm>
#include <utility>

#include "ops/base/copy.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

// Gives a parked message to its receiver.
void Deliver(ConstBytes bytes, Sink* sink) {
  while (bytes.size > 0) {
    const MutableBytes place = sink->Reserve(bytes.size);
    if (place.size == 0) {
      sink->Consume(bytes);
      return;
    }
    const size_t size = std::min(place.size, bytes.size);
    CopyBytes(place.data, bytes.data, size);
    sink->Commit(size);
    bytes.data += size;
    bytes.size -= size;
  }
}

}  // namespace

// Keeps a message that came before it was asked for.
class Mailbox::ParkingSink : public Sink {
 public:
  explicit ParkingSink(uint64_t size) : bytes_(new char[size]), size_(size) {}

  MutableBytes Reserve(size_t max) override { return {bytes_.get() + filled_, std::min<size_t>(max, size_ - filled_)}; }
  void Commit(size_t size) override { filled_ += size; }
  void Consume(ConstBytes) override { KF_CHECK(false) << "a parking place lends nothing"; }

  ConstBytes bytes() const { return {bytes_.get(), static_cast<size_t>(size_)}; }

 private:
  std::unique_ptr<char[]> bytes_;
  const uint64_t size_;
  uint64_t filled_ = 0;
};

struct Mailbox::Slot {
  Box* box = nullptr;
  SlotKey key;

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
  std::unique_ptr<ParkingSink> parked;
};

struct Mailbox::Box {
  OperationId id;
  bool open = false;
  Signature signature;
  ConversationHandler* handler = nullptr;
  std::unordered_map<SlotKey, Slot, SlotKeyHash> slots;

  Tag TagOf(const Slot& slot) const { return {id.epoch, id.number, id.name, slot.key.part}; }
};

Mailbox::Mailbox() = default;
Mailbox::~Mailbox() = default;

size_t OperationIdHash::operator()(const OperationId& id) const {
  return std::hash<std::string>()(id.name) * 1000003 + id.number * 31 + id.epoch;
}

std::unique_ptr<Mailbox::Mismatch> Mailbox::Open(const OperationId& id, const Signature& signature,
                                                 ConversationHandler* handler) {
  if (id.epoch != opened_epoch_ && id.epoch != kNoEpoch) {
    opened_.clear();
    opened_epoch_ = id.epoch;
  }
  uint64_t& opened = *OpenedOf(id);
  KF_CHECK(id.number >= opened) << id.name << " was open before";
  opened = id.number + 1;
  std::unique_ptr<Box>& box = boxes_[id];
  if (!box) box = std::make_unique<Box>();
  box->id = id;
  box->open = true;
  box->signature = signature;
  box->handler = handler;
  for (const auto& [key, slot] : box->slots) {
    if (slot.signature != signature) {
      return std::make_unique<Mismatch>(Mismatch{key.from, DescribeDifference(slot.signature, signature)});
    }
  }
  return nullptr;
}

bool Mailbox::Receive(const OperationId& id, const PeerId& from, uint32_t part, uint64_t size, Sink* sink,
                      StatusCallback done) {
  Box* box = boxes_.at(id).get();
  const SlotKey key{from, part};
  auto [it, fresh] = box->slots.try_emplace(key);
  Slot& slot = it->second;
  KF_CHECK(!slot.sink) << "a message of " << id.name << " was asked for twice";
  if (fresh) {
    slot.box = box;
    slot.key = key;
    slot.size = size;
  } else if (slot.size != size) {
    // Kept aside: closing the operation, which is what follows, releases it.
    box->handler->OnMismatchOnLoop(
        from, "messages of " + std::to_string(slot.size) + " and " + std::to_string(size) + " bytes");
    return false;
  }
  if (slot.arrived) {
    Deliver(slot.parked->bytes(), sink);
    if (slot.source) slot.source->ReleaseOnLoop(slot.cost);
    box->slots.erase(it);
    return true;
  }
  slot.sink = sink;
  slot.done = std::move(done);
  if (slot.announced) Grant(&slot);
  return false;
}

void Mailbox::Grant(Slot* slot) {
  slot->announced = false;
  slot->granted = true;
  slot->source->ReleaseOnLoop(std::exchange(slot->cost, 0));
  slot->source->GrantOnLoop(slot->box->TagOf(*slot));
}

void Mailbox::Close(const OperationId& id) {
  const auto it = boxes_.find(id);
  if (it == boxes_.end()) return;
  const std::unique_ptr<Box> box = std::move(it->second);
  boxes_.erase(it);
  for (auto& [key, slot] : box->slots) {
    if (!slot.source) continue;
    if (slot.arriving) slot.source->DetachOnLoop();
    slot.source->ReleaseOnLoop(slot.cost);
  }
}

void Mailbox::Refuse(const OperationId& id) {
  uint64_t* opened = OpenedOf(id);
  if (opened && *opened == id.number) ++*opened;
  Close(id);
}

uint64_t* Mailbox::OpenedOf(const OperationId& id) {
  if (id.epoch == kNoEpoch) return &opened_in_none_;
  return id.epoch == opened_epoch_ ? &opened_[id.name] : nullptr;
}

std::vector<PeerId> Mailbox::Awaited(const OperationId& id) const {
  std::vector<PeerId> peers;
  const auto it = boxes_.find(id);
  if (it == boxes_.end()) return peers;
  for (const auto& [key, slot] : it->second->slots) {
    if (slot.sink && !slot.arriving && std::find(peers.begin(), peers.end(), key.from) == peers.end()) {
      peers.push_back(key.from);
    }
  }
  std::sort(peers.begin(), peers.end());
  return peers;
}

bool Mailbox::WasOpened(const OperationId& id) const {
  if (id.epoch == kNoEpoch) return id.number < opened_in_none_;
  if (id.epoch != opened_epoch_) return id.epoch < opened_epoch_;
  const auto it = opened_.find(id.name);
  return it != opened_.end() && id.number < it->second;
}

// Finds or makes the slot of an arriving or announced message, or refuses it.
Mailbox::Slot* Mailbox::Admit(Incoming* source, const FrameHeader& header, uint64_t size) {
  const OperationId id = IdOf(header.tag);
  const auto known = boxes_.find(id);
  if (known == boxes_.end() && WasOpened(id)) {
    ++refused_;
    return nullptr;
  }
  std::unique_ptr<Box>& box = known == boxes_.end() ? boxes_[id] : known->second;
  if (!box) {
    box = std::make_unique<Box>();
    box->id = id;
  }
  if (box->open && header.signature != box->signature) {
    ++refused_;
    box->handler->OnMismatchOnLoop(source->peer(), DescribeDifference(header.signature, box->signature));
    return nullptr;
  }
  const SlotKey key{source->peer(), header.tag.part};
  auto [it, fresh] = box->slots.try_emplace(key);
  Slot& slot = it->second;
  if (fresh) {
    slot.box = box.get();
    slot.key = key;
    slot.size = size;
  } else if (slot.source || slot.arrived || slot.spoiled) {
    ++refused_;  // the same message twice
    return nullptr;
  } else if (slot.size != size) {
    ++refused_;
    box->handler->OnMismatchOnLoop(
        source->peer(), "messages of " + std::to_string(size) + " and " + std::to_string(slot.size) + " bytes");
    return nullptr;
  }
  slot.source = source;
  slot.signature = header.signature;
  return &slot;
}

Mailbox::Slot* Mailbox::DataArrives(Incoming* source, const FrameHeader& header, uint64_t cost) {
  Slot* slot = Admit(source, header, header.payload_size);
  if (!slot) {
    source->ReleaseOnLoop(cost);
    return nullptr;
  }
  slot->cost = cost;
  slot->arriving = true;
  if (!slot->sink) slot->parked = std::make_unique<ParkingSink>(slot->size);
  return slot;
}

StatusOr<Mailbox::Slot*> Mailbox::BulkArrives(Incoming* source, const FrameHeader& header) {
  const OperationId id = IdOf(header.tag);
  const auto box = boxes_.find(id);
  if (box == boxes_.end() && WasOpened(id)) {
    ++refused_;
    return static_cast<Slot*>(nullptr);
  }
  if (box != boxes_.end()) {
    const auto slot = box->second->slots.find({source->peer(), header.tag.part});
    if (slot != box->second->slots.end() && slot->second.granted && !slot->second.arriving &&
        slot->second.source == source && slot->second.size == header.payload_size) {
      slot->second.arriving = true;
      return &slot->second;
    }
  }
  return InvalidArgumentError("bulk data of '" + id.name + "' that was not granted");
}

void Mailbox::Arrived(Slot* slot) {
  slot->arriving = false;
  slot->arrived = true;
  if (!slot->sink) return;
  if (slot->parked) Deliver(slot->parked->bytes(), slot->sink);
  slot->source->ReleaseOnLoop(slot->cost);
  const StatusCallback done = std::move(slot->done);
  Box* box = slot->box;
  const SlotKey key = slot->key;
  box->slots.erase(key);
  done(OkStatus());
}

void Mailbox::Announced(Incoming* source, const FrameHeader& header, uint64_t cost) {
  Slot* slot = Admit(source, header, header.bulk_size);
  if (!slot) {
    source->ReleaseOnLoop(cost);
    return;
  }
  slot->cost = cost;
  slot->announced = true;
  if (slot->sink) Grant(slot);
}

void Mailbox::SourceLost(Incoming* source) {
  for (auto box = boxes_.begin(); box != boxes_.end();) {
    auto& slots = box->second->slots;
    for (auto it = slots.begin(); it != slots.end();) {
      Slot& slot = it->second;
      const bool ours = slot.source == source;
      if (ours) {
        slot.source = nullptr;
        slot.spoiled = std::exchange(slot.arriving, false);
      }
      it = ours && !slot.arrived && !slot.sink ? slots.erase(it) : std::next(it);
    }
    box = slots.empty() && !box->second->open ? boxes_.erase(box) : std::next(box);
  }
}

void Mailbox::PeerLost(const PeerId& peer, const Status& why) {
  std::vector<Slot*> failed;
  for (auto& [id, box] : boxes_) {
    for (auto& [key, slot] : box->slots) {
      if (key.from == peer && slot.sink && !slot.arriving) failed.push_back(&slot);
    }
  }
  // Callbacks may open and close operations, so they are taken out of their slots first.
  std::vector<StatusCallback> callbacks;
  for (Slot* slot : failed) {
    callbacks.push_back(std::move(slot->done));
    Box* box = slot->box;
    const SlotKey key = slot->key;
    box->slots.erase(key);
  }
  for (const StatusCallback& done : callbacks) done(why);
}

void Mailbox::DropBefore(uint32_t epoch) {
  std::vector<OperationId> old;
  for (const auto& [id, box] : boxes_) {
    if (id.epoch < epoch) old.push_back(id);
  }
  for (const OperationId& id : old) Close(id);
  if (opened_epoch_ < epoch) {
    opened_.clear();
    opened_epoch_ = epoch;
  }
}

Sink* Mailbox::SinkOf(Slot* slot) const { return slot->parked ? slot->parked.get() : slot->sink; }

}  // namespace kungfu
