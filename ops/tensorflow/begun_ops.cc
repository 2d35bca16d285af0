// Collectives that outlive a step: begun in one, ended in a later one. What they move travels meanwhile.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "ops/tensorflow/begun.h"
#include "ops/tensorflow/mixing_inputs.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

using tensorflow::OpKernel;

// By which an end finds its beginning.
std::string KeyOf(uint64_t group, const std::string& tag) { return absl::StrCat(group, "/", tag); }

// The inputs are kept until the operation has ended. An input that nobody else needs becomes the result, in place, but
// not if the core may have to repeat the operation.
class BeginKernel : public CollectiveKernel {
 public:
  explicit BeginKernel(OpKernelConstruction* context) : CollectiveKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("positions", &positions_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &num_tensors_));
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
  }

 protected:
  using Spans = absl::InlinedVector<kungfu_span, 8>;

  // Where the data are, and what peers must have in common.
  absl::Status Prepare(OpKernelContext* context, bool in_place, Begun* begun, Spans* spans, Digest* digest) const {
    tensorflow::AllocatorAttributes on_host;
    on_host.set_on_host(true);
    digest->Add(num_tensors_);
    for (const int position : positions_) digest->Add(position);
    begun->sent.resize(num_tensors_);
    begun->results.resize(num_tensors_);
    for (int i = 0; i < num_tensors_; ++i) {
      const TensorShape shape = context->input(i).shape();
      const void* const send = context->input(i).data();
      Tensor* result = &begun->results[i];
      KUNGFU_RETURN_IF_ERROR(in_place ? context->forward_input_or_allocate_temp({i}, dtype_, shape, on_host, result)
                                      : context->allocate_temp(dtype_, shape, result, on_host));
      if (result->data() != send) begun->sent[i] = context->input(i);
      spans->push_back({send, result->data(), static_cast<uint64_t>(shape.num_elements())});
      digest->AddShape(shape);
    }
    return absl::OkStatus();
  }

  // Lets an end find it.
  absl::Status Add(OpKernelContext* context, const std::shared_ptr<Begun>& begun) const {
    if (BegunByTag::Collectives().Add(KeyOf(group(), NameIn(context)), begun)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("'", NameIn(context), "' was begun already: end it before you begin it again"));
  }

  std::vector<int> positions_;
  int num_tensors_ = 1;
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
};

class BeginGroupAllReduceKernel : public BeginKernel {
 public:
  using BeginKernel::BeginKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    auto begun = std::make_shared<Begun>();
    Spans spans;
    Digest digest;
    OP_REQUIRES_OK_ASYNC(context, Prepare(context, kungfu_repeats() == 0, begun.get(), &spans, &digest), done);
    OP_REQUIRES_OK_ASYNC(context, Add(context, begun), done);
    kungfu_options options = Options(context, dtype_, digest, absl::OkStatus());
    options.step = static_cast<uint64_t>(context->input(num_tensors_).scalar<int64_t>()());
    begun->SetOperation(
        kungfu_all_reduce(spans.data(), num_tensors_, &options, &Begun::OnDone, Begun::ArgumentOf(begun)));
    done();
  }
};

class BeginGroupNeighborAllReduceKernel : public BeginKernel {
 public:
  using BeginKernel::BeginKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    auto begun = std::make_shared<Begun>();
    Spans spans;
    Digest digest;
    const MixingInputs inputs(context, num_tensors_);
    OP_REQUIRES_OK_ASYNC(context, inputs.verdict(), done);
    OP_REQUIRES_OK_ASYNC(context, Prepare(context, /*in_place=*/false, begun.get(), &spans, &digest), done);
    OP_REQUIRES_OK_ASYNC(context, Add(context, begun), done);
    digest.Add(inputs.agree());
    const kungfu_options options = Options(context, dtype_, digest, absl::OkStatus());
    begun->SetOperation(kungfu_neighbor_all_reduce(spans.data(), num_tensors_, inputs.mixing(), &options,
                                                   &Begun::OnDone, Begun::ArgumentOf(begun)));
    done();
  }
};

