#include "ops/collective/pieces.h"

#include <algorithm>

#include "ops/base/accumulate.h"
#include "ops/base/reduce.h"

namespace kungfu {
namespace {

// Calls `visit(span, first element within it, elements)` for the part of each span that lies in the range.
template <typename Visit>
void ForEachPart(const ShortList<Span>& spans, Range elements, Visit visit) {
  if (spans.size() == 1 && elements.begin < elements.end) return visit(spans[0], elements.begin, elements.size());
  uint64_t begin = 0;
  for (const Span& span : spans) {
    const uint64_t from = std::max(begin, elements.begin);
    const uint64_t to = std::min(begin + span.count, elements.end);
    if (from < to) visit(span, from - begin, to - from);
    begin += span.count;
    if (begin >= elements.end) break;
  }
}

}  // namespace

void SetSend(const ShortList<Span>& spans, Range elements, size_t element_size, Payload* pieces) {
  pieces->clear();
  ForEachPart(spans, elements, [&](const Span& span, uint64_t first, uint64_t count) {
    pieces->push_back({static_cast<const char*>(span.send) + first * element_size, count * element_size});
  });
}

void SetRecv(const ShortList<Span>& spans, Range elements, size_t element_size, Pieces* pieces) {
  pieces->clear();
  ForEachPart(spans, elements, [&](const Span& span, uint64_t first, uint64_t count) {
    pieces->push_back({static_cast<char*>(span.recv) + first * element_size, count * element_size});
  });
}

Payload SendPieces(const ShortList<Span>& spans, Range elements, size_t element_size) {
  Payload pieces;
  SetSend(spans, elements, element_size, &pieces);
  return pieces;
}

Pieces RecvPieces(const ShortList<Span>& spans, Range elements, size_t element_size) {
  Pieces pieces;
  SetRecv(spans, elements, element_size, &pieces);
  return pieces;
}

void AddSquares(const Payload& pieces, DType dtype, SquaredSum* sum) {
  for (const ConstBytes& piece : pieces) sum->Add(piece.data, piece.size / SizeOf(dtype), dtype);
}

double SquaredNorm(const Payload& pieces, DType dtype) {
  SquaredSum sum;
  AddSquares(pieces, dtype, &sum);
  return sum.Total();
}

void ReduceSink::Consume(ConstBytes view) {
  while (view.size > 0) {
    Advance(left_, &left_piece_, &left_offset_);
    Advance(to_, &to_piece_, &to_offset_);
    const MutableBytes& to = to_[to_piece_];
    const ConstBytes& left = left_[left_piece_];
    const size_t size = std::min({view.size, to.size - to_offset_, left.size - left_offset_});
    Reduce(to.data + to_offset_, left.data + left_offset_, view.data, size / SizeOf(dtype_), dtype_, op_);
    left_offset_ += size;
    to_offset_ += size;
    view.data += size;
    view.size -= size;
  }
}

class Accumulator::WideSink : public Sink {
 public:
  WideSink(Accumulator* accumulator, bool arrives_wide)
      : accumulator_(accumulator), arriving_(arrives_wide ? accumulator->wide_ : accumulator->dtype_) {}

  MutableBytes Reserve(size_t) override { return {}; }
  void Commit(size_t) override {}
  void Consume(ConstBytes view) override {
    char* const total = accumulator_->total_.get() + done_;
    const size_t count = view.size / SizeOf(arriving_);
    if (arriving_ == accumulator_->wide_) {
      Reduce(total, total, view.data, count, arriving_, accumulator_->op_);
    } else {
      Accumulate(total, view.data, count, arriving_, accumulator_->op_);
    }
    done_ += count * SizeOf(accumulator_->wide_);
  }

 private:
  Accumulator* const accumulator_;
  const DType arriving_;
  uint64_t done_ = 0;  // bytes of the total
};

Accumulator::Accumulator(uint64_t count, DType dtype, ReduceOp op)
    : dtype_(dtype), wide_(AccumulatorOf(dtype, op)), op_(op), count_(count), total_(new char[count * SizeOf(wide_)]) {}

Accumulator::Accumulator(const Payload& first, DType dtype, ReduceOp op)
    : Accumulator(TotalSize(first) / SizeOf(dtype), dtype, op) {
  char* to = total_.get();
  for (const ConstBytes& piece : first) {
    const uint64_t count = piece.size / SizeOf(dtype);
    Widen(piece.data, to, count, dtype);
    to += count * SizeOf(wide_);
  }
}

std::unique_ptr<Sink> Accumulator::MakeSink(bool arrives_wide) {
  return std::make_unique<WideSink>(this, arrives_wide);
}

void Accumulator::Finish(const Pieces& to, int peers) {
  if (op_ == ReduceOp::kMean) Divide(total_.get(), count_, wide_, peers);
  const char* from = total_.get();
  for (const MutableBytes& piece : to) {
    const uint64_t count = piece.size / SizeOf(dtype_);
    Narrow(from, piece.data, count, dtype_);
    from += count * SizeOf(wide_);
  }
}

}  // namespace kungfu
