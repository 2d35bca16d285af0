// Operations whose results have the shapes of their inputs: all_reduce, broadcast, reduce, alone or as a group, and
// neighbor_all_reduce.

#include <cstring>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/tensorflow/kernel_util.h"
#include "ops/tensorflow/mixing_inputs.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

absl::Status SameShapes(InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->input(i));
  return absl::OkStatus();
}

using SpanFunction = uint64_t (*)(const kungfu_span* spans, int num_spans, const kungfu_options* options,
                                  kungfu_done done, void* arg);

// "float32 [2,3], [5]": the first `count` outputs, which have the shapes of the inputs.
std::string DescribeOutputs(OpKernelContext* context, int count) {
  constexpr int kShown = 8;
  std::vector<std::string> shapes;
  for (int i = 0; i < std::min(kShown, count); ++i) {
    shapes.push_back(context->mutable_output(i)->shape().DebugString());
  }
  const int hidden = count - static_cast<int>(shapes.size());
  return absl::StrCat(tensorflow::DataTypeString(context->expected_output_dtype(0)), " ", absl::StrJoin(shapes, ", "),
                      hidden > 0 ? absl::StrCat(" and ", hidden, " more") : "");
}

// One call of `function` for all tensors. If no other operation needs an input, its memory becomes the output, and the
// core works in place; but not if it may have to repeat the operation.
class SpanKernel : public CollectiveKernel {
 public:
  SpanKernel(OpKernelConstruction* context, SpanFunction function) : CollectiveKernel(context), function_(function) {
    if (context->HasAttr("positions")) OP_REQUIRES_OK(context, context->GetAttr("positions", &positions_));
    if (context->HasAttr("exchange")) OP_REQUIRES_OK(context, context->GetAttr("exchange", &exchange_));
    if (context->HasAttr("exchange_size")) {
      OP_REQUIRES_OK(context, context->GetAttr("exchange_size", &exchange_size_));
    }
    if (context->HasAttr("N")) OP_REQUIRES_OK(context, context->GetAttr("N", &num_tensors_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    absl::InlinedVector<kungfu_span, 8> spans(num_tensors_);
    const bool in_place = kungfu_repeats() == 0;
    Digest digest;
    digest.Add(num_tensors_);
    for (const int position : positions_) digest.Add(position);
    for (int i = 0; i < num_tensors_; ++i) {
      const Tensor& input = context->input(i);
      const TensorShape shape = input.shape();
      const void* const send = input.data();
      Tensor* output = nullptr;
      OP_REQUIRES_OK_ASYNC(context,
                           in_place ? context->forward_input_or_allocate_output({i}, i, shape, &output)
                                    : context->allocate_output(i, shape, &output),
                           done);
      spans[i] = {send, output->data(), static_cast<uint64_t>(shape.num_elements())};
      digest.AddShape(shape);
    }

    int64_t number = 0;
    const int num_inputs = NumInputs(context);
    for (int i = num_tensors_; i < num_inputs; ++i) {
      const TensorShape& shape = context->input(i).shape();
      OP_REQUIRES_ASYNC(
          context, tensorflow::TensorShapeUtils::IsScalar(shape),
          absl::InvalidArgumentError(absl::StrCat("input ", i, " has shape ", shape.DebugString(), ", not a scalar's")),
          done);
    }
    if (num_inputs > num_tensors_) number = context->input(num_tensors_).scalar<int64_t>()();

    kungfu_options options = Options(context, context->expected_output_dtype(0), digest, absl::OkStatus());
    std::function<absl::Status()> finish;
    OP_REQUIRES_OK_ASYNC(context, Extend(context, &options, &finish), done);
    auto call = std::make_shared<Call>(context, std::move(done));
    call->describe = [context, count = num_tensors_] { return DescribeOutputs(context, count); };
    call->differing = differing();
    call->finish = std::move(finish);
    const std::string name = NameWith(context, number, &options);
    options.name = name.c_str();
    options.exchange = exchange_.c_str();
    options.exchange_size = exchange_size_;
    call->Start([&](void* arg) { return function_(spans.data(), num_tensors_, &options, &Call::OnDone, arg); });
  }

 protected:
  // The meaning of `number`, the scalar behind the tensors, or 0: here the optimizer's step. Returns the name.
  virtual std::string NameWith(OpKernelContext* context, int64_t number, kungfu_options* options) const {
    options->step = static_cast<uint64_t>(number);
    return NameIn(context);
  }
  // The request to the core beyond the tensors; `*finish` runs after success, and keeps the data for that.
  virtual absl::Status Extend(OpKernelContext*, kungfu_options*, std::function<absl::Status()>*) const {
    return absl::OkStatus();
  }
  int num_tensors() const { return num_tensors_; }

 private:
  const SpanFunction function_;
  std::vector<int> positions_;
  std::string exchange_;
  int exchange_size_ = 1;
  int num_tensors_ = 1;
};

struct AllReduceKernel : SpanKernel {
  explicit AllReduceKernel(OpKernelConstruction* context) : SpanKernel(context, &kungfu_all_reduce) {}
};

struct NumberedAllReduceKernel : AllReduceKernel {
  using AllReduceKernel::AllReduceKernel;

  std::string NameWith(OpKernelContext* context, int64_t number, kungfu_options*) const override {
    return absl::StrCat(NameIn(context), "/", number);
  }
};

// Behind the step a scalar says whether the norms are wanted; behind the results they are.
struct NormsKernel : AllReduceKernel {
  using AllReduceKernel::AllReduceKernel;

  absl::Status Extend(OpKernelContext* context, kungfu_options* options,
                      std::function<absl::Status()>* finish) const override {
    Tensor *sent = nullptr, *received = nullptr;
    KUNGFU_RETURN_IF_ERROR(context->allocate_output(num_tensors(), TensorShape(), &sent));
    KUNGFU_RETURN_IF_ERROR(context->allocate_output(num_tensors() + 1, TensorShape(), &received));
    auto norms = std::make_shared<kungfu_norms>();
    norms->wanted = context->input(num_tensors() + 1).scalar<bool>()() ? 1 : 0;
    options->norms = norms.get();
    *finish = [norms, sent, received] {
      sent->scalar<double>()() = norms->sent;
      received->scalar<double>()() = norms->received;
      return absl::OkStatus();
    };
    return absl::OkStatus();
  }
};

struct BroadcastKernel : SpanKernel {
  explicit BroadcastKernel(OpKernelConstruction* context) : SpanKernel(context, &kungfu_broadcast) {}
};

// The reduction on the root, zeros elsewhere, so that it is the transpose of broadcast.
class ReduceKernel : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const TensorShape shape = context->input(0).shape();
    const void* const send = context->input(0).data();
    tensorflow::AllocatorAttributes on_host;
    on_host.set_on_host(true);
    Tensor received;
    OP_REQUIRES_OK_ASYNC(
        context,
        context->forward_input_or_allocate_temp({0}, context->expected_output_dtype(0), shape, on_host, &received),
        done);
    if (rank() == root()) {
      context->set_output(0, received);
    } else {
      Tensor* zeros = nullptr;
      OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, shape, &zeros), done);
      if (zeros->TotalBytes() > 0) std::memset(zeros->data(), 0, zeros->TotalBytes());
    }

    Digest digest;
    digest.AddShape(shape);
    auto call = std::make_shared<Call>(context, std::move(done));
    call->describe = [context] { return DescribeOutputs(context, 1); };
    call->finish = [received] { return absl::OkStatus(); };  // keeps the memory
    const kungfu_options options = Options(context, context->expected_output_dtype(0), digest, call->verdict);
    const kungfu_span span = {send, received.data(), static_cast<uint64_t>(shape.num_elements())};
    call->Start([&](void* arg) { return kungfu_reduce(&span, 1, &options, &Call::OnDone, arg); });
  }
};

