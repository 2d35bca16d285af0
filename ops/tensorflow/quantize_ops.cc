// Vectors of floats as rows of bytes: whole numbers of few bits, and a scale for each block of them.

#include "ops/tensorflow/kernel_util.h"
#include "tensorflow/core/framework/op.h"

namespace kungfu::kernels {
namespace {

using tensorflow::OpKernel;

class BlocksKernel : public OpKernel {
 public:
  explicit BlocksKernel(OpKernelConstruction* context) : OpKernel(context) {
    int64_t elements = 0;
    OP_REQUIRES_OK(context, context->GetAttr("block", &elements));
    OP_REQUIRES_OK(context, context->GetAttr("bits", &blocks_.bits));
    blocks_.elements = static_cast<uint64_t>(elements);
    row_bytes_ = static_cast<int64_t>(kungfu_block_bytes(&blocks_));
    OP_REQUIRES(context, row_bytes_ > 0,
                absl::InvalidArgumentError("elements have 8 bits, or 4 in blocks of an even number of them"));
  }

 protected:
  const kungfu_blocks& blocks() const { return blocks_; }
  int64_t elements() const { return static_cast<int64_t>(blocks_.elements); }
  int64_t row_bytes() const { return row_bytes_; }

 private:
  kungfu_blocks blocks_ = {};
  int64_t row_bytes_ = 0;
};

struct QuantizeKernel : BlocksKernel {
  using BlocksKernel::BlocksKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& values = context->input(0);
    const Tensor& seed = context->input(1);
    OP_REQUIRES(context, tensorflow::TensorShapeUtils::IsScalar(seed.shape()),
                absl::InvalidArgumentError("a seed is a scalar"));
    const int64_t size = values.NumElements(), rows = (size + elements() - 1) / elements();
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({rows, row_bytes()}), &output));
    kungfu_quantize(output->data(), values.flat<float>().data(), static_cast<uint64_t>(size), &blocks(),
                    static_cast<uint64_t>(seed.scalar<int64_t>()()));
  }
};

struct DequantizeKernel : BlocksKernel {
  using BlocksKernel::BlocksKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& rows = context->input(0);
    const Tensor& parts = context->input(1);
    OP_REQUIRES(context, tensorflow::TensorShapeUtils::IsMatrix(rows.shape()) && rows.dim_size(1) == row_bytes(),
                absl::InvalidArgumentError("each row has the bytes of a block"));
    OP_REQUIRES(context, tensorflow::TensorShapeUtils::IsScalar(parts.shape()) && parts.scalar<int32_t>()() > 0,
                absl::InvalidArgumentError("the number of parts is a scalar from 1"));
    const int64_t of_part = rows.dim_size(0) / parts.scalar<int32_t>()();
    OP_REQUIRES(context, of_part * parts.scalar<int32_t>()() == rows.dim_size(0),
                absl::InvalidArgumentError("all parts have as many rows"));
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({of_part * elements()}), &output));
    kungfu_dequantize(output->flat<float>().data(), rows.data(), static_cast<uint64_t>(parts.scalar<int32_t>()()),
                      static_cast<uint64_t>(of_part), &blocks());
  }
};

absl::Status RowsShape(InferenceContext* context) {
  context->set_output(0, context->MakeShape({context->UnknownDim(), context->UnknownDim()}));
  return absl::OkStatus();
}

absl::Status VectorShape(InferenceContext* context) {
  context->set_output(0, context->MakeShape({context->UnknownDim()}));
  return absl::OkStatus();
}

REGISTER_OP("KungfuQuantize")
    .Input("values: float")
    .Input("seed: int64")
    .Output("rows: uint8")
    .Attr("block: int >= 1")
    .Attr("bits: int")
    .SetShapeFn(RowsShape)
    .Doc("A row of bytes for each block of the values; rounding is random, unbiased, and follows from the seed.");
REGISTER_KERNEL_BUILDER(Name("KungfuQuantize").Device(tensorflow::DEVICE_CPU), QuantizeKernel);

REGISTER_OP("KungfuDequantize")
    .Input("rows: uint8")
    .Input("parts: int32")
    .Output("values: float")
    .Attr("block: int >= 1")
    .Attr("bits: int")
    .SetShapeFn(VectorShape)
    .Doc("The mean over parts that lie one behind the other, each of as many rows.");
REGISTER_KERNEL_BUILDER(Name("KungfuDequantize").Device(tensorflow::DEVICE_CPU), DequantizeKernel);

}  // namespace
}  // namespace kungfu::kernels
