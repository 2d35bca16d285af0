#include "ops/collective/direct_reduction.h"

#include <algorithm>
#include <utility>

#include "ops/base/accumulate.h"
#include "ops/base/caches.h"
#include "ops/base/reduce.h"

namespace kungfu {
namespace {

// Two operands and two results of this size fit the nearest cache. Copies of less would never be timed.
size_t NearBlock() { return std::max(NearestCache() / 4 / kLine * kLine, CrossCoreCopier::kTimed); }

// If one loop does everything, no data are needed again.
constexpr size_t kLongBlock = 128 << 10;
// So much shows what stores cost: after less the nearest caches still hold lines that are not in memory yet.
constexpr uint64_t kStretch = 2 << 20;

}  // namespace

template <typename List>
void DirectReduction::Cursor<List>::Advance(uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t step = std::min<uint64_t>(bytes, left());
    offset += step;
    bytes -= step;
    while (piece < list.size() && left() == 0) {
      ++piece;
      offset = 0;
    }
  }
}

DirectReduction::DirectReduction(DType dtype, ReduceOp op, int peers, StoreChoice* stores)
    : dtype_(dtype), op_(op), peers_(peers), stores_(stores), accumulator_(AccumulatorOf(dtype, op)) {}

DirectReduction::~DirectReduction() = default;

double DirectReduction::operand_norm() const {
  double sum = 0;
  for (const SquaredSum& squares : operand_squares_) sum += squares.Total();
  return sum;
}

void DirectReduction::AddOperand(Payload operand) {
  whole_ = left_ = TotalSize(operand);
  operands_.push_back({std::move(operand)});
}

void DirectReduction::AddResult(Pieces result, CrossCoreCopier* copier) {
  results_.push_back({std::move(result)});
  copiers_.push_back(copier);
}

void DirectReduction::Clear() {
  operands_.clear();
  results_.clear();
  copiers_.clear();
  stretch_ = {};
}

void DirectReduction::Prepare() {
  if (results_.empty()) return;
  if (accumulator_ != dtype_) {
    if (!wide_) wide_.reset(new char[NearBlock() / SizeOf(dtype_) * SizeOf(accumulator_)]);
  } else if (operands_.size() > 2) {
    if (!partial_) partial_.reset(new char[NearBlock()]);
  }
}

bool DirectReduction::Advance(uint64_t most) {
  Prepare();
  for (uint64_t done = 0; left_ > 0 && done < most;) {
    size_t bytes = std::min<uint64_t>(left_, SizeOfBlock());
    for (const auto& operand : operands_) bytes = std::min(bytes, operand.left());
    for (const auto& result : results_) bytes = std::min(bytes, result.left());
    Block(bytes);
    left_ -= bytes;
    done += bytes;
    for (auto& operand : operands_) operand.Advance(bytes);
    for (auto& result : results_) result.Advance(bytes);
  }
  return left_ == 0;
}

// A short block leads to the beginning of a cache line, if whole elements do.
size_t DirectReduction::SizeOfBlock() const {
  const char* const begin = results_.empty() ? operands_[0].data() : results_[0].data();
  const size_t skew = reinterpret_cast<uintptr_t>(begin) % kLine;
  if (skew != 0 && skew % SizeOf(dtype_) == 0) return kLine - skew;
  return operands_.size() == 2 && results_.size() == 2 && IsTwofold() ? kLongBlock : NearBlock();
}

// No element is written to a peer's memory before it was read from all operands: one of them may lie there.
void DirectReduction::Block(size_t bytes) {
  const size_t count = bytes / SizeOf(dtype_);
  size_t filled = 1;  // results
  if (MeasuresSums()) {
    filled = CombineMeasured(count);
  } else {
    for (size_t i = 0; i < operand_squares_.size(); ++i) operand_squares_[i].Add(operands_[i].data(), count, dtype_);
    if (total_) {
      CombineWide(total_, count);
      total_ += count * SizeOf(accumulator_);
      return;
    }
    if (wide_) {
      CombineWide(wide_.get(), count);
      if (divisor() > 1) Divide(wide_.get(), count, accumulator_, divisor());
      Narrow(wide_.get(), results_[0].data(), count, dtype_);
    } else {
      filled = Combine(count);
    }
    if (result_squares_) result_squares_->Add(results_[0].data(), count, dtype_);
  }
  for (size_t i = filled; i < results_.size(); ++i) {
    copiers_[i]->Copy(results_[i].data(), results_[0].data(), bytes);
  }
}

