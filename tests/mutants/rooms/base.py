"""Faults in ops/base/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="max-loses-nan",
        file="ops/base/reduce.cc",
        text="return a > b || IsNan(a) ? a : b;",
        fault="return a > b ? a : b;",
        why="A NaN of one peer does not reach the others: they train on.",
        test="base_test Reduce.",
    ),
    Mutant(
        name="sum-for-a-half-mean",
        file="ops/base/reduce.cc",
        text="for (size_t i = 0; i < size; ++i) wide[i] /= divisor;",
        fault="for (size_t i = 0; i + 1 < size; ++i) wide[i] /= divisor;",
        why="The last float16 of each block is the sum, not the mean.",
        test="base_test Divide.",
    ),
    Mutant(
        name="half-adds-in-half",
        file="ops/base/accumulate.cc",
        text="return grows ? WideOf(dtype).dtype : dtype;",
        fault="return grows && !(is_half && op == ReduceOp::kMean) ? WideOf(dtype).dtype : dtype;",
        why="A mean of float16 is rounded once for each peer, and may overflow.",
        test="collective_test Half.",
    ),
    Mutant(
        name="integers-add-in-their-own-type",
        file="ops/base/accumulate.cc",
        text="const bool grows = op == ReduceOp::kMean ||",
        fault="const bool grows = (is_half && op == ReduceOp::kMean) ||",
        why="The mean of 100 and 100 in int8 is -28.",
        test="collective_test IntegerMeans.",
    ),
    Mutant(
        name="half-rounds-to-zero",
        file="ops/base/float16.cc",
        text="_MM_FROUND_TO_NEAREST_INT",
        fault="_MM_FROUND_TO_ZERO",
        why="float16 gradients are drawn to zero.",
        test="base_test Float16.",
    ),
    Mutant(
        name="norm-is-not-squared",
        file="ops/base/squared_norm.cc",
        text="return static_cast<double>(x) * static_cast<double>(x);",
        fault="return static_cast<double>(x);",
        why="The noise scale is made of plain sums.",
        test="base_test SquaredNorm.",
    ),
    Mutant(
        name="norm-forgets-the-tail",
        file="ops/base/squared_norm.cc",
        text="for (; i < count; ++i) lanes[(first_lane + i) % kLanes] += Square(data[i]);",
        fault=("for (; i + 1 < count; ++i) lanes[(first_lane + i) % kLanes] += Square(data[i]);"),
        why="The norm of a tensor lacks its last element.",
        test="base_test SquaredNorm.",
    ),
    Mutant(
        name="proofs-are-half-compared",
        file="ops/base/hmac.cc",
        text="for (size_t i = 0; i < a.size(); ++i) difference",
        fault="for (size_t i = 0; i < a.size() / 2; ++i) difference",
        why="Half of a proof is enough to join a job.",
        test="base_test Hmac.",
    ),
    Mutant(
        name="quota-is-rounded-down",
        file="ops/base/cores.cc",
        text="(numbers[0] + numbers[1] - 1) / numbers[1]",
        fault="numbers[0] / numbers[1]",
        why="A container of half a core counts as one without a quota.",
        test="base_test Cores.",
    ),
]
