"""The table of mutants fits the tree. Whether they are found, `make mutants` says."""

from __future__ import annotations

import pytest

from tests.mutants.mutant import ROOT, Mutant, rooms

MUTANTS = [mutant for room in rooms().values() for mutant in room]


def test_there_are_many_in_both_languages() -> None:
    cpp = [mutant for mutant in MUTANTS if mutant.part != "python"]
    assert len(MUTANTS) >= 60
    assert 20 <= len(cpp) <= len(MUTANTS) - 20


def test_each_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS] + list(rooms())
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_text_stands_in_its_file_once(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    assert mutant.applied_to(source) != source


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_test_is_there(mutant: Mutant) -> None:
    file, _, rest = mutant.test.partition("::")
    if mutant.tests_in_cpp:
        binary, *words = mutant.test.split()
        sources = (ROOT / "tests" / "cpp" / binary.removesuffix("_test")).rglob("*_test.cc")
        tests = "".join(path.read_text() for path in sources)
        assert all(f"KF_TEST({word.partition('.')[0]}" in tests for word in words)
        return
    functions = [part.partition("[")[0] for part in rest.split("::")]
    text = (ROOT / file).read_text()
    is_case = file.rpartition("/")[2].startswith("cases_")
    name = f"def case_{functions[-1]}(" if is_case else f"def {functions[-1]}("
    assert not rest or (is_case and len(functions) == 1) or name in text


def test_a_text_that_is_not_there_is_an_error() -> None:
    mutant = Mutant("one", "file", "a + b", "a - b", "why", "plan_test Chunks")
    assert mutant.applied_to("x = a + b") == "x = a - b"
    for source in ("x = a", "a + b, a + b"):
        with pytest.raises(ValueError, match="not once"):
            mutant.applied_to(source)
