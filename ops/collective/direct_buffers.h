// This rank's data of an all-reduce, in memory that the host's other peers may read and write. Data in the arena stay
// where they are. The rest, which must be little, gets a place in the arena while the operation runs: data elsewhere,
// and the ends of a result that share their page with other data. So the pages that others write to belong to the
// operation alone, and can be withdrawn from them. A little place stays for the next operation.
//
// The part that this rank reduces itself is not copied: no other peer goes there.

#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/base/cross_core_copier.h"
#include "ops/collective/pieces.h"
#include "ops/memory/arena.h"
#include "ops/plan/partition.h"

namespace kungfu {

// A stretch of a peer's arena.
struct DirectEntry {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Lives on the event loop's thread.
class DirectBuffers {
 public:
  explicit DirectBuffers(Arena* arena) : arena_(arena) {}
  // Unless they were released, others may still write: the memory in their reach is withdrawn from the arena.
  ~DirectBuffers();
  DirectBuffers(const DirectBuffers&) = delete;
  DirectBuffers& operator=(const DirectBuffers&) = delete;

  // False if too much of the data lies elsewhere, or the arena has no room. From here on the data that others read are
  // in their places. `own`: the ranges that no other peer reads or writes, in bytes of either list, in order. REQUIRES:
  // it is the first time, or they were released; there is room for as much as is sent; more may be received.
  bool Place(CrossCoreCopier* copier, const Payload& send, const Pieces& recv, const ShortList<Range>& own,
             size_t element_size);
  // No other peer touches the data any more, or ever has. A small block is kept for what is placed next,
  // until this object ends.
  void Release();
  // Whether others may read and write.
  bool placed() const { return placed_; }

  // The offset of a table in the arena, in which others read where the data lie: first those to send, then those to
  // receive.
  uint64_t table() const { return static_cast<uint64_t>(block_ - arena_->bytes().data); }
  uint32_t sends() const { return sends_; }
  uint32_t recvs() const { return recvs_; }

  // Copies results that others have left elsewhere to their places. REQUIRES: all peers are done with the data.
  void TakeResults() { Copy(results_, destinations_); }

 private:
  bool EnsureBlock(uint64_t size);
  void FreeBlock();

  Arena* const arena_;
  bool placed_ = false;
  char* block_ = nullptr;  // in the arena: the table, then places for data without one
  uint64_t block_size_ = 0;
  uint32_t sends_ = 0, recvs_ = 0;
  Pieces exposed_;       // pages that others may write to
  Payload results_;      // in places of the block
  Pieces destinations_;  // of those results
};

}  // namespace kungfu
