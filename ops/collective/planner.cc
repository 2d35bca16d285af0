#include "ops/collective/planner.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include "ops/base/accumulate.h"
#include "ops/plan/partition.h"

namespace kungfu {
namespace {

// Calls visit(from, to) for the edges of a rank, in the order in which all ranks have theirs.
template <typename Visit>
void ForEachEdge(const Mixing& mixing, int rank, Visit visit) {
  auto source = mixing.sources.begin();
  for (; source != mixing.sources.end() && source->rank < rank; ++source) visit(source->rank, rank);
  for (const Mixing::Neighbor& target : mixing.targets) visit(rank, target.rank);
  for (; source != mixing.sources.end(); ++source) visit(source->rank, rank);
}

uint64_t Sum(const std::vector<uint64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }

}  // namespace

Plan::Plan(Operation* operation, Routes* routes)
    : operation_(operation), routes_(routes), rank_(routes->rank()), size_(routes->size()) {
  switch (operation->kind) {
    case Kind::kAllReduce:
    case Kind::kBarrier:
      operation->parents.empty() ? PlanAllReduce() : PlanTrees();
      if (operation->measured) AddNorms();
      break;
    case Kind::kBroadcast:
      PlanBroadcast();
      break;
    case Kind::kReduce:
      PlanReduce();
      break;
    case Kind::kGather:
      PlanGather(false);
      break;
    case Kind::kAllGather:
      PlanGather(true);
      break;
    case Kind::kReduceScatter:
      PlanReduceScatter();
      break;
    case Kind::kAllToAll:
      PlanAllToAll();
      break;
    case Kind::kConsensus:
      PlanConsensus();
      break;
    case Kind::kNeighborAllReduce:
      PlanNeighborAllReduce();
      break;
    case Kind::kNeighborAllGather:
      PlanNeighborAllGather();
      break;
  }
}

StatusOr<std::unique_ptr<Movement>> Plan::Next() {
  while (next_stage_ < stages_.size()) {
    auto movement = std::make_unique<Movement>();
    movement->dtype = operation_->dtype;
    movement->op = operation_->op;
    movement->size = size_;
    KF_RETURN_IF_ERROR(stages_[next_stage_++](movement.get()));
    if (!movement->chunks.empty()) return movement;
  }
  return std::unique_ptr<Movement>();
}

void Plan::AddChunk(Movement* movement, const Routes::Lane& lane, Payload send, Pieces recv) {
  movement->chunks.push_back({lane.reduce, lane.broadcast, std::move(send), std::move(recv), next_part_});
  next_part_ += 2;
}

void Plan::AddChunks(Movement* movement, const std::shared_ptr<const Graph>& reduce,
                     const std::shared_ptr<const Graph>& broadcast, const ShortList<Span>& spans, Range elements,
                     bool sends, bool receives) {
  for (Range range : Chunks(elements.size(), element(), 1, kLeastChunkBytes, routes_->chunk_bytes())) {
    range.begin += elements.begin;
    range.end += elements.begin;
    AddChunk(movement, {reduce, broadcast}, sends ? SendPieces(spans, range, element()) : Payload(),
             receives ? RecvPieces(spans, range, element()) : Pieces());
  }
}

// A block from one rank to another. Only these two take part; the others skip its part numbers.
void Plan::AddEdge(Movement* movement, int from, int to, const Span& block) {
  if (from == rank_ || to == rank_) {
    AddChunks(movement, nullptr, routes_->Edge(from, to), {block}, {0, block.count}, from == rank_, to == rank_);
  } else {
    const uint64_t chunks = NumChunks(block.count, element(), 1, kLeastChunkBytes, routes_->chunk_bytes());
    next_part_ += static_cast<uint32_t>(2 * chunks);
  }
}

// 2n(p-1)/p bytes per peer where the strategy has a lane per rank; chunk k takes lane k. A tensor of one chunk takes a
// lane that its name chooses, so that many small ones spread.
void Plan::PlanAllReduce() {
  stages_.push_back([this](Movement* movement) {
    movement->all_reduce = true;
    if (operation_->measured) movement->measurement = &measurement_;
    const uint64_t count = TotalCount(*operation_);
    const bool grows = AccumulatorOf(operation_->dtype, operation_->op) != operation_->dtype;
    Routes::Lanes& lanes = *routes_->LanesFor(count * element(), grows);
    ranges_ = Chunks(count, element(), lanes.size(), kLeastChunkBytes, routes_->chunk_bytes());
    uint64_t first = 0;
    for (const char c : operation_->name) first = first * 31 + static_cast<unsigned char>(c);
    for (size_t i = 0; i < ranges_.size(); ++i) {
      AddChunk(movement, lanes[static_cast<int>((first + i) % lanes.size())], {}, {});
      Fill(ranges_[i], &movement->chunks[i]);
    }
    return OkStatus();
  });
}

void Plan::Fill(Range range, Chunk* chunk) const {
  const size_t size = element();
  SetSend(operation_->spans, range, size, &chunk->send);
  SetRecv(operation_->spans, range, size, &chunk->recv);
}

void Plan::Restart() {
  next_stage_ = 0;
  next_part_ = 0;
}

void Plan::Refill(Movement* movement) {
  ++next_stage_;
  for (size_t i = 0; i < ranges_.size(); ++i) Fill(ranges_[i], &movement->chunks[i]);
}

// Each tree reduces separately: a mean is the mean of its ranks.
void Plan::PlanTrees() {
  stages_.push_back([this](Movement* movement) {
    const Routes::Trees trees = Trees();
    movement->size = trees.size;
    if (operation_->measured) movement->measurement = &measurement_;
    AddChunks(movement, trees.lane.reduce, trees.lane.broadcast, operation_->spans, {0, TotalCount(*operation_)}, true,
              true);
    return OkStatus();
  });
}

Routes::Trees Plan::Trees() {
  if (operation_->parents.empty()) return {routes_->Rooted(0), size_};
  return routes_->TreesOf(operation_->parents);
}

// 16 bytes more along a tree and back, where the mover has not brought them together.
void Plan::AddNorms() {
  measurement_.wanted = operation_->wants_norms;
  if (!measurement_.wanted) measurement_.norms = Norms::Unknown();
  stages_.push_back([this](Movement* movement) {
    if (measurement_.complete) return OkStatus();
    movement->dtype = DType::kFloat64;
    movement->op = ReduceOp::kSum;
    char* const norms = reinterpret_cast<char*>(&measurement_.norms);
    AddChunk(movement, Trees().lane, {{norms, sizeof(Norms)}}, {{norms, sizeof(Norms)}});
    return OkStatus();
  });
  stages_.push_back([this](Movement*) {
    operation_->measured({measurement_.norms.sent / Trees().size, measurement_.norms.received});
    return OkStatus();
  });
}

void Plan::PlanBroadcast() {
  stages_.push_back([this](Movement* movement) {
    AddChunks(movement, nullptr, routes_->Rooted(operation_->root).broadcast, operation_->spans,
              {0, TotalCount(*operation_)}, rank_ == operation_->root, true);
    return OkStatus();
  });
  AddAgreement();
}

void Plan::PlanReduce() {
  stages_.push_back([this](Movement* movement) {
    AddChunks(movement, routes_->Rooted(operation_->root).reduce, nullptr, operation_->spans,
              {0, TotalCount(*operation_)}, true, true);
    return OkStatus();
  });
  AddAgreement();
}

// Block r goes from rank r to all, or to the root.
void Plan::PlanGather(bool all) {
  AddLengths(1);
  stages_.push_back([this, all](Movement* movement) -> Status {
    KF_RETURN_IF_ERROR(CheckLengths());
    char* result = nullptr;
    if (all || rank_ == operation_->root) {
      StatusOr<char*> place = AllocateResult(lengths_, Sum(lengths_));
      if (!place.ok()) return place.status();
      result = *place;
    }
    uint64_t offset = 0;
    for (int from = 0; from < size_; ++from) {
      const uint64_t count = lengths_[from];
      const Span block{from == rank_ ? operation_->spans[0].send : nullptr,
                       result ? result + offset * element() : nullptr, count};
      if (all) {
        AddChunks(movement, nullptr, routes_->RootedAtEach(from).broadcast, {block}, {0, count}, from == rank_, true);
      } else {
        AddEdge(movement, from, operation_->root, block);
      }
      offset += count;
    }
    return OkStatus();
  });
  if (!all) AddAgreement();
}

// Part r is reduced to rank r. Data that this rank reduces on the way for others lie in scratch memory.
void Plan::PlanReduceScatter() {
  stages_.push_back([this](Movement* movement) -> Status {
    const uint64_t row = operation_->row;
    const uint64_t rows = TotalCount(*operation_) / row;
    std::vector<uint64_t> counts;
    for (int rank = 0; rank < size_; ++rank) counts.push_back(EvenPart(rows, size_, rank).size() * row);
    StatusOr<char*> result = AllocateResult({counts[rank_]}, counts[rank_]);
    if (!result.ok()) return result.status();
    const char* send = static_cast<const char*>(operation_->spans[0].send);
    uint64_t offset = 0;
    for (int to = 0; to < size_; ++to) {
      const auto& graph = routes_->RootedAtEach(to).reduce;
      char* place = *result;
      if (to != rank_) {
        const bool relays = !graph->Predecessors(rank_).empty();
        scratch_.emplace_back(relays ? new (std::nothrow) char[counts[to] * element()] : nullptr);
        place = scratch_.back().get();
        if (relays && !place)
          return ResourceExhaustedError(Title(*operation_) + ": no memory for rank " + std::to_string(to) +
                                        "'s part on its way");
      }
      const Span block{send + offset * element(), place, counts[to]};
      AddChunks(movement, graph, nullptr, {block}, {0, counts[to]}, true, place != nullptr);
      offset += counts[to];
    }
    return OkStatus();
  });
}

void Plan::PlanAllToAll() {
  // Row r of the lengths: the elements that rank r sends to each rank.
  AddLengths(size_);
  stages_.push_back([this](Movement* movement) -> Status {
    KF_RETURN_IF_ERROR(CheckLengths());
    const auto length = [this](int from, int to) { return lengths_[static_cast<size_t>(from) * size_ + to]; };
    std::vector<uint64_t> counts;
    for (int from = 0; from < size_; ++from) counts.push_back(length(from, rank_));
    StatusOr<char*> result = AllocateResult(counts, Sum(counts));
    if (!result.ok()) return result.status();
    uint64_t send_offset = 0, recv_offset = 0;
    const char* send = static_cast<const char*>(operation_->spans[0].send);
    for (int from = 0; from < size_; ++from) {
      for (int to = 0; to < size_; ++to) {
        const uint64_t count = length(from, to);
        Span block{nullptr, nullptr, count};
        if (from == rank_) {
          block.send = send + send_offset * element();
          send_offset += count;
        }
        if (to == rank_) {
          block.recv = *result + recv_offset * element();
          recv_offset += count;
        }
        AddEdge(movement, from, to, block);
      }
    }
    return OkStatus();
  });
}

// Equal bytes have equal digests; different ones have not, as far as anybody knows how to find them.
void Plan::PlanConsensus() {
  stages_.push_back([this](Movement* movement) {
    digests_.resize(size_);
    digests_[rank_] = operation_->digest;
    movement->dtype = DType::kUint8;
    for (int from = 0; from < size_; ++from) {
      const Pieces digest = {{reinterpret_cast<char*>(digests_[from].data()), digests_[from].size()}};
      AddChunk(movement, {nullptr, routes_->RootedAtEach(from).broadcast},
               from == rank_ ? AsPayload(digest) : Payload(), digest);
    }
    return OkStatus();
  });
  stages_.push_back([this](Movement*) {
    *operation_->equal = std::all_of(digests_.begin(), digests_.end(),
                                     [this](const Sha256Digest& digest) { return digest == digests_[0]; });
    return OkStatus();
  });
}

void Plan::PlanNeighborAllReduce() {
  stages_.push_back([this](Movement* movement) {
    movement->mixing = operation_->mixing;
    AddChunks(movement, nullptr, nullptr, operation_->spans, {0, TotalCount(*operation_)}, true, true);
    return OkStatus();
  });
}

// Each rank knows its own edges only, so the numbers of chunks begin anew on each of them: 0 is the length, and 2 the
// first of the block.
void Plan::PlanNeighborAllGather() {
  stages_.push_back([this](Movement* movement) {
    lengths_.assign(size_, 0);
    lengths_[rank_] = TotalCount(*operation_);
    ForEachEdge(*operation_->mixing, rank_, [&](int from, int to) {
      const Pieces length = {{reinterpret_cast<char*>(&lengths_[from]), sizeof(uint64_t)}};
      next_part_ = 0;
      AddChunk(movement, {nullptr, routes_->Edge(from, to)}, from == rank_ ? AsPayload(length) : Payload(),
               to == rank_ ? length : Pieces());
    });
    return OkStatus();
  });
  stages_.push_back([this](Movement* movement) -> Status {
    KF_RETURN_IF_ERROR(CheckLengths());
    std::vector<uint64_t> counts;
    for (const Mixing::Neighbor& source : operation_->mixing->sources) counts.push_back(lengths_[source.rank]);
    StatusOr<char*> result = AllocateResult(counts, Sum(counts));
    if (!result.ok()) return result.status();
    char* place = *result;
    ForEachEdge(*operation_->mixing, rank_, [&](int from, int to) {
      Span block{nullptr, nullptr, lengths_[from]};
      if (from == rank_) {
        block.send = operation_->spans[0].send;
      } else {
        block.recv = place;
        place += block.count * element();
      }
      next_part_ = 2;
      AddEdge(movement, from, to, block);
    });
    return OkStatus();
  });
}

void Plan::AddAgreement() {
  stages_.push_back([this](Movement* movement) {
    AddChunk(movement, routes_->Rooted(0), {}, {});
    return OkStatus();
  });
}

void Plan::AddLengths(int per_rank) {
  stages_.push_back([this, per_rank](Movement* movement) {
    lengths_.assign(static_cast<size_t>(size_) * per_rank, 0);
    uint64_t* mine = lengths_.data() + static_cast<size_t>(rank_) * per_rank;
    for (int i = 0; i < per_rank; ++i) {
      if (per_rank == 1) {
        mine[i] = TotalCount(*operation_);
      } else if (!operation_->send_counts.empty()) {
        mine[i] = operation_->send_counts[i];
      } else {
        mine[i] = EvenPart(TotalCount(*operation_) / operation_->row, size_, i).size() * operation_->row;
      }
    }
    for (int from = 0; from < size_; ++from) {
      char* const begin = reinterpret_cast<char*>(lengths_.data() + static_cast<size_t>(from) * per_rank);
      const Pieces row = {{begin, per_rank * sizeof(uint64_t)}};
      AddChunk(movement, {nullptr, routes_->RootedAtEach(from).broadcast}, from == rank_ ? AsPayload(row) : Payload(),
               row);
    }
    return OkStatus();
  });
}

// The claims of other peers: their sums must not wrap.
Status Plan::CheckLengths() const {
  const uint64_t most = kMaxBulkSize / element();
  const size_t per_rank = lengths_.size() / size_;
  uint64_t total = 0;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    if (lengths_[i] > most || (total += lengths_[i]) > most) {
      return InvalidArgumentError(Title(*operation_) + ": rank " + std::to_string(i / per_rank) + " brings " +
                                  std::to_string(lengths_[i]) + " elements: together more than " +
                                  std::to_string(kMaxBulkSize) + " bytes");
    }
  }
  return OkStatus();
}

StatusOr<char*> Plan::AllocateResult(const std::vector<uint64_t>& counts, uint64_t mine) {
  void* result = operation_->allocate(counts);
  if (!result && mine > 0) return ResourceExhaustedError(Title(*operation_) + ": no memory for the result");
  return static_cast<char*>(result);
}

}  // namespace kungfu