class EndGroupAllReduceKernel : public CollectiveKernel {
 public:
  explicit EndGroupAllReduceKernel(OpKernelConstruction* context) : CollectiveKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("shapes", &shapes_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const std::shared_ptr<Begun> begun = BegunByTag::Collectives().Take(KeyOf(group(), NameIn(context)));
    OP_REQUIRES_ASYNC(context, begun != nullptr,
                      absl::FailedPreconditionError(
                          absl::StrCat("'", NameIn(context), "' cannot end: it was not begun in this process")),
                      done);
    Begun::AwaitIn(context, begun, [=](const absl::Status& status) {
      if (!status.ok()) {
        context->SetStatus(status);
      } else if (!Fits(*begun, context->expected_output_dtype(0))) {
        context->SetStatus(absl::InvalidArgumentError(
            absl::StrCat("'", NameIn(context), "': other tensors were begun than are ended")));
      } else {
        for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, begun->results[i]);
      }
      done();
    });
  }

 private:
  bool Fits(const Begun& begun, tensorflow::DataType dtype) const {
    return std::equal(begun.results.begin(), begun.results.end(), shapes_.begin(), shapes_.end(),
                      [&](const Tensor& result, const tensorflow::PartialTensorShape& shape) {
                        return result.dtype() == dtype && shape.IsCompatibleWith(result.shape());
                      });
  }

  std::vector<tensorflow::PartialTensorShape> shapes_;
};

class DropBegunKernel : public OpKernel {
 public:
  explicit DropBegunKernel(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("prefix", &prefix_));
    OP_REQUIRES_OK(context, context->GetAttr("group", &group_));
  }

  void Compute(OpKernelContext*) override {
    const std::string prefix = KeyOf(static_cast<uint64_t>(group_), prefix_);
    for (const std::shared_ptr<Begun>& begun : BegunByTag::Collectives().TakeAll(prefix)) begun->Cancel();
  }

 private:
  std::string prefix_;
  int64_t group_ = 0;
};

REGISTER_OP("KungfuBeginGroupAllReduce")
    .Input("inputs: N * T")
    .Input("step: int64")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("N: int >= 1")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("op: " KUNGFU_REDUCTIONS)
    .Attr("positions: list(int) = []")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Begins a KungfuGroupAllReduce, and does not wait for it: the KungfuEndGroupAllReduce of this tag does.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuBeginGroupAllReduce", BeginGroupAllReduceKernel,
                             .HostMemory("inputs").HostMemory("step"));

REGISTER_OP("KungfuBeginGroupNeighborAllReduce")
    .Input("inputs: N * T")
    .KUNGFU_MIXING.Attr("T: {half, bfloat16, float, double, complex64, complex128}")
    .Attr("N: int >= 1")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("positions: list(int) = []")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* context) {
      int num_tensors = 0;
      KUNGFU_RETURN_IF_ERROR(context->GetAttr("N", &num_tensors));
      return MixingInputs::CheckShapes(context, num_tensors);
    })
    .Doc("Begins a KungfuGroupNeighborAllReduce, as KungfuBeginGroupAllReduce begins its operation.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuBeginGroupNeighborAllReduce", BeginGroupNeighborAllReduceKernel,
                             .HostMemory("inputs").KUNGFU_MIXING_ON_HOST);

REGISTER_OP("KungfuEndGroupAllReduce")
    .Output("outputs: N * T")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("N: int >= 1")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .Attr("shapes: list(shape)")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* context) {
      std::vector<tensorflow::PartialTensorShape> shapes;
      KUNGFU_RETURN_IF_ERROR(context->GetAttr("shapes", &shapes));
      for (int i = 0; i < context->num_outputs(); ++i) {
        tensorflow::shape_inference::ShapeHandle shape;
        KUNGFU_RETURN_IF_ERROR(context->MakeShapeFromPartialTensorShape(shapes[i], &shape));
        context->set_output(i, shape);
      }
      return absl::OkStatus();
    })
    .Doc("The results of what was begun under this tag. Waits until they are here.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuEndGroupAllReduce", EndGroupAllReduceKernel, .HostMemory("outputs"));

REGISTER_OP("KungfuDropBegun")
    .Attr("prefix: string")
    .Attr(KUNGFU_GROUP)
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Cancels what was begun, has not ended, and has a tag that begins with `prefix`.");
KUNGFU_REGISTER_KERNEL("KungfuDropBegun", DropBegunKernel, );

}  // namespace
}  // namespace kungfu::kernels
