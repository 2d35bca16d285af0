#include "ops/base/float16.h"

#include "ops/base/instructions.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace kungfu {
namespace {

#if defined(__x86_64__)

bool HasVectors() { return UsedInstructions() != Instructions::kBaseline; }

constexpr size_t kLanes = 8;

// Both convert as many elements as fill whole vectors, and say how many.
__attribute__((target("f16c"))) size_t WidenVectors(const Float16* in, float* out, size_t count) {
  const size_t whole = count - count % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(bits));
  }
  return whole;
}

__attribute__((target("f16c"))) size_t NarrowVectors(const float* in, Float16* out, size_t count) {
  const size_t whole = count - count % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bits);
  }
  return whole;
}

// Older vectors cannot put halves of elements together.
__attribute__((target("avx2"))) void NarrowInVectors(const float* in, BFloat16* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = Narrow<BFloat16>(in[i]);
}

#elif defined(__aarch64__)

constexpr bool HasVectors() { return true; }
constexpr size_t kLanes = 4;

size_t WidenVectors(const Float16* in, float* out, size_t count) {
  const size_t whole = count - count % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&in[i].bits))));
  }
  return whole;
}

size_t NarrowVectors(const float* in, Float16* out, size_t count) {
  const size_t whole = count - count % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    vst1_u16(&out[i].bits, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(in + i))));
  }
  return whole;
}

#else

constexpr bool HasVectors() { return false; }
size_t WidenVectors(const Float16*, float*, size_t) { return 0; }
size_t NarrowVectors(const float*, Float16*, size_t) { return 0; }

#endif

}  // namespace

void Widen(const Float16* in, float* out, size_t count) {
  for (size_t i = HasVectors() ? WidenVectors(in, out, count) : 0; i < count; ++i) out[i] = Widen(in[i]);
}

void Narrow(const float* in, Float16* out, size_t count) {
  for (size_t i = HasVectors() ? NarrowVectors(in, out, count) : 0; i < count; ++i) out[i] = Narrow<Float16>(in[i]);
}

void Narrow(const float* in, BFloat16* out, size_t count) {
#if defined(__x86_64__)
  if (HasVectors()) return NarrowInVectors(in, out, count);
#endif
  for (size_t i = 0; i < count; ++i) out[i] = Narrow<BFloat16>(in[i]);
}

}  // namespace kungfu
