#include "ops/c_api/kungfu.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/base/config.h"
#include "ops/base/hmac.h"
#include "ops/c_api/last_error.h"
#include "ops/peer/default_arena.h"
#include "ops/peer/default_peer.h"

using kungfu::DType;
using kungfu::Kind;
using kungfu::Operation;
using kungfu::Peer;
using kungfu::ReduceOp;
using kungfu::SetLastError;
using kungfu::Status;
using kungfu::StatusOr;

std::string& kungfu::LastError() {
  thread_local std::string text;
  return text;
}

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

#ifndef KUNGFU_VERSION
#define KUNGFU_VERSION "unknown"
#endif

// `get` of the running peer's session, or -1.
template <typename Get>
int Ask(Get get) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) {
    SetLastError(peer.status());
    return -1;
  }
  return get(*(*peer)->session());
}

// The core has bytes for them: what does not fit is no value that it knows, and must not become one.
template <typename Value>
Value FromNumber(int32_t number) {
  constexpr int32_t kNone = 255;
  return static_cast<Value>(number >= 0 && number < kNone ? number : kNone);
}

Status Cause(int code, const char* message) {
  const bool known = code >= 0 && code <= static_cast<int>(kungfu::Code::kUnavailable);
  return Status(known ? static_cast<kungfu::Code>(code) : kungfu::Code::kUnknown, message ? message : "");
}

Operation Make(Kind kind, const kungfu_options* options) {
  Operation operation;
  operation.kind = kind;
  operation.name = options->name ? options->name : "";
  operation.dtype = FromNumber<DType>(options->dtype);
  operation.op = FromNumber<ReduceOp>(options->op);
  operation.root = options->root;
  operation.shape_digest = options->shape_digest;
  operation.step = options->step;
  operation.timeout = options->timeout;
  if (options->fathers) operation.fathers.assign(options->fathers, options->fathers + options->num_fathers);
  return operation;
}

kungfu::Allocate Wrap(kungfu_allocate allocate, void* arg) {
  return [allocate, arg](const std::vector<uint64_t>& counts) {
    return allocate(arg, counts.data(), static_cast<int>(counts.size()));
  };
}

uint64_t Start(Operation operation, kungfu_done done, void* arg) {
  operation.done = [done, arg](const Status& status) {
    done(arg, static_cast<int>(status.code()), status.message().c_str());
  };
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) {
    operation.done(peer.status().WithContext(kungfu::Title(operation)));
    return 0;
  }
  return (*peer)->session()->Start(std::move(operation));
}

// Calls `begin` with the peer and what is to be told of the end.
template <typename Begin>
void WithPeer(kungfu_done done, void* arg, Begin begin) {
  const auto end = [done, arg](const Status& status) {
    done(arg, static_cast<int>(status.code()), status.message().c_str());
  };
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return end(peer.status());
  begin(*peer, end);
}

uint64_t StartSpans(Kind kind, const kungfu_span* spans, int num_spans, const kungfu_options* options, kungfu_done done,
                    void* arg) {
  Operation operation = Make(kind, options);
  operation.spans.reserve(num_spans);
  for (int i = 0; i < num_spans; ++i) operation.spans.push_back({spans[i].send, spans[i].recv, spans[i].count});
  return Start(std::move(operation), done, arg);
}

Operation MakeAllocating(Kind kind, const void* send, uint64_t count, const kungfu_options* options,
                         kungfu_allocate allocate, void* arg) {
  Operation operation = Make(kind, options);
  operation.spans = {{send, nullptr, count}};
  operation.allocate = Wrap(allocate, arg);
  return operation;
}

// Of the tensors, as the store sees them.
kungfu::Payload SentOf(const kungfu_span* spans, int num_spans, const kungfu_blob* blob) {
  kungfu::Payload pieces;
  const size_t size = kungfu::SizeOf(FromNumber<DType>(blob->dtype));
  for (int i = 0; i < num_spans; ++i)
    pieces.push_back({static_cast<const char*>(spans[i].send), spans[i].count * size});
  return pieces;
}

StatusOr<kungfu::BlobForm> FormOf(const kungfu_span* spans, int num_spans, const kungfu_blob* blob) {
  kungfu::BlobForm form;
  form.dtype = FromNumber<DType>(blob->dtype);
  if (blob->dtype < 0 || blob->dtype >= kungfu::kNumDTypes) {
    return kungfu::InvalidArgumentError(kungfu::Name(form.dtype) + std::string(" cannot travel"));
  }
  for (int i = 0; i < num_spans; ++i) form.count += spans[i].count;
  form.shape_digest = blob->shape_digest;
  form.shapes = blob->shapes ? blob->shapes : "";
  return form;
}

std::string NameOf(const kungfu_blob* blob) { return blob->name ? blob->name : ""; }

