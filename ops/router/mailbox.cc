#include "ops/router/mailbox.h"

#include <algorithm>
#include <utility>

#include "ops/base/copy.h"
#include "ops/base/logging.h"
#include "ops/router/mailbox_places.h"

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

Mailbox::Mailbox() : spare_(std::make_unique<Spare>()) {}
Mailbox::~Mailbox() = default;

size_t OperationIdHash::operator()(const OperationId& id) const {
  return std::hash<std::string>()(id.name) * 1000003 + id.number * 31 + id.epoch;
}

Mailbox::Named* Mailbox::Find(const OperationId& name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : it->second.get();
}

Mailbox::Named* Mailbox::FindOrMake(const OperationId& name) {
  std::unique_ptr<Named>& named = names_[name];
  if (!named) {
    named = std::make_unique<Named>();
    named->id = name;
  }
  return named.get();
}

Mailbox::Box* Mailbox::Add(Named* named, uint64_t number) {
  if (spare_->boxes.empty()) spare_->boxes.emplace_back();
  named->boxes.splice(named->boxes.end(), spare_->boxes, spare_->boxes.begin());
  Box* const box = &named->boxes.back();
  box->named = named;
  box->number = number;
  return box;
}

void Mailbox::ForgetIfUnused(Named* named) {
  if (named->boxes.empty() && named->opened == 0) names_.erase(OperationId(named->id));
}

void Mailbox::CountOpened(Named* named, uint64_t number) {
  uint64_t& opened = OpenedOf(named);
  KF_CHECK(number >= opened) << named->id.name << " was open before";
  opened = number + 1;
}

Mailbox::Box* Mailbox::Open(const OperationId& id, const Signature& signature, MailboxUser* user) {
  Named* const named = FindOrMake(id);
  if (id.epoch != kNoEpoch) epoch_ = id.epoch;
  CountOpened(named, id.number);
  Box* const early = named->Find(id.number);
  Box* const box = early ? early : Add(named, id.number);
  box->signature = signature;
  box->user = user;
  return box;
}

Mailbox::Box* Mailbox::Reopen(Box* resting, uint64_t number, uint64_t step) {
  Named* const named = resting->named;
  CountOpened(named, number);
  Box* box = named->Find(number);
  if (box) {
    box->signature = resting->signature;
    box->user = resting->user;
    Close(resting);
  } else {
    box = resting;
    box->number = number;
    box->rests = false;
  }
  box->signature.step = step;
  return box;
}

std::unique_ptr<Mailbox::Mismatch> Mailbox::FindMismatch(const Box& box) const {
  for (const auto& [key, slot] : box.slots) {
    if (slot.signature != box.signature) {
      return std::make_unique<Mismatch>(Mismatch{key.from, DescribeDifference(slot.signature, box.signature)});
    }
  }
  return nullptr;
}

bool Mailbox::Receive(Box* box, const PeerId& from, uint32_t part, uint64_t size, Sink* sink, StatusCallback done) {
  const auto [slot, fresh] = spare_->Place(box, from, part);
  KF_CHECK(!slot->sink) << "a message of " << box->named->id.name << " was asked for twice";
  if (fresh) {
    slot->size = size;
  } else if (slot->size != size) {
    // Kept aside: closing the operation, which is what follows, releases it.
    box->user->OnMismatchOnLoop(
        from, "messages of " + std::to_string(slot->size) + " and " + std::to_string(size) + " bytes");
    return false;
  }
  if (slot->arrived) {
    Deliver(slot->parked->bytes(), sink);
    if (slot->source) slot->source->ReleaseOnLoop(slot->cost);
    Drop(slot);
    return true;
  }
  slot->sink = sink;
  slot->done = std::move(done);
  if (slot->announced) Grant(slot);
  return false;
}

void Mailbox::Grant(Slot* slot) {
  slot->announced = false;
  slot->granted = true;
  slot->source->ReleaseOnLoop(std::exchange(slot->cost, 0));
  slot->source->GrantOnLoop(slot->box->named->TagOf(*slot));
}

void Mailbox::Drop(Slot* slot) {
  Box::Slots& slots = slot->box->slots;
  spare_->Take(&slots, slots.find({slot->from, slot->part}));
}

void Mailbox::Empty(Box* box) {
  for (auto it = box->slots.begin(); it != box->slots.end();) {
    Slot& slot = it->second;
    if (slot.source && slot.arriving) slot.source->DetachOnLoop();
    if (slot.source) slot.source->ReleaseOnLoop(slot.cost);
    spare_->Take(&box->slots, it++);
  }
}

void Mailbox::Rest(Box* box) {
  Empty(box);
  box->rests = true;
}

void Mailbox::Close(Box* box) {
  Named* const named = box->named;
  Empty(box);
  box->user = nullptr;
  box->rests = false;
  const auto at = std::find_if(named->boxes.begin(), named->boxes.end(), [&](const Box& one) { return &one == box; });
  if (spare_->boxes.size() < Spare::kMost) {
    spare_->boxes.splice(spare_->boxes.end(), named->boxes, at);
  } else {
    named->boxes.erase(at);
  }
  ForgetIfUnused(named);
}

void Mailbox::Refuse(const OperationId& id) {
  Named* const named = FindOrMake(id);
  uint64_t& opened = OpenedOf(named);
  if (opened == id.number) ++opened;
  if (Box* const box = named->Find(id.number)) return Close(box);
  ForgetIfUnused(named);
}

