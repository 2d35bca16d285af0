#include "ops/monitor/traffic_meter.h"

namespace kungfu {

std::vector<TrafficMeter::Rates> TrafficMeter::Update(Clock::time_point now, uint32_t version,
                                                      const std::vector<uint64_t>& sent,
                                                      const std::vector<uint64_t>& received) {
  std::vector<Rates> rates(sent.size());
  MutexLock lock(&mu_);
  if (version < version_) return rates;
  if (version > version_) {
    version_ = version;
    sent_.Restart(now, sent);
    received_.Restart(now, received);
  }
  const std::vector<double> sent_rates = sent_.Update(now, sent);
  const std::vector<double> received_rates = received_.Update(now, received);
  for (size_t i = 0; i < rates.size(); ++i) rates[i] = {sent_rates[i], received_rates[i]};
  return rates;
}

}  // namespace kungfu
