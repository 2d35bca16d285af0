// Turns an operation into movements: which slices travel along which graphs, in one or more stages.
//
// Ragged kinds tell each other their lengths first. Kinds in which some peers only give (broadcast, reduce, gather) end
// with an empty all-reduce. So no peer reports success before all have found the operation to be the same. In the
// others each peer hears, directly or through relays that have checked it, from everyone. Neighbours hear from each
// other only.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/base/hmac.h"
#include "ops/collective/mover.h"
#include "ops/collective/norms.h"
#include "ops/collective/operation.h"
#include "ops/collective/routes.h"

namespace kungfu {

// The stages of one operation, one after the other. Buffers that only the operation needs live here.
class Plan {
 public:
  // REQUIRES: Validate(*operation, size, rank) is OK. Both must outlive it.
  Plan(Operation* operation, Routes* routes);

  // The next movement, past stages in which this rank moves nothing; nothing when all stages are over. An error ends
  // the operation. REQUIRES: the movement before is complete.
  StatusOr<std::unique_ptr<Movement>> Next();

  // Begins anew, for another operation of the same signature in the place of the first.
  void Restart();
  // Instead of Next, for an all_reduce's movement that has served before: puts the operation's buffers into it.
  void Refill(Movement* movement);

 private:
  using Stage = std::function<Status(Movement*)>;

  void PlanAllReduce();
  void PlanTrees();
  void PlanBroadcast();
  void PlanReduce();
  void PlanGather(bool all);
  void PlanReduceScatter();
  void PlanAllToAll();
  void PlanConsensus();
  void PlanNeighborAllReduce();
  void PlanNeighborAllGather();
  void AddAgreement();
  // Behind an all_reduce: brings together what its peers have measured of it.
  void AddNorms();
  // The trees for small messages between an all_reduce's peers: the operation's own, or one over all.
  Routes::Trees Trees();

  // Exchanges a row of `lengths_` per rank.
  void AddLengths(int per_rank);
  // One chunk, with the next free part number.
  void AddChunk(Movement* movement, const Routes::Lane& lane, Payload send, Pieces recv);
  // Elements through several chunks, each with the next free part number.
  void AddChunks(Movement* movement, const std::shared_ptr<const Graph>& reduce,
                 const std::shared_ptr<const Graph>& broadcast, const ShortList<Span>& spans, Range elements,
                 bool sends, bool receives);
  // The buffers of a range of an all_reduce.
  void Fill(Range range, Chunk* chunk) const;
  void AddEdge(Movement* movement, int from, int to, const Span& block);
  Status CheckLengths() const;
  // `mine`: elements that this rank's result has.
  StatusOr<char*> AllocateResult(const std::vector<uint64_t>& counts, uint64_t mine);
  size_t element() const { return SizeOf(operation_->dtype); }

  Operation* const operation_;
  Routes* const routes_;
  const int rank_, size_;
  std::vector<Stage> stages_;
  size_t next_stage_ = 0;
  uint32_t next_part_ = 0;
  ShortList<Range> ranges_;  // of an all_reduce's chunks

  std::vector<uint64_t> lengths_;
  std::vector<Sha256Digest> digests_;
  std::vector<std::unique_ptr<char[]>> scratch_;
  Measurement measurement_;
};

}  // namespace kungfu
