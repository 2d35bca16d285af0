// The contract of a transport: it makes authenticated connections between peers and moves frames over them, whole
// and in order. It does not know the meaning of frames.
//
// Threads: everything here is called on the event loop's thread, and calls its handlers there. No handler is called
// inside the call that registered it, or that caused it: what takes longer completes, and connections close, from the
// loop.

#pragma once

#include <functional>
#include <memory>

#include "ops/base/bytes.h"
#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/plan/peer_id.h"
#include "ops/transport/wire.h"

namespace kungfu {

// Takes the payload of one frame, in order, in as many pieces as the transport has. Owned by the handler; must live
// until OnFrameEnd or OnClosed.
class Sink {
 public:
  // Views that are lent begin at a multiple of this offset within the payload, and at a multiple of this address.
  static constexpr size_t kGranule = 16;

  virtual ~Sink() = default;
  // Returns a place of at most `max` bytes, into which the transport reads the next bytes directly before it calls
  // Commit. If the place is empty, the transport lends views of the bytes where they lie, through Consume. The place is
  // used before the loop runs anything else, or not at all: Reserve is called again until bytes come; a sink that has
  // lost interest may answer with another place. The kind of answer stays the same for a payload whose sink needs the
  // granule.
  virtual MutableBytes Reserve(size_t max) = 0;
  virtual void Commit(size_t size) = 0;
  // A view that is valid during the call. All but the payload's last are multiples of kGranule long.
  virtual void Consume(ConstBytes view) = 0;
};

class Connection;

class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  // A header has arrived. `*sink` says where its payload goes; it is set only if payload_size > 0. An error costs
  // the sender the connection (OnClosed follows).
  virtual Status OnFrameOnLoop(Connection* connection, const FrameHeader& header, Sink** sink) = 0;
  // The payload of that frame has arrived whole. Also called, at once, for frames without payload.
  virtual void OnFrameEndOnLoop(Connection* connection, const FrameHeader& header) = 0;
  // The last call: the connection is over, why says how. The other side said kBye or we closed: kCancelled. It is
  // gone: kUnavailable. It broke the protocol: kInvalidArgument. Callbacks of pending sends have been called before.
  virtual void OnClosedOnLoop(Connection* connection, const Status& why) = 0;
};

// An authenticated connection to one peer. Destroying it closes it at once, and makes no calls.
class Connection {
 public:
  virtual ~Connection() = default;

  // Queues a frame behind those queued before; never blocks. Returns null if the system has taken all of it. Otherwise
  // the memory of `payload` must stay until the system has, or until the error that closes the connection. The callback
  // that is told of it may be put into the returned place, before anything else is done.
  // REQUIRES: header.payload_size is the size of `payload`.
  virtual StatusCallback* SendOnLoop(const FrameHeader& header, Payload payload) = 0;
  // Sends kBye behind the queue, and closes when the other side has read it or `deadline` has passed. OnClosed follows
  // with kCancelled.
  virtual void CloseOnLoop(Deadline deadline) = 0;
  // Breaks it off without a kBye: the other side sees a connection that is gone. OnClosed follows with `why`.
  virtual void BreakOnLoop(const Status& why) = 0;

  virtual const PeerId& remote() const = 0;
  virtual const char* transport_name() const = 0;
  // The bytes that the system has taken from us and given to us, headers included.
  virtual uint64_t bytes_sent() const = 0;
  virtual uint64_t bytes_received() const = 0;
};

// Takes over a connection that another peer has opened, and returns the handler of its frames. Or hears that there can
// be none with that peer (kInvalidArgument): it is one of ours, and was told other things than we.
using AcceptCallback = std::function<ConnectionHandler*(StatusOr<std::unique_ptr<Connection>>, const PeerId& remote)>;
// A connection, or why there is none; it stays silent until its handler is set by the returned value, as above.
using ConnectCallback = std::function<ConnectionHandler*(StatusOr<std::unique_ptr<Connection>>)>;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const char* name() const = 0;  // "tcp", "unix", "shm"
  // Starts to accept. Errors name the address.
  virtual Status ListenOnLoop(AcceptCallback accept) = 0;
  // Tries until it succeeds or `deadline` passes: a peer that does not listen yet is waited for. A peer that refuses
  // our credentials is an error at once (kPermissionDenied), and so is one that was told other things
  // (kInvalidArgument).
  virtual void ConnectOnLoop(const PeerId& remote, Deadline deadline, ConnectCallback done) = 0;
  // Stops listening and abandons handshakes; their callbacks are called with kCancelled. Connections handed over
  // live on.
  virtual void CloseOnLoop() = 0;
};

}  // namespace kungfu