// Starts `request`, but for what `spans` and `blob` say of it.
uint64_t StartRequest(kungfu::Request request, const kungfu_span* spans, int num_spans, const kungfu_blob* blob,
                      int64_t* version, kungfu_done done, void* arg) {
  request.done = [version, done, arg](const Status& status, uint64_t saved) {
    if (version) *version = static_cast<int64_t>(saved);
    done(arg, static_cast<int>(status.code()), status.message().c_str());
  };
  request.query.name = NameOf(blob);
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  const StatusOr<kungfu::BlobForm> form = FormOf(spans, num_spans, blob);
  const Status& failed = peer.ok() ? form.status() : peer.status();
  if (!failed.ok()) {
    request.done(failed.WithContext(kungfu::Title(request)), 0);
    return 0;
  }
  request.query.expected = form->signature();
  for (int i = 0; i < num_spans; ++i) {
    request.places.push_back({static_cast<char*>(spans[i].recv), spans[i].count * kungfu::SizeOf(form->dtype)});
  }
  const std::shared_ptr<kungfu::Session> session = (*peer)->session();
  request.peers = session->peers();
  if (request.query.takes) request.query.version = session->epoch();
  return (*peer)->p2p()->Start(std::move(request));
}

}  // namespace

int kungfu_abi_version(void) { return KUNGFU_ABI_VERSION; }
const char* kungfu_version(void) { return KUNGFU_VERSION; }
const char* kungfu_last_error(void) { return kungfu::LastError().c_str(); }

int kungfu_init(void) { return SetLastError(kungfu::DefaultPeer().status()); }

int kungfu_shutdown(void) {
  kungfu::ShutdownDefaultPeer();
  return 0;
}

int kungfu_rank(void) {
  return Ask([](kungfu::Session& session) { return session.rank(); });
}

int kungfu_size(void) {
  return Ask([](kungfu::Session& session) { return session.size(); });
}

int kungfu_local_rank(void) {
  return Ask(
      [](kungfu::Session& session) { return session.size() == 0 ? -1 : session.peers().LocalRank(session.rank()); });
}

int kungfu_local_size(void) {
  return Ask(
      [](kungfu::Session& session) { return session.size() == 0 ? 0 : session.peers().LocalSize(session.rank()); });
}

int kungfu_host_count(void) {
  return Ask([](kungfu::Session& session) { return session.peers().HostCount(); });
}

int kungfu_epoch(void) {
  return Ask([](kungfu::Session& session) { return static_cast<int>(kungfu::VersionOf(session.epoch())); });
}

int kungfu_elastic(void) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (peer.ok()) return (*peer)->elastic() ? 1 : 0;
  SetLastError(peer.status());
  return -1;
}

int kungfu_interrupted(void) {
  return Ask([](kungfu::Session& session) { return session.interrupted() ? 1 : 0; });
}

const char* kungfu_peer_name(int rank) {
  thread_local std::string name;
  name.clear();
  Ask([rank](kungfu::Session& session) {
    if (rank >= 0 && rank < session.size()) name = session.peers()[rank].ToString();
    return 0;
  });
  return name.c_str();
}

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

int kungfu_save(const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int keep, int64_t* version) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return SetLastError(peer.status());
  const StatusOr<kungfu::BlobForm> form = FormOf(spans, num_spans, blob);
  if (!form.ok()) return SetLastError(form.status().WithContext("save of '" + NameOf(blob) + "'"));
  std::optional<uint64_t> asked;
  if (blob->version >= 0) asked = static_cast<uint64_t>(blob->version);
  const StatusOr<uint64_t> saved =
      (*peer)->p2p()->Save(NameOf(blob), asked, *form, SentOf(spans, num_spans, blob), keep);
  if (saved.ok() && version) *version = static_cast<int64_t>(*saved);
  return SetLastError(saved.status());
}

int kungfu_forget(const char* prefix) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (peer.ok()) (*peer)->p2p()->Forget(prefix);
  return SetLastError(peer.status());
}

uint64_t kungfu_request(int target, const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int wait,
                        double timeout, int64_t* version, kungfu_done done, void* arg) {
  kungfu::Request request;
  if (blob->version >= 0) request.query.version = static_cast<uint64_t>(blob->version);
  request.waits = wait != 0;
  request.timeout = timeout;
  request.target = target;
  return StartRequest(std::move(request), spans, num_spans, blob, version, done, arg);
}

uint64_t kungfu_get(int source, const kungfu_span* spans, int num_spans, const kungfu_blob* blob, double timeout,
                    kungfu_done done, void* arg) {
  kungfu::Request request;
  request.query.takes = true;
  request.timeout = timeout;
  request.target = source;
  return StartRequest(std::move(request), spans, num_spans, blob, nullptr, done, arg);
}

