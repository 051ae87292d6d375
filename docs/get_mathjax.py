"""Put MathJax where the site looks for it, from its npm package, so that formulas are drawn without a network."""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "mathjax@3.2.2"
FILE = "tex-svg.js"
PLACE = Path(__file__).parent / "_static" / "mathjax" / FILE

if PLACE.exists():
    sys.exit()
if shutil.which("npm") is None:
    sys.exit(f"npm is not here to fetch {PACKAGE} with: on Debian, apt-get install npm. `make site` does without it.")
with tempfile.TemporaryDirectory() as folder:
    subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (archive,) = Path(folder).glob("*.tgz")
    with tarfile.open(archive) as members:
        source = members.extractfile(f"package/es5/{FILE}")
        assert source is not None
        PLACE.parent.mkdir(parents=True, exist_ok=True)
        PLACE.write_bytes(source.read())
