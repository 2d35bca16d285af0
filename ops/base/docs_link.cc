#include "ops/base/docs_link.h"

namespace kungfu {
namespace {

constexpr char kBeforeAnchor[] = " (kungfu_tf docs: messages#";

}  // namespace

std::string Linked(const char* anchor, const std::string& message) {
  return message.find(kBeforeAnchor) == std::string::npos ? message + kBeforeAnchor + anchor + ")" : message;
}

}  // namespace kungfu
