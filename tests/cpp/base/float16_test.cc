#include "ops/base/float16.h"

#include <cmath>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/cpp/base/all_instructions.h"
#include "tests/cpp/base/float16_reference.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using testing::Decode16;
using testing::Encode16;
using testing::Format16;
using testing::IsNan16;
using testing::kBFloat16Format;
using testing::kFloat16Format;

constexpr int kAll = 1 << 16;

// Every 16-bit number that is none of the NaNs, the middle to its neighbour, and the floats beside both.
std::vector<float> FloatsAround(const Format16& format) {
  std::vector<float> floats;
  for (int bits = 0; bits < kAll; ++bits) {
    const double value = Decode16(format, bits);
    if (std::isnan(value)) continue;
    const double next = Decode16(format, bits + 1);
    for (const double center : {value, std::isfinite(next) ? (value + next) / 2 : value}) {
      const auto exact = static_cast<float>(center);
      floats.push_back(exact);
      floats.push_back(std::nextafter(exact, std::numeric_limits<float>::infinity()));
      floats.push_back(std::nextafter(exact, -std::numeric_limits<float>::infinity()));
    }
  }
  return floats;
}

template <typename T>
void ExpectWidens(const Format16& format) {
  for (int bits = 0; bits < kAll; ++bits) {
    const float wide = Widen(T{static_cast<uint16_t>(bits)});
    const auto expected = static_cast<float>(Decode16(format, bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide));
    } else {
      EXPECT_EQ(BitsOfFloat(wide), BitsOfFloat(expected));
    }
  }
}

template <typename T>
void ExpectNarrows(const Format16& format) {
  for (float x : FloatsAround(format)) EXPECT_EQ(Narrow<T>(x).bits, Encode16(format, x));
  EXPECT_EQ(Narrow<T>(std::numeric_limits<float>::max()).bits, format.infinity);
  // A NaN whose upper bits are zero must not be cut to infinity.
  for (uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu}) {
    EXPECT_TRUE(IsNan16(format, Narrow<T>(FloatOfBits(bits)).bits));
  }
}

KF_TEST(Float16, Widens) { ExpectWidens<Float16>(kFloat16Format); }
KF_TEST(Float16, Narrows) { ExpectNarrows<Float16>(kFloat16Format); }
KF_TEST(BFloat16, Widens) { ExpectWidens<BFloat16>(kBFloat16Format); }
KF_TEST(BFloat16, Narrows) { ExpectNarrows<BFloat16>(kBFloat16Format); }

// What the processor does to a block is what the arithmetic on bits does to each element: on peers of different make
// the results are equal.
void ExpectBlocksEqualElements() {
  std::vector<Float16> halves(kAll);
  for (int bits = 0; bits < kAll; ++bits) halves[bits].bits = static_cast<uint16_t>(bits);
  std::vector<float> wide(kAll);
  Widen(halves.data(), wide.data(), kAll);
  for (int bits = 0; bits < kAll; ++bits) {
    if (IsNan16(kFloat16Format, bits)) {
      EXPECT_TRUE(std::isnan(wide[bits]));
    } else {
      EXPECT_EQ(BitsOfFloat(wide[bits]), BitsOfFloat(Widen(halves[bits])));
    }
  }

  std::vector<float> floats = FloatsAround(kFloat16Format);
  for (uint32_t bits = 0; bits < 0xffff0000u; bits += 65521) floats.push_back(FloatOfBits(bits));
  std::vector<Float16> narrow(floats.size());
  Narrow(floats.data(), narrow.data(), floats.size());
  for (size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(narrow[i].bits, Narrow<Float16>(floats[i]).bits);
}

KF_TEST(Float16, BlocksEqualElements) { testing::WithAllInstructions(ExpectBlocksEqualElements); }

KF_TEST(BFloat16, BlocksEqualElements) {
  std::vector<float> floats = FloatsAround(kBFloat16Format);
  for (uint32_t bits = 0; bits < 0xffff0000u; bits += 65521) floats.push_back(FloatOfBits(bits));
  testing::WithAllInstructions([&] {
    std::vector<BFloat16> narrow(floats.size() + 1, BFloat16{0xabcd});
    Narrow(floats.data(), narrow.data(), floats.size());
    for (size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(narrow[i].bits, Narrow<BFloat16>(floats[i]).bits);
    EXPECT_EQ(narrow.back().bits, 0xabcd);
  });
}

KF_TEST(Float16, BlocksOfEverySize) {
  for (size_t size = 0; size <= 40; ++size) {
    std::vector<float> floats(size + 1);
    for (size_t i = 0; i <= size; ++i) floats[i] = 1.5f + i;
    std::vector<Float16> narrow(size + 1, Float16{0xabcd});
    Narrow(floats.data(), narrow.data(), size);
    EXPECT_EQ(narrow[size].bits, 0xabcd);
    std::vector<float> wide(size + 1, -1);
    Widen(narrow.data(), wide.data(), size);
    for (size_t i = 0; i < size; ++i) EXPECT_EQ(wide[i], floats[i]);
    EXPECT_EQ(wide[size], -1);
  }
}

// While one lives this thread takes denormals for zeros, and makes zeros of them.
class FlushesDenormals {
 public:
#if defined(__x86_64__)
  FlushesDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushesDenormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  const unsigned before_;
#elif defined(__aarch64__)
  FlushesDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" ::"r"(before_ | kFlushToZero));
  }
  ~FlushesDenormals() { asm volatile("msr fpcr, %0" ::"r"(before_)); }

 private:
  static constexpr uint64_t kFlushToZero = 1 << 24;
  uint64_t before_;
#endif
};

KF_TEST(Float16, FlushingDenormalsChangesNothing) {
  std::vector<float> wide(kAll);
  {
    const FlushesDenormals flushes;
    volatile float denormal = FloatOfBits(1);
    EXPECT_EQ(BitsOfFloat(denormal * 2), 0u);
    for (int bits = 0; bits < kAll; ++bits) wide[bits] = Widen(Float16{static_cast<uint16_t>(bits)});
    ExpectBlocksEqualElements();
  }
  for (int bits = 0; bits < kAll; ++bits) {
    if (IsNan16(kFloat16Format, bits)) continue;
    EXPECT_EQ(BitsOfFloat(wide[bits]), BitsOfFloat(Widen(Float16{static_cast<uint16_t>(bits)})));
  }
}

}  // namespace
}  // namespace kungfu
