// From the C API's types to the core's, and back.

#pragma once

#include <cstdint>

#include "ops/base/status.h"
#include "ops/c_api/kungfu.h"

namespace kungfu {

// The core has bytes for them: a value that does not fit is unknown to it, and must not become a known one.
template <typename Value>
Value FromNumber(int32_t number) {
  constexpr int32_t kNone = 255;
  return static_cast<Value>(number >= 0 && number < kNone ? number : kNone);
}

// Tells `done` of the end.
inline StatusCallback Telling(kungfu_done done, void* arg) {
  return [done, arg](const Status& status) { done(arg, static_cast<int>(status.code()), status.message().c_str()); };
}

}  // namespace kungfu
