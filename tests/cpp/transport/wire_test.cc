#include "ops/transport/wire.h"

#include <cstring>
#include <random>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

FrameHeader Sample() {
  FrameHeader header;
  header.type = FrameType::kData;
  header.tag = {{7, 0x1122334455667788, "model/dense/kernel"}, 3};
  header.signature = {Kind::kReduce, DType::kBFloat16, ReduceOp::kMax, 5, 12345678901, 0xfedcba9876543210, 42};
  header.code = Code::kAborted;
  header.payload_size = 4096;
  return header;
}

Status Decode(const std::string& bytes, FrameHeader* header, size_t* name_size) {
  char fixed[kHeaderSize];
  std::memcpy(fixed, bytes.data(), kHeaderSize);
  return DecodeHeader(fixed, header, name_size);
}

Status Check(const FrameHeader& header) {
  FrameHeader decoded;
  size_t name_size = 0;
  return Decode(EncodeHeader(header), &decoded, &name_size);
}

// The error of a sample whose byte at `offset` is `value`.
Status CheckWithByte(size_t offset, char value) {
  std::string bytes = EncodeHeader(Sample());
  bytes[offset] = value;
  FrameHeader decoded;
  size_t name_size = 0;
  return Decode(bytes, &decoded, &name_size);
}

KF_TEST(Wire, ReadsWhatItWrites) {
  const FrameHeader sample = Sample();
  const std::string bytes = EncodeHeader(sample);
  EXPECT_EQ(bytes.size(), kHeaderSize + sample.tag.name.size());
  EXPECT_EQ(bytes.substr(kHeaderSize), sample.tag.name);
  FrameHeader decoded;
  size_t name_size = 0;
  EXPECT_OK(Decode(bytes, &decoded, &name_size));
  EXPECT_EQ(name_size, sample.tag.name.size());
  EXPECT_EQ(decoded.type, sample.type);
  EXPECT_EQ(decoded.tag.epoch, sample.tag.epoch);
  EXPECT_EQ(decoded.tag.number, sample.tag.number);
  EXPECT_EQ(decoded.tag.part, sample.tag.part);
  EXPECT_TRUE(decoded.signature == sample.signature);
  EXPECT_EQ(decoded.code, sample.code);
  EXPECT_EQ(decoded.bulk_size, sample.bulk_size);
  EXPECT_EQ(decoded.payload_size, sample.payload_size);
}

// Peers of another build must read the same: the bytes are fixed.
KF_TEST(Wire, HasAFixedLayout) {
  FrameHeader header;
  header.type = FrameType::kAnnounce;
  header.tag = {{0x01020304, 0x05060708090a0b0c, "ab"}, 0x0d0e0f10};
  header.signature = {Kind::kGather, DType::kFloat32, ReduceOp::kMean, -2, 0x1112131415161718, 1, 2};
  header.code = Code::kUnavailable;
  header.bulk_size = 3;
  const char expected[] =
      "\x02\x03\x0a\x01\x04\x03\x02\x01\x0c\x0b\x0a\x09\x08\x07\x06\x05\x10\x0f\x0e\x0d\xfe\xff\xff\xff"
      "\x18\x17\x16\x15\x14\x13\x12\x11\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
      "\x02\0\x0e\0\0\0\0\0"
      "ab";
  EXPECT_TRUE(EncodeHeader(header) == std::string(expected, sizeof(expected) - 1));
}

KF_TEST(Wire, RefusesUnknownValues) {
  EXPECT_CONTAINS(CheckWithByte(0, 0).message(), "type 0 is unknown");
  EXPECT_CONTAINS(CheckWithByte(0, 12).message(), "type 12 is unknown");
  EXPECT_CONTAINS(CheckWithByte(1, kNumKinds).message(), "kind 11 is unknown");
  EXPECT_CONTAINS(CheckWithByte(2, kNumDTypes).message(), "dtype 15 is unknown");
  EXPECT_CONTAINS(CheckWithByte(3, '\xff').message(), "operation 255 is unknown");
  EXPECT_CONTAINS(CheckWithByte(66, 15).message(), "code 15 is unknown");
  EXPECT_CONTAINS(CheckWithByte(71, 1).message(), "extension");
  EXPECT_EQ(CheckWithByte(0, 0).code(), Code::kInvalidArgument);
}

