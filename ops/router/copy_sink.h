// Memory in several pieces: copied, and filled by what arrives.

#pragma once

#include <vector>

#include "ops/base/bytes.h"
#include "ops/base/cross_core_copier.h"
#include "ops/transport/transport.h"

namespace kungfu {

using Pieces = ShortList<MutableBytes>;

Payload AsPayload(const Pieces& pieces);
// Copies what does not lie there already.
// REQUIRES: equal total sizes.
void Copy(const Payload& from, const Pieces& to);
// To where another core reads it.
void Copy(const Payload& from, const Pieces& to, CrossCoreCopier* copier);

// `size` bytes of the pieces, from `begin` on.
template <typename List>
List Slice(const List& pieces, size_t begin, size_t size) {
  List slice;
  for (auto piece : pieces) {
    if (size == 0) break;
    if (begin >= piece.size) {
      begin -= piece.size;
      continue;
    }
    piece.data += begin;
    piece.size -= begin;
    if (piece.size > size) piece.size = size;
    begin = 0;
    size -= piece.size;
    slice.push_back(piece);
  }
  return slice;
}

// Steps over pieces that are used up.
template <typename List>
void Advance(const List& list, size_t* piece, size_t* offset) {
  while (*piece < list.size() && *offset == list[*piece].size) {
    ++*piece;
    *offset = 0;
  }
}

// Puts what arrives into its place.
class CopySink : public Sink {
 public:
  explicit CopySink(Pieces to) : to_(std::move(to)) {}

  MutableBytes Reserve(size_t max) override;
  void Commit(size_t size) override { offset_ += size; }
  void Consume(ConstBytes) override {}

 private:
  const Pieces to_;
  size_t piece_ = 0;
  size_t offset_ = 0;  // within the piece
};

}  // namespace kungfu
