"""Arguments of an exported bash script, as bash gives them to the program."""
import os
import subprocess
import tempfile


def arguments(text):
    """Runs the script with torchrun, srun and scontrol that print what they are called with: (nodes, ranks of each,
    script, arguments)."""
    with tempfile.TemporaryDirectory() as folder:
        for name, body in (("torchrun", 'printf "%s\\0" "$@"'), ("scontrol", "echo head"),
                           ("srun", 'shift\n"$@"')):
            path = os.path.join(folder, name)
            with open(path, "w") as file:
                file.write("#!/bin/bash\n%s\n" % body)
            os.chmod(path, 0o755)
        environment = dict(os.environ, PATH=folder + ":" + os.environ["PATH"], SLURM_JOB_NODELIST="a", SLURM_JOB_ID="1",
                           DATA_PATH="/data/text", VOCAB_FILE="/data/vocab")
        done = subprocess.run(["bash", "-c", text], env=environment, capture_output=True, text=True, check=True)
    words = done.stdout.split("\0")[:-1]
    start = next(i for i, word in enumerate(words) if word.endswith(".py"))
    launcher = words[:start]
    nodes = int(launcher[launcher.index("--nnodes") + 1]) if "--nnodes" in launcher else 1
    return nodes * int(launcher[launcher.index("--nproc-per-node") + 1]), words[start], words[start + 1:]


def ranks(line):
    """World size that a launch line starts."""
    words = line.split()

    def after(*names):
        return next((int(words[words.index(n) + 1]) for n in names if n in words), 1)

    return after("--nnodes", "--num_nodes") * after("--nproc-per-node", "--num_gpus")


def stand_ins(*packages):
    """Lets packages that need a GPU be imported where they are not installed: whatever is asked of one is an empty
    class. No parser looks at them."""
    import importlib.machinery
    import importlib.util
    import sys
    import types

    class Empty(types.ModuleType):
        __path__ = []
        __version__ = "0.0"

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {"__init__": lambda self, *a, **k: None})

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.split(".")[0] in packages:
                return importlib.machinery.ModuleSpec(name, Finder, is_package=True)
            return None

        @staticmethod
        def create_module(spec):
            return Empty(spec.name)

        @staticmethod
        def exec_module(module):
            pass

    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    packages = tuple(absent)
    sys.meta_path.append(Finder)
