// Copies of bytes, wherever they lie.

#pragma once

#include <cstddef>

namespace kungfu {

// As memcpy, which takes fourteen times as long on AMD's Zen 3 and 4 with glibc before 2.39 where `to` lies a few bytes
// behind `from` within a page: for 4 to 512 KiB it uses an instruction that is slow then (glibc's bug 30994).
void CopyBytes(char* to, const char* from, size_t size);

// As memcpy, with stores past the caches where the processor has such: the data go to memory, and no other core has to
// give up its copy of a line first. Visible to who sees a later store with release order.
void CopyPastCaches(char* to, const char* from, size_t size);

using CopyFunction = void (*)(char* to, const char* from, size_t size);

}  // namespace kungfu
