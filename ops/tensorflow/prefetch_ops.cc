// Requests that run beside the step: begun in one step, taken in a later one.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "ops/tensorflow/blob_util.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernel;

// A request that was started in one step, for another one that takes what came.
class Prefetch {
 public:
  std::vector<Tensor> tensors;
  int64_t version = -1;

  static void OnDone(void* arg, int code, const char* message) {
    const std::unique_ptr<std::shared_ptr<Prefetch>> self(static_cast<std::shared_ptr<Prefetch>*>(arg));
    (*self)->Finish(ToStatus(code, message));
  }

  void SetOperation(uint64_t operation) {
    const std::lock_guard<std::mutex> lock(mu_);
    operation_ = operation;
  }

  void Cancel() {
    uint64_t operation;
    {
      const std::lock_guard<std::mutex> lock(mu_);
      operation = operation_;
    }
    kungfu_cancel(operation, 0, "");
  }

  // Calls `then` once with how it has ended: now, if it has.
  void Await(std::function<void(const absl::Status&)> then) {
    {
      const std::lock_guard<std::mutex> lock(mu_);
      if (!done_) {
        then_ = std::move(then);
        return;
      }
    }
    then(status_);
  }

 private:
  void Finish(absl::Status status) {
    std::function<void(const absl::Status&)> then;
    {
      const std::lock_guard<std::mutex> lock(mu_);
      status_ = std::move(status);
      done_ = true;
      then = std::move(then_);
    }
    if (then) then(status_);
  }

  std::mutex mu_;
  // Guarded by mu_.
  uint64_t operation_ = 0;
  bool done_ = false;
  std::function<void(const absl::Status&)> then_;
  absl::Status status_;  // does not change once done_
};

// The requests of this process that have not been taken yet, by tag.
class Prefetches {
 public:
  // Never destroyed: the core's thread may still finish one.
  static Prefetches& Global() {
    static auto* global = new Prefetches;
    return *global;
  }

  // Returns false if there is one already.
  bool Add(const std::string& tag, std::shared_ptr<Prefetch> prefetch) {
    const std::lock_guard<std::mutex> lock(mu_);
    return by_tag_.emplace(tag, std::move(prefetch)).second;
  }

  // Null if there is none.
  std::shared_ptr<Prefetch> Take(const std::string& tag) {
    const std::lock_guard<std::mutex> lock(mu_);
    const auto it = by_tag_.find(tag);
    if (it == by_tag_.end()) return nullptr;
    std::shared_ptr<Prefetch> prefetch = std::move(it->second);
    by_tag_.erase(it);
    return prefetch;
  }

  // Takes all whose tags begin so.
  std::vector<std::shared_ptr<Prefetch>> TakeAll(const std::string& prefix) {
    std::vector<std::shared_ptr<Prefetch>> taken;
    const std::lock_guard<std::mutex> lock(mu_);
    for (auto it = by_tag_.lower_bound(prefix); it != by_tag_.end() && absl::StartsWith(it->first, prefix);) {
      taken.push_back(std::move(it->second));
      it = by_tag_.erase(it);
    }
    return taken;
  }

 private:
  std::mutex mu_;
  std::map<std::string, std::shared_ptr<Prefetch>> by_tag_;  // guarded by mu_
};

class PrefetchKernel : public OpKernel {
 public:
  explicit PrefetchKernel(OpKernelConstruction* context) : OpKernel(context), expected_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("wait", &wait_));
  }

  void Compute(OpKernelContext* context) override {
    auto prefetch = std::make_shared<Prefetch>();
    prefetch->tensors.resize(expected_.shapes.size());
    Blob blob(expected_.tag, context->input(1).scalar<int64_t>()(), expected_.dtype);
    tensorflow::AllocatorAttributes on_host;
    on_host.set_on_host(true);
    for (size_t i = 0; i < expected_.shapes.size(); ++i) {
      Tensor* tensor = &prefetch->tensors[i];
      OP_REQUIRES_OK(context, context->allocate_temp(expected_.dtype, expected_.shapes[i], tensor, on_host));
      blob.AddPlace(tensor);
    }
    if (!Prefetches::Global().Add(expected_.tag, prefetch)) return;
    const int target = context->input(0).scalar<int32_t>()();
    prefetch->SetOperation(kungfu_request(target, blob.spans(), blob.num_spans(), blob.blob(), wait_, expected_.timeout,
                                          &prefetch->version, &Prefetch::OnDone,
                                          new std::shared_ptr<Prefetch>(prefetch)));
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
    const std::shared_ptr<Prefetch> prefetch = Prefetches::Global().Take(tag_);
    if (!prefetch) {
      *version = -1;
      KeepInputs(context);
      return done();
    }
    auto* manager = context->cancellation_manager();
    const auto token = manager ? manager->get_cancellation_token() : tensorflow::CancellationManager::kInvalidToken;
    if (manager && !manager->RegisterCallback(token, [prefetch] { prefetch->Cancel(); })) prefetch->Cancel();
    prefetch->Await([=](const absl::Status& status) {
      if (manager) manager->TryDeregisterCallback(token);
      *version = status.ok() ? prefetch->version : -1;
      if (status.ok() && !Fits(*context, *prefetch)) {
        context->SetStatus(absl::InvalidArgumentError(tag_ + ": other tensors were asked for than are wanted here"));
      } else if (status.ok()) {
        for (int i = 0; i < context->num_inputs(); ++i) context->set_output(i, prefetch->tensors[i]);
      } else if (absl::IsNotFound(status)) {
        KeepInputs(context);
      } else {
        context->SetStatus(status);
      }
      done();
    });
  }

 private:
  static bool Fits(OpKernelContext& context, const Prefetch& prefetch) {
    if (static_cast<int>(prefetch.tensors.size()) != context.num_inputs()) return false;
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor &wanted = context.input(i), &came = prefetch.tensors[i];
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
    for (const std::shared_ptr<Prefetch>& prefetch : Prefetches::Global().TakeAll(prefix_)) prefetch->Cancel();
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
