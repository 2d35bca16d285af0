// The arena of this process, which the default peer shares with the other peers of its host.

#pragma once

#include "ops/memory/arena.h"

namespace kungfu {

// It is made at the first call, from the environment (config.h), which may be before the peer starts. Null if the
// process is the only peer of its host, it is turned off, or the system has no memory for it (the log says why, once).
// Never destroyed: the program's memory may lie in it. Any thread.
Arena* DefaultArena();
// Null, too, if no caller has asked for it yet.
Arena* DefaultArenaIfMade();

}  // namespace kungfu
