// The cores that this process may use.

#pragma once

#include <string>

namespace kungfu {

// How many it can keep busy: those that it may run on, or fewer if its container has a quota.
int CoresOfThisProcess();

// That quota, rounded up, of cgroups of either version; 0: none. `own` says in which cgroups a process is, `mounted`
// where these are. kungfu_tf/launcher/placing/quota.py has the same for the launcher, which shares cores out.
int QuotaOfCores(const std::string& own, const std::string& mounted);

// For a thread of a pool that has one core: woken by another one there, it waits until that one rests. The one that has
// handed out work is about to look for some itself; without this the system may give its core to the other one, which
// takes the work, while the first one looks on in vain. Later calls of a thread do nothing.
void KeepCoreForWaker();

}  // namespace kungfu
