// MPI_Allreduce in place, for whichever MPI compiles it.
//
//   mpi REPORT BYTES...
//
// Rank 0 writes "BYTES SECONDS" to REPORT for each size.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/programs/timing.h"

namespace {

void Sum(std::vector<float>* values) {
  MPI_Allreduce(MPI_IN_PLACE, values->data(), static_cast<int>(values->size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// MPICH's shared memory would outlive processes that are killed. Once all of them have it nobody needs its name.
void UnlinkSharedMemory() {
  MPI_Barrier(MPI_COMM_WORLD);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find("/dev/shm/mpich_shm_");
    if (path != std::string::npos) unlink(line.c_str() + path);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  UnlinkSharedMemory();
  std::ofstream report;
  if (rank == 0) report.open(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const size_t bytes = std::stoul(argv[i]);
    std::vector<float> values(bytes / sizeof(float));
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>((k % 11) * (rank + 1));
    Sum(&values);
    for (size_t k = 0; k < values.size(); ++k) {
      if (values[k] != static_cast<float>((k % 11) * size * (size + 1) / 2)) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    std::fill(values.begin(), values.end(), 0.0f);
    const double median = MedianSeconds(bytes, [] {}, [&] { Sum(&values); });
    if (rank == 0) report << bytes << ' ' << median << '\n';
  }
  MPI_Finalize();
  return 0;
}