// Whether there is a loop that adds and measures in one go.
bool DirectReduction::MeasuresSums() const {
  return !operand_squares_.empty() && dtype_ == DType::kFloat32 &&
         (op_ == ReduceOp::kSum || (op_ == ReduceOp::kMean && (result_squares_ || peers_ == 0)));
}

// The second result lies where an operand was read.
bool DirectReduction::IsSecondAtHand() const {
  return results_.size() > 1 && std::any_of(operands_.begin(), operands_.end(), [this](const Cursor<Payload>& operand) {
           return operand.data() == results_[1].data();
         });
}

// Whether one loop writes the first two results. If the second lies where no operand was read, another core may hold
// its lines: a copy of whole lines, which need not be fetched before, is faster, unless stores go past the caches.
bool DirectReduction::IsTwofold() const {
  if (!HasTwofoldSum(dtype_, op_)) return false;
  return IsSecondAtHand() || (stores_ && whole_ >= kStretch && operands_.size() == 2 && results_.size() == 2);
}

size_t DirectReduction::CombineMeasured(size_t count) {
  char* const first = results_[0].data();
  const bool is_twofold = IsSecondAtHand();
  char* const second = is_twofold ? results_[1].data() : first;
  const char* left = operands_[0].data();
  for (size_t i = 1; i < operands_.size(); ++i) {
    const bool is_last = i + 1 == operands_.size();
    char* const to = is_last ? first : partial_.get();
    char* const also = is_last ? second : to;
    SquaredSum::AddOfSums(reinterpret_cast<float*>(to), reinterpret_cast<float*>(also),
                          reinterpret_cast<const float*>(left), reinterpret_cast<const float*>(operands_[i].data()),
                          count, is_last ? divisor() : 1, i == 1 ? &operand_squares_[0] : nullptr, &operand_squares_[i],
                          is_last && result_squares_ ? &*result_squares_ : nullptr);
    left = to;
  }
  return is_twofold ? 2 : 1;
}

size_t DirectReduction::Combine(size_t count) {
  char* const result = results_[0].data();
  const bool is_twofold = IsTwofold();
  const char* left = operands_[0].data();
  for (size_t i = 1; i < operands_.size(); ++i) {
    const char* const right = operands_[i].data();
    const bool is_last = i + 1 == operands_.size();
    if (is_last && is_twofold) {
      SumTwofold(left, right, count);
      return 2;
    }
    char* const to = is_last ? result : partial_.get();
    Reduce(to, left, right, count, dtype_, op_);
    left = to;
  }
  if (divisor() > 1) Divide(result, count, dtype_, divisor());
  return 1;
}

// Results that lie elsewhere than the operands are as many lines again. If all of them do not fit the caches, stores
// past those are faster.
void DirectReduction::SumTwofold(const char* left, const char* right, size_t count) {
  char* const first = results_[0].data();
  char* const second = results_[1].data();
  const bool is_like_first = (first - second) % static_cast<ptrdiff_t>(kLine) == 0;
  if (IsSecondAtHand() || !is_like_first) {
    return TwofoldSum(first, second, left, right, count, dtype_, divisor());
  }
  if (stretch_.bytes == 0) stretch_.stores = StoresOfNextStretch();
  const Clock::time_point start = Clock::now();
  const auto sum = stretch_.stores == StoreChoice::kPlain ? TwofoldSum : TwofoldSumPastCaches;
  sum(first, second, left, right, count, dtype_, divisor());
  stretch_.time += Clock::now() - start;
  stretch_.bytes += count * SizeOf(dtype_);
  if (stretch_.bytes < kStretch) return;
  stores_->Took(stretch_.stores, stretch_.bytes, stretch_.time);
  stretch_ = {};
}

// The end of a large array goes as the rest has shown.
StoreChoice::Stores DirectReduction::StoresOfNextStretch() {
  return left_ >= kStretch ? stores_->Next() : stores_->best();
}

void DirectReduction::CombineWide(char* result, size_t count) {
  Widen(operands_[0].data(), result, count, dtype_);
  for (size_t i = 1; i < operands_.size(); ++i) Accumulate(result, operands_[i].data(), count, dtype_, op_);
}

}  // namespace kungfu
