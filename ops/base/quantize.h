// Vectors as whole numbers of few bits, with a scale for each block of elements: a quarter or an eighth of the bytes.

#pragma once

#include <cstddef>
#include <cstdint>

namespace kungfu {

// How a vector is cut. A block becomes `elements * bits / 8` bytes, and its scale behind them, a float in this
// machine's order. Whole numbers are in two's complement. Of 4 bits, the lower half of byte j has element j, and the
// upper half element `elements / 2 + j`. Elements that the last block lacks count as 0.
// REQUIRES: elements > 0; bits is 8, or it is 4 and `elements` is even.
struct Blocks {
  size_t elements;
  int bits;

  // The largest whole number; the least one is its negative.
  int Most() const { return (1 << (bits - 1)) - 1; }
  size_t Bytes() const { return elements * bits / 8 + sizeof(float); }
  size_t Count(size_t size) const { return (size + elements - 1) / elements; }
};

// Writes blocks.Count(size) * blocks.Bytes() bytes. With the scale of a block, max |in| * (1 / Most()), element i of
// the vector becomes the whole number
//   floor(in[i] / scale + u), u in [0, 1), at most Most() and at least -Most(),
// so that the mean of what it stands for is in[i]. It is 0 if the scale is. A block with an element that is not finite
// has the scale NaN. All is computed in float.
//
// u follows from the seed and i alone, in whole numbers of 32 bits that wrap: with the lower and the upper half of the
// seed, it is the upper 24 bits of mix(mix(i * 0x9e3779b9 + lower) ^ upper), over 2^24, where mix is the end of
// MurmurHash3.
void Quantize(uint8_t* out, const float* in, size_t size, const Blocks& blocks, uint64_t seed);

// The mean over `parts` of what `rows` blocks of each stand for, rows * blocks.elements numbers. Parts lie one behind
// the other, and are added up in that order. REQUIRES: parts > 0.
void Dequantize(float* out, const uint8_t* in, size_t parts, size_t rows, const Blocks& blocks);

}  // namespace kungfu
