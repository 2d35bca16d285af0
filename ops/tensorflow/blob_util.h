// Tensors as blobs of the core's store: sent and expected ones.

#pragma once

#include <string>
#include <vector>

#include "ops/tensorflow/kernel_util.h"

namespace kungfu::kernels {

// The tensors that are one blob, as the core wants them.
class Blob {
 public:
  Blob(const std::string& name, int64_t version, tensorflow::DataType dtype);

  void AddSent(const Tensor& tensor) { Add({tensor.data(), nullptr, Count(tensor)}, tensor.shape()); }
  void AddPlace(Tensor* tensor) { Add({nullptr, tensor->data(), Count(*tensor)}, tensor->shape()); }

  // Both valid as long as this object, after all was added.
  const kungfu_blob* blob();
  const kungfu_span* spans() const { return spans_.data(); }
  int num_spans() const { return static_cast<int>(spans_.size()); }

 private:
  static uint64_t Count(const Tensor& tensor) { return static_cast<uint64_t>(tensor.NumElements()); }

  void Add(const kungfu_span& span, const TensorShape& shape);

  kungfu_blob blob_ = {};
  std::string name_, text_;
  Digest digest_;
  std::vector<kungfu_span> spans_;
  std::vector<std::string> shapes_;
};

// The attributes of received tensors: `tag`, `T`, `shapes`, `timeout`.
struct Expected {
  explicit Expected(OpKernelConstruction* context);

  // "float32 [2,3], [5]"
  std::string Describe() const;

  std::string tag;
  tensorflow::DataType dtype;
  float timeout;
  std::vector<TensorShape> shapes;
};

// For shape functions: outputs of the attribute `shapes`, and scalars behind them.
absl::Status RequestedShapes(InferenceContext* context);

}  // namespace kungfu::kernels
