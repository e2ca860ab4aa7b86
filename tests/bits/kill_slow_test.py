#!/usr/bin/env python3
"""kill_test.py at two hundred moments. Stopped in the middle it goes on there, as long as the program is the same."""
import os

import kill_test
import tiny_run as t

if __name__ == "__main__":
    os.chdir(t.ROOT)
    kill_test.run(200, kill_test.BUILD / "kill_test_progress.json")
