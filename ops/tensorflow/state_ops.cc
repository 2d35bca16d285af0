// Operations about the peers themselves: barrier, consensus, rank, cluster_size, peer_info.

#include "absl/strings/str_cat.h"
#include "ops/tensorflow/kernel_util.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

using tensorflow::OpKernel;

class BarrierKernel : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    auto call = std::make_shared<Call>(context, std::move(done));
    const kungfu_options options = Options(context, tensorflow::DT_UINT8, Digest(), call->verdict);
    call->Start([&](void* arg) { return kungfu_barrier(&options, &Call::OnDone, arg); });
  }
};

class ConsensusKernel : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const Tensor& input = context->input(0);
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, TensorShape(), &output), done);
    auto call = std::make_shared<Call>(context, std::move(done));
    auto equal = std::make_shared<int>(0);
    call->finish = [equal, output] {
      output->scalar<bool>()() = *equal != 0;
      return absl::OkStatus();
    };
    const kungfu_options options = Options(context, input.dtype(), Digest(), call->verdict);
    call->Start([&](void* arg) {
      return kungfu_consensus(input.data(), input.NumElements(), equal.get(), &options, &Call::OnDone, arg);
    });
  }
};

// An op without inputs whose outputs are numbers that the core knows; -1 says that the peer could not start.
template <int (*... kFunctions)(void)>
class NumbersKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    int index = 0;
    for (const int value : {kFunctions()...}) {
      OP_REQUIRES(context, value >= 0, absl::FailedPreconditionError(kungfu_last_error()));
      Tensor* output = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(index++, TensorShape(), &output));
      output->scalar<int32_t>()() = value;
    }
  }
};

using RankKernel = NumbersKernel<&kungfu_rank>;
using ClusterSizeKernel = NumbersKernel<&kungfu_size>;
using AgreedSizeKernel = NumbersKernel<&kungfu_agreed_size>;
using PeerInfoKernel = NumbersKernel<&kungfu_rank, &kungfu_size>;

absl::Status Scalars(InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->Scalar());
  return absl::OkStatus();
}

REGISTER_OP("KungfuBarrier")
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Done when all peers run it.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuBarrier", BarrierKernel, );

REGISTER_OP("KungfuConsensus")
    .Input("input: T")
    .Output("equal: bool")
    .Attr("T: " KUNGFU_TYPES)
    .Input(KUNGFU_EAGER_NAME)
    .Attr(KUNGFU_EAGER_NAMES)
    .Attr("tag: string")
    .Attr(KUNGFU_GROUP)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(Scalars)
    .Doc("Whether the bytes of `input` are the same on all peers.");
KUNGFU_REGISTER_NAMED_KERNEL("KungfuConsensus", ConsensusKernel, .HostMemory("input").HostMemory("equal"));

REGISTER_OP("KungfuRank")
    .Output("rank: int32")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc("This peer's rank, read when the op runs.");
KUNGFU_REGISTER_KERNEL("KungfuRank", RankKernel, .HostMemory("rank"));

REGISTER_OP("KungfuClusterSize")
    .Output("size: int32")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc("The number of peers, read when the op runs.");
KUNGFU_REGISTER_KERNEL("KungfuClusterSize", ClusterSizeKernel, .HostMemory("size"));

REGISTER_OP("KungfuAgreedSize")
    .Output("size: int32")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc("The number of peers on which all have agreed, read when the op runs.");
KUNGFU_REGISTER_KERNEL("KungfuAgreedSize", AgreedSizeKernel, .HostMemory("size"));

REGISTER_OP("KungfuPeerInfo")
    .Output("rank: int32")
    .Output("size: int32")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc("KungfuRank and KungfuClusterSize.");
KUNGFU_REGISTER_KERNEL("KungfuPeerInfo", PeerInfoKernel, .HostMemory("rank").HostMemory("size"));

}  // namespace
}  // namespace kungfu::kernels
