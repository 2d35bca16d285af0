#include "ops/collective/single_peer.h"

#include "ops/collective/weighted_sum.h"

namespace kungfu {

Status CompleteOnSinglePeer(const Operation& operation) {
  const size_t element = SizeOf(operation.dtype);
  const uint64_t count = TotalCount(operation);
  const Range all{0, count};
  switch (operation.kind) {
    case Kind::kBarrier:
      break;
    case Kind::kConsensus:
      *operation.equal = 1;
      break;
    case Kind::kAllReduce:
      if (operation.measured) {
        const double norm = SquaredNorm(SendPieces(operation.spans, all, element), operation.dtype);
        operation.measured(operation.wants_norms ? Norms{norm, norm} : Norms::Unknown());
      }
      [[fallthrough]];
    case Kind::kBroadcast:
    case Kind::kReduce:
      Copy(SendPieces(operation.spans, all, element), RecvPieces(operation.spans, all, element));
      break;
    case Kind::kNeighborAllReduce:
      WeightedSum(SendPieces(operation.spans, all, element), operation.mixing->self,
                  RecvPieces(operation.spans, all, element), operation.dtype)
          .Finish();
      break;
    case Kind::kNeighborAllGather:
      operation.allocate({});
      break;
    case Kind::kGather:
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllToAll: {
      void* result = operation.allocate({count});
      if (!result && count > 0) {
        return ResourceExhaustedError(Title(operation) + ": no memory for the result");
      }
      Copy(SendPieces(operation.spans, all, element), {{static_cast<char*>(result), count * element}});
      break;
    }
  }
  return OkStatus();
}

}  // namespace kungfu
