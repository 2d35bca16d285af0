// One chunk on one rank, on its way through its graphs. Movers that send messages consist of these.
//
//   1. It reduces the data of its predecessors in the reduce graph, in their order, with its own contribution, while
//      they arrive, and sends the result to its successor;
//   2. at the root of the reduce graph, divides by the number of peers for a mean;
//   3. receives the result from its predecessor in the broadcast graph straight into its place, and sends it on to
//      its successors.

#pragma once

#include <memory>
#include <vector>

#include "ops/collective/chunk_pipeline.h"
#include "ops/router/conversation.h"

namespace kungfu {

class ChunkRun : public ChunkTask {
 public:
  // Neighbours that this rank exchanges nothing with: it has their contributions, and brings them the result, by other
  // means. They are the first of its predecessors in the reduce graph, so operands are still combined in its order.
  struct Served {
    std::vector<int> ranks;
    // With this rank's own, where operands are combined in another type (AccumulatorOf). Otherwise chunk.send has them.
    std::unique_ptr<Accumulator> total;
  };

  // `movement` and `chunk`, which need not be of the movement's list, must outlive it. `done` is called once.
  ChunkRun(const Movement& movement, const Chunk& chunk, int rank, Conversation* conversation, StatusCallback done,
           Served served = {});

  void Start() override;

 private:
  uint32_t reduce_part() const { return chunk_.part; }
  uint32_t broadcast_part() const { return chunk_.part + 1; }
  Payload Partial() const;
  void ReduceNext();
  void EndReduce();
  void Conclude();
  void BeginBroadcast();
  void Broadcast();
  void Sent(const Status& status);
  void Finish(const Status& status);

  const Movement& movement_;
  const Chunk& chunk_;
  Conversation* const conversation_;
  const StatusCallback done_;
  const std::vector<int> children_;
  const std::vector<int>& parent_;
  const std::vector<int>& source_;
  const std::vector<int> targets_;
  const uint64_t size_;
  const DType wide_;  // of partial results of several peers; another than the elements': they are an Accumulator's

  std::unique_ptr<Accumulator> accumulator_;
  std::unique_ptr<Sink> sink_;
  size_t next_child_ = 0;
  int pending_ = 0;         // sends
  bool broadcast_ = false;  // the last phase has begun
  bool finished_ = false;
};

}  // namespace kungfu
