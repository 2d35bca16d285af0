#include "ops/transport/choice/transport_set.h"

#include <cstring>
#include <utility>

#include "ops/base/logging.h"
#include "ops/transport/shm/shm_transport.h"
#include "ops/transport/socket/stream_transport.h"
#include "ops/transport/socket/tcp_family.h"
#include "ops/transport/socket/unix_family.h"

namespace kungfu {
namespace {

MeetingPlace PlaceOf(const std::string& choice, const std::string& socket_dir) {
  if (choice == "shm") return MeetingPlace::kShm;
  if (choice == "unix") return MeetingPlace::kUnix;
  if (choice == "tcp") return MeetingPlace::kTcp;
  return socket_dir.empty() ? MeetingPlace::kAutoTcp : MeetingPlace::kAutoShm;
}

// The known places of peers of our host that look for us at another place.
AddressFamilies Elsewhere(MeetingPlace place, const std::string& socket_dir) {
  AddressFamilies families;
  const auto add = [&](std::unique_ptr<AddressFamily> family) {
    if (std::strcmp(family->name(), TransportAt(place)) != 0) families.push_back(std::move(family));
  };
  if (!socket_dir.empty()) {
    add(std::make_unique<UnixFamily>(socket_dir, "shm"));
    add(std::make_unique<UnixFamily>(socket_dir));
  }
  add(std::make_unique<TcpFamily>());
  return families;
}

}  // namespace

StatusOr<std::unique_ptr<TransportSet>> TransportSet::Make(EventLoop* loop, Credentials credentials,
                                                           const std::string& choice, const std::string& socket_dir) {
  if (choice != "auto" && choice != "shm" && choice != "unix" && choice != "tcp") {
    return InvalidArgumentError("KUNGFU_TRANSPORT is '" + choice + "': it must be auto, shm, unix or tcp");
  }
  if ((choice == "shm" || choice == "unix") && socket_dir.empty()) {
    return InvalidArgumentError("KUNGFU_TRANSPORT is " + choice + ", but KUNGFU_SOCKET_DIR is not set");
  }
  credentials.place = PlaceOf(choice, socket_dir);
  const std::string local = TransportAt(credentials.place);
  AddressFamilies elsewhere = Elsewhere(credentials.place, socket_dir);
  std::unique_ptr<TransportSet> set(new TransportSet(loop, credentials, choice));
  if (local == "unix") {
    set->local_.transport = std::make_unique<StreamTransport>(loop, std::make_unique<UnixFamily>(socket_dir),
                                                              std::move(elsewhere), credentials);
  } else if (local == "shm") {
    set->local_.transport =
        MakeShmTransport(loop, socket_dir, std::move(elsewhere), credentials, /*required=*/choice == "shm");
  }
  if (choice == "auto" || choice == "tcp") {
    AddressFamilies others = local == "tcp" ? std::move(elsewhere) : AddressFamilies();
    set->tcp_.transport =
        std::make_unique<StreamTransport>(loop, std::make_unique<TcpFamily>(), std::move(others), credentials);
  }
  KF_LOG(INFO) << "peers of this host are to be reached by " << local << ", others by "
               << (set->tcp_.transport ? set->tcp_.transport->name() : "nothing");
  return set;
}

StatusOr<TransportSet::Member*> TransportSet::ToOnLoop(const PeerId& remote) {
  KF_DCHECK(loop_->InLoop());
  if (local_.transport && remote.host == credentials_.self.host) return &local_;
  if (tcp_.transport) return &tcp_;
  return InvalidArgumentError("KUNGFU_TRANSPORT is " + choice_ + ", but peer " + remote.ToString() +
                              " is on another host than we are, " + credentials_.self.ToString() + ": use auto or tcp");
}

Status TransportSet::ListenOnLoop(const std::vector<PeerId>& peers, const AcceptCallback& accept) {
  KF_DCHECK(loop_->InLoop());
  for (const PeerId& peer : peers) {
    if (peer == credentials_.self) continue;
    const StatusOr<Member*> member = ToOnLoop(peer);
    KF_RETURN_IF_ERROR(member.status());
    if ((*member)->listens) continue;
    KF_RETURN_IF_ERROR((*member)->transport->ListenOnLoop(accept));
    (*member)->listens = true;
  }
  return OkStatus();
}

void TransportSet::ConnectOnLoop(const PeerId& remote, Deadline deadline, ConnectCallback done) {
  KF_DCHECK(loop_->InLoop());
  const StatusOr<Member*> member = ToOnLoop(remote);
  if (member.ok()) {
    (*member)->transport->ConnectOnLoop(remote, deadline, std::move(done));
  } else {
    loop_->Post([done = std::move(done), status = member.status()] { done(status); });
  }
}

void TransportSet::CloseOnLoop() {
  KF_DCHECK(loop_->InLoop());
  for (Member* member : {&local_, &tcp_}) {
    if (member->transport) member->transport->CloseOnLoop();
  }
}

}  // namespace kungfu
