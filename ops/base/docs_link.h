// Errors lead to what a user can do about them: docs/reference/messages.md.

#pragma once

#include <string>

namespace kungfu {

// The message, with the row of that page which says what to do: "… (kungfu_tf docs: messages#peer-left)". A message
// that has a link keeps it: what is told around it says less about the cause.
std::string Linked(const char* anchor, const std::string& message);

}  // namespace kungfu
