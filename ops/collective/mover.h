// A mover carries the data of one operation between the peers of a session. It knows nothing of names, matching,
// deadlines and statistics: those are the session's.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ops/base/dtype.h"
#include "ops/base/status.h"
#include "ops/collective/norms.h"
#include "ops/collective/pieces.h"
#include "ops/plan/graph.h"
#include "ops/plan/mixing.h"

namespace kungfu {

// One slice of an operation's data and the way it takes: reduced along `reduce` to one rank, sent from there along
// `broadcast`. Either may be null: no such phase. A rank that is in neither graph's edges does nothing.
struct Chunk {
  std::shared_ptr<const Graph> reduce;
  std::shared_ptr<const Graph> broadcast;
  Payload send;       // the contribution of this rank; empty if there is none
  Pieces recv;        // memory for the result and for relayed data; empty if there are none
  uint32_t part = 0;  // messages of this chunk are numbered part and part + 1; unique between any two ranks
};

// Whether the result of an all_reduce's chunk is made on this rank.
inline bool Concludes(const Chunk& chunk, int rank) { return chunk.reduce->Successors(rank).empty(); }

struct Movement {
  std::vector<Chunk> chunks;  // in the same order on every rank
  DType dtype = DType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  int size = 1;  // how many ranks are reduced: what a mean divides by
  // Every rank contributes to all chunks and keeps all of them: the graphs are one way to bring that about.
  bool all_reduce = false;
  // Not null: no graphs, but each chunk is mixed with the neighbours'.
  std::shared_ptr<const Mixing> mixing;
  // The place for the measurements of an all_reduce; null: none. Outlives the mover.
  Measurement* measurement = nullptr;
};

class Conversation;

// Runs one Movement. A started mover is destroyed, or repeated, when it has ended; or destroyed when it was stopped and
// the conversation has been closed. Until then messages under way read and write its buffers.
class Mover {
 public:
  virtual ~Mover() = default;
  // `done` is called once. If all data are here already that may be inside the call, which does nothing more then.
  virtual void StartOnLoop(StatusCallback done) = 0;
  // From here on it does nothing any more, and `done` is not called.
  virtual void StopOnLoop() = 0;
  // After it has ended well: its movement, if it can be started again when that has got other buffers, of the same
  // sizes.
  virtual Movement* RepeatOnLoop() { return nullptr; }
  // Ranks of whom something is awaited that is no message of the conversation.
  virtual std::vector<int> AwaitedOnLoop() const { return {}; }
};

// How movements become movers: one function per kind of mover.
using MoverFactory = std::function<std::unique_ptr<Mover>(Movement movement, int rank, Conversation* conversation)>;

}  // namespace kungfu
