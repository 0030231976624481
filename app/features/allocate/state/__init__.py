"""An allocation of the open model: what stands behind the panel Allocate."""
