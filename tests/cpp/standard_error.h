// What this process writes to standard error, where its log goes.

#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace kungfu::testing {

// Runs `body`, and returns what it writes: no more than a pipe holds, 64 KiB. It is written nevertheless if something
// fails meanwhile.
std::string StandardErrorOf(const std::function<void()>& body);
// How often `part` is there.
size_t TimesIn(const std::string& text, const std::string& part);

}  // namespace kungfu::testing
