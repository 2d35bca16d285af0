// The transports join the suites.

#include "tests/cpp/transport/hostile_suite.h"
#include "tests/cpp/transport/socket_fixture.h"
#include "tests/cpp/transport/transport_conformance.h"

namespace kungfu::testing {
namespace {

std::unique_ptr<SocketFixture> Tcp4() { return std::make_unique<TcpFixture>("127.0.0.1"); }
std::unique_ptr<SocketFixture> Tcp6() { return std::make_unique<TcpFixture>("::1"); }
std::unique_ptr<SocketFixture> Unix() { return std::make_unique<UnixFixture>(); }
std::unique_ptr<SocketFixture> Shm() { return std::make_unique<ShmFixture>(); }

[[maybe_unused]] const bool joined[] = {
    AddConformanceTests("Tcp4", Tcp4),
    AddHostileTests("Tcp4", Tcp4),
    AddConformanceTests("Unix", Unix),
    AddHostileTests("Unix", Unix),
    AddConformanceTests("Shm", Shm),
    AddHostileTests("Shm", Shm),
    // The same code as Tcp4, but for its addresses.
    kBrief || AddConformanceTests("Tcp6", Tcp6),
    kBrief || AddHostileTests("Tcp6", Tcp6),
};

}  // namespace
}  // namespace kungfu::testing
