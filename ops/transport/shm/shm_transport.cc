#include "ops/transport/shm/shm_transport.h"

#include <utility>

#include "ops/base/logging.h"
#include "ops/transport/shm/ring_agreement.h"
#include "ops/transport/socket/stream_transport.h"
#include "ops/transport/socket/unix_family.h"

namespace kungfu {

std::unique_ptr<Transport> MakeShmTransport(EventLoop* loop, const std::string& directory, AddressFamilies elsewhere,
                                            const Credentials& credentials, bool required) {
  const auto scratch = std::make_shared<ReadScratch>();
  const auto said = std::make_shared<bool>(false);
  const auto agree = [loop, scratch, said, required](UniqueFd socket, const PeerId& remote, bool opened_here,
                                                     Deadline deadline, PipeAgreement::Callback done) {
    const auto without = [said, required, remote](const std::string& why) {
      const std::string what = "no shared memory with " + remote.ToString() + ": " + why;
      if (required) return FailedPreconditionError("KUNGFU_TRANSPORT is shm, but there is " + what);
      if (!*said) KF_LOG(WARNING) << "shm: " << what << "; Unix sockets are used";
      *said = true;
      return OkStatus();
    };
    return std::make_unique<RingAgreement>(loop, std::move(socket), opened_here, deadline, scratch, without,
                                           std::move(done));
  };
  return std::make_unique<StreamTransport>(loop, std::make_unique<UnixFamily>(directory, "shm"), std::move(elsewhere),
                                           credentials, agree);
}

}  // namespace kungfu
