// The common part of the kernels of this folder: an operation of the core becomes the work of one AsyncOpKernel.
//
// The kernels know the core by ops/c_api/kungfu.h only. They never block: the core calls back when an operation is
// complete, and its status becomes the status of the op. For a moment they do the core's work themselves: a small
// operation ends so soon that waking another thread for it would take longer.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/c_api/kungfu.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace kungfu::kernels {

// The element types that travel, as the constraint of an op's attribute.
#define KUNGFU_TYPES                                                                                      \
  "{uint8, uint16, uint32, uint64, int8, int16, int32, int64, half, bfloat16, float, double, complex64, " \
  "complex128, bool}"

// The code of the error that differing peers get, as an op's attribute: INVALID_ARGUMENT unless a program expects
// another.
#define KUNGFU_DIFFERING "differing: int = 3"

// The number of the group of peers that runs an op, as its attribute; 0: all do.
#define KUNGFU_GROUP "group: int = 0"

// The name of an op's operation is its attribute `tag`. In eager code it is an input behind the op's own instead, as
// TensorFlow keeps a kernel for each value of an attribute, for good.
#define KUNGFU_EAGER_NAME "eager_name: eager_names * string"
#define KUNGFU_EAGER_NAMES "eager_names: int >= 0 = 0"

// The reductions, as the constraint of an op's attribute, in the order of kungfu_reduce_op.
#define KUNGFU_REDUCTIONS "{'sum', 'mean', 'min', 'max', 'prod'}"

// TensorFlow has one, too, under another name from version to version.
#define KUNGFU_RETURN_IF_ERROR(...)                                    \
  do {                                                                 \
    if (absl::Status error = (__VA_ARGS__); !error.ok()) return error; \
  } while (0)

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

// The error that a code and text of the core stand for.
absl::Status ToStatus(int code, const char* message);

// The core's number of a type out of KUNGFU_TYPES; -1, which the core refuses, for any other.
int32_t ToDType(tensorflow::DataType type);

// The product of the dimensions after the first: the elements of one row. 1 for a scalar, which counts as one row.
int64_t RowSize(const TensorShape& shape);
int64_t RowCount(const TensorShape& shape);
// `rows` rows of the form that `shape` has after its first dimension.
TensorShape WithRows(int64_t rows, const TensorShape& shape);
// For shape functions: any number of rows, of the form that input 0 has.
tensorflow::shape_inference::ShapeHandle AnyRows(InferenceContext* context);

// Properties that must agree between peers beyond dtype, count, operation and root, which the core compares itself.
class Digest {
 public:
  void Add(int64_t value) { values_.push_back(value); }
  void AddShape(const TensorShape& shape);
  // The dimensions that must agree where the numbers of rows may differ.
  void AddRowShape(const TensorShape& shape);
  void AddVector(const Tensor& int64_vector);
  uint64_t value() const { return kungfu_digest(values_.data(), values_.size() * sizeof(int64_t)); }

 private:
  std::vector<int64_t> values_;
};

