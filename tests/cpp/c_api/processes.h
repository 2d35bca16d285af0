// Runs parts of a test in processes of their own: there is one peer per process, and it starts once.

#pragma once

#include <functional>
#include <map>
#include <string>

namespace kungfu::testing {

// Codes of kungfu_done.
inline constexpr int kOk = 0, kCancelled = 1, kInvalidArgument = 3, kNotFound = 5, kFailedPrecondition = 9,
                     kAborted = 10, kUnavailable = 14;

using Environment = std::map<std::string, std::string>;

// Runs `body` in a new process with these variables; what fails there fails the test.
void InProcess(const Environment& environment, const std::function<void()>& body);
// The same, in one process for each rank of a session on this host.
void InPeers(int size, const std::function<void(int rank)>& body);
// The same, and kills rank `victim` when `when` returns, which runs here. What becomes of it is no failure.
void InPeersOneKilled(int size, const std::function<void(int rank)>& body, int victim,
                      const std::function<void()>& when);

}  // namespace kungfu::testing
