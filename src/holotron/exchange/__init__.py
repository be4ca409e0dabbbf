"""Our suites in other people's frameworks.

    holotron exchange verifiers sites out/holotron-sites --tasks short --seeds 0:20     an installable environment
    holotron exchange harbor sites out/tasks --tasks shop-wish --seeds 0:5              task directories

| file | what |
|---|---|
| `verifiers_package.py` | writes a package by the conventions of verifiers |
| `verifiers_env.py` | what that package is made of; needs verifiers, and is imported by such packages alone |
| `harbor_tasks.py` | writes Harbor task directories; `harbor/computer` is what agents look and act with there |
| `episode_server.py` | one episode behind loopback HTTP, for agents that live in a container with it |
| `names.py` | names that are safe as folders, packages and classes |

The other way, environments of others as suites here, is `holotron.suites.gymnasium` and `holotron.suites.verifiers`.
"""