// One operation of the core on behalf of one run of a kernel. It lives until both the core and the step's
// cancellation manager have let go of it.
//
// Fill in the hooks, then Start once. The kernel's `done` is called exactly once, after the first of completion, error
// and cancellation. After Start the context belongs to this object.
class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(OpKernelContext* context, tensorflow::AsyncOpKernel::DoneCallback done)
      : context_(context), done_(std::move(done)) {}

  // Makes the result once the counts of all ranks are known, and points `*memory` at it.
  std::function<absl::Status(absl::Span<const uint64_t> counts, void** memory)> allocate;
  // Runs after success, before `done`.
  std::function<absl::Status()> finish;
  // This peer's input, for the message of an INVALID_ARGUMENT error.
  std::function<std::string()> describe;
  // An argument that only the kernel can judge. Such an operation is started all the same, with a digest that no valid
  // call has (CollectiveKernel::Options). So the other peers learn of it at once, and it ends in this status.
  absl::Status verdict;
  // The code of the error if peers differ, whose own code is INVALID_ARGUMENT.
  absl::StatusCode differing = absl::StatusCode::kInvalidArgument;

  // `start(arg)` hands OnDone, OnAllocate and `arg` to a function of the core, and returns what that returned.
  void Start(const std::function<uint64_t(void* arg)>& start);

  static void OnDone(void* arg, int code, const char* message);
  static void* OnAllocate(void* arg, const uint64_t* counts, int size);

 private:
  void Begin(const std::function<uint64_t(void* arg)>& start);
  void Complete(absl::Status status);
  void TellTensorFlow();
  void Cancel();

  OpKernelContext* const context_;
  tensorflow::AsyncOpKernel::DoneCallback done_;
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
  absl::Status allocated_;
  absl::Status status_;         // once it is complete
  bool ends_in_start_ = false;  // on the thread of Start, which tells TensorFlow
  std::shared_ptr<Call> self_;  // while the core holds `arg`
  std::atomic<bool> complete_{false};

  std::mutex mu_;
  // Guarded by mu_.
  uint64_t operation_ = 0;  // valid if started_
  bool started_ = false;
  bool cancelled_ = false;
};

// The name of a kernel's operation, of an op with KUNGFU_EAGER_NAME.
class OperationName {
 public:
  explicit OperationName(OpKernelConstruction* context);

  // Valid as long as the context.
  const char* Of(OpKernelContext* context) const;
  // How many inputs there are besides it.
  int NumInputs(OpKernelContext* context) const { return context->num_inputs() - eager_names_; }

 private:
  std::string tag_;
  int eager_names_ = 0;
};

// A kernel that runs one operation of the core, with the attributes that all of them have: its name, which is the same
// on every peer, and where the op has them `group`, `op`, `root` and `differing`.
class CollectiveKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit CollectiveKernel(OpKernelConstruction* context);

  // Behind an asynchronous kernel TensorFlow goes on in another of its threads, which it wakes. In a process that is
  // and stays alone each operation ends within its call. So the kernel is synchronous there, and never waits.
  AsyncOpKernel* AsAsync() override { return ends_within_call_ ? nullptr : this; }

 protected:
  const char* NameIn(OpKernelContext* context) const { return name_.Of(context); }
  int NumInputs(OpKernelContext* context) const { return name_.NumInputs(context); }
  uint64_t group() const { return group_; }
  int root() const { return root_; }
  // Of this peer among those that run the op.
  int rank() const { return group_ == 0 ? kungfu_rank() : kungfu_group_rank(group_); }
  int size() const { return group_ == 0 ? kungfu_size() : kungfu_group_size(group_); }
  absl::StatusCode differing() const { return differing_; }

  kungfu_options Options(OpKernelContext* context, tensorflow::DataType dtype, const Digest& digest,
                         const absl::Status& verdict) const;

 private:
  const OperationName name_;
  const bool ends_within_call_;
  uint64_t group_ = 0;
  int op_ = KUNGFU_SUM;
  int root_ = 0;
  absl::StatusCode differing_ = absl::StatusCode::kInvalidArgument;
};

// Registers `kernel` on CPU, and on GPU with everything in host memory: GPU programs reduce through the host.
#define KUNGFU_REGISTER_KERNEL(name, kernel, ...)                               \
  REGISTER_KERNEL_BUILDER(Name(name).Device(::tensorflow::DEVICE_CPU), kernel); \
  REGISTER_KERNEL_BUILDER(Name(name).Device(::tensorflow::DEVICE_GPU) __VA_ARGS__, kernel)
// The same for an op with KUNGFU_EAGER_NAME.
#define KUNGFU_REGISTER_NAMED_KERNEL(name, kernel, ...) \
  KUNGFU_REGISTER_KERNEL(name, kernel, .HostMemory("eager_name") __VA_ARGS__)

}  // namespace kungfu::kernels
