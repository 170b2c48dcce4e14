"""Which modules have no doctests here: those that need a package that is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["lincode/estimators/torch_module.py"]
