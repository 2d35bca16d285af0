#include "ops/base/quantize.h"

#include "ops/c_api/kungfu.h"

namespace {

kungfu::Blocks BlocksOf(const kungfu_blocks* blocks) { return {blocks->elements, blocks->bits}; }

}  // namespace

uint64_t kungfu_block_bytes(const kungfu_blocks* blocks) {
  const bool is_known = blocks->bits == 8 || (blocks->bits == 4 && blocks->elements % 2 == 0);
  return is_known && blocks->elements > 0 ? BlocksOf(blocks).Bytes() : 0;
}

void kungfu_quantize(void* out, const float* in, uint64_t size, const kungfu_blocks* blocks, uint64_t seed) {
  kungfu::Quantize(static_cast<uint8_t*>(out), in, size, BlocksOf(blocks), seed);
}

void kungfu_dequantize(float* out, const void* in, uint64_t parts, uint64_t rows, const kungfu_blocks* blocks) {
  kungfu::Dequantize(out, static_cast<const uint8_t*>(in), parts, rows, BlocksOf(blocks));
}
