#include "ops/tensorflow/blob_util.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kungfu::kernels {

using tensorflow::PartialTensorShape;

Blob::Blob(const std::string& name, int64_t version, tensorflow::DataType dtype) {
  name_ = name;
  blob_.version = version;
  blob_.dtype = ToDType(dtype);
}

const kungfu_blob* Blob::blob() {
  constexpr size_t kShown = 8;
  const size_t shown = std::min(kShown, shapes_.size());
  text_ = absl::StrJoin(shapes_.begin(), shapes_.begin() + shown, ", ");
  if (shown < shapes_.size()) absl::StrAppend(&text_, " and ", shapes_.size() - shown, " more");
  digest_.Add(static_cast<int64_t>(shapes_.size()));
  blob_.name = name_.c_str();
  blob_.shapes = text_.c_str();
  blob_.shape_digest = digest_.value();
  return &blob_;
}

void Blob::Add(const kungfu_span& span, const TensorShape& shape) {
  spans_.push_back(span);
  digest_.AddShape(shape);
  shapes_.push_back(shape.DebugString());
}

Expected::Expected(OpKernelConstruction* context) {
  std::vector<PartialTensorShape> partial;
  OP_REQUIRES_OK(context, context->GetAttr("tag", &tag));
  OP_REQUIRES_OK(context, context->GetAttr("T", &dtype));
  OP_REQUIRES_OK(context, context->GetAttr("timeout", &timeout));
  OP_REQUIRES_OK(context, context->GetAttr("shapes", &partial));
  shapes.resize(partial.size());
  for (size_t i = 0; i < partial.size(); ++i) {
    OP_REQUIRES(context, partial[i].AsTensorShape(&shapes[i]),
                absl::InvalidArgumentError(absl::StrCat("no whole shape to receive: ", partial[i].DebugString())));
  }
}

std::string Expected::Describe() const {
  return absl::StrCat(tensorflow::DataTypeString(dtype), " ",
                      absl::StrJoin(shapes, ", ", [](std::string* text, const TensorShape& shape) {
                        absl::StrAppend(text, shape.DebugString());
                      }));
}

absl::Status RequestedShapes(InferenceContext* context) {
  std::vector<PartialTensorShape> shapes;
  KUNGFU_RETURN_IF_ERROR(context->GetAttr("shapes", &shapes));
  for (int i = 0; i < context->num_outputs(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape = context->Scalar();
    if (i < static_cast<int>(shapes.size())) {
      KUNGFU_RETURN_IF_ERROR(context->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    }
    context->set_output(i, shape);
  }
  return absl::OkStatus();
}

}  // namespace kungfu::kernels
