# SPDX-License-Identifier: Apache-2.0
"""part.py TOPIC I N: runs part I of N of the tests in test_TOPIC.py: every Nth test, beginning with the Ith. The tests of a file run
one after the other, so ctest has several entries for a file that takes long, and runs them at the same time."""
import sys
import unittest


def tests_of(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def main():
    topic, part, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    tests = list(tests_of(unittest.defaultTestLoader.loadTestsFromName(f"test_{topic}")))
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(tests[part - 1::parts]))
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
