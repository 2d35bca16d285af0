// Operations that move rows (parts along the first dimension) between peers: all_gather, gather, reduce_scatter,
// all_to_all, neighbor_all_gather. The size of the result is known only when the peers have met.

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/tensorflow/kernel_util.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

std::string Describe(const Tensor& tensor) {
  return absl::StrCat(tensorflow::DataTypeString(tensor.dtype()), " ", tensor.shape().DebugString());
}

// Peers cannot tell each other their numbers of rows, if rows are empty.
absl::Status CountableRows(const TensorShape& shape) {
  if (RowSize(shape) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rows without elements cannot be counted by the receiver: shape ", shape.DebugString()));
}

template <typename Values>
int64_t Sum(const Values& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

// Output 1: how many rows of output 0 came from each rank.
absl::Status SetLengths(OpKernelContext* context, const std::vector<int64_t>& lengths) {
  Tensor* output = nullptr;
  KUNGFU_RETURN_IF_ERROR(context->allocate_output(1, TensorShape({static_cast<int64_t>(lengths.size())}), &output));
  std::copy(lengths.begin(), lengths.end(), output->flat<int64_t>().data());
  return absl::OkStatus();
}

// Output 0, for `count` elements of the core, and where its memory is.
absl::Status SetRows(OpKernelContext* context, const TensorShape& shape, uint64_t count, void** memory) {
  if (static_cast<uint64_t>(shape.num_elements()) != count) {
    return absl::InternalError(absl::StrCat(count, " elements for a result of shape ", shape.DebugString()));
  }
  Tensor* output = nullptr;
  KUNGFU_RETURN_IF_ERROR(context->allocate_output(0, shape, &output));
  *memory = output->data();
  return absl::OkStatus();
}

// How many rows of `shape` the elements make that came from each rank.
std::vector<int64_t> Rows(absl::Span<const uint64_t> counts, const TensorShape& shape) {
  const int64_t row_size = std::max<int64_t>(1, RowSize(shape));
  std::vector<int64_t> rows(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) rows[i] = static_cast<int64_t>(counts[i]) / row_size;
  return rows;
}

// A call for input 0, which ends in `verdict` if that is an error, and in an error of the code `differing` if peers
// differ.
std::shared_ptr<Call> MakeCall(OpKernelContext* context, tensorflow::AsyncOpKernel::DoneCallback done,
                               absl::Status verdict, absl::StatusCode differing) {
  auto call = std::make_shared<Call>(context, std::move(done));
  call->verdict = std::move(verdict);
  call->differing = differing;
  call->describe = [context] { return Describe(context->input(0)); };
  return call;
}

// all_gather and gather. `concat`: the arrays one behind the other; else they are stacked along a new dimension.
class GatherKernel : public CollectiveKernel {
 public:
  explicit GatherKernel(OpKernelConstruction* context) : CollectiveKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("concat", &concat_));
    all_ = !context->HasAttr("root");
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& input = context->input(0);
    Digest digest;
    digest.Add(concat_);
    if (concat_) {
      digest.AddRowShape(input.shape());
    } else {
      digest.AddShape(input.shape());
    }
    digest.AddVector(context->input(1));

    auto call =
        MakeCall(context, std::move(done), concat_ ? CountableRows(input.shape()) : absl::OkStatus(), differing());
    call->allocate = [this, context](absl::Span<const uint64_t> counts, void** memory) {
      return Allocate(context, counts, memory);
    };
    if (!all_) call->finish = [this, context] { return FillElsewhere(context); };
    const kungfu_options options = Options(context, input.dtype(), digest, call->verdict);
    call->Start([&](void* arg) { return Begin(context, options, arg); });
  }

 protected:
  virtual uint64_t Begin(OpKernelContext* context, const kungfu_options& options, void* arg) const {
    const Tensor& input = context->input(0);
    const auto function = all_ ? &kungfu_all_gather : &kungfu_gather;
    return function(input.data(), input.NumElements(), &options, &Call::OnAllocate, &Call::OnDone, arg);
  }

 private:
  TensorShape ShapeOf(const TensorShape& input, int64_t rows) const {
    if (concat_) return WithRows(rows, input);
    TensorShape shape = input;
    shape.InsertDim(0, rows);
    return shape;
  }

  absl::Status Allocate(OpKernelContext* context, absl::Span<const uint64_t> counts, void** memory) const {
    const TensorShape& input = context->input(0).shape();
    std::vector<int64_t> lengths(counts.size(), 1);
    if (concat_) lengths = Rows(counts, input);
    KUNGFU_RETURN_IF_ERROR(SetLengths(context, lengths));
    return SetRows(context, ShapeOf(input, Sum(lengths)), Sum(counts), memory);
  }

  // Without a result there are no rows from any peer.
  absl::Status FillElsewhere(OpKernelContext* context) const {
    if (context->mutable_output(0) != nullptr) return absl::OkStatus();
    KUNGFU_RETURN_IF_ERROR(SetLengths(context, std::vector<int64_t>(size(), 0)));
    void* memory;
    return SetRows(context, ShapeOf(context->input(0).shape(), 0), 0, &memory);
  }

  bool concat_ = false;
  bool all_ = false;
};

