#include "ops/router/copy_sink.h"

#include <algorithm>

#include "ops/base/copy.h"

namespace kungfu {
namespace {

// Calls `copy(to, from, size)` for what lies in one piece there and here.
template <typename Function>
void ForEachStretch(const Payload& from, const Pieces& to, Function copy) {
  size_t from_piece = 0, from_offset = 0, to_piece = 0, to_offset = 0;
  while (true) {
    Advance(from, &from_piece, &from_offset);
    Advance(to, &to_piece, &to_offset);
    if (from_piece == from.size() || to_piece == to.size()) return;
    const size_t size = std::min(from[from_piece].size - from_offset, to[to_piece].size - to_offset);
    copy(to[to_piece].data + to_offset, from[from_piece].data + from_offset, size);
    from_offset += size;
    to_offset += size;
  }
}

}  // namespace

Payload AsPayload(const Pieces& pieces) {
  Payload payload;
  payload.reserve(pieces.size());
  for (const MutableBytes& piece : pieces) payload.push_back({piece.data, piece.size});
  return payload;
}

void Copy(const Payload& from, const Pieces& to) {
  ForEachStretch(from, to, [](char* target, const char* source, size_t size) {
    if (source != target) CopyBytes(target, source, size);
  });
}

void Copy(const Payload& from, const Pieces& to, CrossCoreCopier* copier) {
  ForEachStretch(from, to,
                 [copier](char* target, const char* source, size_t size) { copier->Copy(target, source, size); });
}

MutableBytes CopySink::Reserve(size_t max) {
  Advance(to_, &piece_, &offset_);
  return {to_[piece_].data + offset_, std::min(max, to_[piece_].size - offset_)};
}

}  // namespace kungfu
