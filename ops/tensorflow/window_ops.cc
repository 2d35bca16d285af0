// Operations of windows: post into an outbox of this peer, collect from one of another peer.

#include <cstring>
#include <memory>
#include <utility>

#include "ops/tensorflow/blob_util.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernel;

class PostKernel : public OpKernel {
 public:
  explicit PostKernel(OpKernelConstruction* context) : OpKernel(context), name_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("replaces", &replaces_));
  }

  void Compute(OpKernelContext* context) override {
    const int num_tensors = name_.NumInputs(context) - 2;
    const int64_t epoch = context->input(num_tensors).scalar<int64_t>()();
    const double weight = context->input(num_tensors + 1).scalar<double>()();
    Blob blob(name_.Of(context), -1, context->input(0).dtype());
    for (int i = 0; i < num_tensors; ++i) blob.AddSent(context->input(i));
    const int code = kungfu_post(blob.spans(), blob.num_spans(), blob.blob(), epoch, weight, replaces_);
    OP_REQUIRES_OK(context, ToStatus(code, code == 0 ? "" : kungfu_last_error()));
  }

 private:
  const OperationName name_;
  bool replaces_ = false;
};

class CollectKernel : public AsyncOpKernel {
 public:
  explicit CollectKernel(OpKernelConstruction* context) : AsyncOpKernel(context), name_(context), expected_(context) {}

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    Blob blob(name_.Of(context), -1, expected_.dtype);
    const int num_tensors = static_cast<int>(expected_.shapes.size());
    for (int i = 0; i < num_tensors; ++i) {
      Tensor* output = nullptr;
      OP_REQUIRES_OK_ASYNC(context, context->allocate_output(i, expected_.shapes[i], &output), done);
      blob.AddPlace(output);
    }
    Tensor* of_blob[3];
    for (int i = 0; i < 3; ++i) {
      OP_REQUIRES_OK_ASYNC(context, context->allocate_output(num_tensors + i, TensorShape(), &of_blob[i]), done);
    }
    const auto collected = std::make_shared<kungfu_collected>();
    auto call = std::make_shared<Call>(context, std::move(done));
    call->describe = [this] { return expected_.Describe(); };
    call->finish = [context, num_tensors, collected, count = of_blob[0], weight = of_blob[1], replaces = of_blob[2]] {
      count->scalar<int64_t>()() = collected->count;
      weight->scalar<double>()() = collected->weight;
      replaces->scalar<bool>()() = collected->replaces != 0;
      for (int i = 0; i < num_tensors && collected->count == 0; ++i) {
        Tensor* const output = context->mutable_output(i);
        std::memset(output->data(), 0, output->TotalBytes());
      }
      return absl::OkStatus();
    };
    const int source = context->input(0).scalar<int32_t>()();
    const int64_t epoch = context->input(1).scalar<int64_t>()();
    call->Start([&](void* arg) {
      return kungfu_collect(source, blob.spans(), blob.num_spans(), blob.blob(), epoch, collected.get(), &Call::OnDone,
                            arg);
    });
  }

 private:
  const OperationName name_;
  const Expected expected_;
};

REGISTER_OP("KungfuPost")
    .Input("inputs: N * T")
    .Input("epoch: int64")
    .Input("weight: float64")
    .Attr("N: int >= 1")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr("replaces: bool")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext*) { return absl::OkStatus(); })
    .Doc("Adds `inputs` and `weight` to the outbox `tag` of this peer, or replaces what is there.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuPost", PostKernel, .HostMemory("inputs").HostMemory("epoch").HostMemory("weight"));

REGISTER_OP("KungfuCollect")
    .Input("source: int32")
    .Input("epoch: int64")
    .Output("outputs: N * T")
    .Output("count: int64")
    .Output("weight: float64")
    .Output("replaces: bool")
    .Attr("N: int >= 1")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("shapes: list(shape)")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr("timeout: float = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(RequestedShapes)
    .Doc("Takes what rank `source` has posted into its outbox `tag`, and how often; zeros, if nothing.");
KUNGFU_REGISTER_NAMED_KERNEL(
    "KungfuCollect", CollectKernel,
    .HostMemory("source").HostMemory("epoch").HostMemory("outputs").HostMemory("count").HostMemory("weight").HostMemory(
        "replaces"));

}  // namespace
}  // namespace kungfu::kernels