// The rows of the sources, input 2, for those of the targets, input 3.
class NeighborGatherKernel : public GatherKernel {
 public:
  using GatherKernel::GatherKernel;

 protected:
  uint64_t Begin(OpKernelContext* context, const kungfu_options& options, void* arg) const override {
    const Tensor &input = context->input(0), &sources = context->input(2), &targets = context->input(3);
    const std::vector<double> weights(std::max(sources.NumElements(), targets.NumElements()), 1);
    kungfu_mixing mixing;
    mixing.self_weight = 1;
    mixing.sources = sources.flat<int32_t>().data();
    mixing.num_sources = static_cast<int32_t>(sources.NumElements());
    mixing.targets = targets.flat<int32_t>().data();
    mixing.num_targets = static_cast<int32_t>(targets.NumElements());
    mixing.source_weights = mixing.target_weights = weights.data();
    return kungfu_neighbor_all_gather(input.data(), input.NumElements(), &mixing, &options, &Call::OnAllocate,
                                      &Call::OnDone, arg);
  }
};

class ReduceScatterKernel : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& input = context->input(0);
    Digest digest;
    digest.AddShape(input.shape());
    auto call = MakeCall(context, std::move(done), absl::OkStatus(), differing());
    call->allocate = [this, context](absl::Span<const uint64_t> counts, void** memory) {
      const TensorShape& shape = context->input(0).shape();
      const int64_t mine = RowSize(shape) > 0 ? Rows(counts, shape)[0] : EvenPart(RowCount(shape));
      return SetRows(context, WithRows(mine, shape), counts[0], memory);
    };
    const kungfu_options options = Options(context, input.dtype(), digest, call->verdict);
    call->Start([&](void* arg) {
      const int64_t row_size = std::max<int64_t>(1, RowSize(input.shape()));
      return kungfu_reduce_scatter(input.data(), input.NumElements(), row_size, &options, &Call::OnAllocate,
                                   &Call::OnDone, arg);
    });
  }

 private:
  // Rows without elements, of which the core counts none. As numpy.array_split: the first parts have one row more.
  int64_t EvenPart(int64_t rows) const { return rows / size() + (rank() < rows % size() ? 1 : 0); }
};

class AllToAllKernel : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& input = context->input(0);
    const auto splits = context->input(1).flat<int64_t>();
    const int64_t row_size = RowSize(input.shape());
    Digest digest;
    digest.AddRowShape(input.shape());
    absl::Status verdict = CountableRows(input.shape());
    verdict.Update(CheckSplits(splits.data(), splits.size(), RowCount(input.shape())));

    auto call = MakeCall(context, std::move(done), verdict, differing());
    call->allocate = [context](absl::Span<const uint64_t> counts, void** memory) {
      const TensorShape& shape = context->input(0).shape();
      const std::vector<int64_t> lengths = Rows(counts, shape);
      KUNGFU_RETURN_IF_ERROR(SetLengths(context, lengths));
      return SetRows(context, WithRows(Sum(lengths), shape), Sum(counts), memory);
    };
    const kungfu_options options = Options(context, input.dtype(), digest, verdict);
    std::vector<uint64_t> send_counts(splits.size());
    for (int64_t i = 0; i < splits.size(); ++i) send_counts[i] = static_cast<uint64_t>(splits(i) * row_size);
    const bool even = send_counts.empty() || !verdict.ok();
    call->Start([&](void* arg) {
      return kungfu_all_to_all(input.data(), input.NumElements(), std::max<int64_t>(1, row_size),
                               even ? nullptr : send_counts.data(), even ? 0 : static_cast<int>(send_counts.size()),
                               &options, &Call::OnAllocate, &Call::OnDone, arg);
    });
  }

 private:
  absl::Status CheckSplits(const int64_t* splits, int64_t num_splits, int64_t rows) const {
    if (num_splits == 0) return absl::OkStatus();
    if (num_splits != size()) {
      return absl::InvalidArgumentError(absl::StrCat(num_splits, " splits for ", size(), " peers"));
    }
    int64_t left = rows;
    for (int64_t i = 0; i < num_splits; ++i) {
      if (splits[i] < 0 || splits[i] > left) {
        return absl::InvalidArgumentError(
            absl::StrCat("splits[", i, "] is ", splits[i], " where ", left, " of ", rows, " rows are left"));
      }
      left -= splits[i];
    }
    if (left == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the splits leave ", left, " of ", rows, " rows over"));
  }
};

