"""The kernels, a file each: fast versions, the plain ones they are held to, what they compute and what they move."""
