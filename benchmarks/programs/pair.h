// Two processes of one program.

#pragma once

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

// As fork(); the child does not outlive its parent.
inline pid_t ForkPair() {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) _exit(1);
  return child;
}
