// The cores that this process may use.

#pragma once

namespace kungfu {

int CoresOfThisProcess();

}  // namespace kungfu
