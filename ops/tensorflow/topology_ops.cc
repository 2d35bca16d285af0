// Along which graphs data travel, as operations of a graph: for all that follows, or for one reduction.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/tensorflow/begun.h"
#include "ops/tensorflow/kernel_util.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::TensorShapeUtils;

// A change of the epoch. It cannot be cancelled: half a change would be none. It waits for collectives that were begun
// before and not taken: the new epoch would end them, on some peers only.
class Change {
 public:
  Change(OpKernelContext* context, AsyncOpKernel::DoneCallback done) : context_(context), done_(std::move(done)) {}

  static void OnDone(void* arg, int code, const char* message) {
    const std::unique_ptr<Change> change(static_cast<Change*>(arg));
    if (code != 0) change->context_->SetStatus(ToStatus(code, message));
    change->done_();
  }

 private:
  OpKernelContext* const context_;
  const AsyncOpKernel::DoneCallback done_;
};

struct SetStrategyKernel : AsyncOpKernel {
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& name = context->input(0);
    OP_REQUIRES_ASYNC(context, TensorShapeUtils::IsScalar(name.shape()),
                      absl::InvalidArgumentError("the name of a strategy is a scalar"), done);
    const std::string text = name.scalar<tensorflow::tstring>()();
    auto* const change = new Change(context, std::move(done));
    BegunByTag::Collectives().WhenEnded([=] { kungfu_begin_epoch(text.c_str(), &Change::OnDone, change); });
  }
};

struct SetTreeKernel : AsyncOpKernel {
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& parents = context->input(0);
    OP_REQUIRES_ASYNC(context, TensorShapeUtils::IsVector(parents.shape()),
                      absl::InvalidArgumentError("a tree is a vector: the parent of each rank"), done);
    auto* const change = new Change(context, std::move(done));
    BegunByTag::Collectives().WhenEnded([=] {
      kungfu_set_tree(parents.vec<int32_t>().data(), static_cast<int>(parents.NumElements()), &Change::OnDone, change);
    });
  }
};

class SubsetAllReduceKernel : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const TensorShape shape = context->input(0).shape();
    const void* const send = context->input(0).data();
    const Tensor& parents = context->input(1);
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->forward_input_or_allocate_output({0}, 0, shape, &output), done);
    Digest digest;
    digest.AddShape(shape);
    for (int64_t i = 0; i < parents.NumElements(); ++i) digest.Add(parents.flat<int32_t>()(i));
    auto call = std::make_shared<Call>(context, std::move(done));
    if (!TensorShapeUtils::IsVector(parents.shape()) || parents.NumElements() == 0) {
      call->verdict = absl::InvalidArgumentError(
          absl::StrCat("subset_all_reduce '", NameIn(context), "': a topology is a vector, the parent of each rank"));
    }
    call->describe = [context, shape] {
      return tensorflow::DataTypeString(context->expected_output_dtype(0)) + " " + shape.DebugString();
    };
    kungfu_options options = Options(context, context->expected_output_dtype(0), digest, call->verdict);
    options.parents = parents.flat<int32_t>().data();
    options.num_parents = static_cast<int32_t>(parents.NumElements());
    const kungfu_span span = {send, output->data(), static_cast<uint64_t>(shape.num_elements())};
    call->Start([&](void* arg) { return kungfu_all_reduce(&span, 1, &options, &Call::OnDone, arg); });
  }
};

REGISTER_OP("KungfuSetStrategy")
    .Input("strategy: string")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("All peers go over to another strategy.");
KUNGFU_REGISTER_KERNEL("KungfuSetStrategy", SetStrategyKernel, .HostMemory("strategy"));

REGISTER_OP("KungfuSetTree")
    .Input("parents: int32")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("All peers go over to one tree, given by the parent of each rank.");
KUNGFU_REGISTER_KERNEL("KungfuSetTree", SetTreeKernel, .HostMemory("parents"));

REGISTER_OP("KungfuSubsetAllReduce")
    .Input("input: T")
    .Input("parents: int32")
    .Output("output: T")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr("op: " KUNGFU_REDUCTIONS)
    .Attr(KUNGFU_GROUP)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The reduction of `input` over the peers of each tree of a forest.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuSubsetAllReduce", SubsetAllReduceKernel,
                             .HostMemory("input").HostMemory("parents").HostMemory("output"));

}  // namespace
}  // namespace kungfu::kernels
