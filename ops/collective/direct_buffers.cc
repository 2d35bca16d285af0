#include "ops/collective/direct_buffers.h"

#include <algorithm>
#include <optional>

#include "ops/base/bytes.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

// So much may be copied, or else an eighth of all: the ends of tensors, and those too small for the arena. More would
// leave the cache before it is read, while a graph sends chunk by chunk.
constexpr uint64_t kMostCopied = 4 << 20;
constexpr uint64_t kMostCopiedPart = 8;

// Up to a thousand operations of a session or group rest (operation_table.cc). Each may keep so many pages of the
// arena, or this part of it.
constexpr uint64_t kMostKeptPages = 4;
constexpr uint64_t kMostKeptPart = 4096;

// Part of a piece: in the arena at `offset`, or elsewhere.
struct Part {
  char* data;
  uint64_t size;
  std::optional<uint64_t> offset;
  bool is_own = false;  // no other peer goes there
};

uint64_t UpTo(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

ShortList<Part> SendParts(const Arena& arena, const Payload& pieces) {
  ShortList<Part> parts;
  for (const ConstBytes& piece : pieces) {
    if (piece.size > 0)
      parts.push_back({const_cast<char*>(piece.data), piece.size, arena.Find(piece.data, piece.size)});
  }
  return parts;
}

// Others can write whole pages, and the rest of a page only if it holds no other data.
ShortList<Part> RecvParts(const Arena& arena, const Pieces& pieces, size_t element_size) {
  const uint64_t page = SharedMemory::PageSize();
  ShortList<Part> parts;
  for (const MutableBytes& piece : pieces) {
    const std::optional<uint64_t> offset = arena.Find(piece.data, piece.size);
    const uint64_t begin = offset ? UpTo(*offset, page) - *offset : 0;
    const uint64_t end = offset ? (*offset + piece.size) / page * page - *offset : 0;
    if (!offset || begin >= end || end > piece.size || begin % element_size != 0) {
      if (piece.size > 0) parts.push_back({piece.data, piece.size, std::nullopt});
      continue;
    }
    if (begin > 0) parts.push_back({piece.data, begin, std::nullopt});
    parts.push_back({piece.data + begin, end - begin, *offset + begin});
    if (end < piece.size) parts.push_back({piece.data + end, piece.size - end, std::nullopt});
  }
  return parts;
}

// The beginning of a part's place, from there on: as far into a line or page as its data. Then the loops over both
// cross no line. Some processors compare only the ends of addresses, and would take the next load for a load of the
// last store.
uint64_t PlaceOf(const Part& part, uint64_t from) {
  const uint64_t unit = part.size < SharedMemory::PageSize() ? kLine : SharedMemory::PageSize();
  const uint64_t begin = UpTo(from, kLine);
  return begin + (reinterpret_cast<uintptr_t>(part.data) - begin) % unit;
}

// Cuts the pieces that lie elsewhere at the borders of the ranges, and marks the parts within a range.
ShortList<Part> Marked(ShortList<Part> parts, const ShortList<Range>& own) {
  if (std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.offset.has_value(); })) return parts;
  ShortList<Part> result;
  auto range = own.begin();
  uint64_t begin = 0;
  for (const Part& part : parts) {
    const uint64_t end = begin + part.size;
    if (part.offset) result.push_back(part);
    for (uint64_t at = part.offset ? end : begin; at < end;) {
      while (range != own.end() && range->end <= at) ++range;
      const bool is_own = range != own.end() && range->begin <= at;
      const uint64_t border = range == own.end() ? end : is_own ? range->end : range->begin;
      const uint64_t to = std::min(border, end);
      result.push_back({part.data + (at - begin), to - at, std::nullopt, is_own});
      at = to;
    }
    begin = end;
  }
  return result;
}

// The size of the pieces without a place.
struct Sizes {
  uint64_t places = 0;
  uint64_t copies = 0;  // to or from there

  void Add(const ShortList<Part>& parts) {
    for (const Part& part : parts) {
      if (part.offset) continue;
      places = PlaceOf(part, places) + part.size;
      if (!part.is_own) copies += part.size;
    }
  }
};

// Writes where the parts lie. A piece without a place gets the one at *next, an offset within the arena. `copied(part,
// place)` is called if another peer goes there.
template <typename Copied>
DirectEntry* Describe(const Arena& arena, const ShortList<Part>& parts, DirectEntry* entry, uint64_t* next,
                      Copied copied) {
  for (const Part& part : parts) {
    if (part.offset) {
      *entry++ = {*part.offset, part.size};
      continue;
    }
    const uint64_t place = PlaceOf(part, *next);
    *entry++ = {place, part.size};
    if (!part.is_own) copied(part, arena.bytes().data + place);
    *next = place + part.size;
  }
  return entry;
}

}  // namespace

// A table that others may still read keeps its place for ever: it tells them where they can do no harm.
DirectBuffers::~DirectBuffers() {
  if (!placed_) FreeBlock();
  for (const MutableBytes& pages : exposed_) arena_->Withdraw(pages.data, pages.size);
}

bool DirectBuffers::Place(CrossCoreCopier* copier, const Payload& send, const Pieces& recv, const ShortList<Range>& own,
                          size_t element_size) {
  KF_DCHECK(!placed_);
  const ShortList<Part> sends = Marked(SendParts(*arena_, send), own);
  const ShortList<Part> recvs = Marked(RecvParts(*arena_, recv, element_size), own);
  Sizes sizes;
  sizes.Add(sends);
  sizes.Add(recvs);
  if (sizes.copies > std::max(kMostCopied, 2 * TotalSize(send) / kMostCopiedPart)) return false;
  const uint64_t page = SharedMemory::PageSize();
  const uint64_t table_size = UpTo((sends.size() + recvs.size()) * sizeof(DirectEntry), page);
  if (!EnsureBlock(table_size + sizes.places)) return false;
  placed_ = true;
  sends_ = static_cast<uint32_t>(sends.size());
  recvs_ = static_cast<uint32_t>(recvs.size());
  for (const Part& part : recvs) {
    if (part.offset) exposed_.push_back({part.data, part.size});
  }
  if (sizes.places > 0) exposed_.push_back({block_ + table_size, UpTo(sizes.places, page)});
  uint64_t next = table() + table_size;
  auto* entry = reinterpret_cast<DirectEntry*>(block_);
  entry = Describe(*arena_, sends, entry, &next,
                   [&](const Part& part, char* place) { copier->Copy(place, part.data, part.size); });
  Describe(*arena_, recvs, entry, &next, [&](const Part& part, char* place) {
    results_.push_back({place, part.size});
    destinations_.push_back({part.data, part.size});
  });
  return true;
}

void DirectBuffers::Release() {
  placed_ = false;
  exposed_.clear();
  results_.clear();
  destinations_.clear();
  const uint64_t kept =
      std::min<uint64_t>(kMostKeptPages * SharedMemory::PageSize(), arena_->bytes().size / kMostKeptPart);
  if (block_size_ > kept) FreeBlock();
}

// False: the arena has no block of at least so many bytes.
bool DirectBuffers::EnsureBlock(uint64_t size) {
  if (block_ != nullptr && size <= block_size_) return true;
  FreeBlock();
  block_ = static_cast<char*>(arena_->Allocate(size));
  if (block_ != nullptr) block_size_ = UpTo(size, SharedMemory::PageSize());
  return block_ != nullptr;
}

void DirectBuffers::FreeBlock() {
  if (block_ != nullptr) arena_->Free(block_);
  block_ = nullptr;
  block_size_ = 0;
}

}  // namespace kungfu
