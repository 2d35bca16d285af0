// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), without a library: inside a TensorFlow process a shared OpenSSL
// would be bound to TensorFlow's BoringSSL.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kungfu {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  void Update(const void* data, size_t size);
  // REQUIRES: called once, last.
  Sha256Digest Finish();

 private:
  void Block(const uint8_t* block);

  uint32_t state_[8];
  uint8_t buffer_[64];
  size_t buffered_ = 0;
  uint64_t total_ = 0;
};

Sha256Digest HmacSha256(const std::string& key, const void* data, size_t size);

// Takes the same time wherever the first difference lies.
bool EqualInConstantTime(const Sha256Digest& a, const Sha256Digest& b);

// Bytes from the kernel's generator, for nonces.
void FillRandom(void* out, size_t size);

}  // namespace kungfu
