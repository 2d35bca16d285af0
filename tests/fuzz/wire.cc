// Headers: one that is understood is written as it was read.

#include "ops/transport/wire.h"

#include "tests/fuzz/input.h"

namespace kungfu {
namespace {

void Try(fuzz::Input input) {
  char bytes[kHeaderSize] = {};
  const std::string fixed = input.Bytes(kHeaderSize);
  std::memcpy(bytes, fixed.data(), fixed.size());
  FrameHeader header;
  size_t name_size = 0;
  if (!DecodeHeader(bytes, &header, &name_size).ok()) return;
  fuzz::Require(name_size <= kMaxNameSize && header.payload_size <= kMaxBulkSize, "lengths have bounds");
  header.tag.name = input.Bytes(name_size);
  header.tag.name.resize(name_size);
  const std::string written = EncodeHeader(header);
  fuzz::Require(written == std::string(bytes, kHeaderSize) + header.tag.name, "what is read can be written");
}

}  // namespace
}  // namespace kungfu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kungfu::Try({data, size});
  return 0;
}
