// Operations of a graph that change the list of peers.

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/tensorflow/kernel_util.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::TensorShapeUtils;

// Goes over to the newest membership, after a proposal where there is one. It cannot be cancelled: half a change would
// be none.
class Resize {
 public:
  Resize(OpKernelContext* context, AsyncOpKernel::DoneCallback done)
      : context_(context), done_(std::move(done)), before_(kungfu_agreed_version()) {}

  // Rank 0 proposes for all, once. `size` 0: nothing; -1: the number that the config server says.
  static void Start(std::unique_ptr<Resize> resize, int size) {
    Resize* const self = resize.release();
    if (size == -1 && kungfu_rank() == 0 && kungfu_joining() == 0) {
      kungfu_propose_from_url(&Resize::OnProposed, self);
    } else if (size > 0) {
      kungfu_want_size(size, &Resize::OnProposed, self);
    } else {
      kungfu_advance_if_idle(&Resize::OnDone, self);
    }
  }

 private:
  // An error of the proposal waits until all peers have met: no peer waits in vain.
  static void OnProposed(void* arg, int code, const char* message) {
    static_cast<Resize*>(arg)->proposed_ = ToStatus(code, message);
    kungfu_advance_if_idle(&Resize::OnDone, arg);
  }

  static void OnDone(void* arg, int code, const char* message) {
    const std::unique_ptr<Resize> resize(static_cast<Resize*>(arg));
    resize->Finish(ToStatus(code, message));
  }

  void Finish(const absl::Status& advanced) {
    OpKernelContext* const context = context_;
    OP_REQUIRES_OK_ASYNC(context, advanced, done_);
    OP_REQUIRES_OK_ASYNC(context, proposed_, done_);
    Tensor *changed = nullptr, *detached = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, {}, &changed), done_);
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(1, {}, &detached), done_);
    changed->scalar<bool>()() = kungfu_agreed_version() != before_;
    detached->scalar<bool>()() = kungfu_size() == 0;
    done_();
  }

  OpKernelContext* const context_;
  const AsyncOpKernel::DoneCallback done_;
  const int before_;
  absl::Status proposed_;
};

class ResizeKernel : public AsyncOpKernel {
 public:
  explicit ResizeKernel(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("from_url", &from_url_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& size = context->input(0);
    OP_REQUIRES_ASYNC(context, TensorShapeUtils::IsScalar(size.shape()),
                      absl::InvalidArgumentError("the number of peers is a scalar"), done);
    const int wanted = from_url_ ? -1 : size.scalar<int32_t>()();
    OP_REQUIRES_ASYNC(context, from_url_ || wanted >= 0,
                      absl::InvalidArgumentError(absl::StrCat("resize: ", wanted, " peers: a job has at least one")),
                      done);
    Resize::Start(std::make_unique<Resize>(context, std::move(done)), wanted);
  }

 private:
  bool from_url_ = false;
};

REGISTER_OP("KungfuResize")
    .Input("size: int32")
    .Output("changed: bool")
    .Output("detached: bool")
    .Attr("from_url: bool = false")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* context) {
      context->set_output(0, context->Scalar());
      context->set_output(1, context->Scalar());
      return absl::OkStatus();
    })
    .Doc(
        "All peers go over to the newest membership, if there is one. Rank 0 asks for `size` peers, if it is not 0; or "
        "for as many as the config server says.");
KUNGFU_REGISTER_KERNEL("KungfuResize", ResizeKernel, .HostMemory("size").HostMemory("changed").HostMemory("detached"));

}  // namespace
}  // namespace kungfu::kernels
