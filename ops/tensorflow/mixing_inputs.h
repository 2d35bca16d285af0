// Whom a peer mixes with, as kernels of neighbours take it: six inputs behind the tensors. They are its own weight, its
// sources and their weights, its targets and theirs, and a number that must be the same on all peers.

#pragma once

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/tensorflow/kernel_util.h"

#define KUNGFU_MIXING                  \
  Input("self_weight: double")         \
      .Input("sources: int32")         \
      .Input("source_weights: double") \
      .Input("targets: int32")         \
      .Input("target_weights: double") \
      .Input("agree: int64")
#define KUNGFU_MIXING_ON_HOST       \
  HostMemory("self_weight")         \
      .HostMemory("sources")        \
      .HostMemory("source_weights") \
      .HostMemory("targets")        \
      .HostMemory("target_weights") \
      .HostMemory("agree")

namespace kungfu::kernels {

// Valid as long as the inputs.
class MixingInputs {
 public:
  // They stand behind `num_tensors` inputs.
  MixingInputs(OpKernelContext* context, int num_tensors) {
    const auto input = [&](int i) -> const Tensor& { return context->input(num_tensors + i); };
    verdict_ = CheckWeights("source", input(1), input(2));
    verdict_.Update(CheckWeights("target", input(3), input(4)));
    agree_ = input(5).scalar<int64_t>()();
    mixing_.self_weight = input(0).scalar<double>()();
    mixing_.sources = input(1).flat<int32_t>().data();
    mixing_.source_weights = input(2).flat<double>().data();
    mixing_.num_sources = static_cast<int32_t>(std::min(input(1).NumElements(), input(2).NumElements()));
    mixing_.targets = input(3).flat<int32_t>().data();
    mixing_.target_weights = input(4).flat<double>().data();
    mixing_.num_targets = static_cast<int32_t>(std::min(input(3).NumElements(), input(4).NumElements()));
  }

  const kungfu_mixing* mixing() const { return &mixing_; }
  int64_t agree() const { return agree_; }
  // An error if there are more weights than ranks, or fewer.
  const absl::Status& verdict() const { return verdict_; }

  // For shape functions.
  static absl::Status CheckShapes(InferenceContext* context, int num_tensors) {
    tensorflow::shape_inference::ShapeHandle part;
    for (int i = 0; i < 6; ++i) {
      const int rank = i == 0 || i == 5 ? 0 : 1;
      KUNGFU_RETURN_IF_ERROR(context->WithRank(context->input(num_tensors + i), rank, &part));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckWeights(const char* what, const Tensor& ranks, const Tensor& weights) {
    if (ranks.NumElements() == weights.NumElements()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(ranks.NumElements(), " ", what, "s with ", weights.NumElements(), " weights"));
  }

  kungfu_mixing mixing_ = {};
  int64_t agree_ = 0;
  absl::Status verdict_;
};

}  // namespace kungfu::kernels
