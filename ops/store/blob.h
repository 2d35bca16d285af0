// What a store keeps: bytes that do not change any more, with what they are.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ops/base/bytes.h"
#include "ops/base/dtype.h"
#include "ops/transport/wire.h"

namespace kungfu {

// What must be the same where a blob is saved and where it is asked for.
struct BlobForm {
  DType dtype = DType::kUint8;
  uint64_t count = 0;         // elements, of all tensors in it
  uint64_t shape_digest = 0;  // of the tensors' shapes
  std::string shapes;         // the same for messages, "[3, 4]"; may be empty

  uint64_t size() const { return count * SizeOf(dtype); }
  // What an asker says of it on the wire.
  Signature signature() const;
  bool fits(const Signature& expected) const;
  std::string ToString() const;  // "float32 [3, 4]"
};

struct Blob {
  BlobForm form;
  uint64_t version = 0;
  std::shared_ptr<const char> bytes;

  ConstBytes view() const { return {bytes.get(), form.size()}; }
};
// Who sends a blob holds on to it, whatever becomes of it in the store.
using BlobRef = std::shared_ptr<const Blob>;

}  // namespace kungfu
