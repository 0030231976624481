"""Passes over graphs: analyses, transforms, sweeps and searches.

Importing this package registers the fast kernels of formats and the emulation of hardware; it loads nothing heavy.
"""

from espalier.kernels.registry import install
from espalier.verilog.emulation.install import install_emulation

install()
install_emulation()
