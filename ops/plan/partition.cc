#include "ops/plan/partition.h"

#include <algorithm>

#include "ops/base/bytes.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

uint64_t DivideUp(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

// Into how many chunks `bytes` are cut, empty tensors included.
uint64_t CountChunks(uint64_t bytes, uint64_t lanes, uint64_t min_bytes, uint64_t max_bytes) {
  const uint64_t whole_lines = bytes / kLine;
  const uint64_t least_lines = std::max<uint64_t>(1, DivideUp(min_bytes, kLine));
  const uint64_t needed = bytes <= max_bytes ? 1 : DivideUp(DivideUp(bytes, kLine), max_bytes / kLine);
  const uint64_t balanced = DivideUp(needed, lanes) * lanes;
  if (whole_lines / balanced >= least_lines) return balanced;
  return std::max(needed, whole_lines / least_lines);
}

}  // namespace

Range EvenPart(uint64_t total, int parts, int index) {
  const uint64_t size = total / parts;
  const uint64_t longer = total % parts;
  const auto begin_of = [&](uint64_t part) { return part * size + std::min(part, longer); };
  return {begin_of(index), begin_of(index + 1)};
}

uint64_t NumChunks(uint64_t count, uint64_t element_size, int lanes, uint64_t min_bytes, uint64_t max_bytes) {
  KF_CHECK(element_size > 0 && kLine % element_size == 0) << element_size;
  KF_CHECK(lanes > 0 && max_bytes >= kLine) << lanes << " lanes, " << max_bytes << " bytes";
  return CountChunks(count * element_size, lanes, min_bytes, max_bytes);
}

ShortList<Range> Chunks(uint64_t count, uint64_t element_size, int lanes, uint64_t min_bytes, uint64_t max_bytes) {
  const int parts = static_cast<int>(NumChunks(count, element_size, lanes, min_bytes, max_bytes));
  const uint64_t bytes = count * element_size;
  const uint64_t elements_per_line = kLine / element_size;
  // Whole lines are dealt evenly. The first chunks are the longer ones, so the last has room for the broken line.
  ShortList<Range> chunks;
  chunks.reserve(parts);
  for (int i = 0; i < parts; ++i) {
    const Range lines = EvenPart(bytes / kLine, parts, i);
    chunks.push_back({lines.begin * elements_per_line, lines.end * elements_per_line});
  }
  chunks.back().end = count;
  return chunks;
}

}  // namespace kungfu
