"""The hardware of the open model: what stands behind the panel Hardware."""
