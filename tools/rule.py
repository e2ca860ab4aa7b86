"""What the rule scripts share: the list of files, C++ text without comments and strings, and the self-test that plants
violations in a temporary folder and must see each of them. A check takes a root folder and yields lines of complaint."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def tracked(root, *suffixes):
    """The files of git's index and new ones it does not ignore; in a folder without git all files, sorted."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, check=True, capture_output=True)
        names = listed.stdout.decode().split("\0")
        paths = [root / name for name in names if name]
    else:
        paths = [path for path in root.rglob("*")]
    return [p for p in sorted(set(paths)) if p.is_file() and (not suffixes or p.suffix in suffixes)]


def code_only(text):
    """C++ text with comments and the insides of strings blanked, line breaks kept."""
    def blank(match):
        found = match.group(0)
        mark = '""' if found.startswith(('"', "R")) else "''" if found.startswith("'") else ""
        return mark + "\n" * found.count("\n")
    return re.sub(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)


def plant(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main(check, good, bad):
    """Runs `check` on the project; with --self-test on `good` (a dict of name to text, which must pass) and on each of
    `bad` laid over it, which must be red."""
    if sys.argv[1:] == ["--self-test"]:
        for number, files in enumerate([{}, *bad]):
            with tempfile.TemporaryDirectory() as folder:
                plant(pathlib.Path(folder), {**good, **files})
                found = list(check(pathlib.Path(folder)))
            if bool(found) != bool(number):
                sys.exit(f"self-test {number}: {list(files)}: {'nothing was found' if number else found}")
        print(f"{len(bad)} planted violations found")
        return
    found = list(check(ROOT))
    print("\n".join(found) if found else "no violations")
    sys.exit(1 if found else 0)