// Out of place: the inputs are sent while the results are made.
class NeighborAllReduceKernel : public CollectiveKernel {
 public:
  explicit NeighborAllReduceKernel(OpKernelConstruction* context) : CollectiveKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("N", &num_tensors_));
    OP_REQUIRES_OK(context, context->GetAttr("positions", &positions_));
    OP_REQUIRES_OK(context, context->GetAttr("topology", &topology_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    absl::InlinedVector<kungfu_span, 8> spans(num_tensors_);
    Digest digest;
    digest.Add(num_tensors_);
    for (const int position : positions_) digest.Add(position);
    for (int i = 0; i < num_tensors_; ++i) {
      const Tensor& input = context->input(i);
      Tensor* output = nullptr;
      OP_REQUIRES_OK_ASYNC(context, context->allocate_output(i, input.shape(), &output), done);
      spans[i] = {input.data(), output->data(), static_cast<uint64_t>(input.NumElements())};
      digest.AddShape(input.shape());
    }
    const MixingInputs inputs(context, num_tensors_);
    digest.Add(inputs.agree());

    auto call = std::make_shared<Call>(context, std::move(done));
    call->verdict = inputs.verdict();
    call->describe = [this, context] {
      const std::string mixed = topology_.empty() ? "with given weights" : topology_;
      return absl::StrCat(DescribeOutputs(context, num_tensors_), ", ", mixed);
    };
    const kungfu_options options = Options(context, context->expected_output_dtype(0), digest, call->verdict);
    call->Start([&](void* arg) {
      return kungfu_neighbor_all_reduce(spans.data(), num_tensors_, inputs.mixing(), &options, &Call::OnDone, arg);
    });
  }

 private:
  int num_tensors_ = 1;
  std::vector<int> positions_;
  std::string topology_;
};

REGISTER_OP("KungfuAllReduce")
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
    .SetShapeFn(SameShapes)
    .Doc("The reduction of `input` over all peers.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuAllReduce", AllReduceKernel, .HostMemory("input").HostMemory("output"));

