// The error of a connection whose other end has closed it and said no kBye.

#pragma once

#include "ops/base/status.h"

namespace kungfu {

Status ClosedByPeer();

}  // namespace kungfu
