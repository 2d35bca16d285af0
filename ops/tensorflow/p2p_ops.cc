// Operations of the store: save, request; and of queues: put, get.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/tensorflow/blob_util.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernel;

class SaveKernel : public OpKernel {
 public:
  explicit SaveKernel(OpKernelConstruction* context) : OpKernel(context), name_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
  }

  void Compute(OpKernelContext* context) override {
    const int num_tensors = name_.NumInputs(context) - 1;
    Blob blob(name_.Of(context), context->input(num_tensors).scalar<int64_t>()(), context->input(0).dtype());
    for (int i = 0; i < num_tensors; ++i) blob.AddSent(context->input(i));
    Tensor* saved = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape(), &saved));
    const int code = kungfu_save(blob.spans(), blob.num_spans(), blob.blob(), keep_, &saved->scalar<int64_t>()());
    OP_REQUIRES_OK(context, ToStatus(code, code == 0 ? "" : kungfu_last_error()));
  }

 private:
  const OperationName name_;
  int keep_ = 0;
};

class RequestKernel : public AsyncOpKernel {
 public:
  explicit RequestKernel(OpKernelConstruction* context) : AsyncOpKernel(context), name_(context), expected_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("wait", &wait_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    Blob blob(name_.Of(context), context->input(1).scalar<int64_t>()(), expected_.dtype);
    for (size_t i = 0; i < expected_.shapes.size(); ++i) {
      Tensor* output = nullptr;
      OP_REQUIRES_OK_ASYNC(context, context->allocate_output(static_cast<int>(i), expected_.shapes[i], &output), done);
      blob.AddPlace(output);
    }
    Tensor* saved = nullptr;
    const int last = context->num_outputs() - 1;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(last, TensorShape(), &saved), done);
    auto call = std::make_shared<Call>(context, std::move(done));
    call->describe = [this] { return expected_.Describe(); };
    const int target = context->input(0).scalar<int32_t>()();
    call->Start([&](void* arg) {
      return kungfu_request(target, blob.spans(), blob.num_spans(), blob.blob(), wait_, expected_.timeout,
                            &saved->scalar<int64_t>()(), &Call::OnDone, arg);
    });
  }

 private:
  const OperationName name_;
  const Expected expected_;
  bool wait_ = true;
};

// The two ends of a queue.
absl::Status CheckEnd(const std::string& tag, int end, const char* what) {
  const int rank = kungfu_rank();
  if (rank < 0) return absl::FailedPreconditionError(kungfu_last_error());
  if (rank == end) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " '", tag, "' is the affair of rank ", end, ", not of rank ", rank));
}

class PutKernel : public AsyncOpKernel {
 public:
  explicit PutKernel(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("tag", &tag_));
    OP_REQUIRES_OK(context, context->GetAttr("source", &source_));
    OP_REQUIRES_OK(context, context->GetAttr("capacity", &capacity_));
    OP_REQUIRES_OK(context, context->GetAttr("timeout", &timeout_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    OP_REQUIRES_OK_ASYNC(context, CheckEnd(tag_, source_, "putting into queue"), done);
    Blob blob(tag_, -1, context->input(0).dtype());
    blob.AddSent(context->input(0));
    auto call = std::make_shared<Call>(context, std::move(done));
    call->Start([&](void* arg) {
      return kungfu_put(blob.spans(), blob.num_spans(), blob.blob(), capacity_, timeout_, &Call::OnDone, arg);
    });
  }

 private:
  std::string tag_;
  int source_ = 0, capacity_ = 1;
  float timeout_ = 0;
};

class GetKernel : public AsyncOpKernel {
 public:
  explicit GetKernel(OpKernelConstruction* context) : AsyncOpKernel(context), expected_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("source", &source_));
    OP_REQUIRES_OK(context, context->GetAttr("target", &target_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    OP_REQUIRES_OK_ASYNC(context, CheckEnd(expected_.tag, target_, "getting from queue"), done);
    Blob blob(expected_.tag, -1, expected_.dtype);
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, expected_.shapes[0], &output), done);
    blob.AddPlace(output);
    auto call = std::make_shared<Call>(context, std::move(done));
    call->describe = [this] { return expected_.Describe(); };
    call->Start([&](void* arg) {
      return kungfu_get(source_, blob.spans(), blob.num_spans(), blob.blob(), expected_.timeout, &Call::OnDone, arg);
    });
  }

 private:
  const Expected expected_;
  int source_ = 0, target_ = 0;
};

REGISTER_OP("KungfuSave")
    .Input("inputs: N * T")
    .Input("version: int64")
    .Output("saved: int64")
    .Attr("N: int >= 1")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr("keep: int = 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return absl::OkStatus();
    })
    .Doc("Keeps a copy of `inputs`, as one blob, under `tag`, and returns its version.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuSave", SaveKernel, .HostMemory("inputs").HostMemory("version").HostMemory("saved"));

REGISTER_OP("KungfuRequest")
    .Input("target: int32")
    .Input("version: int64")
    .Output("outputs: N * T")
    .Output("saved: int64")
    .Attr("N: int >= 1")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("shapes: list(shape)")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr("wait: bool = true")
    .Attr("timeout: float = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(RequestedShapes)
    .Doc("What rank `target` keeps under `tag`, and its version.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuRequest", RequestKernel,
                             .HostMemory("target").HostMemory("version").HostMemory("outputs").HostMemory("saved"));

REGISTER_OP("KungfuPut")
    .Input("input: T")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("tag: string")
    .Attr("source: int")
    .Attr("capacity: int")
    .Attr("timeout: float = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext*) { return absl::OkStatus(); })
    .Doc("Puts `input` into the queue `tag`, when there is room.");
KUNGFU_REGISTER_KERNEL("KungfuPut", PutKernel, .HostMemory("input"));

REGISTER_OP("KungfuGet")
    .Output("output: T")
    .Attr("T: " KUNGFU_TYPES)
    .Attr("shapes: list(shape)")
    .Attr("tag: string")
    .Attr("source: int")
    .Attr("target: int")
    .Attr("timeout: float = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(RequestedShapes)
    .Doc("Takes the next tensor out of the queue `tag` of rank `source`.");
KUNGFU_REGISTER_KERNEL("KungfuGet", GetKernel, .HostMemory("output"));

}  // namespace
}  // namespace kungfu::kernels
