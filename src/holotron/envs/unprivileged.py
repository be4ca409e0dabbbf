"""Started in place of the browser: gives up being root, where it is, then becomes the browser.

    python -I -S unprivileged.py UID PROGRAM ARGUMENTS...            UID "ourselves": stay who we are
    python -I -S unprivileged.py --check UID PROGRAM TEMPORARY    says what stands in the way, if anything does

The process stays the same one, so whoever started it can end it. Its profile, home and temporary folder are the one
folder that it was given for its profile, which nobody else can read. Needs nothing but the standard library.
"""

import os
import sys

PROFILE = "--user-data-dir="
OURSELVES = "ourselves"
LISTS = ("--enable-features=", "--disable-features=")


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


def joined(arguments: list[str]) -> list[str]:
    """The same with one list of each kind: of several a browser would read the last one alone."""
    rest = [argument for argument in arguments if not argument.startswith(LISTS)]
    for kind in LISTS:
        lists = [argument.removeprefix(kind) for argument in arguments if argument.startswith(kind)]
        if lists:
            rest.insert(0, kind + ",".join(lists))
    return rest


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
    import resource  # which Windows does not have, and a user with nothing cannot read

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # what is in its memory goes into no file
    if uid != OURSELVES:
        become_another(int(uid), rest)
    os.execv(program, [program, *joined(rest)])


def become_another(uid: int, arguments: list[str]) -> None:
    for argument in arguments:
        if argument.startswith(PROFILE):
            folder = argument.removeprefix(PROFILE)
            hand_over(folder, uid)
            os.environ.update(HOME=folder, TMPDIR=folder)
            os.chdir(folder)
    for name in ("PWD", "OLDPWD", "SHLVL", "_"):  # where we were is none of its business
        os.environ.pop(name, None)
    os.umask(0o077)
    give_up(uid)


if __name__ == "__main__":
    main(sys.argv[1:])
