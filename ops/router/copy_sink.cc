#include "ops/router/copy_sink.h"

#include <algorithm>

#include "ops/base/copy.h"

namespace kungfu {

Payload AsPayload(const Pieces& pieces) {
  Payload payload;
  payload.reserve(pieces.size());
  for (const MutableBytes& piece : pieces) payload.push_back({piece.data, piece.size});
  return payload;
}

void Copy(const Payload& from, const Pieces& to) {
  size_t from_piece = 0, from_offset = 0, to_piece = 0, to_offset = 0;
  while (true) {
    Advance(from, &from_piece, &from_offset);
    Advance(to, &to_piece, &to_offset);
    if (from_piece == from.size() || to_piece == to.size()) return;
    const size_t size = std::min(from[from_piece].size - from_offset, to[to_piece].size - to_offset);
    const char* source = from[from_piece].data + from_offset;
    char* target = to[to_piece].data + to_offset;
    if (source != target) CopyBytes(target, source, size);
    from_offset += size;
    to_offset += size;
  }
}

MutableBytes CopySink::Reserve(size_t max) {
  Advance(to_, &piece_, &offset_);
  return {to_[piece_].data + offset_, std::min(max, to_[piece_].size - offset_)};
}

}  // namespace kungfu
