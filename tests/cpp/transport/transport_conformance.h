// What every transport must do. A new one joins in a file of its own:
//
//   class ShmFixture : public TransportFixture { … };
//   const bool joined = AddConformanceTests("Shm", [] { return std::make_unique<ShmFixture>(); });

#pragma once

#include <string>

#include "tests/cpp/transport/endpoint.h"

namespace kungfu::testing {

// Registers a test "<suite>.<case>" for each case of the contract.
bool AddConformanceTests(const std::string& suite, const FixtureFactory& factory);

// Parts of it.
void AddFrameTests(const std::string& suite, const FixtureFactory& factory);
void AddEndTests(const std::string& suite, const FixtureFactory& factory);

// Registers the function `name`, which takes a fixture, as a case.
#define KF_TRANSPORT_CASE(suite, factory, name) \
  ::kungfu::testing::Register((suite + "." #name).c_str(), [factory] { name(factory().get()); })

}  // namespace kungfu::testing
