#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/c_api/convert.h"
#include "ops/c_api/kungfu.h"
#include "ops/peer/default_peer.h"

using kungfu::DType;
using kungfu::FromNumber;
using kungfu::Kind;
using kungfu::Mixing;
using kungfu::Norms;
using kungfu::Operation;
using kungfu::Peer;
using kungfu::ReduceOp;
using kungfu::StatusOr;

namespace {

// The numbers of kungfu.h are those of the core.
template <typename Number, typename Value>
constexpr bool Same(Number number, Value value) {
  return static_cast<int>(number) == static_cast<int>(value);
}
static_assert(Same(KUNGFU_UINT8, DType::kUint8) && Same(KUNGFU_UINT16, DType::kUint16) &&
              Same(KUNGFU_UINT32, DType::kUint32) && Same(KUNGFU_UINT64, DType::kUint64) &&
              Same(KUNGFU_INT8, DType::kInt8) && Same(KUNGFU_INT16, DType::kInt16) &&
              Same(KUNGFU_INT32, DType::kInt32) && Same(KUNGFU_INT64, DType::kInt64) &&
              Same(KUNGFU_FLOAT16, DType::kFloat16) && Same(KUNGFU_BFLOAT16, DType::kBFloat16) &&
              Same(KUNGFU_FLOAT32, DType::kFloat32) && Same(KUNGFU_FLOAT64, DType::kFloat64) &&
              Same(KUNGFU_COMPLEX64, DType::kComplex64) && Same(KUNGFU_COMPLEX128, DType::kComplex128) &&
              Same(KUNGFU_BOOL, DType::kBool) && Same(KUNGFU_BOOL + 1, kungfu::kNumDTypes));
static_assert(Same(KUNGFU_SUM, ReduceOp::kSum) && Same(KUNGFU_MEAN, ReduceOp::kMean) &&
              Same(KUNGFU_MIN, ReduceOp::kMin) && Same(KUNGFU_MAX, ReduceOp::kMax) &&
              Same(KUNGFU_PROD, ReduceOp::kProd) && Same(KUNGFU_PROD + 1, kungfu::kNumReduceOps));

Operation Make(Kind kind, const kungfu_options* options) {
  Operation operation;
  operation.kind = kind;
  operation.name = options->name ? options->name : "";
  operation.group = options->group;
  operation.dtype = FromNumber<DType>(options->dtype);
  operation.op = FromNumber<ReduceOp>(options->op);
  operation.root = options->root;
  operation.shape_digest = options->shape_digest;
  operation.step = options->step;
  operation.timeout = options->timeout;
  if (kind == Kind::kAllReduce && options->norms) {
    operation.wants_norms = options->norms->wanted != 0;
    operation.measured = [norms = options->norms](const Norms& measured) {
      norms->sent = measured.sent;
      norms->received = measured.received;
    };
  }
  if (options->exchange_size > 1) {
    operation.exchange = options->exchange;
    operation.exchange_size = options->exchange_size;
  }
  if (options->parents) operation.parents.assign(options->parents, options->parents + options->num_parents);
  return operation;
}

kungfu::Allocate Wrap(kungfu_allocate allocate, void* arg) {
  return [allocate, arg](const std::vector<uint64_t>& counts) {
    return allocate(arg, counts.data(), static_cast<int>(counts.size()));
  };
}

uint64_t Start(Operation&& operation, kungfu_done done, void* arg) {
  operation.done = kungfu::Telling(done, arg);
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) {
    operation.done(peer.status().WithContext(kungfu::Title(operation)));
    return 0;
  }
  return (*peer)->StartOperation(std::move(operation));
}

Operation MakeSpans(Kind kind, const kungfu_span* spans, int num_spans, const kungfu_options* options) {
  Operation operation = Make(kind, options);
  operation.spans.reserve(num_spans);
  for (int i = 0; i < num_spans; ++i) operation.spans.push_back({spans[i].send, spans[i].recv, spans[i].count});
  return operation;
}

uint64_t StartSpans(Kind kind, const kungfu_span* spans, int num_spans, const kungfu_options* options, kungfu_done done,
                    void* arg) {
  return Start(MakeSpans(kind, spans, num_spans, options), done, arg);
}

Operation MakeAllocating(Kind kind, const void* send, uint64_t count, const kungfu_options* options,
                         kungfu_allocate allocate, void* arg) {
  Operation operation = Make(kind, options);
  operation.spans = {{send, nullptr, count}};
  operation.allocate = Wrap(allocate, arg);
  return operation;
}

