// Requests that run beside the step: begun in one step, taken in a later one.

#include <memory>
#include <string>

#include "ops/tensorflow/begun.h"
#include "ops/tensorflow/blob_util.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernel;

class PrefetchKernel : public OpKernel {
 public:
  explicit PrefetchKernel(OpKernelConstruction* context) : OpKernel(context), expected_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("wait", &wait_));
  }

  void Compute(OpKernelContext* context) override {
    auto prefetch = std::make_shared<Begun>();
    prefetch->results.resize(expected_.shapes.size());
    Blob blob(expected_.tag, context->input(1).scalar<int64_t>()(), expected_.dtype);
    tensorflow::AllocatorAttributes on_host;
    on_host.set_on_host(true);
    for (size_t i = 0; i < expected_.shapes.size(); ++i) {
      Tensor* tensor = &prefetch->results[i];
      OP_REQUIRES_OK(context, context->allocate_temp(expected_.dtype, expected_.shapes[i], tensor, on_host));
      blob.AddPlace(tensor);
    }
    if (!BegunByTag::Requests().Add(expected_.tag, prefetch)) return;
    const int target = context->input(0).scalar<int32_t>()();
    prefetch->SetOperation(kungfu_request(target, blob.spans(), blob.num_spans(), blob.blob(), wait_, expected_.timeout,
                                          &prefetch->version, &Begun::OnDone, Begun::ArgumentOf(prefetch)));
  }

 private:
  const Expected expected_;
  bool wait_ = true;
};

class PrefetchedKernel : public AsyncOpKernel {
 public:
  explicit PrefetchedKernel(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("tag", &tag_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    Tensor* saved = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(context->num_outputs() - 1, TensorShape(), &saved), done);
    int64_t* const version = &saved->scalar<int64_t>()();
    const std::shared_ptr<Begun> prefetch = BegunByTag::Requests().Take(tag_);
    if (!prefetch) {
      *version = -1;
      KeepInputs(context);
      return done();
    }
    Begun::AwaitIn(context, prefetch, [=](const absl::Status& status) {
      *version = status.ok() ? prefetch->version : -1;
      if (status.ok() && !Fits(*context, *prefetch)) {
        context->SetStatus(absl::InvalidArgumentError(tag_ + ": other tensors were asked for than are wanted here"));
      } else if (status.ok()) {
        for (int i = 0; i < context->num_inputs(); ++i) context->set_output(i, prefetch->results[i]);
      } else if (absl::IsNotFound(status)) {
        KeepInputs(context);
      } else {
        context->SetStatus(status);
      }
      done();
    });
  }

 private:
  static bool Fits(OpKernelContext& context, const Begun& prefetch) {
    if (static_cast<int>(prefetch.results.size()) != context.num_inputs()) return false;
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor &wanted = context.input(i), &came = prefetch.results[i];
      if (came.dtype() != wanted.dtype() || came.shape() != wanted.shape()) return false;
    }
    return true;
  }

  static void KeepInputs(OpKernelContext* context) {
    for (int i = 0; i < context->num_inputs(); ++i) context->set_output(i, context->input(i));
  }

  std::string tag_;
};

class ForgetKernel : public OpKernel {
 public:
  explicit ForgetKernel(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("prefix", &prefix_));
  }

  void Compute(OpKernelContext* context) override {
    for (const std::shared_ptr<Begun>& prefetch : BegunByTag::Requests().TakeAll(prefix_)) prefetch->Cancel();
    const int code = kungfu_forget(prefix_.c_str());
    OP_REQUIRES_OK(context, ToStatus(code, code == 0 ? "" : kungfu_last_error()));
  }

 private:
  std::string prefix_;
};

REGISTER_OP("KungfuPrefetch")
    .Input("target: int32")
    .Input("version: int64")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("shapes: list(shape)")
    .Attr("tag: string")
    .Attr("wait: bool = true")
    .Attr("timeout: float = 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext*) { return absl::OkStatus(); })
    .Doc("Begins a KungfuRequest, unless one of this tag is under way, and does not wait for it.");
KUNGFU_REGISTER_KERNEL("KungfuPrefetch", PrefetchKernel, .HostMemory("target").HostMemory("version"));

REGISTER_OP("KungfuPrefetched")
    .Input("otherwise: N * T")
    .Output("outputs: N * T")
    .Output("saved: int64")
    .Attr("N: int >= 1")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("tag: string")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* context) {
      for (int i = 0; i < context->num_inputs(); ++i) context->set_output(i, context->input(i));
      context->set_output(context->num_inputs(), context->Scalar());
      return absl::OkStatus();
    })
    .Doc(
        "What the KungfuPrefetch of this tag has brought; `otherwise` and -1 if there was none, or nothing was there.");
KUNGFU_REGISTER_KERNEL("KungfuPrefetched", PrefetchedKernel,
                       .HostMemory("otherwise").HostMemory("outputs").HostMemory("saved"));

REGISTER_OP("KungfuForget")
    .Attr("prefix: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext*) { return absl::OkStatus(); })
    .Doc("Drops what this peer keeps, and each KungfuPrefetch, under names that begin with `prefix`.");
KUNGFU_REGISTER_KERNEL("KungfuForget", ForgetKernel, );

}  // namespace
}  // namespace kungfu::kernels
