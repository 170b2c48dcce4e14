"""Without an optional package, the error names the extra that installs it."""

import subprocess
import sys

import pytest

START = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name == {package!r}:
            raise ModuleNotFoundError("No module named " + name)

sys.meta_path.insert(0, NotInstalled())
import numpy as np
import lincode
X = np.random.default_rng(0).standard_normal((30, 4))
scnn = lincode.SCNN(3, density=0.5, random_state=0).fit(X)
try:
    {statement}
except lincode.exceptions.MissingDependencyError as error:
    print(error)
"""
CASES = [
    ("skl2onnx", "lincode.to_onnx(scnn)", "lincode[onnx]"),
    ("skops", "lincode.save(scnn, 'model')", "lincode[skops]"),
    ("skops", "lincode.load('model')", "lincode[skops]"),
    ("safetensors", "lincode.export_sae(scnn.set_params(split_sign=True), '.')", "lincode[sae]"),
    ("pyarrow", "from lincode.cli import import_pyarrow; import_pyarrow()", "lincode[cli]"),
]


@pytest.mark.parametrize(("package", "statement", "extra"), CASES)
def test_the_error_names_the_extra(package: str, statement: str, extra: str) -> None:
    code = START.format(package=package, statement=statement)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install '{extra}'" in out.stdout
