// MPI_Allreduce in place, for whichever MPI compiles it.
//
//   mpi REPORT ARRAYS...
//
// ARRAYS as in arrays.h; those that belong together are summed one after the other. Rank 0 writes "KEY SECONDS" to
// REPORT for each.

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/programs/arrays.h"
#include "benchmarks/programs/timing.h"

namespace {

using Values = std::vector<std::vector<float>>;

void Sum(Values* arrays) {
  for (std::vector<float>& values : *arrays) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
}

void Verify(Values* arrays, int rank, int size) {
  for (std::vector<float>& values : *arrays) {
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>((k % 11) * (rank + 1));
  }
  Sum(arrays);
  for (const std::vector<float>& values : *arrays) {
    for (size_t k = 0; k < values.size(); ++k) {
      if (values[k] != static_cast<float>((k % 11) * size * (size + 1) / 2)) MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
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
    const Arrays arrays(argv[i]);
    Values values;
    for (const size_t bytes : arrays.bytes) values.emplace_back(bytes / sizeof(float));
    Verify(&values, rank, size);
    for (std::vector<float>& array : values) std::fill(array.begin(), array.end(), 0.0f);
    const double median = MedianSeconds(arrays.total(), [] {}, [&] { Sum(&values); });
    if (rank == 0) report << arrays.key << ' ' << median << '\n';
  }
  MPI_Finalize();
  return 0;
}
