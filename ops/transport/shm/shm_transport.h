// The transport between peers of one host: they meet over Unix sockets, and their frames go through shared memory.

#pragma once

#include <memory>
#include <string>

#include "ops/transport/event_loop.h"
#include "ops/transport/handshake.h"
#include "ops/transport/socket/search.h"
#include "ops/transport/transport.h"

namespace kungfu {

// The peer with port p listens on `<directory>/p.shm`, where `directory` is as for UnixFamily. If no memory can be
// shared with a peer, frames go over the socket, with one warning; if `required`, that is an error. `elsewhere`: as of
// StreamTransport.
std::unique_ptr<Transport> MakeShmTransport(EventLoop* loop, const std::string& directory, AddressFamilies elsewhere,
                                            const Credentials& credentials, bool required);

}  // namespace kungfu
