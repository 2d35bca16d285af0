#include "ops/tensorflow/kernel_util.h"

#include <utility>

#include "absl/strings/str_cat.h"

#ifndef KUNGFU_OPS_BUILD
#error "kungfu_tf/_build.py defines KUNGFU_OPS_BUILD"
#endif

// Tells which TensorFlow this library was built for. kungfu_tf reads it out of the file before it loads the file.
extern "C" KUNGFU_EXPORT const char kungfu_ops_build[];
const char kungfu_ops_build[] = "kungfu_ops_build:" KUNGFU_OPS_BUILD ";";

namespace kungfu::kernels {
namespace {

// The position of `name` among the reductions, in the order of kungfu_reduce_op.
absl::Status ParseReduceOp(const std::string& name, int* op) {
  static constexpr const char* kNames[] = {"sum", "mean", "min", "max", "prod"};
  for (int i = 0; i < 5; ++i) {
    if (name == kNames[i]) {
      *op = i;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown reduction '", name, "'"));
}

// For so long at most a TensorFlow thread does the core's work, if each peer has a core, and while messages come. The
// executor gives such an op to an idle thread; to continue elsewhere another thread would have to be woken twice. The
// other threads do the rest of the step.
constexpr double kLongestHelp = 20e-3;

// The error with which an operation of this thread is ending. Operations cancelled meanwhile are cancelled because of
// it.
thread_local const absl::Status* failing = nullptr;

// The call whose Start runs on this thread. TensorFlow may run what follows within done(), where other calls start.
// Those end when the core comes to it: if each told of its end within its Start, a long chain of them would fill the
// stack.
thread_local const Call* starting = nullptr;

// So that every peer gets the cause, whichever of the step's operations it hears of first.
void Stop(uint64_t operation) {
  if (failing == nullptr) return kungfu_cancel(operation, 0, "");
  kungfu_cancel(operation, static_cast<int>(failing->code()), std::string(failing->message()).c_str());
}

// Whoever has lost all others goes on through the core's thread.
bool IsAndStaysAlone() { return kungfu_size() == 1 && kungfu_elastic() == 0 && kungfu_membership_version() == 0; }

}  // namespace

absl::Status ToStatus(int code, const char* message) {
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

int32_t ToDType(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_UINT8:
      return KUNGFU_UINT8;
    case tensorflow::DT_UINT16:
      return KUNGFU_UINT16;
    case tensorflow::DT_UINT32:
      return KUNGFU_UINT32;
    case tensorflow::DT_UINT64:
      return KUNGFU_UINT64;
    case tensorflow::DT_INT8:
      return KUNGFU_INT8;
    case tensorflow::DT_INT16:
      return KUNGFU_INT16;
    case tensorflow::DT_INT32:
      return KUNGFU_INT32;
    case tensorflow::DT_INT64:
      return KUNGFU_INT64;
    case tensorflow::DT_HALF:
      return KUNGFU_FLOAT16;
    case tensorflow::DT_BFLOAT16:
      return KUNGFU_BFLOAT16;
    case tensorflow::DT_FLOAT:
      return KUNGFU_FLOAT32;
    case tensorflow::DT_DOUBLE:
      return KUNGFU_FLOAT64;
    case tensorflow::DT_COMPLEX64:
      return KUNGFU_COMPLEX64;
    case tensorflow::DT_COMPLEX128:
      return KUNGFU_COMPLEX128;
    case tensorflow::DT_BOOL:
      return KUNGFU_BOOL;
    default:
      return -1;
  }
}

int64_t RowSize(const TensorShape& shape) {
  int64_t size = 1;
  for (int i = 1; i < shape.dims(); ++i) size *= shape.dim_size(i);
  return size;
}

int64_t RowCount(const TensorShape& shape) { return shape.dims() == 0 ? 1 : shape.dim_size(0); }

TensorShape WithRows(int64_t rows, const TensorShape& shape) {
  TensorShape result({rows});
  for (int i = 1; i < shape.dims(); ++i) result.AddDim(shape.dim_size(i));
  return result;
}

tensorflow::shape_inference::ShapeHandle AnyRows(InferenceContext* context) {
  const auto input = context->input(0);
  if (!context->RankKnown(input)) return context->UnknownShape();
  std::vector<tensorflow::shape_inference::DimensionHandle> dims = {context->UnknownDim()};
  for (int i = 1; i < context->Rank(input); ++i) dims.push_back(context->Dim(input, i));
  return context->MakeShape(dims);
}

void Digest::AddShape(const TensorShape& shape) {
  Add(shape.dims());
  for (int i = 0; i < shape.dims(); ++i) Add(shape.dim_size(i));
}

void Digest::AddRowShape(const TensorShape& shape) {
  Add(shape.dims());
  for (int i = 1; i < shape.dims(); ++i) Add(shape.dim_size(i));
}

void Digest::AddVector(const Tensor& int64_vector) {
  const auto values = int64_vector.flat<int64_t>();
  Add(values.size());
  for (int64_t i = 0; i < values.size(); ++i) Add(values(i));
}

void Call::Start(const std::function<uint64_t(void* arg)>& start) {
  const std::shared_ptr<Call> self = shared_from_this();
  if (auto* manager = context_->cancellation_manager()) {
    token_ = manager->get_cancellation_token();
    if (!manager->RegisterCallback(token_, [self] { self->Cancel(); })) {
      return Complete(absl::CancelledError("the step was cancelled before the operation began"));
    }
  }
  struct Job {
    Call* call;
    const std::function<uint64_t(void* arg)>& start;
  } job{this, start};
  const bool is_first = starting == nullptr;
  if (is_first) starting = this;
  kungfu_help([](void* arg) { static_cast<Job*>(arg)->call->Begin(static_cast<Job*>(arg)->start); },
              [](void* arg) { return static_cast<Job*>(arg)->call->complete_.load(std::memory_order_acquire) ? 1 : 0; },
              &job, kLongestHelp);
  if (ends_in_start_) TellTensorFlow();
  if (is_first) starting = nullptr;
}

void Call::Begin(const std::function<uint64_t(void* arg)>& start) {
  self_ = shared_from_this();
  const uint64_t operation = start(this);
  bool cancel;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    operation_ = operation;
    started_ = true;
    cancel = cancelled_;
  }
  if (cancel) Stop(operation);
}

void Call::Cancel() {
  uint64_t operation;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    cancelled_ = true;
    if (!started_) return;
    operation = operation_;
  }
  Stop(operation);
}

void Call::OnDone(void* arg, int code, const char* message) {
  const std::shared_ptr<Call> call = std::move(static_cast<Call*>(arg)->self_);
  absl::Status status = call->allocated_;  // says more than that the core got no memory
  status.Update(ToStatus(code, message));
  if (status.ok() && call->finish) status = call->finish();
  // The peers' complaint about the digest of such a call says less than the verdict.
  const bool is_judged = !call->verdict.ok() && (status.ok() || absl::IsInvalidArgument(status));
  if (is_judged) status = call->verdict;
  if (absl::IsInvalidArgument(status) && call->describe) {
    const absl::StatusCode code = is_judged ? status.code() : call->differing;
    status = absl::Status(code, absl::StrCat(status.message(), " (here: ", call->describe(), ")"));
  }
  call->Complete(std::move(status));
}

void* Call::OnAllocate(void* arg, const uint64_t* counts, int size) {
  static char nothing;
  auto* call = static_cast<Call*>(arg);
  void* memory = nullptr;
  call->allocated_ = call->allocate(absl::MakeConstSpan(counts, size), &memory);
  if (!call->allocated_.ok()) return nullptr;
  return memory == nullptr ? &nothing : memory;
}

void Call::Complete(absl::Status status) {
  // Without waiting for a cancellation that runs just now: it may only call kungfu_cancel, which ignores operations
  // that are complete, and it holds this object.
  if (token_ != tensorflow::CancellationManager::kInvalidToken) {
    context_->cancellation_manager()->TryDeregisterCallback(token_);
  }
  if (!status.ok()) context_->SetStatus(status);
  status_ = std::move(status);
  const bool in_start = starting == this;
  if (in_start) ends_in_start_ = true;
  complete_.store(true, std::memory_order_release);
  if (!in_start) TellTensorFlow();
}

// TensorFlow puts what follows into this thread's queue and wakes another thread, which may take it from there. So a
// call that is complete before Start returns tells it then: this thread looks into its queue next, and needs neither
// the other thread nor the core, which that one would ask for while this one still has it.
void Call::TellTensorFlow() {
  const auto done = std::move(done_);
  const absl::Status status = std::move(status_);
  // An error makes TensorFlow cancel the step's other operations before done() returns.
  const absl::Status* const outer = std::exchange(failing, status.ok() ? nullptr : &status);
  done();
  failing = outer;
}

OperationName::OperationName(OpKernelConstruction* context) {
  OP_REQUIRES_OK(context, context->GetAttr("tag", &tag_));
  OP_REQUIRES_OK(context, context->GetAttr("eager_names", &eager_names_));
}

const char* OperationName::Of(OpKernelContext* context) const {
  if (eager_names_ == 0) return tag_.c_str();
  return context->input(NumInputs(context)).scalar<tensorflow::tstring>()().c_str();
}

CollectiveKernel::CollectiveKernel(OpKernelConstruction* context)
    : AsyncOpKernel(context), name_(context), ends_within_call_(IsAndStaysAlone()) {
  if (context->HasAttr("op")) {
    std::string op;
    OP_REQUIRES_OK(context, context->GetAttr("op", &op));
    OP_REQUIRES_OK(context, ParseReduceOp(op, &op_));
  }
  if (context->HasAttr("group")) {
    int64_t group;
    OP_REQUIRES_OK(context, context->GetAttr("group", &group));
    group_ = static_cast<uint64_t>(group);
  }
  if (context->HasAttr("root")) OP_REQUIRES_OK(context, context->GetAttr("root", &root_));
  if (context->HasAttr("differing")) {
    int differing;
    OP_REQUIRES_OK(context, context->GetAttr("differing", &differing));
    differing_ = static_cast<absl::StatusCode>(differing);
  }
}

kungfu_options CollectiveKernel::Options(OpKernelContext* context, tensorflow::DataType dtype, const Digest& digest,
                                         const absl::Status& verdict) const {
  kungfu_options options = {};
  options.name = NameIn(context);
  options.dtype = ToDType(dtype);
  options.op = op_;
  options.root = root_;
  options.group = group_;
  options.shape_digest = verdict.ok() ? digest.value() : ~digest.value();
  return options;
}

}  // namespace kungfu::kernels