// The shape function of all_gather, gather and all_to_all: the second output has an element for each rank.
absl::Status LengthsShape(InferenceContext* context) {
  tensorflow::shape_inference::ShapeHandle vector;
  KUNGFU_RETURN_IF_ERROR(context->WithRank(context->input(1), 1, &vector));
  context->set_output(1, context->Vector(context->UnknownDim()));
  return absl::OkStatus();
}

absl::Status GatheredShapes(InferenceContext* context) {
  bool concat;
  KUNGFU_RETURN_IF_ERROR(context->GetAttr("concat", &concat));
  KUNGFU_RETURN_IF_ERROR(LengthsShape(context));
  if (concat) {
    context->set_output(0, AnyRows(context));
    return absl::OkStatus();
  }
  tensorflow::shape_inference::ShapeHandle stacked;
  KUNGFU_RETURN_IF_ERROR(context->Concatenate(context->Vector(context->UnknownDim()), context->input(0), &stacked));
  context->set_output(0, stacked);
  return absl::OkStatus();
}

REGISTER_OP("KungfuAllGather")
    .Input("input: T")
    .Input("agree: int64")
    .Output("output: T")
    .Output("lengths: int64")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("concat: bool = false")
    .Attr(KUNGFU_DIFFERING)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GatheredShapes)
    .Doc("The `input` of all peers in rank order, and the rows that came from each. `agree`: what must be the same.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuAllGather", GatherKernel,
                             .HostMemory("input").HostMemory("agree").HostMemory("output").HostMemory("lengths"));

REGISTER_OP("KungfuGather")
    .Input("input: T")
    .Input("agree: int64")
    .Output("output: T")
    .Output("lengths: int64")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("root: int = 0")
    .Attr("concat: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GatheredShapes)
    .Doc("KungfuAllGather with a result on the peer with rank `root` only; elsewhere no rows.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuGather", GatherKernel,
                             .HostMemory("input").HostMemory("agree").HostMemory("output").HostMemory("lengths"));

REGISTER_OP("KungfuNeighborAllGather")
    .Input("input: T")
    .Input("agree: int64")
    .Input("sources: int32")
    .Input("targets: int32")
    .Output("output: T")
    .Output("lengths: int64")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("concat: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(GatheredShapes)
    .Doc("KungfuAllGather of the `sources` alone, which have this peer among their `targets`.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuNeighborAllGather", NeighborGatherKernel,
                             .HostMemory("input")
                                 .HostMemory("agree")
                                 .HostMemory("sources")
                                 .HostMemory("targets")
                                 .HostMemory("output")
                                 .HostMemory("lengths"));

REGISTER_OP("KungfuReduceScatter")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("op: " KUNGFU_REDUCTIONS)
    .Attr(KUNGFU_DIFFERING)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* context) {
      context->set_output(0, AnyRows(context));
      return absl::OkStatus();
    })
    .Doc("This peer's rows of the reduction of `input`, whose rows are cut into even parts, one for each peer.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuReduceScatter", ReduceScatterKernel, .HostMemory("input").HostMemory("output"));

REGISTER_OP("KungfuAllToAll")
    .Input("input: T")
    .Input("splits: int64")
    .Output("output: T")
    .Output("lengths: int64")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr(KUNGFU_DIFFERING)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* context) {
      KUNGFU_RETURN_IF_ERROR(LengthsShape(context));
      context->set_output(0, AnyRows(context));
      return absl::OkStatus();
    })
    .Doc("Sends splits[r] rows to each rank r (even parts if `splits` is empty); what arrived, and from whom.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuAllToAll", AllToAllKernel,
                             .HostMemory("input").HostMemory("splits").HostMemory("output").HostMemory("lengths"));

}  // namespace
}  // namespace kungfu::kernels
