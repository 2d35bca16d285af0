// The cores that this process may use.

#pragma once

#include <string>

namespace kungfu {

// How many it can keep busy: those that it may run on, or fewer if its container has a quota.
int CoresOfThisProcess();

// That quota, rounded up, of cgroups of either version; 0: none. `own` says in which cgroups a process is, `mounted`
// where these are. kungfu_tf/launcher/placing/quota.py has the same for the launcher, which shares cores out.
int QuotaOfCores(const std::string& own, const std::string& mounted);

// For a thread of a pool that has one core: gives it the policy SCHED_BATCH. Who wakes it keeps the core then, until it
// rests. It has handed out work, and is about to look for some itself; without this the system may give the core and
// the work to the thread that was woken, while the first one looks on in vain. The main thread, and a thread with a
// policy of its own, stay as they are. Later calls of a thread do nothing.
void KeepCoreForWaker();

}  // namespace kungfu
