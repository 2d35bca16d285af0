// Every byte that crosses a process, and its grammar. Integers are little-endian.
//
//   stream    := handshake frame*
//   frame     := header[72] name[name_size] payload[payload_size]
//   handshake := see handshake.h
//
//   type      payload                 who sends it, and when
//   kData     the bytes (≤ 64 KiB)    a sender, at once: the receiver parks it until it is asked for
//   kAnnounce empty                   a sender that has more than 64 KiB (or no park credit left); `bulk_size` bytes
//   kGrant    empty                   the receiver, when it has a place for what was announced
//   kBulk     the bytes               the sender that was granted
//   kCredit   empty                   the receiver: `bulk_size` bytes of park space are free again
//   kFail     text (≤ 4 KiB)          anybody, in either direction: the named operation has failed with `code`;
//                                   part 1: it was told so itself
//   kAsk      filler (≤ 64 KiB)       a peer that waits: are you there, and what do you wait for? Or one that measures,
//                                   with bytes that no peer reads
//   kAnswer   text (≤ 4 KiB)          to kAsk
//   kBye      empty                   the last frame: the peer closes of its own will
//   kPull     empty                   a peer that wants a blob of the receiver's store: see pull.h of the router
//   kAnew     empty                   the first frame of a connection that takes the place of one that broke; `epoch`:
//   the
//                                   one since which it does
//
// A frame that breaks a rule of this file costs its sender the connection.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "ops/base/dtype.h"
#include "ops/base/status.h"

namespace kungfu {

inline constexpr size_t kHeaderSize = 72;
inline constexpr size_t kMaxNameSize = 1024;
inline constexpr uint64_t kMaxEagerSize = 64 << 10;
inline constexpr uint64_t kMaxTextSize = 4 << 10;
inline constexpr uint64_t kMaxBulkSize = uint64_t{1} << 40;

enum class FrameType : uint8_t {
  kData = 1,
  kAnnounce = 2,
  kGrant = 3,
  kBulk = 4,
  kCredit = 5,
  kFail = 6,
  kAsk = 7,
  kAnswer = 8,
  kBye = 9,
  kPull = 10,
  kAnew = 11,
};

enum class Kind : uint8_t {
  kAllReduce = 0,
  kBroadcast = 1,
  kReduce = 2,
  kGather = 3,
  kAllGather = 4,
  kReduceScatter = 5,
  kAllToAll = 6,
  kBarrier = 7,
  kConsensus = 8,
  kNeighborAllReduce = 9,
  kNeighborAllGather = 10,
};
inline constexpr int kNumKinds = 11;
const char* Name(Kind kind);  // "all_reduce"
// Whether each peer exchanges data with its neighbours alone.
bool IsOfNeighbors(Kind kind);

// Properties that must be the same on every peer that takes part in an operation.
struct Signature {
  Kind kind = Kind::kAllReduce;
  DType dtype = DType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  int32_t root = 0;           // 0 where the kind has none
  uint64_t count = 0;         // elements; 0 where lengths may differ
  uint64_t shape_digest = 0;  // of what else must agree: shapes, number of tensors, options
  uint64_t step = 0;          // the optimizer's, 0 elsewhere

  friend bool operator==(const Signature& a, const Signature& b) {
    return a.kind == b.kind && a.dtype == b.dtype && a.op == b.op && a.root == b.root && a.count == b.count &&
           a.shape_digest == b.shape_digest && a.step == b.step;
  }
  friend bool operator!=(const Signature& a, const Signature& b) { return !(a == b); }
};

// "all_reduce sum of 12 float32"
std::string Describe(const Signature& signature);
// How `theirs` differs from `ours`, for a person, theirs first: "12 float32 and 10 float32".
std::string DescribeDifference(const Signature& theirs, const Signature& ours);

// Stands for the epoch of what belongs to none.
inline constexpr uint32_t kNoEpoch = 0xffffffff;

struct OperationId {
  uint32_t epoch = 0;
  uint64_t number = 0;  // how many operations of this name came before in the epoch
  std::string name;

  friend bool operator==(const OperationId& a, const OperationId& b) {
    return a.number == b.number && a.epoch == b.epoch && a.name == b.name;
  }
};

// Which operation, and which of its messages from one peer to another.
struct Tag : OperationId {
  Tag() = default;
  Tag(OperationId id, uint32_t part) : OperationId(std::move(id)), part(part) {}

  uint32_t part = 0;
};

struct FrameHeader {
  FrameType type = FrameType::kData;
  Tag tag;
  Signature signature;
  Code code = Code::kOk;
  uint64_t bulk_size = 0;     // of kAnnounce and kCredit
  uint64_t payload_size = 0;  // bytes that follow
};

// Makes `bytes` the first kHeaderSize bytes, and the name behind them.
// REQUIRES: name no longer than kMaxNameSize.
void EncodeHeader(const FrameHeader& header, std::string* bytes);
std::string EncodeHeader(const FrameHeader& header);

// Reads the fixed part; `*name_size` bytes of name follow. Rejects unknown values and lengths beyond the bounds of
// this file, so that nothing is allocated for them.
Status DecodeHeader(const char (&bytes)[kHeaderSize], FrameHeader* header, size_t* name_size);

}  // namespace kungfu
