"""Functions over graphs: analyses find, transforms change, searches choose.

Whoever can run a pass has the fast versions of formats: importing this registers them (nothing heavy is loaded).
"""

from kernels.registry import install

install()
