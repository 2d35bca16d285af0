// A caller's request to a session.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/base/hmac.h"
#include "ops/collective/norms.h"
#include "ops/collective/pieces.h"
#include "ops/monitor/operation_counters.h"
#include "ops/plan/mixing.h"
#include "ops/transport/wire.h"

namespace kungfu {

// Returns the memory for a result; null fails the operation. counts[r]: elements that come from rank r; for
// reduce_scatter there is one, of what this rank keeps.
using Allocate = std::function<void*(const std::vector<uint64_t>& counts)>;

struct Operation {
  Kind kind = Kind::kBarrier;
  std::string name;
  uint64_t group = 0;  // the number of the group of peers that does it; 0: all do
  DType dtype = DType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  uint64_t shape_digest = 0;
  uint64_t step = 0;
  double timeout = 0;  // seconds; 0: the session's

  // all_reduce: the parent of each rank of a forest, each tree of which reduces alone; empty: all do together.
  std::vector<int> parents;
  // neighbor_all_reduce, neighbor_all_gather: this rank's neighbours.
  std::shared_ptr<const Mixing> mixing;
  // all_reduce: is told, before `done`, the mean over the peers that were reduced of |send|², and |recv|², if all of
  // them want it, else Norms::Unknown(); all are told the same. Null, on all peers: nothing is measured.
  std::function<void(const Norms&)> measured;
  bool wants_norms = true;
  // all_reduce, broadcast, reduce: the tensors. Other kinds: one span, of which `send` is the contribution.
  ShortList<Span> spans;
  uint64_t row = 1;                   // reduce_scatter, all_to_all: elements that stay together
  std::vector<uint64_t> send_counts;  // all_to_all: elements for each rank; empty: even parts
  Allocate allocate;                  // all_gather, gather, reduce_scatter, all_to_all
  int* equal = nullptr;               // consensus
  bool has_digest = false;            // consensus: whether TakeDigest was called
  Sha256Digest digest{};

  // The operations that are delivered together have this name in common, and there are so many; see
  // peer/transactions.h. The session does not look at it.
  std::string exchange;
  int exchange_size = 1;

  std::string among;        // " among ranks 0 and 2": the group, for messages
  bool of_core = false;     // not a program's: it may have a name of the core's own
  bool of_session = false;  // nor of a peer as a whole: a failure belongs to the operation that waits for it

  Clock::time_point began{};                     // when the session was given it
  OperationCounters::OfName* counted = nullptr;  // where the session counts it, once that is known
  StatusCallback done;
};

// The beginning of the names of the core's own operations. The rest tells their purpose.
constexpr char kOwnPrefix[] = "kungfu/";

// "all_reduce 'conv1'", with the group behind it; for the core's own, their purpose.
std::string Title(const Operation& operation);
uint64_t TotalCount(const Operation& operation);
// Bits of a signature's digest of shapes that tell how an all_reduce is done.
constexpr uint64_t kWithNorms = uint64_t{1} << 63;
constexpr uint64_t kAlongTrees = uint64_t{1} << 62;
// Makes it the one after it: REQUIRES an all_reduce or barrier of all peers, and another one of the same signature.
void Renew(Operation* operation, Operation&& next);
// The properties that the peers of an operation must have in common, and one of them.
Signature SignatureOf(const Operation& operation);
uint64_t ShapeDigestOf(const Operation& operation);
// Reads the data of a consensus, once: later calls do nothing.
void TakeDigest(Operation* operation);
// `prefix_size`: bytes that its name has more on the wire.
Status ValidateName(const Operation& operation, size_t prefix_size);
// Whether rank `rank` of a session of `size` peers can do it at all: types, roots, counts, neighbours.
Status Validate(const Operation& operation, int size, int rank);
// Whether two ranks fail together in it: those of one tree, neighbours, or all.
bool ArePartners(const Operation& operation, int rank, int other);

}  // namespace kungfu
