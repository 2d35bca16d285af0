// The text of the calling thread's last error.

#pragma once

#include <string>

#include "ops/base/status.h"

namespace kungfu {

std::string& LastError();

// Keeps the text, and returns the code.
inline int SetLastError(const Status& status) {
  std::string& text = LastError();
  if (!status.ok() || !text.empty()) text = status.message();
  return static_cast<int>(status.code());
}

}  // namespace kungfu