KF_TEST(Wire, RefusesLengthsBeyondItsBounds) {
  struct Case {
    FrameType type;
    uint64_t max_payload;
  };
  const Case cases[] = {{FrameType::kData, kMaxEagerSize},
                        {FrameType::kAnnounce, 0},
                        {FrameType::kGrant, 0},
                        {FrameType::kBulk, kMaxBulkSize},
                        {FrameType::kCredit, 0},
                        {FrameType::kFail, kMaxTextSize},
                        {FrameType::kAsk, kMaxEagerSize},
                        {FrameType::kAnswer, kMaxTextSize},
                        {FrameType::kBye, 0},
                        {FrameType::kPull, 0},
                        {FrameType::kAnew, 0}};
  for (const Case& c : cases) {
    FrameHeader header;
    header.type = c.type;
    header.code = Code::kInternal;
    header.payload_size = c.max_payload;
    EXPECT_OK(Check(header));
    for (const uint64_t size : {c.max_payload + 1, ~uint64_t{0}}) {
      header.payload_size = size;
      EXPECT_EQ(Check(header).code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(Check(header).message(), std::to_string(size) + " bytes");
    }
  }
  FrameHeader announce;
  announce.type = FrameType::kAnnounce;
  announce.bulk_size = kMaxBulkSize;
  EXPECT_OK(Check(announce));
  announce.bulk_size = kMaxBulkSize + 1;
  EXPECT_CONTAINS(Check(announce).message(), "bulk of");

  FrameHeader named;
  named.tag.name = std::string(kMaxNameSize, 'n');
  EXPECT_OK(Check(named));
  EXPECT_OK(CheckWithByte(65, '\x03'));
  EXPECT_CONTAINS(CheckWithByte(65, '\x04').message(), "name of");
}

KF_TEST(Wire, RefusesAFailureWithoutACode) {
  FrameHeader header;
  header.type = FrameType::kFail;
  EXPECT_EQ(Check(header).code(), Code::kInvalidArgument);
}

// Whatever is accepted is within the bounds, and is written again as it was read.
KF_TEST(Wire, SurvivesMutations) {
  std::mt19937_64 random(1);
  int accepted = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string bytes = EncodeHeader(Sample());
    const int changes = 1 + random() % 4;
    for (int i = 0; i < changes; ++i) {
      // Small values hit the bounds more often than random ones.
      bytes[random() % kHeaderSize] = static_cast<char>(random() % 2 == 0 ? random() : random() % 16);
    }
    FrameHeader header;
    size_t name_size = 0;
    const Status status = Decode(bytes, &header, &name_size);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      continue;
    }
    ++accepted;
    EXPECT_LE(name_size, kMaxNameSize);
    EXPECT_LE(header.payload_size, kMaxBulkSize);
    EXPECT_LE(header.bulk_size, kMaxBulkSize);
    EXPECT_FALSE(Describe(header.signature).empty());
    header.tag.name = std::string(name_size, 'x');
    EXPECT_TRUE(EncodeHeader(header).substr(0, kHeaderSize) == bytes.substr(0, kHeaderSize));
  }
  EXPECT_GE(accepted, 500);
}

KF_TEST(Wire, DescribesSignatures) {
  Signature signature;
  signature.dtype = DType::kFloat32;
  signature.count = 12;
  const auto describe = [&](Kind kind) {
    signature.kind = kind;
    return Describe(signature);
  };
  EXPECT_EQ(describe(Kind::kAllReduce), "all_reduce sum of 12 float32");
  EXPECT_EQ(describe(Kind::kReduceScatter), "reduce_scatter sum of 12 float32");
  EXPECT_EQ(describe(Kind::kBarrier), "barrier");
  signature.root = 3;
  EXPECT_EQ(describe(Kind::kBroadcast), "broadcast of 12 float32 from rank 3");
  EXPECT_EQ(describe(Kind::kReduce), "reduce sum of 12 float32 to rank 3");
  signature.count = 0;
  EXPECT_EQ(describe(Kind::kGather), "gather of float32 to rank 3");
  EXPECT_EQ(describe(Kind::kAllGather), "all_gather of float32");
  EXPECT_EQ(describe(Kind::kAllReduce), "all_reduce sum of 0 float32");
  EXPECT_EQ(describe(static_cast<Kind>(77)), "unknown kind");
}

KF_TEST(Wire, DescribesDifferences) {
  Signature ours;
  ours.dtype = DType::kFloat32;
  ours.count = 10;
  Signature theirs = ours;
  EXPECT_EQ(DescribeDifference(theirs, ours), "");
  theirs.count = 12;
  theirs.shape_digest = 1;
  EXPECT_EQ(DescribeDifference(theirs, ours), "12 float32 and 10 float32");
  theirs.op = ReduceOp::kMean;
  EXPECT_EQ(DescribeDifference(theirs, ours), "12 float32 and 10 float32; mean and sum");
  theirs = ours;
  theirs.shape_digest = 1;
  EXPECT_CONTAINS(DescribeDifference(theirs, ours), "shapes");
  theirs = ours;
  theirs.step = 8;
  theirs.root = 1;
  EXPECT_EQ(DescribeDifference(theirs, ours), "root 1 and root 0; step 8 and step 0");
  theirs.kind = Kind::kBroadcast;
  EXPECT_EQ(DescribeDifference(theirs, ours), "broadcast of 10 float32 from rank 1 and all_reduce sum of 10 float32");
}

}  // namespace
}  // namespace kungfu
