// What every transport that listens on a socket must withstand. A new one joins as in transport_conformance.h.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/cpp/transport/socket_fixture.h"

namespace kungfu::testing {

// Registers a test "<suite>.<case>" for each case.
bool AddHostileTests(const std::string& suite, const std::function<std::unique_ptr<SocketFixture>()>& factory);

}  // namespace kungfu::testing