REGISTER_OP("KungfuNumberedAllReduce")
    .Input("input: T")
    .Input("number: int64")
    .Output("output: T")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("op: " KUNGFU_REDUCTIONS)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(SameShapes)
    .Doc("The reduction of `input` over all peers, called `tag`/`number`: its name is known when it runs.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuNumberedAllReduce", NumberedAllReduceKernel,
                             .HostMemory("input").HostMemory("number").HostMemory("output"));

REGISTER_OP("KungfuGroupAllReduce")
    .Input("inputs: N * T")
    .Input("step: int64")
    .Output("outputs: N * T")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("N: int >= 1")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("op: " KUNGFU_REDUCTIONS)
    .Attr("positions: list(int) = []")
    .Attr("exchange: string = ''")
    .Attr("exchange_size: int = 1")
    .Attr(KUNGFU_DIFFERING)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* context) {
      tensorflow::shape_inference::ShapeHandle scalar;
      KUNGFU_RETURN_IF_ERROR(context->WithRank(context->input(context->num_outputs()), 0, &scalar));
      return SameShapes(context);
    })
    .Doc(
        "The reduction of each of `inputs` over all peers. `step` and `positions` must be the same on all of them. "
        "Those of one `exchange`, `exchange_size` of them, end together.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuGroupAllReduce", AllReduceKernel,
                             .HostMemory("inputs").HostMemory("step").HostMemory("outputs"));

REGISTER_OP("KungfuGroupAllReduceNorms")
    .Input("inputs: N * T")
    .Input("step: int64")
    .Input("wanted: bool")
    .Output("outputs: N * T")
    .Output("sent: double")
    .Output("received: double")
    .Attr("T: {half, bfloat16, float, double, complex64, complex128}")
    .Attr("N: int >= 1")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("op: " KUNGFU_REDUCTIONS)
    .Attr("positions: list(int) = []")
    .Attr("exchange: string = ''")
    .Attr("exchange_size: int = 1")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* context) {
      const int num_tensors = context->num_outputs() - 2;
      for (int i = 0; i < num_tensors; ++i) context->set_output(i, context->input(i));
      for (int i = num_tensors; i < context->num_outputs(); ++i) {
        tensorflow::shape_inference::ShapeHandle scalar;
        KUNGFU_RETURN_IF_ERROR(context->WithRank(context->input(i), 0, &scalar));
        context->set_output(i, scalar);
      }
      return absl::OkStatus();
    })
    .Doc(
        "As KungfuGroupAllReduce. `sent` is the mean over the peers of the sum of the squares of all `inputs`, "
        "`received` that sum of all `outputs`; NaN if a peer does not want them. All peers have the same bits.");
KUNGFU_REGISTER_NAMED_KERNEL(
    "KungfuGroupAllReduceNorms", NormsKernel,
    .HostMemory("inputs").HostMemory("step").HostMemory("wanted").HostMemory("outputs").HostMemory("sent").HostMemory(
        "received"));

REGISTER_OP("KungfuBroadcast")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("root: int = 0")
    .Attr(KUNGFU_DIFFERING)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(SameShapes)
    .Doc("The `input` of the peer with rank `root`.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuBroadcast", BroadcastKernel, .HostMemory("input").HostMemory("output"));

REGISTER_OP("KungfuGroupBroadcast")
    .Input("inputs: N * T")
    .Output("outputs: N * T")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("N: int >= 1")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("root: int = 0")
    .Attr("positions: list(int) = []")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(SameShapes)
    .Doc("The `inputs` of the peer with rank `root`.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuGroupBroadcast", BroadcastKernel, .HostMemory("inputs").HostMemory("outputs"));

REGISTER_OP("KungfuReduce")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("op: " KUNGFU_REDUCTIONS)
    .Attr("root: int = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(SameShapes)
    .Doc("The reduction of `input` over all peers on the peer with rank `root`, zeros elsewhere.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuReduce", ReduceKernel, .HostMemory("input").HostMemory("output"));

REGISTER_OP("KungfuGroupNeighborAllReduce")
    .Input("inputs: N * T")
    .KUNGFU_MIXING.Output("outputs: N * T")
    .Attr("T: {half, bfloat16, float, double, complex64, complex128}")
    .Attr("N: int >= 1")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("positions: list(int) = []")
    .Attr("topology: string = ''")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* context) {
      KUNGFU_RETURN_IF_ERROR(MixingInputs::CheckShapes(context, context->num_outputs()));
      return SameShapes(context);
    })
    .Doc(
        "The weighted sum of each of `inputs` and what the `sources` send of it, which is their input times the weight "
        "that this peer has as their target. `agree` and `positions` must be the same on neighbours. `topology` is for "
        "messages.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuGroupNeighborAllReduce", NeighborAllReduceKernel,
                             .HostMemory("inputs").KUNGFU_MIXING_ON_HOST.HostMemory("outputs"));

}  // namespace
}  // namespace kungfu::kernels
