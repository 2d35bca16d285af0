#include "ops/collective/operation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/base/begins_with.h"
#include "ops/plan/topology.h"

namespace kungfu {
namespace {

bool Reduces(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter; }

bool HasRoot(Kind kind) { return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather; }

// Kinds whose peers may bring arrays of different lengths.
bool IsRagged(Kind kind) {
  return kind == Kind::kGather || kind == Kind::kAllGather || kind == Kind::kAllToAll || kind == Kind::kConsensus ||
         kind == Kind::kNeighborAllGather;
}

bool HasFractions(DType dtype) { return dtype >= DType::kFloat16 && dtype <= DType::kComplex128; }

}  // namespace

std::string Title(const Operation& operation) {
  const std::string& name = operation.name;
  if (BeginsWith(name, kOwnPrefix)) return name.substr(sizeof(kOwnPrefix) - 1) + operation.among;
  return std::string(Name(operation.kind)) + " '" + operation.name + "'" + operation.among;
}

uint64_t TotalCount(const Operation& operation) {
  uint64_t count = 0;
  for (const Span& span : operation.spans) count += span.count;
  return count;
}

uint64_t ShapeDigestOf(const Operation& operation) {
  return (operation.shape_digest & ~(kWithNorms | kAlongTrees)) | (operation.measured ? kWithNorms : 0) |
         (operation.parents.empty() ? 0 : kAlongTrees);
}

Signature SignatureOf(const Operation& operation) {
  Signature signature;
  signature.kind = operation.kind;
  signature.dtype = operation.dtype;
  signature.op = Reduces(operation.kind) ? operation.op : ReduceOp::kSum;
  signature.root = HasRoot(operation.kind) ? operation.root : 0;
  signature.count = IsRagged(operation.kind) ? 0 : TotalCount(operation);
  signature.shape_digest = ShapeDigestOf(operation);
  signature.step = operation.step;
  return signature;
}

void Renew(Operation* operation, Operation&& next) {
  operation->step = next.step;
  operation->timeout = next.timeout;
  operation->spans = std::move(next.spans);
  operation->of_session = next.of_session;
  operation->began = next.began;
  operation->counted = next.counted;
  operation->done.swap(next.done);
}

void TakeDigest(Operation* operation) {
  if (operation->kind != Kind::kConsensus || operation->has_digest) return;
  Sha256 hash;
  for (const Span& span : operation->spans) hash.Update(span.send, span.count * SizeOf(operation->dtype));
  operation->digest = hash.Finish();
  operation->has_digest = true;
}

Status ValidateName(const Operation& operation, size_t prefix_size) {
  const size_t longest = kMaxNameSize - prefix_size;
  if (!operation.of_core && BeginsWith(operation.name, kOwnPrefix)) {
    return InvalidArgumentError(std::string(Name(operation.kind)) + " '" + operation.name +
                                "': names that begin with '" + kOwnPrefix + "' are the core's own");
  }
  if (!operation.name.empty() && operation.name.size() <= longest) return OkStatus();
  return InvalidArgumentError(std::string(Name(operation.kind)) + " '" + operation.name.substr(0, 32) +
                              "': a name has 1 to " + std::to_string(longest) + " bytes, not " +
                              std::to_string(operation.name.size()));
}

bool ArePartners(const Operation& operation, int rank, int other) {
  if (operation.mixing) return AreNeighbors(*operation.mixing, other);
  if (operation.parents.empty()) return true;
  const StatusOr<Forest> forest = ForestFromParents(operation.parents);
  if (!forest.ok() || std::max(rank, other) >= static_cast<int>(operation.parents.size())) return true;
  return forest->root_of_rank[rank] == forest->root_of_rank[other];
}

Status Validate(const Operation& operation, int size, int rank) {
  const auto invalid = [&](const std::string& why) { return InvalidArgumentError(Title(operation) + ": " + why); };
  if (static_cast<int>(operation.dtype) >= kNumDTypes) return invalid("unknown dtype");
  if (static_cast<int>(operation.op) >= kNumReduceOps) return invalid("unknown reduction");
  if (Reduces(operation.kind) && !Supports(operation.dtype, operation.op)) {
    return invalid(std::string(Name(operation.op)) + " of " + Name(operation.dtype) + " is not defined");
  }
  if (operation.measured && !(operation.kind == Kind::kAllReduce && HasFractions(operation.dtype))) {
    return invalid(std::string("the norm of ") + Name(operation.dtype) + " is not defined");
  }
  if (HasRoot(operation.kind) && (operation.root < 0 || operation.root >= size)) {
    return invalid("root " + std::to_string(operation.root) + " is not a rank of " + std::to_string(size) + " peers");
  }
  if (!operation.parents.empty()) {
    if (static_cast<int>(operation.parents.size()) != size) {
      return invalid("parents of " + std::to_string(operation.parents.size()) + " ranks, not of " +
                     std::to_string(size));
    }
    KF_RETURN_IF_ERROR(ForestFromParents(operation.parents).status().WithContext(Title(operation)));
  }
  if (IsOfNeighbors(operation.kind)) {
    if (!operation.mixing) return invalid("it has no neighbours");
    if (!HasFractions(operation.dtype) && operation.kind == Kind::kNeighborAllReduce) {
      return invalid(std::string("a weighted sum of ") + Name(operation.dtype) + " is not defined");
    }
    KF_RETURN_IF_ERROR(CheckMixing(*operation.mixing, size, rank).WithContext(Title(operation)));
    // What is in one place would be sent after it has changed.
    if (std::any_of(operation.spans.begin(), operation.spans.end(),
                    [](const Span& span) { return span.count > 0 && span.send == span.recv; })) {
      return invalid("it cannot work in place");
    }
  }
  const bool in_rows = operation.kind == Kind::kReduceScatter || operation.kind == Kind::kAllToAll;
  if (in_rows && (operation.row == 0 || TotalCount(operation) % operation.row != 0)) {
    return invalid(std::to_string(TotalCount(operation)) + " elements are no whole number of rows of " +
                   std::to_string(operation.row));
  }
  if (!operation.send_counts.empty()) {
    if (static_cast<int>(operation.send_counts.size()) != size) {
      return invalid(std::to_string(operation.send_counts.size()) + " splits for " + std::to_string(size) + " peers");
    }
    const uint64_t sum = std::accumulate(operation.send_counts.begin(), operation.send_counts.end(), uint64_t{0});
    if (sum != TotalCount(operation)) return invalid("the splits do not add up to the elements that are sent");
  }
  return OkStatus();
}

}  // namespace kungfu
