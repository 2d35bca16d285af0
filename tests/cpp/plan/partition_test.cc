#include "ops/plan/partition.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

KF_TEST(EvenPart, SplitsAsNumpyDoes) {
  for (uint64_t total : {0, 1, 2, 3, 7, 8, 9, 10007}) {
    for (int parts : {1, 2, 3, 7, 16}) {
      uint64_t end = 0;
      for (int i = 0; i < parts; ++i) {
        const Range part = EvenPart(total, parts, i);
        EXPECT_EQ(part.begin, end);
        EXPECT_EQ(part.size(), total / parts + (static_cast<uint64_t>(i) < total % parts ? 1 : 0));
        end = part.end;
      }
      EXPECT_EQ(end, total);
    }
  }
}

KF_TEST(EvenPart, DoesNotOverflow) {
  const uint64_t total = ~uint64_t{0};
  EXPECT_EQ(EvenPart(total, 256, 0).begin, 0u);
  EXPECT_EQ(EvenPart(total, 256, 255).end, total);
}

struct Case {
  uint64_t count, element_size;
  int lanes;
  uint64_t min_bytes, max_bytes;
};

std::string Describe(const Case& c) {
  return std::to_string(c.count) + " elements of " + std::to_string(c.element_size) + " bytes over " +
         std::to_string(c.lanes) + " lanes, chunks of " + std::to_string(c.min_bytes) + " to " +
         std::to_string(c.max_bytes) + " bytes";
}

#define EXPECT_OF(c, condition) \
  if (!(condition)) testing::Fail(__FILE__, __LINE__, Describe(c) + ": expected " #condition)

void CheckChunks(const Case& c) {
  const ShortList<Range> chunks = Chunks(c.count, c.element_size, c.lanes, c.min_bytes, c.max_bytes);
  EXPECT_OF(c, !chunks.empty());
  EXPECT_OF(c, chunks[0].begin == 0 && chunks.back().end == c.count);
  uint64_t smallest = ~uint64_t{0}, largest = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const uint64_t bytes = chunks[i].size() * c.element_size;
    smallest = std::min(smallest, bytes);
    largest = std::max(largest, bytes);
    if (i == 0) continue;
    EXPECT_OF(c, chunks[i].begin == chunks[i - 1].end);
    EXPECT_OF(c, chunks[i].begin * c.element_size % 64 == 0);
    EXPECT_OF(c, chunks[i].size() > 0);
  }
  EXPECT_OF(c, largest <= c.max_bytes);
  EXPECT_OF(c, largest - smallest < 128);

  const uint64_t bytes = c.count * c.element_size, number = chunks.size(), lanes = c.lanes;
  if (bytes < c.min_bytes && bytes <= c.max_bytes) EXPECT_OF(c, number == 1);
  // Fewer would not do where chunks are smaller than they should be, nor more where lanes go without.
  if (number > 1 && smallest < c.min_bytes) EXPECT_OF(c, (number - 1) * (c.max_bytes / 64 * 64) < bytes);
  if (number % lanes != 0) {
    const uint64_t balanced = (number / lanes + 1) * lanes;
    EXPECT_OF(c, bytes / 64 / balanced * 64 < std::max<uint64_t>(c.min_bytes, 64));
  }
}

KF_TEST(Chunks, KeepTheirPromises) {
  constexpr uint64_t kMostChunks = 1 << 16;
  for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{15}, uint64_t{16}, uint64_t{17}, uint64_t{1000},
                         uint64_t{10007}, uint64_t{1} << 20, (uint64_t{1} << 20) + 1, (uint64_t{1} << 31) + 7}) {
    for (uint64_t element_size : {1, 2, 4, 8, 16}) {
      for (int lanes : {1, 2, 3, 4, 7, 64}) {
        for (uint64_t min_bytes : {0, 64, 1000, 64 << 10}) {
          for (uint64_t max_bytes : {64, 100, 4096, 1 << 20}) {
            if (count * element_size / max_bytes > kMostChunks) continue;
            CheckChunks({count, element_size, lanes, min_bytes, max_bytes});
          }
        }
      }
    }
  }
}

KF_TEST(Chunks, UsualCases) {
  constexpr uint64_t kMin = 64 << 10, kMax = 1 << 20;
  EXPECT_EQ(Chunks(0, 4, 4, kMin, kMax).size(), 1u);           // a barrier
  EXPECT_EQ(Chunks(1, 4, 4, kMin, kMax).size(), 1u);           // a scalar
  EXPECT_EQ(Chunks(25 << 10, 4, 4, kMin, kMax).size(), 1u);    // 100 KiB: halves would be too small
  EXPECT_EQ(Chunks(64 << 10, 4, 4, kMin, kMax).size(), 4u);    // 256 KiB: one for each lane
  EXPECT_EQ(Chunks(25 << 18, 4, 4, kMin, kMax).size(), 28u);   // 25 MiB: not 25
  EXPECT_EQ(Chunks(1 << 20, 4, 1, kMin, kMax).size(), 4u);     // 4 MiB
  EXPECT_EQ(Chunks(2 << 10, 4, 4, kMin, 4 << 10).size(), 2u);  // the largest chunk is below the least
}

}  // namespace
}  // namespace kungfu
