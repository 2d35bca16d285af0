#include "ops/base/hmac.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

constexpr size_t kBlockSize = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

// The same of the square roots of the first 8 primes.
constexpr uint32_t kInitialState[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

uint32_t RotateRight(uint32_t x, int n) { return x >> n | x << (32 - n); }

uint32_t LoadBigEndian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

template <typename T>
void StoreBigEndian(T value, uint8_t* p) {
  for (size_t i = 0; i < sizeof(T); ++i) p[i] = static_cast<uint8_t>(value >> (8 * (sizeof(T) - 1 - i)));
}

}  // namespace

Sha256::Sha256() { std::copy(std::begin(kInitialState), std::end(kInitialState), state_); }

// FIPS 180-4, section 6.2.2, with its names.
void Sha256::Block(const uint8_t* block) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t) w[t] = LoadBigEndian(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const uint32_t sigma0 = RotateRight(w[t - 15], 7) ^ RotateRight(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t sigma1 = RotateRight(w[t - 2], 17) ^ RotateRight(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int t = 0; t < 64; ++t) {
    const uint32_t sum1 = RotateRight(e, 6) ^ RotateRight(e, 11) ^ RotateRight(e, 25);
    const uint32_t choose = (e & f) ^ (~e & g);
    const uint32_t t1 = h + sum1 + choose + kRoundConstants[t] + w[t];
    const uint32_t sum0 = RotateRight(a, 2) ^ RotateRight(a, 13) ^ RotateRight(a, 22);
    const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t t2 = sum0 + majority;
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[i] += added[i];
}

void Sha256::Update(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  total_ += size;
  while (size > 0) {
    if (buffered_ == 0 && size >= kBlockSize) {
      Block(bytes);
      bytes += kBlockSize;
      size -= kBlockSize;
      continue;
    }
    const size_t taken = std::min(size, kBlockSize - buffered_);
    std::memcpy(buffer_ + buffered_, bytes, taken);
    buffered_ += taken;
    bytes += taken;
    size -= taken;
    if (buffered_ == kBlockSize) {
      Block(buffer_);
      buffered_ = 0;
    }
  }
}

Sha256Digest Sha256::Finish() {
  uint8_t length[8];
  StoreBigEndian(total_ * 8, length);
  // A one bit, zeros until the length fits at the end of a block, the length.
  constexpr uint8_t kPadding[kBlockSize] = {0x80};
  const size_t place_of_length = kBlockSize - sizeof(length);
  Update(kPadding,
         buffered_ < place_of_length ? place_of_length - buffered_ : kBlockSize + place_of_length - buffered_);
  Update(length, sizeof(length));

  Sha256Digest digest;
  for (int i = 0; i < 8; ++i) StoreBigEndian(state_[i], digest.data() + 4 * i);
  return digest;
}

Sha256Digest HmacSha256(const std::string& key, const void* data, size_t size) {
  uint8_t padded_key[kBlockSize] = {};
  if (key.size() <= kBlockSize) {
    std::copy(key.begin(), key.end(), padded_key);
  } else {
    Sha256 hash;
    hash.Update(key.data(), key.size());
    const Sha256Digest digest = hash.Finish();
    std::copy(digest.begin(), digest.end(), padded_key);
  }
  const auto begin_with_key = [&](uint8_t mask) {
    uint8_t block[kBlockSize];
    for (size_t i = 0; i < kBlockSize; ++i) block[i] = padded_key[i] ^ mask;
    Sha256 hash;
    hash.Update(block, sizeof(block));
    return hash;
  };
  Sha256 inner = begin_with_key(0x36);
  inner.Update(data, size);
  const Sha256Digest inner_digest = inner.Finish();
  Sha256 outer = begin_with_key(0x5c);
  outer.Update(inner_digest.data(), inner_digest.size());
  return outer.Finish();
}

bool EqualInConstantTime(const Sha256Digest& a, const Sha256Digest& b) {
  // volatile: or a compiler may leave the loop as soon as the outcome is known.
  volatile uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = difference | (a[i] ^ b[i]);
  return difference == 0;
}

void FillRandom(void* out, size_t size) {
  auto* bytes = static_cast<uint8_t*>(out);
  while (size > 0) {
    const ssize_t n = getrandom(bytes, size, 0);
    KF_CHECK(n > 0 || errno == EINTR) << "getrandom: " << std::strerror(errno);
    if (n <= 0) continue;
    bytes += n;
    size -= n;
  }
}

}  // namespace kungfu