uint64_t& Mailbox::OpenedOf(Named* named) { return named->id.epoch == kNoEpoch ? opened_in_none_ : named->opened; }

bool Mailbox::HasAny(const Box& box) const { return !box.slots.empty(); }

std::vector<PeerId> Mailbox::Awaited(const Box& box) const {
  std::vector<PeerId> peers;
  for (const auto& [key, slot] : box.slots) {
    if (slot.sink && !slot.arriving && std::find(peers.begin(), peers.end(), key.from) == peers.end()) {
      peers.push_back(key.from);
    }
  }
  std::sort(peers.begin(), peers.end());
  return peers;
}

bool Mailbox::WasOpened(const OperationId& id, const Named* named) const {
  if (id.epoch == kNoEpoch) return id.number < opened_in_none_;
  if (id.epoch != epoch_) return id.epoch < epoch_;
  return named && id.number < named->opened;
}

// Finds or makes the slot of an arriving or announced message, or refuses it.
Mailbox::Slot* Mailbox::Admit(Incoming* source, const FrameHeader& header, uint64_t size) {
  const OperationId& id = IdOf(header.tag);
  Named* named = Find(id);
  Box* box = named ? named->Find(id.number) : nullptr;
  if (!box && WasOpened(id, named)) {
    ++refused_;
    return nullptr;
  }
  if (!named) named = FindOrMake(id);
  if (!box) box = Add(named, id.number);
  if (box->user && header.signature != box->signature) {
    ++refused_;
    box->user->OnMismatchOnLoop(source->peer(), DescribeDifference(header.signature, box->signature));
    return nullptr;
  }
  const auto [slot, fresh] = spare_->Place(box, source->peer(), header.tag.part);
  if (fresh) {
    slot->size = size;
  } else if (slot->source || slot->arrived || slot->spoiled) {
    ++refused_;  // the same message twice
    return nullptr;
  } else if (slot->size != size) {
    ++refused_;
    box->user->OnMismatchOnLoop(
        source->peer(), "messages of " + std::to_string(size) + " and " + std::to_string(slot->size) + " bytes");
    return nullptr;
  }
  slot->source = source;
  slot->signature = header.signature;
  return slot;
}

Mailbox::Slot* Mailbox::DataArrives(Incoming* source, const FrameHeader& header, uint64_t cost) {
  Slot* slot = Admit(source, header, header.payload_size);
  if (!slot) {
    source->ReleaseOnLoop(cost);
    return nullptr;
  }
  slot->cost = cost;
  slot->arriving = true;
  if (!slot->sink) slot->parked.emplace(slot->size);
  return slot;
}

StatusOr<Mailbox::Slot*> Mailbox::BulkArrives(Incoming* source, const FrameHeader& header) {
  const OperationId& id = IdOf(header.tag);
  Named* const named = Find(id);
  Box* const box = named ? named->Find(id.number) : nullptr;
  if (!box && WasOpened(id, named)) {
    ++refused_;
    return static_cast<Slot*>(nullptr);
  }
  if (box) {
    const auto slot = box->slots.find({source->peer(), header.tag.part});
    if (slot != box->slots.end() && slot->second.granted && !slot->second.arriving && slot->second.source == source &&
        slot->second.size == header.payload_size) {
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
  Drop(slot);
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
  std::vector<Box*> unused;
  for (const auto& [id, named] : names_) {
    for (Box& box : named->boxes) {
      for (auto it = box.slots.begin(); it != box.slots.end();) {
        Slot& slot = it->second;
        const bool ours = slot.source == source;
        if (ours) {
          slot.source = nullptr;
          slot.spoiled = std::exchange(slot.arriving, false);
        }
        it = ours && !slot.arrived && !slot.sink ? box.slots.erase(it) : std::next(it);
      }
      if (box.slots.empty() && !box.user) unused.push_back(&box);
    }
  }
  for (Box* box : unused) Close(box);
}

void Mailbox::PeerLost(const PeerId& peer, const Status& why) {
  ++losses_;
  std::vector<Slot*> failed;
  for (const auto& [id, named] : names_) {
    for (Box& box : named->boxes) {
      for (auto& [key, slot] : box.slots) {
        if (key.from == peer && slot.sink && !slot.arriving) failed.push_back(&slot);
      }
    }
  }
  // Callbacks may open and close operations, so they are taken out of their slots first.
  std::vector<std::pair<StatusCallback, Status>> callbacks;
  for (Slot* slot : failed) {
    callbacks.emplace_back(std::move(slot->done), slot->box->user->LossOnLoop(peer, why));
    Drop(slot);
  }
  for (const auto& [done, status] : callbacks) done(status);
}

void Mailbox::DropBefore(uint32_t epoch) {
  std::vector<OperationId> old;
  for (const auto& [id, named] : names_) {
    if (id.epoch < epoch) old.push_back(id);
  }
  for (const OperationId& id : old) {
    Named* const named = Find(id);
    named->opened = std::max<uint64_t>(named->opened, 1);  // it stays until the end
    while (!named->boxes.empty()) Close(&named->boxes.front());
    names_.erase(id);
  }
  epoch_ = std::max(epoch_, epoch);
}

Sink* Mailbox::SinkOf(Slot* slot) const { return slot->parked ? &*slot->parked : slot->sink; }

}  // namespace kungfu
