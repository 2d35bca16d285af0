#include "ops/transport/wire.h"

#include <vector>

#include "ops/base/logging.h"
#include "ops/transport/little_endian.h"

namespace kungfu {
namespace {

// The places of a header's fields.
//
//   0 type:u8  kind:u8  dtype:u8  op:u8  epoch:u32   8 number:u64    16 part:u32  root:i32   24 count:u64
//  32 shape_digest:u64   40 step:u64   48 bulk_size:u64   56 payload_size:u64
//  64 name_size:u16  code:u16  zero:u32
constexpr size_t kType = 0, kKind = 1, kDType = 2, kOp = 3, kEpoch = 4, kNumber = 8, kPart = 16, kRoot = 20,
                 kCount = 24, kShapeDigest = 32, kStep = 40, kBulkSize = 48, kPayloadSize = 56, kNameSize = 64,
                 kCode = 66, kZero = 68;
static_assert(kZero + sizeof(uint32_t) == kHeaderSize);

struct FrameRule {
  const char* name;
  uint64_t max_payload;
};

// By FrameType; 0 is none.
constexpr FrameRule kFrameRules[] = {
    {"", 0},
    {"data", kMaxEagerSize},
    {"announce", 0},
    {"grant", 0},
    {"bulk", kMaxBulkSize},
    {"credit", 0},
    {"fail", kMaxTextSize},
    {"ask", kMaxEagerSize},
    {"answer", kMaxTextSize},
    {"bye", 0},
    {"pull", 0},
    {"anew", 0},
};
constexpr uint8_t kNumFrameTypes = sizeof(kFrameRules) / sizeof(kFrameRules[0]);
static_assert(kNumFrameTypes == static_cast<uint8_t>(FrameType::kAnew) + 1);

struct KindRule {
  const char* name;
  bool reduces;
  const char* root;  // how a sentence names it; null where there is none
};

// By Kind.
constexpr KindRule kKindRules[kNumKinds] = {
    {"all_reduce", true, nullptr},
    {"broadcast", false, "from"},
    {"reduce", true, "to"},
    {"gather", false, "to"},
    {"all_gather", false, nullptr},
    {"reduce_scatter", true, nullptr},
    {"all_to_all", false, nullptr},
    {"barrier", false, nullptr},
    {"consensus", false, nullptr},
    {"neighbor_all_reduce", false, nullptr},
    {"neighbor_all_gather", false, nullptr},
};

std::string Elements(const Signature& signature) {
  return std::to_string(signature.count) + " " + Name(signature.dtype);
}

Status Unknown(const char* what, unsigned value) {
  return InvalidArgumentError("malformed frame: " + std::string(what) + " " + std::to_string(value) + " is unknown");
}

Status TooLong(const char* frame, const char* what, uint64_t size, uint64_t limit) {
  return InvalidArgumentError("malformed frame: " + std::string(what) + " of " + std::to_string(size) + " bytes in a " +
                              frame + " frame (at most " + std::to_string(limit) + ")");
}

}  // namespace

bool IsOfNeighbors(Kind kind) { return kind == Kind::kNeighborAllReduce || kind == Kind::kNeighborAllGather; }

const char* Name(Kind kind) {
  const auto index = static_cast<uint8_t>(kind);
  return index < kNumKinds ? kKindRules[index].name : "unknown kind";
}

std::string Describe(const Signature& signature) {
  std::string text = Name(signature.kind);
  const auto index = static_cast<uint8_t>(signature.kind);
  if (signature.kind == Kind::kBarrier || index >= kNumKinds) return text;
  const KindRule& rule = kKindRules[index];
  if (rule.reduces) text += std::string(" ") + Name(signature.op);
  const bool same_length = rule.reduces || signature.kind == Kind::kBroadcast || signature.count > 0;
  text += " of " + (same_length ? Elements(signature) : std::string(Name(signature.dtype)));
  if (rule.root != nullptr) text += std::string(" ") + rule.root + " rank " + std::to_string(signature.root);
  return text;
}

std::string DescribeDifference(const Signature& theirs, const Signature& ours) {
  const auto both = [](const std::string& one, const std::string& other) { return one + " and " + other; };
  if (theirs.kind != ours.kind) return both(Describe(theirs), Describe(ours));
  std::vector<std::string> parts;
  if (theirs.dtype != ours.dtype || theirs.count != ours.count) parts.push_back(both(Elements(theirs), Elements(ours)));
  if (theirs.op != ours.op) parts.push_back(both(Name(theirs.op), Name(ours.op)));
  if (theirs.root != ours.root) {
    parts.push_back(both("root " + std::to_string(theirs.root), "root " + std::to_string(ours.root)));
  }
  if (theirs.step != ours.step) {
    parts.push_back(both("step " + std::to_string(theirs.step), "step " + std::to_string(ours.step)));
  }
  // Other counts mean other shapes: no need to say it twice.
  if (theirs.shape_digest != ours.shape_digest && theirs.count == ours.count) {
    parts.push_back(theirs.kind == Kind::kBarrier ? "what is to follow it"
                    : IsOfNeighbors(theirs.kind)  ? "the topology or its step, the shapes or the number of tensors"
                                                  : "the shapes, the number of tensors or the options");
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

void EncodeHeader(const FrameHeader& header, std::string* bytes) {
  KF_CHECK(header.tag.name.size() <= kMaxNameSize) << "a name of " << header.tag.name.size() << " bytes";
  bytes->resize(kHeaderSize);
  char* out = bytes->data();
  out[kType] = static_cast<char>(header.type);
  out[kKind] = static_cast<char>(header.signature.kind);
  out[kDType] = static_cast<char>(header.signature.dtype);
  out[kOp] = static_cast<char>(header.signature.op);
  PutLittleEndian(out + kEpoch, header.tag.epoch);
  PutLittleEndian(out + kNumber, header.tag.number);
  PutLittleEndian(out + kPart, header.tag.part);
  PutLittleEndian(out + kRoot, header.signature.root);
  PutLittleEndian(out + kCount, header.signature.count);
  PutLittleEndian(out + kShapeDigest, header.signature.shape_digest);
  PutLittleEndian(out + kStep, header.signature.step);
  PutLittleEndian(out + kBulkSize, header.bulk_size);
  PutLittleEndian(out + kPayloadSize, header.payload_size);
  PutLittleEndian(out + kNameSize, static_cast<uint16_t>(header.tag.name.size()));
  PutLittleEndian(out + kCode, static_cast<uint16_t>(header.code));
  PutLittleEndian(out + kZero, uint32_t{0});
  bytes->append(header.tag.name);
}

std::string EncodeHeader(const FrameHeader& header) {
  std::string bytes;
  EncodeHeader(header, &bytes);
  return bytes;
}

Status DecodeHeader(const char (&bytes)[kHeaderSize], FrameHeader* header, size_t* name_size) {
  const auto type = static_cast<uint8_t>(bytes[kType]);
  const auto kind = static_cast<uint8_t>(bytes[kKind]);
  const auto dtype = static_cast<uint8_t>(bytes[kDType]);
  const auto op = static_cast<uint8_t>(bytes[kOp]);
  const auto code = GetLittleEndian<uint16_t>(bytes + kCode);
  if (type == 0 || type >= kNumFrameTypes) return Unknown("type", type);
  if (kind >= kNumKinds) return Unknown("kind", kind);
  if (dtype >= kNumDTypes) return Unknown("dtype", dtype);
  if (op >= kNumReduceOps) return Unknown("operation", op);
  if (code > static_cast<uint16_t>(Code::kUnavailable)) return Unknown("code", code);
  const auto zero = GetLittleEndian<uint32_t>(bytes + kZero);
  if (zero != 0) return Unknown("extension", zero);

  const FrameRule& rule = kFrameRules[type];
  header->type = static_cast<FrameType>(type);
  header->code = static_cast<Code>(code);
  if (header->type == FrameType::kFail && header->code == Code::kOk) {
    return InvalidArgumentError("malformed frame: a failure without an error code");
  }
  header->payload_size = GetLittleEndian<uint64_t>(bytes + kPayloadSize);
  if (header->payload_size > rule.max_payload) {
    return TooLong(rule.name, "payload", header->payload_size, rule.max_payload);
  }
  header->bulk_size = GetLittleEndian<uint64_t>(bytes + kBulkSize);
  if (header->bulk_size > kMaxBulkSize) return TooLong(rule.name, "bulk", header->bulk_size, kMaxBulkSize);
  *name_size = GetLittleEndian<uint16_t>(bytes + kNameSize);
  if (*name_size > kMaxNameSize) return TooLong(rule.name, "name", *name_size, kMaxNameSize);

  header->tag.epoch = GetLittleEndian<uint32_t>(bytes + kEpoch);
  header->tag.number = GetLittleEndian<uint64_t>(bytes + kNumber);
  header->tag.part = GetLittleEndian<uint32_t>(bytes + kPart);
  header->tag.name.clear();
  header->signature.kind = static_cast<Kind>(kind);
  header->signature.dtype = static_cast<DType>(dtype);
  header->signature.op = static_cast<ReduceOp>(op);
  header->signature.root = GetLittleEndian<int32_t>(bytes + kRoot);
  header->signature.count = GetLittleEndian<uint64_t>(bytes + kCount);
  header->signature.shape_digest = GetLittleEndian<uint64_t>(bytes + kShapeDigest);
  header->signature.step = GetLittleEndian<uint64_t>(bytes + kStep);
  return OkStatus();
}

}  // namespace kungfu
