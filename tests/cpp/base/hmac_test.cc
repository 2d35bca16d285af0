#include "ops/base/hmac.h"

#include <algorithm>
#include <set>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

std::string Hex(const Sha256Digest& digest) {
  std::string text;
  for (uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string Sha256Hex(const std::string& data) {
  Sha256 hash;
  hash.Update(data.data(), data.size());
  return Hex(hash.Finish());
}

std::string HmacHex(const std::string& key, const std::string& data) {
  return Hex(HmacSha256(key, data.data(), data.size()));
}

// FIPS 180-4's examples.
KF_TEST(Sha256, StandardVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                      "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Every length around the padding's edges, in pieces of every size, is the same as in one piece.
KF_TEST(Sha256, PiecesMakeTheWhole) {
  std::string data;
  for (int i = 0; i < 200; ++i) data += static_cast<char>(i * 7);
  for (size_t length = 0; length <= data.size(); ++length) {
    const std::string whole = Sha256Hex(data.substr(0, length));
    for (size_t piece : {1, 3, 63, 64, 65}) {
      Sha256 hash;
      for (size_t begin = 0; begin < length; begin += piece) {
        hash.Update(data.data() + begin, std::min(piece, length - begin));
      }
      EXPECT_EQ(Hex(hash.Finish()), whole);
    }
  }
}

// RFC 4231.
KF_TEST(Hmac, StandardVectors) {
  EXPECT_EQ(HmacHex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HmacHex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(HmacHex(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counting;
  for (char i = 1; i <= 25; ++i) counting += i;
  EXPECT_EQ(HmacHex(counting, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(HmacHex(std::string(20, '\x0c'), "Test With Truncation").substr(0, 32), "a3b6167473100ee06e0c796c2955552b");
  EXPECT_EQ(HmacHex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(HmacHex(std::string(131, '\xaa'),
                    "This is a test using a larger than block-size key and a larger than block-size data. The key "
                    "needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

KF_TEST(Hmac, ComparesEveryByte) {
  const Sha256Digest digest = HmacSha256("key", "data", 4);
  EXPECT_TRUE(EqualInConstantTime(digest, digest));
  for (size_t i = 0; i < digest.size(); ++i) {
    Sha256Digest other = digest;
    other[i] ^= 1;
    EXPECT_FALSE(EqualInConstantTime(digest, other));
  }
}

KF_TEST(Random, FillsAllAndNeverTheSame) {
  std::set<std::string> nonces;
  for (int i = 0; i < 100; ++i) {
    std::string nonce(32, '\0');
    FillRandom(nonce.data(), nonce.size());
    nonces.insert(nonce);
  }
  EXPECT_EQ(nonces.size(), 100u);

  // More than the kernel gives at once: a rest that was forgotten would be zeros.
  std::string large(1 << 20, '\0');
  FillRandom(large.data(), large.size());
  EXPECT_EQ(large.find(std::string(64, '\0')), std::string::npos);
  FillRandom(nullptr, 0);
}

}  // namespace
}  // namespace kungfu
