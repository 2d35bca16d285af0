// A blob of a store: bytes that do not change any more, with their form.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ops/base/bytes.h"
#include "ops/base/dtype.h"
#include "ops/store/blob_head.h"
#include "ops/transport/wire.h"

namespace kungfu {

// The form of a blob, which must be the same for the peer that saves it and the one that asks for it.
struct BlobForm {
  DType dtype = DType::kUint8;
  uint64_t count = 0;         // elements, of all tensors in it
  uint64_t shape_digest = 0;  // of the tensors' shapes
  std::string shapes;         // the same for messages, "[3, 4]"; may be empty

  uint64_t size() const { return count * SizeOf(dtype); }
  // The form as an asker sends it.
  Signature signature() const;
  bool fits(const Signature& expected) const;
  std::string ToString() const;  // "float32 [3, 4]"
};

struct Blob {
  BlobForm form;
  BlobHead head;
  std::shared_ptr<const char> bytes;

  ConstBytes view() const { return {bytes.get(), form.size()}; }
};
// A send keeps its blob alive, even if the store drops it.
using BlobRef = std::shared_ptr<const Blob>;

}  // namespace kungfu
