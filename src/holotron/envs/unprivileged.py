"""Started by root in place of the browser: gives up being root, then becomes the browser.

    python -I -S unprivileged.py UID PROGRAM ARGUMENTS...
    python -I -S unprivileged.py --check UID PROGRAM TEMPORARY    says what stands in the way, if anything does

The process stays the same one, so whoever started it can end it. Its profile, home and temporary folder are the one
folder that it was given for its profile, which nobody else can read. Needs nothing but the standard library.
"""

import os
import sys

PROFILE = "--user-data-dir="


def give_up(uid: int) -> None:
    """For good: nothing leads back."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def hand_over(folder: str, uid: int) -> None:
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(path, name), uid, uid, follow_symlinks=False)
    os.chown(folder, uid, uid)
    os.chmod(folder, 0o700)


def problem(uid: int, program: str, temporary: str) -> str:
    try:
        give_up(uid)
    except (OSError, AttributeError) as error:
        return f"no other user can be had here ({error})"
    if not os.access(program, os.X_OK) or not os.access(os.path.dirname(program), os.R_OK | os.X_OK):
        return f"only root may read {program}; install the browser where everybody can"
    if not os.access(temporary, os.X_OK):  # profiles are made there
        return f"only root may enter {temporary}, the folder for temporary files (TMPDIR)"
    return ""


def main(arguments: list[str]) -> None:
    if arguments[0] == "--check":
        sys.exit(problem(int(arguments[1]), *arguments[2:]) or 0)
    uid, program, *rest = arguments
    for argument in rest:
        if argument.startswith(PROFILE):
            folder = argument.removeprefix(PROFILE)
            hand_over(folder, int(uid))
            os.environ.update(HOME=folder, TMPDIR=folder)
            os.chdir(folder)
    for name in ("PWD", "OLDPWD", "SHLVL", "_"):  # where we were is none of its business
        os.environ.pop(name, None)
    import resource  # which Windows does not have

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # what is in its memory goes into no file
    os.umask(0o077)
    give_up(int(uid))
    os.execv(program, [program, *rest])


if __name__ == "__main__":
    main(sys.argv[1:])
