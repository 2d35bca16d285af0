#include "ops/collective/pieces.h"

#include <algorithm>
#include <cstring>

#include "ops/base/reduce.h"

namespace kungfu {
namespace {

// Calls `visit(span, first element within it, elements)` for the part of each span that lies in the range.
template <typename Visit>
void ForEachPart(const std::vector<Span>& spans, Range elements, Visit visit) {
  uint64_t begin = 0;
  for (const Span& span : spans) {
    const uint64_t from = std::max(begin, elements.begin);
    const uint64_t to = std::min(begin + span.count, elements.end);
    if (from < to) visit(span, from - begin, to - from);
    begin += span.count;
    if (begin >= elements.end) break;
  }
}

// Steps over pieces that are used up.
template <typename List>
void Advance(const List& list, size_t* piece, size_t* offset) {
  while (*piece < list.size() && *offset == list[*piece].size) {
    ++*piece;
    *offset = 0;
  }
}

}  // namespace

Payload SendPieces(const std::vector<Span>& spans, Range elements, size_t element_size) {
  Payload pieces;
  ForEachPart(spans, elements, [&](const Span& span, uint64_t first, uint64_t count) {
    pieces.push_back({static_cast<const char*>(span.send) + first * element_size, count * element_size});
  });
  return pieces;
}

Pieces RecvPieces(const std::vector<Span>& spans, Range elements, size_t element_size) {
  Pieces pieces;
  ForEachPart(spans, elements, [&](const Span& span, uint64_t first, uint64_t count) {
    pieces.push_back({static_cast<char*>(span.recv) + first * element_size, count * element_size});
  });
  return pieces;
}

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
    if (source != target) std::memcpy(target, source, size);
    from_offset += size;
    to_offset += size;
  }
}

MutableBytes CopySink::Reserve(size_t max) {
  Advance(to_, &piece_, &offset_);
  return {to_[piece_].data + offset_, std::min(max, to_[piece_].size - offset_)};
}

void ReduceSink::Consume(ConstBytes view) {
  while (view.size > 0) {
    Advance(left_, &left_piece_, &left_offset_);
    Advance(to_, &to_piece_, &to_offset_);
    const MutableBytes& to = to_[to_piece_];
    const ConstBytes& left = left_[left_piece_];
    const size_t size = std::min({view.size, to.size - to_offset_, left.size - left_offset_});
    Reduce(to.data + to_offset_, left.data + left_offset_, view.data, size / SizeOf(dtype_), dtype_, op_);
    left_offset_ += size;
    to_offset_ += size;
    view.data += size;
    view.size -= size;
  }
}

}  // namespace kungfu