uint64_t kungfu_put(const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int capacity, double timeout,
                    kungfu_done done, void* arg) {
  kungfu::Put put;
  put.queue = NameOf(blob);
  put.capacity = capacity;
  put.timeout = timeout;
  put.done = [done, arg](const Status& status) {
    done(arg, static_cast<int>(status.code()), status.message().c_str());
  };
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  StatusOr<kungfu::BlobForm> form = FormOf(spans, num_spans, blob);
  const Status& failed = peer.ok() ? form.status() : peer.status();
  if (!failed.ok()) {
    put.done(failed.WithContext("put into queue '" + put.queue + "'"));
    return 0;
  }
  put.epoch = (*peer)->session()->epoch();
  put.form = std::move(*form);
  put.bytes = SentOf(spans, num_spans, blob);
  return (*peer)->p2p()->Start(std::move(put));
}

void kungfu_begin_epoch(const char* strategy, kungfu_done done, void* arg) {
  WithPeer(done, arg, [strategy](Peer* peer, const kungfu::StatusCallback& end) {
    if (!strategy) return peer->BeginEpoch(peer->strategy(), end);
    const StatusOr<kungfu::StrategyName> name = kungfu::ParseStrategy(strategy);
    if (!name.ok()) return end(name.status());
    peer->BeginEpoch(*name, end);
  });
}

void kungfu_set_tree(const int32_t* fathers, int num_fathers, kungfu_done done, void* arg) {
  const kungfu::StrategySpec tree(std::vector<int>(fathers, fathers + num_fathers));
  WithPeer(done, arg, [&tree](Peer* peer, const kungfu::StatusCallback& end) {
    if (tree.fathers.empty()) return end(kungfu::InvalidArgumentError("tree: there are no fathers"));
    peer->BeginEpoch(tree, end);
  });
}

void kungfu_propose_size(int size, kungfu_done done, void* arg) {
  WithPeer(done, arg, [size](Peer* peer, const kungfu::StatusCallback& end) { peer->Propose(size, end); });
}

void kungfu_advance(kungfu_done done, void* arg) {
  WithPeer(done, arg, [](Peer* peer, const kungfu::StatusCallback& end) { peer->Advance(end); });
}

void kungfu_interrupt(int code, const char* message) {
  Peer* peer = kungfu::DefaultPeerIfStarted();
  if (peer) peer->Interrupt(Cause(code, message));
}

void kungfu_cancel(uint64_t operation, int code, const char* message) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return;
  if (kungfu::P2p::Owns(operation)) return (*peer)->p2p()->Cancel(operation, Cause(code, message));
  (*peer)->session()->Cancel(operation, Cause(code, message));
}

uint64_t kungfu_digest(const void* data, size_t size) {
  kungfu::Sha256 hash;
  hash.Update(data, size);
  const kungfu::Sha256Digest digest = hash.Finish();
  uint64_t folded = 0;
  for (int i = 0; i < 8; ++i) folded |= static_cast<uint64_t>(digest[i]) << (8 * i);
  return folded;
}

void* kungfu_shared_allocate(size_t size) {
  kungfu::Arena* arena = kungfu::DefaultArena();
  return arena ? arena->Allocate(size) : nullptr;
}

size_t kungfu_shared_size(const void* block) {
  const kungfu::Arena* arena = kungfu::DefaultArenaIfMade();
  return arena ? arena->SizeOf(block) : 0;
}

size_t kungfu_shared_free(void* block) {
  kungfu::Arena* arena = kungfu::DefaultArenaIfMade();
  return arena ? arena->Free(block) : 0;
}

void kungfu_get_statistics(kungfu_statistics* statistics) {
  *statistics = {};
  if (const kungfu::Arena* arena = kungfu::DefaultArenaIfMade()) statistics->shared_bytes = arena->statistics().in_use;
  Peer* peer = kungfu::DefaultPeerIfStarted();
  if (!peer) return;
  const kungfu::RouterTotals totals = peer->Totals();
  statistics->operations = peer->counters().completed();
  statistics->failures = peer->counters().failed();
  statistics->bytes_sent = totals.bytes_sent;
  statistics->bytes_received = totals.bytes_received;
  statistics->refused_frames = totals.refused_frames;
  statistics->connections = totals.connections;
  statistics->direct = peer->counters().direct();
}

uint64_t kungfu_completed(const char* name) {
  Peer* peer = kungfu::DefaultPeerIfStarted();
  return peer ? peer->counters().completed(name) : 0;
}

const char* kungfu_environment(void) {
  static const auto* text = [] {
    auto* lines = new std::string;
    for (const kungfu::ConfigVariable& variable : kungfu::ConfigVariables()) {
      *lines += std::string(variable.name) + "\t" + variable.meaning + "\n";
    }
    return lines;
  }();
  return text->c_str();
}
