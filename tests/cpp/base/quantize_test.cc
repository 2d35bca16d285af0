#include "ops/base/quantize.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/cpp/base/all_instructions.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

constexpr uint64_t kSeed = 0x0123456789abcdef;

std::vector<float> Numbers(size_t size) {
  std::vector<float> numbers(size);
  for (size_t i = 0; i < size; ++i) numbers[i] = std::sin(static_cast<float>(i * i)) / static_cast<float>(i % 7 + 1);
  return numbers;
}

std::vector<uint8_t> Encoded(const std::vector<float>& in, const Blocks& blocks, uint64_t seed = kSeed) {
  std::vector<uint8_t> out(blocks.Count(in.size()) * blocks.Bytes(), 0xcc);
  Quantize(out.data(), in.data(), in.size(), blocks, seed);
  return out;
}

// `size` numbers of the mean over the parts.
std::vector<float> Decoded(const std::vector<uint8_t>& in, size_t parts, size_t size, const Blocks& blocks) {
  const size_t rows = blocks.Count(size);
  std::vector<float> out(rows * blocks.elements);
  Dequantize(out.data(), in.data(), parts, rows, blocks);
  out.resize(size);
  return out;
}

// The header's definition, as it stands there.
float ExpectedNoise(uint32_t i, uint64_t seed) {
  const auto mix = [](uint32_t x) {
    x ^= x >> 16;
    x *= 0x85ebca6b;
    x ^= x >> 13;
    x *= 0xc2b2ae35;
    x ^= x >> 16;
    return x;
  };
  const uint32_t x = mix(mix(i * 0x9e3779b9 + static_cast<uint32_t>(seed)) ^ static_cast<uint32_t>(seed >> 32));
  return std::ldexp(static_cast<float>(x >> 8), -24);
}

std::vector<float> Expected(const std::vector<float>& in, const Blocks& blocks) {
  std::vector<float> out(in.size());
  const float most = static_cast<float>(blocks.Most());
  for (size_t begin = 0; begin < in.size(); begin += blocks.elements) {
    const size_t end = std::min(begin + blocks.elements, in.size());
    float largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(in[i]));
    const float scale = largest * (1.0f / most);
    for (size_t i = begin; i < end; ++i) {
      const float level = std::floor(in[i] / scale + ExpectedNoise(static_cast<uint32_t>(i), kSeed));
      out[i] = scale > 0 ? std::min(std::max(level, -most), most) * scale : 0;
    }
  }
  return out;
}

const Blocks kBlocks[] = {{256, 8}, {1, 8}, {7, 8}, {33, 8}, {128, 4}, {2, 4}, {30, 4}};

KF_TEST(Quantize, IsTheDefinition) {
  testing::WithAllInstructions([] {
    for (const Blocks& blocks : kBlocks) {
      for (const size_t size : {0, 1, 2, 31, 256, 1000, 1024}) {
        const std::vector<float> numbers = Numbers(size);
        EXPECT_TRUE(Decoded(Encoded(numbers, blocks), 1, size, blocks) == Expected(numbers, blocks));
      }
    }
  });
}

KF_TEST(Quantize, ItsBytes) {
  EXPECT_EQ((Blocks{256, 8}.Bytes()), size_t{260});
  EXPECT_EQ((Blocks{128, 4}.Bytes()), size_t{68});
  // What is a whole number of scales stays, whatever the noise: 7 and -3 of the first half are in the lower bits.
  const std::vector<uint8_t> bytes = Encoded({14, -6, 2, -14}, {4, 4});
  const float scale = 14 * (1.0f / 7);
  float found;
  std::memcpy(&found, bytes.data() + 2, sizeof(found));
  EXPECT_EQ(found, scale);
  EXPECT_EQ(static_cast<int>(bytes[0]), 0x17);
  EXPECT_EQ(static_cast<int>(bytes[1]), 0x9d);
}

KF_TEST(Quantize, IsUnbiased) {
  constexpr int kTimes = 4000;
  const std::vector<float> numbers = {1.0f, 0.3f, -0.7f, 0.01f, -0.001f, 0.0f};
  for (const Blocks& blocks : {Blocks{6, 8}, Blocks{6, 4}}) {
    std::vector<double> sums(numbers.size());
    for (int time = 0; time < kTimes; ++time) {
      const uint64_t seed = static_cast<uint64_t>(time) + (uint64_t{5} << 52);
      const std::vector<float> decoded = Decoded(Encoded(numbers, blocks, seed), 1, numbers.size(), blocks);
      for (size_t i = 0; i < numbers.size(); ++i) sums[i] += decoded[i];
    }
    // A rounding deviates by half a step at most; five times the deviation of the mean of so many.
    const double most = 5 * 0.5 / blocks.Most() / std::sqrt(kTimes);
    for (size_t i = 0; i < numbers.size(); ++i) EXPECT_GE(most, std::abs(sums[i] / kTimes - numbers[i]));
    EXPECT_EQ(sums.back(), 0.0);
  }
}

KF_TEST(Quantize, TheMeanOfParts) {
  for (const Blocks& blocks : {Blocks{16, 8}, Blocks{16, 4}}) {
    const std::vector<float> numbers = Numbers(100);
    std::vector<uint8_t> parts;
    std::vector<float> expected(numbers.size());
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const std::vector<uint8_t> part = Encoded(numbers, blocks, seed);
      parts.insert(parts.end(), part.begin(), part.end());
      const std::vector<float> decoded = Decoded(part, 1, numbers.size(), blocks);
      for (size_t i = 0; i < numbers.size(); ++i) expected[i] += decoded[i];
    }
    for (float& x : expected) x /= 3;
    testing::WithAllInstructions([&] { EXPECT_TRUE(Decoded(parts, 3, numbers.size(), blocks) == expected); });
  }
}

KF_TEST(Quantize, WhatIsNotFiniteMakesItsBlockNan) {
  for (const float value : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> numbers = Numbers(40);
    numbers[9] = value;
    for (const Blocks& blocks : {Blocks{8, 8}, Blocks{8, 4}}) {
      const std::vector<float> decoded = Decoded(Encoded(numbers, blocks), 1, numbers.size(), blocks);
      for (size_t i = 0; i < decoded.size(); ++i) EXPECT_EQ(std::isnan(decoded[i]), i / 8 == 1);
    }
  }
}

KF_TEST(Quantize, SmallestNumbers) {
  const float least = std::numeric_limits<float>::denorm_min();
  for (const Blocks& blocks : {Blocks{4, 8}, Blocks{4, 4}}) {
    EXPECT_TRUE(Decoded(Encoded({least, 0, -least, 0}, blocks), 1, 4, blocks) == std::vector<float>(4));
  }
}

}  // namespace
}  // namespace kungfu
