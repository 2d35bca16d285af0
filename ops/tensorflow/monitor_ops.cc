// The core's measurements as operations of a graph, and the norm from which measurements of gradients are made.

#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/c_api/kungfu_monitor.h"
#include "ops/tensorflow/kernel_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/util/work_sharder.h"

namespace kungfu::kernels {
namespace {

using tensorflow::OpKernel;

absl::Status VectorBySize(InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->Vector(context->UnknownDim()));
  return absl::OkStatus();
}

absl::Status Scalar(InferenceContext* context) {
  context->set_output(0, context->Scalar());
  return absl::OkStatus();
}

// Egress and ingress rates by rank.
class TrafficRatesKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const int size = kungfu_size();
    OP_REQUIRES(context, size >= 0, absl::FailedPreconditionError(kungfu_last_error()));
    std::vector<kungfu_traffic> traffic(size);
    kungfu_get_traffic(traffic.data(), size);
    Tensor *egress = nullptr, *ingress = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({size}), &egress));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({size}), &ingress));
    for (int rank = 0; rank < size; ++rank) {
      egress->vec<float>()(rank) = static_cast<float>(traffic[rank].total.egress_rate);
      ingress->vec<float>()(rank) = static_cast<float>(traffic[rank].total.ingress_rate);
    }
  }
};

class PeerLatenciesKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit PeerLatenciesKernel(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("timeout", &timeout_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    kungfu_ping(timeout_, &Run::OnAllocate, &Run::OnDone, new Run{context, std::move(done), {}});
  }

 private:
  struct Run {
    OpKernelContext* context;
    DoneCallback done;
    std::vector<double> seconds;

    static double* OnAllocate(void* arg, int size) {
      auto* run = static_cast<Run*>(arg);
      run->seconds.resize(size);
      return run->seconds.data();
    }

    static void OnDone(void* arg, int code, const char* message) {
      const std::unique_ptr<Run> run(static_cast<Run*>(arg));
      Tensor* output = nullptr;
      absl::Status status = ToStatus(code, message);
      const auto size = static_cast<int64_t>(run->seconds.size());
      if (status.ok()) status = run->context->allocate_output(0, TensorShape({size}), &output);
      if (!status.ok()) run->context->SetStatus(status);
      for (int64_t rank = 0; status.ok() && rank < size; ++rank) {
        output->vec<float>()(rank) = static_cast<float>(run->seconds[rank]);
      }
      run->done();
    }
  };

  float timeout_ = 0;
};

class CalcStatsKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape(), &output));
    output->scalar<float>()() = static_cast<float>(kungfu_end_window());
  }
};

// The sum is cut into pieces that depend only on the shapes, not on the threads: the bits are the same on all peers.
class SquaredNormKernel : public OpKernel {
 public:
  explicit SquaredNormKernel(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &type_));
  }

  void Compute(OpKernelContext* context) override {
    struct Piece {
      const char* data;
      int64_t count;
    };
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape(), &output));
    double* const norm = &output->scalar<double>()();
    const Tensor& wanted = context->input(0);
    OP_REQUIRES(context, tensorflow::TensorShapeUtils::IsScalar(wanted.shape()),
                absl::InvalidArgumentError("whether it is wanted is a scalar"));
    *norm = std::numeric_limits<double>::quiet_NaN();
    if (!wanted.scalar<bool>()()) return;

    std::vector<Piece> pieces;
    const int64_t bytes = tensorflow::DataTypeSize(type_);
    for (int i = 1; i < context->num_inputs(); ++i) {
      const Tensor& input = context->input(i);
      const char* const data = static_cast<const char*>(input.data());
      for (int64_t begin = 0; begin < input.NumElements(); begin += kPiece) {
        pieces.push_back({data + begin * bytes, std::min(kPiece, input.NumElements() - begin)});
      }
    }
    std::vector<double> sums(pieces.size());
    const int32_t dtype = ToDType(type_);
    const auto add = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sums[i] = kungfu_squared_norm(pieces[i].data, pieces[i].count, dtype);
    };
    const auto& pool = *context->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(pool.num_threads, pool.workers, static_cast<int64_t>(pieces.size()), kPiece, add);
    *norm = std::accumulate(sums.begin(), sums.end(), 0.0);
  }

 private:
  static constexpr int64_t kPiece = 1 << 16;

  tensorflow::DataType type_;
};

REGISTER_OP("KungfuTrafficRates")
    .Output("egress: float")
    .Output("ingress: float")
    .SetIsStateful()
    .SetShapeFn(VectorBySize)
    .Doc("Bytes per second to and from each peer, over about the last second.");
KUNGFU_REGISTER_KERNEL("KungfuTrafficRates", TrafficRatesKernel, .HostMemory("egress").HostMemory("ingress"));

REGISTER_OP("KungfuPeerLatencies")
    .Output("latencies: float")
    .Attr("timeout: float")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(VectorBySize)
    .Doc("Seconds until each peer has answered; infinity for a peer that has not within `timeout` seconds.");
KUNGFU_REGISTER_KERNEL("KungfuPeerLatencies", PeerLatenciesKernel, .HostMemory("latencies"));

REGISTER_OP("KungfuCalcStats")
    .Output("throughput: float")
    .SetIsStateful()
    .SetShapeFn(Scalar)
    .Doc("Bytes per second of the monitored operations since this was asked last.");
KUNGFU_REGISTER_KERNEL("KungfuCalcStats", CalcStatsKernel, .HostMemory("throughput"));

REGISTER_OP("KungfuSquaredNorm")
    .Input("wanted: bool")
    .Input("inputs: N * T")
    .Output("norm: double")
    .Attr("T: {half, bfloat16, float, double, complex64, complex128}")
    .Attr("N: int >= 1")
    .SetShapeFn(Scalar)
    .Doc("The sum of the squares of all elements, bitwise the same everywhere; NaN if it is not wanted.");
REGISTER_KERNEL_BUILDER(Name("KungfuSquaredNorm").Device(tensorflow::DEVICE_CPU), SquaredNormKernel);

}  // namespace
}  // namespace kungfu::kernels
