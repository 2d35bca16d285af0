// What TCP over the loopback gives two processes, without anything around it: one stream between two buffers.
//
//   benchmark_loopback one-way|both-ways REPORT BYTES...
//
// one-way: one process sends, the other receives and says so. both-ways: each sends and receives as much at the same
// time, as in an all-reduce of two. Writes "BYTES SECONDS" to REPORT for each size.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/programs/pair.h"
#include "benchmarks/programs/timing.h"

namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// A connected socket in each of two processes: `*parent` says in which one we are.
int Connect(bool* parent) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  Check(bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(listener, 1) == 0);
  Check(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  *parent = ForkPair() != 0;
  int stream = -1;
  if (*parent) {
    stream = accept(listener, nullptr, nullptr);
  } else {
    stream = socket(AF_INET, SOCK_STREAM, 0);
    Check(connect(stream, reinterpret_cast<sockaddr*>(&address), length) == 0);
  }
  const int one = 1;
  Check(stream >= 0 && setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
  close(listener);
  return stream;
}

// Sends and receives so many bytes, as the socket has room and data.
void Exchange(int stream, const char* out, size_t to_send, char* in, size_t to_receive) {
  while (to_send > 0 || to_receive > 0) {
    pollfd ready{stream, static_cast<short>((to_send > 0 ? POLLOUT : 0) | (to_receive > 0 ? POLLIN : 0)), 0};
    Check(poll(&ready, 1, -1) == 1);
    if ((ready.revents & POLLOUT) != 0) {
      const ssize_t sent = send(stream, out, to_send, MSG_DONTWAIT | MSG_NOSIGNAL);
      Check(sent > 0);
      out += sent;
      to_send -= sent;
    }
    if ((ready.revents & POLLIN) != 0) {
      const ssize_t got = recv(stream, in, to_receive, MSG_DONTWAIT);
      Check(got > 0);
      in += got;
      to_receive -= got;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 1;
  const bool both = std::strcmp(argv[1], "both-ways") == 0;
  bool parent = false;
  const int stream = Connect(&parent);
  std::ofstream report;
  if (parent) report.open(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const size_t bytes = std::stoul(argv[i]);
    std::vector<char> out(bytes, 1), in(bytes);
    const double median = MedianSeconds(
        bytes, [] {},
        [&] {
          const bool sends = both || parent, receives = both || !parent;
          Exchange(stream, out.data(), sends ? bytes : 0, in.data(), receives ? bytes : 0);
          if (!both) Exchange(stream, out.data(), receives ? 1 : 0, in.data(), sends ? 1 : 0);
        });
    if (parent) report << bytes << ' ' << median << '\n';
  }
  if (parent) waitpid(-1, nullptr, 0);
  return 0;
}
