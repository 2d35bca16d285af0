// Which transport leads to which peer.
//
//   "auto"  shared memory to peers with our host address, or Unix sockets where there can be none; TCP to the others
//   "shm"   shared memory only: every peer must have our host address
//   "unix"  Unix sockets only: as well
//   "tcp"   TCP only

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/base/status.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/handshake.h"
#include "ops/transport/transport.h"

namespace kungfu {

// Owns the transports of a peer. Event loop only, but for Make. Destroying it closes it, and makes no calls.
class TransportSet {
 public:
  // `choice` is one of the above. `socket_dir`: the private directory of this host's Unix sockets, over which peers
  // that share memory meet, too. If it is empty there are no such sockets, and "auto" takes TCP to all peers. Peers of
  // a host that were told to meet at different places (meeting_place.h) hear of it when one of them tries to reach the
  // other, where it can know the other one's place: TCP, or the same directory. `credentials.place` is set here.
  static StatusOr<std::unique_ptr<TransportSet>> Make(EventLoop* loop, Credentials credentials,
                                                      const std::string& choice, const std::string& socket_dir);

  // Listens where `peers` will look for us, and nowhere else: without a peer on another host, "auto" opens no port.
  // It is the same whether we are among them. May be called again, with other peers: it listens where it does not yet.
  Status ListenOnLoop(const std::vector<PeerId>& peers, const AcceptCallback& accept);
  // As in Transport, over the one that leads to `remote`. kInvalidArgument, too: none does.
  void ConnectOnLoop(const PeerId& remote, Deadline deadline, ConnectCallback done);
  void CloseOnLoop();

 private:
  struct Member {
    std::unique_ptr<Transport> transport;  // null: not allowed
    bool listens = false;
  };

  TransportSet(EventLoop* loop, const Credentials& credentials, const std::string& choice)
      : loop_(loop), credentials_(credentials), choice_(choice) {}
  StatusOr<Member*> ToOnLoop(const PeerId& remote);

  EventLoop* const loop_;
  const Credentials credentials_;
  const std::string choice_;
  Member local_, tcp_;
};

}  // namespace kungfu