std::vector<Mixing::Neighbor> Neighbors(const int32_t* ranks, const double* weights, int num) {
  std::vector<Mixing::Neighbor> neighbors;
  for (int i = 0; i < num; ++i) neighbors.push_back({ranks[i], weights[i]});
  return neighbors;
}

std::shared_ptr<const Mixing> MakeMixing(const kungfu_mixing& mixing) {
  return std::make_shared<const Mixing>(
      Mixing::Of(mixing.self_weight, Neighbors(mixing.sources, mixing.source_weights, mixing.num_sources),
                 Neighbors(mixing.targets, mixing.target_weights, mixing.num_targets)));
}

}  // namespace

size_t kungfu_longest_name(void) { return kungfu::kMaxNameSize; }

uint64_t kungfu_all_reduce(const kungfu_span* spans, int num_spans, const kungfu_options* options, kungfu_done done,
                           void* arg) {
  return StartSpans(Kind::kAllReduce, spans, num_spans, options, done, arg);
}

uint64_t kungfu_broadcast(const kungfu_span* spans, int num_spans, const kungfu_options* options, kungfu_done done,
                          void* arg) {
  return StartSpans(Kind::kBroadcast, spans, num_spans, options, done, arg);
}

uint64_t kungfu_reduce(const kungfu_span* spans, int num_spans, const kungfu_options* options, kungfu_done done,
                       void* arg) {
  return StartSpans(Kind::kReduce, spans, num_spans, options, done, arg);
}

uint64_t kungfu_all_gather(const void* send, uint64_t count, const kungfu_options* options, kungfu_allocate allocate,
                           kungfu_done done, void* arg) {
  return Start(MakeAllocating(Kind::kAllGather, send, count, options, allocate, arg), done, arg);
}

uint64_t kungfu_gather(const void* send, uint64_t count, const kungfu_options* options, kungfu_allocate allocate,
                       kungfu_done done, void* arg) {
  return Start(MakeAllocating(Kind::kGather, send, count, options, allocate, arg), done, arg);
}

uint64_t kungfu_reduce_scatter(const void* send, uint64_t count, uint64_t row, const kungfu_options* options,
                               kungfu_allocate allocate, kungfu_done done, void* arg) {
  Operation operation = MakeAllocating(Kind::kReduceScatter, send, count, options, allocate, arg);
  operation.row = row;
  return Start(std::move(operation), done, arg);
}

uint64_t kungfu_all_to_all(const void* send, uint64_t count, uint64_t row, const uint64_t* send_counts, int num_counts,
                           const kungfu_options* options, kungfu_allocate allocate, kungfu_done done, void* arg) {
  Operation operation = MakeAllocating(Kind::kAllToAll, send, count, options, allocate, arg);
  operation.row = row;
  if (send_counts) operation.send_counts.assign(send_counts, send_counts + num_counts);
  return Start(std::move(operation), done, arg);
}

uint64_t kungfu_barrier(const kungfu_options* options, kungfu_done done, void* arg) {
  return StartSpans(Kind::kBarrier, nullptr, 0, options, done, arg);
}

uint64_t kungfu_consensus(const void* send, uint64_t count, int* equal, const kungfu_options* options, kungfu_done done,
                          void* arg) {
  Operation operation = Make(Kind::kConsensus, options);
  operation.spans = {{send, nullptr, count}};
  operation.equal = equal;
  return Start(std::move(operation), done, arg);
}

uint64_t kungfu_neighbor_all_reduce(const kungfu_span* spans, int num_spans, const kungfu_mixing* mixing,
                                    const kungfu_options* options, kungfu_done done, void* arg) {
  Operation operation = MakeSpans(Kind::kNeighborAllReduce, spans, num_spans, options);
  operation.mixing = MakeMixing(*mixing);
  return Start(std::move(operation), done, arg);
}

uint64_t kungfu_neighbor_all_gather(const void* send, uint64_t count, const kungfu_mixing* mixing,
                                    const kungfu_options* options, kungfu_allocate allocate, kungfu_done done,
                                    void* arg) {
  Operation operation = MakeAllocating(Kind::kNeighborAllGather, send, count, options, allocate, arg);
  operation.mixing = MakeMixing(*mixing);
  return Start(std::move(operation), done, arg);
}
