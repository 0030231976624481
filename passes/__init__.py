"""Functions over graphs: analyses find, transforms change, searches choose.

Whoever can run a pass has the fast versions of formats, and the arithmetic of hardware: importing this registers them
(nothing heavy is loaded).
"""

from espalier.kernels.registry import install
from espalier.verilog.emulation.install import install_emulation

install()
install_emulation()
